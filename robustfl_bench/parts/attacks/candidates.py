"""The attacks that ``worst`` chooses from: every entry is an attack that crafts updates, at a ladder of strengths.

Entries work on updates and use neither the rule nor the learning rate. Entries of published attacks call those attacks.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.numerics.updates import mean_row
from robustfl_bench.parts.attacks.base import AttackView
from robustfl_bench.parts.attacks.krum_attack import KrumAttack
from robustfl_bench.parts.attacks.mimic import most_skewed
from robustfl_bench.parts.attacks.minmax import MinMax
from robustfl_bench.parts.attacks.minsum import MinSum
from robustfl_bench.parts.attacks.perturbation import PERTURBATIONS
from robustfl_bench.parts.attacks.trim_attack import TrimAttack

DECAY = 0.9  # per round, of the sum of honest means that drift works against


@dataclass(frozen=True)
class Scene:
    """One round as the entries see it; ``view`` holds updates even if clients send models."""

    view: AttackView

    @cached_property
    def size(self) -> float:
        """Root mean square of the coordinates of the honest mean."""
        return float(self.view.mean.double().square().mean().sqrt())

    @cached_property
    def noise(self) -> Tensor:
        """A standard normal draw for every attacker, (b, d), the same at all strengths."""
        view = self.view
        draw = view.rng.standard_normal((view.num_byzantine, view.honest.d), dtype=np.float32)
        return torch.from_numpy(draw).to(view.honest.device)

    @cached_property
    def magnitude(self) -> Tensor:
        """Mean size of the honest values in every coordinate, (d,)."""
        return mean_row(self.view.honest.matrix.abs())

    @cached_property
    def trend(self) -> Tensor:
        """The sum of the honest means of all rounds so far, discounted by age, (d,)."""
        before = self.view.memory.get("trend")
        return self.view.mean if before is None else DECAY * before + self.view.mean

    @property
    def start(self) -> Tensor:
        """The model of the first round, (d,)."""
        return self.view.memory.get("start", self.view.params)

    @cached_property
    def alignment(self) -> Tensor:
        """Inner products (h,) of the honest updates with their mean."""
        return self.view.honest.cross(self.view.mean[None]).squeeze(1)

    @property
    def memory(self) -> Mapping[str, Tensor]:
        """The memory that later rounds need: ``trend`` and ``start``."""
        return {"trend": self.trend, "start": self.start}

    def as_long(self, vector: Tensor) -> Tensor:
        """The vector (d,), scaled to the length of the honest mean; zero stays zero."""
        length = float(torch.linalg.vector_norm(vector, dtype=torch.float64))
        return vector if length == 0 else vector * (self.size * math.sqrt(len(vector)) / length)

    def halves(self, first: Tensor, second: Tensor) -> Tensor:
        """Rows (b, d): half of the attackers, rounded up, send ``first`` (d,), the others ``second`` (d,)."""
        b = self.view.num_byzantine
        return torch.where(torch.arange(b, device=first.device)[:, None] < (b + 1) // 2, first, second)

    def copy(self, client: int | Tensor) -> Tensor:
        """The update (d,) of an honest client."""
        return self.view.honest.matrix[int(client)]


@dataclass(frozen=True)
class Entry:
    """A named attack: ``rows`` crafts (b, d) or (d,) at each of the ``strengths``, which ascend."""

    name: str
    rows: Callable[[Scene, float], Tensor]
    strengths: tuple[float, ...] = (1.0,)


def _published(attack: MinMax | MinSum | KrumAttack | TrimAttack, scene: Scene, _: float) -> Tensor:
    return attack.craft(scene.view)


ENTRIES: tuple[Entry, ...] = (
    # Against the honest mean: IPM, whose large strengths are sign flipping
    Entry("ipm", lambda s, k: -k * s.view.mean, (0.1, 0.5, 1, 2, 10, 100)),
    # ALIE on both sides
    Entry("alie_plus", lambda s, k: s.view.mean + k * s.view.std, (0.25, 0.5, 1, 1.5, 3, 10)),
    Entry("alie_minus", lambda s, k: s.view.mean - k * s.view.std, (0.25, 0.5, 1, 1.5, 3, 10)),
    # Against the sign of the mean: all coordinates of one size, or each of the mean size of its honest values
    Entry("sign", lambda s, k: -k * s.size * s.view.mean.sign(), (0.5, 1, 4, 16)),
    Entry("scaled_sign", lambda s, k: -k * s.magnitude * s.view.mean.sign(), (0.5, 1, 4)),
    # Independent noise for each attacker
    Entry("noise", lambda s, k: k * s.size * s.noise, (1, 10, 100, 10_000)),
    # Published attacks: at the bounds of Min-Max and Min-Sum on distances, then on Krum and on the trimmed mean
    *(Entry(f"minmax_{kind}", partial(_published, MinMax(kind))) for kind in PERTURBATIONS),
    *(Entry(f"minsum_{kind}", partial(_published, MinSum(kind))) for kind in PERTURBATIONS),
    Entry("krum_attack", partial(_published, KrumAttack())),
    Entry("trim_attack", partial(_published, TrimAttack())),
    # Zeros, or the update of one honest client
    Entry("zero", lambda s, k: torch.zeros_like(s.view.mean)),
    Entry("mimic_skewed", lambda s, k: s.copy(most_skewed(s.view.label_counts))),
    Entry("mimic_opposed", lambda s, k: s.copy(s.alignment.argmin())),
    Entry("mimic_longest", lambda s, k: s.copy(s.view.honest.norms.argmax())),
    Entry("mimic_shortest", lambda s, k: s.copy(s.view.honest.norms.argmin())),
    # Half of the attackers on each side
    Entry("split_alie", lambda s, k: s.halves(s.view.mean + k * s.view.std, s.view.mean - k * s.view.std), (1, 3)),
    Entry("split_ipm", lambda s, k: s.halves(-k * s.view.mean, s.view.mean), (1, 10)),
    # With memory: against the honest means so far, or back to the model of the first round
    Entry("drift", lambda s, k: -k * s.as_long(s.trend), (0.5, 1, 4)),
    Entry("rewind", lambda s, k: k * s.as_long(s.view.params - s.start), (0.5, 1, 4, 10)),
)
"""The list of entries. ``attack_choice`` in the metrics of a run is an index into it, from 0."""
