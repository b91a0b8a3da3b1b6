"""The needs and dependences of the rules in a table of runs, each measured when first asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from robustfl_bench.base import trusted
from robustfl_bench.base.code_digest import PACKAGE
from robustfl_bench.base.errors import ConfigError, one_line
from robustfl_bench.base.late import pd
from robustfl_bench.lab.arena.track import ArenaRun
from robustfl_bench.runner.config import compose, identity, options, outside

if TYPE_CHECKING:
    from robustfl_bench.lab.arena.checks import RuleCheck


class RuleNeeds:
    """The needs and dependences of rules, each measured once; a reason in words if that is impossible."""

    def __init__(self, table: pd.DataFrame, runs: Sequence[ArenaRun]) -> None:
        self._runs = {run.rule: run for run in runs}
        self._table = table
        self.check = cache(self._try)
        """What was measured of a rule, or why nothing could be."""

    def of(self, rule: str) -> tuple[str, ...]:
        """What a rule needs, in words; unknown needs are ``unknown``."""
        return ("unknown",) if isinstance(known := self.check(rule), str) else known.facts.needs

    def cost(self, rule: str) -> str:
        """The cost of a round of a rule in Gram matrices and sorts; empty if unknown."""
        return "" if isinstance(known := self.check(rule), str) else known.facts.cost

    def operations(self, rule: str) -> Mapping[str, float]:
        """The cost of a round by kind of operation; empty if it is linear in the updates, or unknown."""
        return {kind: float(count) for count, kind in re.findall(r"([\d.]+) (Gram|sort)", self.cost(rule))}

    def asked_as(self, rule: str) -> tuple[str, tuple[str, ...]]:
        """The option or class from outside that chooses a rule, and its changed options."""
        row = self._row(rule)
        known = options.exists("aggregator", str(row["aggregator"]))
        name = str(row["aggregator"]) if known else outside.word(str(row["aggregator._target_"]))
        return name, self._runs[rule].options

    def _row(self, rule: str) -> pd.Series[Any]:
        return self._table.iloc[self._runs[rule].row]

    def _try(self, rule: str) -> RuleCheck | str:
        from robustfl_bench.lab.arena.checks import check

        row = self._row(rule)
        target = str(row["aggregator._target_"])
        is_ours = target.startswith(f"{PACKAGE.name}.")
        try:
            with trusted.only():
                trusted.check(target)
                if is_ours:
                    name, others = self.asked_as(rule)
                    return check(compose.resolve([f"aggregator={name}", *others]).config["aggregator"])
                return check(identity.stored_config(str(row["folder"]))["aggregator"])
        except ConfigError as error:
            return f"not tried: {error}"
        except Exception as error:
            if is_ours:
                raise
            return f"not tried: {type(error).__name__}: {one_line(error)}"  # a user's rule can raise anything
