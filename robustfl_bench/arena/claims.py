"""Claims of five papers about their rules, judged by the runs of a track. ``claims.yaml`` has the claims."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from robustfl_bench.arena.panels import Arena
from robustfl_bench.arena.track import NONE, ArenaRun, Track, settle
from robustfl_bench.config import options
from robustfl_bench.runs.origins import origins
from robustfl_bench.runs.values import Value, describe
from robustfl_bench.tables import scorecard
from robustfl_bench.tables.claims import about
from robustfl_bench.tables.scorecard import MeasuredPaper
from robustfl_bench.tables.sheets import Printed, Sheet
from robustfl_bench.tables.table import Cell, Column, Table
from robustfl_bench.tables.verdicts import VERDICTS, Verdict, judge

FILE = Path(__file__).with_suffix(".yaml")
_IID, _SKEWED, _OWN, _ANY = "iid", "skewed", "its attacks", "any attack"

Place = tuple[str, str]
"""A partition and a seed."""

_MEANING = (
    f"{_OWN}, {_ANY}: test accuracy [%] under the one that harms most in each partition and seed, of the paper's or of "
    "all; a model that diverged counts as 0",
    f"{_SKEWED}: all partitions but {_IID}; pairs: partitions and seeds, over which the differences are paired",
)


def sheets(arena: Arena) -> list[Sheet]:
    """For each paper the verdicts on its claims, and the accuracies of the rules that it compares."""
    track, runs, name = arena.track, arena.runs, arena.track.name
    value = describe("final_accuracy", arena.table)
    papers = options.read(FILE, absent=f"no file {FILE}").values()
    scores, pages = [], []
    for paper in papers:
        tables = {f"{name}/{number} attackers": _table(track, number, list(settle(runs, number)), paper, value)
                  for number in track.numbers}  # fmt: skip
        scores.append(MeasuredPaper(name, paper["title"], tables, _verdicts(paper, tables)))
        pages += [_claims(paper, scores[-1]), *scorecard.against(scores[-1]), _numbers(paper, tables)]
    pages[-1] = replace(pages[-1], footnotes=(*_MEANING, *scorecard.MEANING[:2]))
    remarks = [*_untuned(track, runs, papers), *origins(arena.table.iloc[[run.row for run in runs]])]
    return [_overview(name, scores, remarks), *pages]


def _overview(name: str, scores: Sequence[MeasuredPaper], remarks: Sequence[str]) -> Sheet:
    """The number of claims of each paper by verdict."""
    counts = {paper.title: Counter(verdict.word for verdict in paper.verdicts) for paper in scores}
    return Sheet(
        above=[
            f"Arena {name}: what five papers say of their rules, each claim with each number of attackers",
            *remarks,
        ],
        heading=["paper", *VERDICTS],
        rows=[[Printed(title), *(Printed(str(words[word])) for word in VERDICTS)] for title, words in counts.items()],
    )


def _table(track: Track, number: int, runs: Sequence[ArenaRun], paper: Mapping[str, Any], value: Value) -> Table:
    """The accuracies of the rules of a paper, in each partition and seed."""
    attacks = [attack for attack in track.swept["attack"] if attack != NONE]
    columns = {NONE: [NONE], **{attack: [attack] for attack in attacks}, _OWN: paper["attacks"], _ANY: attacks}
    blocks = {_IID: [_IID], _SKEWED: [partition for partition in track.swept["partition"] if partition != _IID]}
    accuracies: dict[tuple[str, str], dict[Place, float]] = defaultdict(dict)
    for run in runs:
        if run.state != "infeasible":
            accuracies[run.rule, run.attack][run.partition, run.seed] = value.factor * run.accuracy
    cells = {
        (block, rule, column): _cell([accuracies[rule, attack] for attack in under], partitions)
        for block, partitions in blocks.items()
        for rule in paper["rules"]
        for column, under in columns.items()
        if under
    }
    shown = tuple(Column(label, value) for label, under in columns.items() if under)
    return Table(track.title(number), "rule", tuple(blocks), tuple(paper["rules"]), shown, cells)


def _cell(under: Sequence[Mapping[Place, float]], partitions: Iterable[str]) -> Cell:
    """The least accuracy under the attacks in each partition and seed, of the seeds that have all of them."""
    places = set.intersection(*map(set, under))
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
        above=[f"{paper['title']}: test accuracy in the arena [%]"],
        heading=[
            "rule",
            *(f"{column.label}, {number}{' assumed' * (column.label == NONE)}" for number, _, column in shown),
        ],
        rows=rows,
    )


def _untuned(track: Track, runs: Sequence[ArenaRun], papers: Iterable[Mapping[str, Any]]) -> list[str]:
    """Which of the rules have runs at rates that validation did not choose."""
    claimed = {rule for paper in papers for rule in paper["rules"]}
    rules = sorted({run.rule for run in runs if run.rule in claimed and not run.validated})
    return [f"without {track.experiment}_rates, at all rates that were run: {', '.join(rules)}"] if rules else []
