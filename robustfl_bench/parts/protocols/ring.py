"""A ring without a server: each client passes chunks of a sum to the next (BRACE, Fang et al., WWW Companion 2025)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import between, one_of
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, RingForm, ServerView
from robustfl_bench.parts.protocols.base import Protocol, Setup
from robustfl_bench.parts.protocols.chunks import ring_sum


@dataclass(frozen=True)
class Ring(Protocol):
    """Share-reduce, then share-only: every client sends n - 1 chunks of about d / n coordinates in each phase.

    A coordinate costs ``bits`` bits (m), or one bit in the second phase if the outcome is a sign. A client sends
    2 m d (n - 1) / n bits for RAR and d (n - 1) (m + 1) / n for BRACE, signSGD and RLR (Table 1). This is ``counting``
    as ``printed``. ``needed`` counts, for a sum of signs, the ceil(log2(2 n + 1)) bits that distinguish -n ... n, and
    two bits for an outcome that may also be a tie (signSGD, RLR, symmetric BRACE).

    The clients compute one by one and sums are taken in the ring's order, so that N processes of ``robustfl-ring``
    compute exactly the same numbers.
    """

    bits: Annotated[int, between(1, 64)] = 32
    """bits of a number (m)"""
    counting: Annotated[
        str, one_of(printed="as in Table 1", needed="the fewest bits that hold a sum of signs and its outcome")
    ] = "printed"
    """which bits are counted"""
    clients_compute_alone = True

    def check(self, setup: Setup) -> None:
        """Raise ConfigError if the rule, or another part, needs a server."""
        if setup.rule.ring is None:
            name = type(setup.rule).__name__
            raise ConfigError(f"a ring cannot compute {name}; take aggregator=rar, brace, signsgd or rlr")
        for group in ("pre_aggregation", "clustering"):
            if group in setup.others:
                raise ConfigError(f"on a ring nobody sees all updates: set {group}=none, or protocol=star")
        if "availability" in setup.others:
            raise ConfigError("on a ring a client that drops out stops the round: set availability=none")

    def bits_per_phase(self, form: RingForm, n: int) -> tuple[int, int]:
        """Bits per coordinate in share-reduce and in share-only."""
        if form.outcomes is None:
            return self.bits, self.bits
        if self.counting == "printed":
            return self.bits, 1
        return (2 * n).bit_length(), (len(form.outcomes) - 1).bit_length()  # of the largest number in 0 ... 2 n

    def total_bits(self, rule: Aggregator, n: int, d: int) -> int:
        """Bits that the n clients send in a round, in total."""
        return d * (n - 1) * sum(self.bits_per_phase(form_of(rule), n))

    def aggregate(self, rule: Aggregator, updates: Updates, server: ServerView) -> Aggregate:
        """The aggregate that every client holds after the round; client i of the ring sent row i."""
        form = form_of(rule)
        return Aggregate(form.agreed(ring_sum(form.sent(updates.matrix)), updates.n))


def form_of(rule: Aggregator) -> RingForm:
    """The ring form of a rule that has one."""
    assert rule.ring is not None, "checked with the configuration"
    return rule.ring
