"""Claims of papers about their rules, judged by the runs of tracks. ``claims.yaml`` has the claims."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from robustfl_bench.lab.agreement import claim_sheets
from robustfl_bench.lab.agreement.measured import MeasuredPaper
from robustfl_bench.lab.agreement.verdicts import VERDICTS, Verdict, judge
from robustfl_bench.lab.arena.panels import Arena
from robustfl_bench.lab.arena.track import NONE, SERVER, settle
from robustfl_bench.lab.arena.words import lines, listed, said, tabled
from robustfl_bench.read.runs.origins import origins
from robustfl_bench.read.runs.values import Value, describe
from robustfl_bench.read.tables.claims import Claim, about
from robustfl_bench.read.tables.sheets import Sheet, Todo
from robustfl_bench.read.tables.table import Cell, Column, Key, Table
from robustfl_bench.runner.config import compose, options

FILE = Path(__file__).with_suffix(".yaml")
_IID, _SKEWED, _OWN, _ANY = "iid", "skewed", "its attacks", "any attack"

Place = tuple[str, str]
"""A partition and a seed."""

Accuracies = Mapping[tuple[str, str], Mapping[Place, float]]
"""The accuracies of rules under attacks in each partition and seed, fractions."""


def title(paper: str) -> str:
    """The title of a paper by its name in ``claims.yaml``."""
    return str(options.read(FILE, absent=f"no file {FILE}")[paper]["title"])


def sheets(arenas: Sequence[Arena]) -> list[Sheet]:
    """For each paper the verdicts on its claims in each arena, and the accuracies of the rules that it compares."""
    papers = options.read(FILE, absent=f"no file {FILE}").values()
    known = {arena: _accuracies(arena) for arena in arenas}
    scores, pages = [], []
    for paper in papers:
        by_track = {arena.track.name: _tested(arena, known[arena], paper, len(arenas) > 1) for arena in arenas}
        tested = {name: of for tables in by_track.values() for name, of in tables.items()}
        scores += [(name, MeasuredPaper(name, paper["title"], {}, _verdicts(paper, of)))
                    for name, of in by_track.items()]  # fmt: skip
        tables = {name: of.table(of.keys, of.partitions) for name, of in tested.items()}
        of_all = MeasuredPaper("", paper["title"], tables, _verdicts(paper, tested))
        pages += [_claims(paper, of_all), *claim_sheets.against(of_all)]
        pages += [_numbers(paper, of) for of in by_track.values()]
    todos = [todo for arena in arenas for paper in papers for todo in _todos(arena, known[arena], paper)]
    pages[-1] = replace(pages[-1], footnotes=(*lines("tables.claims_meaning"), *claim_sheets.MEANING[:2]), todos=todos)
    remarks = [remark for arena in arenas for remark in _remarks(arena, papers)]
    return [_overview(scores, remarks), *pages]


def _overview(scores: Sequence[tuple[str, MeasuredPaper]], remarks: Sequence[str]) -> Sheet:
    """The number of claims of each paper by verdict, in each track."""
    counts = [(paper, name, Counter(verdict.word for verdict in paper.verdicts)) for name, paper in scores]
    records = [{"paper": paper.title, "track": name, "counts": [words[word] for word in VERDICTS]}
               for paper, name, words in counts]  # fmt: skip
    names = dict.fromkeys(name for name, _ in scores)
    return tabled("tables.claims", records, names=names, remarks=remarks, VERDICTS=VERDICTS)


@dataclass(frozen=True)
class _Tested:
    """The accuracies of the rules of a paper in a track with one number of attackers, by rule and attack.

    ``partitions`` are those that were run, ``columns`` the attacks of each column, and ``level`` that of each test.
    """

    title: str
    value: Value
    rules: Sequence[str]
    columns: Mapping[str, Sequence[str]]
    partitions: Sequence[str]
    accuracies: Mapping[tuple[str, str], Mapping[Place, float]]
    level: float

    @property
    def keys(self) -> list[Key]:
        """All cells of the table."""
        return [(block, rule, column) for block in (_IID, _SKEWED) for rule in self.rules for column in self.columns]

    def whole(self, keys: Iterable[Key]) -> list[str]:
        """The partitions in which all of these cells have numbers, but for those that have none in any partition of
        their block."""
        held: dict[str, list[set[str]]] = defaultdict(list)
        for key in keys:
            if places := {partition for partition, _ in self._places(key)}:
                held[key[0]].append(places)
        shared = {partition for of in held.values() for partition in set.intersection(*of)}
        return [partition for partition in self.partitions if partition in shared]

    def table(self, keys: Collection[Key], partitions: Sequence[str]) -> Table:
        """These cells, over these partitions. Beside the server alone, whose draws are those of all partitions, a
        number is the mean over the partitions."""
        by_seed = any(rule == SERVER for _, rule, _ in keys)
        shown = tuple(Column(label, self.value) for label in self.columns)
        cells = {key: _cell([self.accuracies[key[1], attack] for attack in self.columns[key[2]]],
                            [partition for partition in partitions if _block(partition) == key[0]], by_seed)
                 for key in keys}  # fmt: skip
        return Table(self.title, "rule", (_IID, _SKEWED), tuple(self.rules), shown, cells)

    def named(self, blocks: Collection[str], partitions: Sequence[str]) -> str:
        """The partitions if they are some, but not all of those of these blocks."""
        every = [partition for partition in self.partitions if _block(partition) in blocks]
        return f"in {listed(partitions)}" if partitions and partitions != every else ""

    def _places(self, key: Key) -> set[Place]:
        block, rule, column = key
        shared = set.intersection(*(set(self.accuracies[rule, attack]) for attack in self.columns[column]))
        return {(partition, seed) for partition, seed in shared if _block(partition) == block}


def _block(partition: str) -> str:
    return _IID if partition == _IID else _SKEWED


def _accuracies(arena: Arena) -> dict[int, Accuracies]:
    """The accuracies by number of attackers."""
    claimed = f"{arena.track.experiment}_claims"
    others = compose.swept([f"+experiment={claimed}"])["attack"] if options.exists("experiment", claimed) else ()
    runs, found = [*arena.runs, *arena.under(*others)], dict[int, Accuracies]()
    for number in arena.settled:
        of: dict[tuple[str, str], dict[Place, float]] = defaultdict(dict)
        for run in settle(runs, number):
            if run.state != "infeasible":
                of[run.rule, run.attack][run.partition, run.seed] = run.accuracy
        found[number] = of
    return found


def _tested(
    arena: Arena, known: Mapping[int, Accuracies], paper: Mapping[str, Any], several: bool
) -> dict[str, _Tested]:
    """The accuracies that a paper's claims are about by the name of their table, for each number of attackers of an
    arena; with the track's name if there are ``several``."""
    name = arena.track.name
    return {f"{name}/{f'{name}, ' if several else ''}{number} attackers": _of(arena, number, of, paper)
            for number, of in known.items()}  # fmt: skip


def _of(arena: Arena, number: int, known: Accuracies, paper: Mapping[str, Any]) -> _Tested:
    """The accuracies of the rules of a paper, in each partition and seed; attacks that the track lacks have none. The
    server alone has its own draws in every partition, if the track has them."""
    track, value = arena.track, describe("final_accuracy", arena.table)
    attacks = [attack for attack in track.swept["attack"] if attack != NONE]
    every = dict.fromkeys([NONE, *attacks, *paper["attacks"]])
    columns = {**{attack: [attack] for attack in every}, _OWN: paper["attacks"], _ANY: attacks}
    row = arena.row(number)
    partitions = [panel.partition for panel in row]
    alone = {(partition, run.seed): run.accuracy for run in arena.alone for partition in partitions}
    found = {(rule, attack): alone if alone and rule == SERVER else known.get((rule, attack), {})
             for rule in paper["rules"] for attack in every}  # fmt: skip
    accuracies = {cell: {place: value.factor * accuracy for place, accuracy in of.items()}
                  for cell, of in found.items()}  # fmt: skip
    under = {label: attacks for label, attacks in columns.items() if attacks}
    level = max(panel.level for panel in row)
    return _Tested(track.title(number), value, paper["rules"], under, partitions, accuracies, level)


def _todos(arena: Arena, known: Mapping[int, Accuracies], paper: Mapping[str, Any]) -> Iterator[Todo]:
    """The commands of the cells that a paper's claims lack in a track with an experiment for its attacks."""
    track = arena.track
    if not options.exists("experiment", theirs := f"{track.experiment}_claims"):
        return
    run_here = compose.swept([f"+experiment={theirs}"])["attack"]
    for number, accuracies in known.items():
        of = _of(arena, number, accuracies, paper)
        table, partitions = of.table(of.keys, of.partitions), of.partitions
        place = f"num_byzantine={number} partition={','.join(partitions)}"
        for experiment, column, ending in (
            (track.experiment, _ANY, ""),
            (theirs, _OWN, f" attack={','.join(attack for attack in paper['attacks'] if attack in run_here)}"),
        ):
            shown = _IID if partitions == [_IID] else _SKEWED
            lacking = [rule for rule in paper["rules"] if (cell := table.cells.get((shown, rule, column)))
                       and not cell.seeds and not (rule == SERVER and track.draws)]  # fmt: skip
            if lacking:
                rules = f"aggregator={','.join(lacking)}"
                yield Todo("missing", f"{paper['title']}, {number} attackers, {column}",
                           f"robustfl-bench -m +experiment={experiment} {place} {rules}{ending}")  # fmt: skip


def _cell(under: Sequence[Mapping[Place, float]], partitions: Sequence[str], by_seed: bool) -> Cell:
    """The least accuracy under the attacks in each partition and seed, of the seeds that have all of them, or its mean
    over the partitions ``by_seed``."""
    places = set.intersection(*map(set, under)) if partitions else set()
    seeds = sorted({seed for _, seed in places if all((partition, seed) in places for partition in partitions)})
    numbers = {f"{partition} {seed}": min(accuracies[partition, seed] for accuracies in under)
               for partition in partitions for seed in seeds}  # fmt: skip
    if not numbers:
        return Cell(state="missing")
    if by_seed:
        numbers = {seed: fmean(numbers[f"{partition} {seed}"] for partition in partitions) for seed in seeds}
    return Cell(fmean(numbers.values()), seeds=len(numbers), numbers=numbers)


def _verdicts(paper: Mapping[str, Any], tested: Mapping[str, _Tested]) -> list[Verdict]:
    return [
        _verdict(claim, of)
        for label, entry in paper["claims"].items()
        for full, of in tested.items()
        for claim in about(label, entry["claim"], entry["place"], (entry["holds"],), full, of.keys, str(FILE))
    ]


def _verdict(claim: Claim, of: _Tested) -> Verdict:
    """The verdict on a claim in the partitions in which its comparisons are whole; named if these are not all."""
    keys = dict.fromkeys(key for comparison in claim.comparisons for side in (comparison.left, comparison.right)
                         for key in side.keys)  # fmt: skip
    partitions = of.whole(keys)
    found = judge(claim, of.table(keys, partitions), level=of.level)
    named = of.named({key[0] for key in keys}, partitions) if found.findings else ""
    return replace(found, claim=replace(claim, block=" ".join(filter(None, (claim.block, named)))))


def _claims(paper: Mapping[str, Any], measured: MeasuredPaper) -> Sheet:
    sheet = claim_sheets.claims(measured, "pairs")
    return replace(sheet, above=[*sheet.above, f"the paper: {paper['paper']}", f"here: {paper['here']}"])


def _numbers(paper: Mapping[str, Any], tested: Mapping[str, _Tested]) -> Sheet:
    """The means of the rules: without attack, and in the worst cases, where all of these were run."""
    labels = [label for label in (NONE, _OWN, _ANY) if label != _OWN or paper["attacks"]]
    tables, remarks = [], []
    for name, of in tested.items():
        keys = [key for key in of.keys if key[2] in labels]
        partitions = of.whole(keys)
        tables.append((number := name.partition("/")[2], of.table(keys, partitions)))
        remarks += [f"{number}: {words}" for words in [of.named((_IID, _SKEWED), partitions)] if words]
    shown = [(number, table, table.column(label)) for number, table in tables for label in labels]
    records = list[Any]()
    for block in (_IID, _SKEWED):
        records.append(block)
        for rule in paper["rules"]:
            cells = ((table.cell(rule, column.label, block), column.value.digits) for _, table, column in shown)
            records.append({"rule": rule, "numbers": [f"{cell.mean:.{digits}f}" if cell.seeds else "-"
                                                      for cell, digits in cells]})  # fmt: skip
    return tabled("tables.claims_numbers", records, paper=paper, track=next(iter(tested)).partition("/")[0],
                  remarks=remarks, shown=shown)  # fmt: skip


def _remarks(arena: Arena, papers: Iterable[Mapping[str, Any]]) -> list[str]:
    """Which of the rules have runs at rates that validation did not choose, and where the runs come from."""
    claimed = {rule for paper in papers for rule in paper["rules"]}
    rules = sorted({run.rule for run in arena.runs if run.rule in claimed and not run.validated})
    untuned = f"without {arena.track.experiment}_rates, at all rates that were run: {', '.join(rules)}"
    setting = said("tables.claims_setting", arena=arena, track=arena.track, config=arena.track.config)
    return [setting, *[untuned] * bool(rules), *origins(arena.table.iloc[[run.row for run in arena.runs]])]
