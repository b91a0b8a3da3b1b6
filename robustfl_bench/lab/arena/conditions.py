"""Under which conditions the scores of an arena hold, what was not tried, and reasons to doubt a rule's worst case:
attacks that help, rules that depend on scale or order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from robustfl_bench.base.console import counted
from robustfl_bench.base.grouping import grouped
from robustfl_bench.lab.arena.additions import GOALS, SEARCHING
from robustfl_bench.lab.arena.decision import BASELINE
from robustfl_bench.lab.arena.needs import RuleNeeds
from robustfl_bench.lab.arena.order import WORST, contenders
from robustfl_bench.lab.arena.track import HONEST, NONE, ArenaRun
from robustfl_bench.lab.arena.words import filled, tabled
from robustfl_bench.read.runs.statistics import Interval, chance_if_not_above, interval, rejected
from robustfl_bench.read.tables.sheets import Sheet
from robustfl_bench.runner.config import targets
from robustfl_bench.runner.config.names import readable
from robustfl_bench.runner.store.folders import LAST

if TYPE_CHECKING:
    from robustfl_bench.lab.arena.panels import Arena
    from robustfl_bench.parts.datasets.base import Dataset


OTHER_DATA = "data other than"
"""How the data begin that were not tried."""


@dataclass(frozen=True)
class Conditions:
    """What a table at the head of a page must say of its numbers.

    ``accuracy`` says which accuracy counts, ``baseline`` what the numbers are compared with.
    """

    data: str
    model: str
    clients: str
    attackers: str
    attacks: str
    accuracy: str
    baseline: str

    def __post_init__(self) -> None:
        if missing := [name for name, words in asdict(self).items() if not words]:
            raise ValueError(f"a headline table needs its {', '.join(missing)}")

    @property
    def words(self) -> str:
        """The conditions as one caption."""
        return ". ".join(f"{name.capitalize()}: {words}" for name, words in asdict(self).items())


def conditions(arena: Arena) -> Conditions:
    """The conditions of an arena's scores."""
    from robustfl_bench.runner.experiment.networks import num_params  # late: it imports PyTorch

    panels = arena.panels.values()
    dataset = _data(arena)
    return Conditions(**filled(
        "tables.conditions",
        track=arena.track,
        config=arena.track.config,
        dataset=dataset,
        weights=num_params(targets.build(arena.track.config["model"]), dataset),
        searched=arena.searched,
        LAST=LAST,
        seeds=sorted(panel.standings[rule].score.n for panel in panels for rule in contenders(panel)),
        BASELINE=BASELINE,
        own=own_samples(arena),
        alone=[panel.server.score.value for panel in panels if panel.server and panel.server.score.n],
    ))  # fmt: skip


def conditioned(sheet: Sheet, arena: Arena) -> Sheet:
    """A table of an arena's scores with their conditions."""
    return replace(sheet, footnotes=[conditions(arena).words, *sheet.footnotes])


def check_headline(sheet: Sheet) -> Sheet:
    """The table, if it has all conditions. Raises ValueError for one that may not stand at the head of a page."""
    lines = [
        line for line in sheet.footnotes if all(f"{name.capitalize()}: " in line for name in Conditions.__annotations__)
    ]
    if not lines:
        raise ValueError(
            f"the table {'; '.join(sheet.above[:1]) or ', '.join(sheet.heading)} lacks its conditions: data, model, "
            "clients, attackers, attacks, accuracy and baseline; arena.conditions.conditioned adds them"
        )
    return sheet


def data_of(arena: Arena) -> str:
    """The data of an arena, as they are called."""
    return readable(conditions(arena).data.partition(", ")[0])


def own_samples(arena: Arena) -> str:
    """The server's own samples, in words: "own 20 samples"."""
    return f"own {arena.track.config['server_data']['samples_per_class'] * _data(arena).num_classes} samples"


def _data(arena: Arena) -> Dataset:
    dataset: Dataset = targets.build(arena.track.config["dataset"])
    return dataset


def not_tried(arena: Arena) -> Iterator[str]:
    """What was not tried in an arena, and may lower its scores or change their order."""
    config = arena.track.config
    if SEARCHING[-1] not in arena.searched:
        yield "an attack built for the rule that it meets"
    if not arena.searched:
        yield "attackers who plan"
    if not arena.under(*GOALS):
        yield "backdoors"
    yield f"{OTHER_DATA} {_data(arena).name}"
    if "Momentum" not in f"{config['local_update']} {config['server_optimizer']}":
        yield "momentum"
    if config["participation"] == 1 and not config["availability"]:
        yield "rounds in which some clients are absent"


@dataclass(frozen=True)
class Remarks:
    """Attacks that surprise, for one rule and number of attackers.

    ``helping`` are attacks under which the accuracy is above that without attack, and ``stronger`` single attacks under
    which it is below that under ``worst``, where that is above guessing. Both have the interval of the difference in
    points, paired over partitions and seeds; of those that are named, for all rules together, at most 5% are expected
    to be chance (``statistics.rejected``). ``diverged`` counts runs.
    """

    helping: Mapping[str, Interval] = field(default_factory=dict)
    stronger: Mapping[str, Interval] = field(default_factory=dict)
    diverged: int = 0


def remarks(runs: Sequence[ArenaRun]) -> dict[str, Remarks]:
    """The remarks on each rule, by its name; ``runs`` are those with one number of attackers."""
    by_rule = grouped((run.rule, run) for run in runs if run.state != "infeasible" and run.rule != HONEST)
    found = {rule: _differences(of) for rule, of in by_rule.items()}
    helping, stronger = (_surely({rule: of[kind] for rule, of in found.items()}) for kind in (0, 1))
    diverged = Counter(run.rule for run in runs if run.state == "diverged")
    return {rule: Remarks(helping[rule], stronger[rule], diverged[rule]) for rule in by_rule}


def _differences(runs: Sequence[ArenaRun]) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """By how much each attack raises a rule's accuracy, and by how much each does more harm than ``worst``."""
    attacked: dict[str, dict[str, float]] = defaultdict(dict)
    for run in runs:
        attacked[run.attack][f"{run.partition} {run.seed}"] = 100 * run.accuracy
    clean = attacked.pop(NONE, {})
    guessing = 100 / max((len(run.recall) for run in runs if run.recall), default=1)
    open_to_more = {place: number for place, number in attacked.get(WORST, {}).items() if number > guessing}
    helps = {attack: _less(of, clean) for attack, of in attacked.items()}
    return helps, {attack: _less(open_to_more, of) for attack, of in attacked.items() if attack != WORST}


def _less(first: Mapping[str, float], second: Mapping[str, float]) -> list[float]:
    return [first[place] - second[place] for place in first if place in second]


def _surely(differences: Mapping[str, Mapping[str, Sequence[float]]]) -> dict[str, dict[str, Interval]]:
    """The attacks of each rule whose difference, in points in each partition and seed, is surely above 0."""
    chances = {(rule, attack): chance_if_not_above(values)
               for rule, of in differences.items() for attack, values in of.items()}  # fmt: skip
    sure = rejected(chances)
    return {rule: {attack: around for attack, values in of.items()
                   if (rule, attack) in sure and (around := interval(values))}
            for rule, of in differences.items()}  # fmt: skip


def doubts(settled: Mapping[int, Sequence[ArenaRun]], needs: RuleNeeds) -> Sheet:
    """The flags of every rule; ``settled`` are the runs by number of attackers."""
    by_number = {number: remarks(runs) for number, runs in settled.items()}
    records = []
    for rule in sorted({rule for of in by_number.values() for rule in of}):
        known = needs.check(rule)
        flags = [known] if isinstance(known, str) else known.flags
        for number, of in by_number.items():
            flags += _words(of.get(rule, Remarks()), number)
        records.append({"rule": rule, "flags": "; ".join(flags)})
    return tabled("tables.doubts", records)


def _words(of: Remarks, number: int) -> list[str]:
    words = []
    for begin, sign, differences in (("helped by", 1, of.helping), (f"{WORST} is beaten by", -1, of.stronger)):
        if differences:
            points = {name: sign * difference.mean for name, difference in differences.items()}
            strongest_first = sorted(points, key=lambda name: -sign * points[name])
            names = ", ".join(f"{name} ({points[name]:+.1f})" for name in strongest_first)
            words.append(f"{begin} {names}, {number} attackers")
    return [*words, *([f"diverged in {counted(of.diverged, 'run')}, {number} attackers"] if of.diverged else [])]
