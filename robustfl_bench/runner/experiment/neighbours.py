"""The graph of a run by gossip: who exchanges models with whom, in numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.parts.protocols.topology import Graph
from robustfl_bench.runner.config import compose
from robustfl_bench.runner.config.options import Search


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


def made(overrides: Sequence[str], search: Search) -> Neighbours:
    """The graph of the run that ``robustfl-bench OVERRIDES`` makes. Raises ConfigError or DataError."""
    resolved = compose.resolve(overrides, search)
    import torch  # over a second, which a misspelt override need not take

    from robustfl_bench.parts import datasets
    from robustfl_bench.parts.protocols.gossip import Gossip
    from robustfl_bench.runner.experiment.plan import plan
    from robustfl_bench.train.federation import Federation
    from robustfl_bench.train.rounds import Rounds

    planned = plan(resolved.config)
    s, protocol = planned.settings, planned.parts.protocol
    if not isinstance(protocol, Gossip):
        raise ConfigError("only gossip has neighbours: add protocol=gossip")
    data = datasets.load(planned.parts.dataset, s.data_dir, torch.device("cpu"))
    rounds = Rounds(Federation(s, planned.parts, data))
    title = f"topology={protocol.topology}, seed {s.seed}"
    return Neighbours(title, protocol.graph(rounds), rounds.honest_ids.tolist(), rounds.byzantine_ids.tolist())


def _range(numbers: np.ndarray) -> str:
    """The smallest and the largest number: ``2`` or ``2 to 5``."""
    low, high = numbers.min(), numbers.max()
    return f"{low:.3g}" if np.isclose(low, high) else f"{low:.3g} to {high:.3g}"
