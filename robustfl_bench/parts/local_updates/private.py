"""Private gradients: clipped sample by sample, with noise (Allouah, Guerraoui, Gupta, Pinot, Stephan, ICML 2023).

"On the privacy-robustness-utility trilemma in distributed learning", https://arxiv.org/abs/2302.04787.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base.fields import Option, at_least
from robustfl_bench.numerics.clipping import clip_factors
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Batch, Samples
from robustfl_bench.numerics.privacy import GaussianNoise
from robustfl_bench.parts.local_updates.base import LocalUpdate

AT_ONCE = 1 << 22  # numbers in the gradients of single samples that are held together


@dataclass(frozen=True)
class Private(LocalUpdate):
    """A client sends the mean of its samples' clipped gradients, plus Gaussian noise.

    This is DP-SGD (Abadi et al., CCS 2016, arXiv 1607.00133) at every client. Of each of the b samples in its batch,
    the client shortens the gradient to at most ``clip``. Another sample in the place of one moves the mean by at most
    2 ``clip`` / b; the standard deviation of the noise in a coordinate is ``noise`` times that. Without clipping and
    noise, the mean is the gradient of ``fedsgd``. In the paper clients send the momentum of these gradients:
    ``local_update=private_momentum``.

    The column ``epsilon`` of metrics.csv counts what a client's updates have told of one of its samples, to the server
    and to anyone else, at ``delta``. Not counted is what a client tells besides: training losses to a rule that asks
    for them, its number of samples, its choice of a model in clustered training, where there is no column. The noise
    comes from a seeded stream that depends on neither rule nor attack: a simulation, whose seed nobody knows.
    """

    clip: Annotated[float, Option(0, ends="()")] = 1.0
    """C: longest gradient of a sample"""
    noise: Annotated[float, at_least(0)] = 1.0
    """standard deviation of the noise, in units of 2 C / b; 0: no noise, and no privacy"""
    delta: Annotated[float | None, Option(0, 1, "()")] = 1e-4
    """probability that epsilon does not bound; null: epsilon is not counted, which needs no further package"""

    @property
    def privacy(self) -> GaussianNoise | None:
        """The noise relative to its sensitivity; None without noise, or if it is not counted."""
        return GaussianNoise(self.noise, self.delta) if self.noise and self.delta is not None else None

    def __call__(self, network: Network, params: Tensor, samples: Samples, lr: float, out: Tensor) -> Tensor:
        """Fill the rows of ``out`` (n, d) for the chosen clients; returns their mean losses (n,) at ``params``."""
        batch, losses = samples.batch(0), []
        for position, (row, i) in enumerate(zip(out, samples.ids, strict=True)):
            losses.append(self._clipped_sum(network, params, batch.part([position]), row))
            drawn = samples.draws("privacy", i).standard_normal(len(row), dtype=np.float32)
            noise = torch.from_numpy(drawn).to(row.device)
            row.add_(noise, alpha=2 * self.clip * self.noise).div_(batch.sizes[position])
        return torch.stack(losses)

    def _clipped_sum(self, network: Network, params: Tensor, own: Batch, out: Tensor) -> Tensor:
        """Write the sum of a client's clipped gradients into ``out`` (d,); returns its mean loss."""
        ((x, y),) = own.clients()
        width, losses = max(1, AT_ONCE // len(out)), []
        out.zero_()
        for first in range(0, len(y), width):
            xs, ys = x[first : first + width], y[first : first + width]
            gradients = out.new_empty(len(ys), len(out))
            losses.append(network.gradients(params, _one_by_one(xs, ys, own, first), gradients))
            out += clip_factors(gradients.norm(dim=1), self.clip) @ gradients
        return torch.cat(losses).mean()


def _one_by_one(x: Tensor, y: Tensor, own: Batch, first: int) -> Batch:
    """Samples of a client, each as if it were a client; they are its samples from ``first`` on."""
    noise = own.noise
    each = None if noise is None else lambda i: noise(0) + first + i
    return Batch(x, y, (1,) * len(y), noise=each)
