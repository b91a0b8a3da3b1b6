"""An evaluated round, as the metrics see it. Its models are tested on first access, once for all metrics."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from torch import Tensor

from robustfl_bench.numerics.metrics import recall_per_class
from robustfl_bench.parts.protocols.state import Cohort, Round, State
from robustfl_bench.train.federation import Federation

Record = dict[str, float]
"""A row of metrics.csv."""


@dataclass(frozen=True)
class Tested:
    """The mean loss on samples in parts, and with classes the share of correct predictions, the recall of every class,
    and for each part the counts (c, c) of predictions, true classes in the rows."""

    loss: float
    accuracy: float | None
    recall: tuple[float, ...]
    confusions: tuple[np.ndarray, ...]


def on_test_set(federation: Federation, params: Tensor, cohorts: Sequence[Cohort]) -> Tested:
    """The test of the models (k, d) on the test set, which is neither corrupted nor poisoned."""
    return _tested(federation, params, cohorts, federation.clients.test_parts)


def on_validation_set(federation: Federation, params: Tensor, cohorts: Sequence[Cohort]) -> Tested | None:
    """The same on the samples held out for validation, None if there are none."""
    parts = federation.clients.validation_parts
    return _tested(federation, params, cohorts, parts) if parts else None


def on_goal(federation: Federation, params: Tensor, cohorts: Sequence[Cohort]) -> float | None:
    """The share of the attackers' goal samples that are classified as they want, None without a goal."""
    if federation.clients.goal is None:
        return None
    models = _serving(federation, cohorts)
    reached = [federation.network.evaluate(params[model], *federation.clients.goal)[1] for model in models]
    return float(np.mean([counts.trace() / counts.sum() for counts in reached if counts is not None]))


def _serving(federation: Federation, cohorts: Sequence[Cohort]) -> np.ndarray:
    """The model of each true cluster, (K,): the one that most of its honest clients train."""
    counts = users(federation, cohorts)
    models: np.ndarray = np.where(counts.any(axis=1), counts.argmax(axis=1), counts.sum(axis=0).argmax())
    return models


def users(federation: Federation, cohorts: Sequence[Cohort]) -> np.ndarray:
    """The number of honest clients of each true cluster that train each model, (K, k); without clusters, K = 1."""
    clients = federation.clients
    counts = np.zeros((len(clients.test_parts), len(cohorts)), dtype=np.int64)
    for model, cohort in enumerate(cohorts):
        ids = clients.honest_ids[cohort.honest]
        np.add.at(counts[:, model], np.zeros_like(ids) if clients.clusters is None else clients.clusters[ids], 1)
    return counts


def _tested(
    federation: Federation, params: Tensor, cohorts: Sequence[Cohort], parts: Sequence[tuple[Tensor, Tensor]]
) -> Tested:
    """The test on the samples of each true cluster, with the model that serves it."""
    pairs = zip(_serving(federation, cohorts), parts, strict=True)
    results = [federation.network.evaluate(params[model], *part) for model, part in pairs]
    sizes = np.array([len(y) for _, y in parts])
    loss = float(np.dot(sizes / sizes.sum(), [loss for loss, _ in results]))
    confusions = tuple(confusion for _, confusion in results if confusion is not None)
    if not confusions:
        return Tested(loss, None, (), ())
    whole = np.sum(confusions, axis=0)
    return Tested(loss, float(whole.trace() / whole.sum()), tuple(recall_per_class(whole).tolist()), confusions)


@dataclass(frozen=True)
class Evaluation:
    """A round of a federation that gets a record, and the state after it."""

    federation: Federation
    state: State
    round: Round

    @property
    def clients_drop_out(self) -> bool:
        """Whether updates can be missing, so that a round may leave all models unchanged."""
        return self.federation.parts.availability is not None

    @cached_property
    def test(self) -> Tested:
        """The test of the models on the test set."""
        return on_test_set(self.federation, self.state.params, self.round.cohorts)

    @cached_property
    def validation(self) -> Tested | None:
        """The test of the models on the samples held out for validation."""
        return on_validation_set(self.federation, self.state.params, self.round.cohorts)
