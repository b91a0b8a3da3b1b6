"""The panels of an arena: how the rules stand in one partition with one number of attackers."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean
from typing import Protocol

from robustfl_bench.base.grouping import grouped
from robustfl_bench.base.late import np, pd
from robustfl_bench.lab.arena.additions import SEARCHING, Addition, counted, searches
from robustfl_bench.lab.arena.needs import RuleNeeds
from robustfl_bench.lab.arena.track import HONEST, NONE, SERVER, ArenaRun, Track, by_number, tracks
from robustfl_bench.lab.arena.words import HALF
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.read.runs.statistics import (
    COMPARED,
    LEVEL,
    UNKNOWN,
    Estimate,
    Interval,
    bootstrapped,
    leaders,
    least,
    level_at_each,
)
from robustfl_bench.read.runs.values import at_chance
from robustfl_bench.read.runs.where import check_name

ENOUGH = 5
"""The fewest rules of which one is called the best, or whose order is compared with another."""

REFERENCE = "average"
"""The rule whose recalls without attack are compared with."""


@dataclass(frozen=True)
class Standing:
    """How a rule stands in a panel.

    ``worst`` is the worst case: the least over all attacks that were run against the rule of the means over seeds, an
    accuracy in percent, reached under ``attack``. ``accuracies`` are these means under the attacks of the track's list,
    and ``beyond`` those under other attacks. ``score`` is the worst case in percent of what honest clients reach; see
    ``ArenaPanel.scaled``. ``clean`` is the accuracy without attack. ``by_seed`` is the least over attacks in each seed,
    and ``under`` the accuracy in each seed under the attack of the worst case.
    ``recall_drop`` is the largest max recall drop under any attack, in points, against the plain mean without attack.
    ``cells`` counts the conditions, attack and seed, that were run.
    """

    rule: str
    worst: float = math.nan
    attack: str = ""
    accuracies: Mapping[str, float] = field(default_factory=dict)
    score: Estimate = UNKNOWN
    clean: float = math.nan
    by_seed: Mapping[str, float] = field(default_factory=dict)
    under: Mapping[str, float] = field(default_factory=dict)
    recall_drop: float = math.nan
    diverged: int = 0
    cells: int = 0
    beyond: Mapping[str, float] = field(default_factory=dict)


class Scored(Protocol):
    """What has a score."""

    @property
    def score(self) -> Estimate: ...


@dataclass(frozen=True, eq=False)
class ArenaPanel:
    """The rules in one partition with one number of attackers.

    ``honest`` is the accuracy in percent of the plain mean of the honest clients, and ``chance`` that of guessing.
    ``standings`` has the rules by their worst case, the best first: those with all attacks in at least one seed, then
    the others. ``infeasible`` are rules that cannot be run. ``level`` is that of each test.
    """

    partition: str
    number: int
    chance: float
    honest: float
    attacks: int
    standings: Mapping[str, Standing]
    infeasible: tuple[str, ...] = ()
    level: float = LEVEL

    def scaled(self, accuracy: float) -> float:
        """An accuracy as a score: 0 is guessing or less, 100 what the honest clients alone reach."""
        share = 100 * (accuracy - self.chance) / (self.honest - self.chance)
        return max(share, 0.0) if share == share else 0.0

    def score(self, accuracies: np.ndarray) -> Estimate:
        """The score of accuracies (attacks, seeds): that of the least over attacks of the means over seeds."""
        return bootstrapped(100 * (accuracies - self.chance) / (self.honest - self.chance), least, floor=0.0)

    def is_whole(self, rule: str) -> bool:
        """Whether a rule was run under all attacks; the server alone meets none."""
        return rule == SERVER or len(self.standings[rule].accuracies) == self.attacks

    @cached_property
    def met(self) -> set[str]:
        """The rules that met the strongest attack that searches, of those that were run in the panel."""
        by_attack = ({rule for rule, of in self.standings.items() if attack in of.beyond} for attack in SEARCHING[::-1])
        return next(filter(None, by_attack), set())

    @cached_property
    def unmet(self) -> set[str]:
        """The rules that did not meet the strongest attack that searches, of those that were run in the panel: their
        scores are no more than upper bounds, and none of them leads."""
        return {*self.standings} - {SERVER, *self.met} if self.met else set()

    @property
    def server(self) -> Standing | None:
        """The server's own samples alone."""
        return self.standings.get(SERVER)

    @property
    def seeds(self) -> int:
        """The most seeds of a rule; the server alone has draws of its own."""
        return max((standing.score.n for rule, standing in self.standings.items() if rule != SERVER), default=0)

    @property
    def compares(self) -> bool:
        """Whether there are seeds enough to tell rules apart."""
        return self.seeds >= COMPARED

    def run_enough(self, rules: Iterable[str]) -> list[str]:
        """Those of the rules that have seeds enough to be compared, under all attacks."""
        return [rule for rule, score in self.scores(rules).items() if score.n >= COMPARED]

    def comparable_best(self, rules: Iterable[str]) -> set[str]:
        """The best of the rules, and those whose score has as many seeds, if they can be compared: of the others, few
        seeds may be the reason that nobody can tell them from the best."""
        scores = self.scores(rules)
        best = max(scores.values(), key=lambda score: score.value, default=None)
        return {rule for rule, score in scores.items() if best and score.n >= max(best.n, COMPARED)}

    def interval(self, of: Scored) -> Interval | None:
        """The 95% interval of a score, as far as scores go."""
        bounds = of.score.interval()
        if bounds is None or math.isnan(bounds.low):
            return None
        most = max(100.0, self.scaled(100))
        return Interval(bounds.mean, max(bounds.low, 0.0), min(bounds.high, most), bounds.n)

    def collapsed(self, standing: Standing) -> str:
        """In how many seeds of the worst case a rule keeps less than the server alone does, or guesses; in words."""
        alone = self.server.worst if self.server else -math.inf
        classes = round(100 / self.chance) if self.chance else math.inf
        low = [at for at in standing.under.values() if at < alone or at_chance(at / 100, classes)]
        return f"{len(low)} of {len(standing.under)}" if standing.under else ""

    def fails(self, standing: Standing) -> list[str]:
        """The attacks under which a rule scores less than HALF, the most harmful first."""
        low = sorted((accuracy, attack) for attack, accuracy in {**standing.accuracies, **standing.beyond}.items()
                     if self.scaled(accuracy) < HALF)  # fmt: skip
        return [attack for _, attack in low]

    def best(self, rules: Iterable[str]) -> list[str]:
        """Those of the rules, run under all attacks and searched, that cannot be told from the best of them (see
        ``leaders``), but for others whose whole interval is below HALF."""
        group = next(self.groups(rules), [])
        bounds = {rule: self.interval(self.standings[rule]) for rule in group}
        return [*group[:1], *(rule for rule in group[1:] if (of := bounds[rule]) is None or of.high >= HALF)]

    def scores(self, rules: Iterable[str]) -> dict[str, Estimate]:
        """The known scores of those of the rules that were run under all attacks."""
        whole = {rule: self.standings[rule].score for rule in rules if rule in self.standings and self.is_whole(rule)}
        return {rule: score for rule, score in whole.items() if not math.isnan(score.value)}

    def groups(self, rules: Iterable[str]) -> Iterator[list[str]]:
        """The rules in groups: the best with those that cannot be told from it (see ``leaders``), then the best of the
        others with those that cannot be told from it, and so on."""
        left = self.scores(rule for rule in rules if rule not in self.unmet)
        while left:
            yield (group := leaders(left, self.level))
            left = {rule: score for rule, score in left.items() if rule not in group}


class Arena:
    """The runs of a track with their panels and the needs of the rules, each computed when first read."""

    def __init__(self, table: pd.DataFrame, name: str, book: Callable[[str], Track] = Track) -> None:
        """``table`` is that of ``records.load``. Rules from outside are tried only if their package is ``trusted``.
        ``book`` is the kind of track: the rules as they come, or ``tuned.TunedTrack``. Raises ConfigError for an
        unknown track, NoRuns if it has none."""
        check_name(name, tracks(), "track")
        self.table, self.track = table, book(name)
        if not (runs := self.track.runs(table)):
            experiment = self.track.experiment
            raise NoRuns(f"no runs of {experiment}; robustfl-bench -m +experiment={experiment} makes them")
        self.runs = runs
        self.needs = RuleNeeds(table, self.runs)
        self._of_table = {(name, book): self}

    def beside(self, name: str, book: Callable[[str], Track] = Track) -> Arena:
        """That of another track or rule book in the same table, made once for all of them. Raises as a new one does."""
        if (place := (name, book)) not in self._of_table:
            made = self._of_table[place] = Arena(self.table, name, book)
            made._of_table = self._of_table
        return self._of_table[place]

    @cached_property
    def settled(self) -> dict[int, list[ArenaRun]]:
        """The runs by number of attackers."""
        return by_number(self.track, self.runs)

    @cached_property
    def panels(self) -> dict[tuple[int, str], ArenaPanel]:
        """Those of ``by_list``, with attacks that search among those on the rules that met them."""
        searched = {place: counted(of, self.additions) for place, of in self.by_list.items()}
        return {place: replace(of, standings=_ordered({**of.standings, **searched[place]}.values()))
                for place, of in self.by_list.items()}  # fmt: skip

    @cached_property
    def additions(self) -> list[Addition]:
        """The rules that were run under attacks that search, by panel and attack."""
        return [of for panel in self.by_list.values() for attack, runs in self.searched.items()
                for of in searches(panel, self.runs_of(panel), attack, runs)]  # fmt: skip

    @cached_property
    def searched(self) -> dict[str, list[ArenaRun]]:
        """The runs under each attack that searches, where there are any."""
        found = {attack: self.under(attack) for attack in SEARCHING}
        return {attack: runs for attack, runs in found.items() if runs}

    @cached_property
    def by_list(self) -> dict[tuple[int, str], ArenaPanel]:
        """The panels by number of attackers and partition, in the order of the track, under the attacks of the track
        alone: those in which a rule was run."""
        return {(number, partition): panel_of(self.track, partition, number, runs, self.alone)
                for number, runs in self.settled.items() for partition in self.track.swept["partition"]
                if any(run.partition == partition and (run.rule != SERVER or not self.track.draws)
                       for run in runs)}  # fmt: skip

    @cached_property
    def alone(self) -> list[ArenaRun]:
        """The server's own samples alone if the track draws them by themselves: they depend on neither attack nor
        partition, so the partition with the most draws stands for all."""
        if not self.track.draws:
            return []
        draws = grouped((run.partition, run) for run in self.runs if run.rule == SERVER and run.attack == NONE)
        return max(draws.values(), key=len, default=[])

    def runs_of(self, panel: ArenaPanel) -> list[ArenaRun]:
        """The runs that a panel stands for, those of the server alone among them."""
        own = [run for run in self.settled[panel.number] if run.partition == panel.partition]
        return [*self.alone, *(run for run in own if run.rule != SERVER)] if self.alone else own

    def under(self, *attacks: str) -> list[ArenaRun]:
        """The runs under attacks that the track's list lacks, at the settings of its own runs."""
        return self.track.under(self.table, self.runs, attacks)

    def row(self, number: int) -> list[ArenaPanel]:
        """The panels with this number of attackers."""
        return [panel for (of, _), panel in self.panels.items() if of == number]

    def share(self, number: int) -> str:
        """A number of attackers as a share of the clients."""
        return f"{100 * number / self.track.clients:.3g}%"

    def titled(self, panel: ArenaPanel) -> str:
        """A panel in words."""
        return f"{panel.partition}, {self.share(panel.number)} attackers"


def panel_of(
    track: Track, partition: str, number: int, runs: Sequence[ArenaRun], alone: Sequence[ArenaRun] = ()
) -> ArenaPanel:
    """The panel of a partition among ``runs`` with one number of attackers. Runs of the server ``alone``, if given,
    replace those that the panel has of it."""
    by_rule = grouped((run.rule, run) for run in runs if run.partition == partition)
    infeasible = tuple(rule for rule, of in by_rule.items() if all(run.state == "infeasible" for run in of))
    chance = 100 / max((len(run.recall) for of in by_rule.values() for run in of if run.recall), default=math.inf)
    honest = _mean(100 * run.accuracy for run in by_rule.pop(HONEST, []))
    attacks, level = len(track.swept["attack"]) - 1, level_at_each(track.looks)
    empty = ArenaPanel(partition, number, chance, honest, attacks, {}, infeasible, level)
    if alone:
        by_rule.pop(SERVER, None)
    reference = {run.seed: run.recall for run in by_rule.get(REFERENCE, ()) if run.attack == NONE}
    standings = [_standing(rule, [run for run in of if run.state != "infeasible"], empty, reference)
                 for rule, of in by_rule.items() if of and rule not in infeasible]  # fmt: skip
    standings += [_server_alone(alone, empty)] if alone else []
    return replace(empty, standings=_ordered(standings))


def _ordered(standings: Iterable[Standing]) -> dict[str, Standing]:
    ordered = sorted(standings, key=lambda of: (-len(of.accuracies), -_or_least(of.worst), -_or_least(of.clean)))
    return {standing.rule: standing for standing in ordered}


def _or_least(number: float) -> float:
    return -math.inf if math.isnan(number) else number


def _standing(
    rule: str, runs: Sequence[ArenaRun], scale: ArenaPanel, reference: Mapping[str, Sequence[float] | None]
) -> Standing:
    cells: dict[str, dict[str, ArenaRun]] = defaultdict(dict)
    for run in runs:
        cells[run.attack][run.seed] = run
    clean = {seed: 100 * run.accuracy for seed, run in cells.pop(NONE, {}).items()}
    reached = Counter(seed for of in cells.values() for seed in of)
    seeds = sorted(seed for seed, count in reached.items() if count == max(reached.values()))
    attacks = [attack for attack, of in cells.items() if all(seed in of for seed in seeds)]
    shown = Standing(
        rule,
        clean=_mean([number for seed, number in clean.items() if seed in seeds] or clean.values()),
        diverged=sum(run.state == "diverged" for run in runs),
        cells=len(runs),
    )
    if not attacks or not seeds:
        return shown
    numbers = np.array([[100 * cells[attack][seed].accuracy for seed in seeds] for attack in attacks])
    means = dict(zip(attacks, numbers.mean(axis=1).tolist(), strict=True))
    worst = min(means, key=lambda attack: means[attack])
    drops = [max(_drop(reference[seed], cells[attack][seed].recall) for attack in attacks)
             for seed in seeds if reference.get(seed)]  # fmt: skip
    return replace(
        shown,
        worst=means[worst],
        attack=worst,
        accuracies=means,
        score=scale.score(numbers),
        by_seed=dict(zip(seeds, numbers.min(axis=0).tolist(), strict=True)),
        under=dict(zip(seeds, numbers[attacks.index(worst)].tolist(), strict=True)),
        recall_drop=_mean(drops),
    )


def _server_alone(draws: Sequence[ArenaRun], scale: ArenaPanel) -> Standing:
    """The standing of the server's own samples alone, by draw of them."""
    by_seed = {run.seed: 100 * run.accuracy for run in draws}
    numbers = np.array([list(by_seed.values())])
    mean = float(numbers.mean())
    return Standing(
        SERVER, mean, NONE, {NONE: mean}, scale.score(numbers), clean=mean, by_seed=by_seed,
        diverged=sum(run.state == "diverged" for run in draws), cells=len(draws),
    )  # fmt: skip


def _drop(reference: Sequence[float] | None, recall: Sequence[float] | None) -> float:
    """The max recall drop in points; for a diverged model, the whole recall of the reference."""
    from robustfl_bench.numerics.metrics import max_recall_drop

    assert reference is not None
    return 100 * max_recall_drop(reference, recall if recall is not None else [0.0] * len(reference))


def _mean(numbers: Iterable[float]) -> float:
    values = list(numbers)
    return fmean(values) if values else math.nan
