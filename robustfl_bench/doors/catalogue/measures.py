"""The needs and the cost of a rule, an attack or a pre-aggregation, measured while it works on one small round."""

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from types import FrameType
from typing import Any

import numpy as np
import torch

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.parallel import workers
from robustfl_bench.base.trees import flatten
from robustfl_bench.doors.catalogue.entries import CatalogueEntry
from robustfl_bench.doors.testing import example_round, example_shard, example_view
from robustfl_bench.numerics.inner_products import cross_products, distance_bounds, gram_matrix
from robustfl_bench.numerics.sorting import NETWORK, sorted_rows
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.aggregators.base import Aggregator
from robustfl_bench.parts.attacks.base import Attack, AttackView, ChoiceView
from robustfl_bench.parts.models.base import Model
from robustfl_bench.parts.partitions.base import Partition
from robustfl_bench.parts.pre_aggregations.base import PreAggregation
from robustfl_bench.runner.config import compose, options, targets
from robustfl_bench.runner.config.options import Search

CLIENTS, BYZANTINE, COORDINATES = 12, 2, 999  # few, as some rules try all subsets of clients; one block to sort
DECLARED = "${num_byzantine_declared}"
MOST = 100  # clients in the trials of a rule, at most


@dataclass(frozen=True)
class Facts:
    """What an option ``needs`` and ``does``, in a few words each, and its ``cost``.

    ``cost`` counts Gram matrices and sorts of the updates. The cost "linear" is less than either: a few passes over
    the updates.
    """

    needs: tuple[str, ...] = ()
    does: tuple[str, ...] = ()
    cost: str = ""

    @property
    def words(self) -> list[str]:
        """All facts as phrases: one for the needs, one for each action and one for the cost."""
        return [*([f"needs {', '.join(self.needs)}"] if self.needs else []), *self.does, *filter(None, [self.cost])]


def facts(entry: CatalogueEntry, search: Search = options.HERE) -> Facts:
    """The facts about an option of a group in ``MEASURED_GROUPS``. Raises ConfigError when it cannot be built."""

    def build(num_byzantine: int = BYZANTINE) -> Any:
        chosen = [f"{entry.group}={entry.name}", f"num_byzantine_declared={num_byzantine}"]
        config = compose.resolve(chosen, search).config[entry.group]
        return targets.build(config if "_target_" in config else config[entry.name])  # or nested under its name

    if not entry.target:
        return Facts()
    declared = ["f"] if DECLARED in dict(flatten(entry.content)).values() else []
    try:
        match part := build():
            case Aggregator():
                part_facts = facts_of_rule(part)
            case PreAggregation():
                part_facts = _of_step(part)
            case Attack():
                part_facts = _of_attack(part)
            case Partition():
                part_facts = Facts(("a data set with clients",) if part.by_owner else ())
            case Model():
                part_facts = Facts((f"a data set of {part.reads}",) if part.reads != "numbers" else ())
            case _:
                raise ConfigError(f"{type(part).__name__} is no part of this group")
        has_bounds = isinstance(part, Aggregator | PreAggregation)
        bounds = _clients(lambda f: build(f).check, bool(declared)) if has_bounds else ""
    except ConfigError as error:
        raise ConfigError(f"{entry.group}={entry.name}: {error}") from error
    return replace(part_facts, needs=(*declared, *filter(None, [bounds]), *part_facts.needs))


def _clients(check: Callable[[int], Callable[[int], None]], declared: bool) -> str:
    """The numbers of clients that a part accepts, found by trial, such as ``n > 2f + 2``; empty if it accepts all."""
    tried = (1, 2, 3, 4) if declared else (0,)
    checks = {f: check(f) for f in tried}
    accepted = {f: [n for n in range(1, MOST + 1) if _passes(checks[f], n)] for f in tried}
    if not all(accepted.values()):
        return f"more than {MOST} clients"
    least = [min(numbers) for numbers in accepted.values()]  # slope * f + offset, if linear in f
    slope = least[1] - least[0] if declared else 0
    offset = least[0] - slope * tried[0]
    when = f" (f = {tried[-1]})" if declared else ""
    times_f = "f" if slope == 1 else f"{slope}f"
    if any(n != slope * f + offset for f, n in zip(tried, least, strict=True)):
        limits = [f"n >= {least[-1]}{when}"]
    elif slope and offset < 1:
        limits = [f"n >= {times_f}" + (f" - {-offset}" if offset else "")]
    elif slope:
        limits = [f"n > {times_f}" + (f" + {offset - 1}" if offset > 1 else "")]
    else:
        limits = [f"n > {offset - 1}"] if offset > 1 else []
    most = max(accepted[tried[-1]])
    return ", ".join([*limits, *([f"n <= {most}{when}"] if most < MOST else [])])


def _passes(check: Callable[[int], None], n: int) -> bool:
    try:
        check(n)
    except ConfigError:
        return False
    return True


def facts_of_rule(rule: Aggregator, declared: bool = False) -> Facts:
    """The needs and the cost of a rule; ``declared`` says whether the rule is given f."""
    updates, server = example_round(0, CLIENTS - BYZANTINE, BYZANTINE, d=COORDINATES)
    seen = Counter[str]()

    def noted(what: str, ask: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*arguments: Any) -> Any:
            seen[what] += 1
            return ask(*arguments)

        return asked

    view = replace(
        server,
        train_per_class=noted("server data", server.train_per_class),
        train_together=noted("server data", server.train_together),
        loss=noted("server data", server.loss),
        gradient=noted("server data", server.gradient),
        losses_of=noted("training losses", server.losses_of),
    )
    state = server.rng.bit_generator.state
    with _counted() as cost:
        aggregate = rule(updates, view)
    does = ["draws at random"] if server.rng.bit_generator.state != state else []
    does += ["remembers"] if aggregate.memory else []
    does += ["a sum is enough"] if rule.from_sum() is not None else []
    if _changed(rule, aggregate.vector, counts=torch.arange(1.0, CLIENTS + 1, dtype=torch.float64)):
        seen["sample counts"] += 1
    if _changed(rule, aggregate.vector, previous=torch.linspace(1, 2, COORDINATES)):
        seen["the last aggregate"] += 1
    seen["f"] = int(declared)
    order = ("f", "server data", "training losses", "sample counts", "the last aggregate")
    return Facts(tuple(what for what in order if seen[what]), tuple(does), _in_words(cost, CLIENTS))


def _changed(
    rule: Aggregator, before: torch.Tensor, counts: torch.Tensor | None = None, previous: torch.Tensor | None = None
) -> bool:
    """Whether the rule no longer returns ``before`` when the same round has these counts or this previous aggregate."""
    updates, server = example_round(0, CLIENTS - BYZANTINE, BYZANTINE, d=COORDINATES)
    view = replace(server, counts=server.counts if counts is None else counts, previous=previous)
    return not torch.allclose(rule(Updates(updates.matrix, counts), view).vector, before, rtol=1e-3, atol=1e-5)


def _of_step(step: PreAggregation) -> Facts:
    updates, _ = example_round(0, CLIENTS - BYZANTINE, BYZANTINE, d=COORDINATES)
    rng = np.random.default_rng(0)
    state = rng.bit_generator.state
    with _counted() as cost:
        mixed = step(updates, rng)
    does = [] if mixed.n == updates.n else ["makes fewer updates"]
    does += ["draws at random"] if rng.bit_generator.state != state else []
    return Facts((), tuple(does), _in_words(cost, CLIENTS))


class _Watched(AttackView):
    """A view that records which knowledge an attack uses."""

    seen: Counter[str]

    def __getattribute__(self, name: str) -> Any:
        if name in ("label_counts", "train_own", "aggregate"):
            object.__getattribute__(self, "seen")[name] += 1
        return super().__getattribute__(name)


class _WatchedUpdates(Updates):
    seen: Counter[str]

    @property
    def columns(self) -> torch.Tensor:
        self.seen["honest"] += 1
        return super().columns


def _of_attack(attack: Attack) -> Facts:
    if not attack.present:
        return Facts()
    does = ["poisons data"] if _poisons(attack) else []
    losses = torch.arange(1.0, 4.0, dtype=torch.float64)
    if not torch.equal(attack.report(losses, losses + 1), losses):
        does.append("claims losses")
    view = ChoiceView(torch.eye(2), torch.tensor([0, 0, 1]), 2, lambda models: torch.tensor([[0.0, 1.0]] * 2))
    if not torch.equal(attack.choose(view), Attack.choose(attack, view)):
        does.append("chooses a model")
    if not attack.crafts:
        return Facts((), tuple(does), "linear")
    plain = example_view(honest=CLIENTS, num_byzantine=BYZANTINE, d=COORDINATES)
    seen = Counter[str]()
    honest = _WatchedUpdates(plain.honest.matrix)
    honest.seen = seen
    watched = _Watched(**{field.name: getattr(plain, field.name) for field in fields(plain)} | {"honest": honest})
    watched.seen = seen
    with _counted() as cost:
        attack.craft(watched)
    reads = {
        "honest": "reads honest updates",
        "label_counts": "reads honest labels",
        "train_own": "trains on own data",
        "aggregate": f"evaluates the rule {seen['aggregate']} times",
    }
    read_parts = [words for name, words in reads.items() if seen[name]]
    return Facts((), (*does, "crafts updates", *read_parts), _in_words(cost, CLIENTS))


def _poisons(attack: Attack) -> bool:
    """Whether an attack changes a client's samples, before the run or before each round, or is for samples other than
    images."""
    if attack.plans and not attack.crafts:
        return True
    shard = example_shard()
    try:
        x, y = attack.poison(example_shard())
    except ConfigError:
        return True
    return not (torch.equal(x, shard.x) and torch.equal(y, shard.y))


@contextmanager
def _counted() -> Iterator[Counter[str]]:
    """Count the inner products that this package computes and the numbers that NumPy or torch sorts meanwhile."""
    cost = Counter[str]()

    def note(frame: FrameType, event: str, called: Any) -> None:
        if event == "call" and frame.f_code is cross_products.__code__:
            vectors = len(frame.f_locals["right"])
            cost["products"] += len(frame.f_locals["left"]) * vectors if vectors > 1 else 0  # a pass with one vector
        elif event == "call" and frame.f_code is gram_matrix.__code__:
            cost["products"] += len(frame.f_locals["parts"][0]) ** 2  # other parts have few rows
        elif event == "call" and frame.f_code is distance_bounds.__code__:
            cost["products"] += len(frame.f_locals["rows"]) ** 2
        elif event == "call" and frame.f_code is sorted_rows.__code__ and len(frame.f_locals["rows"]) <= NETWORK:
            cost["sorted"] += frame.f_locals["rows"].size  # by minima and maxima
        elif event == "c_call" and getattr(called, "__name__", "") in _SORTS:
            shape = getattr(getattr(called, "__self__", None), "shape", ())
            cost["sorted"] += math.prod(shape) if COORDINATES in shape else 0

    before = sys.getprofile()
    with workers(1):  # a profile function sees only its own thread
        sys.setprofile(note)
        try:
            yield cost
        finally:
            sys.setprofile(before)


_SORTS = ("sort", "argsort", "partition", "argpartition", "topk", "kthvalue", "median")


def _in_words(cost: Mapping[str, int], n: int) -> str:
    """The cost of a round in Gram matrices (n^2 inner products) and sorts (of n d numbers), rounded."""
    counts = {"Gram": cost["products"] / n**2, "sort": cost["sorted"] / (n * COORDINATES)}
    words = [
        f"{round(count) or round(count, 1)} {unit}{'s' if count > 1.5 else ''}"  # of buckets, it is a fraction
        for unit, count in counts.items()
        if count >= 0.2
    ]
    return " + ".join(words) or "linear"
