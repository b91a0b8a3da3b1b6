"""The split of a run: its clients' samples, how skewed they are, and the file that `partition=from_file` reads. By
gossip, also the graph: who exchanges models with whom, in numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from robustfl_bench.base.console import printable
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.parts.datasets.base import Dataset
from robustfl_bench.parts.partitions import from_file
from robustfl_bench.parts.partitions.dealing import label_counts
from robustfl_bench.parts.protocols.topology import Graph
from robustfl_bench.runner.config import compose
from robustfl_bench.runner.config.options import Search

if TYPE_CHECKING:
    from robustfl_bench.train.clients import Clients

MOST_COLUMNS = 20  # classes of which every client's samples are printed
LONGEST_NAME = 24  # of a class or client, in letters


@dataclass(frozen=True)
class Split:
    """The sample indices of every client with data, ``shards``, and who is Byzantine.

    ``labels`` (N,) are the true classes of all training samples, before any poison, None for data without classes.
    ``byzantine`` are the Byzantine clients among those with data; ``added`` more hold none. ``title`` names the run.
    ``classes`` and ``clients`` are their names where the data give them, else empty.
    """

    title: str
    shards: Sequence[np.ndarray]
    labels: np.ndarray | None
    num_classes: int
    num_samples: int
    byzantine: frozenset[int]
    added: int
    classes: Sequence[str] = ()
    clients: Sequence[str] = ()

    @cached_property
    def sizes(self) -> np.ndarray:
        """Samples of every client, (n,)."""
        return np.array([len(shard) for shard in self.shards])

    @cached_property
    def counts(self) -> np.ndarray:
        """Samples of every client and class, (n, c); no columns for data without classes."""
        if self.labels is None:
            return np.zeros((len(self.shards), 0), dtype=np.int64)
        return label_counts(self.labels, list(self.shards), self.num_classes)

    def csv(self) -> str:
        """The file that ``partition=from_file`` reads; raises ConfigError for data without classes."""
        if self.labels is None:
            raise ConfigError("partition=from_file needs data with classes, and these have none: leave out --output")
        return from_file.text(self.shards, self.labels, self.byzantine)

    def report(self) -> str:
        """A line for every client, and below it what the split is like as a whole."""
        return f"{self._table()}\n{self._summary()}"

    def as_mapping(self) -> dict[str, object]:
        """The split for a program: every client's samples in all and of each class."""
        return {
            "title": self.title,
            "classes": list(self.classes),
            "clients": [
                {
                    "client": client,
                    "name": self.clients[client] if self.clients else None,
                    "byzantine": client in self.byzantine,
                    "samples": size,
                    "of_class": counts,
                }
                for client, (size, counts) in enumerate(zip(self.sizes.tolist(), self.counts.tolist(), strict=True))
            ],
            "attackers_without_samples": self.added,
        }

    def _table(self) -> str:
        shown = self.counts if self.counts.shape[1] <= MOST_COLUMNS else self.counts[:, :0]
        header = ["client", "", "samples", *(_named(self.classes, label) for label in range(shown.shape[1]))]
        rows = [header]
        for client, (size, own) in enumerate(zip(self.sizes, shown, strict=True)):
            kind = "Byzantine" if client in self.byzantine else ""
            rows.append([_named(self.clients, client), kind, str(size), *map(str, own)])
        if self.labels is not None:
            effective, distances = effective_classes(self.counts), distances_from_all(self.counts)
            extra = [f"{a:.1f}  {b:.2f}" for a, b in zip(effective, distances, strict=True)]
            for row, cell in zip(rows, ["classes  TV", *extra], strict=True):
                row.append(cell)
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        return "\n".join(line.rstrip() for line in lines)

    def _summary(self) -> str:
        sizes = self.sizes
        whole = "" if sizes.sum() == self.num_samples else f" of {self.num_samples}"
        lines = [
            f"{self.title}: {sizes.sum()}{whole} samples over {len(sizes)} clients",
            f"sizes: {sizes.min()} to {sizes.max()}, median {np.median(sizes):g}, Gini {gini(sizes):.3f}",
        ]
        if self.labels is not None:
            effective, distances = effective_classes(self.counts), distances_from_all(self.counts)
            lines.append(
                f"label skew: {effective.mean():.2f} effective classes per client (1 / sum of squared shares), total"
                f" variation distance TV {distances.mean():.3f} from all samples, on average"
            )
        return "\n".join([*lines, self._who()])

    def _who(self) -> str:
        """The Byzantine clients in words."""
        if self.byzantine:
            who = sorted(self.byzantine)
            share, names = self.sizes[who].sum() / self.sizes.sum(), ", ".join(map(str, who))
            return f"Byzantine: {len(who)} of {len(self.sizes)} clients with {share:.1%} of the samples: {names}"
        return f"Byzantine: {self.added} clients more, which hold no samples" if self.added else "Byzantine: none"


def _owners(dataset: Dataset, clients: "Clients") -> list[str]:
    """The name that the data have for the owner of each client's samples, where a client has those of one."""
    if not (names := dataset.owner_names) or not clients.parts.partition.by_owner:
        return []
    return [names[clients.owners[samples[0]]] for samples in clients.shards]


def shortened(name: str) -> str:
    """The name of a class or client where there is little room, and without control characters."""
    shown = printable(name)
    return shown if len(shown) <= LONGEST_NAME else f"{shown[: LONGEST_NAME - 3]}..."


def _named(names: Sequence[str], number: int) -> str:
    """The number of a class or client, behind its name if that is another."""
    if not names or names[number] == str(number):
        return str(number)
    return f"{shortened(names[number])} ({number})"


def split_of(overrides: Sequence[str], search: Search) -> Split:
    """The split of the run that ``robustfl-bench OVERRIDES`` makes. Raises ConfigError or DataError."""
    resolved = compose.resolve(overrides, search)
    import torch  # over a second, which a misspelt override need not take

    from robustfl_bench.parts import datasets
    from robustfl_bench.runner.experiment.plan import plan
    from robustfl_bench.train.clients import Clients

    planned = plan(resolved.config)
    s, dataset = planned.settings, planned.parts.dataset
    clients = Clients(s, planned.parts, datasets.load(dataset, s.data_dir, torch.device("cpu")))
    byzantine = clients.byzantine_ids[clients.byzantine_ids < s.num_clients].tolist()
    return Split(
        title=f"{dataset.name}, partition={resolved.choices['partition']}, seed {s.seed}",
        shards=clients.shards,
        labels=None if clients.network.regression else clients.labels,
        num_classes=clients.num_classes,
        num_samples=len(clients.data.train_y),
        byzantine=frozenset(byzantine),
        added=len(clients.byzantine_ids) - len(byzantine),
        classes=dataset.class_names,
        clients=_owners(dataset, clients),
    )


def distances_from_all(counts: np.ndarray) -> np.ndarray:
    """The total variation distance of every client's label distribution from that of all samples, (n,) in [0, 1).

    Half the sum of absolute differences: the share of a client's samples that would have to be of another class.
    """
    apart: np.ndarray = 0.5 * np.abs(_shares(counts) - counts.sum(axis=0) / counts.sum()).sum(axis=1)
    return apart


def effective_classes(counts: np.ndarray) -> np.ndarray:
    """How many equally frequent classes every client's mixture amounts to, (n,): 1 / the sum of its squared shares."""
    found: np.ndarray = 1 / np.square(_shares(counts)).sum(axis=1)
    return found


def gini(sizes: np.ndarray) -> float:
    """The Gini coefficient of sizes (n,): 0 where all are equal, (n - 1) / n where one client has everything."""
    ordered, n = np.sort(sizes), len(sizes)
    return float(2 * (np.arange(1, n + 1) * ordered).sum() / (n * ordered.sum()) - (n + 1) / n)


def _shares(counts: np.ndarray) -> np.ndarray:
    """The rows of counts (n, c) scaled to a sum of 1."""
    shares: np.ndarray = counts / counts.sum(axis=1, keepdims=True)
    return shares


@dataclass(frozen=True)
class Neighbours:
    """The ``graph`` of a run. ``honest`` and ``byzantine`` are the numbers of the clients that are its nodes."""

    title: str
    graph: Graph
    honest: Sequence[int]
    byzantine: Sequence[int]

    @cached_property
    def connectivity(self) -> float:
        """The second smallest eigenvalue of the Laplacian of the honest nodes' graph; 0 for a single node."""
        links = self.graph.honest.astype(np.float64)
        values = np.linalg.eigvalsh(np.diag(links.sum(axis=1)) - links)
        return float(values[1]) if len(values) > 1 else 0.0

    def report(self) -> str:
        """What rules and theorems ask of the graph, a line each."""
        graph = self.graph
        honest, byzantine = graph.honest.sum(axis=1), graph.byzantine.sum(axis=1)
        inside, attackers = graph.weights
        return "\n".join(
            [
                f"{self.title}: {len(self.honest)} honest nodes, {len(self.byzantine)} attackers, {graph.num_links} "
                "messages in a round",
                f"an honest node has {_range(honest)} honest neighbours and {_range(byzantine)} of the attackers",
                f"algebraic connectivity of the honest nodes: {self.connectivity:.4g}",
                f"gossip weights: own {_range(inside.diagonal())}, of all attackers at a node "
                f"{_range(attackers.sum(axis=1))}",
            ]
        )

    def as_mapping(self) -> dict[str, object]:
        """The graph for a program: every link between two clients, and the connectivity."""
        graph, honest, byzantine = self.graph, np.array(self.honest), np.array(self.byzantine, dtype=np.int64)
        inner, outer = np.argwhere(np.triu(graph.honest)), np.argwhere(graph.byzantine)
        links = [
            *honest[inner].tolist(),
            *zip(honest[outer[:, 0]].tolist(), byzantine[outer[:, 1]].tolist(), strict=True),
        ]
        return {
            "title": self.title,
            "honest": honest.tolist(),
            "byzantine": byzantine.tolist(),
            "links": links,
            "algebraic_connectivity": self.connectivity,
        }


def graph_of(overrides: Sequence[str], search: Search) -> Neighbours:
    """The graph of the run that ``robustfl-bench OVERRIDES`` makes. Raises ConfigError or DataError."""
    resolved = compose.resolve(overrides, search)
    import torch  # over a second, which a misspelt override need not take

    from robustfl_bench.parts import datasets
    from robustfl_bench.parts.protocols.gossip import Gossip
    from robustfl_bench.runner.experiment.plan import plan
    from robustfl_bench.train.federation import federation_of
    from robustfl_bench.train.rounds import Rounds

    planned = plan(resolved.config)
    s, protocol = planned.settings, planned.parts.protocol
    if not isinstance(protocol, Gossip):
        raise ConfigError("only gossip has neighbours: add protocol=gossip")
    data = datasets.load(planned.parts.dataset, s.data_dir, torch.device("cpu"))
    rounds = Rounds(federation_of(s, planned.parts, data))
    title = f"topology={protocol.topology}, seed {s.seed}"
    return Neighbours(title, protocol.graph(rounds), rounds.honest_ids.tolist(), rounds.byzantine_ids.tolist())


def _range(numbers: np.ndarray) -> str:
    """The smallest and the largest number: ``2`` or ``2 to 5``."""
    low, high = numbers.min(), numbers.max()
    return f"{low:.3g}" if np.isclose(low, high) else f"{low:.3g} to {high:.3g}"
