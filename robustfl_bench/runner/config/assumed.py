"""f, the number of attackers that the server assumes in a round, from the setting ``num_byzantine_declared``.

A share of all clients, or null, follows the round: f is the ``QUANTILE`` of the number of attackers among the clients
that take part, a draw without replacement. If all clients take part, f is the number of attackers itself.
"""

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.runner.config import identity, targets
from robustfl_bench.runner.config.interpolate import interpolated
from robustfl_bench.runner.config.resolvers import is_attacked
from robustfl_bench.train.parts import check_clients
from robustfl_bench.train.settings import at_share

NAME = "num_byzantine_declared"

DEFAULT = "${num_byzantine}"
"""The value in ``conf/config.yaml``, which means the same as null; Hydra, which knows no rounds, reads it as it is."""

SCALARS = ("num_clients", "num_byzantine", "byzantine_placement", "participation", "participation_by")
"""The scalars on which a share depends."""

QUANTILE = 95
"""In at least this percentage of rounds, no more than f attackers take part."""


def read(value: Any) -> int | float | None:
    """The value of the setting: a number of attackers, a share of all clients below 1, or null. Raises ConfigError."""
    if value is None or type(value) is int:
        return value
    with suppress(ValueError):
        if type(value) is str and value.isdecimal():
            return int(value)
        if type(value) in (float, str) and 0 < float(value) < 1:
            return float(value)
    raise ConfigError(f"{NAME} must be a whole number, a share of all clients in (0, 1), or null; got {value!r}")


def number(declared: float | None, config: Mapping[str, Any], scalars: Mapping[str, Any]) -> int:
    """f for a value of ``read`` that is a share or null, in the run of ``config`` with these SCALARS.

    With null, the attackers are the ``num_byzantine`` that exist; if not all clients take part, f is lowered to the
    most that the rule and the pre-aggregations accept, if they accept any. Where clients have neighbours, f is the
    most attackers among those of an honest one, as far as the protocol's options say.
    """
    num_byzantine, participation = scalars["num_byzantine"], scalars["participation"]
    if declared is None and not 0 < participation < 1:
        near = interpolated((config.get("protocol") or {}).get("byzantine_neighbours"), config)
        return min(int(num_byzantine), near) if type(near) is int else int(num_byzantine)
    adds = scalars["byzantine_placement"] == "add" and is_attacked({**config, "num_byzantine": num_byzantine})
    total = max(1, scalars["num_clients"] + adds * num_byzantine)
    present = min(max(1, at_share(participation, total)), total)
    attackers = num_byzantine if declared is None else round(declared * total)
    attackers = min(max(0, attackers), total)
    by_kind = scalars["participation_by"] is not None
    most = at_share(participation, attackers) if by_kind else most_present(total, attackers, present)
    accepted = (f for f in range(most, -1, -1) if _works(config, f, present))
    return most if declared is not None else next(accepted, most)


def most_present(total: int, attackers: int, present: int) -> int:
    """The least number that the attackers among ``present`` of ``total`` clients exceed in at most 5% of draws."""
    honest, draws, below = total - attackers, math.comb(total, present), 0
    for count in range(min(attackers, present)):
        below += math.comb(attackers, count) * math.comb(honest, present - count)
        if 100 * below >= QUANTILE * draws:
            return count
    return min(attackers, present)


def _works(config: Mapping[str, Any], f: int, clients: int) -> bool:
    """Whether the rule, after the pre-aggregations, accepts so many clients with this f."""
    whole = {**config, NAME: f}
    parts = identity.chained({group: interpolated(config[group], whole) for group in ("aggregator", "pre_aggregation")})
    try:
        for group, content in parts.items():
            targets.check(group, content)
        mixing = parts["pre_aggregation"]
        check_clients(targets.build(parts["aggregator"]), targets.build(mixing) if mixing else None, clients)
    except ConfigError:
        return False
    return True
