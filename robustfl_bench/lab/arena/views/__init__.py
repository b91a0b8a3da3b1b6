"""What an arena's runs answer beyond their scores: a module for each view, with its table, picture and sentence.

``attacks``    which attacks to try first
``detection``  how well rules tell attackers from honest clients
``stability``  how far runs fall behind their best round
``classes``    which classes an attack harms
``pareto``     robustness against cost and needs
``collapse``   at which share of attackers a rule collapses
``declared``   the price of a wrong f
``books``      the rules as they come against the rules tuned
``race``       which rules need more seeds
``planned``    what attackers who plan add to the list
``kappa``      kappa, searched without training, against the worst case
"""

from robustfl_bench.lab.arena.views import (
    attacks,
    books,
    classes,
    collapse,
    declared,
    detection,
    kappa,
    pareto,
    planned,
    race,
    stability,
)
from robustfl_bench.lab.arena.views.base import ArenaView

VIEWS: dict[str, ArenaView] = {
    module.VIEW.name: module.VIEW
    for module in (attacks, detection, stability, classes, pareto, collapse, declared, books, kappa, race, planned)
}
"""The views by name."""
