"""Measures a rule on given updates: kappa, breakdown point, bias under skew, and time."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base import seeding
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.doors.testing import example_view
from robustfl_bench.lab.studies import bounds
from robustfl_bench.lab.studies.inputs import Inputs, Rule, without_data
from robustfl_bench.lab.studies.search import (
    LAYOUTS,
    Named,
    WorstAttack,
    directions,
    kappas,
    laid_out,
    search,
    spread_of,
    worst_inputs,
)
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator
from robustfl_bench.parts.attacks.base import Attack, Crafted
from robustfl_bench.parts.pre_aggregations.base import PreAggregation

Build = Callable[[int], tuple[Aggregator, PreAggregation | None]]
"""Builds a rule and its pre-aggregation for a number of attackers. Raises ConfigError."""

DISTANCES = (1e3, 1e6)  # distances of attackers, in units of the spread, for the breakdown point
TIMED = 5


@dataclass(frozen=True)
class Resilience:
    """A rule with f of n attackers. ``kappa`` was found on the given updates, ``kappa_any`` on any.

    Both are infinite where attackers far away move the output without limit. ``kappa_any`` is None for a rule that
    needs samples of the server. ``least`` is a lower bound for all rules that use only the updates, ``proven`` an upper
    bound, None if none is known. ``lambda_any`` is the coefficient of (f, lambda)-resilience found on any updates, with
    the upper bound ``lambda_proven``. ``bias`` is the distance of the aggregate from the mean of all n updates without
    attack, over their spread. ``breakdown`` is the largest number of attackers up to which the output stays bounded.
    ``attack`` is the worst one on the given updates, ``calls`` the number of calls of the rule. ``reason`` says why
    there are no numbers.
    """

    f: int
    n: int
    kappa: float | None = None
    kappa_any: float | None = None
    least: float | None = None
    proven: float | None = None
    lambda_any: float | None = None
    lambda_proven: float | None = None
    bias: float | None = None
    breakdown: int | None = None
    milliseconds: float | None = None
    attack: str = ""
    calls: int = 0
    reason: str = ""


def resilience(
    build: Build, inputs: Inputs, f: int, attacks: Sequence[tuple[str, Attack]] = (), steps: int = 200, seed: int = 0
) -> Resilience:
    """Measure the rule that ``build(f)`` makes when f of the clients of ``inputs``, the first ones, are attackers.

    ``attacks`` are tried beside the directions of the search; one that needs what these updates lack is left out.
    ``steps`` is the length of the random part of the search. A rule that cannot work so has a ``reason`` and no
    numbers.
    """
    matrix = inputs.matrix.double().numpy()
    n = len(matrix)
    try:
        rule, preparation = build(f)
        aggregate = Rule(rule, preparation, inputs.server, n)
        whole = aggregate(matrix)
        rng = seeding.generator(seed, "resilience", f)
        honest = matrix[f:]
        rows = list(crafted(attacks, inputs.matrix, f, aggregate)) if f else []
        given = search(aggregate, honest, f, rng, rows, steps)
        worst = _worst_of_any(Rule(rule, preparation, without_data, n), n, f, rng, 2 * steps)
        times = [_seconds(aggregate, matrix) for _ in range(TIMED)]
        beyond = math.inf if f and not _bounded(aggregate, honest, f) else 0.0
        return Resilience(
            f=f,
            n=n,
            kappa=max(given.kappa, beyond),
            kappa_any=None if worst is None else max(given.kappa, worst.kappa, beyond),
            least=bounds.least(n, f),
            proven=bounds.proven(rule, preparation, n, f),
            lambda_any=None if worst is None else max(given.resilience, worst.resilience, beyond),
            lambda_proven=bounds.proven_resilience(rule, preparation, n, f),
            bias=float(np.linalg.norm(whole - matrix.mean(axis=0))) / spread_of(matrix),
            breakdown=breakdown(build, inputs),
            milliseconds=1000 * median(times),
            attack=given.attack,
            calls=given.calls + (0 if worst is None else worst.calls),
        )
    except ConfigError as error:
        return Resilience(f=f, n=n, reason=str(error))


def crafted(attacks: Iterable[tuple[str, Attack]], matrix: Tensor, f: int, rule: Rule) -> Iterator[Named]:
    """The updates that attacks craft for the first f of the rows (n, d), knowing the other rows. An attack that cannot
    craft them is left out."""
    honest, own = matrix[f:], matrix[:f]

    def answers(candidates: Tensor) -> Tensor:
        sent = candidates.expand(-1, f, -1).double().numpy()
        return torch.from_numpy(rule.against(honest.double().numpy(), sent)).float()

    for name, attack in attacks:
        view = replace(
            example_view(len(honest), f, matrix.shape[1]),
            honest=Updates(honest),
            params=torch.zeros(matrix.shape[1]),
            aggregate=lambda rows: Aggregate(answers(rows.expand(1, f, -1))[0]),
            ask=answers,
            train_own=lambda start: own,
        )
        try:
            sent = attack.craft(view)
        except ConfigError:
            continue
        rows = (sent.rows if isinstance(sent, Crafted) else sent).double().expand(f, -1).numpy()
        if np.isfinite(rows).all():
            yield name, rows


def breakdown(build: Build, inputs: Inputs) -> int:
    """The largest f below n / 2 up to which the output stays bounded, for the rule made for that f.

    Attackers are ``DISTANCES`` times the spread away, in every direction and layout of the search. An output that moves
    ten times as far with attackers a thousand times as far is not bounded. A rule that cannot be made for an f, or
    refuses so few clients, ends there.
    """
    matrix = inputs.matrix.double().numpy()
    n = len(matrix)
    for f in range(1, (n + 1) // 2):
        try:
            aggregate = Rule(*build(f), inputs.server, n)
            if not _bounded(aggregate, matrix[f:], f):
                return f - 1
        except ConfigError:
            return f - 1
    return (n + 1) // 2 - 1


def _worst_of_any(aggregate: Rule, n: int, f: int, rng: np.random.Generator, steps: int) -> WorstAttack | None:
    """What ``worst_inputs`` finds; None for a rule that needs the samples of a server, which drawn updates lack."""
    try:
        return worst_inputs(aggregate, n, f, rng, steps)
    except ConfigError:
        return None


def _bounded(aggregate: Rule, honest: np.ndarray, f: int) -> bool:
    mean, spread = honest.mean(axis=0), spread_of(honest)
    for _, direction in directions(aggregate, honest, f, np.random.default_rng(0)):
        away = [laid_out(layout, f)[:, None] * direction for layout in LAYOUTS]
        far = [mean + scale * spread * rows for scale in DISTANCES for rows in away]
        nearer, farther = np.sqrt(kappas(aggregate, honest, far)).reshape(2, -1)
        if not (farther <= 10 * nearer + 100).all():
            return False
    return True


def _seconds(aggregate: Rule, matrix: np.ndarray) -> float:
    began = time.perf_counter()
    aggregate(matrix)
    return time.perf_counter() - began
