"""``robustfl-results diff``: what differs between two runs, or between a run and a command."""

from argparse import Namespace

from robustfl_bench.base.console import Parser, completed
from robustfl_bench.commands.verb import Verb
from robustfl_bench.read.tables import diff, sheets
from robustfl_bench.runner.config.completion import overrides


def _add(parser: Parser) -> None:
    parser.add_argument("first", metavar="RUN", help="a run folder")
    second = parser.add_argument(
        "second", metavar="RUN|OVERRIDE", nargs="+", help="another run folder, or overrides of robustfl-bench"
    )
    completed(second, overrides)
    parser.add_argument("--format", choices=sheets.FORMATS, default="text")


def _run(arguments: Namespace) -> None:
    words = arguments.second
    second = diff.of_folder(words[0]) if len(words) == 1 and "=" not in words[0] else diff.of_command(words)
    print(sheets.FORMATS[arguments.format]([diff.compare(diff.of_folder(arguments.first), second)]), end="")


VERB = Verb("diff", "what differs between two runs, or between a run and a command", _add, _run)
