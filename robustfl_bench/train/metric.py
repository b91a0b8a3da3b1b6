"""A metric: a column of metrics.csv, how it is shown, and the function that computes it from an evaluated round."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from robustfl_bench.base.errors import BrokenContract, Reported, one_line

if TYPE_CHECKING:
    from robustfl_bench.train.evaluation import Evaluation, Record


@dataclass(frozen=True)
class Metric:
    """One column, or a family of columns such as ``recall_{}``.

    ``compute`` returns the number of an evaluated round, the numbers of a family by what replaces ``{}``, or None where
    the metric does not apply. A run has the same columns in all of its rounds. ``heading`` says what the column is,
    with the same ``{}``. ``better`` is 1 when higher is better, -1 when lower is, 0 when neither. The number times
    ``factor`` is in ``unit`` and shown with ``digits`` decimals. An ``exact`` number follows from the settings and is
    the same for all seeds.
    """

    name: str
    heading: str
    compute: Callable[[Evaluation], float | Mapping[str, float] | None]
    unit: str = ""
    better: int = 0
    factor: float = 1
    digits: int = 3
    exact: bool = False

    @cached_property
    def family(self) -> re.Pattern[str] | None:
        """The names of the columns of a family, the member as the group; None for a single column."""
        before, braces, after = self.name.partition("{}")
        return re.compile(f"{re.escape(before)}(.+){re.escape(after)}") if braces else None

    def columns(self, evaluation: Evaluation) -> Record:
        """The columns of an evaluated round, in their order; none where the metric does not apply. Raises
        BrokenContract, with the metric's name, for an error in ``compute``."""
        try:
            number = self.compute(evaluation)
        except Reported:
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise BrokenContract(f"metric {self.name} raised {type(error).__name__}: {one_line(error)}") from error
        if isinstance(number, Mapping):
            return {self.name.format(member): value for member, value in number.items()}
        return {} if number is None else {self.name: number}
