"""A search for the attack that moves a rule farthest from the honest mean, measured by their spread.

It calls the actual rule. Candidates are, in this order: rows along stated directions, all alike, in two halves, as a
ladder, or around an honest client; what given attacks craft, also weaker and stronger; then the best of these, refined
along its own ray and by random steps in the space of the honest updates.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from robustfl_bench.lab.studies.inputs import Rule

Named = tuple[str, np.ndarray]
"""The name of an attack, and the rows (b, d) that the attackers send."""

TOGETHER = 1 << 24  # numbers in the attacks that the rule answers at once
FAR = 1e4  # in units of the spread
STRENGTHS = (0.1, 0.3, 0.6, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 100.0, FAR)  # in units of the spread
FACTORS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)  # of crafted attacks, from the honest mean
RAY = (0.5, 0.8, 0.9, 0.95, 1.05, 1.1, 1.25, 2.0)
LAYOUTS = ("alike", "halves", "ladder")
NEAR = 1e-4
# Of attackers, if honest clients are at 0 and 1, and if some of them are in the middle.
PLACES = (0.0, 0.5, 0.9, 1.0, 1.1, 1.5, 2 - NEAR, 2.0, 2 + NEAR, 10.0, FAR)
FEW_PLACES = (0.5, 1.0, 1.5, 2 - NEAR, 2 + NEAR, 10.0)


def spread_of(honest: np.ndarray) -> float:
    """Root mean square distance of the rows (h, d) from their mean."""
    return float(np.sqrt(((honest - honest.mean(axis=0)) ** 2).sum() / len(honest)))


@dataclass
class WorstAttack:
    """The worst attack of a search: ``kappa``, the rows behind it, its name, and the calls of the rule it took.

    ``resilience`` is the largest lambda of all attacks tried, the distance of the aggregate from the honest mean over
    the honest diameter.
    """

    kappa: float = 0.0
    attack: str = "none"
    honest: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    rows: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    calls: int = 0
    resilience: float = 0.0

    def offer(self, rule: Rule, honest: np.ndarray, attacks: Iterable[Named]) -> bool:
        """Try attacks beside the same honest updates; whether one of them is the worst so far."""
        before, mean, spread = self.kappa, honest.mean(axis=0), spread_of(honest)
        numbers, left = max(1, rule.n - len(honest)) * honest.shape[1], iter(attacks)
        while some := list(islice(left, max(1, TOGETHER // numbers))):
            answers = rule.against(honest, [rows for _, rows in some])
            for (attack, rows), answer in zip(some, answers, strict=True):
                self.calls += 1
                moved = float(np.linalg.norm(answer - mean))
                ratio = _over(moved, spread, honest)
                if ratio > self.resilience:  # no diameter is shorter than the spread
                    self.resilience = max(self.resilience, _over(moved, diameter_of(honest), honest))
                if ratio**2 > self.kappa:
                    self.kappa, self.attack, self.honest, self.rows = ratio**2, attack, honest, rows
        return self.kappa > before


def diameter_of(honest: np.ndarray) -> float:
    """The largest distance between two of the rows (h, d)."""
    centred = honest - honest.mean(axis=0)
    products = centred @ centred.T
    squares = products.diagonal()
    return float(np.sqrt((squares + squares[:, None] - 2 * products).max(initial=0.0)))


def kappas(rule: Rule, honest: np.ndarray, attacks: Sequence[np.ndarray]) -> np.ndarray:
    """``|F(x) - mean|^2 / spread^2`` of k attacks (b, d) on the honest updates (h, d), (k,); the attackers come first.

    As every set S of n - f vectors can be the honest one, the coefficient of a rule is the largest of these.
    """
    moved, spread = np.linalg.norm(rule.against(honest, attacks) - honest.mean(axis=0), axis=1), spread_of(honest)
    return np.array([_over(float(distance), spread, honest) ** 2 for distance in moved])


def _over(moved: float, length: float, honest: np.ndarray) -> float:
    """``moved / length``. Distances below a hundred-thousandth of the largest honest update are rounding errors, and
    count as zero."""
    noise = 1e-5 * float(np.abs(honest).max(initial=0.0))
    if not np.isfinite(moved):
        return np.inf
    if length <= noise:
        return np.inf if moved > noise else 0.0
    return 0.0 if moved <= noise else moved / length


def search(
    rule: Rule,
    honest: np.ndarray,
    num_byzantine: int,
    rng: np.random.Generator,
    crafted: Iterable[Named] = (),
    steps: int = 200,
) -> WorstAttack:
    """The worst attack found on honest updates (h, d); ``crafted`` are named rows (b, d), ``steps`` random steps."""
    worst, mean, spread = WorstAttack(), honest.mean(axis=0), spread_of(honest)
    if not num_byzantine:
        worst.offer(rule, honest, [("none", np.zeros((0, honest.shape[1])))])
        return worst

    def attacks() -> Iterator[Named]:
        for name, direction in directions(rule, honest, num_byzantine, rng):
            for layout in LAYOUTS:
                for strength in STRENGTHS:
                    steps_away = strength * spread * laid_out(layout, num_byzantine)[:, None]
                    yield f"{name}, {layout}", mean + steps_away * direction
        for i, client in enumerate(honest):
            for factor in FACTORS:
                yield f"mimics client {i}", np.tile(mean + factor * (client - mean), (num_byzantine, 1))
        for name, rows in crafted:
            for factor in FACTORS:
                yield name, mean + factor * (rows - mean)

    worst.offer(rule, honest, attacks())
    _refine(rule, worst, rng, steps)
    return worst


def directions(
    rule: Rule, honest: np.ndarray, num_byzantine: int, rng: np.random.Generator
) -> Iterator[tuple[str, np.ndarray]]:
    """Unit vectors (d,) with names, each with its opposite."""
    mean = honest.mean(axis=0)
    centred = honest - mean
    named = [("mean", mean), ("spread by coordinate", centred.std(axis=0)), ("sign of the mean", np.sign(mean))]
    axes = np.linalg.svd(centred, full_matrices=False)[2]
    named += [(f"principal axis {i + 1}", axis) for i, axis in enumerate(axes[:3])]
    named += [("widest coordinate", np.eye(1, len(mean), int(centred.std(axis=0).argmax()))[0])]
    places = [np.tile(mean + place * spread_of(honest), (num_byzantine, 1)) for place in (0.0, FAR, -FAR)]
    answers = rule.against(honest, places) - mean
    worse = np.where(np.abs(answers[1]) > np.abs(answers[2]), 1.0, -1.0)
    named += [("worse side by coordinate", worse), ("bias of the rule", answers[0])]
    named += [("random", rng.normal(size=len(honest)) @ centred)]
    for name, vector in named:
        length = np.linalg.norm(vector)
        if length > 0 and np.isfinite(length):
            yield name, vector / length
            yield f"against {name}", -vector / length


def laid_out(layout: str, count: int) -> np.ndarray:
    """The places (count,) of attackers along a direction, the farthest at 1 or -1."""
    if layout == "alike":
        return np.ones(count)
    if layout == "halves":
        return np.where(np.arange(count) % 2, -1.0, 1.0)
    return np.arange(1, count + 1) / count


def worst_inputs(rule: Rule, n: int, num_byzantine: int, rng: np.random.Generator, steps: int = 400) -> WorstAttack:
    """The worst attack found on any honest updates: a lower bound of the largest kappa over all updates.

    Honest clients begin at two points of a line, with each number of them at either; then, in all ways or ``steps`` of
    them, also in the middle between the two. Attackers stand at one of these points, between them, beyond, far away, or
    as far from the second as the first is, slightly nearer or farther: there rules that compare distances change their
    mind. The best is then changed at random, honest clients too, in up to three dimensions, by as many steps as are
    left, at least a quarter of all.
    """
    worst, honest_count = WorstAttack(), n - num_byzantine
    if not num_byzantine:
        worst.offer(rule, np.arange(float(n))[:, None], [("none", np.zeros((0, 1)))])
        return worst
    ways = [
        (away, middle, place)
        for away in range(1, honest_count - 1)
        for middle in range(1, honest_count - away)
        for place in FEW_PLACES
    ]
    chosen = range(len(ways)) if len(ways) <= steps else np.sort(rng.choice(len(ways), steps, replace=False))
    pairs = [(away, 0, place) for away in range(1, honest_count) for place in PLACES]
    for away, middle, place in [*pairs, *(ways[i] for i in chosen)]:
        honest = np.repeat([0.0, 0.5, 1.0], [away, middle, honest_count - away - middle])[:, None]
        name = f"{away} of {honest_count} at 0, {middle} at 0.5, attackers at {place:g}"
        worst.offer(rule, honest, [(name, np.full((num_byzantine, 1), place))])
    left = max(steps // 4, steps - len(chosen))
    for dimensions in (1, 2, 3):
        if np.isinf(worst.kappa):
            break
        wider = np.zeros((honest_count, dimensions - worst.honest.shape[1]))
        more = np.zeros((num_byzantine, dimensions - worst.honest.shape[1]))
        worst.honest, worst.rows = np.hstack([worst.honest, wider]), np.hstack([worst.rows, more])
        _refine(rule, worst, rng, left // 3, honest_too=True)
    return worst


def _refine(rule: Rule, worst: WorstAttack, rng: np.random.Generator, steps: int, honest_too: bool = False) -> None:
    """Improve the worst attack along its ray from the honest mean, and by random steps whose size adapts.

    With ``honest_too``, honest clients move as well: each by itself, or in two steps of three those at one point
    together.
    """
    if np.isinf(worst.kappa) or not worst.rows.size:
        return
    size = 0.3
    for step in range(steps):
        honest, rows = worst.honest, worst.rows
        mean, spread = honest.mean(axis=0), spread_of(honest)
        if step % 10 == 0:
            worst.offer(rule, honest, [(worst.attack, mean + factor * (rows - mean)) for factor in RAY])
            honest, rows = worst.honest, worst.rows
        moved = rng.random(len(rows)) < 0.5 if step % 2 else np.ones(len(rows), dtype=bool)
        together = step % 4 < 2  # all by the same vector, or each by its own
        coefficients = rng.normal(size=(1 if together else len(rows), len(honest)))
        if honest_too:
            noise = rng.normal(size=(len(coefficients), honest.shape[1]))
            points, at = (
                np.unique(honest, axis=0, return_inverse=True) if step % 3 else (honest, np.arange(len(honest)))
            )
            some = rng.random((len(points), 1)) < max(0.3, 1 / len(points))
            honest = (points + size * spread * rng.normal(size=points.shape) * some)[at.ravel()]
            honest = honest / max(spread_of(honest), 1e-6)
        else:
            noise = coefficients @ (honest - mean) / (spread * np.sqrt(len(honest)))
        rows = rows + size * spread * noise * moved[:, None]
        name = worst.attack if worst.attack.endswith("changed at random") else f"{worst.attack}, changed at random"
        size = min(1.0, size * 1.5) if worst.offer(rule, honest, [(name, rows)]) else max(1e-3, size * 0.93)
