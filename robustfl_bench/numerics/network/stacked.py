"""Gradients of many clients for many models at once: small dense networks, with the same bytes as one model at a time.

Where all models see the same samples, the first layer is one product, with the models side by side. All other layers
are batches of products. A library may sum up products of other sizes in another order. So each product is computed by
the library that ``dense`` takes for one model, and in the form that gave the same bytes wherever it was measured. Who
needs these bytes compares them with those of ``dense`` once, as ``train.stack`` and ``train.prepared`` do.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from robustfl_bench.numerics.network.dense import CACHED, Layer, is_dense
from robustfl_bench.numerics.network.gradients import chunks
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Batch
from robustfl_bench.numerics.products import LARGE, SMALL, times_into, times_transposed

WIDTH = 16  # float32 numbers in the largest vectors; PyTorch computes the logarithm of the rest of a row otherwise
NARROW = 16  # outputs of a layer; MKL sums up the products of narrower ones in another order when they are side by side
TINY = 400  # multiplications below which PyTorch computes a batch of products itself, which sums up otherwise


def is_stackable(network: Network) -> bool:
    """Whether ``gradients`` can work with a network: a dense classifier on a CPU."""
    return network.side_by_side is None and not network.regression and fits(network.module)


def fits(module: nn.Module) -> bool:
    """Whether a module is dense with a hidden layer; a single layer has a form of its own, which sums up otherwise."""
    return is_dense(module) and len(list(module.children())) > 2


def gains_by_own_models(network: Network) -> bool:
    """Whether ``own_gradients`` is faster than one client after the other: if several models fit into the cache."""
    return is_stackable(network) and network.dim <= CACHED // 4


@torch.no_grad()
def gradients(network: Network, models: Tensor, batches: Sequence[Batch], out: Tensor) -> Tensor:
    """Write the gradient of each client's mean loss at each of the ``models`` (k, d) into ``out`` (k, n, d).

    There is one of the ``batches`` for each model; they differ at most in their labels. Returns the mean losses (k, n)
    float64.
    """
    layers, batch = _pairs(network, models), batches[0]
    every = Batch(batch.x, torch.stack([each.y for each in batches], dim=1), batch.sizes)
    parts = chunks(every, out.transpose(0, 1), network.chunk(batch.all_x))
    return torch.cat([_of_chunk(layers, part, _pairs(network, place)) for part, place in parts], dim=1)


@torch.no_grad()
def own_gradients(network: Network, models: Tensor, batch: Batch, out: Tensor) -> Tensor:
    """As ``Network.own_gradients``: each client's gradient at its own of the ``models`` (n, d), in its row of ``out``.

    As many clients as fit into the cache are computed together, those with equally many samples in one product.
    """
    losses, sizes, layers = torch.empty(len(out), dtype=torch.float64), np.array(batch.sizes), _pairs(network, models)

    def compute(clients: np.ndarray) -> None:
        own = Batch(batch.all_x, batch.all_y, tuple(sizes[clients].tolist()), batch.starts[clients])
        rows = torch.empty(len(clients), -(-network.dim // WIDTH) * WIDTH)[:, : network.dim]  # each begins a vector
        index = torch.from_numpy(clients)
        losses[index] = _of_own_models(layers, index, own, _pairs(network, rows))
        out[index] = rows

    order, together = np.argsort(sizes, kind="stable"), max(1, CACHED // network.dim)
    network.each(compute, [order[first : first + together] for first in range(0, len(order), together)])
    return losses


def _pairs(network: Network, params: Tensor) -> list[Layer]:
    views = list(network.views(params).values())
    return list(zip(views[::2], views[1::2], strict=True))


def _of_chunk(layers: Sequence[Layer], batch: Batch, out: Sequence[Layer]) -> Tensor:
    """As ``dense.gradients``, for weights (k, o, i) and biases (k, o), into weights (n, k, o, i) and biases (n, k, o).

    The batch has labels (N, k). Returns the clients' mean losses (k, n) float64.
    """
    x, sizes, k = batch.x.flatten(1), batch.sizes, len(layers[0][0])
    bounds = [slice(end - size, end) for size, end in zip(sizes, accumulate(sizes), strict=True)]
    (weight, bias), *others = layers
    features, inputs = _side_by_side(x, weight, bias), [x]
    for weight, bias in others:
        inputs.append(features.clamp_min_(0))
        features = _each_times(features, weight, bias)
    delta = _log_softmax(features)
    chosen = batch.y.T[:, :, None]
    parts = delta.gather(2, chosen).squeeze(2).split(sizes, dim=1)
    losses = [-part.sum(dim=1, dtype=torch.float64) / part.shape[1] for part in parts]
    delta.exp_().scatter_add_(2, chosen, delta.new_full((k, len(x), 1), -1.0))
    share = torch.repeat_interleave(torch.tensor([1 / size for size in sizes]), torch.tensor(sizes))
    delta.mul_(share.to(delta)[:, None])
    for depth in reversed(range(len(layers))):
        weights, biases = out[depth]
        if depth:
            for i, own in enumerate(bounds):
                _each_into(delta[:, own].transpose(1, 2), inputs[depth][:, own], weights[i])
                torch.sum(delta[:, own], dim=1, out=biases[i])
            delta = _each_times(delta, layers[depth][0].transpose(1, 2))
            torch.ops.aten.threshold_backward(delta, inputs[depth], 0, grad_input=delta)
        else:
            beside = delta.transpose(0, 1).reshape(len(x), -1)
            for i, own in enumerate(bounds):
                if delta.shape[2] < NARROW:
                    _each_into(delta[:, own].transpose(1, 2), x[own].expand(k, -1, -1), weights[i])
                else:
                    _side_by_side_into(beside[own].T, x[own], weights[i])
                torch.sum(delta[:, own], dim=1, out=biases[i])
    return torch.stack(losses, dim=1)


def _of_own_models(layers: Sequence[Layer], clients: Tensor, batch: Batch, out: Sequence[Layer]) -> Tensor:
    """As ``dense.gradients`` for each of n ``clients`` alone at its own model, into weights (n, o, i), biases (n, o).

    Clients with equally many samples stand together in the batch; ``layers`` are those of the models of all clients.
    Returns the mean losses (n,) float64.
    """
    sizes, chosen = torch.tensor(batch.sizes), batch.y[:, None]
    alike, ends = sizes.unique_consecutive(return_counts=True)[1].tolist(), [0, *accumulate(batch.sizes)]
    stretches = [slice(end - number, end) for number, end in zip(alike, accumulate(alike), strict=True)]

    def parts(rows: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Each stretch of clients with equally many samples, with its rows (k, m, ...)."""
        for some in stretches:
            yield some, rows[ends[some.start] : ends[some.stop]].unflatten(0, (some.stop - some.start, -1))

    def times(rows: Tensor, layer: tuple[Tensor, Tensor | None]) -> Tensor:
        return torch.cat([_times_own(own, layer, clients[some]).flatten(0, 1) for some, own in parts(rows)])

    inputs = [batch.x.flatten(1)]
    for layer in layers[:-1]:
        inputs.append(times(inputs[-1], layer).clamp_min_(0))
    delta = _log_softmax(times(inputs[-1], layers[-1])[None])[0]
    picked = parts(delta.gather(1, chosen))
    losses = torch.cat([-own.sum(dim=(1, 2), dtype=torch.float64) / own.shape[1] for _, own in picked])
    delta.exp_().scatter_add_(1, chosen, delta.new_full(chosen.shape, -1.0))
    delta.mul_((1 / sizes.double()).float().repeat_interleave(sizes)[:, None])
    for depth in reversed(range(len(layers))):
        weights, biases = out[depth]
        for (some, own), (_, given) in zip(parts(delta), parts(inputs[depth]), strict=True):
            _own_into(own.transpose(1, 2), given, weights[some])
            torch.sum(own, dim=1, out=biases[some])
        if depth:
            delta = times(delta, (layers[depth][0].transpose(1, 2), None))
            delta = torch.ops.aten.threshold_backward(delta, inputs[depth], 0)
    return losses


def _log_softmax(outputs: Tensor) -> Tensor:
    """The log-softmax (k, N, c) of the outputs of each sample."""
    k, samples, classes = outputs.shape
    if not _by_columns(classes):
        return torch.log_softmax(outputs, dim=2)
    columns = outputs.new_zeros(k, classes, -(-samples // WIDTH) * WIDTH)
    columns[..., :samples] = outputs.transpose(1, 2)
    return torch.log_softmax(columns, dim=1)[..., :samples].transpose(1, 2).contiguous()


@lru_cache
def _by_columns(classes: int) -> bool:
    """Whether a log-softmax of columns, which takes a tenth of the time, has the bytes of that of rows: so with fewer
    classes than a vector has numbers."""
    rows = torch.linspace(-9, 9, 64 * WIDTH * classes).square().sin().view(-1, classes) * 9
    return torch.equal(torch.log_softmax(rows, dim=1), torch.log_softmax(rows.T.contiguous(), dim=0).T)


def _side_by_side(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """``times_transposed`` of each model on the same ``x`` (N, i), with weights (k, o, i) and biases (k, o).

    Returns (k, N, o).
    """
    k, outputs, width = weight.shape
    large = len(x) * width * outputs >= SMALL
    if outputs < NARROW and not large:
        return torch.baddbmm(bias[:, None], x.expand(k, -1, -1), weight.transpose(1, 2))
    product = times_transposed if large else functional.linear
    return product(x, weight.reshape(-1, width), bias.reshape(-1)).view(len(x), k, outputs).transpose(0, 1)


def _each_times(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    """``times_transposed`` of each model: ``a`` (k, m, i) times ``b`` (k, o, i), plus ``bias`` (k, o)."""
    if a.shape[1] * a.shape[2] * b.shape[1] >= SMALL:
        each = zip(a, b, [None] * len(a) if bias is None else bias, strict=True)
        return torch.stack([times_transposed(*one) for one in each])
    b = b.transpose(1, 2)
    return torch.bmm(a, b) if bias is None else torch.baddbmm(bias[:, None], a, b)


def _each_into(a: Tensor, b: Tensor, out: Tensor) -> None:
    """``times_into`` of each model: ``a`` (k, o, m) times ``b`` (k, m, i)."""
    if a.shape[1] * a.shape[2] * b.shape[2] >= LARGE:
        for one in zip(a, b, out, strict=True):
            times_into(*one)
    else:
        torch.bmm(a, b, out=out)


def _times_own(a: Tensor, layer: tuple[Tensor, Tensor | None], clients: Tensor) -> Tensor:
    """As ``_each_times`` of ``a`` (k, m, i) and the ``layer`` of these of all clients, tiny products included.

    A product of one row depends on where the weights are in memory, so these stay in their place.
    """
    weights, biases = layer
    if len(a[0]) > 1 and a[0].numel() * weights.shape[1] >= TINY:
        return _each_times(a, _taken(weights, clients), None if biases is None else biases[clients])
    each = zip(a, clients.tolist(), strict=True)
    return torch.stack([functional.linear(own, weights[i], None if biases is None else biases[i]) for own, i in each])


def _taken(weights: Tensor, clients: Tensor) -> Tensor:
    """The weights (k, o, i) of these clients, in the order of memory that they have."""
    return weights[clients] if weights.stride(2) == 1 else weights.transpose(1, 2)[clients].transpose(1, 2)


def _own_into(a: Tensor, b: Tensor, out: Tensor) -> None:
    """As ``_each_into``, tiny products included."""
    if a.shape[1] * a.shape[2] * b.shape[2] >= TINY:
        _each_into(a, b, out)
    else:
        for left, right, place in zip(a, b, out, strict=True):
            torch.mm(left, right, out=place)


def _side_by_side_into(a: Tensor, b: Tensor, out: Tensor) -> None:
    """``times_into`` of each model with its rows of ``a`` (k o, m) and the same ``b`` (m, i), into ``out``
    (k, o, i)."""
    if a.numel() * b.shape[1] >= LARGE * len(out):
        for rows, place in zip(a.split(out.shape[1]), out, strict=True):
            times_into(rows, b, place)
    else:
        out.copy_(torch.mm(a, b).view(out.shape))
