"""Rules for a server that learns only a sum (secure aggregation: Bonawitz et al., CCS 2017).

"Practical Secure Aggregation for Privacy-Preserving Machine Learning", https://doi.org/10.1145/3133956.3133982.
"""

from dataclasses import dataclass

import torch

from robustfl_bench.base.abilities import passes_on
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@passes_on("rule")
@dataclass(frozen=True)
class SecureSum(Aggregator):
    """``rule`` computed by a server that learns the sum of the clients' messages and their number, and no message.

    Each client encodes its update without seeing another. The setting ``secure_aggregation`` makes this rule of any
    other; raises ConfigError for one that needs more than a sum (see ``Aggregator.from_sum``). The aggregate has no
    ``weights``, so that no weight of a client is recorded.

    The sum is simulated, in float64; nothing is encrypted, and no client fails to deliver its share. Attackers choose
    their updates, but encode them as the rule says: they too send signs, or an update that is no longer than the bound.
    A real server cannot look at a message and must have every client prove that its own has this form (RoFL: Lycklama
    et al., IEEE S&P 2023, arXiv 2107.03311).
    """

    rule: Aggregator
    """the rule to compute"""

    def __post_init__(self) -> None:
        if self.rule.from_sum() is None:
            name = type(self.rule).__name__
            raise ConfigError(
                f"{name} with these options has no form that needs only a sum over the clients; set "
                "secure_aggregation=false, or take a rule of which --list aggregator says that a sum is enough"
            )

    def check_mixed(self, n: int) -> None:
        """Raise ConfigError: a pre-aggregation needs single updates."""
        raise ConfigError("a pre-aggregation needs more than a sum over the clients; set pre_aggregation=none or "
                          "secure_aggregation=false")  # fmt: skip

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        form = self.rule.from_sum()
        assert form is not None, "checked when the rule is built"
        alone = zip(updates.columns.split(1), updates.counts.split(1), strict=True)
        first, *others = (Updates(row, count, place=updates.place) for row, count in alone)
        total = form.sent(first).to(torch.float64, copy=True)
        for update in others:
            total += form.sent(update)
        return Aggregate(form.agreed(total, updates.n).to(updates.columns))
