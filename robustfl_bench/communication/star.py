"""A server in the middle: every client sends its whole update to it (BRACE, Fang et al., WWW Companion 2025)."""

from dataclasses import dataclass

from robustfl_bench.interfaces import Aggregator, Communication, ServerView, check_fields
from robustfl_bench.updates import Aggregate, Updates


@dataclass(frozen=True)
class Star(Communication):
    """A client sends d coordinates of ``bits`` bits, or of one bit to a rule that takes signs only.

    The server receives m n d bits a round, Table 1's entry, and n d for signSGD, RLR and BRACE; the way back is not
    counted, as there.
    """

    bits: int = 32

    def __post_init__(self) -> None:
        check_fields(self, bits=(1, 64))

    def total_bits(self, rule: Aggregator, n: int, d: int) -> int:
        """Bits that the n clients send in a round, together."""
        signs = rule.ring is not None and rule.ring.outcomes is not None
        return n * d * (1 if signs else self.bits)

    def aggregate(self, rule: Aggregator, updates: Updates, server: ServerView) -> Aggregate:
        """The rule sees all updates."""
        return rule(updates, server)
