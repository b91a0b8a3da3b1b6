"""Convolutional networks without autograd: gradients of many clients.

The network is a row of layers, convolutions before dense ones, under cross-entropy. Clients go through the convolutions
one at a time, or as many together as have feature maps that fit into the cache, and all together through the dense
layers; only weight gradients are computed client by client.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from robustfl_bench.numerics.network.dense import Layer
from robustfl_bench.numerics.products import times_transposed

aten = torch.ops.aten

Factors = Callable[[nn.Module, Tensor], Tensor | None]
"""The factors by which a dropout layer multiplies its input, None if it changes nothing."""

CACHED = 1 << 20  # numbers of the largest feature maps that stay in the cache between two layers

BETWEEN = (nn.ReLU, nn.MaxPool2d, nn.Dropout, nn.Dropout2d)


def row_of_layers(module: nn.Module) -> list[nn.Module] | None:
    """The layers of a network of this form, in their order; None for other networks.

    The form: any layers without parameters, then convolutions, then Flatten, then Linear layers, with biases and with
    ReLU, max-pooling and dropout between them.
    """
    layers = list(_leaves(module)) if type(module) is nn.Sequential else []
    own = [layer for layer in layers if any(True for _ in layer.parameters())]
    flat = next((i for i, layer in enumerate(layers) if type(layer) is nn.Flatten), len(layers))
    if not own or type(own[0]) is not nn.Conv2d or flat == len(layers) or any(True for _ in module.buffers()):
        return None
    first = layers.index(own[0])
    fits = all(type(layer) in BETWEEN or _is_convolution(layer) for layer in layers[first:flat])
    fits &= all(type(layer) in (nn.ReLU, nn.Dropout) or _is_linear(layer) for layer in layers[flat + 1 :])
    flatten: Any = layers[flat]
    flattens = (flatten.start_dim, flatten.end_dim) == (1, -1)
    shared = 2 * len(own) != sum(1 for _ in module.parameters())
    return layers if fits and flattens and not shared else None


def gradients(
    layers: Sequence[nn.Module],
    params: Sequence[Layer],
    x: Tensor,
    y: Tensor,
    sizes: Sequence[int],
    out: Sequence[Layer],
    factors: Factors,
) -> Tensor:
    """Write the gradient of each client's mean loss into its row of ``out``, weights (n, ...) and biases (n, o).

    ``params`` and ``out`` have an entry for each layer with parameters. Client i has ``sizes[i]`` rows of ``x`` and
    ``y``. Returns the clients' mean losses (n,) float64.
    """
    first = next(i for i, layer in enumerate(layers) if isinstance(layer, nn.Conv2d))
    flat = next(i for i, layer in enumerate(layers) if isinstance(layer, nn.Flatten))
    convolutions, dense = layers[first:flat], layers[flat + 1 :]
    for layer in layers[:first]:
        x = layer(x)
    deep = sum(isinstance(layer, nn.Conv2d) for layer in convolutions)
    filters = [(weight.contiguous(memory_format=_layout(x)), bias) for weight, bias in params[:deep]]
    groups = list(_groups(sizes, CACHED // (len(filters[0][1]) * x[0, 0].numel())))
    passed = [_forward(convolutions, filters, x[rows], factors) for rows, _ in groups]
    features = torch.cat([maps.flatten(1) for maps, _ in passed])
    outputs, tape = _forward(dense, params[deep:], features, factors)
    losses, delta = _cross_entropy(outputs, y, sizes)
    delta = _backward(dense, tape, delta, sizes, out[deep:], onwards=True)
    for (rows, clients), (maps, tape) in zip(groups, passed, strict=True):
        at_maps = delta[rows].view(maps.shape).contiguous(memory_format=_layout(x))
        own = [(weights[clients], biases[clients]) for weights, biases in out[:deep]]
        _backward(convolutions, tape, at_maps, sizes[clients], own)
    return losses


def _groups(sizes: Sequence[int], limit: int) -> Iterator[tuple[slice, slice]]:
    """The rows and the positions of neighbouring clients with at most ``limit`` rows together, or of a single one."""
    first, begin, end = 0, 0, 0
    for client, size in enumerate(sizes):
        if client > first and end - begin + size > limit:
            yield slice(begin, end), slice(first, client)
            first, begin = client, end
        end += size
    yield slice(begin, end), slice(first, len(sizes))


def _forward(
    layers: Sequence[nn.Module], params: Sequence[Layer], x: Tensor, factors: Factors
) -> tuple[Tensor, list[Any]]:
    """The outputs of the layers, and a tape of what the backward pass needs of each."""
    tape: list[Any] = []
    given = iter(params)
    for layer in layers:
        match layer:
            case nn.Conv2d():
                weight, bias = next(given)
                tape.append((x, weight))
                x = aten.conv2d(x, weight, bias, *_placing(layer), layer.groups)
            case nn.Linear():
                weight, bias = next(given)
                tape.append((x, weight))
                x = times_transposed(x, weight, bias)
            case nn.MaxPool2d():
                shape = x.shape  # only this is kept of the maps, so that their place in the cache is free again
                x, winners = functional.max_pool2d(x, *_window(layer), return_indices=True)
                tape.append((shape, winners))
            case nn.ReLU():
                x = x.clamp_min_(0)
                tape.append(x)
            case _:
                kept = factors(layer, x)
                tape.append(kept)
                x = x if kept is None else x * kept
    return x, tape


def _backward(
    layers: Sequence[nn.Module],
    tape: Sequence[Any],
    delta: Tensor,
    sizes: Sequence[int],
    out: Sequence[Layer],
    onwards: bool = False,
) -> Tensor:
    """Write the clients' weight gradients of the layers, from the gradient ``delta`` at their outputs; returns the
    gradient at their inputs, if ``onwards``."""
    rows = iter(reversed(out))
    for depth in reversed(range(len(layers))):
        layer, kept = layers[depth], tape[depth]
        match layer:
            case nn.Conv2d():
                inputs, weight = kept
                delta = _through_convolution(layer, delta, inputs, weight, sizes, next(rows), onwards or depth > 0)
            case nn.Linear():
                inputs, weight = kept
                weights, biases = next(rows)
                for own, own_inputs, row, bias in zip(
                    delta.split(sizes), inputs.split(sizes), weights, biases, strict=True
                ):
                    row.copy_(times_transposed(own.T, own_inputs.T))
                    torch.sum(own, dim=0, out=bias)
                delta = times_transposed(delta, weight.T)
            case nn.MaxPool2d():
                shape, winners = kept
                at_inputs = torch.empty(shape, dtype=delta.dtype, memory_format=_layout(delta))
                delta = aten.max_pool2d_with_indices_backward.grad_input(
                    delta, at_inputs, *_window(layer), winners, grad_input=at_inputs
                )
            case nn.ReLU():
                delta = aten.threshold_backward.grad_input(delta, kept, 0, grad_input=delta)
            case _:
                delta = delta if kept is None else delta * kept
    return delta


def _cross_entropy(outputs: Tensor, y: Tensor, sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The clients' mean losses (n,) float64, and the gradient of their sum at the ``outputs`` (N, c), with the rounding
    of autograd, so that runs of before it was written out keep their bytes."""
    lengths = torch.tensor(sizes)
    share = torch.repeat_interleave(1 / lengths.to(outputs.dtype), lengths)[:, None]
    logarithms, chosen = torch.log_softmax(outputs, dim=1), y[:, None]
    losses = -logarithms.gather(1, chosen) * share
    at_logarithms = torch.zeros_like(logarithms).scatter_(1, chosen, -share)
    delta: Tensor = aten._log_softmax_backward_data(at_logarithms, logarithms, 1, outputs.dtype)
    return torch.segment_reduce(losses[:, 0].double(), "sum", lengths=lengths), delta


def _through_convolution(
    layer: nn.Conv2d,
    delta: Tensor,
    inputs: Tensor,
    weight: Tensor,
    sizes: Sequence[int],
    out: Layer,
    onwards: bool,
) -> Tensor:
    """Write the clients' weight gradients of a convolution, and return the gradient at its inputs, if ``onwards``."""

    def backward(delta: Tensor, inputs: Tensor, at_inputs: bool, at_weights: bool) -> tuple[Tensor, Tensor]:
        placing = (*_placing(layer), False, [0, 0], layer.groups)
        wanted = [at_inputs, at_weights, False]
        found: tuple[Tensor, ...] = aten.convolution_backward(delta, inputs, weight, None, *placing, wanted)
        return found[0], found[1]

    together = len(sizes) > 1  # for one client a single call gives both
    at_inputs = backward(delta, inputs, True, False)[0] if together and onwards else delta
    for own, own_inputs, row, bias in zip(delta.split(sizes), inputs.split(sizes), *out, strict=True):
        found, weights = backward(own, own_inputs, onwards and not together, True)
        row.copy_(weights)
        torch.sum(own, dim=[0, 2, 3], out=bias)
    return at_inputs if together else found


def _layout(maps: Tensor) -> torch.memory_format:
    """The memory layout of feature maps (N, c, height, width)."""
    return torch.channels_last if maps.stride(1) == 1 else torch.contiguous_format


def _placing(layer: nn.Conv2d) -> tuple[Any, ...]:
    return layer.stride, layer.padding, layer.dilation


def _window(layer: nn.MaxPool2d) -> tuple[Any, ...]:
    return layer.kernel_size, layer.stride, layer.padding, layer.dilation, layer.ceil_mode


def _is_convolution(layer: nn.Module) -> bool:
    plain = type(layer) is nn.Conv2d and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    return plain and layer.bias is not None


def _is_linear(layer: nn.Module) -> bool:
    return type(layer) is nn.Linear and layer.bias is not None


def _leaves(module: nn.Sequential) -> Iterator[nn.Module]:
    """The layers of nested Sequential modules, without those that do nothing."""
    for layer in module:  # unlike children(), also a layer that occurs again
        if type(layer) is nn.Sequential:
            yield from _leaves(layer)
        elif type(layer) is not nn.Identity:
            yield layer
