"""The gradients of many clients on a GPU, computed side by side in every layer, for any kind of layer.

A single client is too little work for a GPU, and every operation costs a call. Here a layer is one operation for all
clients (``vmap``), a batch of products or a grouped convolution. The host never waits for a result.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.numerics.network import dropout
from robustfl_bench.numerics.network.flat import ROOM, FlatModule
from robustfl_bench.numerics.network.gradients import summed
from robustfl_bench.numerics.network.recorded import KINDS, Recorded, Work
from robustfl_bench.numerics.network.samples import Batch, moved

Index = NDArray[np.int64]

PADDED = 2  # clients grouped together have at most this many times as many samples as the smallest of them


@runtime_checkable
class WithKernels(Protocol):
    """A module that computes the gradients of many clients at one model itself, under cross-entropy, on a GPU."""

    def has_kernels(self, device: torch.device) -> bool:
        """Whether it does so on this device."""

    def gradients_by_kernels(
        self, weights: dict[str, Tensor], x: Tensor, y: Tensor, shares: Tensor
    ) -> tuple[dict[str, Tensor], Tensor]:
        """The gradients of the clients' mean losses, a stack (n, ...) for each of the ``weights``, and these losses
        (n,). Client i has the samples ``x[i]`` (m, ...) and ``y[i]`` (m,), which count with ``shares[i]`` (m,)."""


class SideBySide:
    """The gradients of a module for clients with a model each or with one common model.

    Clients are processed in the order of their sample counts, as many at once as memory allows, and padded to the
    largest of them by samples of weight 0. There is no padding with batch normalisation, where samples of a batch
    affect each other, nor with dropout, so that a client's draws do not depend on other clients. If ``vmap`` cannot
    handle a module, which the first call finds out, the clients take turns.
    """

    def __init__(self, flat: FlatModule, criterion: Callable[..., Tensor]) -> None:
        self.flat, self._criterion = flat, criterion
        self._stochastic = dropout.has_dropout(flat.module)
        self._stretch = 1 if self._stochastic or _has_batch_norm(flat.module) else PADDED
        self._streams: list[torch.Generator] = []  # random streams of the grouped clients for dropout, else empty
        self._client: Tensor | None = None  # index of the client in its group
        self._takes_turns = False
        self._batched: set[str] = set()  # what vmap has handled
        self._by_kernels_on: dict[torch.device, bool] = {}
        self._recorded = Recorded()
        for layer in flat.module.modules():
            if isinstance(layer, dropout.KINDS):
                layer.register_forward_hook(self._dropped)
            elif isinstance(layer, _DropoutNd):
                raise ConfigError(f"{type(layer).__name__} has no draws of each client on a GPU: set device=cpu")

    def __call__(self, params: Tensor, batch: Batch, out: Tensor) -> Tensor:
        """Write each client's gradient of its mean loss into its row of ``out`` (n, d).

        ``params`` is one model (d,) for all clients, or a model per client, (n, d). Returns the mean losses (n,)
        float64.
        """
        losses = torch.empty(len(out), dtype=torch.float64, device=out.device)
        sizes, each = np.array(batch.sizes), params.dim() == 2
        order = np.argsort(sizes, kind="stable")
        places = moved(order, out.device)
        for some in self._together(sizes[order], self.flat.chunk(batch.all_x)):
            chosen, where = order[some], places[some]
            rows, weights = _padded(batch.starts[chosen], sizes[chosen])
            index = moved(rows, out.device)
            given = (batch.all_x[index], batch.all_y[index], moved(weights, out.device).to(out.dtype))
            if self._stochastic and batch.noise is not None:
                self._streams = [_stream(batch.noise(client), out.device) for client in chosen.tolist()]
            clients = torch.arange(len(chosen), device=out.device)
            models = params[where] if each else params
            gradients, values = self._gradients_of(0 if each else None, models, *given, clients)
            out.index_copy_(0, where, gradients)
            losses.index_copy_(0, where, values.double())
        self._streams = []
        return losses

    @torch.no_grad()
    def totals(self, stack: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """The sum of the losses of each of the models ``stack`` (k, d) on the same samples, and its number of errors
        (meaningless for regression), (k, 2) float64."""
        samples = self.flat.chunk(x)
        parts = list(zip(x.split(samples), y.split(samples), strict=True))
        totals = []
        for models in stack.split(max(1, samples // len(x))):
            found = [self._for_each(self._total, (0, None, None), models, xs, ys)[0] for xs, ys in parts]
            totals.append(torch.stack(found).sum(dim=0))
        return torch.cat(totals)

    def _together(self, sizes: Index, samples: int) -> Iterator[slice]:
        """Groups of clients, with ascending ``sizes``, if ``samples`` samples fit into memory."""
        most, first = max(1, ROOM // self.flat.dim), 0
        for last in range(1, len(sizes) + 1):
            if (
                last == len(sizes)
                or last - first == most
                or sizes[last] > self._stretch * sizes[first]
                or (last + 1 - first) * sizes[last] > samples
            ):
                yield slice(first, last)
                first = last

    def _gradients_of(self, model: int | None, *given: Tensor) -> Sequence[Tensor]:
        """The gradients and the losses of clients, recorded where the device can do so; ``model`` is 0 if each has its
        own."""
        by_kernels = model is None and self._is_by_kernels(given[0].device)
        work: Work = self._by_kernels if by_kernels else partial(self._for_each, self._gradient, (model, 0, 0, 0, 0))
        can_record = given[0].device.type in KINDS and not self._stochastic and not self._takes_turns
        with torch.cuda.device_of(given[0]):
            return self._recorded(model, work, given) if can_record else work(*given)

    def _is_by_kernels(self, device: torch.device) -> bool:
        if device not in self._by_kernels_on:
            module, entropy = self.flat.module, self._criterion is functional.cross_entropy
            self._by_kernels_on[device] = isinstance(module, WithKernels) and entropy and module.has_kernels(device)
        return self._by_kernels_on[device]

    def _by_kernels(self, params: Tensor, x: Tensor, y: Tensor, weights: Tensor, _: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients (n, d) and losses (n,) at one model by the module itself."""
        module: Any = self.flat.module
        gradients, losses = module.gradients_by_kernels(self.flat.views(params), x, y, weights)
        return torch.cat([gradients[name].flatten(1) for name in self.flat.slots], dim=1), losses

    def _for_each(
        self, work: Callable[..., tuple[Tensor, ...]], dims: tuple[int | None, ...], *given: Tensor
    ) -> tuple[Tensor, ...]:
        """The stacked results of ``work`` for every entry of the arguments in ``given`` whose entry of ``dims`` is
        0."""
        if not self._takes_turns:
            try:
                found: tuple[Tensor, ...] = vmap(work, dims, randomness="same")(*given)
                self._batched.add(work.__name__)
                return found
            except torch.OutOfMemoryError:
                raise
            except RuntimeError:  # an operation that cannot be batched; any other error will be raised again
                if work.__name__ in self._batched:
                    raise
                self._takes_turns = True
        number = next(len(part) for part, dim in zip(given, dims, strict=True) if dim == 0)
        turns = [
            work(*(part if dim is None else part[i] for part, dim in zip(given, dims, strict=True)))
            for i in range(number)
        ]
        return tuple(map(torch.stack, zip(*turns, strict=True)))

    def _gradient(self, params: Tensor, x: Tensor, y: Tensor, weights: Tensor, client: Tensor) -> tuple[Tensor, Tensor]:
        """The gradient (d,) of a client's mean loss, and that loss."""

        def loss(views: dict[str, Tensor]) -> Tensor:
            outputs = functional_call(self.flat.module, views, (x,))
            total: Tensor = (self._criterion(outputs, y, reduction="none") * weights).sum()
            return total

        self._client = client
        gradients, value = grad_and_value(loss)(self.flat.views(params))
        return torch.cat([gradients[name].reshape(-1) for name in self.flat.slots]), value

    def _total(self, params: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor]:
        outputs = functional_call(self.flat.module, self.flat.views(params), (x,))
        return (summed(self._criterion, outputs, y),)

    def _dropped(self, layer: _DropoutNd, _: Any, output: Tensor) -> Tensor | None:
        """The output of a dropout layer (itself in evaluation mode) after dropout with the client's own draws."""
        if not self._streams or self._client is None or not layer.p:
            return None
        by_channel = not isinstance(layer, nn.Dropout)
        shape = (*output.shape[:2], *(1 for _ in output.shape[2:])) if by_channel else output.shape
        masks = [output.new_empty(shape).bernoulli_(1 - layer.p, generator=stream) for stream in self._streams]
        own = torch.stack(masks).index_select(0, self._client.view(1))[0]
        return output * own / (1 - layer.p) if layer.p < 1 else output * own


def _padded(starts: Index, sizes: Index) -> tuple[Index, NDArray[np.float64]]:
    """The rows (k, m) of the samples of k clients, the largest with m samples, and the weights (k, m) in their
    means."""
    place, sizes = np.arange(sizes.max()), sizes[:, None]
    weights = (place < sizes) / sizes
    return starts[:, None] + np.minimum(place, sizes - 1), weights


def _stream(seed: int, device: torch.device) -> torch.Generator:
    """A client's random stream on the device; its draws differ from those on a CPU."""
    return torch.Generator(device).manual_seed(seed)


def _has_batch_norm(module: nn.Module) -> bool:
    return any(isinstance(layer, _BatchNorm) for layer in module.modules())
