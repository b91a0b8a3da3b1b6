"""Functions that check the promises of a part, for the parts of this package and for your own.

A check returns None or raises an AssertionError. Its message, one line, names the part, the promise and the input.
"""

import copy
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, wraps
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base.abilities import overrides
from robustfl_bench.base.contained import varying_within
from robustfl_bench.base.errors import BrokenContract, ConfigError, DataError
from robustfl_bench.base.seeding import GlobalGenerators
from robustfl_bench.numerics.neighbourhoods import Neighbourhoods
from robustfl_bench.numerics.questions import Questions
from robustfl_bench.numerics.updates import Aggregate, Updates, mean_row
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView
from robustfl_bench.parts.aggregators.secure_sum import SecureSum
from robustfl_bench.parts.aggregators.weighted import Weighted
from robustfl_bench.parts.attacks.base import Attack, AttackView, Crafted, Shard
from robustfl_bench.parts.datasets import load
from robustfl_bench.parts.datasets.base import Dataset, Scaling
from robustfl_bench.parts.partitions.base import Partition
from robustfl_bench.parts.protocols.base import Protocol, Setup
from robustfl_bench.parts.protocols.state import State
from robustfl_bench.runner.config import compose, identity, targets
from robustfl_bench.train.contract import (
    aggregate_fault,
    alike,
    crafted_fault,
    dealt,
    nodes_fault,
    protocol_fault,
    state_fault,
    vectors_fault,
)
from robustfl_bench.train.federation import Federation, federation_of
from robustfl_bench.train.parts import FOLLOWING, GROUPS, Parts
from robustfl_bench.train.rounds import initial_state, step
from robustfl_bench.train.settings import SCALARS, Settings

PROMISES = {
    "order": "the aggregate does not depend on the order of the clients",
    "unanimous": "clients who agree get what they send",
    "translation": "adding a vector to all updates, the server's and the last aggregate too, adds it to the aggregate",
    "scale": "multiplying all updates, the server's and the last aggregate too, multiplies the aggregate",
    "robust": "f attackers, whatever they send, move the aggregate at most 2 (n - f) / (n - 2 f) times as far from the "
    "honest mean as the farthest honest update is; training can still fail",
    "memory": "what lasts from round to round is returned as memory, none is kept on the rule",
}
ATTACK_PROMISES = {
    "finite": "all numbers that attackers send are finite",
    "memory": "what lasts from round to round is returned as memory, none is kept on the attack",
}
PROTOCOL_PROMISES = {
    "memory": "what lasts from round to round is in the state, so that a stored state goes on to the same bits",
    "paired": "the honest clients of a round depend on neither attack nor rule",
}
Check = TypeVar("Check", bound=Callable[..., None])
LAYOUTS = ("first", "last", "mixed")
ATTACKERS = ("identical", "opposite", "ladder", "scattered")
MAGNITUDES = (1e-41, 1e-20, 1.0, 1e10, 1e20, 1e30, 3e38)
FACTORS = (2.0**-136, 2.0**-60, 2.0**-20, 2.0**20, 2.0**60, 2.0**120)
LARGEST = float(np.finfo(np.float32).max)


def example_server(class_updates: Tensor, step_size: float = 0.1, seed: int = 0, clients: int = 20) -> ServerView:
    """A server whose loss is ``|params - target|^2 / 2``, with ``target`` such that its update is the mean of
    ``class_updates`` (c, d). Clients report a loss of 0."""
    update = mean_row(class_updates)
    params = torch.zeros_like(update)

    def loss(models: Tensor) -> Tensor:
        return (models.double() + update.double()).square().sum(dim=1) / 2

    return ServerView(
        params=params,
        step_size=step_size,
        round=0,
        rng=np.random.default_rng(seed),
        previous=None,
        clients=torch.arange(clients),
        counts=torch.ones(clients, dtype=torch.float64),
        memory={},
        after=lambda vector: params - step_size * vector,
        losses_of=lambda params, clients: torch.zeros(len(clients), dtype=torch.float64),
        train_per_class=lambda: class_updates,
        train_together=lambda: update,
        loss=loss,
        gradient=lambda model: model + update,
    )


def example_round(
    seed: int, honest: int = 17, wild: int = 3, classes: int = 4, d: int = 50, scale: float = 10.0
) -> tuple[Updates, ServerView]:
    """A round under label skew: honest updates are noisy mixtures of class directions, the first ``wild`` rows are
    attacks.

    Clients have one or two classes; the attackers send ``-scale`` times the honest mean with a little noise.
    """
    rng = np.random.default_rng(seed)
    corners = rng.normal(size=(classes, d)) * 2 + rng.normal(size=d)
    mixtures = np.zeros((honest, classes))
    for row in mixtures:
        np.add.at(row, rng.integers(classes, size=2), 0.5)
    updates = mixtures @ corners + 0.1 * rng.normal(size=(honest, d))
    attacks = -scale * updates.mean(axis=0) + 0.1 * rng.normal(size=(wild, d))
    matrix = torch.from_numpy(np.concatenate([attacks, updates])).float()
    class_updates = torch.from_numpy(corners + 0.2 * rng.normal(size=(classes, d))).float()
    return Updates(matrix), example_server(class_updates, seed=seed, clients=honest + wild)


def _draws_from_streams(check: Check) -> Check:
    """The check, which also fails for a part that uses a global random generator, or what differs from process to
    process, or that writes into what it is given."""

    @wraps(check)
    def checked(part: Any, *given: Any, **named: Any) -> None:
        before, file = GlobalGenerators(), getattr(sys.modules.get(type(part).__module__), "__file__", None)
        try:
            with varying_within([Path(file)] if file else []) as varying:
                check(part, *given, **named)
        except BrokenContract as error:
            raise AssertionError(f"{type(part).__name__}: untouched: {error}") from error
        finally:  # also where draws made it fail
            drawn = " and ".join([*before.drawn(), *sorted(varying)])
            _require(not drawn, part, "deterministic", f"it uses {drawn}, not the stream that it is given")

    return cast(Check, checked)


# --- aggregators -----------------------------------------------------------------------------------------------------


@_draws_from_streams
@np.errstate(over="ignore", invalid="ignore")  # attackers send the largest numbers that there are
def check_aggregator(rule: Aggregator, num_byzantine: int = 3, clients: int = 20) -> None:
    """Check the promises of every rule, and all of PROMISES that the rule's ``exempt`` does not name with a reason.

    ``rule`` must be configured for ``num_byzantine`` attackers. It is tested with ``clients`` clients, and with 2f + 3
    unless it raises ConfigError for that number. Every rule returns a finite float32 vector (d,), does not change the
    updates and gives the same result for the same input. What its kind's table calls a form of ``aggregate`` gives the
    same: answers to questions of attackers, the aggregate from a sum, at all nodes that gossip, and with clients of
    equal weight. Promises hold in the first round and after others: they are also checked with a last aggregate.
    """
    exempt = _exempt(rule, PROMISES)
    held = _attributes(rule)
    for n in sorted({2 * num_byzantine + 3, clients}):
        try:
            rule.check(n)
            rule(*example_round(0, n - num_byzantine, num_byzantine))
        except ConfigError as error:
            _require(n < clients, rule, "clients", f"refuses {n} clients ({error}); pass more clients")
        else:
            _check_with(rule, exempt, n, num_byzantine)
    _check_questions(rule, clients, num_byzantine)
    for n in (1, 2):
        updates, view = example_round(0, n, 0)
        try:
            aggregate = rule(updates, view)
        except ConfigError:
            continue
        _require_aggregate(rule, aggregate, updates, f"n={n}")
    _require_stateless(rule, held)


def _check_with(rule: Aggregator, exempt: Mapping[str, str], n: int, f: int) -> None:
    updates, server = example_round(1, n - f, f, scale=1.0)
    # Numbers with few digits, so that multiplying them by powers of 2 is exact down to the smallest float32 numbers.
    matrix, classes = (torch.round(rows * 256) / 256 for rows in (updates.matrix, server.class_updates))
    before, same = matrix.clone(), Updates(matrix)
    first = rule(same, example_server(classes, clients=n))
    _require(torch.equal(matrix, before), rule, "untouched", f"it writes into the updates, n={n}")
    again = rule(Updates(matrix.clone()), example_server(classes, clients=n))
    _require_aggregate(rule, first, same, f"n={n}")
    _require(torch.equal(first.vector, again.vector), rule, "deterministic", f"the same input gives two results, n={n}")
    _check_mixed(rule, matrix, classes)
    for form, check in FORMS.items():
        if overrides(rule, form):
            check(rule, matrix, classes)
    second = replace(example_server(classes, clients=n), round=1, previous=first.vector, memory=first.memory or {})
    _require_aggregate(rule, rule(Updates(matrix), second), same, f"round 2, n={n}")
    for last, when in ((None, f"n={n}"), (matrix[f], f"n={n}, after a round whose aggregate was an honest update")):
        _check_promises(rule, exempt, matrix, classes, f, last, when)


def _check_promises(
    rule: Aggregator,
    exempt: Mapping[str, str],
    matrix: Tensor,
    classes: Tensor,
    f: int,
    last: Tensor | None,
    when: str,
) -> None:
    """Check all of PROMISES but the exempt ones on ``matrix`` (n, d), whose first f rows attack; ``last`` (d,) is the
    last aggregate, which is moved and scaled like the updates."""
    n = len(matrix)
    counts = torch.arange(1.0, n + 1, dtype=torch.float64)

    def ask(rows: Tensor, served: Tensor, last: Tensor | None, order: Tensor | None = None) -> Aggregate:
        order = torch.arange(n) if order is None else order
        view = replace(example_server(served, clients=n), clients=order, counts=counts, previous=last)
        return rule(Updates(rows[order], counts[order]), view)

    def close(got: Tensor, wanted: Tensor, tolerance: float) -> bool:
        return bool((got.double() - wanted.double()).norm() <= tolerance)

    result = ask(matrix, classes, last).vector
    size = float(result.double().norm()) + float(matrix.double().norm(dim=1).median())
    if "order" not in exempt:
        order = torch.from_numpy(np.random.default_rng(0).permutation(n))
        kept = close(ask(matrix, classes, last, order).vector, result, 1e-4 * size)
        _require(kept, rule, "order", f"a random order, {when}")
    if "unanimous" not in exempt:
        for scale in (1e-38, 1.0, 1e30, 3e38):
            vector = torch.linspace(-1, 1, matrix.shape[1]) * scale
            other = None if last is None else vector.flip(0)
            returned = ask(vector.repeat(n, 1), classes, other).vector
            hint = "" if returned.isfinite().all() else "; the sum of their float32 numbers overflows: add in float64"
            alike = close(returned / scale, vector / scale, 1e-4)
            _require(alike, rule, "unanimous", f"all clients send one vector of size {scale:g}, {when}{hint}")
    if "translation" not in exempt:
        shift = torch.linspace(-3, 5, matrix.shape[1])
        moved = ask(matrix + shift, classes + shift, None if last is None else last + shift).vector
        _require(close(moved, result + shift, 1e-3 * size), rule, "translation", f"a shift of 3 to 5, {when}")
    if "scale" not in exempt:
        for factor in FACTORS:
            scaled = ask(matrix * factor, classes * factor, None if last is None else last * factor).vector
            tolerance = 1e-4 * size + 2.0**-148 / factor * matrix.shape[1] ** 0.5  # the spacing of float32 near 0
            equal = close(scaled.double() / factor, result, tolerance)
            _require(equal, rule, "scale", f"all updates times {factor:g}, {when}")
    for rows, honest, case in attacked_rounds(matrix[f:], f):
        aggregate = rule(Updates(rows), replace(example_server(classes, clients=n), previous=last))
        _require_aggregate(rule, aggregate, Updates(rows), f"{case}, {when}")
        if "robust" not in exempt:
            moved_by = honest_radii(aggregate.vector, rows[honest], n, f)
            _require(moved_by <= 1, rule, "robust", f"{moved_by:.2g} honest radii away: {case}, {when}")


def _check_questions(rule: Aggregator, n: int, f: int) -> None:
    """Check that the answers of ``aggregate_many`` to attackers' questions are those of asking one by one.

    They may differ by a millionth of the largest honest update, or of the answer if it is larger.
    """
    updates, server = example_round(2, n - f, 0)
    honest, generator = updates.matrix, torch.Generator().manual_seed(0)
    sizes, counts = torch.tensor([-3, 0.5, 1e-3, 3e2, 1e20])[:, None, None], torch.ones(n, dtype=torch.float64)
    for rows in sorted({1, f} - {0}):
        candidates = sizes * (mean_row(honest) + torch.randn(len(sizes), rows, updates.d, generator=generator))
        questions = Questions(Updates(honest), candidates, counts)

        def view() -> ServerView:
            clients = torch.arange(n)
            return replace(server, rng=np.random.default_rng(0), clients=clients, counts=counts, previous=honest[0])

        answers = rule.aggregate_many(questions, view)
        fault = vectors_fault(answers, questions)
        _require(not fault, rule, "questions", f"{fault}: {len(sizes)} questions, {rows} rows each")
        for candidate, answer in zip(candidates, answers, strict=True):
            alone = rule(Updates(torch.cat([honest, candidate.expand(f or 1, -1)[:f]]), counts), view()).vector
            size = max(float(alone.double().norm()), float(honest.double().norm(dim=1).max()))
            close = bool((answer.double() - alone.double()).norm() <= 1e-6 * size)
            _require(close, rule, "questions", f"aggregate_many and aggregate differ, {rows} rows for {f} attackers")


def _check_sum(rule: Aggregator, matrix: Tensor, classes: Tensor) -> None:
    """Check that a rule gives the aggregate from the sum of messages, each of one client alone, if it can at all."""
    if rule.from_sum() is not None:
        counts = torch.arange(1.0, len(matrix) + 1, dtype=torch.float64)
        same = _is_same(rule, SecureSum(rule), Updates(matrix, counts), classes)
        _require(same, rule, "sum", f"from_sum and aggregate differ, n={len(matrix)}")


def _check_weighted(rule: Aggregator, matrix: Tensor, classes: Tensor) -> None:
    """Check that clients of equal sample counts give the aggregate in which they do not count by these."""
    updates = Updates(matrix, torch.full((len(matrix),), 7.0, dtype=torch.float64))
    same = _is_same(rule, Weighted(rule), updates, classes)
    _require(same, rule, "weights", f"equal counts change the aggregate, n={updates.n}")


def _is_same(rule: Aggregator, form: Aggregator, updates: Updates, classes: Tensor) -> bool:
    """Whether a rule and another form of it give nearly the same aggregate."""
    made, wanted = (each(updates, example_server(classes, clients=updates.n)) for each in (form, rule))
    _require_aggregate(rule, made, updates, f"{type(form).__name__}, n={updates.n}")
    difference, size = (vector.double().norm() for vector in (made.vector - wanted.vector, wanted.vector))
    return bool(difference <= 1e-5 * size)


def _check_nodes(rule: Aggregator, matrix: Tensor, classes: Tensor) -> None:
    """Check that a rule gives the same at all nodes that gossip at once as at each node, each a neighbour of the next
    two."""
    nodes = torch.arange(h := len(matrix))
    receiver, source = nodes.repeat_interleave(2), torch.stack([nodes + 1, nodes + 2], dim=1).flatten() % h
    weights = torch.full((2 * h,), 0.25, dtype=torch.float64)
    round_of_all = Neighbourhoods(matrix, matrix, receiver, source, weights, 2 * weights[:h])
    found = rule.aggregate_nodes(round_of_all)
    fault = nodes_fault(found, matrix)
    _require(not fault, rule, "nodes", f"{fault}: {h} nodes")
    for node, row in enumerate(() if found is None else found):
        updates = round_of_all.at(node)
        wanted = rule(updates, example_server(classes, clients=updates.n)).vector
        close = bool((row.double() - wanted.double()).norm() <= 1e-5 * updates.norms.max())
        _require(close, rule, "nodes", f"aggregate_nodes and aggregate differ, node {node} of {h}")


FORMS: Mapping[str, Callable[[Aggregator, Tensor, Tensor], None]] = {
    "from_sum": _check_sum,
    "ring": _check_sum,
    "aggregate_weighted": _check_weighted,
    "aggregate_nodes": _check_nodes,
}
"""The checks of forms of ``aggregate``, beside ``aggregate_many``, which every rule has."""


def _check_mixed(rule: Aggregator, matrix: Tensor, classes: Tensor) -> None:
    """Check the aggregate of means of pairs of clients, unless the rule raises ConfigError for them."""
    n = len(matrix)
    mixing = torch.zeros((n + 1) // 2, n, dtype=torch.float64)
    mixing[torch.arange(n) // 2, torch.arange(n)] = 1
    mixed, case = Updates(matrix).mix(mixing / mixing.sum(dim=1, keepdim=True)), f"means of pairs of {n} clients"
    try:
        rule.check_mixed(mixed.n)
    except ConfigError:
        return
    aggregate = rule(mixed, replace(example_server(classes, clients=n), clients=None))
    _require_aggregate(rule, aggregate, Updates(matrix), case)


def attacked_rounds(honest: Tensor, f: int, seed: int = 0) -> Iterator[tuple[Tensor, Tensor, str]]:
    """Rounds (n, d) of the ``honest`` updates (n - f, d) and f attackers, the mask (n,) of honest rows, and a
    description.

    Covers all LAYOUTS and ATTACKERS at all MAGNITUDES. ``opposite`` attackers send v and -v in turn, ``ladder``
    attackers one direction at sizes from the magnitude down to its square root, ``scattered`` attackers a direction
    each.
    """
    rng, n = np.random.default_rng(seed), len(honest) + f
    directions = rng.normal(size=(f, honest.shape[1]))
    places = {"first": np.arange(f), "last": np.arange(n - f, n), "mixed": np.sort(rng.choice(n, f, replace=False))}
    for kind in ATTACKERS:
        for magnitude in MAGNITUDES:
            steps = np.arange(f)
            factors = {"opposite": (-1.0) ** steps, "ladder": magnitude ** (-steps / max(2 * f, 1))}.get(kind, steps**0)
            own = directions if kind == "scattered" else directions[:1]
            wild = np.clip(magnitude * factors[:, None] * own, -LARGEST, LARGEST)
            for layout in LAYOUTS:
                rows, is_honest = torch.empty(n, honest.shape[1]), torch.ones(n, dtype=torch.bool)
                is_honest[places[layout]] = False
                rows[is_honest], rows[~is_honest] = honest, torch.from_numpy(wild).float()
                yield rows, is_honest, f"n={n}, f={f} {kind} attackers of {magnitude:g}, {layout}"


def honest_radii(vector: Tensor, honest: Tensor, n: int, f: int) -> float:
    """The distance of the vector (d,) from the mean of the ``honest`` updates (n - f, d), in units of the honest range.

    The honest range is the bound for the geometric median, ``2 (n - f) / (n - 2 f)`` times the largest distance of an
    honest update from the mean.
    """
    mean = honest.double().mean(dim=0)
    radius = 2 * (n - f) / (n - 2 * f) * (honest.double() - mean).norm(dim=1).max()
    return float((vector.double() - mean).norm() / radius)


def _require_aggregate(rule: Aggregator, aggregate: Aggregate, updates: Updates, case: str) -> None:
    fault = aggregate_fault(aggregate, updates)
    _require(not fault, rule, "type", f"{fault}: {case}")
    _require(bool(aggregate.vector.isfinite().all()), rule, "finite", f"the aggregate is not finite: {case}")


# --- attacks ---------------------------------------------------------------------------------------------------------


def example_view(honest: int = 7, num_byzantine: int = 3, d: int = 23, seed: int = 0, scale: float = 1.0) -> AttackView:
    """The attackers' view of a round of random updates; the server's rule is the mean."""
    rng = np.random.default_rng(seed)
    rows = scale * (rng.normal(size=(honest, d)) * rng.uniform(0.1, 3, size=d) + rng.normal(size=d))
    own = torch.from_numpy(scale * rng.normal(size=(num_byzantine, d))).float()
    updates = Updates(torch.from_numpy(rows).float())

    def aggregate(crafted: Tensor) -> Aggregate:
        return Aggregate(mean_row(torch.cat([updates.matrix, crafted.expand(num_byzantine, -1)])))

    return AttackView(
        honest=updates,
        clients=torch.arange(honest),
        n=honest + num_byzantine,
        num_byzantine=num_byzantine,
        round=0,
        lr=0.1,
        params=torch.zeros(d),
        previous=None,
        label_counts=torch.from_numpy(rng.integers(1, 9, size=(honest, 3))),
        rng=np.random.default_rng(seed),
        memory={},
        train_own=lambda start: own + 0.1 * start,
        aggregate=aggregate,
        upload=lambda updates: updates,
        after=lambda vector: -0.1 * vector,
        assess=lambda params: (params.double().square().sum(dim=1), None),
    )


def example_shard(seed: int = 0) -> Shard:
    """Forty images (1, 28, 28) of four classes."""
    rng = np.random.default_rng(seed)
    scaling = Scaling(torch.full((1, 1, 1), 0.5), torch.full((1, 1, 1), 0.25))
    x = scaling.inputs(torch.from_numpy(rng.random((40, 1, 28, 28))).float())
    return Shard(x, torch.from_numpy(rng.integers(4, size=40)), 4, scaling, np.random.default_rng(seed))


def _check_crafted(attack: Attack, view: AttackView, case: str) -> Crafted:
    """The checked uploads and memory of an attack."""
    before, remembered = view.honest.matrix.clone(), dict(view.memory)
    kept = {key: value.clone() for key, value in remembered.items()}
    made = attack.craft(view)
    fault = crafted_fault(made, view.num_byzantine, before)
    _require(not fault, attack, "type", f"{fault}: {case}")
    crafted = made if isinstance(made, Crafted) else Crafted(made, {})
    finite = "finite" in attack.exempt or bool(crafted.rows.isfinite().all())
    _require(finite, attack, "finite", f"crafted updates are not finite: {case}")
    _require(torch.equal(view.honest.matrix, before), attack, "untouched", f"it writes into the honest updates: {case}")
    same = all(torch.equal(remembered[key], kept[key]) for key in kept)
    _require(same, attack, "untouched", f"it writes into what it remembered: {case}")
    tensors = all(isinstance(value, Tensor) for value in crafted.memory.values())
    _require(tensors, attack, "memory", f"must hold tensors: {case}")
    own = {*attack.reports} - {"success_rate"}  # which is the column of an attack with a goal
    _require(crafted.notes.keys() <= own, attack, "reports", f"it reports {sorted(crafted.notes)}: {case}")
    return crafted


@_draws_from_streams
def check_attack(attack: Attack, shard: Callable[[], Shard] = example_shard) -> None:
    """Check the crafted updates and the poisoned samples of an attack.

    Crafted updates must be finite float32, (b, d) or (d,), and the same for the same view, and the honest updates must
    not change, also in a second round with the memory of the first. Its notes must be among its ``reports``. Poisoning
    must give samples with one label each, the same for the same shard, and must not change the shard.

    ``shard`` returns a client's data of the kind that the attack needs. On other data an attack may raise ConfigError.
    The promises of ATTACK_PROMISES that the attack's ``exempt`` names with a reason are not checked.
    """
    _exempt(attack, ATTACK_PROMISES)
    held = _attributes(attack)
    for scale in (1e-12, 1.0, 1e12):
        for honest, num_byzantine in ((7, 3), (2, 5), (1, 2), (1, 1)):
            case = f"{honest} honest clients, {num_byzantine} attackers, updates of {scale:g}"
            views = [example_view(honest, num_byzantine, scale=scale) for _ in range(2)]
            first, again = (_check_crafted(attack, view, case) for view in views)
            same = alike((first.rows, dict(first.memory)), (again.rows, dict(again.memory)))
            _require(same, attack, "deterministic", f"the same view gives two results: {case}")
            second = example_view(honest, num_byzantine, seed=1, scale=scale)
            previous = mean_row(views[0].honest.matrix)
            second = replace(second, round=1, previous=previous, memory=MappingProxyType(dict(first.memory)))
            _check_crafted(attack, second, f"{case}, round 2")
    _require_stateless(attack, held)
    try:
        given = [shard(), shard()]
        (x, y), (x_again, y_again) = (attack.poison(own) for own in given)
    except ConfigError:
        return
    fresh = shard()
    _require(len(x) == len(y) > 0, attack, "poison", f"{len(x)} inputs for {len(y)} labels")
    equal = torch.equal(x, x_again) and torch.equal(y, y_again)
    _require(equal, attack, "deterministic", "the same shard is poisoned in two ways")
    untouched = torch.equal(given[0].x, fresh.x) and torch.equal(given[0].y, fresh.y)
    _require(untouched, attack, "untouched", "it writes into the shard")


# --- partitions ------------------------------------------------------------------------------------------------------


@_draws_from_streams
def check_partition(partition: Partition, num_clients: int = 10, samples: int = 600, classes: int = 4) -> None:
    """Check that every client gets samples, every sample goes to exactly one client, and the draw depends only on the
    stream.

    Not checked is what ``exempt`` names with a reason: ``covering`` (some samples go to no client), ``empty`` (some
    clients get none).
    """
    exempt = partition.exempt
    for seed in range(3):
        kinds = num_clients if partition.by_owner else classes
        labels = np.random.default_rng(seed).permutation(np.arange(samples) % kinds)
        before = labels.copy()
        found, again = (partition(labels, num_clients, np.random.default_rng(seed)) for _ in range(2))
        case = f"{samples} samples, {num_clients} clients, seed {seed}"
        try:
            parts = dealt(partition, found, num_clients, samples)
        except BrokenContract as error:
            raise AssertionError(f"{error}: {case}") from error
        missing = samples - sum(map(len, parts))
        _require(not missing or "covering" in exempt, partition, "covering", f"{missing} samples go to nobody: {case}")
        alike = all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))
        _require(alike, partition, "reproducible", f"the same stream gives two partitions: {case}")
        _require(np.array_equal(labels, before), partition, "untouched", f"it writes into the labels: {case}")


# --- data sets -------------------------------------------------------------------------------------------------------


@_draws_from_streams
def check_dataset(dataset: Dataset, folder: Path) -> None:
    """Check the tensors loaded from ``folder``: a run must accept them, tokens start at 0, targets have one number per
    output, and loading again gives equal tensors."""
    try:
        data, again = load(dataset, str(folder), torch.device("cpu")), dataset.load(folder)
    except DataError as error:
        raise AssertionError(f"{type(dataset).__name__}: {error}") from error
    for part in ("train", "test"):
        x, y = getattr(data, f"{part}_x"), getattr(data, f"{part}_y")
        _require(x.is_floating_point() or bool((x >= 0).all()), dataset, part, "tokens must be numbers from 0")
        outputs = y.shape[1] if y.dim() == 2 else 1
        fits = not y.is_floating_point() or outputs == dataset.num_classes
        _require(fits, dataset, part, f"must have {dataset.num_classes} numbers to predict, got {outputs}")
        _require(torch.equal(x, getattr(again, f"{part}_x")), dataset, part, "inputs differ when loaded again")
        _require(torch.equal(y, getattr(again, f"{part}_y")), dataset, part, "labels differ when loaded again")
    _require(data.owners is None or data.owners.ndim == 1, dataset, "owners", "must be one per training sample")


# --- protocols -------------------------------------------------------------------------------------------------------


@_draws_from_streams
def check_protocol(protocol: Protocol, *overrides: str, rounds: int = 5) -> None:
    """Check the promises of a protocol on rounds of a small run on the digits, changed by ``overrides``.

    Every step must return the next state and its round, with finite models and the numbers that ``reports`` names, and
    must change neither the state that it was given nor the protocol. The promises of PROTOCOL_PROMISES that the
    protocol's ``exempt`` names with a reason are not checked.
    """
    exempt = _exempt(protocol, PROTOCOL_PROMISES)
    honest = []
    for attack, rule in (("ipm", "average"), ("gauss", "coomed")):
        federation = _example_federation(protocol, f"attack={attack}", f"aggregator={rule}", *overrides)
        state, cohorts, held = initial_state(federation), [], _attributes(protocol)
        for number in range(1, rounds + 1):
            case = f"round {number} with attack={attack} aggregator={rule}"
            before = copy.deepcopy(state.stored())
            after, happened = step(federation, state)
            fault = protocol_fault((after, happened), state)
            _require(not fault, protocol, "type", f"{fault}: {case}")
            untouched = alike(_own(before), _own(state.stored()))
            _require(untouched, protocol, "untouched", f"it changes the given state: {case}")
            _require(bool(after.params.isfinite().all()), protocol, "finite", f"a model is not finite: {case}")
            reports = set(happened.notes) == set(protocol.reports)
            _require(reports, protocol, "reports", f"it reports {sorted(happened.notes)}: {case}")
            if "memory" not in exempt:
                again, _ = step(federation, State.restored(before, state.params.device))
                _require_stateless(protocol, held)
                same = alike(again.stored(), after.stored())
                _require(same, protocol, "memory", f"a stored state goes on differently: {case}")
            cohorts.append([cohort.honest for cohort in happened.cohorts])
            state = after
        honest.append(cohorts)
    paired = "paired" in exempt or honest[0] == honest[1]
    _require(paired, protocol, "paired", "the honest clients of a round depend on the attack or the rule")


def _own(stored: Mapping[str, Any]) -> dict[str, Any]:
    """A stored state without the memory of the models' parts, part of which changes in place."""
    return {name: value for name, value in stored.items() if name != "memory"}


def _example_federation(protocol: Protocol, *overrides: str) -> Federation:
    """A small federation on the digits with this protocol."""
    small = ("num_clients=12", "num_byzantine=2", "byzantine_placement=replace", "model.hidden=[4]", "batch_size=8")
    config = compose.resolve([*small, *overrides]).config
    kept = identity.defining(config)
    parts = {group: targets.build(kept[group]) for group in GROUPS if group not in FOLLOWING}
    settings = Settings(**{name: config[name] for name in SCALARS})
    every = Parts(**parts | dict.fromkeys(FOLLOWING, ()) | {"protocol": protocol})
    others, clients = every.optional, settings.clients_per_round
    protocol.check(Setup(every.aggregator, every.local_update, others, clients, settings.num_byzantine))
    return federation_of(settings, every, load(every.dataset, None, torch.device("cpu")))


def _exempt(part: Aggregator | Attack | Protocol, promises: Mapping[str, str]) -> Mapping[str, str]:
    """The promises that a part does not give, with a reason for each. Fails for what is no promise."""
    unknown = sorted(set(part.exempt) - set(promises))
    _require(not unknown, part, "exempt", f"{', '.join(unknown)} is no promise; there are {', '.join(promises)}")
    return part.exempt


def _attributes(part: object) -> dict[str, Any]:
    """What a part holds on itself, copied where that can be; without cached properties."""
    held = {name: value for name, value in vars(part).items()
            if not isinstance(getattr(type(part), name, None), cached_property)}  # fmt: skip
    for name, value in held.items():
        with suppress(Exception):  # of a lock, a module, a view of a mapping, ...
            held[name] = copy.deepcopy(value)
    return held


def _require_stateless(part: Aggregator | Attack | Protocol, held: Mapping[str, Any]) -> None:
    """That a part holds on itself what it held before, unless it may keep state there."""
    fault = "" if "memory" in part.exempt else state_fault(held, _attributes(part))
    _require(not fault, part, "memory", fault)


def _require(holds: bool, part: object, promise: str, what: str) -> None:
    if not holds:
        raise AssertionError(f"{type(part).__name__}: {promise}: {what}")
