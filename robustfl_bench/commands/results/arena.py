"""``robustfl-results arena``: every rule under every attack in one protocol, as tables, claims or pictures."""

from argparse import Namespace

from robustfl_bench.arena import claims, page, picture
from robustfl_bench.arena.track import tracks
from robustfl_bench.base.console import Parser, completed
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.commands.results import shared
from robustfl_bench.commands.verb import Verb
from robustfl_bench.pages.pictures.canvas import save
from robustfl_bench.tables import sheets


def _add(parser: Parser) -> None:
    track = parser.add_argument("track", nargs="?", default="digits", help="the track of the arena (%(default)s)")
    completed(track, lambda **_: tracks())
    parser.add_argument("--format", choices=sheets.FORMATS, default="text")
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="PACKAGE",
        help="a package whose rules may be imported and tested; repeatable",
    )
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--claims", action="store_true", help="show verdicts on the claims of the five papers instead")
    shown.add_argument("--plot", metavar="FILE", help="draw all rules with and without attack instead")
    shown.add_argument("--heat", metavar="FILE", help="draw a heat map of every rule under every attack instead")
    parser.add_argument("--attackers", type=int, metavar="N", help="for --heat: the number of attackers (the fewest)")
    shared.add_runs(parser)


def _run(arguments: Namespace) -> None:
    if arguments.attackers is not None and arguments.heat is None:
        raise ConfigError("--attackers needs --heat; all else shows every number of them")
    runs, track = shared.load_any(arguments, of_arena=True), arguments.track
    if arguments.plot is not None:
        print(save(picture.standing(runs, track), arguments.plot, "--plot"))
    elif arguments.heat is not None:
        print(save(picture.attacks(runs, track, arguments.attackers), arguments.heat, "--heat"))
    else:
        pages = claims.sheets(runs, track) if arguments.claims else page.sheets(runs, track, arguments.allow)
        print(sheets.FORMATS[arguments.format](pages), end="")


VERB = Verb("arena", "every rule under every attack, under one protocol", _add, _run)
