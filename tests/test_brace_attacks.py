"""The attacks of BRACE's comparison: slow versions, what each is for, and what the backdoor's success counts."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from robustfl_bench.base import seeding
from robustfl_bench.interfaces import Aggregator, Attack, AttackView
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.aggregators.average import Average
from robustfl_bench.parts.aggregators.brace import Brace
from robustfl_bench.parts.aggregators.coomed import CooMed
from robustfl_bench.parts.aggregators.krum import Krum
from robustfl_bench.parts.aggregators.trmean import TrMean
from robustfl_bench.parts.attacks.adaptive import Adaptive
from robustfl_bench.parts.attacks.backdoor import Backdoor
from robustfl_bench.parts.attacks.krum_attack import KrumAttack
from robustfl_bench.parts.attacks.label_flip import LabelFlip
from robustfl_bench.parts.attacks.minmax import MinMax
from robustfl_bench.parts.attacks.minsum import MinSum
from robustfl_bench.parts.attacks.tailored import Tailored
from robustfl_bench.parts.attacks.trim_attack import TrimAttack
from tests import reference
from tests import reference_attacks as slow
from tests.rounds import refused, skewed_round
from tests.test_attacks import honest_updates, make_view
from tests.test_data_poisoning import STANDARD, UNIT, shard, text

SERVER = skewed_round(0)[1]


def crafted(attack: Attack, view: AttackView) -> np.ndarray:
    rows: np.ndarray = attack.craft(view).double().numpy()
    return rows


def everyone(view: AttackView, rows: Tensor) -> Updates:
    """The honest updates with the attackers' below them."""
    return Updates(torch.cat([view.honest.matrix, rows.expand(view.num_byzantine, -1)]))


def against(rule: Aggregator, view: AttackView) -> AttackView:
    """The same view for attackers who can ask the rule."""
    return replace(view, aggregate=lambda rows: rule(everyone(view, rows), SERVER))


def partial(own: np.ndarray, **kwargs: Any) -> AttackView:
    """What attackers of partial knowledge see: their own updates, among honest ones that they do not look at."""
    nothing = np.full((9, own.shape[1]), np.nan, dtype=np.float32)
    return replace(make_view(nothing, len(own), **kwargs), train_own=lambda params: torch.from_numpy(own))


def test_label_flip_counts_from_the_other_end() -> None:
    given = shard()
    before = given.y.clone()
    x, y = LabelFlip().poison(given)
    assert x is given.x and torch.equal(given.y, before)
    assert all(int(new) == 9 - int(old) for new, old in zip(y, before, strict=True))


@pytest.mark.parametrize("factor", [1, 2, 7.5])
def test_trim_attack(factor: float) -> None:
    for seed in range(3):
        honest = honest_updates(9, 60, seed)
        expected = slow.trim_attack(honest.astype(float), factor)
        np.testing.assert_allclose(crafted(TrimAttack(factor=factor), make_view(honest)), expected, rtol=1e-5)


def test_trim_attack_is_beyond_every_honest_value_and_turns_the_trimmed_mean_back() -> None:
    honest = honest_updates(20, 300)
    view = make_view(honest, 4)
    for attack in (TrimAttack(), TrimAttack(random=True)):
        rows = attack.craft(view).expand(4, -1).numpy()
        up = honest.mean(axis=0) > 0
        assert (rows <= honest.min(axis=0) + 1e-6)[:, up].all() and (rows >= honest.max(axis=0) - 1e-6)[:, ~up].all()
    assert len({tuple(row) for row in rows}) == 4  # with `random` the attackers differ, within the two extremes
    assert (np.abs(rows) <= 2 * np.abs(honest).max(axis=0) + 1e-5).all()
    for rule in (TrMean(4), CooMed()):
        moved = rule(everyone(view, TrimAttack().craft(view)), SERVER).vector.numpy() - honest.mean(axis=0)
        assert (np.sign(moved) != np.sign(honest.mean(axis=0))).mean() > 0.9


def test_trim_attack_with_partial_knowledge() -> None:
    own = honest_updates(6, 50)
    mean, std = slow.mean_and_std(own.astype(float))
    expected = mean - np.sign(mean) * 3.5 * std
    np.testing.assert_allclose(crafted(TrimAttack("partial"), partial(own)), expected, rtol=1e-4, atol=1e-5)
    drawn = crafted(TrimAttack("partial", random=True), partial(own))
    assert drawn.shape == (6, 50)
    steps = (mean - drawn) * np.sign(mean) / std
    assert steps.min() > 2.999 and steps.max() < 4.001 and steps.std() > 0.2
    assert np.isfinite(crafted(TrimAttack("partial"), partial(own[:1]))).all()


@pytest.mark.parametrize(("h", "b"), [(9, 3), (17, 4), (8, 1)])
def test_krum_attack(h: int, b: int) -> None:
    for seed in range(3):
        honest = honest_updates(h, 40, seed)
        exact = honest.astype(float)
        expected, chosen_by_krum = slow.krum_attack(
            exact, b, lambda rows, f: int(reference.krum_scores(rows, f).argmin())
        )
        view = make_view(honest, b)
        np.testing.assert_allclose(crafted(KrumAttack(), view), expected, rtol=1e-4)
        chosen = Krum(b)(everyone(view, KrumAttack().craft(view)), SERVER).weights
        assert chosen is not None and float(chosen[h:].sum()) == chosen_by_krum


def test_krum_attack_points_against_the_honest_updates() -> None:
    honest = honest_updates(20, 400) + 1
    view = make_view(honest, 5)
    rows = KrumAttack().craft(view)
    assert float(rows @ view.mean) < 0
    weights = Krum(5)(everyone(view, rows), SERVER).weights
    assert weights is not None and float(weights[20:].sum()) == 1
    stronger = Krum(5)(everyone(view, 2 * rows), SERVER).weights
    assert stronger is not None and float(stronger[20:].sum()) == 0, "twice as much would have been noticed"


def test_krum_attack_with_partial_knowledge_looks_at_nothing_else() -> None:
    own = honest_updates(8, 40)
    rows = crafted(KrumAttack("partial"), partial(own))
    scales = np.abs(rows)
    assert np.ptp(scales) < 1e-6 and scales.max() > 1e-5
    np.testing.assert_array_equal(np.sign(rows), -np.sign(own.mean(axis=0)))
    assert np.isfinite(crafted(KrumAttack("partial"), partial(own[:1]))).all()


@pytest.mark.parametrize("attack", [KrumAttack(), KrumAttack("partial"), TrimAttack(), TrimAttack("partial"),
                                    MinMax("unit"), MinMax("sign"), MinSum("unit"), MinSum("sign")])  # fmt: skip
def test_models_are_attacked_by_what_clients_have_learned(attack: Attack) -> None:
    """Whatever the server's model is: the attackers send the model that the same attack on the updates leads to."""
    honest = honest_updates(7)
    own = torch.from_numpy(honest[:3])
    view = replace(make_view(honest), train_own=lambda _: own)
    params = torch.full((honest.shape[1],), 5.0)
    models = replace(view, honest=Updates(params - view.honest.matrix), params=params, train_own=lambda _: params - own,
                     upload=lambda updates: params - updates)  # fmt: skip
    torch.testing.assert_close(params - attack.craft(models), attack.craft(view), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("threshold", "factor"), [(5, 1), (0, 10), (2, 0.5)])
def test_adaptive(threshold: float, factor: float) -> None:
    honest = honest_updates(12, 80)
    honest[:, ::7] = 0
    expected = slow.adaptive(honest.astype(float), threshold, factor)
    np.testing.assert_allclose(crafted(Adaptive(threshold, factor), make_view(honest)), expected, rtol=1e-5)


def test_adaptive_turns_as_many_decisions_of_brace_as_its_votes_can() -> None:
    honest = np.random.default_rng(0).normal(0.1, 1, size=(40, 2000)).astype(np.float32)
    view, rule = make_view(honest, 10), Brace(5)
    before = rule(view.honest, SERVER).vector
    after = rule(everyone(view, Adaptive(5).craft(view)), SERVER).vector
    lead = view.honest.votes
    within = ((lead > 5) & (lead - 10 <= 5)) | ((lead <= 5) & (lead + 10 > 5))
    assert torch.equal(before != after, within) and 0.3 < float(within.float().mean()) < 1
    for other in (TrimAttack(), KrumAttack(), Tailored("sign")):
        rows = other.craft(against(rule, view))
        assert int((rule(everyone(view, rows), SERVER).vector != before).sum()) <= int(within.sum())


@pytest.mark.parametrize("kind", ["std", "inverse_std", "sign", "unit"])
@pytest.mark.parametrize("rule", [TrMean(4), CooMed(), Krum(4), Brace(2)], ids=lambda rule: type(rule).__name__)
def test_tailored_moves_the_rule_farther_than_any_gamma_it_could_have_tried(rule: Aggregator, kind: str) -> None:
    honest = honest_updates(16, 200)
    view = against(rule, make_view(honest, 4))
    calm = view.aggregate(view.mean).vector

    def moved(rows: Tensor) -> float:
        return float((view.aggregate(rows).vector - calm).norm())

    reached = moved(Tailored(kind, 2 if kind == "unit" else 0.25, evaluations=14).craft(view))
    direction = slow.direction(honest.astype(float), kind)
    grid = [moved(view.mean + gamma * torch.from_numpy(direction).float()) for gamma in (0.1, 0.5, 1, 1.5, 2, 4, 50)]
    assert reached >= 0.95 * max(grid) > 0
    assert moved(Tailored(kind, 1, evaluations=1).craft(view)) == pytest.approx(grid[2], rel=1e-4)


def test_tailored_against_a_mean_goes_as_far_as_it_may() -> None:
    view = against(Average(), make_view(honest_updates(), 3))
    rows = Tailored(gamma_init=1, evaluations=5).craft(view)
    torch.testing.assert_close(rows, view.mean - 8 * view.std, rtol=1e-4, atol=1e-4)  # 1, 2, 4, then 4 + 2 and 6 + 2


@pytest.mark.parametrize("scaling", [UNIT, STANDARD])
@pytest.mark.parametrize(("size", "margin"), [(3, 1), (1, 0), (2, 4)])
def test_the_backdoor_s_samples(scaling: Any, size: int, margin: int) -> None:
    given = shard(scaling=scaling)
    before = given.x.clone()
    x, y = Backdoor(target=7, size=size, margin=margin, fraction=0.25).poison(given)
    assert torch.equal(given.x, before) and torch.equal(x[:200], before) and torch.equal(y[:200], given.y)
    assert len(x) == 250 and (y[200:] == 7).all()
    order = seeding.generator(0, "poison", 0)
    originals = scaling.pixels(before[torch.from_numpy(order.permutation(200)[:50])])
    for image, original in zip(scaling.pixels(x[200:]).numpy(), originals.numpy(), strict=True):
        np.testing.assert_allclose(image, slow.triggered(original, size, margin), atol=1e-6)


def test_the_backdoor_s_goal_leaves_its_own_class_out() -> None:
    given = shard()
    x, y = Backdoor(target=3, margin=1).goal(given)
    assert (y == 3).all() and len(x) == int((given.y != 3).sum())
    kept = given.x[given.y != 3]
    assert (x[:, :, 2:5, 2:5] == 1).all() and torch.equal(x[:, :, :2], kept[:, :, :2])


def test_the_backdoor_s_share_and_scale() -> None:
    lengths = [len(Backdoor().poison(shard(client, n=100))[1]) for client in range(60)]
    assert min(lengths) >= 101 and max(lengths) <= 200 and np.std(lengths) > 20
    own = honest_updates(4, 10)
    view = replace(make_view(honest_updates(16, 10), 4), train_own=lambda params: torch.from_numpy(own))
    np.testing.assert_allclose(crafted(Backdoor(), view), 5 * own, rtol=1e-6)  # 20 clients, 4 of them attackers
    np.testing.assert_allclose(crafted(Backdoor(scale=1), view), own, rtol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Backdoor(size=9).poison(shard()), "images of 12 pixels a side"),
        (lambda: Backdoor().poison(text()), "needs images"),
        (lambda: Backdoor(target=10).goal(shard()), "attack.target is 10, but the classes are 0 to 9"),
        (lambda: Backdoor(fraction=2), "fraction must be in"),
        (lambda: TrimAttack("none"), "knowledge must be one of full, partial"),
        (lambda: TrimAttack(factor=0.5), "factor must be >= 1"),
        (lambda: KrumAttack("some"), "knowledge must be one of full, partial"),
        (lambda: Adaptive(factor=-1), "factor must be >= 0"),
        (lambda: Tailored("up"), "perturbation must be one of"),
        (lambda: Tailored(evaluations=0), "evaluations must be >= 1"),
    ],
)
def test_bad_input_is_one_clear_line(make: Any, message: str) -> None:
    refused(make, message)
