"""``robustfl-results status``: how many runs are in each state, and the errors of those that failed."""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from robustfl_bench.base.answers import add_format, as_json
from robustfl_bench.base.console import Parser, printable
from robustfl_bench.commands.results import shared
from robustfl_bench.commands.verb import Verb
from robustfl_bench.read.runs import records
from robustfl_bench.read.runs.records import STATES

_Run = Mapping[Hashable, Any]


def _add(parser: Parser) -> None:
    parser.add_argument("--all", action="store_true", help="list every run, the finished ones too")
    add_format(parser)
    shared.add_folder(parser)


def _run(arguments: Namespace) -> None:
    runs = shared.load(arguments)
    counts = {state: count for state in STATES if (count := int((runs["state"] == state).sum()))}
    if arguments.format == "json":
        listed = runs if arguments.all else runs[runs["state"] != "finished"]
        print(
            as_json(
                {
                    "folder": shared.folder_of(arguments),
                    "counts": counts,
                    "runs": list(map(_entry, listed.to_dict("records"))),
                }
            ),
            end="",
        )
        return
    print(
        f"{len(runs)} runs in {shared.folder_of(arguments)}: {', '.join(f'{n} {state}' for state, n in counts.items())}"
    )
    lines = []
    for state in STATES:
        if state == "finished" and not arguments.all:
            continue
        shown = runs[runs["state"] == state].to_dict("records")
        for group in [[run] for run in shown] if arguments.all else _alike(shown):
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


VERB = Verb("status", "the number of runs in each state, and the errors", _add, _run)
