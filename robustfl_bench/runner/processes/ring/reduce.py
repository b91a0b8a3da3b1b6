"""One round on the ring: share-reduce, consensus, share-only (BRACE, sections 2.2 and 3)."""

import torch
from torch import Tensor

from robustfl_bench.parts.aggregators.base import RingForm
from robustfl_bench.parts.protocols.chunks import chunks
from robustfl_bench.runner.processes.ring.link import Link
from robustfl_bench.runner.processes.ring.packing import Code, Floats, Packed


def codes(form: RingForm, n: int, counting: str) -> tuple[Code, Code]:
    """The encodings of chunks in share-reduce and in share-only: real numbers, or sums of n signs and outcomes.

    A sum of signs takes 32 bits, or the fewest that distinguish -n ... n if ``counting`` is ``needed``. An outcome
    takes one bit, or two if ties are possible (signSGD, RLR, symmetric BRACE), one more than Table 1 counts.
    """
    if form.outcomes is None:
        return Floats(), Floats()
    low, high = int(form.outcomes[0]), int(form.outcomes[-1])
    last = len(form.outcomes) - 1
    sums = Packed(-n, 1, (2 * n).bit_length() if counting == "needed" else 32)
    return sums, Packed(low, (high - low) // last, last.bit_length())


def reduced(link: Link, update: Tensor, form: RingForm, counting: str) -> Tensor:
    """The aggregate (d,), the same for every client, of the clients' updates (d,).

    Client i begins by sending its chunk i. It adds its own part to every chunk that it receives and passes the sum on.
    After n - 1 steps it holds the complete sum of chunk i + 1 and decides its outcomes, which are then passed round.
    """
    n, rank, own = link.size, link.rank, form.sent(update)
    parts, (sums, outcomes) = chunks(len(own), n), codes(form, n, counting)
    held = own[parts[rank]]
    for step in range(1, n):
        mine = own[parts[(rank - step) % n]]
        held = sums.decode(link.exchange(sums.encode(held), sums.num_bytes(len(mine))), len(mine)) + mine
    aggregate = torch.empty_like(own)
    aggregate[parts[(rank + 1) % n]] = decided = form.agreed(held, n)
    encoded = outcomes.encode(decided)
    for step in range(n - 1):
        room = aggregate[parts[(rank - step) % n]]
        encoded = link.exchange(encoded, outcomes.num_bytes(len(room)))
        room.copy_(outcomes.decode(encoded, len(room)))
    return aggregate
