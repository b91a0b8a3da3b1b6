"""Verbs of ``robustfl-results`` on runs themselves: their states, how many of each table exist, their export,
and their publication."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from robustfl_bench.base.console import as_json, printable
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.commands.docs import guides
from robustfl_bench.commands.results.shared import Conditions
from robustfl_bench.commands.source import ResultsFolder, RunSource
from robustfl_bench.commands.verb import Argument, JsonFormat
from robustfl_bench.read.pages.figures import inventory
from robustfl_bench.read.runs import archive, croissant, records
from robustfl_bench.read.runs.origins import other_code
from robustfl_bench.read.runs.records import STATES
from robustfl_bench.read.runs.where import check_name
from robustfl_bench.read.runs.where import where as chosen
from robustfl_bench.read.tables import described

_Run = Mapping[Hashable, Any]


def status(
    *,
    all: Annotated[bool, Argument("list every run, the finished ones too")] = False,
    format: JsonFormat = "text",
    results_dir: ResultsFolder = None,
) -> None:
    """The number of runs in each state, and the errors."""
    source = RunSource(results_dir=results_dir)
    runs = source.load()
    counts = {state: count for state in STATES if (count := int((runs["state"] == state).sum()))}
    if format == "json":
        listed = runs if all else runs[runs["state"] != "finished"]
        print(
            as_json(
                {
                    "folder": source.folder,
                    "counts": counts,
                    "runs": list(map(_entry, listed.to_dict("records"))),
                }
            ),
            end="",
        )
        return
    print(f"{len(runs)} runs in {source.folder}: {', '.join(f'{n} {state}' for state, n in counts.items())}")
    lines = []
    for state in STATES:
        if state == "finished" and not all:
            continue
        shown = runs[runs["state"] == state].to_dict("records")
        for group in [[run] for run in shown] if all else _alike(shown):
            more = f" and {len(group) - 1} more" if len(group) > 1 else ""
            lines.append((state, f"{group[0]['run']}{more}", _result(group[0])))
    width = max((len(name) for _, name, _ in lines), default=0)
    for state, name, result in lines:
        print(printable(f"{state:<10}  {name:<{width}}  {result}".rstrip()))


def _entry(run: _Run) -> dict[str, Any]:
    """A run for a program; ``error`` is null unless the run has one."""
    numbers = {name: run.get(name) for name in ("final_accuracy", "test_loss", "rounds_done", "rounds")}
    return {"run": run["run"], "folder": run["folder"], "state": run["state"], **numbers, "error": run["error"] or None}


def _alike(runs: Sequence[_Run]) -> list[list[_Run]]:
    """The runs of a state; those that failed for the same reason are one group."""
    groups: dict[object, list[_Run]] = {}
    for run in runs:
        groups.setdefault(_result(run) if run["state"] == "failed" else run["folder"], []).append(run)
    return list(groups.values())


def _result(run: _Run) -> str:
    """The result of a run, how far it came, or its error."""
    if run["state"] == "finished":
        if math.isnan(run["final_accuracy"]):  # regression: numbers were predicted, not classes
            return f"test loss {run['test_loss']:.4g}"
        return f"accuracy {100 * run['final_accuracy']:.1f}%"
    if run["state"] in ("running", "unfinished"):
        return f"{records.text(run['rounds_done'])}/{records.text(run['rounds'])} rounds"
    return str(run["error"])


def list_(
    name: Annotated[
        str | None,
        Argument(
            "list only names that begin with NAME, with their commands; example: boba/fig",
            "NAME",
            tab=lambda **_: [*described.tables(), *described.figures()],
        ),
    ] = None,
    *,
    format: JsonFormat = "text",
    runs: RunSource,
) -> None:
    """The papers' tables and figures, and how much of each is measured."""
    entries = list(inventory(runs.load_any(), name or ""))
    if not entries:
        check_name(name or "", [*described.tables(), *described.figures()], "table or figure")
    if format == "json":
        print(as_json(list(map(asdict, entries))), end="")
        return
    lines = [["name", "runs done", "cells inside", "compared", "stand-ins", "all", "title"]]
    for entry in entries:
        numbers_of_cells = (entry.inside, entry.compared, entry.stand_ins, entry.cells)
        counts = ["-"] * 4 if entry.cells is None else list(map(str, numbers_of_cells))
        lines.append([entry.name, f"{entry.done}/{entry.runs}", *counts, entry.title])
    *widths, _ = (max(map(len, column)) for column in zip(*lines, strict=True))
    for number, (entry_name, *cells, title) in enumerate(lines):
        numbers = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        print("  ".join([entry_name.ljust(widths[0]), *numbers, title]))
        for command in entries[number - 1].commands if name and number else ():
            print(f"    {command}")


def export(
    *,
    output: Annotated[
        str | None,
        Argument("write a line for each evaluated round of each run", "FILE.csv", either="lines of a file"),
    ],
    summary: Annotated[
        str | None,
        Argument("write a line for each finished run; --from reads this file", "FILE.csv", either="lines of a file"),
    ],
    where: Conditions = (),
    runs: RunSource,
) -> None:
    """Runs with their settings as one CSV: a line per round or per run."""
    option, path = ("--output", output) if output else ("--summary", str(summary))
    endings = (".csv",) if output else (".csv", ".csv.gz")
    if not path.endswith(endings):
        raise ConfigError(f"{option} must end in {' or '.join(endings)}, got {path!r}")
    if output and runs.archives:
        raise ConfigError("--from holds no rounds; with --output, name a folder with --results-dir")
    table = chosen(runs.load(), where)
    if output:
        print(f"{path}: {archive.write_rounds(table, path)} rows")
        return
    print(f"{path}: {archive.write(table, path)} runs")
    if line := other_code(table[table["state"].isin(archive.KEPT)]):
        print(line)


def publish(
    folder: Annotated[str, Argument("the folder to write", "FOLDER")],
    *,
    url: Annotated[str, Argument("the address that the data set will have", "ADDRESS")],
    where: Conditions = (),
    runs: RunSource,
) -> None:
    """The kept runs as Parquet with Croissant metadata, for OpenML, Hugging Face or Zenodo."""
    named = runs.archives or runs.results_dir is not None
    table = runs.load() if named else archive.join([archive.kept(), archive.kept(arena=True)])
    table = chosen(table, where)
    count = croissant.publish(table, Path(folder), url, guides()["citation"].read_text(encoding="utf-8"))
    print(f"{folder}: {count} runs in {croissant.RUNS}, described in {croissant.METADATA}")
