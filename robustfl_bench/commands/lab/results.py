"""The verbs of ``robustfl-results`` that the laboratory brings: how well papers are reproduced, the arena as tables,
claims, views or pictures, and which rule to use by its runs."""

from collections.abc import Sequence
from typing import Annotated

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.commands.lab.recommend import Book
from robustfl_bench.commands.shared import PictureLook, RunSource, SheetFormat
from robustfl_bench.commands.verb import Argument, override
from robustfl_bench.lab.agreement import scorecard
from robustfl_bench.lab.arena import page
from robustfl_bench.lab.arena.answers import claims as verdicts
from robustfl_bench.lab.arena.answers import entries as submissions
from robustfl_bench.lab.arena.decision import TRACKS
from robustfl_bench.lab.arena.panels import Arena
from robustfl_bench.lab.arena.track import Track, tracks
from robustfl_bench.lab.arena.tuned import BOOKS
from robustfl_bench.lab.arena.views import VIEWS
from robustfl_bench.read.pages.pictures.canvas import check_format, save
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.read.tables import described, sheets


def agreement(
    paper: Annotated[
        str | None,
        Argument(
            "a paper, such as boba, or a file FILE.yaml (all papers)", "PAPER", tab=lambda **_: described.papers()
        ),
    ] = None,
    overrides: Annotated[Sequence[str], override("override of every cell of its tables, such as scale=quick")] = (),
    *,
    format: SheetFormat = "text",
    runs: RunSource,
) -> None:
    """How well papers are reproduced, and verdicts on their claims."""
    if paper is not None and "=" in paper:
        raise ConfigError(f"{paper} needs a paper's name before it, such as agreement boba {paper}")
    print(sheets.FORMATS[format](scorecard.pages_of(runs.load_any(), paper, overrides)), end="")


def arena(
    track: Annotated[str, Argument("the track of the arena (%(default)s)", tab=lambda **_: tracks())] = TRACKS[0],
    *,
    format: SheetFormat = "text",
    book: Book = "plain",
    claims: Annotated[bool, Argument("show verdicts on the claims of papers instead", either="shown")] = False,
    view: Annotated[
        str | None,
        Argument(
            "answer another question instead: " + "; ".join(f"{view.name}: {view.question}" for view in VIEWS.values()),
            "NAME",
            choices=tuple(VIEWS),
            either="shown",
        ),
    ] = None,
    entries: Annotated[
        str | None,
        Argument("show the entries of a folder instead, by their lowest known score", "FOLDER", either="shown"),
    ] = None,
    heat: Annotated[
        str | None, Argument("draw a heat map of every rule under every attack instead", "FILE", either="shown")
    ] = None,
    best: Annotated[
        str | None,
        Argument("draw the best rules of every panel, with and without server data, instead", "FILE", either="shown"),
    ] = None,
    plot: Annotated[str | None, Argument("draw all rules in all partitions, or the view, instead", "FILE")] = None,
    attackers: Annotated[int | None, Argument("for pictures: the number of attackers (the fewest)", "N")] = None,
    look: PictureLook,
    runs: RunSource,
) -> None:
    """Every rule under every attack, under one protocol."""
    if attackers is not None and (view or not (heat or plot)):
        raise ConfigError("--attackers needs --heat or --plot without --view; all else shows every number of them")
    if plot is not None and (claims or heat or best or entries):
        raise ConfigError("--plot draws the scores or a --view; leave out --claims, --heat, --best and --entries")
    of_picture = [name for name in ("width", "title", "bare", "labels") if getattr(look, name)]
    if of_picture and not (plot or heat or best):
        raise ConfigError(f"--{of_picture[0]} needs --plot, --heat or --best; tables have none")
    rules = BOOKS[book]
    if rules is not Track and (claims or view):
        raise ConfigError(f"--book {book} goes with scores, --entries and pictures; leave out --claims and "
                          "--view (--view books shows both books)")  # fmt: skip
    if entries is not None:
        try:
            entered = Arena(submissions.load(entries, runs.unsealed), track, rules)
        except NoRuns:
            command = f"robustfl-bench arena enter RULE --protocol {track} --output {entries}"
            raise NoRuns(f"no entry in {entries} is of the track {track}; {command} writes one") from None
        print(sheets.FORMATS[format]([submissions.sheet(entered)]), end="")
        return
    for option, picture in (("--plot", plot), ("--best", best), ("--heat", heat)):
        if picture is not None:
            check_format(picture, option)
    frame, answer = look.frame, VIEWS.get(view or "")
    whole = Arena(runs.load_any(of_arena=True), track, rules)
    if plot is not None:
        drawn = answer.picture(whole, frame) if answer else page.standing(whole, attackers, frame)
        print(save(drawn, plot, "--plot"))
    elif best is not None:
        print(save(page.answer(whole, frame), best, "--best"))
    elif heat is not None:
        print(save(page.attacks(whole, attackers, frame), heat, "--heat"))
    else:
        pages = verdicts.sheets([whole]) if claims else answer.sheets(whole) if answer else page.sheets(whole)
        print(sheets.FORMATS[format](pages), end="")
