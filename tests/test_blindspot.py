"""Attackers who search for a rule's blind spot: what their disguises copy, what they ask and know, what it costs."""

import math
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.attacks.base import Attack, AttackView
from robustfl_bench.parts.attacks.blindspot import Blindspot
from robustfl_bench.parts.attacks.disguises import ARMS, DISGUISES, Stage
from robustfl_bench.parts.attacks.pool import POOL
from robustfl_bench.parts.attacks.steered import HEADINGS, Course, Steered
from tests import presets
from tests.presets import trained

SETTING = ["dataset=digits", "num_clients=10", "num_byzantine=3", "byzantine_placement=replace", "partition=iid",
           "model.hidden=[8]", "lr=0.3", "rounds=6", "eval_every=2", "aggregator=trmean",
           "attack=blindspot"]  # fmt: skip
ROWS = {disguise.name: disguise.rows for disguise in DISGUISES}
KNOWN = {"honest", "mean", "std", "num_byzantine", "params", "previous", "memory", "round"}

federation = partial(presets.federation, *SETTING, attack=Blindspot(pool=("honest", "ipm 2")))


def stage(layers: tuple[int, ...] = (40, 8, 12)) -> Stage:
    draw = torch.Generator().manual_seed(3)
    matrix = torch.randn(7, sum(layers), generator=draw) + torch.randn(sum(layers), generator=draw)
    view: Any = SimpleNamespace(honest=Updates(matrix), num_byzantine=3, mean=matrix.mean(0), std=matrix.std(0))
    wish, answer = (torch.randn(sum(layers), generator=draw) for _ in range(2))
    return Stage(view, wish, layers, answer)


def cosine(one: Tensor, other: Tensor) -> float:
    return float(torch.cosine_similarity(one, other, dim=0))


def test_disguises_copy_what_rules_judge_by() -> None:
    s = stage()
    h = s.view.honest.matrix
    assert ROWS["length"](s, 1).norm() == pytest.approx(h.norm(dim=1).median())
    for part, rows in zip(ROWS["layers"](s, 1).split(s.layers), h.split(s.layers, dim=1), strict=True):
        assert part.norm() == pytest.approx(rows.norm(dim=1).median())
    assert cosine(ROWS["mean_cosine"](s, 0.7), s.mean) == pytest.approx(0.7, abs=1e-5)
    assert cosine(ROWS["answer_cosine"](s, 0.4), s.answer) == pytest.approx(0.4, abs=1e-5)
    arranged = ROWS["arranged"](s, 1.0)
    assert any(torch.equal(arranged.sort().values, row.sort().values) for row in h), "the numbers of an honest update"
    assert arranged.argsort().equal(s.wish.argsort()), "in the order of the wish"
    for share in (0.0, 0.25):
        assert ((ROWS["ranks"](s, share) >= h.amin(0)) & (ROWS["ranks"](s, share) <= h.amax(0))).all()
    flipped = ROWS["outvoted"](s, 0.3).sign() != s.mean.sign()
    assert 0 < flipped.sum() <= 18
    margins = h.sign().mean(0).abs()
    assert margins[flipped].max() <= margins.sort().values[18]
    spread = ROWS["scattered"](s, 0.3)
    assert torch.cdist(spread, spread).allclose(torch.cdist(h[:3], h[:3]), atol=1e-4), "the distances of honest clients"


@pytest.mark.parametrize("number", range(len(ARMS)), ids=lambda number: f"{ARMS[number][0].name} {ARMS[number][1]:g}")
def test_every_disguise_is_finite_also_where_nothing_differs(number: int) -> None:
    (disguise, strength), s = ARMS[number], stage()
    low, high = disguise.bounds
    assert all(low <= disguise.changed(strength, factor) <= high for factor in (1.3, 1 / 1.3))
    for matrix in (s.view.honest.matrix, torch.ones(7, 60), torch.zeros(7, 60), torch.ones(1, 60)):
        view: Any = SimpleNamespace(honest=Updates(matrix), num_byzantine=3, mean=matrix[0], std=torch.zeros(60))
        rows = disguise.rows(replace(s, view=view), strength)
        assert rows.shape[-1] == 60 and len(rows.view(-1, 60)) in (1, 3) and rows.isfinite().all()


def test_headings_part_the_layers() -> None:
    start, params = torch.zeros(20), torch.arange(1.0, 21)
    memory = {"start": start, "trend": torch.ones(20), "past": torch.ones(20)}
    course = Course(params, memory, (10, 2, 6, 2))
    assert course.early(params)[:12].equal(params[:12]) and not course.early(params)[12:].any()
    for name in ("contrary", "starve"):
        step = -HEADINGS[name](course)
        assert step[:12] @ params[:12] < 0 < step[12:] @ params[12:]
    assert cosine(HEADINGS["back"](course), params) == pytest.approx(1)


def crafted(attack: Attack, *overrides: str) -> set[str]:
    """The names that the attack reads of its view in a run of three rounds."""
    read = set[str]()

    class Watched(Steered):
        def craft(self, view: Any) -> Any:
            class Watching:
                def __getattr__(self, name: str) -> Any:
                    read.add(name)
                    return self if name == "of_updates" else getattr(view, name)

            return super().craft(Watching())  # type: ignore[arg-type]

    trained(federation(*overrides, "rounds=3", attack=Watched(**vars(attack))))
    return read


@pytest.mark.parametrize("knowledge", ["all", "own"])
def test_a_push_reads_updates_the_model_and_answers_alone(knowledge: str) -> None:
    names = crafted(Steered("starve"), f"knowledge={knowledge}", "aggregator=fltrust")
    assert names <= KNOWN | {"of_updates", "upload", "aggregate_many"}


def test_a_push_asks_no_more_than_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[int]()
    many = AttackView.aggregate_many

    def counted(self: AttackView, candidates: Tensor) -> Tensor:
        asked.append(len(candidates))
        return many(self, candidates)

    monkeypatch.setattr(AttackView, "aggregate_many", counted)
    push = Steered("back", best=6, others=4)
    trained(federation(attack=push))
    assert len(ARMS) < sum(asked) <= push.questions(6) == len(ARMS) + 6 * 12


@pytest.mark.parametrize(
    ("rounds", "attack"), [(100, Blindspot()), (100, Blindspot(streams=9, leaders=9, question=0.1)), (30, Blindspot())]
)
def test_all_simulations_cost_at_most_the_budget(rounds: int, attack: Blindspot) -> None:
    spent = list[float]()

    class View:
        round, memory, varies, layer_sizes, own_draws = 0, {}, True, (4, 2), None

        def simulate(self, attacks: Any, stream: int) -> list[tuple[float, float]]:
            spent.extend(costs[each.place] for each in attacks)
            return [(0.5 + 0.001 * each.place, 1.0) for each in attacks]

        def carry_out(self, attack: Any) -> Any:
            return attack

    view: Any = View()
    view.rounds = rounds
    costs = attack._costs(view)
    chosen: Any = attack.plan(view)
    assert sum(costs) <= sum(spent) <= attack.budget == 60
    assert chosen.attack.heading == [*HEADINGS][-1], "the most harmful"
    for cost, push in zip(costs[-len(HEADINGS) :], attack._pushes(view), strict=True):
        assert cost >= 0.7 + attack.question * push.questions(rounds) / rounds


def test_it_is_repeatable_and_beats_the_best_of_its_pool() -> None:
    def errors(attack: Attack) -> tuple[float, Tensor]:
        state, records = trained(federation("rounds=15", "lr=0.5", "aggregator=fltrust", attack=attack))
        return 1 - records[-1]["test_accuracy"], state.params

    pool = ("ipm 2", "rewind 4", "trim_attack 1", "alie_minus 1.5")
    error, params = errors(Blindspot(pool=pool))
    again, same = errors(Blindspot(pool=pool))
    assert error == again and params.equal(same)
    assert error > max(errors(POOL[name])[0] for name in pool) + 0.05


def test_with_its_own_data_alone_it_runs_and_says_what_it_carries_out() -> None:
    _, records = trained(federation("knowledge=own", "rounds=4"))
    assert records[-1]["attack_policy"] in range(2 + len(HEADINGS)) and 0 <= records[-1]["attack_harm"] <= 1
    assert not math.isnan(records[-1]["test_accuracy"])


def test_it_shares_the_pool_of_planned() -> None:
    with pytest.raises(ConfigError, match=r"pool has no attack 'rewnd 4' \(did you mean rewind 4"):
        presets.planned(*SETTING, "attack.pool=[rewnd 4]")
