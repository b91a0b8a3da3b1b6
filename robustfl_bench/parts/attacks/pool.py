"""The attacks that attackers who plan simulate, and what each of them remembers (ours).

``planned`` and ``blindspot`` share this pool, which attacks from outside enter by ``pool``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from robustfl_bench.base.errors import ConfigError, near
from robustfl_bench.parts.attacks.adaptive import Adaptive
from robustfl_bench.parts.attacks.base import Attack, AttackView, Crafted
from robustfl_bench.parts.attacks.bit_flip import BitFlip
from robustfl_bench.parts.attacks.candidates import Scene
from robustfl_bench.parts.attacks.fake_loss import FakeLoss
from robustfl_bench.parts.attacks.held import Held
from robustfl_bench.parts.attacks.label_flip import LabelFlip
from robustfl_bench.parts.attacks.label_shuffle import LabelShuffle
from robustfl_bench.parts.attacks.mimic import Mimic
from robustfl_bench.parts.attacks.minmax import MinMax
from robustfl_bench.parts.attacks.minsum import MinSum
from robustfl_bench.parts.attacks.noisy import Noisy
from robustfl_bench.parts.attacks.opt_alie import OptimalLittleIsEnough
from robustfl_bench.parts.attacks.opt_ipm import OptimalInnerProductManipulation
from robustfl_bench.parts.attacks.rop import RelocatedOrthogonalPerturbation
from robustfl_bench.parts.attacks.tailored import Tailored
from robustfl_bench.parts.attacks.worst import Worst
from robustfl_bench.parts.attacks.wrapped import Wrapped


@dataclass(frozen=True)
class Honest(Attack):
    """Byzantine clients that train honestly, on unpoisoned data: what attackers do if every attack would help."""

    crafts = False


def _held(entry: str, *strengths: float) -> dict[str, Attack]:
    return {f"{entry} {strength:g}": Held(entry, strength) for strength in strengths}


POOL: dict[str, Attack] = {
    "honest": Honest(),
    **_held("ipm", 0.5, 1, 2, 10),
    **_held("alie_plus", 1.5),
    **_held("alie_minus", 0.5, 1.5, 3),
    **_held("sign", 1, 4),
    **_held("scaled_sign", 1),
    **_held("noise", 10, 100),
    **_held("minmax_unit", 1),
    **_held("minsum_unit", 1),
    **_held("krum_attack", 1),
    **_held("trim_attack", 1),
    **_held("zero", 1),
    **_held("mimic_skewed", 1),
    **_held("mimic_shortest", 1),
    **_held("split_alie", 3),
    **_held("split_ipm", 10),
    **_held("drift", 1, 4),
    **_held("rewind", 1, 4, 10),
    "mimic": Mimic(),
    "minmax": MinMax(),
    "minsum": MinSum(),
    "adaptive": Adaptive(),
    "rop": RelocatedOrthogonalPerturbation(),
    "bit_flip": BitFlip(),
    "label_flip": LabelFlip(),
    "label_shuffle": LabelShuffle(),
    "fake_loss": FakeLoss(LabelShuffle()),
    "noisy": Noisy(),
    "tailored": Tailored(),
    "opt_alie": OptimalLittleIsEnough(),
    "opt_ipm": OptimalInnerProductManipulation(),
    "worst": Worst(),
}
"""The attacks that are simulated. ``attack_policy`` in the metrics of a run is an index into it, from 0."""

SEARCHES = {"worst": 6.0, "opt_alie": 5.0, "opt_ipm": 5.0, "tailored": 3.0}
"""Attacks that ask the rule many times in a round, with what a simulation costs, in clean trainings."""

_QUIET = 0.7
"""What a simulation of any other attack costs, at most, where gradients are stacked."""

Entries = tuple[Attack | str, ...]
"""Attacks of a pool: those of ``POOL`` by name, others as they are."""


def members(entries: Entries | None) -> tuple[Attack, ...]:
    """The attacks of a pool, by default all of ``POOL``. Raises ConfigError for a name that is not in it."""
    names = tuple(POOL) if entries is None else entries
    for name in names:
        if isinstance(name, str) and name not in POOL:
            raise ConfigError(f"pool has no attack {name!r}{near(name, list(POOL))}; another one enters it as "
                              f"my_module:MyAttack")  # fmt: skip
    if not names:
        raise ConfigError("pool must have at least one attack, got none")
    return tuple(POOL[name] if isinstance(name, str) else name for name in names)


def prices(attacks: Sequence[Attack]) -> tuple[float, ...]:
    """What a simulation of each of the attacks of a pool costs, in clean trainings."""
    names = [next((name for name, member in POOL.items() if member == attack), "") for attack in attacks]
    return tuple(SEARCHES.get(name, _QUIET) for name in names)


SCENE, PLAN = "scene/", "plan"
"""Parts of the attackers' memory, beside one for each attack of the pool."""


@dataclass(frozen=True)
class Acting(Wrapped):
    """The ``attack`` of a pool at ``place``, with the ``plan_made`` that attackers remember and the ``notes`` on it.

    Its random stream is theirs of the run, in a simulation as well: attackers know what they themselves will draw.

    It has a part of the attackers' memory of its own. What ``candidates.Scene`` remembers is common to the whole pool
    and kept in every round, so that an attack that is chosen late still knows the model of the first round.
    """

    place: int
    own_draws: Callable[[int], np.random.Generator] = field(compare=False)
    plan_made: Tensor | None = field(default=None, compare=False)
    notes: Mapping[str, float] = field(default_factory=dict, compare=False)

    def craft(self, view: AttackView) -> Crafted:
        view = _with(view, rng=self.own_draws(view.round))
        slot = SCENE if isinstance(self.attack, Held | Worst) else f"{self.place}/"
        returned = self.attack.craft(_with(view, memory=_part(view.memory, slot)))
        crafted = returned if isinstance(returned, Crafted) else Crafted(returned)
        scene = crafted.memory
        memory = {**view.memory, **_named(slot, crafted.memory)}
        if slot != SCENE:
            scene = Scene(_with(view, memory=_part(view.memory, SCENE)).of_updates).memory
        memory |= _named(SCENE, scene)
        if self.plan_made is not None:
            memory[PLAN] = self.plan_made
        return Crafted(crafted.rows, memory, self.notes)


def _part(memory: Mapping[str, Tensor], slot: str) -> dict[str, Tensor]:
    return {name.removeprefix(slot): value for name, value in memory.items() if name.startswith(slot)}


def _named(slot: str, memory: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {slot + name: value for name, value in memory.items()}


def _with(view: AttackView, **changes: object) -> AttackView:
    """The view with other attributes, and with what it has computed so far."""
    other = copy(view)
    vars(other).update(changes)
    return other
