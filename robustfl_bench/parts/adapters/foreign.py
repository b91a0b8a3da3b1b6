"""A function of a matrix, or an object that is called with one, as a rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from robustfl_bench.base.fields import one_of
from robustfl_bench.parts.adapters.adapter import Adapter
from robustfl_bench.parts.adapters.signatures import CLIENTS, call
from robustfl_bench.parts.aggregators.base import ServerView

if TYPE_CHECKING:
    from robustfl_bench.numerics.updates import Updates


@dataclass(frozen=True)
class Foreign(Adapter):
    """A rule that is called with the updates (n, d), a copy of float32 numbers, one client per row."""

    array: Annotated[str, one_of(numpy="a NumPy array", torch="a tensor on the device of the run")] = "numpy"
    """the matrix that it is called with"""

    def ask(self, rule: Any, updates: Updates, server: ServerView) -> Any:
        rows = updates.matrix.clone()
        count = dict.fromkeys(CLIENTS, lambda: updates.n)
        return call(
            rule if callable(rule) else rule.aggregate, rows if self.array == "torch" else rows.cpu().numpy(), **count
        )
