"""Principal components of honest updates, aggregates in their plane, and how well BOBA fits its subspace.

Figures of BOBA (Bao et al., AISTATS 2024) show these. With whether what the papers' theory assumes and promises holds
in their own experiments. Each function takes the runs of a figure and returns its points
(``pictures.curves.COLUMNS`` but for low and high).
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import numpy as np
import torch

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.numerics.spectra import principal_axes, principal_variances
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts import datasets
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView
from robustfl_bench.parts.aggregators.boba import Boba
from robustfl_bench.parts.aggregators.brace import Brace
from robustfl_bench.read.pages.pictures.points import CLIENTS
from robustfl_bench.read.runs.statistics import interval
from robustfl_bench.runner.config import compose
from robustfl_bench.runner.experiment.plan import plan
from robustfl_bench.train.federation import Federation, federation_of
from robustfl_bench.train.loop import run
from robustfl_bench.train.metrics.distance import METRICS as DISTANCE
from robustfl_bench.train.rounds import initial_state

Point = dict[str, Any]
Note = TypeVar("Note")
Rule = TypeVar("Rule", bound=Aggregator)


@dataclass(frozen=True)
class ProbedRun:
    """A run of a figure whose rounds are looked into: its overrides by key, and its federation before the first
    round."""

    words: Mapping[str, str]
    federation: Federation

    def first_updates(self) -> Updates:
        """The honest clients' updates of the first round."""
        federation, ids = self.federation, self.federation.clients.honest_ids.tolist()
        state = initial_state(federation).model(0)
        clients, rows = list(range(len(ids))), federation.storage.rows(len(ids))
        return federation.train(federation.honest, clients, ids, "batches", state, rows)


def runs(preset: str, overrides: Sequence[str]) -> Iterator[ProbedRun]:
    """Every run of a preset, one after the other. Raises ConfigError and DataError."""
    for words in compose.sweep([f"+experiment={preset}", *overrides]):
        planned = plan(compose.resolve(words).config)
        data = datasets.load(planned.parts.dataset, planned.settings.data_dir, torch.device("cpu"))
        federation = federation_of(planned.settings, planned.parts, data)
        yield ProbedRun(dict(word.split("=", 1) for word in words), federation)


def spectrum(probed_runs: Iterable[ProbedRun]) -> Iterator[Point]:
    """Figs. 1 and 13: variances of the honest updates along their principal components.

    The name of a line ends in the share of the variance in the first c - 1 components, for c classes.
    """
    for probed in probed_runs:
        variances = principal_variances(probed.first_updates())
        inside = variances[: probed.federation.clients.num_classes - 1].sum() / variances.sum()
        kind = [probed.words[key] for key in ("local_update", "partition") if key in probed.words]
        line = f"{', '.join([*kind, ''])}{inside:.1%}"
        for component, variance in enumerate(variances.tolist(), start=1):
            yield {"value": "variance", "panel": "", "line": line, "x": component, "mean": variance}


def plane(probed_runs: Iterable[ProbedRun]) -> Iterator[Point]:
    """Fig. 2: the first aggregates in the plane of the honest updates' first two components, a plane for each seed."""
    known: dict[str, tuple[Updates, torch.Tensor]] = {}
    for probed in probed_runs:
        seed = probed.words["seed"]
        if seed not in known:
            honest = probed.first_updates()
            known[seed] = honest, principal_axes(honest, 2)
            for x, y in ((honest.matrix - honest.matrix.mean(dim=0)) @ known[seed][1].T).tolist():
                yield {"value": "place", "panel": "", "line": CLIENTS, "x": x, "mean": y}
        honest, axes = known[seed]
        state, _ = next(run(probed.federation, initial_state(probed.federation)))
        assert state.previous is not None
        x, y = (axes @ (state.previous[0] - honest.matrix.mean(dim=0))).tolist()
        panel = "no attack" if probed.words["attack"] == "none" else "under attack"
        yield {"value": "place", "panel": panel, "line": probed.words["aggregator"], "x": x, "mean": y}


class Watched(Aggregator, Generic[Rule, Note]):
    """A rule whose rounds are looked into: ``notes`` holds by round what ``look`` saw, before the rule answered."""

    exempt = MappingProxyType({"memory": "takes notes"})

    def __init__(self, rule: Rule, look: Callable[[Rule, Updates, ServerView], Note]) -> None:
        self.rule, self.look = rule, look
        self.notes: dict[int, Note] = {}

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        self.notes[server.round] = self.look(self.rule, updates, server)
        return self.rule(updates, server)


def watched(probed: ProbedRun, kind: type[Rule], look: Callable[[Rule, Updates, ServerView], Note]) -> dict[int, Note]:
    """What ``look`` sees in each round of a run, from 1. Raises ConfigError unless the rule is one of ``kind``."""
    rule = probed.federation.parts.aggregator
    if not isinstance(rule, kind):
        raise ConfigError(f"this figure is of aggregator={kind.__name__.lower()}, got {type(rule).__name__}")
    watching = Watched(rule, look)
    federation = replace(probed.federation, parts=replace(probed.federation.parts, aggregator=watching))
    for _ in run(federation, initial_state(federation)):
        pass
    return {number + 1: note for number, note in watching.notes.items()}


def fit(probed_runs: Iterable[ProbedRun]) -> Iterator[Point]:
    """Fig. 5: trimmed reconstruction loss of BOBA as a multiple of BOBA-ES's, round by round of BOBA's own run."""

    def ratio(rule: Boba, updates: Updates, server: ServerView) -> float:
        return rule.trimmed_loss(updates, server) / replace(rule, fit="exhaustive").trimmed_loss(updates, server)

    for probed in probed_runs:
        for number, mean in watched(probed, Boba, ratio).items():
            yield {"value": "ratio", "panel": "", "line": probed.words["attack"], "x": number, "mean": mean}


SHOWN = (1, 2, 5, 10, 20, 50, 100, 200, 500)
"""The rounds in which votes are shown."""


def num_fits(rule: Boba, updates: Updates, server: ServerView) -> int:
    """The number of times that BOBA fits its subspace to clients in a round.

    The fit to the server's class updates, from which it starts, does not count.
    """
    gram = updates.joint_gram(server.class_updates).cpu().numpy()
    before = replace(rule, fit="server")._subspace(gram, updates.n)
    for number in range(rule.max_iter):
        after = replace(rule, max_iter=number + 1)._subspace(gram, updates.n)
        if np.array_equal(before.origin, after.origin):  # of the same clients
            return number
        before = after
    return rule.max_iter


def fits(probed_runs: Iterable[ProbedRun]) -> Iterator[Point]:
    """BOBA, section 4.3: the share of the rounds by the number of fits; the name of a line ends in their mean."""
    for probed in probed_runs:
        counts = Counter(watched(probed, Boba, num_fits).values())
        mean = sum(number * rounds for number, rounds in counts.items()) / counts.total()
        line = f"{probed.words['attack']}, {mean:.2f}"
        for number, rounds in sorted(counts.items()):
            yield {"value": "rounds", "panel": "", "line": line, "x": number, "mean": rounds / counts.total()}


def search(probed_runs: Iterable[ProbedRun]) -> Iterator[Point]:
    """BOBA, section 6: seconds of BOBA's rule and of the exhaustive search's on the same updates, round by round."""

    def seconds(rule: Boba, updates: Updates, server: ServerView) -> dict[str, float]:
        assert len(server.class_updates)  # whose training is not measured
        spent = {}
        for name, timed in {"BOBA": rule, "BOBA-ES": replace(rule, fit="exhaustive")}.items():
            alike = Updates(updates.matrix)  # without the inner products, which each computes
            begun = time.perf_counter()
            timed(alike, server)
            spent[name] = time.perf_counter() - begun
        return spent

    for probed in probed_runs:
        for number, spent in watched(probed, Boba, seconds).items():
            for name, mean in spent.items():
                line = f"{name}, {probed.words['attack']}"
                yield {"value": "seconds", "panel": "", "line": line, "x": number, "mean": mean}


def vote_shares(rule: Brace, updates: Updates, honest: torch.Tensor) -> dict[str, float]:
    """The shares of the coordinates whose vote is above the threshold, whose outcome has the sign of the ``honest``
    clients' mean, and whose outcome the honest votes settle whatever all others send; ``honest`` (n,) is bool."""
    rows = updates.matrix[honest]
    outcome, honest_votes, others = rule.consensus(updates.votes), rows.sign().sum(dim=0), updates.n - len(rows)
    shares = {
        "vote above the threshold": updates.votes > rule.threshold,
        "outcome as the honest mean": outcome == rows.mean(dim=0).sign(),
        "settled by honest votes": rule.consensus(honest_votes - others) == rule.consensus(honest_votes + others),
    }
    return {name: float(share.double().mean()) for name, share in shares.items()}


def votes(probed_runs: Iterable[ProbedRun]) -> Iterator[Point]:
    """BRACE, Theorem 1: ``vote_shares`` in some rounds."""
    for probed in probed_runs:
        byzantine = torch.from_numpy(probed.federation.clients.byzantine_ids)

        def shares(
            rule: Brace, updates: Updates, server: ServerView, byzantine: torch.Tensor = byzantine
        ) -> dict[str, float]:
            assert server.clients is not None
            return vote_shares(rule, updates, ~torch.isin(server.clients, byzantine))

        for number, seen in watched(probed, Brace, shares).items():
            for name, mean in seen.items():
                if number in SHOWN:
                    line = probed.words["+threat"].rpartition("/")[2]
                    yield {"value": "share", "panel": name, "line": line, "x": number, "mean": mean}


def rates(probed_runs: Iterable[ProbedRun]) -> Iterator[Point]:
    """BRIFCA, Theorems 5.11 and 5.13: the distance from the truth by the one setting that varies, with the 95% interval
    of its mean. The name of a line ends in the slope of its logarithms, with the interval over the seeds."""
    ended = [(probed.words, distance(probed)) for probed in probed_runs]
    varied = [key for key in ended[0][0] if len({words[key] for words, _ in ended}) > 1]
    others = [key for key in varied if key not in ("aggregator", "seed")]
    if len(others) != 1 or "seed" not in varied:
        raise ConfigError(
            f"this figure varies the seed, the aggregator and one other setting, got {', '.join(varied) or 'nothing'}"
        )
    by_rule: dict[str, dict[str, dict[float, float]]] = {}
    for words, error in ended:
        by_rule.setdefault(words["aggregator"], {}).setdefault(words["seed"], {})[float(words[others[0]])] = error
    for name, by_seed in by_rule.items():
        slope = interval([slope_of(errors) for errors in by_seed.values()])
        assert slope is not None
        line = f"{name}, {slope.mean:.2f} ({slope.low:.2f} to {slope.high:.2f})"
        for x in sorted(next(iter(by_seed.values()))):
            mean = interval([errors[x] for errors in by_seed.values()])
            assert mean is not None
            yield {"value": "distance", "panel": "", "line": line, "x": x, **asdict(mean)}


def distance(probed: ProbedRun) -> float:
    """The distance of the last models from the truth."""
    *_, (_, row) = run(probed.federation, initial_state(probed.federation), metrics=DISTANCE)
    assert row is not None
    return float(row["distance"])


def slope_of(errors: Mapping[float, float]) -> float:
    """The slope of the straight line through the logarithms of errors by the logarithms of their places."""
    return float(np.polyfit(np.log(list(errors)), np.log(list(errors.values())), 1)[0])


KINDS: dict[str, Callable[[Iterable[ProbedRun]], Iterator[Point]]] = {
    "spectrum": spectrum,
    "plane": plane,
    "fit": fit,
    "fits": fits,
    "search": search,
    "votes": votes,
    "rates": rates,
}
"""By what ``draw`` of the figure says."""
