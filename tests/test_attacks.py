"""Attacks against slow references, their defining properties, and every file in conf/attack."""

import dataclasses

import numpy as np
import pytest
import torch

from robustfl_bench.base import seeding
from robustfl_bench.doors.testing import check_attack, example_shard
from robustfl_bench.interfaces import Attack, AttackView, ConfigError
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.attacks.gauss import Gauss
from robustfl_bench.parts.attacks.ipm import InnerProductManipulation
from robustfl_bench.parts.attacks.lie import LittleIsEnough, lie_z
from robustfl_bench.parts.attacks.mimic import Mimic, most_skewed
from robustfl_bench.parts.attacks.minmax import MinMax
from robustfl_bench.parts.attacks.minsum import MinSum
from robustfl_bench.parts.attacks.none import NoAttack
from robustfl_bench.parts.attacks.perturbation import largest_gamma
from robustfl_bench.runner.config import options
from tests import reference_attacks as reference
from tests.rounds import build, names, refused

NAMES = names("attack")
ATTACKS = [build("attack", name) for name in NAMES]
MULTIPLIED = (  # with the honest updates, whose order does not matter
    "adaptive", "cluster_target", "free_rider", "ipm", "krum_attack", "lie", "mimic", "minmax", "minsum", "scheduled",
    "trim_attack", "zero",
)  # fmt: skip


def honest_updates(h=7, d=23, seed=0):
    """Updates whose mean is not zero and whose coordinates differ in scale."""
    rng = seeding.generator(seed, "test", "honest")
    return (rng.normal(size=(h, d)) * rng.uniform(0.1, 3, size=d) + rng.normal(size=d)).astype(np.float32)


def make_view(honest, num_byzantine=3, seed=0, label_counts=None):
    matrix = torch.from_numpy(honest)
    h, d = matrix.shape

    def unused(*_):
        raise AssertionError("this attack needs neither training of its own nor the server's rule")

    return AttackView(
        honest=Updates(matrix),
        clients=torch.arange(h),
        n=h + num_byzantine,
        num_byzantine=num_byzantine,
        round=0,
        memory={},
        lr=0.1,
        params=torch.zeros(d),
        previous=None,
        label_counts=torch.ones(h, 3, dtype=torch.int64) if label_counts is None else torch.tensor(label_counts),
        rng=seeding.generator(seed, "attack", 0),
        train_own=unused,
        aggregate=unused,
        upload=lambda updates: updates,
        after=unused,
        assess=unused,
    )


def test_a_file_has_all_options_of_its_attack():
    assert len(NAMES) >= 35
    for name, attack in zip(NAMES, ATTACKS, strict=True):
        assert isinstance(attack, Attack)
        keys = options.option("attack", name).keys() - {"_target_"}
        assert keys == {field.name for field in dataclasses.fields(attack)}, name


@pytest.mark.parametrize("attack", ATTACKS, ids=NAMES)
def test_contract(attack):
    check_attack(attack)


@dataclasses.dataclass(frozen=True)
class Counting(InnerProductManipulation):
    """Counts its rounds on itself."""

    rounds: list[int] = dataclasses.field(default_factory=list)

    def craft(self, view):
        self.rounds.append(view.round)
        return super().craft(view)


def test_an_attack_that_keeps_state_on_itself_breaks_its_contract():
    with pytest.raises(AssertionError, match="Counting: memory: keeps rounds on itself"):
        check_attack(Counting())


@pytest.mark.parametrize("attack", ATTACKS, ids=NAMES)
def test_is_frozen_and_leaves_data_alone_unless_it_poisons(attack):
    with pytest.raises(dataclasses.FrozenInstanceError):
        attack.scale = 1
    if not attack.poisons:
        given = example_shard()
        x, y = attack.poison(given)
        assert torch.equal(x, given.x) and torch.equal(y, given.y)


def test_none_has_no_byzantine_clients():
    assert not NoAttack().present
    assert all(attack.present for attack in ATTACKS if not isinstance(attack, NoAttack))


@pytest.mark.parametrize(("attack", "std"), [(Gauss(), 200), (Gauss(std=10), 10), (Gauss(variance=90), 90**0.5)])
def test_gauss_is_independent_noise_of_the_given_spread(attack, std):
    rows = attack.craft(make_view(np.zeros((2, 50_000), dtype=np.float32), 4)).double() / std
    assert rows.mean().abs() < 0.01
    assert abs(rows.std() - 1) < 0.01
    assert abs((rows**4).mean() - 3) < 0.1
    correlation = np.corrcoef(rows.numpy()) - np.eye(4)
    assert np.abs(correlation).max() < 0.03
    assert not torch.equal(rows, attack.craft(make_view(np.zeros((2, 50_000), dtype=np.float32), 4, seed=1)) / std)


@pytest.mark.parametrize("scale", [10, 0.1, -1])
def test_ipm(scale):
    honest = honest_updates()
    crafted = InnerProductManipulation(scale).craft(make_view(honest))
    np.testing.assert_allclose(crafted.numpy(), reference.ipm(honest.astype(float), scale), rtol=1e-5, atol=1e-5)


def test_ipm_turns_the_average_around_in_boba_s_setting():
    honest = honest_updates(100)
    crafted = InnerProductManipulation().craft(make_view(honest, 15)).numpy()
    average = (honest.sum(axis=0) + 15 * crafted) / 115
    assert average @ honest.mean(axis=0) < 0


@pytest.mark.parametrize(
    ("n", "b", "z"),
    [(115, 15, 0.1764), (214, 54, 0.4193), (18, 2, 0.0), (100, 20, 0.286), (50, 5, 0.084), (50, 20, 0.842)],
)
def test_lie_z_of_the_papers(n, b, z):
    assert lie_z(n, b) == pytest.approx(z, abs=6e-4 if z in (0.286, 0.084, 0.842) else 5e-5)


def test_lie_z_of_a_round_of_attackers_alone_is_that_of_a_majority():
    assert lie_z(2, 2) == lie_z(4, 4) == 0.0


@pytest.mark.parametrize("sign", ["minus", "plus"])
@pytest.mark.parametrize("ddof", [0, 1])
def test_lie(sign, ddof):
    honest = honest_updates(9)
    crafted = LittleIsEnough(sign=sign, ddof=ddof).craft(make_view(honest, 4)).numpy()
    expected = reference.lie(honest.astype(float), 4, -1 if sign == "minus" else 1, ddof)
    np.testing.assert_allclose(crafted, expected, rtol=1e-5, atol=1e-5)
    assert np.abs(crafted - reference.mean_and_std(honest)[0]).max() > 0.1


def test_lie_with_fixed_z():
    honest = honest_updates(9)
    mean, std = reference.mean_and_std(honest.astype(float))
    crafted = LittleIsEnough(z=0.7, sign="plus").craft(make_view(honest, 4)).numpy()
    np.testing.assert_allclose(crafted, mean + 0.7 * std, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", MULTIPLIED)
def test_order_of_honest_clients_and_scale_do_not_matter(name):
    attack, honest = build("attack", name), honest_updates()
    counts = np.array([[3, 3, 3], [0, 2, 9], [5, 4, 1], [9, 0, 2], [0, 11, 0], [4, 4, 5], [6, 1, 1]])
    order = np.array([4, 0, 6, 2, 5, 1, 3])
    crafted = attack.craft(make_view(honest, label_counts=counts))
    permuted = attack.craft(make_view(honest[order], label_counts=counts[order]))
    torch.testing.assert_close(permuted, crafted, rtol=1e-4, atol=1e-4)
    doubled = attack.craft(make_view(2 * honest, label_counts=counts))
    torch.testing.assert_close(doubled, 2 * crafted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("attack", [LittleIsEnough(z=1), MinMax(), MinSum(), Mimic(2)], ids=str)
def test_crafted_updates_move_with_the_honest_ones(attack):
    honest, shift = honest_updates(), honest_updates(1, seed=1)
    moved = attack.craft(make_view(honest + shift)) - torch.from_numpy(shift[0])
    torch.testing.assert_close(moved, attack.craft(make_view(honest)), rtol=1e-4, atol=1e-4)


def test_std_of_the_view():
    honest = honest_updates(5, 9000)
    np.testing.assert_allclose(make_view(honest).std.numpy(), honest.astype(float).std(axis=0, ddof=1), rtol=1e-5)
    assert not make_view(honest_updates(1)).std.any()


def test_mimic_copies_the_most_skewed_honest_client():
    honest = honest_updates(5)
    counts = np.array([[4, 4, 4], [6, 2, 0], [0, 5, 0], [70, 0, 0], [0, 0, 8]])
    crafted = Mimic().craft(make_view(honest, label_counts=counts)).numpy()
    np.testing.assert_array_equal(crafted, honest[2])
    np.testing.assert_array_equal(crafted, reference.mimic(honest, counts))
    np.testing.assert_array_equal(Mimic(client=1).craft(make_view(honest, label_counts=counts)).numpy(), honest[1])
    with pytest.raises(ConfigError, match=r"attack\.client is 5, but the honest clients are 0 to 4"):
        Mimic(client=5).craft(make_view(honest))


def test_most_skewed_takes_the_first_of_equals():
    counts = np.array([[0, 0, 0], [1, 2, 3], [300, 100, 200], [7, 21, 14]])
    assert most_skewed(torch.tensor(counts)) == 1
    assert most_skewed(torch.tensor(counts[:1])) == 0


MOVED = [
    (MinMax, {}, reference.minmax_allows),
    (MinSum, {}, reference.minsum_allows),
    (MinSum, {"reference": "min"}, lambda honest, crafted: reference.minsum_allows(honest, crafted, min)),
]


@pytest.mark.parametrize("kind", ["std", "inverse_std", "unit", "sign"])
@pytest.mark.parametrize(("attack", "options", "allows"), MOVED, ids=["minmax", "minsum", "minsum-min"])
def test_minmax_and_minsum(attack, options, allows, kind):
    for seed in range(3):
        honest = honest_updates(6, 17, seed)
        exact = honest.astype(float)
        crafted = attack(perturbation=kind, **options).craft(make_view(honest)).numpy()
        expected, gamma = reference.moved_mean(exact, kind, allows)
        assert gamma < 20
        np.testing.assert_allclose(crafted, expected, rtol=1e-4, atol=1e-4)
        # As far as allowed: a little less is within the constraint, a little more is not.
        mean, p = reference.mean_and_std(exact)[0], reference.direction(exact, kind)
        reached = (crafted - mean) @ p / (p @ p)
        assert reached == pytest.approx(gamma, abs=3e-5)
        assert gamma == 0 or allows(exact, mean + (reached - 3e-5) * p)
        assert not allows(exact, mean + (reached + 3e-5) * p)


def test_minmax_and_minsum_differ():
    honest = honest_updates(6, 17)
    view = make_view(honest)
    gammas = [(attack("inverse_std", **options).craft(view) - view.mean).norm() for attack, options, _ in MOVED]
    assert gammas[0] > gammas[1] * 1.01 > gammas[2] * 1.01**2


@pytest.mark.parametrize("attack", [MinMax(), MinSum(), MinMax(gamma_init=3), MinSum(perturbation="unit")], ids=str)
def test_minmax_and_minsum_stay_right_when_updates_nearly_agree(attack):
    honest = (1 + 1e-4 * honest_updates(6, 400)).astype(np.float32)
    allows = reference.minmax_allows if isinstance(attack, MinMax) else reference.minsum_allows
    expected, _ = reference.moved_mean(honest.astype(float), attack.perturbation, allows, attack.gamma_init)
    np.testing.assert_allclose(attack.craft(make_view(honest)).numpy(), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("gamma_init", [10, 3, 0.5])
@pytest.mark.parametrize("largest", [0.0, 1e-7, 0.3, 2.718, 9.99, 15, 19.9999, 50])
def test_search_finds_the_largest_allowed_gamma_below_twice_its_start(gamma_init, largest):
    tried = []

    def allowed(gamma):
        tried.append(gamma)
        return gamma <= largest

    found = largest_gamma(allowed, gamma_init, 1e-5)
    assert found == reference.search(lambda gamma: gamma <= largest, gamma_init, 1e-5)
    assert found <= min(largest, 2 * gamma_init)
    assert found == pytest.approx(min(largest, 2 * gamma_init), abs=2e-5)
    assert tried[0] == gamma_init
    assert len(tried) < 25


def test_minmax_search_reads_the_updates_once(monkeypatch):
    view, calls = make_view(honest_updates(20, 500)), []
    cross = Updates.cross
    monkeypatch.setattr(Updates, "cross", lambda self, vectors: calls.append(vectors.shape) or cross(self, vectors))
    MinMax().craft(view)
    assert calls == [(1, 500)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Gauss(variance=-1), "variance must be >= 0, got -1"),
        (lambda: Gauss(std="wide"), "std must be a number or null, got 'wide'"),
        (lambda: InnerProductManipulation(scale="ten"), "scale must be a number, got 'ten'"),
        (lambda: InnerProductManipulation(scale=float("nan")), "scale must be"),
        (lambda: LittleIsEnough(sign="down"), "sign must be one of minus, plus, got 'down'"),
        (lambda: LittleIsEnough(ddof=2), r"ddof must be in \[0, 1\], got 2"),
        (lambda: Mimic(-1), "client must be >= 0, got -1"),
        (lambda: Mimic(0.5), "client must be a whole number or null, got 0.5"),
        (lambda: MinMax("down"), "perturbation must be one of std, inverse_std, unit, sign, got 'down'"),
        (lambda: MinMax(tau=0), "tau must be >= 1e-12, got 0"),
        (lambda: MinSum(gamma_init="far"), "gamma_init must be a number, got 'far'"),
        (lambda: MinSum(reference="mean"), "reference must be one of max, min, got 'mean'"),
        (lambda: LittleIsEnough(z=True), "z must be a number or null, got True"),
    ],
)
def test_bad_input_is_one_clear_line(make, message):
    refused(make, message)
