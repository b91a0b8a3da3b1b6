"""``robustfl-results tune``: each method's value of a swept setting, chosen by validation."""

from argparse import Namespace

from robustfl_bench.base.console import Parser
from robustfl_bench.commands.results import shared
from robustfl_bench.commands.verb import Verb
from robustfl_bench.read.tables import sheets
from robustfl_bench.read.tables.tune import tuned


def _add(parser: Parser) -> None:
    parser.add_argument("--over", required=True, metavar="KEY", help="the swept setting, such as lr")
    parser.add_argument("--format", choices=sheets.FORMATS, default="text")
    shared.add_conditions(parser)
    shared.add_runs(parser)


def _run(arguments: Namespace) -> None:
    sheet = tuned(shared.load(arguments), arguments.over, arguments.where)
    print(sheets.FORMATS[arguments.format]([sheet]), end="")


VERB = Verb("tune", "each method's value of a swept setting, chosen by validation", _add, _run)
