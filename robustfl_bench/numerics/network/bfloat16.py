"""Gradients of dense networks from factors in bfloat16, on a processor with units for their products.

PyTorch can round the factors of float32 products itself, but it converts them anew in every call, and only for one kind
of unit (AMX). Here samples are converted once and stay, and weights are converted once per step. A product adds up in
float32; its result is rounded, as it is the factor of another product or an entry of a gradient. The last layer, which
is narrow, the losses, the models and the updates stay in float32, and so does testing.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.weak import WeakTensorKeyDictionary

from robustfl_bench.numerics.network.dense import Layer
from robustfl_bench.numerics.network.gradients import chunks, pairs
from robustfl_bench.numerics.network.losses import mean_losses
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Batch
from robustfl_bench.numerics.network.stacked import is_stackable


def has_units() -> bool:
    """Whether the processor multiplies numbers in bfloat16 faster than in float32."""
    return torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()  # no public name tells this


def rounded(network: Network) -> "Rounded | None":
    """The network with gradients from factors in bfloat16, if that costs less: a dense classifier with a hidden layer,
    on a processor with the units; else None."""
    return Rounded(network) if has_units() and is_stackable(network) else None


class Rounded(Network):
    """A dense network with gradients from factors in bfloat16; all else is that of ``network``."""

    def __init__(self, network: Network) -> None:
        vars(self).update(vars(network))
        self._converted = WeakTensorKeyDictionary()

    @torch.no_grad()
    def gradients(self, params: Tensor, batch: Batch, out: Tensor) -> Tensor:
        """As the base."""
        layers = _converted(pairs(self, params))
        parts = chunks(self._samples(batch), out, self.chunk(batch.all_x))
        return torch.cat(self.each(lambda part: _gradients(layers, part[0], pairs(self, part[1])), parts))

    @torch.no_grad()
    def own_gradients(self, stack: Tensor, batch: Batch, out: Tensor) -> Tensor:
        """As the base."""
        turns = zip(stack, self._samples(batch).clients(), out.split(1), strict=True)

        def work(turn: tuple[Tensor, tuple[Tensor, Tensor], Tensor]) -> Tensor:
            model, (x, y), row = turn
            return _gradients(_converted(pairs(self, model)), Batch(x, y, (len(y),)), pairs(self, row))

        return torch.cat(self.each(work, turns))

    def gradients_along(self, models: Tensor, batches: Iterable[Batch], out: Tensor) -> Iterator[Tensor]:
        """As the base."""
        for batch in batches:
            yield (self.gradients(models[0], batch, out) if len(out) == 1 else self.own_gradients(models, batch, out))

    def _samples(self, batch: Batch) -> Batch:
        """The batch in bfloat16; the samples of a population, of which it may be a part, are converted once."""
        if (samples := self._converted.get(batch.all_x)) is None:
            samples = self._converted[batch.all_x] = batch.all_x.flatten(1).bfloat16()
        return Batch(samples, batch.all_y, batch.sizes, batch.starts)


def _converted(layers: Sequence[Layer]) -> list[Layer]:
    """The layers with all but the last in bfloat16."""
    *hidden, last = layers
    return [*((weight.bfloat16(), bias.bfloat16()) for weight, bias in hidden), last]


def _gradients(layers: Sequence[Layer], batch: Batch, out: Sequence[Layer]) -> Tensor:
    """As ``dense.gradients``, with the samples and all layers but the last in bfloat16, into ``out`` in float32."""
    *hidden, last = layers
    inputs, sizes = [batch.x], batch.sizes
    for weight, bias in hidden:
        inputs.append(functional.linear(inputs[-1], weight, bias).clamp_min_(0))
    above = inputs.pop()
    features = above.float()
    losses, delta = mean_losses(functional.linear(features, *last), batch.y, sizes)
    bounds = [slice(end - size, end) for size, end in zip(sizes, accumulate(sizes), strict=True)]
    for own, weight, bias in zip(bounds, *out[-1], strict=True):
        torch.mm(delta[own].T, features[own], out=weight)
        torch.sum(delta[own], dim=0, out=bias)
    delta = (delta @ last[0]).bfloat16()
    for (weight, _), rows, below in zip(reversed(hidden), reversed(out[:-1]), reversed(inputs), strict=True):
        delta = torch.ops.aten.threshold_backward(delta, above, 0)
        for own, place, shift in zip(bounds, *rows, strict=True):
            place.copy_(delta[own].T @ below[own])
            torch.sum(delta[own].float(), dim=0, out=shift)
        if below is not batch.x:
            delta, above = delta @ weight, below
    return losses
