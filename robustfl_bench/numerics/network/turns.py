"""Who takes local steps together: clients that take equally many, at most ``Network.together`` of them."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch import Tensor

from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Batch, Samples

Turn = tuple[Sequence[int], Iterable[Batch]]
"""Positions of clients, and the batches of their steps; each holds samples of all of them."""


def by_steps(samples: Samples, number: int, together: int) -> Iterator[Turn]:
    """Turns of at most ``together`` clients of ``samples`` with ``number`` steps on batches drawn anew, of which
    stragglers make fewer."""
    drawn = [samples.batch(step) for step in range(number)]
    for steps, group in _alike([samples.repeats(i, number) for i in range(len(samples.clients))], together):
        yield group, [batch.part(group) for batch in drawn[:steps]]


def by_passes(samples: Samples, number: int, together: int) -> Iterator[Turn]:
    """Turns of at most ``together`` clients of ``samples`` with ``number`` passes over their samples (see
    ``Samples.epochs``)."""
    for _, group in _alike(samples.steps(number), together):
        yield group, samples.epochs_together(group, number)


def descend(
    network: Network, work: Callable[[Tensor, Iterable[Batch]], Tensor], turns: Iterable[Turn], out: Tensor
) -> Tensor:
    """Let ``work`` fill the rows of ``out`` (n, d) of every turn; returns the clients' losses (n,) that it returns."""
    losses = torch.empty(len(out), dtype=torch.float64, device=out.device)

    def take(turn: Turn) -> None:
        who, batches = turn
        if len(who) == who[-1] - who[0] + 1:  # neighbours
            rows = slice(who[0], who[-1] + 1)
            losses[rows] = work(out[rows], batches)
        else:
            own, index = out.new_empty(len(who), out.shape[1]), torch.tensor(who, device=out.device)
            losses.index_copy_(0, index, work(own, batches))
            out.index_copy_(0, index, own)

    network.each(take, turns)
    return losses


def _alike(steps: Sequence[int], together: int) -> Iterator[tuple[int, list[int]]]:
    """The numbers that occur, and where: at most ``together`` places at a time."""
    for number in sorted(set(steps)):
        places = [position for position, own in enumerate(steps) if own == number]
        for first in range(0, len(places), together):
            yield number, places[first : first + together]
