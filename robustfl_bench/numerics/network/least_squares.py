"""Linear regression for many clients: losses of several models, and gradients, by closed formulas.

The loss is the mean of ``(y - <x, theta>)^2``, so the gradient is ``2/n X^T (X theta - y)``. Autograd on the same model
takes four to six times as long for clients with 100 samples each.
"""

import numpy as np
import torch
from torch import Tensor, nn

from robustfl_bench.numerics.network.samples import Batch

BLOCK = 1024  # samples; with 500 inputs they fill a level-2 cache
CACHED = 1 << 18  # numbers that stay in the cache while they are read twice


def is_linear_regression(module: nn.Module) -> bool:
    """Whether the module is a single Linear layer with one output and no bias."""
    return type(module) is nn.Linear and module.bias is None and module.out_features == 1


def client_losses(params: Tensor, batch: Batch) -> Tensor:
    """Mean squared errors (n, k) float64 of the models ``params`` (k, d) on the samples of every client."""
    # (k, samples) rather than (samples, k): up to twice as fast, because the contiguous dimension is the long one.
    pieces = batch.pieces(BLOCK)
    errors = torch.cat([(params @ batch.all_x[rows].T).sub_(batch.all_y[rows]) for rows in pieces], dim=1).square_()
    sizes = torch.tensor(batch.sizes, device=errors.device)
    if len(set(batch.sizes)) == 1:
        return errors.view(len(params), len(sizes), -1).mean(dim=2).T.double()
    return torch.segment_reduce(errors.T.double().contiguous(), "mean", lengths=sizes)


def slopes(batch: Batch) -> Tensor:
    """For each client, an upper bound of how much its root mean squared error changes if the parameters of a model move
    by a vector of length 1, (n,) float64.

    It bounds (some 10% too large for random inputs) the spectral norm of the client's inputs over the square
    root of their number: the fourth root of the Frobenius norm of the fourth power of the Gram matrix is at least its
    largest eigenvalue.
    """
    squares = []
    for x, _ in batch.clients():
        gram = (x @ x.T if len(x) < x.shape[1] else x.T @ x).double()
        for _ in range(2):
            gram = gram @ gram
        squares.append(torch.linalg.matrix_norm(gram) ** 0.25 / len(x))
    return torch.stack(squares).sqrt()


def gradients(params: Tensor, batch: Batch, out: Tensor) -> Tensor:
    """Write each client's gradient into its row of ``out`` (n, d), on the CPU: at ``params`` (d,), or at its row of
    ``params`` (n, d).

    Returns the clients' mean losses (n,) float64. A client's samples are read twice while they are in the cache. As
    many neighbouring clients as fit are processed in one call, in which NumPy loops over them in C.
    """
    x, y, theta, rows = batch.all_x.numpy(), batch.all_y.numpy(), params.numpy()[..., None], out.numpy()
    losses = np.empty(len(rows))
    for run in batch.runs():
        size = batch.sizes[run.start]
        together = max(1, CACHED // (size * out.shape[1]))
        for first in range(run.start, run.stop, together):
            some = slice(first, min(first + together, run.stop))
            samples = slice(batch.starts[first], batch.starts[first] + (some.stop - first) * size)
            own = x[samples].reshape(-1, size, out.shape[1])
            error = own @ (theta if theta.ndim == 2 else theta[some])  # (clients, size, 1)
            error -= y[samples].reshape(error.shape)
            across = error.transpose(0, 2, 1)
            losses[some] = (across @ error)[:, 0, 0] / size
            error *= 2 / size
            np.matmul(across, own, out=rows[some, None])
    return torch.from_numpy(losses)
