"""Dense networks with ReLU between the layers, without autograd: gradients of many clients and outputs of many models.

On small batches, autograd spends as much time on its bookkeeping as on the products, and it copies every weight
gradient once more than needed. The loss is cross-entropy.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from robustfl_bench.numerics.network.losses import mean_losses, parts
from robustfl_bench.numerics.network.samples import Batch
from robustfl_bench.numerics.products import times_into, times_transposed

Layer = tuple[Tensor, Tensor]  # weight (o, i) and bias (o,), as views

CACHED = 1 << 18  # numbers that stay in the cache while they are read twice


def is_dense(module: nn.Module) -> bool:
    """Whether the module is Flatten, then Linear layers with biases and ReLU between them."""
    if type(module) is not nn.Sequential or len(module) < 2:
        return False
    flatten, *layers = module
    if type(flatten) is not nn.Flatten or (flatten.start_dim, flatten.end_dim) != (1, -1):
        return False
    linear = all(type(layer) is nn.Linear and layer.bias is not None for layer in layers[::2])
    return len(layers) % 2 == 1 and linear and all(type(layer) is nn.ReLU for layer in layers[1::2])


def outputs(layers: Sequence[Layer], x: Tensor) -> Tensor:
    """Outputs (k, c, N) of k models, with weights (k, o, i) and biases (k, o), on the same samples.

    Samples are the last dimension, so that a maximum or sum over the few classes reads memory in order.
    """
    *hidden, last = layers
    features = x.flatten(1).T.expand(len(last[0]), -1, -1)  # (k, i, N)
    for weight, bias in hidden:
        features = torch.baddbmm(bias[..., None], weight, features).clamp_min_(0)
    weight, bias = last
    return torch.baddbmm(bias[..., None], weight, features)


def gradients(
    layers: Sequence[Layer],
    x: Tensor,
    y: Tensor,
    sizes: Sequence[int],
    out: Sequence[Sequence[Layer]],
    read: bool = True,
) -> Tensor:
    """Write the gradient of each client's mean loss into ``out``, which has the layers' weights and biases by client.

    Client i has ``sizes[i]`` rows of ``x`` and ``y``. All rows go through the network together, at the same parameters.
    Returns the clients' mean losses (n,) float64; nothing (0,) unless they are ``read``.
    """
    inputs = [x.flatten(1)]
    for weight, bias in layers[:-1]:
        inputs.append(times_transposed(inputs[-1], weight, bias).clamp_min_(0))
    losses, delta = mean_losses(times_transposed(inputs[-1], *layers[-1]), y, sizes, read)
    for depth in reversed(range(len(layers))):
        for own, given, (weight, bias) in zip(
            parts(delta, sizes), parts(inputs[depth], sizes), out[depth], strict=True
        ):
            times_into(own.T, given, weight)
            torch.sum(own, dim=0, out=bias)
        if depth:
            delta = times_transposed(delta, layers[depth][0].T)
            delta = torch.ops.aten.threshold_backward(delta, inputs[depth], 0)
    return losses


def one_layer_gradients(layer: Layer, batch: Batch, out: Layer) -> Tensor:
    """As ``gradients``, for a single layer: a common one, or one for each client, weights (n, o, i) and biases (n, o).

    Neighbouring clients with equally many samples, as many as fit into the cache, are one stack of products, over which
    NumPy loops in C. Samples are the last dimension, as in ``outputs``.
    """
    losses, (weight, bias), (weights, biases) = torch.empty(len(batch.sizes), dtype=torch.float64), layer, out
    for run in batch.runs():
        size, numbers = batch.sizes[run.start], weights[0].numel() + batch.sizes[run.start] * weights.shape[2]
        together = max(1, CACHED // numbers)
        for first in range(run.start, run.stop, together):
            some = slice(first, min(first + together, run.stop))
            rows = slice(batch.starts[first], batch.starts[first] + (some.stop - first) * size)
            x, y = batch.all_x[rows].view(-1, size, weights.shape[2]).numpy(), batch.all_y[rows].view(-1, 1, size)
            own, shift = (weight[some], bias[some]) if weight.dim() == 3 else (weight, bias)
            outputs = torch.from_numpy(np.matmul(own.numpy(), x.transpose(0, 2, 1))).add_(shift[..., None])
            delta = torch.log_softmax(outputs, dim=1)  # (clients, o, size)
            losses[some] = -delta.gather(1, y).double().mean(dim=(1, 2))
            delta.exp_().scatter_add_(1, y, delta.new_full(y.shape, -1.0)).mul_(1 / size)
            torch.sum(delta, dim=2, out=biases[some])
            np.matmul(delta.numpy(), x, out=weights[some].numpy())
    return losses
