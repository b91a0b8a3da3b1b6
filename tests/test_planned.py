"""Attackers who plan: what they simulate, what they choose, and that planning itself changes nothing."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
import torch
from torch import Tensor

from robustfl_bench.base import trusted
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.parts.attacks.base import Attack, Harm, PlanView
from robustfl_bench.parts.attacks.held import Held
from robustfl_bench.parts.attacks.label_flip import LabelFlip
from robustfl_bench.parts.attacks.planned import Planned
from robustfl_bench.parts.attacks.pool import POOL
from robustfl_bench.parts.attacks.scheduled import Scheduled
from robustfl_bench.parts.protocols.state import Memory
from robustfl_bench.runner.config import compose
from robustfl_bench.runner.experiment.plan import plan
from robustfl_bench.train import rounds
from robustfl_bench.train.evaluation import Record
from robustfl_bench.train.foresight import Foresight, _copied, under
from robustfl_bench.train.views import drawn_like
from tests import presets
from tests.presets import trained

SETTING = ["dataset=digits", "num_clients=10", "num_byzantine=3", "byzantine_placement=replace", "partition=iid",
           "model.hidden=[8]", "lr=0.3", "rounds=6", "eval_every=2", "aggregator=trmean"]  # fmt: skip
PLACES = {name: place for place, name in enumerate(POOL)}


federation = partial(presets.federation, *SETTING, "attack=planned")


def without_notes(records: list[Record]) -> list[Record]:
    return [{name: value for name, value in record.items() if not name.startswith("attack_")} for record in records]


class Told(PlanView):
    """A view in which attacks of the pool do the given ``harms``, one per random stream, and all others a little."""

    round, rounds, memory, varies, layer_sizes = 0, 9, MappingProxyType({}), False, ()  # type: ignore[assignment]
    supposes, error_at_hand = False, 0.0  # type: ignore[assignment]

    def __init__(self, harms: dict[str, list[float]], **others: object) -> None:
        self.harms, self.asked = harms, list[str]()
        vars(self).update(others)

    @property
    def own_draws(self) -> Callable[[int], np.random.Generator]:
        return np.random.default_rng

    def assess_by_class(self, models: Tensor) -> tuple[Tensor, Tensor | None]:
        raise NotImplementedError

    def simulate(self, attacks: Sequence[Attack], stream: int) -> list[Harm | None]:
        names = [self.carry_out(attack) for attack in attacks]
        self.asked += names
        return [None if name == "noisy" else (self.harms.get(name, [0.1] * 9)[stream], 1.0) for name in names]

    def carry_out(self, attack: Attack) -> str:
        (name,) = (name for name, policy in POOL.items() if policy is attack.attack)  # type: ignore[attr-defined]
        return name

    def carry_out_on_labels(self, attack: Attack, choose: Callable[[Tensor], Tensor]) -> str:
        raise NotImplementedError


@pytest.mark.parametrize("overrides", [[], ["local_update=momentum"], ["batch_size=8", "participation=0.8"]])
@pytest.mark.parametrize("chosen", [Held("rewind", 4.0), LabelFlip()], ids=["held", "poisons"])
def test_a_planned_attack_gives_the_bits_of_that_attack_alone(
    overrides: list[str], chosen: Attack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulations change neither the state nor the random streams of the run."""
    monkeypatch.setattr("robustfl_bench.attacks.planned._by_harm", lambda harms: [1, 0])
    planned, records = trained(federation(*overrides, attack=Planned(pool=("honest", chosen))))
    alone, expected = trained(federation(*overrides, attack=chosen))
    assert torch.equal(planned.params, alone.params)
    assert without_notes(records) == without_notes(expected)
    assert [record["attack_policy"] for record in records] == [1, 1, 1]


@pytest.mark.parametrize("pool", [None, ("noise 100",)], ids=["all", "drawn"])
def test_where_nothing_varies_the_harm_is_the_one_foreseen(pool: tuple[str] | None) -> None:
    """Attackers know their own draws: the harm of noise is that of this very noise."""
    f = federation(attack=Planned(replans=0, pool=pool))
    state, records = trained(f)
    x, y = f.clients.unpoisoned(np.arange(10)).thinned(range(10), 2048)
    _, errors = f.network.assess(state.params, x, y)
    assert errors is not None and records[-1]["attack_harm"] == pytest.approx(float(errors[0]), abs=1e-12)


def test_simulations_side_by_side_have_the_bits_of_each_alone() -> None:
    f = federation("batch_size=8", "aggregator=krum")
    view = Foresight(f, rounds.initial_state(f), rounds.step)
    attacks = [POOL[name] for name in ("ipm 2", "label_flip", "noise 10", "rewind 4", "honest")]
    assert view.simulate(attacks, 1) == [harm for attack in attacks for harm in view.simulate([attack], 1)]
    assert view.simulate(attacks[:1], 1) != view.simulate(attacks[:1], 2)


def test_it_does_at_least_the_harm_of_each_attack_of_its_pool() -> None:
    harm = {name: 1 - trained(federation(attack=POOL[name]))[1][-1]["test_accuracy"]
            for name in ("honest", "ipm 2", "rewind 4", "label_flip", "alie_minus 1.5", "trim_attack 1")}  # fmt: skip
    planned = 1 - trained(federation())[1][-1]["test_accuracy"]
    assert planned >= max(harm.values()) - 0.02


@pytest.mark.parametrize("rule", ["krum", "fltrust"])
def test_it_never_helps(rule: str) -> None:
    """On the samples by which they judge, no model is better than that of attackers who train honestly."""
    errors = []
    for attack in (Planned(), POOL["honest"]):
        f = federation(f"aggregator={rule}", "partition=pathological", attack=attack)
        _, wrong = f.network.assess(trained(f)[0].params, *f.clients.unpoisoned(np.arange(10)).thinned(range(10), 2048))
        assert wrong is not None
        errors.append(float(wrong[0]))
    assert errors[0] >= errors[1]


def test_the_random_streams_are_never_those_of_the_run() -> None:
    f = federation("batch_size=8")
    other = under(f, POOL["honest"], seed=77)
    assert other.settings.seed == 77 and f.settings.seed == 0
    assert other.honest is f.honest and other.clients is f.clients
    model = rounds.initial_state(f).model(0)
    mine, theirs = (
        each.train(each.honest, [0], [0], "batches", model, f.storage.rows(1)).matrix for each in (f, other)
    )
    assert not torch.equal(mine, theirs)


def test_attackers_who_know_only_their_own_data_simulate_with_it() -> None:
    f = federation("knowledge=own")
    other = under(f, POOL["honest"], seed=1)
    own, ids = f.clients.byzantine_clean, f.clients.byzantine_ids
    assert len(other.honest) == len(f.clients.honest_ids) == 7
    known = {sample.numpy().tobytes() for sample in own.x}
    assert all(sample.numpy().tobytes() in known for sample in other.honest.x)
    assert torch.equal(other.honest.x, under(f, POOL["ipm 2"], seed=2).honest.x), "the same in all simulations"
    for client in range(7):
        like = np.bincount(f.clients.labels[f.clients.shards[ids[client % 3]]])
        mine = other.honest.y[other.honest.slice(client)].bincount()
        assert sorted(like[like > 0]) == sorted(mine[mine > 0].tolist()), "as unequal as the attacker"
    assert other.counts[other.clients.honest_ids].tolist() == [
        len(f.clients.shards[f.clients.byzantine_ids[i % 3]]) for i in range(7)
    ]
    assert 0 <= trained(f)[1][-1]["attack_policy"] < len(POOL)


def test_simulations_of_supposed_clients_know_no_memory_of_the_honest_ones() -> None:
    memory = Memory(local={"honest": {"momenta": torch.ones(3)}, "asked": {"momenta": torch.zeros(3)}})
    assert _copied(memory, supposed=False).local["honest"]["momenta"].all()
    kept = _copied(memory, supposed=True).local["honest"]["momenta"]
    assert not kept.any() and kept is not memory.local["asked"]["momenta"]
    assert _copied(replace(memory, local={"honest": memory.local["honest"]}), supposed=True).local["honest"] == {}
    overrides = ["knowledge=own", "local_update=momentum", "attack.replans=1", "attack.pool=[drift 4,opt_ipm]"]
    assert not math.isnan(trained(federation(*overrides))[1][-1]["test_accuracy"])


def test_those_whom_they_suppose_have_the_shares_of_an_attacker_in_other_classes() -> None:
    labels = np.repeat(np.arange(5), 20)
    like = [np.arange(0, 30), np.arange(60, 65)]  # 20 of class 0 and 10 of class 1; 5 of class 3
    pool = np.concatenate(like)
    drawn = drawn_like(like * 20, pool, labels, np.random.default_rng(0))
    assert all(set(one) <= set(pool) for one in drawn)
    counts = [np.bincount(labels[one], minlength=5) for one in drawn]
    assert {tuple(sorted(each)) for each in counts[::2]} == {(0, 0, 0, 10, 20)}
    assert {tuple(sorted(each)) for each in counts[1::2]} == {(0, 0, 0, 0, 5)}
    assert {int(each.argmax()) for each in counts} == {0, 1, 3}, "only classes that the attackers have"


def test_the_most_harmful_is_chosen_and_leaders_are_averaged_over_streams() -> None:
    harms = {"ipm 2": [0.9, 0.2, 0.2], "drift 4": [0.8, 0.7, 0.7], "zero 1": [0.5] * 3}
    view = Told(harms)
    assert Planned(leaders=2).plan(view) == "ipm 2"
    assert sorted(view.asked) == sorted(POOL), "each once"
    view = Told(harms, varies=True)
    assert Planned(leaders=2).plan(view) == "drift 4"
    assert len(view.asked) == len(POOL) + 2 * 2
    for attack in (Planned(leaders=2, reach=0.05), Planned(leaders=2, budget=0)):
        view = Told(harms, varies=True)
        assert attack.plan(view) == "ipm 2"
        assert len(view.asked) == len(POOL), "nothing within reach, or no budget: the first plan stands"


def test_a_plan_changes_only_for_more_than_the_margin() -> None:
    memory = {"plan": made("ipm 2", 0.5, ["ipm 2", "drift 4"])}
    for gain, expected in ((0.02, "ipm 2"), (0.04, "drift 4")):
        again = Told({"ipm 2": [0.5], "drift 4": [0.5 + gain]}, round=3, memory=memory)
        assert Planned().plan(again) == expected
        assert sorted(again.asked) == ["drift 4", "ipm 2"]
    poor = Told({"ipm 2": [0.1], "drift 4": [0.9]}, round=3, memory=memory)
    assert Planned(budget=40).plan(poor) == "ipm 2" and not poor.asked
    between = Told({}, round=2, memory=memory)
    assert Planned().plan(between) == "ipm 2" and not between.asked


def made(name: str, error: float, leaders: Sequence[str], *others: str) -> Tensor:
    """A plan before the first round, as the memory has it."""
    places = [PLACES[one] for one in (*leaders, *others)]
    return torch.tensor([0, PLACES[name], error, 40, len(leaders), *places], dtype=torch.float64)


@pytest.mark.parametrize(
    ("changes", "expected", "asked"),
    [
        ({}, "zero 1", ["drift 4", "zero 1"]),
        ({"round": 3}, "zero 1", ["drift 4", "zero 1"]),
        ({"round": 6}, "ipm 2", []),
        ({"error_at_hand": 0.5}, "ipm 2", []),
        ({"supposes": False}, "ipm 2", []),
    ],
    ids=["a quarter", "later", "late", "as foreseen", "known"],
)
def test_attackers_give_up_what_does_far_less_harm_than_clients_whom_they_suppose_foretold(
    changes: dict[str, object], expected: str, asked: list[str]
) -> None:
    memory = {"plan": made("ipm 2", 0.9, ["ipm 2"], "drift 4", "zero 1", "rewind 4")}
    at = {"round": 2, "rounds": 8, "supposes": True, "error_at_hand": 0.3, "memory": memory, **changes}
    view = Told({"drift 4": [0.3], "zero 1": [0.6], "rewind 4": [0.9]}, **at)
    assert Planned(leaders=2, replans=0).plan(view) == expected and sorted(view.asked) == asked
    poor = Told({}, **at)
    assert Planned(leaders=2, replans=0, budget=40).plan(poor) == ("drift 4" if asked else "ipm 2") and not poor.asked
    alone = Told({}, **at | {"memory": {"plan": made("ipm 2", 0.9, ["ipm 2"])}})
    assert Planned(replans=0).plan(alone) == "ipm 2", "there is no other"


def test_attackers_stay_honest_where_every_attack_would_help() -> None:
    assert Planned().plan(Told({name: [0.1 if name == "honest" else 0.05] for name in POOL})) == "honest"


def test_a_wrapper_changes_the_attacks_that_are_simulated_and_carried_out() -> None:
    wrapped = Scheduled(Planned(), first=4)
    seen = list[Attack]()

    class View(Told):
        def simulate(self, attacks: Sequence[Attack], stream: int) -> list[Harm | None]:
            seen.extend(attacks)
            return super().simulate([attack.attack for attack in attacks if isinstance(attack, Scheduled)], stream)

        def carry_out(self, attack: Attack) -> str:
            return super().carry_out(attack.attack if isinstance(attack, Scheduled) else attack)

    assert wrapped.plans and wrapped.plan(View({"drift 4": [0.5]})) == "drift 4"
    assert len(seen) == len(POOL) and not seen[0].active(3) and seen[0].active(4)


def test_a_clustering_is_refused() -> None:
    with pytest.raises(ConfigError, match="set clustering=none"):
        plan(compose.resolve(["attack=planned", "clustering=ifca", "num_byzantine=2"]).config)


def test_an_attack_from_outside_enters_the_pool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "my_pool.py").write_text("""from dataclasses import dataclass
import robustfl_bench as rb
@dataclass(frozen=True)
class Far(rb.Attack):
    factor: float = 7.0
    def craft(self, view):
        return -self.factor * view.mean
""")
    monkeypatch.syspath_prepend(tmp_path)
    request = presets.planned(*SETTING, "attack=planned", "attack.pool=[honest,my_pool:Far]")
    assert request.config["attack"]["pool"][1] == {"_target_": "my_pool.Far", "factor": 7.0}
    assert isinstance(request.parts.attack, Planned) and request.parts.attack.pool[1].factor == 7.0
    with trusted.only(["other"]), pytest.raises(ConfigError, match="add --allow my_pool if you trust"):
        presets.planned(*SETTING, "attack=planned", "attack.pool=[honest,my_pool:Far]")


@pytest.mark.parametrize(
    ("pool", "reason"), [("[ipm2]", "pool has no attack 'ipm2'"), ("[]", "pool must have at least one attack")]
)
def test_a_pool_of_unknown_attacks_or_none_is_refused(pool: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        presets.planned(*SETTING, "attack=planned", f"attack.pool={pool}")
