"""Claims of five papers about their rules, judged by the runs of tracks. ``claims.yaml`` has the claims."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from robustfl_bench.arena.panels import Arena
from robustfl_bench.arena.track import NONE, SERVER, ArenaRun, Track, settle
from robustfl_bench.arena.words import listed
from robustfl_bench.config import compose, options
from robustfl_bench.runs.origins import origins
from robustfl_bench.runs.values import describe
from robustfl_bench.tables import scorecard
from robustfl_bench.tables.claims import about
from robustfl_bench.tables.scorecard import MeasuredPaper
from robustfl_bench.tables.sheets import Printed, Sheet, Todo
from robustfl_bench.tables.table import Cell, Column, Table
from robustfl_bench.tables.verdicts import VERDICTS, Verdict, judge

FILE = Path(__file__).with_suffix(".yaml")
_IID, _SKEWED, _OWN, _ANY = "iid", "skewed", "its attacks", "any attack"

Place = tuple[str, str]
"""A partition and a seed."""

_MEANING = (
    f"{_OWN}, {_ANY}: test accuracy [%] under the one that harms most in each partition and seed, of the paper's or of "
    "all; a model that diverged counts as 0",
    f"{_SKEWED}: all partitions that were run but {_IID}; pairs: partitions and seeds, over which the differences are "
    "paired",
)


def sheets(arenas: Sequence[Arena]) -> list[Sheet]:
    """For each paper the verdicts on its claims in each arena, and the accuracies of the rules that it compares."""
    papers = options.read(FILE, absent=f"no file {FILE}").values()
    scores, pages = [], []
    for paper in papers:
        by_track = {arena.track.name: _tables(arena, paper, len(arenas) > 1) for arena in arenas}
        tables = {name: table for of in by_track.values() for name, table in of.items()}
        scores += [(name, MeasuredPaper(name, paper["title"], of, _verdicts(paper, of)))
                    for name, of in by_track.items()]  # fmt: skip
        of_all = MeasuredPaper("", paper["title"], tables, _verdicts(paper, tables))
        pages += [_claims(paper, of_all), *scorecard.against(of_all)]
        pages += [_numbers(paper, of) for of in by_track.values()]
    todos = [todo for arena in arenas for paper in papers for todo in _todos(arena, paper)]
    pages[-1] = replace(pages[-1], footnotes=(*_MEANING, *scorecard.MEANING[:2]), todos=todos)
    remarks = [remark for arena in arenas for remark in _remarks(arena, papers)]
    return [_overview(scores, remarks), *pages]


def _overview(scores: Sequence[tuple[str, MeasuredPaper]], remarks: Sequence[str]) -> Sheet:
    """The number of claims of each paper by verdict, in each track."""
    counts = [(paper.title, name, Counter(verdict.word for verdict in paper.verdicts)) for name, paper in scores]
    names = dict.fromkeys(name for name, _ in scores)
    return Sheet(
        above=[
            f"Arena {' and '.join(names)}: what five papers say of their rules, each claim with each number of "
            "attackers",
            *remarks,
        ],
        heading=["paper", "track", *VERDICTS],
        rows=[
            [*map(Printed, (title, name)), *(Printed(str(words[word])) for word in VERDICTS)]
            for title, name, words in counts
        ],
        labels=2,
    )


def _tables(arena: Arena, paper: Mapping[str, Any], named: bool) -> dict[str, Table]:
    """The tables of a paper by their name, for each number of attackers of an arena, ``named`` with its track."""
    name = arena.track.name
    return {f"{name}/{f'{name}, ' if named else ''}{number} attackers": _table(arena, number, paper)
            for number in arena.settled}  # fmt: skip


def _table(arena: Arena, number: int, paper: Mapping[str, Any]) -> Table:
    """The accuracies of the rules of a paper, in each partition and seed; attacks that the track lacks have none. The
    server alone has its own draws in every partition, if the track has them."""
    track, value = arena.track, describe("final_accuracy", arena.table)
    attacks = [attack for attack in track.swept["attack"] if attack != NONE]
    every = dict.fromkeys([NONE, *attacks, *paper["attacks"]])
    columns = {**{attack: [attack] for attack in every}, _OWN: paper["attacks"], _ANY: attacks}
    run_in = [panel.partition for panel in arena.row(number)]
    blocks = {_IID: [_IID], _SKEWED: [partition for partition in run_in if partition != _IID]}
    accuracies: dict[tuple[str, str], dict[Place, float]] = defaultdict(dict)
    for run in settle([*arena.runs, *_under_their_attacks(arena)], number):
        if run.state != "infeasible" and not (arena.alone and run.rule == SERVER):
            accuracies[run.rule, run.attack][run.partition, run.seed] = value.factor * run.accuracy
    for run in arena.alone:
        for attack in every:
            accuracies[SERVER, attack] |= {(partition, run.seed): value.factor * run.accuracy
                                           for partition in track.swept["partition"]}  # fmt: skip
    cells = {
        (block, rule, column): _cell([accuracies[rule, attack] for attack in under], partitions)
        for block, partitions in blocks.items()
        for rule in paper["rules"]
        for column, under in columns.items()
        if under
    }
    shown = tuple(Column(label, value) for label, under in columns.items() if under)
    return Table(track.title(number), "rule", tuple(blocks), tuple(paper["rules"]), shown, cells)


def _todos(arena: Arena, paper: Mapping[str, Any]) -> Iterator[Todo]:
    """The commands of the cells that a paper's claims lack in a track with an experiment for its attacks."""
    track = arena.track
    if not options.exists("experiment", theirs := f"{track.experiment}_claims"):
        return
    known = compose.swept([f"+experiment={theirs}"])["attack"]
    for number in arena.settled:
        table, partitions = _table(arena, number, paper), [panel.partition for panel in arena.row(number)]
        place = f"num_byzantine={number} partition={','.join(partitions)}"
        for experiment, column, ending in (
            (track.experiment, _ANY, ""),
            (theirs, _OWN, f" attack={','.join(attack for attack in paper['attacks'] if attack in known)}"),
        ):
            shown = _IID if partitions == [_IID] else _SKEWED
            lacking = [rule for rule in paper["rules"] if (cell := table.cells.get((shown, rule, column)))
                       and not cell.seeds and not (rule == SERVER and track.draws)]  # fmt: skip
            if lacking:
                rules = f"aggregator={','.join(lacking)}"
                yield Todo("missing", f"{paper['title']}, {number} attackers, {column}",
                           f"robustfl-bench -m +experiment={experiment} {place} {rules}{ending}")  # fmt: skip


def _under_their_attacks(arena: Arena) -> list[ArenaRun]:
    """The runs under attacks of the papers that the track itself lacks."""
    if not options.exists("experiment", f"{arena.track.experiment}_claims"):
        return []
    return Track(f"{arena.track.name}_claims").runs(arena.table)


def _cell(under: Sequence[Mapping[Place, float]], partitions: Sequence[str]) -> Cell:
    """The least accuracy under the attacks in each partition and seed, of the seeds that have all of them."""
    places = set.intersection(*map(set, under)) if partitions else set()
    seeds = sorted({seed for _, seed in places if all((partition, seed) in places for partition in partitions)})
    numbers = {f"{partition} {seed}": min(accuracies[partition, seed] for accuracies in under)
               for partition in partitions for seed in seeds}  # fmt: skip
    if not numbers:
        return Cell(state="missing")
    return Cell(fmean(numbers.values()), seeds=len(numbers), numbers=numbers)


def _verdicts(paper: Mapping[str, Any], tables: Mapping[str, Table]) -> list[Verdict]:
    return [
        judge(claim, table)
        for label, entry in paper["claims"].items()
        for full, table in tables.items()
        for claim in about(label, entry["claim"], entry["place"], (entry["holds"],), full, list(table.cells), str(FILE))
    ]


def _claims(paper: Mapping[str, Any], measured: MeasuredPaper) -> Sheet:
    sheet = scorecard.claims(measured, "pairs")
    return replace(sheet, above=[*sheet.above, f"the paper: {paper['paper']}", f"here: {paper['here']}"])


def _numbers(paper: Mapping[str, Any], tables: Mapping[str, Table]) -> Sheet:
    """The means of the rules: without attack, and in the worst cases."""
    shown = [(name.partition("/")[2], table, column) for name, table in tables.items() for column in table.columns
             if column.label in (NONE, _OWN, _ANY)]  # fmt: skip
    rows = []
    for block in (_IID, _SKEWED):
        rows.append([Printed(block), *[Printed("")] * len(shown)])
        for rule in paper["rules"]:
            cells = ((table.cell(rule, column.label, block), column.value.digits) for _, table, column in shown)
            rows.append([Printed(rule), *(Printed(f"{cell.mean:.{digits}f}" if cell.seeds else "-")
                                          for cell, digits in cells)])  # fmt: skip
    return Sheet(
        above=[f"{paper['title']}: test accuracy in the arena [%], {next(iter(tables)).partition('/')[0]}"],
        heading=[
            "rule",
            *(f"{column.label}, {number}{' assumed' * (column.label == NONE)}" for number, _, column in shown),
        ],
        rows=rows,
    )


def _remarks(arena: Arena, papers: Iterable[Mapping[str, Any]]) -> list[str]:
    """Which of the rules have runs at rates that validation did not choose, and where the runs come from."""
    claimed = {rule for paper in papers for rule in paper["rules"]}
    rules = sorted({run.rule for run in arena.runs if run.rule in claimed and not run.validated})
    untuned = f"without {arena.track.experiment}_rates, at all rates that were run: {', '.join(rules)}"
    return [_setting(arena), *[untuned] * bool(rules), *origins(arena.table.iloc[[run.row for run in arena.runs]])]


def _setting(arena: Arena) -> str:
    """How a track trains, and how much of it was run."""
    config, track = arena.track.config, arena.track
    batch = "whole local sets" if config["batch_size"] is None else f"batches of {config['batch_size']}"
    judged = "the last round" if track.judged == "final_accuracy" else "the last evaluations"
    places = [f"{listed(panel.partition for panel in arena.row(of))} with {of} attackers" for of in arena.settled]
    return f"{track.name}: {batch}, {config['rounds']} rounds, the accuracy of {judged}; run in {'; '.join(places)}"
