"""``robustfl-results agreement``: how well papers are reproduced, and verdicts on their claims."""

from argparse import Namespace

from robustfl_bench.base.console import Parser, completed
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.commands.results import shared
from robustfl_bench.commands.verb import Verb
from robustfl_bench.lab.agreement import scorecard
from robustfl_bench.read.tables import described, sheets
from robustfl_bench.runner.config.completion import overrides


def _add(parser: Parser) -> None:
    paper = parser.add_argument(
        "paper", nargs="?", metavar="PAPER", help="a paper, such as boba, or a file FILE.yaml (all papers)"
    )
    completed(paper, lambda **_: described.papers())
    changes = parser.add_argument(
        "overrides", nargs="*", metavar="OVERRIDE", help="override of every cell of its tables, such as scale=quick"
    )
    completed(changes, overrides)
    parser.add_argument("--format", choices=sheets.FORMATS, default="text")
    shared.add_runs(parser)


def _run(arguments: Namespace) -> None:
    paper, changes = arguments.paper, arguments.overrides
    if paper is not None and "=" in paper:
        raise ConfigError(f"{paper} needs a paper's name before it, such as agreement boba {paper}")
    pages = scorecard.pages_of(shared.load_any(arguments), paper, changes)
    print(sheets.FORMATS[arguments.format](pages), end="")


VERB = Verb("agreement", "how well papers are reproduced, and verdicts on their claims", _add, _run)
