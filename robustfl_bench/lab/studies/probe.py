"""Principal components of honest updates, aggregates in their plane, and how well BOBA fits its subspace.

Figures of BOBA (Bao et al., AISTATS 2024) show these. Each function takes the runs of a figure and returns its points
(``pictures.curves.COLUMNS`` but for low and high).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import torch

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.numerics.spectra import principal_axes, principal_variances
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts import datasets
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView
from robustfl_bench.parts.aggregators.boba import Boba
from robustfl_bench.read.pages.pictures.points import CLIENTS
from robustfl_bench.runner.config import compose
from robustfl_bench.runner.experiment.plan import plan
from robustfl_bench.train.federation import Federation, federation_of
from robustfl_bench.train.loop import run
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


KINDS: dict[str, Callable[[Iterable[ProbedRun]], Iterator[Point]]] = {"spectrum": spectrum, "plane": plane, "fit": fit}
"""By what ``draw`` of the figure says."""
