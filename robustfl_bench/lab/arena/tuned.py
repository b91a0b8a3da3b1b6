"""The tuned rule book: the trials of a rule in a panel, the one that validation chooses, and its runs.

Every rule has the same number of trials, that of the rates of ``arena/NAME_trials``. A rule without a scale (see
``base.fields.SCALE``) tries these rates. A rule with one tries its default and SCALES, each at fewer rates. A trial is
judged by the worst of the attacks: the least over attacks of the mean over seeds of its accuracy on validation data,
each the mean of the last evaluations.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.grouping import grouped
from robustfl_bench.base.late import pd
from robustfl_bench.lab.arena import decision
from robustfl_bench.lab.arena.rows import worst_case
from robustfl_bench.lab.arena.track import HONEST, ArenaRun, Beside, Track, validation_share
from robustfl_bench.runner.config import compose, options

SCALES = (0.1, 0.3, 1.0)
"""The values of a rule's scale that are tried besides its default, in clean median lengths of an honest update."""

_VALIDATED = "last_validation_accuracy"
_EVERY = 2  # of the rates, from the largest on, that a rule with a scale tries


@dataclass(frozen=True, order=True)
class TunedTrial:
    """What is tried of a rule: its learning rate, and its changed options, ``key=value``."""

    lr: float
    options: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """The overrides that make it."""
        return [f"lr={self.lr:g}", *self.options]


@dataclass(frozen=True)
class TunedChoice:
    """The trial that was chosen, and its accuracy on validation data under the worst attack, a fraction."""

    trial: TunedTrial
    accuracy: float


Place = tuple[str, str, int]
"""A rule's option, a partition and a number of attackers."""


class TunedTrack(Track):
    """A track whose rules are tuned in each panel. A rule is named by its option.

    ``trials`` is the experiment of the trials, and ``tuning`` what it sweeps.
    """

    rules = "rules tuned in each panel"

    def __init__(self, name: str) -> None:
        """Raises ConfigError for a track without trials."""
        super().__init__(name)
        self.trials = f"{self.experiment}_trials"
        if not options.exists("experiment", self.trials):
            raise ConfigError(f"the track {name} has no tuned book: there is no experiment {self.trials}")
        self.tuning = compose.swept([f"+experiment={self.trials}"])

    @cached_property
    def draws(self) -> int:
        return 0  # its rate is tuned, so its line is that of its cells

    def title(self, number: int) -> str:
        return f"{super().title(number)}, rules tuned"

    def command(self, rules: Iterable[str], overrides: Sequence[str]) -> str:
        return " ".join(["robustfl-bench arena enter RULE", *overrides, f"--protocol {self.name} --book tuned"])

    @property
    def attacks(self) -> list[str]:
        return [*self.swept["attack"], *self.tuning["attack"]]

    @property
    def rates(self) -> list[float]:
        """The rates that a rule without a scale tries: as many as any rule has trials."""
        return sorted(map(float, self.tuning["lr"]))

    @property
    def seeds(self) -> list[str]:
        """The seeds of the trials."""
        return self.tuning["seed"]

    def sweeps(self, scale: str | None = None, length: float = math.nan) -> list[list[str]]:
        """The overrides of the sweeps that make all trials of a rule in a partition: one of rates, or for a rule whose
        option ``scale`` is its scale, one at its default and one at SCALES times the clean median ``length``."""
        experiment = f"+experiment={self.trials}"
        if scale is None:
            return [[experiment]]
        count = len(self.rates) // (1 + len(SCALES))
        rates = f"lr={','.join(f'{rate:g}' for rate in sorted(self.rates[::-_EVERY][:count]))}"
        values = ",".join(f"{each * length:.2g}" for each in SCALES)
        return [[experiment, rates], [experiment, rates, f"aggregator.{scale}={values}"]]

    def choices(self, table: pd.DataFrame) -> dict[Place, TunedChoice]:
        """The choice of each rule in each panel of which all trials were run.

        Of equal trials the one with the smallest rate is chosen. A rule with more trials than there are rates, such as
        those for two values of another option, has no choice.
        """
        return self._chosen(self.read(table, _VALIDATED))

    def runs(self, table: pd.DataFrame) -> list[ArenaRun]:
        """The runs of ``records.load`` at the choice of their panel; those without attack stand in each panel that
        chose so. The honest clients' mean is that of the plain book."""
        measured = [run for run, share in self.read(table, _VALIDATED) if share is None]
        own = [run for run in measured if run.attack in self.swept["attack"]]
        return [*(run for run in measured if run.attack == HONEST), *self._at_choices(table, own)]

    def chosen(self, table: pd.DataFrame, rule: str, partition: str, number: int) -> list[str]:
        return self.choices(table)[rule, partition, number].trial.words

    def under(self, table: pd.DataFrame, runs: Iterable[ArenaRun], attacks: Iterable[str]) -> list[ArenaRun]:
        read = Beside(self.name, attacks).read(table, _VALIDATED)
        return self._at_choices(table, [run for run, share in read if share is None])

    def _at_choices(self, table: pd.DataFrame, runs: Iterable[ArenaRun]) -> list[ArenaRun]:
        """Those of the ``runs`` at the choice of their panel."""
        by_trial = grouped(((_option(run), run.partition, TunedTrial(run.lr, run.options)), run) for run in runs)
        return [replace(run, rule=rule, num_byzantine=number, validated=True)
                for (rule, partition, number), choice in self.choices(table).items()
                for run in by_trial.get((rule, partition, choice.trial), ())
                if run.num_byzantine in (0, number) and run.declared in (None, number)]  # fmt: skip

    def _chosen(self, read: Iterable[tuple[ArenaRun, str | None]]) -> dict[Place, TunedChoice]:
        """The choices by the runs of ``read``."""
        conditions = set(product(self.tuning["attack"], self.tuning["seed"]))
        validated = validation_share(self.trials)
        tried: dict[Place, dict[TunedTrial, dict[tuple[str, str], float]]] = defaultdict(lambda: defaultdict(dict))
        for run, share in read:
            known = share == validated and (run.attack, run.seed) in conditions
            accuracy = run.accuracy if run.state == "finished" else 0.0
            if known and run.declared in (None, run.num_byzantine) and not math.isnan(accuracy):
                place = _option(run), run.partition, run.num_byzantine
                tried[place][TunedTrial(run.lr, run.options)][run.attack, run.seed] = accuracy
        return {place: _best(of) for place, of in tried.items()
                if len(of) == len(self.rates) and all(numbers.keys() == conditions for numbers in of.values())
        }  # fmt: skip


BOOKS: Mapping[str, Callable[[str], Track]] = dict(zip(decision.BOOKS, (Track, TunedTrack), strict=True))
"""The rule books by name: rules as they come, and tuned."""


def _option(run: ArenaRun) -> str:
    """The option of a run's rule, without changed options."""
    return run.rule.partition(" ")[0]


def _best(tried: Mapping[TunedTrial, Mapping[tuple[str, str], float]]) -> TunedChoice:
    worst = {trial: worst_case((attack, number) for (attack, _), number in of.items()) for trial, of in tried.items()}
    trial = max(sorted(worst), key=lambda trial: worst[trial])
    return TunedChoice(trial, worst[trial])
