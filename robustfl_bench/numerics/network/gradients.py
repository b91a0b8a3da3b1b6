"""Gradients of many clients and losses of many models on a CPU, by several methods, of which a network uses one."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.grad import conv2d_weight

from robustfl_bench.numerics.network import convolutional, dense
from robustfl_bench.numerics.network.dropout import Dropout, has_dropout
from robustfl_bench.numerics.network.flat import FlatModule
from robustfl_bench.numerics.network.samples import Batch
from robustfl_bench.numerics.products import times_transposed

Criterion = Callable[..., Tensor]


@runtime_checkable
class WithGradients(Protocol):
    """A module that computes the gradients of many clients under cross-entropy itself, on a CPU."""

    def client_gradients(self, x: Tensor, y: Tensor, sizes: tuple[int, ...], out: dict[str, Tensor]) -> Tensor:
        """Write each client's gradient of its mean loss into its entries of ``out``, a stack (n, ...) for each named
        parameter; returns the mean losses (n,) float64. Client i has ``sizes[i]`` rows of ``x`` and ``y``."""


def gradients_of(flat: FlatModule, criterion: Criterion, regression: bool) -> "OneByOne":
    """The fastest method for a network. It works on ``flat``, so only one thread at a time can use it."""
    if not regression:
        if isinstance(flat.module, WithGradients):
            return ByModule(flat, criterion)
        if (row := convolutional.row_of_layers(flat.module)) is not None:
            return Convolutional(flat, criterion, row)
        if dense.is_dense(flat.module):
            return WrittenOut(flat, criterion)
    layers = _layers_with_simple_gradients(flat.module)
    return OneByOne(flat, criterion) if layers is None else Layerwise(flat, criterion, layers)


class OneByOne:
    """Autograd, client by client; works for every module."""

    def __init__(self, flat: FlatModule, criterion: Criterion) -> None:
        self.flat, self._criterion, self.dropout = flat, criterion, Dropout(flat.module)

    def together(self, params: Tensor, batch: Batch, out: Tensor) -> Tensor:
        """Write each client's gradient of its mean loss at ``params`` (d,) into its row of ``out`` (n, d).

        Returns the clients' mean losses (n,) float64. Meant for clients whose samples together fit into the cache.
        """
        return self.alone(params, batch, out)

    def alone(self, params: Tensor, batch: Batch, out: Tensor) -> Tensor:
        """As ``together``, optimised for one client."""
        module, losses = self.flat.hold(params), []
        for row, x, y in zip(out, batch.x.split(batch.sizes), batch.y.split(batch.sizes), strict=True):
            loss = self._criterion(module(x), y)
            gradients = torch.autograd.grad(loss, list(module.parameters()))
            torch.cat([gradient.reshape(-1) for gradient in gradients], out=row)
            losses.append(loss.detach().double())
        return torch.stack(losses)

    def each(self, models: Tensor, batch: Batch, out: Tensor) -> Tensor:
        """As ``together``, with a model for each client, (n, d)."""
        turns = zip(models, batch.clients(), out.split(1), strict=True)
        return torch.cat([self.alone(own, Batch(x, y, (len(y),)), row) for own, (x, y), row in turns])

    def gradients_along(self, model: Tensor, batches: Iterable[Batch], out: Tensor) -> Iterator[Tensor]:
        """As ``together`` for one client at each of its ``batches``, between which its ``model`` (d,) may change in
        place. Yields its loss (1,), after the first batch perhaps nothing."""
        for batch in batches:
            yield self.together(model, batch, out)

    def totals(self, models: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """The sum of the losses of each of the ``models`` (k, d) on the same samples, and its number of errors
        (meaningless for regression), (k, 2) float64."""
        return torch.stack([summed(self._criterion, self.flat.logits(one, x), y) for one in models])


class ByModule(OneByOne):
    """For modules that compute their gradients themselves."""

    def alone(self, params: Tensor, batch: Batch, out: Tensor) -> Tensor:
        """As the base, for any number of clients."""
        module: Any = self.flat.hold(params)
        losses: Tensor = module.client_gradients(batch.x, batch.y, batch.sizes, self.flat.views(out))
        return losses


class Layerwise(OneByOne):
    """For Linear and Conv2d layers: the samples of many clients go through the network in one batch, and only the
    weight gradients are computed client by client.
    """

    def __init__(self, flat: FlatModule, criterion: Criterion, layers: dict[str, nn.Module]) -> None:
        super().__init__(flat, criterion)
        self._tape: list[tuple[str, nn.Module, Tensor, Tensor]] | None = None
        for name, layer in layers.items():
            layer.register_forward_hook(self._recorder(name))

    def together(self, params: Tensor, batch: Batch, out: Tensor) -> Tensor:
        """As the base."""
        self._tape = []
        try:
            logits = self.flat.logits(params, batch.x)
            tape = self._tape
        finally:
            self._tape = None
        sizes = torch.tensor(batch.sizes, device=batch.x.device)
        share = torch.repeat_interleave(1.0 / sizes, sizes, output_size=len(batch.y))
        losses = self._criterion(logits, batch.y, reduction="none") * share
        deltas = torch.autograd.grad(losses.sum(), [output for _, _, _, output in tape])
        for (name, layer, inputs, _), delta in zip(tape, deltas, strict=True):
            self._weight_gradients(name, layer, inputs, delta, batch.sizes, out)
        return torch.segment_reduce(losses.detach().double(), "sum", lengths=sizes)

    def _weight_gradients(
        self, name: str, layer: nn.Module, inputs: Tensor, delta: Tensor, sizes: tuple[int, ...], out: Tensor
    ) -> None:
        for parameter, _ in layer.named_parameters():
            start, shape = self.flat.slots[f"{name}.{parameter}" if name else parameter]
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
            if not output.requires_grad:  # the first layer, whose inputs and weights need no gradient
                output = output.detach().requires_grad_()
            self._tape.append((name, layer, args[0].detach(), output))
            return output

        return record


class WrittenOut(OneByOne):
    """For dense networks under cross-entropy, without autograd (see dense.py)."""

    @torch.no_grad()
    def alone(self, params: Tensor, batch: Batch, out: Tensor) -> Tensor:
        """As the base, for any number of clients."""
        given, rows = pairs(self.flat, params), pairs(self.flat, out)
        if len(given) == 1:
            return dense.one_layer_gradients(given[0], batch, rows[0])
        return dense.gradients(given, batch.x, batch.y, batch.sizes, [by_client(*layer) for layer in rows])

    @torch.no_grad()
    def each(self, models: Tensor, batch: Batch, out: Tensor) -> Tensor:
        """As the base; for a single layer, all clients at once."""
        given, rows = pairs(self.flat, models), pairs(self.flat, out)
        if len(given) == 1:
            return dense.one_layer_gradients(given[0], batch, rows[0])
        return super().each(models, batch, out)

    @torch.no_grad()
    def gradients_along(self, model: Tensor, batches: Iterable[Batch], out: Tensor) -> Iterator[Tensor]:
        """As the base."""
        given, rows = pairs(self.flat, model), pairs(self.flat, out)
        if len(given) == 1:
            yield from (dense.one_layer_gradients(given[0], batch, rows[0]) for batch in batches)
            return
        own = [by_client(*layer) for layer in rows]
        for step, batch in enumerate(batches):
            yield dense.gradients(given, batch.x, batch.y, batch.sizes, own, read=step == 0)

    def totals(self, models: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """As the base."""
        outputs = dense.outputs(pairs(self.flat, models), x)
        losses = functional.cross_entropy(outputs, y.expand(len(models), -1), reduction="none")
        wrong = outputs.max(dim=1).indices != y
        return torch.stack([losses.sum(dim=1, dtype=torch.float64), wrong.sum(dim=1, dtype=torch.float64)], dim=1)


class Convolutional(OneByOne):
    """For convolutional networks under cross-entropy, without autograd (see convolutional.py)."""

    def __init__(self, flat: FlatModule, criterion: Criterion, row: list[nn.Module]) -> None:
        super().__init__(flat, criterion)
        self._row = row

    @torch.no_grad()
    def alone(self, params: Tensor, batch: Batch, out: Tensor) -> Tensor:
        """As the base, for any number of clients."""
        given, rows = pairs(self.flat, params), pairs(self.flat, out)
        return convolutional.gradients(self._row, given, batch.x, batch.y, batch.sizes, rows, self.dropout.factors)


def by_client(weights: Tensor, biases: Tensor) -> list[dense.Layer]:
    """The weights (n, o, i) and biases (n, o) of a layer, client by client."""
    return list(zip(weights.unbind(), biases.unbind(), strict=True))


def pairs(flat: FlatModule, params: Tensor) -> list[dense.Layer]:
    """The weights and biases of the layers of a network that has no other parameters, as views of ``params``."""
    views = list(flat.views(params).values())
    return list(zip(views[::2], views[1::2], strict=True))


def summed(criterion: Criterion, outputs: Tensor, y: Tensor) -> Tensor:
    """The sum of the losses of a model with ``outputs`` (N, c), and its number of errors, (2,) float64."""
    return torch.stack([criterion(outputs, y, reduction="sum").double(), (outputs.argmax(dim=1) != y).sum().double()])


def _layers_with_simple_gradients(module: nn.Module) -> dict[str, nn.Module] | None:
    """The parametrised layers by name if all are Linear or Conv2d layers without shared weights; else None."""
    owners = {name: layer for name, layer in module.named_modules() if list(layer.parameters(recurse=False))}
    simple = all(
        type(layer) is nn.Linear or (type(layer) is nn.Conv2d and not isinstance(layer.padding, str))
        for layer in owners.values()
    )
    shared = sum(1 for _ in module.parameters()) != sum(len(list(o.parameters(recurse=False))) for o in owners.values())
    stateful = has_dropout(module) or any(True for _ in module.buffers())
    return owners if simple and not shared and not stateful else None


def chunks(batch: Batch, out: Tensor, limit: int) -> Iterator[tuple[Batch, Tensor]]:
    """Split a batch into groups of whole clients, of about ``limit`` samples each."""
    first, begin = 0, 0
    while first < len(batch.sizes):
        last, end = first, begin
        while last < len(batch.sizes) and (last == first or end - begin + batch.sizes[last] <= limit):
            end += batch.sizes[last]
            last += 1
        yield Batch(batch.x[begin:end], batch.y[begin:end], batch.sizes[first:last]), out[first:last]
        first, begin = last, end
