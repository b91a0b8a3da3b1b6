"""Byrd-SAGA's variance-reduced stochastic gradients (Wu et al., IEEE TSP 2020, arXiv 1912.12716; SAGA: Defazio et al.,
NeurIPS 2014)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base import seeding
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import at_least
from robustfl_bench.numerics.network.client_rows import ClientRows
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Batch, Population, Samples, moved
from robustfl_bench.parts.local_updates.base import LocalUpdate

ROOM = 64  # rows by which the table of models grows


@dataclass(frozen=True)
class Saga(LocalUpdate):
    """A client sends the gradient of one of its blocks of samples, corrected by old gradients of all its blocks.

    Its samples are cut, once and at random, into blocks of ``batch_size``. It sends
    ``grad_j(w) - grad_j(w_j) + mean``, with j drawn in proportion to the blocks' sizes, w_j the model at which block j
    was last used (initially the first model), and ``mean`` the mean over its samples of all those old gradients, which
    is then updated. Without a memory, as in the first round, the result is its full gradient.

    The state holds, instead of the gradients of all blocks, the models w_j, which all clients share and which are
    several times fewer; the old gradient is computed again. For each client that has taken part it is one vector and at
    most one per block, d float32 numbers each. A run stops in the first round after which these could need more than
    ``memory_gib``; if all clients take part in every round, that is the first.
    """

    memory_gib: Annotated[float, at_least(0)] = 16
    """memory limit for old gradients, in GiB; a run that could need more is refused"""

    remembered = 1

    def __call__(self, network: Network, params: Tensor, samples: Samples, lr: float, out: Tensor) -> Tensor:
        """Fill the rows of ``out`` (n, d) for the chosen clients; returns their mean losses (n,), each over its
        block."""
        population, memory, clients = samples.population, samples.memory, samples.clients
        width = samples.batch_size or int(population.sizes.max())
        ends = np.cumsum(-(-population.sizes // width))  # ends of the clients' blocks among all blocks
        if "saga_models" not in memory:
            memory["saga_models"] = params[None].clone()
            memory["saga_used"] = torch.zeros(int(ends[-1]), dtype=torch.int64, device=params.device)
        means = ClientRows(memory, "saga_means", len(population))
        self._begin(network, population, clients, np.diff(ends, prepend=0), memory, means)
        batch, blocks = _draw(samples, width, ends)
        losses = network.gradients(params, batch, out)
        old = torch.empty_like(out)
        network.own_gradients(memory["saga_models"][memory["saga_used"][blocks]], batch, old)
        _note(params, blocks, memory)
        out -= old
        share = torch.tensor(batch.sizes) / torch.from_numpy(samples.sizes)  # share of the client's samples
        torch.mul(out, share[:, None].to(out), out=old)
        for position, mean in means.vectors(clients):
            out[position] += mean
            mean += old[position]
        return losses

    def _begin(
        self,
        network: Network,
        population: Population,
        clients: Sequence[int],
        blocks: np.ndarray,
        memory: dict[str, Tensor],
        means: ClientRows,
    ) -> None:
        """Initialise the old gradients of clients that have not taken part with those at the first model, which is
        stored until they have. ``blocks`` are the numbers of all clients' blocks."""
        if not (new := [clients[i] for i in means.missing(clients)]):
            return
        begun = np.append(np.flatnonzero(memory["saga_means"][:, 0].numpy() >= 0), new)
        could_use = int(blocks[begun].sum())
        needed = 4 * network.dim * (len(begun) + could_use + ROOM) / 2**30
        if needed > self.memory_gib:
            raise ConfigError(
                f"saga could need {needed:.3g} GiB to remember {len(begun)} clients with {could_use} blocks of "
                f"samples for {network.dim} parameters, more than local_update.memory_gib={self.memory_gib:g}; "
                "raise that, raise batch_size, or take a smaller model"
            )
        vectors = torch.empty(len(new), network.dim, device=memory["saga_models"].device)
        network.gradients(memory["saga_models"][0], population.batch(new), vectors)
        means.add(new, vectors)


def _draw(samples: Samples, width: int, ends: np.ndarray) -> tuple[Batch, Tensor]:
    """A drawn block of each chosen client: its samples, and its index among the blocks of all clients."""
    rows, sizes, blocks = [], [], []
    for client, i in zip(samples.clients, samples.ids, strict=True):
        own = samples.population.slice(client)
        size = own.stop - own.start
        order = seeding.generator(samples.seed, "blocks", i).permutation(size)
        block = seeding.generator(samples.seed, samples.stream, samples.round, "block", i).integers(size) // width
        rows.append(own.start + order[block * width : (block + 1) * width])
        sizes.append(len(rows[-1]))
        blocks.append(ends[client] - 1 - block)
    x, y = samples.population.x, samples.population.y
    index = moved(np.concatenate(rows), x.device)
    batch = Batch(x[index], y[index], tuple(sizes), noise=samples.noise(samples.ids, 0))
    return batch, torch.tensor(np.array(blocks), device=x.device)


def _note(params: Tensor, blocks: Tensor, memory: dict[str, Tensor]) -> None:
    """Store that ``blocks`` were used at ``params``, in place of a model that no block needs any more."""
    models, used = memory["saga_models"], memory["saga_used"]
    free = np.setdiff1d(np.arange(len(models)), used.cpu().numpy())
    if not len(free):
        memory["saga_models"] = torch.cat([models, models.new_zeros(ROOM, models.shape[1])])
        free = np.array([len(models)])
    memory["saga_models"][free[0]] = params
    used[blocks] = int(free[0])
