"""A central server, to which every client sends its whole update (BRACE, Fang et al., WWW Companion 2025)."""

from dataclasses import dataclass
from typing import Annotated

from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import between, one_of
from robustfl_bench.parts.aggregators.base import Aggregator
from robustfl_bench.parts.protocols.base import Protocol, Setup


@dataclass(frozen=True)
class Star(Protocol):
    """A client sends d coordinates of ``bits`` bits, or of one bit if the rule uses only signs.

    With m = ``bits``, the server receives m n d bits a round, the entry of Table 1, and n d bits for signSGD, RLR and
    BRACE. As in Table 1, the bits that the server sends back are not counted.

    ``bits`` only affects the count. Updates arrive unchanged, in float32, unless ``update_dtype`` is ``bfloat16``: then
    every coordinate of every upload, also of Byzantine clients, is rounded to bfloat16 (relative error 2^-8 at most),
    which needs ``bits`` 16. Rules compute in float32 on the rounded numbers. From 64 MiB on the updates are stored in
    bfloat16, with the same numbers. Exceptions are clients with small batches, whose gradients are computed together in
    float32, several ``processes``, and attackers who ask the rule or plan: these try updates before rounding.
    """

    bits: Annotated[int, between(1, 64)] = 32
    """bits of a coordinate"""
    update_dtype: Annotated[str | None, one_of(bfloat16="uploads are rounded", null="float32")] = None
    """type in which updates arrive"""

    def __post_init__(self) -> None:
        if self.update_dtype is not None and self.bits != 16:
            raise ConfigError(f"update_dtype=bfloat16 sends 16 bits for a coordinate; set bits=16, got {self.bits}")

    def check(self, setup: Setup) -> None:
        """Raise ConfigError for clients that send less than whole updates, whose bits it does not count."""
        if setup.local_update.sends_less:
            raise ConfigError("protocol=star counts the bits of whole updates, and these clients send compressed ones: "
                              "set protocol=synchronous")  # fmt: skip

    def deliver(self, uploads: Tensor) -> None:
        """Round the uploads (n, d) in place to ``update_dtype``, if it is set."""
        if self.update_dtype is not None:
            for row in uploads:
                row.copy_(row.bfloat16())

    def total_bits(self, rule: Aggregator, n: int, d: int) -> int:
        """Bits that the n clients send in a round, in total."""
        signs = rule.ring is not None and rule.ring.outcomes is not None
        return n * d * (1 if signs else self.bits)
