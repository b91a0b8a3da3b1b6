"""What an arena's runs answer beyond their scores: each view has its table, picture and sentence.

``attacks``    which attacks to try first, and what attackers who plan add to the list
``rounds``     how far runs fall behind their best round, and which rules need more seeds
``clients``    how well rules tell attackers from honest clients, and which classes an attack harms
``needs``      robustness against cost and needs, and kappa, searched without training, against the worst case
``numbers``    at which share of attackers a rule collapses, and the price of a wrong f
``books``      the rules as they come against the rules tuned
``tracks``     whether other tracks have the same order of rules
"""

from robustfl_bench.lab.arena.views.attacks import ATTACKS, SEARCHED
from robustfl_bench.lab.arena.views.base import ArenaView
from robustfl_bench.lab.arena.views.books import BOOKS
from robustfl_bench.lab.arena.views.clients import CLASSES, DETECTION
from robustfl_bench.lab.arena.views.needs import KAPPA, PARETO
from robustfl_bench.lab.arena.views.numbers import COLLAPSE, DECLARED
from robustfl_bench.lab.arena.views.rounds import RACE, STABILITY
from robustfl_bench.lab.arena.views.tracks import TRACKS

_VIEWS = (ATTACKS, DETECTION, STABILITY, CLASSES, PARETO, COLLAPSE, DECLARED, BOOKS, KAPPA, RACE, SEARCHED, TRACKS)
VIEWS: dict[str, ArenaView] = {view.name: view for view in _VIEWS}
"""The views by name."""
