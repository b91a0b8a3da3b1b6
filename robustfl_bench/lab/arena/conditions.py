"""Under which conditions the scores of an arena hold, read from its configuration and runs, and what was not tried."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from robustfl_bench.lab.arena.pairs import contenders
from robustfl_bench.lab.arena.words import span
from robustfl_bench.read.tables.sheets import Sheet
from robustfl_bench.runner.config import targets
from robustfl_bench.runner.store.folders import LAST

if TYPE_CHECKING:
    from robustfl_bench.lab.arena.panels import Arena
    from robustfl_bench.parts.datasets.base import Dataset

LOWEST = "the lowest known so far"
"""What a score is: a further attack can lower it, and none can raise it."""

_PLANS = ", and attackers who plan against the best rules"


@dataclass(frozen=True)
class Conditions:
    """What a table at the head of a page must say of its numbers.

    ``accuracy`` says which accuracy counts, ``baseline`` what the numbers are compared with.
    """

    data: str
    model: str
    clients: str
    attackers: str
    attacks: str
    accuracy: str
    baseline: str

    def __post_init__(self) -> None:
        if missing := [name for name, words in asdict(self).items() if not words]:
            raise ValueError(f"a headline table needs its {', '.join(missing)}")

    @property
    def words(self) -> str:
        """The conditions as one caption."""
        return ". ".join(f"{name.capitalize()}: {words}" for name, words in asdict(self).items())


def conditions(arena: Arena) -> Conditions:
    """The conditions of an arena's scores."""
    from robustfl_bench.runner.experiment.networks import num_params  # late: it imports PyTorch

    track, dataset, panels = arena.track, _data(arena), arena.panels.values()
    model = track.config["model"]
    weights = num_params(targets.build(model), dataset)
    seeds = sorted(panel.standings[rule].score.n for panel in panels for rule in contenders(panel))
    rounds = track.config["rounds"]
    first = rounds - (LAST - 1) * track.config["eval_every"]
    judged = f"the mean of the last {LAST} evaluations, of rounds {first} to {rounds}"
    if track.judged == "final_accuracy":
        judged = f"that after the last of {rounds} rounds"
    alone = [f"{panel.server.score.value:.0f}" for panel in panels if panel.server and panel.server.score.n]
    server = f", and a model of the server's {own_samples(arena)} alone {span(min(alone), max(alone))}" if alone else ""
    numbers = " or ".join(map(str, track.numbers))
    return Conditions(
        data=f"{dataset.name}, {' x '.join(map(str, dataset.input_shape[1:] or dataset.input_shape))}",
        model=f"{str(model['_target_']).rpartition('.')[2].upper()} of {weights:,} weights",
        clients=str(track.clients),
        attackers=f"{numbers} of them",
        attacks=f"{len(track.swept['attack']) - 1}{_PLANS * bool(arena.plans)}",
        accuracy=f"on test data, {judged}; seeds: {span(*map(str, (seeds[0], seeds[-1])))}",
        baseline=f"0 is guessing, 100 what the honest clients reach alone{server}",
    )


def conditioned(sheet: Sheet, arena: Arena) -> Sheet:
    """A table of an arena's scores with their conditions."""
    return replace(sheet, footnotes=[conditions(arena).words, *sheet.footnotes])


def check_headline(sheet: Sheet) -> Sheet:
    """The table, if it has all conditions. Raises ValueError for one that may not stand at the head of a page."""
    lines = [
        line for line in sheet.footnotes if all(f"{name.capitalize()}: " in line for name in Conditions.__annotations__)
    ]
    if not lines:
        raise ValueError(
            f"the table {'; '.join(sheet.above[:1]) or ', '.join(sheet.heading)} lacks its conditions: data, model, "
            "clients, attackers, attacks, accuracy and baseline; arena.conditions.conditioned adds them"
        )
    return sheet


def own_samples(arena: Arena) -> str:
    """The server's own samples, in words: "own 20 samples"."""
    return f"own {arena.track.config['server_data']['samples_per_class'] * _data(arena).num_classes} samples"


def _data(arena: Arena) -> Dataset:
    dataset: Dataset = targets.build(arena.track.config["dataset"])
    return dataset


def not_tried(arena: Arena) -> Iterator[str]:
    """What was not tried in an arena, and may lower its scores or change their order."""
    config = arena.track.config
    yield "an attack built for the rule that it meets"
    if not arena.plans:
        yield "attackers who plan"
    yield f"data other than {_data(arena).name}"
    if "Momentum" not in f"{config['local_update']} {config['server_optimizer']}":
        yield "momentum"
    if config["participation"] == 1 and not config["availability"]:
        yield "rounds in which some clients are absent"
