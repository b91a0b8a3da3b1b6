"""The attacks of the field against slow references; attacks that pause, and attackers who know only their own data."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from robustfl_bench.attacks.ipm import InnerProductManipulation
from robustfl_bench.attacks.label_flip import LabelFlip
from robustfl_bench.attacks.non_finite import NonFinite
from robustfl_bench.attacks.scheduled import Scheduled
from robustfl_bench.config import presets
from robustfl_bench.engine.federation import Federation
from robustfl_bench.engine.loop import run
from robustfl_bench.engine.rounds import initial_state, step
from robustfl_bench.experiment.plan import plan
from robustfl_bench.interfaces import Aggregator, Attack, AttackView, ConfigError, ServerView
from robustfl_bench.updates import Aggregate, Updates
from tests.test_attacks import honest_updates, make_view
from tests.test_engine import experiment

ATTACKED = (
    "rounds=3", "batch_size=8", "num_clients=12", "attack=ipm", "num_byzantine=4", "byzantine_placement=replace",
)  # fmt: skip
composed = cache(experiment)


def made(*overrides: str, **parts: Any) -> Federation:
    settings, found, data = composed(*overrides)
    return Federation(settings, replace(found, **parts), data)


@dataclass(frozen=True)
class Recording(Aggregator):
    """The mean; keeps the matrices that it is asked about."""

    asked: list[Tensor]

    def __call__(self, updates: Updates, server: ServerView) -> Aggregate:
        self.asked.append(updates.matrix.clone())
        return Aggregate(updates.matrix.mean(dim=0))


def rows_of(federation: Federation) -> list[Tensor]:
    """The matrix of each round, honest clients first."""
    seen: list[Tensor] = []

    federation.parts = replace(federation.parts, aggregator=Recording(seen))
    for _ in run(federation, initial_state(federation)):
        pass
    return seen


# --- attacks that pause ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "active"),
    [
        ({}, [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ({"first": 4}, [4, 5, 6, 7, 8, 9]),
        ({"first": 3, "last": 3}, [3]),
        ({"first": 2, "burst": 2, "pause": 1}, [2, 3, 5, 6, 8, 9]),
        ({"last": 6, "pause": 3}, [1, 5]),
    ],
)
def test_a_schedule_has_a_first_and_a_last_round_and_pauses(options: dict[str, int], active: list[int]) -> None:
    attack = Scheduled(LabelFlip(), **options)
    assert [round for round in range(1, 10) if attack.active(round)] == active
    assert [round for round in range(1, 10) if Scheduled(attack, first=3).active(round)] == [r for r in active if r > 2]


def test_a_schedule_that_never_begins_is_refused() -> None:
    with pytest.raises(ConfigError, match="last must be null or >= first=5, got 4"):
        Scheduled(LabelFlip(), first=5, last=4)


@pytest.mark.parametrize("inner", [LabelFlip(), InnerProductManipulation()], ids=["data", "crafted"])
def test_attackers_are_honest_on_clean_data_while_the_attack_pauses(inner: Attack) -> None:
    first = 3
    never = rows_of(made(*ATTACKED, attack=Scheduled(inner, first=99)))
    late = rows_of(made(*ATTACKED, attack=Scheduled(inner, first=first)))
    always = rows_of(made(*ATTACKED, attack=inner))
    assert all(torch.equal(a, b) for a, b in zip(never[: first - 1], late, strict=False))
    assert not torch.equal(never[first - 1], late[first - 1])
    clean = made(*ATTACKED, attack=inner)
    honest = len(clean.honest_ids)
    assert torch.equal(never[0][:honest], always[0][:honest]) and not torch.equal(never[0], always[0])
    # What they send in a pause is what the same clients send when nobody is Byzantine.
    alone = made(*ATTACKED[:3])
    order = np.concatenate([clean.honest_ids, clean.byzantine_ids])
    torch.testing.assert_close(never[0], rows_of(alone)[0][order], rtol=1e-4, atol=1e-6)


def test_added_clients_send_the_honest_mean_while_the_attack_pauses() -> None:
    f = made(*ATTACKED, "byzantine_placement=add", attack=Scheduled(InnerProductManipulation(), first=2))
    honest = len(f.honest_ids)
    first, second, *_ = rows_of(f)
    torch.testing.assert_close(first[honest:], first[:honest].mean(dim=0).expand(4, -1))
    torch.testing.assert_close(second[honest:], -10 * second[:honest].mean(dim=0).expand(4, -1))


class Lies(Attack):
    """Reports a loss of -1."""

    def report(self, losses: Tensor, honest: Tensor) -> Tensor:
        return torch.full_like(losses, -1)


def test_attackers_report_true_losses_while_the_attack_pauses() -> None:
    f = made(*ATTACKED, attack=Scheduled(Lies(), first=2))
    told = [f.reported_losses(f.network.initial, torch.from_numpy(f.byzantine_ids), round) for round in (1, 2)]
    position = torch.arange(len(f.byzantine_ids))
    assert (told[1] == -1).all() and (told[0] > 0).all()
    true = f.client_losses(f.byzantine_clean, position.tolist(), f.network.initial[None])[:, 0]
    assert torch.equal(told[0], true)


# --- attackers who know only their own data --------------------------------------------------------------------------


@dataclass(frozen=True)
class Looks(Attack):
    """Sends the mean of what it takes for the honest updates, and keeps every view."""

    views: list[AttackView]

    def craft(self, view: AttackView) -> Tensor:
        self.views.append(view)
        return view.mean


def test_with_their_own_knowledge_attackers_see_their_own_updates_as_the_honest_ones() -> None:
    views: list[AttackView] = []
    asked: list[Tensor] = []
    f = made(*ATTACKED, "knowledge=own", attack=Looks(views), aggregator=Recording(asked))
    step(f, initial_state(f))
    (view,), honest, b = views, len(f.honest_ids), len(f.byzantine_ids)
    assert view.honest.n == view.num_byzantine == b and view.n == honest + b
    assert torch.equal(view.honest.matrix, view.own) and view.clients.tolist() == f.byzantine_ids.tolist()
    assert torch.equal(view.label_counts, f.byzantine.label_counts(f.num_classes))
    torch.testing.assert_close(asked[0][honest:], view.own.mean(dim=0).expand(b, -1))
    assert not torch.equal(asked[0][:b], view.own)
    view.aggregate(torch.zeros_like(view.params))
    assert asked[-1].shape == asked[0].shape and not asked[-1][honest:].any()
    assert torch.equal(asked[-1][:honest], view.own[torch.arange(honest) % b]), "they ask about their own updates only"


def test_own_knowledge_trains_once_and_leaves_honest_clients_as_they_are() -> None:
    knowing, guessing = (
        rows_of(made(*ATTACKED, "participation=0.5", f"knowledge={known}", attack=InnerProductManipulation()))
        for known in ("all", "own")
    )
    honest = made(*ATTACKED, "participation=0.5", "knowledge=own", attack=InnerProductManipulation())
    present = honest.cohorts.present(0)
    h = len(present.honest)
    assert torch.equal(knowing[0][:h], guessing[0][:h]) and not torch.equal(knowing[0], guessing[0])
    own = honest.rows(len(present.byzantine))
    ids = honest.byzantine_ids[present.byzantine].tolist()
    state = initial_state(honest).model(0)
    honest.train(honest.byzantine, present.byzantine, ids, "batches", state, own)
    torch.testing.assert_close(guessing[0][h:], -10 * own.mean(dim=0).expand(len(ids), -1), rtol=1e-4, atol=1e-6)


def test_own_knowledge_is_part_of_the_identity_and_all_knowledge_is_not() -> None:
    plain, everything, own = (
        presets.resolve(["attack=ipm", *more]) for more in ([], ["knowledge=all"], ["knowledge=own"])
    )
    assert plain.run_id == everything.run_id != own.run_id and "knowledge" not in plain.identity
    alone = [presets.resolve(["attack=none", f"knowledge={known}"]).run_id for known in ("all", "own")]
    assert alone[0] == alone[1] == presets.resolve([]).run_id, "nobody attacks, nobody knows"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["attack=ipm", "knowledge=own"], "set byzantine_placement=replace"),
        (["attack=ipm", "knowledge=some"], "knowledge must be one of all, own, got 'some'"),
        (
            ["attack=scheduled", "attack@attack.attack=label_flip"],
            "Scheduled trains on the Byzantine clients' own data",
        ),
    ],
)
def test_what_cannot_be_is_refused_before_data_are_loaded(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        plan(presets.resolve(overrides).config)


def test_a_schedule_around_crafted_updates_needs_no_data() -> None:
    assert plan(presets.resolve(["attack=scheduled", "attack.first=3"]).config).settings.byzantine_placement == "add"


# --- numbers that are none -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "found"), [("plus_infinity", "posinf"), ("minus_infinity", "neginf"), ("not_a_number", "nan")]
)
@pytest.mark.parametrize("fraction", [0, 0.5, 1])
def test_numbers_that_are_not_finite_are_as_many_as_asked_for(value: str, found: str, fraction: float) -> None:
    view = make_view(honest_updates(), 4)
    rows = NonFinite(value, fraction).craft(view)
    is_none = getattr(torch, f"is{found}")(rows)
    assert is_none.sum(dim=1).tolist() == [max(1, round(fraction * 23))] * 4
    torch.testing.assert_close(rows[~is_none], view.mean.expand(4, -1)[~is_none])


def test_the_engine_counts_non_finite_updates_and_rules_see_zeros() -> None:
    f = made(*ATTACKED, attack=NonFinite())
    honest = len(f.honest_ids)
    assert all(not rows[honest:].any() and rows[:honest].any() for rows in rows_of(f))
    f = made(*ATTACKED, attack=NonFinite("not_a_number", 0))
    records = [record for _, record in run(f, initial_state(f)) if record is not None]
    assert [record["non_finite_updates"] for record in records] == [4] * len(records)
