"""The attacks of the field against slow references; attacks that pause, and attackers who know only their own data."""

from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from robustfl_bench.base import seeding
from robustfl_bench.interfaces import Aggregator, Attack, AttackView, ConfigError, Crafted, Shard
from robustfl_bench.lab.studies.inputs import gaussian
from robustfl_bench.parts.aggregators.average import Average
from robustfl_bench.parts.aggregators.caf import Caf
from robustfl_bench.parts.aggregators.coomed import CooMed
from robustfl_bench.parts.aggregators.krum import Krum
from robustfl_bench.parts.aggregators.mda import Mda
from robustfl_bench.parts.aggregators.trmean import TrMean
from robustfl_bench.parts.attacks.bit_flip import BitFlip
from robustfl_bench.parts.attacks.blended import Blended
from robustfl_bench.parts.attacks.dba import Dba
from robustfl_bench.parts.attacks.edge_case import EdgeCase
from robustfl_bench.parts.attacks.free_rider import FreeRider
from robustfl_bench.parts.attacks.ipm import InnerProductManipulation
from robustfl_bench.parts.attacks.label_flip import LabelFlip
from robustfl_bench.parts.attacks.lie import LittleIsEnough, lie_z
from robustfl_bench.parts.attacks.line_search import grid_maximum, line_maximum
from robustfl_bench.parts.attacks.mimic import Mimic
from robustfl_bench.parts.attacks.minmax import MinMax
from robustfl_bench.parts.attacks.minsum import MinSum
from robustfl_bench.parts.attacks.model_replacement import ModelReplacement
from robustfl_bench.parts.attacks.non_finite import NonFinite
from robustfl_bench.parts.attacks.opt_alie import OptimalLittleIsEnough
from robustfl_bench.parts.attacks.opt_ipm import OptimalInnerProductManipulation
from robustfl_bench.parts.attacks.random_labels import RandomLabels
from robustfl_bench.parts.attacks.rop import RelocatedOrthogonalPerturbation
from robustfl_bench.parts.attacks.scheduled import Scheduled
from robustfl_bench.parts.attacks.zero import Zero
from robustfl_bench.runner.config import compose
from robustfl_bench.runner.experiment.plan import plan
from robustfl_bench.train.federation import Federation
from robustfl_bench.train.rounds import initial_state, step
from robustfl_bench.train.sight import reported_losses
from robustfl_bench.train.views import Blind, supposed_clients
from tests import reference_attacks as slow
from tests.presets import Recording, small, trained
from tests.rounds import names, refused
from tests.test_attacks import honest_updates, make_view
from tests.test_brace_attacks import against
from tests.test_data_poisoning import STANDARD, UNIT, shard, text

ATTACKED = (
    "rounds=3", "batch_size=8", "num_clients=12", "attack=ipm", "num_byzantine=4", "byzantine_placement=replace",
)  # fmt: skip


def rows_of(f: Federation) -> list[Tensor]:
    """The matrix of each round, honest clients first."""
    recording = Recording()
    trained(replace(f, parts=replace(f.parts, aggregator=recording)))
    return recording.given


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
    never = rows_of(small(*ATTACKED, attack=Scheduled(inner, first=99)))
    late = rows_of(small(*ATTACKED, attack=Scheduled(inner, first=first)))
    always = rows_of(small(*ATTACKED, attack=inner))
    assert all(torch.equal(a, b) for a, b in zip(never[: first - 1], late, strict=False))
    assert not torch.equal(never[first - 1], late[first - 1])
    clean = small(*ATTACKED, attack=inner)
    honest = len(clean.clients.honest_ids)
    assert torch.equal(never[0][:honest], always[0][:honest]) and not torch.equal(never[0], always[0])
    # What they send in a pause is what the same clients send when nobody is Byzantine.
    alone = small(*ATTACKED[:3])
    order = np.concatenate([clean.clients.honest_ids, clean.clients.byzantine_ids])
    torch.testing.assert_close(never[0], rows_of(alone)[0][order], rtol=1e-4, atol=1e-6)


def test_added_clients_send_the_honest_mean_while_the_attack_pauses() -> None:
    f = small(*ATTACKED, "byzantine_placement=add", attack=Scheduled(InnerProductManipulation(), first=2))
    honest = len(f.clients.honest_ids)
    first, second, *_ = rows_of(f)
    torch.testing.assert_close(first[honest:], first[:honest].mean(dim=0).expand(4, -1))
    torch.testing.assert_close(second[honest:], -10 * second[:honest].mean(dim=0).expand(4, -1))


class Lies(Attack):
    """Reports a loss of -1."""

    def report(self, losses: Tensor, honest: Tensor) -> Tensor:
        return torch.full_like(losses, -1)


def test_attackers_report_true_losses_while_the_attack_pauses() -> None:
    f = small(*ATTACKED, attack=Scheduled(Lies(), first=2))
    told = [reported_losses(f, f.network.initial, torch.from_numpy(f.clients.byzantine_ids), round) for round in (1, 2)]
    position = torch.arange(len(f.clients.byzantine_ids))
    assert (told[1] == -1).all() and (told[0] > 0).all()
    true = f.clients.losses(f.clients.byzantine_clean, position.tolist(), f.network.initial[None])[:, 0]
    assert torch.equal(told[0], true)


# --- attackers who know only their own data --------------------------------------------------------------------------


@dataclass(frozen=True)
class Looks(Attack):
    """Sends the mean of what it takes for the honest updates, and keeps every view."""

    exempt = MappingProxyType({"memory": "takes notes"})

    views: list[AttackView]

    def craft(self, view: AttackView) -> Tensor:
        self.views.append(view)
        return view.mean


def test_with_their_own_knowledge_attackers_see_their_own_updates_as_the_honest_ones() -> None:
    views, asked = list[AttackView](), list[Tensor]()
    f = small(*ATTACKED, "knowledge=own", attack=Looks(views), aggregator=Recording(asked))
    step(f, initial_state(f))
    (view,), honest, b = views, len(f.clients.honest_ids), len(f.clients.byzantine_ids)
    assert view.honest.n == view.num_byzantine == b and view.n == honest + b
    assert torch.equal(view.honest.matrix, view.own) and view.clients.tolist() == f.clients.byzantine_ids.tolist()
    assert torch.equal(view.label_counts, f.byzantine.label_counts(f.clients.num_classes))
    torch.testing.assert_close(asked[0][honest:], view.own.mean(dim=0).expand(b, -1))
    assert not torch.equal(asked[0][:b], view.own)
    view.aggregate(torch.zeros_like(view.params))
    assert asked[-1].shape == asked[0].shape and not asked[-1][honest:].any()
    supposed, state = supposed_clients(f.clients, "asked"), initial_state(f).model(0)
    rows = f.train(supposed, [*range(honest)], f.clients.honest_ids.tolist(), "batches", state, f.storage.rows(honest))
    assert torch.equal(asked[-1][:honest], rows.matrix), "they ask about clients whom they suppose"
    known = {sample.numpy().tobytes() for sample in f.clients.byzantine_clean.x}
    assert {sample.numpy().tobytes() for sample in supposed.x} <= known
    assert not torch.equal(supposed.x, Blind().honest(f.clients).x), "others than those whom they simulate"


def test_where_clients_send_models_the_rule_is_asked_about_updates() -> None:
    views, asked = list[AttackView](), list[Tensor]()
    f = small(*ATTACKED, "knowledge=own", "local_update=rsa", attack=Looks(views), aggregator=Recording(asked))
    step(f, initial_state(f))
    (view,), honest, state = views, len(f.clients.honest_ids), initial_state(f).model(0)
    view.aggregate(view.params)
    supposed = supposed_clients(f.clients, "asked")
    rows = f.train(supposed, [*range(honest)], f.clients.honest_ids.tolist(), "batches", state, f.storage.rows(honest))
    assert torch.equal(asked[-1][:honest], rows.matrix) and not asked[-1][honest:].any()


def test_own_knowledge_trains_once_and_leaves_honest_clients_as_they_are() -> None:
    knowing, guessing = (
        rows_of(small(*ATTACKED, "participation=0.5", f"knowledge={known}", attack=InnerProductManipulation()))
        for known in ("all", "own")
    )
    honest = small(*ATTACKED, "participation=0.5", "knowledge=own", attack=InnerProductManipulation())
    present = honest.cohorts.present(0)
    h = len(present.honest)
    assert torch.equal(knowing[0][:h], guessing[0][:h]) and not torch.equal(knowing[0], guessing[0])
    own = honest.storage.rows(len(present.byzantine))
    ids = honest.clients.byzantine_ids[present.byzantine].tolist()
    state = initial_state(honest).model(0)
    honest.train(honest.byzantine, present.byzantine, ids, "batches", state, own)
    torch.testing.assert_close(guessing[0][h:], -10 * own.mean(dim=0).expand(len(ids), -1), rtol=1e-4, atol=1e-6)


def test_own_knowledge_is_part_of_the_identity_and_all_knowledge_is_not() -> None:
    plain, everything, own = (
        compose.resolve(["attack=ipm", *more]) for more in ([], ["knowledge=all"], ["knowledge=own"])
    )
    assert plain.run_id == everything.run_id != own.run_id and "knowledge" not in plain.identity
    alone = [compose.resolve(["attack=none", f"knowledge={known}"]).run_id for known in ("all", "own")]
    assert alone[0] == alone[1] == compose.resolve([]).run_id, "nobody attacks, nobody knows"


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
        plan(compose.resolve(overrides).config)


def test_a_schedule_around_crafted_updates_needs_no_data() -> None:
    assert plan(compose.resolve(["attack=scheduled", "attack.first=3"]).config).settings.byzantine_placement == "add"


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
    f = small(*ATTACKED, attack=NonFinite())
    honest = len(f.clients.honest_ids)
    assert all(not rows[honest:].any() and rows[:honest].any() for rows in rows_of(f))
    _, records = trained(small(*ATTACKED, attack=NonFinite("not_a_number", 0)))
    assert [record["non_finite_updates"] for record in records] == [4] * len(records)


# --- strengths that are tried on the rule ----------------------------------------------------------------------------

RULES: list[Aggregator] = [Average(), TrMean(4), CooMed(), Krum(4)]


def distance_of(view: AttackView, rows: Tensor) -> float:
    return float((view.aggregate(rows).vector - view.mean).norm())


@pytest.mark.parametrize("evaluations", [1, 2, 5, 20])
@pytest.mark.parametrize("top", [0.0, 0.4, 3.3, 40.0])
def test_the_line_search_tries_what_the_reference_tries(top: float, evaluations: int) -> None:
    tried = []

    def value(x: float) -> float:
        tried.append(x)
        return -abs(x - top)

    found = line_maximum(value, evaluations, 1, 0.8)
    assert (tried, found) == slow.farthest(lambda x: -abs(x - top), evaluations, 1, 0.8)
    assert min(tried) >= 0 and len(tried) == evaluations
    assert evaluations < 20 or abs(found - top) <= max(0.1 * top, 0.1)


@pytest.mark.parametrize("evaluations", [1, 2, 5, 20, 21])
@pytest.mark.parametrize("top", [0.0, 0.003, 0.4, 3.3, 500.0])
def test_the_search_on_a_grid_tries_what_the_reference_tries(top: float, evaluations: int) -> None:
    tried = []

    def cliff(x: float) -> float:
        tried.append(x)
        return min(x, 0.5) if x > top else x

    found = grid_maximum(lambda numbers: [cliff(number) for number in numbers], evaluations, 1)
    asked, tried = tried, []
    numbers, best = slow.on_a_grid(cliff, evaluations, 1)
    np.testing.assert_allclose(asked, numbers, rtol=1e-12)
    assert found == pytest.approx(best) and len(asked) == evaluations
    assert evaluations < 20 or top < 0.4 or cliff(found) >= 0.9 * top, "at most a tenth below the cliff"


@pytest.mark.parametrize("search", [None, "grid"])
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_the_optimal_strength_does_at_least_the_harm_of_fixed_ones(rule: Aggregator, search: str | None) -> None:
    view = against(rule, make_view(honest_updates(16, 200), 4))
    grid = [0.1, 0.5, 1, 1.5, 2, 4]
    alie = distance_of(view, OptimalLittleIsEnough(search=search).craft(view))
    assert alie >= 0.95 * max(distance_of(view, LittleIsEnough(z=z).craft(view)) for z in grid) > 0
    ipm = distance_of(view, OptimalInnerProductManipulation(search=search).craft(view))
    assert ipm >= 0.95 * max(distance_of(view, InnerProductManipulation(tau - 1).craft(view)) for tau in grid) > 0


def shares_of_the_best(kind: Any, view: AttackView, directed: Tensor) -> dict[str | None, float]:
    """The harm that each search does, over the largest of a hundred strengths along the direction (d,)."""
    strengths = np.geomspace(0.01, 50, 100).tolist()
    best = max(distance_of(view, view.mean + strength * directed) for strength in strengths)
    steps = {None: 1, "byzfl": 10, "grid": 1}
    return {how: distance_of(view, kind(search=how, step=step).craft(view)) / best for how, step in steps.items()}


@pytest.mark.parametrize(
    "make", [Krum, partial(Krum, num_selected=None), Mda, Caf], ids=["krum", "mkrum", "mda", "caf"]
)
def test_the_grid_finds_the_harm_of_rules_that_reject_clients_and_steps_may_miss_half_of_it(make: Any) -> None:
    found = []
    for (n, f), length in product(((15, 3), (25, 10)), (0.1, 1.0, 5.0, 20.0)):  # of the honest mean, at spread 1
        view = against(make(f), make_view(gaussian(n, 100, length).matrix[f:].numpy(), f))
        found.append(shares_of_the_best(OptimalLittleIsEnough, view, view.std))
        found.append(shares_of_the_best(OptimalInnerProductManipulation, view, -view.mean))
    least = {how: min(shares[how] for shares in found) for how in (None, "byzfl", "grid")}
    assert least["grid"] > 0.9 and least["byzfl"] < 0.5


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_the_loss_as_objective_turns_the_aggregate_against_the_honest_mean(rule: Aggregator) -> None:
    view = against(rule, make_view(honest_updates(16, 200), 4))

    def progress(attack: Attack) -> float:
        rows = attack.craft(view)
        assert isinstance(rows, Tensor)
        return float(view.aggregate(rows).vector @ view.mean)

    far, uphill = (progress(OptimalInnerProductManipulation(objective)) for objective in ("distance", "loss"))
    assert uphill <= far + 0.05 * abs(far) and uphill < 0.9 * float(view.mean @ view.mean)


@pytest.mark.parametrize("kind", [MinMax, MinSum])
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_minmax_and_minsum_can_ask_the_rule_within_their_constraint(rule: Aggregator, kind: Any) -> None:
    view = against(rule, make_view(honest_updates(16, 200), 4))
    plain, asked = kind("inverse_std").craft(view), kind("inverse_std", evaluations=10).craft(view)
    assert distance_of(view, asked) >= distance_of(view, plain) - 1e-5
    tenths = [view.mean + (i + 1) / 10 * (plain - view.mean) for i in range(10)]
    assert min(float((asked - rows).norm()) for rows in tenths) < 1e-4
    assert distance_of(view, asked) == pytest.approx(max(distance_of(view, rows) for rows in tenths), rel=1e-5)


# --- perturbations and faults ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(("z", "angle", "relocation", "mixing"), [(1, 270, 1, 0.9), (2, 90, 0.3, 0), (0.5, 180, 0, 1)])
def test_rop(first: bool, z: float, angle: float, relocation: float, mixing: float) -> None:
    honest, previous = honest_updates(), None if first else honest_updates(1, seed=5)[0]
    view = replace(make_view(honest), previous=None if previous is None else torch.from_numpy(previous))
    rows = RelocatedOrthogonalPerturbation(z, angle, relocation, mixing).craft(view)
    exact = None if previous is None else previous.astype(float)
    wanted = slow.rop(honest.astype(float), exact, z, angle, relocation, mixing)
    np.testing.assert_allclose(rows.numpy(), wanted, rtol=1e-5, atol=1e-5)


def test_rop_is_orthogonal_to_its_reference_and_as_long_as_that_of_lie_by_default() -> None:
    previous = torch.from_numpy(honest_updates(1, seed=5)[0])
    view = replace(make_view(honest_updates(16), 4), previous=previous)
    moved = RelocatedOrthogonalPerturbation(mixing=1).craft(view) - previous
    assert abs(float(moved @ previous)) < 1e-4 and float(moved.norm()) == pytest.approx(lie_z(20, 4), rel=1e-4)


@pytest.mark.parametrize("bits", [(32,), (22, 30, 31, 32), (1, 24)])
def test_bits_are_flipped_in_the_first_coordinates(bits: tuple[int, ...]) -> None:
    own = honest_updates(3, 23)
    view = replace(make_view(honest_updates()), train_own=lambda params: torch.from_numpy(own))
    rows = BitFlip(bits, 10).craft(view).numpy()
    np.testing.assert_array_equal(rows[:, 10:], own[:, 10:])
    wanted = [[slow.flipped(value, bits) for value in row[:10]] for row in own.tolist()]
    np.testing.assert_array_equal(rows[:, :10], np.array(wanted, dtype=np.float32))
    assert torch.equal(BitFlip((32,), None, "honest_mean").craft(view), -view.mean)


def test_random_labels_are_uniform_and_leave_inputs_alone() -> None:
    shard = Shard(torch.zeros(5000, 2), torch.zeros(5000, dtype=torch.int64), 4, None, seeding.generator(0))
    x, y = RandomLabels().poison(shard)
    assert x is shard.x and not shard.y.any() and y.bincount().min() > 1100
    half = RandomLabels(0.5).poison(replace(shard, rng=seeding.generator(0)))[1]
    assert 0.3 < (half != 0).float().mean() < 0.45


def test_free_riders_repeat_the_last_update_or_send_no_change() -> None:
    previous = torch.from_numpy(honest_updates(1, 4000, seed=3)[0])
    view = replace(make_view(honest_updates(7, 4000)), previous=previous, round=8)
    assert torch.equal(FreeRider().craft(view), previous) and not FreeRider("model").craft(view).any()
    assert not FreeRider().craft(replace(view, previous=None)).any()
    noise = FreeRider(noise=6, decay=0.5).craft(view) - previous
    assert noise.shape == (3, 4000) and float(noise.std()) == pytest.approx(2, rel=0.05)  # 6 / sqrt(round 9)
    assert abs(np.corrcoef(noise.numpy()) - np.eye(3)).max() < 0.06
    models = replace(view, upload=lambda updates: 1 - updates)
    assert (FreeRider("model").craft(models) == 1).all(), "the received model, where clients send models"


def test_zeros_are_zeros() -> None:
    assert not Zero().craft(make_view(honest_updates())).any()


# --- mimic as its paper has it ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("warmup", [1, 3, 9])
def test_mimic_finds_the_client_of_its_paper(warmup: int) -> None:
    clients = honest_updates(6, 40)  # each has a direction of its own
    rounds = [(clients + 0.3 * honest_updates(6, 40, seed)).astype(np.float32) for seed in range(1, 7)]
    start = make_view(rounds[0]).rng.standard_normal(40)
    attack, memory, copied = Mimic(warmup=warmup), {}, []
    for honest in rounds:
        crafted = attack.craft(replace(make_view(honest), memory=memory))
        assert isinstance(crafted, Crafted)
        memory = dict(crafted.memory)
        copied.append(int((torch.from_numpy(honest) == crafted.rows).all(dim=1).nonzero()))
    assert copied == slow.mimicked([honest.astype(float) for honest in rounds], start, warmup)
    assert len(set(copied[warmup - 1 :])) <= 1, "after the warm-up it keeps to its client"


def test_mimic_keeps_to_its_client_by_its_number() -> None:
    honest = honest_updates(6, 40)
    first = Mimic(warmup=1).craft(make_view(honest))
    assert isinstance(first, Crafted)
    chosen = int(first.memory["client"])
    order = torch.tensor([3, 0, 5, 2, 4, 1])
    second = replace(make_view(honest[order.numpy()]), clients=order, memory=first.memory)
    again = Mimic(warmup=1).craft(second)
    assert isinstance(again, Crafted) and torch.equal(again.rows, torch.from_numpy(honest[chosen]))
    without = order[order != chosen]
    third = Mimic(warmup=1).craft(replace(make_view(honest[without.numpy()]), clients=without, memory=first.memory))
    along = torch.from_numpy(honest[without.numpy()]).double() @ first.memory["z"]
    assert isinstance(third, Crafted) and torch.equal(third.rows, torch.from_numpy(honest[without[along.argmax()]]))


# --- backdoors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scaling", [UNIT, STANDARD])
@pytest.mark.parametrize("attacker", [0, 2, 5, None])
def test_each_attacker_of_a_distributed_backdoor_has_one_bar_and_the_test_all(scaling: Any, attacker: Any) -> None:
    attack = Dba(target=7, fraction=0.25, length=2, gap=1, margin=1)
    given = replace(shard(scaling=scaling), attacker=attacker)
    before = given.x.clone()
    x, y = attack.poison(given)
    assert torch.equal(x[:200], before) and torch.equal(y[:200], given.y) and (y[200:] == 7).all() and len(x) == 250
    order = torch.from_numpy(seeding.generator(0, "poison", 0).permutation(200)[:50])
    which = range(4) if attacker is None else [attacker % 4]
    for image, original in zip(scaling.pixels(x[200:]).numpy(), scaling.pixels(before[order]).numpy(), strict=True):
        np.testing.assert_allclose(image, slow.bars(original, 2, 1, 1, which), atol=1e-6)
    with pytest.raises(ConfigError, match="attack dba needs images of 10 pixels a side or more"):
        Dba().poison(given)


def test_the_engine_numbers_the_attackers() -> None:
    @dataclass(frozen=True)
    class Numbered(Attack):
        def poison(self, shard: Shard) -> tuple[Tensor, Tensor]:
            return shard.x, torch.full_like(shard.y, shard.attacker or 0)

    f = small(*ATTACKED, attack=Numbered())
    assert [int(f.byzantine.y[f.byzantine.slice(i)].unique()) for i in range(4)] == [0, 1, 2, 3]
    assert int(f.clients.poisoned(f.clients.byzantine_ids[[2]], f.parts.attack).y.unique()) == 2


@pytest.mark.parametrize("scaling", [UNIT, STANDARD])
def test_a_blended_backdoor_has_the_same_pattern_everywhere(scaling: Any) -> None:
    attack, key = Blended(target=3, alpha=0.3), None
    for given in (shard(0, scaling=scaling), shard(1, scaling=scaling)):
        x, y = attack.goal(given)
        original = scaling.pixels(given.x[given.y != 3])
        added = (scaling.pixels(x) - 0.7 * original) / 0.3
        assert (y == 3).all() and float(added.std(dim=0).max()) < 1e-5, "one pattern for all images"
        assert key is None or torch.allclose(added[0], key, atol=1e-5), "and for all clients"
        key = added[0]
    assert key is not None and 0 <= float(key.min()) < 0.1 and 0.9 < float(key.max()) <= 1.00001
    other = Blended(target=3, alpha=0.3, pattern_seed=1).goal(shard(1, scaling=scaling))[0]
    assert not torch.equal(other, x)


def test_edge_cases_are_the_samples_farthest_from_the_mean_of_their_class() -> None:
    given = shard(n=60, classes=5)
    before = given.y.clone()
    x, y = EdgeCase(target=2, share=0.15).poison(given)
    wanted = slow.rarest(given.x.double().numpy(), before.numpy(), 2, 0.15)
    assert x is given.x and torch.equal(given.y, before)
    assert sorted(wanted) == (y != before).nonzero().squeeze(1).tolist() and (y[wanted] == 2).all()
    goal_x, goal_y = EdgeCase(target=2, share=0.15).goal(given)
    assert torch.equal(goal_x, given.x[wanted]) and (goal_y == 2).all()
    with pytest.raises(ConfigError, match="needs inputs that are numbers"):
        EdgeCase().poison(text())


@pytest.mark.parametrize(("factor", "wanted"), [(None, 5), (3, 3)])
def test_model_replacement_enlarges_what_was_learned(factor: float | None, wanted: float) -> None:
    own = torch.from_numpy(honest_updates(4, 23, seed=2))
    view = replace(make_view(honest_updates(16), 4), train_own=lambda params: own)
    attack = ModelReplacement(RandomLabels(), factor)
    assert attack.crafts and attack.poisons
    torch.testing.assert_close(attack.craft(view), wanted * own)
    received = torch.ones(23)
    models = replace(view, upload=lambda updates: received - updates, train_own=lambda params: received - own)
    torch.testing.assert_close(attack.craft(models), received - wanted * own)
    remembered = ModelReplacement(Mimic(warmup=1), factor).craft(view)
    assert isinstance(remembered, Crafted) and set(remembered.memory) == {"mu", "z", "rounds", "client"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NonFinite("nought"), "value must be one of plus_infinity, minus_infinity, not_a_number"),
        (lambda: BitFlip((0,)), r"bits must be a list of whole numbers in \[1, 32\], got \[0\]"),
        (lambda: BitFlip(vector="some"), "vector must be one of own, honest_mean"),
        (lambda: OptimalLittleIsEnough(objective="harm"), "objective must be one of distance, loss"),
        (lambda: OptimalInnerProductManipulation(evaluations=0), "evaluations must be >= 1"),
        (lambda: RelocatedOrthogonalPerturbation(angle=400), r"angle must be in \[0, 360\]"),
        (lambda: FreeRider("nothing"), "sends must be one of update, model"),
        (lambda: Mimic(client=1, warmup=3), "set attack.client or attack.warmup to null"),
        (lambda: Blended(alpha=2), r"alpha must be in \[0, 1\]"),
        (lambda: Dba(length=0), "length must be >= 1"),
        (lambda: EdgeCase(share=-1), r"share must be in \[0, 1\]"),
        (lambda: EdgeCase(target=12).goal(shard()), "attack.target is 12, but the classes are 0 to 9"),
        (lambda: MinMax(evaluations=0), "evaluations must be >= 1"),
    ],
)
def test_bad_settings_are_one_clear_line(make: Any, message: str) -> None:
    refused(make, message)


# --- every attack in the engine --------------------------------------------------------------------------------------

NEEDS = {"dba": "attack.length=2"}  # digits have 8 x 8 pixels


@pytest.mark.parametrize("local_update", ["fedsgd", "rsa"], ids=["updates", "models"])
@pytest.mark.parametrize("name", [name for name in names("attack") if name != "none"])
def test_every_attack_runs_on_its_own_knowledge_on_updates_and_on_models(name: str, local_update: str) -> None:
    overrides = [*ATTACKED, f"attack={name}", "knowledge=own", f"local_update={local_update}"]
    f = small(*overrides, *([NEEDS[name]] if name in NEEDS else []))
    state, happened = initial_state(f), []
    try:
        for _ in range(2):
            state, one = step(f, state)
            happened.append(one.models[0])
    except ConfigError as error:
        pytest.skip(f"not on digits: {error}")  # test_matrix.py counts these
    assert state.params.isfinite().all() and state.params.shape == (1, f.network.dim)
    non_finite = [model.non_finite for model in happened]
    assert non_finite == [0, 0] or "finite" in f.parts.attack.exempt
    assert non_finite == [4, 4] or name not in {"infinity", "not_a_number"}
