"""``robustfl-results arena``: every rule under every attack in one protocol, as tables, claims, views or pictures."""

from argparse import Namespace

from robustfl_bench.base.console import Parser, completed
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.commands.lab.results import add_book
from robustfl_bench.commands.results import shared
from robustfl_bench.commands.verb import Verb
from robustfl_bench.lab.arena import claims, entries, page, picture
from robustfl_bench.lab.arena.panels import Arena
from robustfl_bench.lab.arena.track import Track, tracks
from robustfl_bench.lab.arena.tuned import BOOKS
from robustfl_bench.lab.arena.views import VIEWS
from robustfl_bench.read.pages.pictures.canvas import save
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.read.tables import sheets


def _add(parser: Parser) -> None:
    track = parser.add_argument("track", nargs="?", default="digits", help="the track of the arena (%(default)s)")
    completed(track, lambda **_: tracks())
    parser.add_argument("--format", choices=sheets.FORMATS, default="text")
    add_book(parser)
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--claims", action="store_true", help="show verdicts on the claims of papers instead")
    shown.add_argument(
        "--view", choices=VIEWS, metavar="NAME",
        help="answer another question instead: "
        + "; ".join(f"{view.name}: {view.question}" for view in VIEWS.values()),
    )  # fmt: skip
    shown.add_argument(
        "--entries", metavar="FOLDER", help="show the entries of a folder instead, by their lowest known score"
    )
    shown.add_argument("--heat", metavar="FILE", help="draw a heat map of every rule under every attack instead")
    shown.add_argument(
        "--best", metavar="FILE", help="draw the best rules of every panel, with and without server data, instead"
    )
    parser.add_argument("--plot", metavar="FILE", help="draw all rules in all partitions, or the view, instead")
    parser.add_argument("--attackers", type=int, metavar="N", help="for pictures: the number of attackers (the fewest)")
    shared.add_look(parser)
    shared.add_runs(parser)


def _run(arguments: Namespace) -> None:
    if arguments.attackers is not None and (arguments.view or not (arguments.heat or arguments.plot)):
        raise ConfigError("--attackers needs --heat or --plot without --view; all else shows every number of them")
    if arguments.plot is not None and (arguments.claims or arguments.heat or arguments.best or arguments.entries):
        raise ConfigError("--plot draws the scores or a --view; leave out --claims, --heat, --best and --entries")
    of_picture = [name for name in ("width", "title", "bare", "labels") if getattr(arguments, name)]
    if of_picture and not (arguments.plot or arguments.heat or arguments.best):
        raise ConfigError(f"--{of_picture[0]} needs --plot, --heat or --best; tables have none")
    book = BOOKS[arguments.book]
    if book is not Track and (arguments.claims or arguments.view):
        raise ConfigError(f"--book {arguments.book} goes with scores, --entries and pictures; leave out --claims and "
                          "--view (--view books shows both books)")  # fmt: skip
    if arguments.entries is not None:
        submitted, track = entries.load(arguments.entries, arguments.unsealed), arguments.track
        try:
            arena = Arena(submitted, track, book)
        except NoRuns:
            command = f"robustfl-bench arena enter RULE --protocol {track} --output {arguments.entries}"
            raise NoRuns(f"no entry in {arguments.entries} is of the track {track}; {command} writes one") from None
        print(sheets.FORMATS[arguments.format]([entries.sheet(arena)]), end="")
        return
    runs = shared.load_any(arguments, of_arena=True)
    arena, view = Arena(runs, arguments.track, book), VIEWS.get(arguments.view)
    if arguments.plot is not None:
        frame = shared.frame(arguments)
        drawn = picture.standing(arena, arguments.attackers, frame) if view is None else view.picture(arena, frame)
        print(save(drawn, arguments.plot, "--plot"))
    elif arguments.best is not None:
        print(save(picture.answer(arena, shared.frame(arguments)), arguments.best, "--best"))
    elif arguments.heat is not None:
        print(save(picture.attacks(arena, arguments.attackers, shared.frame(arguments)), arguments.heat, "--heat"))
    else:
        pages = (
            claims.sheets([arena]) if arguments.claims
            else page.sheets(arena) if view is None
            else view.sheets(arena)
        )  # fmt: skip
        print(sheets.FORMATS[arguments.format](pages), end="")


VERB = Verb("arena", "every rule under every attack, under one protocol", _add, _run)
