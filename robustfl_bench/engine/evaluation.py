"""The metrics of a round: the models on the test set, and the rule's treatment of the clients."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from torch import Tensor

from robustfl_bench.attacks.base import Attack
from robustfl_bench.engine.cohorts import Cohort
from robustfl_bench.engine.federation import Federation
from robustfl_bench.engine.rounds import Trained
from robustfl_bench.numerics.metrics import cluster_recovery, matched_distance, nearest_distance, recall_per_class
from robustfl_bench.numerics.updates import Aggregate

Record = dict[str, float]

WEIGHT_METRICS = ("byzantine_weight", "effective_clients", "byzantine_accepted", "honest_dropped")
COUNTS = 0.01  # a client is accepted if its weight is more than this share of the largest weight


def model_metrics(federation: Federation, params: Tensor, cohorts: Sequence[Cohort]) -> Record:
    """The metrics of the models, each true cluster tested with the model that most of its honest clients trained.

    The samples held out for validation, if any, are used in the same way; like the test set, they are neither corrupted
    nor poisoned.
    """
    users, parts, truth = federation.cohorts.users(cohorts), federation.test_parts, federation.data.truth
    serving = np.where(users.any(axis=1), users.argmax(axis=1), users.sum(axis=0).argmax())
    results = [federation.network.evaluate(params[j], *part) for j, part in zip(serving, parts, strict=True)]
    sizes = np.array([len(y) for _, y in parts])
    record = {"test_loss": float(np.dot(sizes / sizes.sum(), [loss for loss, _ in results]))}
    confusions = [confusion for _, confusion in results if confusion is not None]
    if confusions:
        confusion = np.sum(confusions, axis=0)
        record["test_accuracy"] = float(confusion.diagonal().sum() / confusion.sum())
    record |= _validation_metrics(federation, params, serving)
    if confusions:
        record |= {f"recall_{i}": float(recall) for i, recall in enumerate(recall_per_class(confusion))}
        if len(parts) > 1:
            record |= {f"accuracy_cluster_{i}": float(c.trace() / c.sum()) for i, c in enumerate(confusions)}
    if federation.goal is not None:
        reached = [federation.network.evaluate(params[j], *federation.goal)[1] for j in serving]
        rates = [counts.trace() / counts.sum() for counts in reached if counts is not None]
        record["attack_success_rate"] = float(np.mean(rates))
    if len(parts) > 1 and len(cohorts) > 1:
        record["cluster_recovery"] = cluster_recovery(users) if users.any() else math.nan
    if truth is not None and truth.shape[1] == params.shape[1]:
        record["distance"] = matched_distance(params.cpu(), truth.cpu())
        record["distance_nearest"] = nearest_distance(params.cpu(), truth.cpu())
    return record


def _validation_metrics(federation: Federation, params: Tensor, serving: np.ndarray) -> Record:
    """Loss and, with classes, accuracy on the samples held out, each true cluster with the model that serves it."""
    parts = federation.validation_parts
    if not parts:
        return {}
    results = [federation.network.evaluate(params[j], *part) for j, part in zip(serving, parts, strict=True)]
    sizes = np.array([len(y) for _, y in parts])
    record = {"validation_loss": float(np.dot(sizes / sizes.sum(), [loss for loss, _ in results]))}
    confusions = [confusion for _, confusion in results if confusion is not None]
    if confusions:
        record["validation_accuracy"] = float(sum(c.trace() for c in confusions) / sizes.sum())
    return record


def weight_metrics(models: Sequence[Trained]) -> Record:
    """The weight on Byzantine clients and the effective number of clients (means over models), the number of accepted
    Byzantine clients and of rejected honest ones; only the WEIGHT_METRICS that the rule's aggregate gives."""
    record: Record = {}
    aggregates = [(model.aggregate, model.num_honest) for model in models if model.aggregate is not None]
    weighed = [(a.weights, honest) for a, honest in aggregates if a.weights is not None]
    if weighed:
        record["byzantine_weight"] = sum(float(weights[honest:].sum()) for weights, honest in weighed) / len(weighed)
        record["effective_clients"] = sum(effective_clients(weights) for weights, _ in weighed) / len(weighed)
    accepted = [(mask, honest) for a, honest in aggregates if (mask := _accepted(a)) is not None]
    if accepted:
        record["byzantine_accepted"] = sum(int(mask[honest:].sum()) for mask, honest in accepted)
        record["honest_dropped"] = sum(int((~mask[:honest]).sum()) for mask, honest in accepted)
    return record


def attack_notes(attack: Attack, models: Sequence[Trained]) -> Record:
    """The numbers that the attack reports in a round, per model if there are several; nan if no attacker took part."""
    ends = [""] if len(models) == 1 else [f"_model_{i}" for i in range(len(models))]
    return {
        f"attack_{name}{end}": float(model.notes.get(name, math.nan))
        for end, model in zip(ends, models, strict=True)
        for name in attack.reports
    }


def traffic(federation: Federation, rounds: int) -> Record:
    """Bits that a client sends in the last of ``rounds`` rounds, and that all clients send in all; empty if not
    counted.

    Updates that do not arrive are not counted.
    """
    communication, rule, dim = federation.parts.communication, federation.parts.aggregator, federation.network.dim
    if communication is None:
        return {}
    arrivals = federation.cohorts.arrivals(rounds)
    times, n = Counter(arrivals), arrivals[-1]
    bits = {number: communication.total_bits(rule, number, dim) if number else 0 for number in times}
    each = bits[n] / n if n and bits[n] % n else bits[n] // max(n, 1)
    return {"bits_per_client": each, "bits_total": sum(bits[number] * times[number] for number in times)}


def _accepted(aggregate: Aggregate) -> Tensor | None:
    """The clients that the rule accepted, (n,) bool; None if unknown."""
    if aggregate.accepted is None and aggregate.weights is not None:
        sizes = aggregate.weights.abs()
        return sizes > COUNTS * sizes.max()
    return aggregate.accepted


def effective_clients(weights: Tensor) -> float:
    """``1 / sum of squared weights``, for weights (n,) scaled so that their sizes sum to 1.

    It is n where all are equal, 1 where one client has all the weight, and 0 where nobody has any.
    """
    sizes = weights.abs()
    return float(sizes.sum() ** 2 / sizes.square().sum()) if sizes.any() else 0.0
