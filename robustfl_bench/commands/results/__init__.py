"""The command ``robustfl-results``: state of the runs, tables, plots and exports, all read from the run folders.

A verb is a typed function, see ``commands.verb``; ``shared`` has the arguments that several verbs take.
"""

import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec

from robustfl_bench.base.console import answer_tab, say
from robustfl_bench.commands.results.pictures import figure, plot, report
from robustfl_bench.commands.results.runs import export, list_, publish, status
from robustfl_bench.commands.results.tables import diff, table, tune
from robustfl_bench.commands.verb import Action, obeyed, parser_of

PROGRAM = "robustfl-results"

LABORATORY = {"agreement": "results", "arena": "results", "recommend": "recommend"}
"""The verbs of the laboratory, which an installation can lack, and their modules."""

_OF_LABORATORY = [
    getattr(import_module(f"robustfl_bench.commands.lab.{module}"), verb)
    for verb, module in LABORATORY.items()
    if find_spec("robustfl_bench.lab")
]
VERBS: tuple[Action, ...] = (status, list_, table, *_OF_LABORATORY, tune, plot, figure, report, diff, export, publish)


def main(argv: Sequence[str] | None = None) -> int:
    """Console entry point; returns its exit code. Warnings are printed at the end, if the verb succeeds."""
    parser = parser_of(PROGRAM, "Tables and figures from the run folders of robustfl-bench.", VERBS, allow=True)
    answer_tab(parser)
    asked = parser.parse_args(argv)
    with warnings.catch_warnings(record=True) as caught:
        code = obeyed(asked.verb, asked, prefix=PROGRAM)
    if not code:
        for warning in caught:
            say(f"{PROGRAM}: {warning.message}")
    return code
