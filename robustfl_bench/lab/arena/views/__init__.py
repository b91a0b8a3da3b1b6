"""What an arena's runs answer beyond their scores: each view has its table, picture and sentence.

``attacks``    which attacks to try first, and what attackers who plan add to the list
``rounds``     how far runs fall behind their best round, and which rules need more seeds
``clients``    how well rules tell attackers from honest clients, and which classes an attack harms
``needs``      robustness against cost and needs, and kappa, searched without training, against the worst case
``numbers``    at which share of attackers a rule collapses, and the price of a wrong f
``books``      the rules as they come against the rules tuned
``targeted``   how often attackers with a goal reach it
``tracks``     whether other tracks have the same order of rules
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from robustfl_bench.lab.arena.page import leading
from robustfl_bench.lab.arena.panels import Arena
from robustfl_bench.lab.arena.views import attacks, books, clients, needs, numbers, rounds, targeted, tracks
from robustfl_bench.read.pages.pictures.canvas import Figure, Frame
from robustfl_bench.read.tables.sheets import Sheet


@dataclass(frozen=True)
class ArenaView:
    """A question, and what answers it. The first line above the first sheet is its title, the second its answer in a
    sentence. Both functions raise NoRuns if the runs cannot answer."""

    name: str
    question: str
    sheets: Callable[[Arena], list[Sheet]]
    picture: Callable[[Arena, Frame], Figure]


def _leading(arena: Arena, frame: Frame) -> Figure:
    return leading(arena, frame=frame)


_VIEWS = (
    ArenaView("attacks", "which attacks to try first", attacks.sheets_of_attacks, attacks.picture_of_attacks),
    ArenaView(
        "detection",
        "how well rules tell attackers from honest clients",
        clients.sheets_of_detection,
        clients.picture_of_detection,
    ),
    ArenaView(
        "stability",
        "how far runs fall behind their best round",
        rounds.sheets_of_stability,
        rounds.picture_of_stability,
    ),
    ArenaView("classes", "which classes an attack harms", clients.sheets_of_classes, clients.picture_of_classes),
    ArenaView("pareto", "robustness against cost and needs", needs.sheets_of_pareto, needs.picture_of_pareto),
    ArenaView(
        "collapse",
        "at which share of attackers a rule collapses",
        numbers.sheets_of_collapse,
        numbers.picture_of_collapse,
    ),
    ArenaView("declared", "the price of a wrong f", numbers.sheets_of_declared, numbers.picture_of_declared),
    ArenaView("books", "the rules as they come against the rules tuned", books.sheets_of_books, books.picture_of_books),
    ArenaView(
        "kappa",
        "kappa, searched without training, against the worst case",
        needs.sheets_of_kappa,
        needs.picture_of_kappa,
    ),
    ArenaView("race", "which rules need more seeds, and the commands that run them", rounds.sheets_of_race, _leading),
    ArenaView(
        "searched",
        "what attackers who search for a rule's weakness add to the list",
        attacks.sheets_of_searches,
        _leading,
    ),
    ArenaView(
        "targeted",
        "how often attackers with a goal reach it",
        targeted.sheets_of_targeted,
        targeted.picture_of_targeted,
    ),
    ArenaView(
        "tracks", "whether other tracks have the same order of rules", tracks.sheets_of_tracks, tracks.picture_of_tracks
    ),
)
VIEWS = {view.name: view for view in _VIEWS}
"""The views by name."""
