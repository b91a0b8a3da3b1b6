"""The steps of a bridge: which units of code of after stand for which of before, so that all digests follow.

Configs are the bits of a number, so that all of them are looked at together.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import TypeVar

from robustfl_bench.runner.store.bridges import Bridge, BridgeStep, parted

Masks = Mapping[bytes, int]
"""For each unit of code, and each class all of whose methods count, a number with a bit for each config in which it
takes part."""

Signs = frozenset[bytes]
"""Units, or classes, that take part together in the configs in which a step is taken."""


Key = TypeVar("Key", int, tuple[int, int])


class NoBridge(Exception):
    """No bridge can be written; one line says why."""


def steps(before: Masks, after: Masks, wholes: Masks) -> Bridge:
    """The steps that make the units of before from those of after, in every config.

    Units that are new in the same configs make one step. A unit that is gone goes to steps that are taken only where it
    took part before. Where new units do not tell these configs, one or two other units, or classes with all their
    methods, do. Raises NoBridge.
    """
    came = {unit: mask & ~before.get(unit, 0) for unit, mask in after.items()}
    gone = {unit: (mask & ~after.get(unit, 0), mask) for unit, mask in before.items()}
    others = {unit: mask for unit, mask in after.items() if not came[unit]}
    known = {**others, **wholes}
    new = _together({unit: mask for unit, mask in came.items() if mask and mask == after[unit]})
    signs = {frozenset(units): mask for mask, units in new.items()}
    replaced: dict[Signs, set[bytes]] = {sign: set() for sign in signs}
    for (missing, allowed), units in _together({unit: masks for unit, masks in gone.items() if masks[0]}).items():
        for sign in _covering(missing, allowed, units, signs, known):
            replaced.setdefault(sign, set()).update(units)
    for unit, mask in came.items():
        if mask and mask != after[unit]:  # new in some configs, and old in others
            within = {sign: there & after[unit] for sign, there in signs.items()}
            near = {other: there & after[unit] for other, there in known.items()}
            for sign in _covering(mask, mask, [unit], within, near):
                replaced.setdefault(sign | {unit}, set())
    return tuple(BridgeStep(sign, frozenset(units) | (sign & others.keys())) for sign, units in replaced.items())


def _together(masks: Mapping[bytes, Key]) -> dict[Key, list[bytes]]:
    """The units of each mask."""
    units: dict[Key, list[bytes]] = defaultdict(list)
    for unit, mask in masks.items():
        units[mask].append(unit)
    return units


def _covering(
    wanted: int, allowed: int, units: Iterable[bytes], signs: Mapping[Signs, int], others: Masks
) -> list[Signs]:
    """Signs that are there in all configs ``wanted`` and in none that is not ``allowed``; few, and of the same class as
    the units where there is a choice."""
    classes = {_class_of(unit) for unit in units}
    chosen, left = list[Signs](), wanted
    for candidates in _candidates(wanted, allowed, signs, others):
        within = {sign: mask for sign, mask in candidates.items() if not mask & ~allowed}
        while left and within:
            gains = {sign: (mask & left).bit_count() for sign, mask in within.items()}
            best = max(gains, key=lambda sign: (gains[sign], bool(classes & set(map(_class_of, sign))), sorted(sign)))
            if not gains[best]:
                break
            chosen.append(best)
            left &= ~within.pop(best)
        if not left:
            return chosen
    named = ", ".join(sorted(parted(unit)[0] for unit in units))
    raise NoBridge(f"nothing in the code of after tells in which runs {named} changed")


def _candidates(wanted: int, allowed: int, signs: Mapping[Signs, int], others: Masks) -> Iterator[Mapping[Signs, int]]:
    """The signs of steps that there are, then single units, then pairs; one unit stands for all of the same configs."""
    yield signs
    yield {frozenset([unit]): mask for unit, mask in others.items()}
    one_of_each = {mask: unit for unit, mask in others.items() if mask & wanted}
    yield {
        frozenset([one, two]): both
        for (first, one), (second, two) in combinations(one_of_each.items(), 2)
        if (both := first & second) & wanted and not both & ~allowed
    }


def _class_of(unit: bytes) -> str:
    return parted(unit)[0].partition(".")[0]
