"""The needs, cost and dependences of a rule, measured on artificial rounds. Imports torch."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.doors.catalogue.measures import BYZANTINE as FEW
from robustfl_bench.doors.catalogue.measures import Facts, facts_of_rule
from robustfl_bench.doors.testing import example_round, example_server
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.aggregators.base import Aggregator
from robustfl_bench.runner.config import targets

CLIENTS, BYZANTINE, ASSUMED = 25, 5, 3
TOLERANCE = 1e-3
FACTOR = 1024.0


@dataclass(frozen=True)
class RuleCheck:
    """The needs and cost of a rule, and the change of its aggregate in one round, relative to the aggregate's length,
    when computed ``again``; with the clients in another ``order``; with all updates, the server's too, multiplied by
    FACTOR and the result divided by it (``scale``); and with ASSUMED declared attackers instead of BYZANTINE
    (``declared``; None for a rule without this option)."""

    facts: Facts
    again: float
    order: float
    scale: float
    declared: float | None

    @property
    def flags(self) -> list[str]:
        """Dependences above TOLERANCE, in words with the change."""
        changes = {
            "not deterministic": self.again,
            "depends on the order of clients": self.order if self.again <= TOLERANCE else 0.0,
            "depends on the scale of updates": self.scale,
            "depends on the declared f": self.declared or 0.0,
        }
        return [f"{words} ({100 * change:.3g}%)" for words, change in changes.items() if change > TOLERANCE]


def check(content: Mapping[str, Any]) -> RuleCheck:
    """Try the rule of this content of the config group ``aggregator``. Raises ConfigError if it cannot be built or
    refuses the round."""
    targets.check("aggregator", content)

    def build(assumed: int) -> Aggregator:
        rule = targets.build(_declared(content, assumed))
        if not isinstance(rule, Aggregator):
            raise ConfigError(f"{content.get('_target_')} is no aggregator")
        return rule

    rule = build(BYZANTINE)
    updates, server = example_round(0, CLIENTS - BYZANTINE, BYZANTINE, scale=1.0)
    matrix, classes, counts = updates.matrix, server.class_updates, torch.ones(CLIENTS, dtype=torch.float64)

    def ask(asked: Aggregator, order: Tensor | None = None, factor: float = 1.0) -> Tensor:
        order = torch.arange(CLIENTS) if order is None else order
        view = replace(example_server(factor * classes, clients=CLIENTS), clients=order, counts=counts)
        return asked(Updates(factor * matrix[order], counts), view).vector.double() / factor

    first = ask(rule)

    def change(other: Tensor) -> float:
        return float((other - first).norm() / (first.norm() + torch.finfo(torch.float32).tiny))

    is_declared = _declared(content, 0) != _declared(content, 1)
    return RuleCheck(
        facts=facts_of_rule(build(FEW), is_declared),
        again=change(ask(rule)),
        order=change(ask(rule, torch.arange(CLIENTS).flip(0))),
        scale=change(ask(rule, factor=FACTOR)),
        declared=change(ask(build(ASSUMED))) if is_declared else None,
    )


def _declared(content: Any, number: int) -> Any:
    """The content with another declared number of attackers, at any depth."""
    if not isinstance(content, Mapping):
        return content
    return {key: number if key == "num_byzantine" else _declared(value, number) for key, value in content.items()}
