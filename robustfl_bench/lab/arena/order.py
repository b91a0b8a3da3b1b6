"""The rules' order: its agreement between seeds and sizes, whether ``worst`` is the worst attack, which of the best
rules of a panel can be told apart, which are equal, and how often the tests of it err, as
scripts/generators/error_rates.py simulated on the kept runs."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from statistics import fmean
from typing import TypeVar

from robustfl_bench.base.grouping import grouped
from robustfl_bench.lab.arena.panels import Arena, ArenaPanel
from robustfl_bench.lab.arena.rows import sealed_rows, worst_case
from robustfl_bench.lab.arena.track import HONEST, NONE, SERVER, ArenaRun
from robustfl_bench.lab.arena.words import ends, said, span, tabled
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.read.runs.statistics import LEVEL, chance_if_apart, chance_if_equal, rank_correlation, rejected
from robustfl_bench.read.tables.sheets import Sheet
from robustfl_bench.runner.store.kept import ARENA, FOLDER

WORST = "worst"
"""The attack that tries a list of attacks in every round."""

NEAR = 2  # points

_Cell = tuple[str, str, str]
"""A partition, an attack and a seed."""

Condition = TypeVar("Condition", str, _Cell)


def stability(row: Sequence[ArenaPanel], top: int | None = None) -> tuple[float, int, int] | None:
    """Agreement of the rules' order between each seed and the mean of the others: the mean of Spearman's rank
    correlations, the number of rules and that of seeds. None with fewer than two seeds, or three rules.

    The order is that by the mean over partitions of the least accuracy under any attack. With ``top``, of so many rules
    that are best over all seeds.
    """
    by_seed: dict[str, dict[str, float]] = {}
    for rule in row[0].standings if row else ():
        places = [panel.standings[rule].by_seed for panel in row if rule in panel.standings]
        shared = set.intersection(*map(set, places)) if len(places) == len(row) else set()
        by_seed[rule] = {seed: fmean(place[seed] for place in places) for seed in shared}
    rules, seeds = shared_conditions(by_seed)
    if len(seeds) < 2 or len(rules) < 3:
        return None
    rules = sorted(rules, key=lambda rule: -fmean(by_seed[rule][seed] for seed in seeds))[:top]
    correlations = []
    for seed in seeds:
        others = [fmean(by_seed[rule][other] for other in seeds if other != seed) for rule in rules]
        correlations.append(rank_correlation([by_seed[rule][seed] for rule in rules], others))
    return fmean(correlations), len(rules), len(seeds)


def likeness(runs: Iterable[ArenaRun], others: Sequence[ArenaRun]) -> tuple[float, int] | None:
    """Spearman's rank correlation of the rules' worst cases in ``others`` with those in ``runs`` of the same
    partitions, attacks and seeds, and the number of rules; None for fewer than three.

    The worst case is the least over attacks of the means over seeds, then the mean over partitions.
    """
    first, second = ({_condition(run): run.accuracy for run in of if is_attacked(run)} for of in (runs, others))
    held = grouped((rule, (cell, second[rule, cell])) for rule, cell in second if (rule, cell) in first)
    rules, conditions = shared_conditions({rule: dict(of) for rule, of in held.items()})
    if len(rules) < 3:
        return None

    def worst(of: Mapping[tuple[str, _Cell], float], rule: str) -> float:
        cells = grouped((cell[0], (cell[1], of[rule, cell])) for cell in conditions)
        return fmean(map(worst_case, cells.values()))

    orders = [[worst(of, rule) for rule in rules] for of in (first, second)]
    return rank_correlation(*orders), len(rules)


def is_attacked(run: ArenaRun) -> bool:
    """Whether a run was measured under an attack."""
    return run.attack not in (NONE, HONEST) and run.state != "infeasible"


def _condition(run: ArenaRun) -> tuple[str, _Cell]:
    return run.rule, (run.partition, run.attack, run.seed)


def shared_conditions(
    numbers: Mapping[str, Mapping[Condition, float]],
) -> tuple[list[str], list[Condition]]:
    """Rules, and the conditions that all of them were run in. Conditions are those of one rule; the choice has the most
    pairs."""
    best: tuple[list[str], list[Condition]] = ([], [])
    for held in {frozenset(of) for of in numbers.values()}:
        rules = [rule for rule, of in numbers.items() if held <= of.keys()]
        if (len(rules) * len(held), len(rules)) > (len(best[0]) * len(best[1]), len(best[0])):
            best = rules, sorted(held)
    return best


def strongest(runs: Sequence[ArenaRun]) -> tuple[int, int, int] | None:
    """The number of conditions (rule, partition, seed) in which no single attack does more harm than ``worst``, of
    those in which none does so by more than NEAR points, and of all. None without any."""
    adaptive: dict[tuple[str, str, str], float] = {}
    single: dict[tuple[str, str, str], float] = {}
    for run in runs:
        if is_attacked(run):
            least, case = adaptive if run.attack == WORST else single, (run.rule, run.partition, run.seed)
            least[case] = min(least.get(case, math.inf), 100 * run.accuracy)
    behind = [adaptive[case] - single[case] for case in adaptive if case in single]
    return (sum(by <= 0 for by in behind), sum(by <= NEAR for by in behind), len(behind)) if behind else None


TOP = 8
"""How many of the best rules of a panel are compared with each other, with and without server data."""

MARGIN = 3
"""Points of the score below which two rules count as equal."""

Pair = tuple[str, str]
"""Two rules, the better one first."""


@dataclass(frozen=True)
class Pairs:
    """The pairs of some rules: those told ``apart``, those shown to be ``equal``, and the others. ``alone`` counts
    those that a test at 95% tells apart without any correction."""

    rules: tuple[str, ...]
    apart: frozenset[Pair]
    equal: frozenset[Pair]
    alone: int

    @property
    def all(self) -> list[Pair]:
        """Every pair."""
        return list(combinations(self.rules, 2))

    @property
    def open(self) -> list[Pair]:
        """The pairs that are neither told apart nor equal."""
        return [pair for pair in self.all if pair not in self.apart | self.equal]

    @property
    def share_apart(self) -> float:
        """The share of the pairs that can be told apart; 0 without pairs."""
        return len(self.apart) / len(self.all) if self.all else 0.0

    @property
    def share_settled(self) -> float:
        """The share of the pairs that are told apart or equal; 0 without pairs."""
        return 1 - len(self.open) / len(self.all) if self.all else 0.0

    def counted(self, some: Collection[Pair]) -> str:
        """The number of some of the pairs, with their share."""
        return f"{len(some)} ({100 * len(some) / len(self.all):.0f}%)" if self.all else ""


def contenders(panel: ArenaPanel) -> list[str]:
    """The rules of a panel with a score, the best first; the server alone is none."""
    scores = panel.scores(rule for rule in panel.standings if rule != SERVER)
    return sorted(scores, key=lambda rule: -scores[rule].value)


def pairs(panel: ArenaPanel, rules: Sequence[str] | None = None) -> Pairs:
    """The pairs of these rules of a panel, by default of the best TOP."""
    chosen = tuple(contenders(panel)[:TOP] if rules is None else rules)
    scores = panel.scores(chosen)
    compared = list(combinations(chosen, 2))
    different = {pair: chance_if_equal(scores[pair[0]], scores[pair[1]]) for pair in compared}
    close = {pair: chance_if_apart(scores[pair[0]], scores[pair[1]], MARGIN) for pair in compared}
    apart, equal = rejected(different, panel.level), rejected(close, panel.level)
    return Pairs(
        chosen,
        apart=frozenset(apart),
        equal=frozenset(equal - apart),
        alone=sum(chance <= 1 - LEVEL for chance in different.values()),
    )


def seeds(panel: ArenaPanel, rules: Sequence[str]) -> str:
    """The numbers of seeds of some rules, in words."""
    counts = [panel.standings[rule].score.n for rule in rules]
    return span(str(min(counts)), str(max(counts))) if counts else ""


def beside_server(panel: ArenaPanel, rules: Sequence[str]) -> tuple[list[str], list[str]]:
    """The rules that score above the server's own samples alone beyond the seeds, and those that score below: Welch's
    test, corrected for the number of rules. It says nothing of attacks that were not run."""
    if panel.server is None:
        return [], []
    alone, scores = panel.server.score, panel.scores(rules)
    different = rejected({rule: chance_if_equal(score, alone) for rule, score in scores.items()}, panel.level)
    above = [rule for rule in rules if rule in different and scores[rule].value > alone.value]
    below = [rule for rule in rules if rule in different and rule not in above]
    return [rule for rule in above if rule not in panel.unmet], below


BELOW, UNSHOWN = "below the server alone", "not shown above the server alone"
"""How a rule is marked that does not beat the server's own samples alone: by its score, or by the seeds."""


def mark(panel: ArenaPanel, rule: str) -> str:
    """BELOW or UNSHOWN for a rule that does not beat the server's own samples alone, tested among all rules of the
    panel; empty for one that does, and where nobody trained on these samples."""
    above, _ = beside_server(panel, contenders(panel))
    if panel.server is None or not panel.server.score.n or rule in above:
        return ""
    return UNSHOWN if panel.standings[rule].score.value > panel.server.score.value else BELOW


def sheet(arenas: Sequence[Arena]) -> Sheet:
    """How many pairs of the best rules each panel of some tracks tells apart."""
    records = [{"arena": arena, "panel": panel, "pairs": pairs(panel), "rules": contenders(panel)}
               for arena in arenas for panel in arena.panels.values()]  # fmt: skip
    return tabled("tables.pairs", records, TOP=TOP, MARGIN=MARGIN, seeds=seeds)


ERROR_RATES = FOLDER / ARENA / "error_rates.csv"
RATES = ("track", "partition", "attackers", "rules", "seeds", "test", "pair", "worst_pair", "any_pair", "left_out",
           "covered", "worst_covered", "power")  # fmt: skip
"""The columns of ERROR_RATES: a panel, its simulated rules and seeds, a test, and shares."""

USED = "used"
"""The test that pages show; the others are beside it to compare."""


@cache
def simulated() -> Sequence[Mapping[str, str]]:
    """The lines of ERROR_RATES, by panel and number of seeds; none if it is not there."""
    return sealed_rows(ERROR_RATES)


def errors(arena: Arena, panel: ArenaPanel) -> str:
    """The error rates of a panel, with as many of its seeds as were simulated, or those of all simulated panels; empty
    for one seed."""
    known = [line for line in simulated() if line["test"] == USED and int(line["seeds"]) <= panel.seeds]
    place = (panel.partition, str(panel.number))
    lines = [line for line in known if (line["partition"], line["attackers"]) == place] or known
    if not lines:
        return ""
    seeds = max((line["seeds"] for line in lines), key=int)
    lines = [line for line in lines if line["seeds"] == seeds]
    return said("tables.error_rates_say", arena=arena, track=lines[0]["track"], seeds=seeds, TOP=TOP, **_shares(lines))


def error_sheet(arena: Arena) -> Sheet:
    """The error rates of all simulated panels of a track."""
    records = [{**line, **_shares([line]), "share": arena.share(int(line["attackers"]))}
               for line in simulated() if line["test"] == USED and line["track"] == arena.track.name]  # fmt: skip
    return tabled("tables.error_rates", records, arena=arena, TOP=TOP)


def _shares(lines: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The shares in percent, or from which to which."""
    return {name: f"{ends((100 * float(line[name]) for line in lines), '.1f')}%" for name in RATES[6:]}


def mean_scores(row: Sequence[ArenaPanel]) -> dict[str, float]:
    """The mean score over partitions of each rule that was run under all attacks in all of them, the best first."""
    rules = [rule for rule in row[0].standings
             if all(rule in panel.standings and panel.is_whole(rule) for panel in row)]  # fmt: skip
    means = {rule: fmean(panel.standings[rule].score.value for panel in row) for rule in rules}
    return dict(sorted(means.items(), key=lambda item: -item[1]))


def rows_of_panels(arena: Arena) -> Iterator[tuple[int, list[ArenaPanel]]]:
    """The panels by number of attackers. Raises NoRuns unless a rule was attacked."""
    rows = [(number, arena.row(number)) for number in arena.settled]
    attacked = [(number, row) for number, row in rows if row and any(mean_scores(row))]
    if not attacked:
        raise NoRuns(f"no rule of arena {arena.track.name} was run under all attacks in all partitions")
    yield from attacked


def by_rule(runs: Iterable[ArenaRun]) -> dict[str, list[ArenaRun]]:
    """The runs of each rule; the rows of reference are none."""
    return grouped((run.rule, run) for run in runs if run.rule not in (HONEST, SERVER))
