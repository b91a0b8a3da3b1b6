"""``robustfl-results recommend``: which rule to use, by the runs of an arena."""

from argparse import Namespace

from robustfl_bench.base.console import Parser, completed
from robustfl_bench.commands.lab.results import add_book
from robustfl_bench.commands.results import shared
from robustfl_bench.commands.verb import Verb
from robustfl_bench.lab.arena.panels import Arena
from robustfl_bench.lab.arena.recommend import TRACKS, as_json, newest, recommend, sheet
from robustfl_bench.lab.arena.track import tracks
from robustfl_bench.lab.arena.tuned import BOOKS
from robustfl_bench.read.tables import sheets


def _add(parser: Parser) -> None:
    parser.add_argument("--partition", required=True, metavar="NAME", help="how data lie at the clients: dirichlet")
    parser.add_argument(
        "--attackers", required=True, metavar="SHARE", help="share of the clients, or their number: 0.2"
    )
    parser.add_argument(
        "--server-data", choices=("yes", "no"), default="no", help="whether the server has samples (%(default)s)"
    )
    track = parser.add_argument(
        "--track", "--arena", metavar="TRACK",
        help=f"the arena's track (the first of {', '.join(TRACKS)} that has the panel)",
    )  # fmt: skip
    completed(track, lambda **_: tracks())
    parser.add_argument("--format", choices=(*sheets.FORMATS, "md"), default="text")
    add_book(parser)
    shared.add_runs(parser)


def _run(arguments: Namespace) -> None:
    reads, book = arguments.server_data == "yes", BOOKS[arguments.book]

    def arena(track: str) -> Arena:
        runs = shared.load_any(arguments, of_arena=True, folders=(track, f"{track}_{arguments.book}"))
        return Arena(runs, track, book)

    if arguments.track is None:
        found = newest(arena, arguments.partition, arguments.attackers, reads, book)
    else:
        found = recommend(arena(arguments.track), arguments.partition, arguments.attackers, reads)
    if arguments.format == "json":
        print(as_json(found), end="")
    else:
        form = "markdown" if arguments.format == "md" else arguments.format
        print(sheets.FORMATS[form]([sheet(found)]), end="")


VERB = Verb("recommend", "which rule to use against which share of attackers", _add, _run)
