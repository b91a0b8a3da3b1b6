"""``robustfl-results status``: how many runs are in each state, and the errors of those that failed."""

from __future__ import annotations

import math
import shlex
from argparse import Namespace
from collections.abc import Hashable, Mapping
from typing import Any

from robustfl_bench.base.console import Parser, printable
from robustfl_bench.commands.results import shared
from robustfl_bench.commands.verb import Verb
from robustfl_bench.runs import records
from robustfl_bench.runs.records import STATES
from robustfl_bench.store.folders import UNCOMPOSED


def _add(parser: Parser) -> None:
    parser.add_argument("--all", action="store_true", help="list the finished runs too")
    shared.add_folder(parser)


def _run(arguments: Namespace) -> None:
    runs = shared.load(arguments)
    counts = [f"{count} {state}" for state in STATES if (count := int((runs["state"] == state).sum()))]
    print(f"{len(runs)} runs in {shared.folder_of(arguments)}: {', '.join(counts)}")
    width = max(map(len, runs["run"]))
    for state in STATES:
        if state == "finished" and not arguments.all:
            continue
        for run in runs[runs["state"] == state].to_dict("records"):
            print(printable(f"{state:<10}  {run['run']:<{width}}  {_result(run)}".rstrip()))


def _result(run: Mapping[Hashable, Any]) -> str:
    """The result of a run, how far it came, or its error."""
    if run["state"] == "finished":
        if math.isnan(run["final_accuracy"]):  # regression: numbers were predicted, not classes
            return f"test loss {run['test_loss']:.4g}"
        return f"accuracy {100 * run['final_accuracy']:.1f}%"
    if run["state"] in ("running", "unfinished"):
        return f"{records.text(run['rounds_done'])}/{records.text(run['rounds'])} rounds"
    if run["run"].startswith(f"{UNCOMPOSED}-"):  # the corrected run has another folder
        return f"{run['error']}; when that is mended: rm -r {shlex.quote(run['folder'])}"
    return str(run["error"])


VERB = Verb("status", "the number of runs in each state, and the errors", _add, _run)
