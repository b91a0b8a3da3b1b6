"""The command ``robustfl-results``: state of the runs, tables, plots and exports, all read from the run folders.

A module for each verb has its parser and its action; ``shared`` has the arguments that several verbs take.
"""

import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec

from robustfl_bench.base.console import answer_tab, say
from robustfl_bench.commands.results import diff, export, figure, listing, plot, report, status, table, tune
from robustfl_bench.commands.verb import obeyed, parser_of

PROGRAM = "robustfl-results"
FIRST, LAST = (status, listing, table), (tune, plot, figure, report, diff, export)
LABORATORY = ("agreement", "arena", "recommend") if find_spec("robustfl_bench.lab") else ()
"""The verbs of the laboratory, which an installation can lack."""

VERBS = (
    *(module.VERB for module in FIRST),
    *(import_module(f"robustfl_bench.commands.lab.results.{verb}").VERB for verb in LABORATORY),
    *(module.VERB for module in LAST),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Console entry point; returns its exit code. Warnings are printed at the end, if the verb succeeds."""
    parser = parser_of(PROGRAM, "Tables and figures from the run folders of robustfl-bench.", VERBS, allow=True)
    answer_tab(parser)
    arguments = parser.parse_args(argv)
    with warnings.catch_warnings(record=True) as caught:
        code = obeyed(arguments.run, arguments, prefix=PROGRAM)
    if not code:
        for warning in caught:
            say(f"{PROGRAM}: {warning.message}")
    return code
