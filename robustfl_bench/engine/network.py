"""A network as a function of one flat parameter vector, and the gradients of many clients at once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap
from torch.nn import functional
from torch.nn.grad import conv2d_weight

from robustfl_bench import seeding
from robustfl_bench.engine import dense, least_squares
from robustfl_bench.engine.samples import Batch
from robustfl_bench.interfaces import Model
from robustfl_bench.numerics.products import ConstantWeights, times_transposed

CHUNK = {"cpu": 1024, "cuda": 1 << 16}  # samples that go through the network together: what stays in the cache
CONVOLUTIONS_CHUNK = 128  # the same on a CPU where there are feature maps: twice as fast as 1024
STACK_BYTES = 1 << 30  # memory for the activations of a stack of models


def squared_error(outputs: Tensor, targets: Tensor, reduction: str = "mean") -> Tensor:
    """Squared Euclidean distances of outputs (N, t) from targets (N, t), or (N,) for t = 1; reduced as in PyTorch."""
    losses = (outputs - targets.view_as(outputs)).square().sum(dim=1)
    return losses if reduction == "none" else losses.sum() if reduction == "sum" else losses.mean()


class Network:
    """A module with its parameters in one vector (d,), in the order of ``module.parameters()``.

    ``num_classes`` outputs under cross-entropy, or with ``regression`` as many numbers under squared error. The module
    must treat every sample by itself. A model of texts is given its word ``vectors`` (V, e).
    """

    def __init__(
        self,
        model: Model,
        input_shape: tuple[int, ...],
        num_classes: int,
        seed: int,
        vectors: Tensor | None = None,
        regression: bool = False,
    ) -> None:
        words = [] if vectors is None else [vectors.cpu()]
        self._make, self._seed = partial(model, input_shape, num_classes, *words), seed
        self.module = self._made("initial model").eval()
        self.stochastic = any(isinstance(layer, nn.Dropout) for layer in self.module.modules())
        self._convolutional = any(isinstance(layer, nn.Conv2d) for layer in self.module.modules())
        self.num_classes, self.regression = num_classes, regression
        self.criterion: Callable[..., Tensor] = squared_error if regression else functional.cross_entropy
        self._least_squares = regression and least_squares.is_linear_regression(self.module)
        self._dense = not regression and dense.is_dense(self.module)
        self.initial = _flat(self.module)
        self.dim = len(self.initial)
        self._slots: dict[str, tuple[int, torch.Size]] = {}
        start = 0
        for name, parameter in self.module.named_parameters():
            self._slots[name] = (start, parameter.shape)
            start += parameter.numel()
        self._layers = _layers_with_simple_gradients(self.module)
        self._tape: list[tuple[str, nn.Module, Tensor, Tensor]] | None = None
        for name, layer in (self._layers or {}).items():
            layer.register_forward_hook(self._recorder(name))
        self._tie()

    def _tie(self) -> None:
        """Make the module's parameters parts of one vector, so that any others are one copy away."""
        self._held = self.initial.clone()
        for parameter, view in zip(self.module.parameters(), self.views(self._held).values(), strict=True):
            parameter.data = view

    def _made(self, *name: str | int) -> nn.Module:
        # Modules initialise themselves from the global generator: lend it to them, seeded by name, and restore it.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seeding.integer(self._seed, *name))
            return self._make()

    @contextmanager
    def noise(self, seed: int) -> Iterator[None]:
        """Within it the module is stochastic (dropout), from a stream of its own; outside it is not."""
        device = self.initial.device
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(seed)
            self.module.train()
            try:
                yield
            finally:
                self.module.eval()

    def another_initial(self, number: int) -> Tensor:
        """Initial parameters (d,), drawn independently for every ``number``; number 0 has ``initial``."""
        return _flat(self._made("initial model", number)).to(self.initial.device) if number else self.initial

    def to(self, device: torch.device) -> "Network":
        """Move buffers and the initial vector to ``device``; returns self."""
        self.module.to(device)
        self.initial = self.initial.to(device)
        self._tie()
        return self

    def views(self, params: Tensor) -> dict[str, Tensor]:
        """The named parameters as views of the flat vector(s) ``params`` (..., d)."""
        return {
            name: params[..., start : start + shape.numel()].view(*params.shape[:-1], *shape)
            for name, (start, shape) in self._slots.items()
        }

    def _chunk(self, x: Tensor) -> int:
        """How many samples go through the network together."""
        return CONVOLUTIONS_CHUNK if self._convolutional and x.device.type == "cpu" else CHUNK[x.device.type]

    def _in_parts(self, params: Tensor, x: Tensor) -> Tensor:
        """The outputs ``logits``, part by part."""
        return torch.cat([self.logits(params, part) for part in x.split(self._chunk(x))])

    def logits(self, params: Tensor, x: Tensor) -> Tensor:
        """Outputs (N, c) of the model ``params`` (d,)."""
        with ConstantWeights():
            out: Tensor = functional_call(self.module, self.views(params), (x,))
        return out

    @torch.no_grad()
    def evaluate(self, params: Tensor, x: Tensor, y: Tensor) -> tuple[float, np.ndarray | None]:
        """Mean loss of the model ``params`` (d,), and confusion counts (c, c), true classes in rows (no regression)."""
        total = torch.zeros((), dtype=torch.float64, device=x.device)
        cells = []
        for xs, ys in zip(x.split(CHUNK[x.device.type]), y.split(CHUNK[x.device.type]), strict=True):
            outputs = self._in_parts(params, xs)
            total += self.criterion(outputs, ys, reduction="sum").double()
            if not self.regression:
                cells.append(ys * self.num_classes + outputs.argmax(dim=1))
        if self.regression:
            return float(total) / len(y), None
        counts = torch.bincount(torch.cat(cells), minlength=self.num_classes**2)
        return float(total) / len(y), counts.view(self.num_classes, self.num_classes).cpu().numpy()

    @torch.no_grad()
    def losses(self, params: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Mean losses (k,) float64 of k models ``params`` (k, d) on the same samples."""
        if self.stochastic:  # large networks, whose layers may have no batched form (LSTM): one by one
            return torch.stack([self.criterion(self.logits(one, x), y).double() for one in params])
        outputs = sum(shape.numel() // shape[-1] for _, shape in self._slots.values() if len(shape))
        chunk = max(1, STACK_BYTES // (4 * len(x) * max(outputs, 1)))

        def one(views: dict[str, Tensor]) -> Tensor:
            return self.criterion(functional_call(self.module, views, (x,)), y)

        return torch.cat([vmap(one)(self.views(part)).double() for part in params.split(chunk)])

    @torch.no_grad()
    def client_losses(self, params: Tensor, batch: Batch) -> Tensor:
        """Mean losses (n, k) float64 of k models ``params`` (k, d) on the samples of each of n clients."""
        if self._least_squares:
            return least_squares.client_losses(params, batch)
        chunk = CHUNK[batch.x.device.type]
        chunks = list(zip(batch.x.split(chunk), batch.y.split(chunk), strict=True))
        sizes = torch.tensor(batch.sizes, device=batch.x.device)
        columns = []
        for one in params:
            losses = torch.cat([self.criterion(self._in_parts(one, x), y, reduction="none") for x, y in chunks])
            columns.append(torch.segment_reduce(losses.double(), "mean", lengths=sizes))
        return torch.stack(columns, dim=1)

    def slopes(self, batch: Batch) -> Tensor | None:
        """By how much each client's root mean squared error changes at most when a model moves by 1, (n,) float64; None
        for networks of which that is not known."""
        return least_squares.slopes(batch) if self._least_squares else None

    def gradients(self, params: Tensor, batch: Batch, out: Tensor) -> Tensor:
        """Write each client's gradient of its mean loss at ``params`` (d,) into its row of ``out`` (n, d).

        Returns the clients' mean losses (n,) float64. All clients share the parameters, so the samples of many of
        them go through the network in one batch, and only the weight gradients are taken client by client.
        """
        if self._least_squares and out.device.type == "cpu":
            return least_squares.gradients(params, batch, out)
        how = self._written_out if self._dense else self._together if self._layers is not None else self._one_by_one
        return torch.cat([how(params, part, rows) for part, rows in _chunks(batch, out, self._chunk(batch.all_x))])

    def gradient(self, params: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Gradient (d,) of the mean loss on the samples at ``params`` (d,)."""
        out = torch.empty(1, self.dim, device=x.device)
        self.gradients(params, Batch(x, y, (len(y),)), out)
        return out[0]

    def own_gradients(self, stack: Tensor, batch: Batch, out: Tensor) -> Tensor:
        """Write each client's gradient at its own parameters, its row of ``stack`` (n, d), into its row of ``out``.

        Returns the clients' mean losses (n,) float64. On a CPU the clients take turns: a batch over clients reads every
        client's weights for each of its samples, and nothing stays in the cache. On a GPU one client alone is too
        little to do, so those with equally many samples go together.
        """
        if out.device.type != "cpu" and self._layers is not None:
            return self._side_by_side(stack, batch, out)
        how = self._written_out if self._dense else self._one_by_one
        turns = zip(stack, batch.clients(), out.split(1), strict=True)
        return torch.cat([how(params, Batch(x, y, (len(y),)), row) for params, (x, y), row in turns])

    def _side_by_side(self, stack: Tensor, batch: Batch, out: Tensor) -> Tensor:
        def loss(views: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
            return self.criterion(functional_call(self.module, views, (x,)), y)

        losses = torch.empty(len(out), dtype=torch.float64, device=out.device)
        sizes, samples = np.array(batch.sizes), batch.clients()
        for size in np.unique(sizes):
            alike = np.flatnonzero(sizes == size).tolist()
            x, y = (torch.stack(parts) for parts in zip(*(samples[i] for i in alike), strict=True))
            gradients, values = vmap(grad_and_value(loss))(self.views(stack[alike]), x, y)
            out[alike] = torch.cat([gradients[name].flatten(1) for name in self._slots], dim=1)
            losses[alike] = values.double()
        return losses

    def _one_by_one(self, params: Tensor, batch: Batch, out: Tensor) -> Tensor:
        self._held.copy_(params)
        losses = []
        for row, x, y in zip(out, batch.x.split(batch.sizes), batch.y.split(batch.sizes), strict=True):
            loss = self.criterion(self.module(x), y)
            gradients = torch.autograd.grad(loss, list(self.module.parameters()))
            torch.cat([gradient.reshape(-1) for gradient in gradients], out=row)
            losses.append(loss.detach().double())
        return torch.stack(losses)

    def _dense_layers(self, params: Tensor) -> list[dense.Layer]:
        views = list(self.views(params).values())
        return list(zip(views[::2], views[1::2], strict=True))

    @torch.no_grad()
    def _written_out(self, params: Tensor, batch: Batch, out: Tensor) -> Tensor:
        return dense.gradients(self._dense_layers(params), batch.x, batch.y, batch.sizes, self._dense_layers(out))

    def _together(self, params: Tensor, batch: Batch, out: Tensor) -> Tensor:
        self._tape = []
        try:
            logits = self.logits(params, batch.x)
            tape = self._tape
        finally:
            self._tape = None
        sizes = torch.tensor(batch.sizes, device=batch.x.device)
        share = torch.repeat_interleave(1.0 / sizes, sizes, output_size=len(batch.y))
        losses = self.criterion(logits, batch.y, reduction="none") * share
        deltas = torch.autograd.grad(losses.sum(), [output for _, _, _, output in tape])
        for (name, layer, inputs, _), delta in zip(tape, deltas, strict=True):
            self._weight_gradients(name, layer, inputs, delta, batch.sizes, out)
        return torch.segment_reduce(losses.detach().double(), "sum", lengths=sizes)

    def _weight_gradients(
        self, name: str, layer: nn.Module, inputs: Tensor, delta: Tensor, sizes: tuple[int, ...], out: Tensor
    ) -> None:
        for parameter, _ in layer.named_parameters():
            start, shape = self._slots[f"{name}.{parameter}" if name else parameter]
            target = out[:, start : start + shape.numel()]
            if parameter == "bias":
                everywhere = [0, 2, 3] if isinstance(layer, nn.Conv2d) else list(range(delta.dim() - 1))
                for row, part in zip(target, delta.split(sizes), strict=True):
                    torch.sum(part, dim=everywhere, out=row)
            elif isinstance(layer, nn.Conv2d):
                for row, a, g in zip(target, inputs.split(sizes), delta.split(sizes), strict=True):
                    how = (layer.stride, layer.padding, layer.dilation, layer.groups)
                    row.copy_(conv2d_weight(a, shape, g, *how).reshape(-1))
            else:
                for row, a, g in zip(target, inputs.split(sizes), delta.split(sizes), strict=True):
                    row.view(shape).copy_(times_transposed(g.flatten(0, -2).T, a.flatten(0, -2).T))

    def _recorder(self, name: str) -> Any:
        def record(layer: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor | None:
            if self._tape is None:
                return None
            if not output.requires_grad:  # the first layer: its inputs and weights need no gradient
                output = output.detach().requires_grad_()
            self._tape.append((name, layer, args[0].detach(), output))
            return output

        return record


def _flat(module: nn.Module) -> Tensor:
    return torch.cat([p.detach().reshape(-1) for p in module.parameters()])


def _layers_with_simple_gradients(module: nn.Module) -> dict[str, nn.Module] | None:
    """The parametrised layers by name when each is a Linear or Conv2d that owns its weights alone; else None."""
    owners = {name: layer for name, layer in module.named_modules() if list(layer.parameters(recurse=False))}
    simple = all(
        type(layer) is nn.Linear or (type(layer) is nn.Conv2d and not isinstance(layer.padding, str))
        for layer in owners.values()
    )
    shared = sum(1 for _ in module.parameters()) != sum(len(list(o.parameters(recurse=False))) for o in owners.values())
    stateful = any(isinstance(layer, nn.Dropout) for layer in module.modules()) or any(True for _ in module.buffers())
    return owners if simple and not shared and not stateful else None


def _chunks(batch: Batch, out: Tensor, limit: int) -> Iterator[tuple[Batch, Tensor]]:
    """Whole clients at a time, about as many samples as stay in the cache."""
    first, begin = 0, 0
    while first < len(batch.sizes):
        last, end = first, begin
        while last < len(batch.sizes) and (last == first or end - begin + batch.sizes[last] <= limit):
            end += batch.sizes[last]
            last += 1
        yield Batch(batch.x[begin:end], batch.y[begin:end], batch.sizes[first:last]), out[first:last]
        first, begin = last, end
