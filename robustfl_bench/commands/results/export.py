"""``robustfl-results export``: runs with their settings as one CSV file, a line for each round or for each run."""

from argparse import Namespace

from robustfl_bench.base.console import Parser
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.commands.results import shared
from robustfl_bench.commands.verb import Verb
from robustfl_bench.read.runs import archive, export
from robustfl_bench.read.runs.origins import other_code
from robustfl_bench.read.runs.where import where


def _add(parser: Parser) -> None:
    output = parser.add_mutually_exclusive_group(required=True)
    output.add_argument("--output", metavar="FILE.csv", help="write a line for each evaluated round of each run")
    output.add_argument(
        "--summary", metavar="FILE.csv", help="write a line for each finished run; --from reads this file"
    )
    shared.add_conditions(parser)
    shared.add_runs(parser)


def _run(arguments: Namespace) -> None:
    option, path = ("--output", arguments.output) if arguments.output else ("--summary", arguments.summary)
    endings = (".csv",) if arguments.output else (".csv", ".csv.gz")
    if not path.endswith(endings):
        raise ConfigError(f"{option} must end in {' or '.join(endings)}, got {path!r}")
    if arguments.output and arguments.archives:
        raise ConfigError("--from holds no rounds; with --output, name a folder with --results-dir")
    runs = where(shared.load(arguments), arguments.where)
    if arguments.summary:
        print(f"{path}: {archive.write(runs, path)} runs")
        if line := other_code(runs[runs["state"].isin(archive.KEPT)]):
            print(line)
        return
    print(f"{path}: {export.write(runs, path)} rows")


VERB = Verb("export", "runs with their settings as one CSV: a line per round or per run", _add, _run)
