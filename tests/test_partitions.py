"""Partitions: what each promises, on random label lists, and every file in conf/partition."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustfl_bench.base import seeding
from robustfl_bench.doors.testing import check_partition
from robustfl_bench.interfaces import ConfigError, DataError
from robustfl_bench.parts.partitions import from_file
from robustfl_bench.parts.partitions.classes_per_client import ClassesPerClient
from robustfl_bench.parts.partitions.dealing import label_counts, share
from robustfl_bench.parts.partitions.dirichlet import Dirichlet
from robustfl_bench.parts.partitions.fang import Fang
from robustfl_bench.parts.partitions.from_file import FromFile
from robustfl_bench.parts.partitions.gamma_similarity import GammaSimilarity
from robustfl_bench.parts.partitions.iid import IID
from robustfl_bench.parts.partitions.long_tail import LongTail
from robustfl_bench.parts.partitions.mixed_skew import MixedSkew
from robustfl_bench.parts.partitions.natural import Natural
from robustfl_bench.parts.partitions.natural_parts import NaturalParts
from robustfl_bench.parts.partitions.pathological import Pathological
from robustfl_bench.parts.partitions.quantity_skew import QuantitySkew
from robustfl_bench.parts.partitions.shards import deal_shards, shards_per_class
from robustfl_bench.parts.partitions.step import Step
from robustfl_bench.runner.config import options, targets
from tests.rounds import refused

PARTITION_FILES = sorted((Path(__file__).parents[1] / "conf" / "partition").glob("*.yaml"))
DRAWN = [file.stem for file in PARTITION_FILES if file.stem != "from_file"]  # the others have nothing to read
PARTITIONS = [targets.build(options.option("partition", name)) for name in DRAWN]
BY_LABEL = [partition for partition in PARTITIONS if not partition.by_owner]
quick = settings(derandomize=True, max_examples=40, deadline=None)
class_sizes = st.lists(st.integers(30, 90), min_size=2, max_size=6)


def rng(seed=0):
    return seeding.generator(seed, "partition")


def labels_of(sizes, seed=0):
    """Labels with the given class sizes, in random order."""
    return rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))


def test_files_are_complete():
    assert len(PARTITION_FILES) >= 11 and len(DRAWN) == len(PARTITION_FILES) - 1
    for name, partition in [*zip(DRAWN, PARTITIONS, strict=True), ("from_file", FromFile("partition.csv"))]:
        keys = set(options.option("partition", name)) - {"_target_"}
        assert keys == {field.name for field in dataclasses.fields(partition)}, name
        first = options.find(f"partition/{name}").read_text().splitlines()[0]
        assert first.startswith(f"# robustfl-bench partition={name}")


@pytest.mark.parametrize("partition", BY_LABEL, ids=str)
@given(sizes=class_sizes, num_clients=st.integers(3, 12), seed=st.integers(0, 5))
@quick
def test_every_sample_goes_to_exactly_one_client(partition, sizes, num_clients, seed):
    labels = labels_of(sizes, seed)
    parts = partition(labels, num_clients, rng(seed))
    assert len(parts) == num_clients
    assert all(len(part) for part in parts)
    assert all(np.issubdtype(part.dtype, np.integer) for part in parts)
    dealt = np.sort(np.concatenate(parts))
    assert len(np.unique(dealt)) == len(dealt)
    if "covering" in partition.exempt:
        assert dealt[0] >= 0 and dealt[-1] < len(labels)
    else:
        np.testing.assert_array_equal(dealt, np.arange(len(labels)))
    counts = label_counts(labels, parts, len(sizes))
    assert counts.shape == (num_clients, len(sizes))
    np.testing.assert_array_equal(counts.sum(axis=0), np.bincount(labels[dealt], minlength=len(sizes)))
    np.testing.assert_array_equal(counts.sum(axis=1), [len(part) for part in parts])


@pytest.mark.parametrize("partition", PARTITIONS, ids=str)
@pytest.mark.parametrize(("num_clients", "samples", "classes"), [(10, 600, 4), (3, 300, 6), (20, 2000, 2)])
def test_contract(partition, num_clients, samples, classes):
    check_partition(partition, num_clients, samples, classes)


@pytest.mark.parametrize("partition", BY_LABEL, ids=str)
def test_same_stream_same_parts(partition):
    labels = labels_of([200] * 4)
    first, again, other = (partition(labels, 10, rng(seed)) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize("partition", BY_LABEL, ids=str)
def test_labels_need_not_start_at_zero_nor_be_all_there(partition):
    labels = labels_of([100, 100, 100]) * 3 + 4
    parts = partition(labels, 6, rng())
    same = partition((labels - 4) // 3, 6, rng())
    assert all(np.array_equal(a, b) for a, b in zip(parts, same, strict=True))


@pytest.mark.parametrize("partition", BY_LABEL, ids=str)
@pytest.mark.parametrize(
    ("num_clients", "message"), [(11, "10 samples cannot be split over 11 clients"), (0, "num_clients must be >= 1")]
)
def test_too_many_clients(partition, num_clients, message):
    with pytest.raises(ConfigError, match=message):
        partition(labels_of([5, 5]), num_clients, rng())


def test_iid_sizes_and_statistics():
    labels = labels_of([6000] * 10)
    parts = IID()(labels, 7, rng())
    assert {len(part) for part in parts} == {60000 // 7, 60000 // 7 + 1}
    counts = label_counts(labels, parts, 10)
    expected = 6000 / 7
    chi_squared = ((counts - expected) ** 2 / expected).sum()  # about 54 degrees of freedom
    assert 20 < chi_squared < 100


@given(sizes=class_sizes, num_clients=st.integers(3, 12), per_client=st.integers(2, 3), seed=st.integers(0, 5))
@quick
def test_pathological_clients_hold_few_classes(sizes, num_clients, per_client, seed):
    labels = labels_of(sizes, seed)
    counts = label_counts(labels, Pathological(per_client)(labels, num_clients, rng(seed)), len(sizes))
    held = deal_shards(np.array(sizes), num_clients, per_client, rng(seed))
    assert (held.sum(axis=1) == per_client).all()
    np.testing.assert_array_equal(counts > 0, held > 0)
    exact = held * np.array(sizes) / held.sum(axis=0)
    assert (np.abs(counts - exact) < 1).all()


def test_pathological_in_boba_s_mnist_setting():
    sizes = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    labels = labels_of(sizes)
    counts = label_counts(labels, Pathological()(labels, 100, rng()), 10)
    assert ((counts > 0).sum(axis=0) <= 20).all()
    assert ((counts > 0).sum(axis=1) <= 2).all()
    assert ((counts > 0).sum(axis=1) == 1).sum() in range(2, 20)  # 100 * 19 / 199, about 9.5 on average
    assert counts.sum(axis=1).min() >= 2 * (5421 // 20)
    assert counts.sum(axis=1).max() <= 2 * (6742 // 20 + 1)


@pytest.mark.parametrize(
    ("sizes", "num_shards", "expected"),
    [
        ([50, 70, 60], 6, [2, 2, 2]),
        ([50, 30, 20], 10, [5, 3, 2]),
        ([55, 30, 15], 7, [4, 2, 1]),
        ([1000, 5, 5], 10, [8, 1, 1]),
        ([10, 10, 10], 4, [2, 1, 1]),
    ],
)
def test_shards_per_class(sizes, num_shards, expected):
    np.testing.assert_array_equal(shards_per_class(np.array(sizes), num_shards), expected)


@given(sizes=st.lists(st.integers(1, 500), min_size=1, max_size=8), extra=st.integers(0, 60))
@quick
def test_shards_add_up_and_every_class_has_one(sizes, extra):
    shards = shards_per_class(np.array(sizes), len(sizes) + extra)
    assert shards.sum() == len(sizes) + extra
    assert shards.min() >= 1


@given(sizes=st.lists(st.integers(0, 50), min_size=1, max_size=5), seed=st.integers(0, 20))
@quick
def test_share_is_within_one_of_proportion(sizes, seed):
    weights = rng(seed).exponential(size=(7, len(sizes)))
    counts = share(np.array(sizes), weights, rng(seed))
    np.testing.assert_array_equal(counts.sum(axis=0), sizes)
    assert (np.abs(counts - weights / weights.sum(axis=0) * sizes) <= 1).all()


@given(sizes=class_sizes, num_clients=st.integers(3, 12), seed=st.integers(0, 5))
@quick
def test_step_with_infinite_alpha_is_the_pathological_partition(sizes, num_clients, seed):
    labels = labels_of(sizes, seed)
    step = Step(float("inf"))(labels, num_clients, rng(seed))
    pathological = Pathological()(labels, num_clients, rng(seed))
    assert all(np.array_equal(a, b) for a, b in zip(step, pathological, strict=True))


def test_step_with_alpha_1_makes_clients_alike():
    labels = labels_of([600] * 10)
    counts = label_counts(labels, Step(1)(labels, 20, rng()), 10)
    assert (counts == 30).all()


@pytest.mark.parametrize("alpha", [2, 8])
def test_step_gives_major_classes_alpha_times_as_much(alpha):
    sizes, num_clients = np.full(10, 6000), 50
    labels = labels_of(sizes)
    counts = label_counts(labels, Step(alpha)(labels, num_clients, rng()), 10)
    major = deal_shards(sizes, num_clients, 2, rng())
    assert (major.sum(axis=0) == 10).all()
    once, twice, minor = counts[major == 1], counts[major == 2], counts[major == 0]
    np.testing.assert_allclose(once / minor.mean(), alpha, rtol=0.05)
    np.testing.assert_allclose(twice / minor.mean(), 2 * alpha - 1, rtol=0.05)


@pytest.mark.parametrize("per", ["client", "class"])
def test_dirichlet_with_large_alpha_is_near_uniform(per):
    labels = labels_of([600, 300, 900])
    counts = label_counts(labels, Dirichlet(1e6, per)(labels, 10, rng()), 3)
    np.testing.assert_allclose(counts, np.tile([60, 30, 90], (10, 1)), atol=2)


def test_dirichlet_per_client_draws_around_the_shares_of_the_classes():
    """Of unequal classes: the squared variation of a class over clients is that of its Beta distribution."""
    sizes, alpha, num_clients = np.array([160_000, 30_000, 10_000]), 10, 1000
    labels = labels_of(sizes.tolist())
    parts = Dirichlet(alpha)(labels, num_clients, np.random.default_rng(0))
    counts = np.array([np.bincount(labels[part], minlength=len(sizes)) for part in parts])
    shares = sizes / sizes.sum()
    variation = (counts.std(axis=0) / counts.mean(axis=0)) ** 2
    np.testing.assert_allclose(variation, (1 - shares) / (shares * (alpha + 1)), rtol=0.15)


def test_dirichlet_with_small_alpha_gives_about_one_class_per_client():
    labels = labels_of([6000] * 10)
    counts = label_counts(labels, Dirichlet(0.01)(labels, 100, rng()), 10)
    assert (counts.max(axis=1) / counts.sum(axis=1) > 0.95).mean() > 0.9
    assert counts.sum(axis=1).min() > 100


@pytest.mark.parametrize("alpha", [0.1, 1, 10])
def test_dirichlet_per_class_has_the_spread_of_its_distribution(alpha):
    """The variance of a Dir(alpha, ..., alpha) coordinate is (1/m)(1 - 1/m) / (m alpha + 1) for m clients."""
    labels, num_clients = labels_of([1000] * 100), 10
    shares = label_counts(labels, Dirichlet(alpha, "class")(labels, num_clients, rng()), 100) / 1000
    expected = 0.1 * 0.9 / (num_clients * alpha + 1)
    assert shares.var() == pytest.approx(expected, rel=0.15)


def test_dirichlet_skew_falls_with_alpha():
    labels = labels_of([600] * 10)
    skew = [label_counts(labels, Dirichlet(alpha)(labels, 20, rng()), 10).std() for alpha in (0.01, 1, 10, 100, 1e4)]
    assert skew == sorted(skew, reverse=True)


def test_dirichlet_redraws_until_everyone_has_enough():
    labels = labels_of([100] * 5)
    free = Dirichlet(0.3, "class")(labels, 10, rng(3))
    enough = Dirichlet(0.3, "class", min_size=20)(labels, 10, rng(3))
    assert min(map(len, free)) < 20 <= min(map(len, enough))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Pathological(0), "shards_per_client must be >= 1, got 0"),
        (lambda: Pathological(1.5), "shards_per_client must be a whole number, got 1.5"),
        (lambda: Pathological()(labels_of([9] * 5), 2, rng()), "4 shards are fewer than the 5 classes"),
        (lambda: Pathological()(labels_of([20, 20]), 30, rng()), "class 0 has 20 samples for 30 shards"),
        (lambda: Step(0.5), "alpha must be >= 1, got 0.5"),
        (lambda: Step(2, 0), "major_classes must be >= 1, got 0"),
        (lambda: Step()(labels_of([9] * 5), 2, rng()), "4 shards are fewer than the 5 classes"),
        (lambda: Dirichlet(0), r"alpha must be in \[1e-06, 1e\+06\], got 0"),
        (lambda: Dirichlet(per="sample"), "per must be one of client, class, got 'sample'"),
        (lambda: Dirichlet(0.01, "class")(labels_of([50] * 3), 20, rng()), "none of 1000 Dirichlet draws"),
        (lambda: Pathological()(labels_of([2, 90]), 10, rng()), "class 0 has 2 samples for 10 shards"),
    ],
)
def test_bad_input_is_one_clear_line(make, message):
    refused(make, message)


def test_fang_by_hand():
    """One group per class: its own class with probability q, all others alike, and equal shares within the group."""
    labels, num_clients = labels_of([6000] * 10), 100
    parts = Fang(0.5)(labels, num_clients, rng())
    counts = label_counts(labels, parts, 10)
    groups = counts.reshape(10, 10, 10).sum(axis=0)  # client i is in group i modulo 10
    own, other = groups.diagonal(), groups[~np.eye(10, dtype=bool)]
    assert np.abs(own - 3000).max() < 5 * 6000**0.5 / 2 and np.abs(other - 3000 / 9).max() < 5 * (3000 / 9) ** 0.5
    for group in range(10):
        sizes = [len(parts[client]) for client in range(group, 100, 10)]
        assert max(sizes) - min(sizes) <= 1
        within = counts[group::10]
        expected = within.sum(axis=0) / 10
        assert ((within - expected) ** 2 / expected).sum() < 160  # about 81 degrees of freedom


@pytest.mark.parametrize(("q", "own"), [(0.1, 0.1), (0.9, 0.9), (1, 1), (0, 0)])
def test_fang_from_iid_to_one_class(q, own):
    labels = labels_of([600] * 10)
    counts = label_counts(labels, Fang(q)(labels, 20, rng()), 10)
    share_of_own = sum(counts[client, client % 10] for client in range(20)) / 6000
    assert share_of_own == pytest.approx(own, abs=0.02)


def test_fang_with_fewer_clients_than_classes():
    labels = labels_of([100] * 10)
    counts = label_counts(labels, Fang(1)(labels, 3, rng()), 10)
    for client in range(3):
        assert set(np.flatnonzero(counts[client])) == {label for label in range(10) if label % 3 == client}
    assert Fang(0.5)(labels, 1, rng())[0].shape == (1000,)
    with pytest.raises(ConfigError, match="a group has fewer samples than clients"):
        Fang(1)(labels_of([500, 2]), 20, rng())


def test_gamma_similarity_from_iid_to_sorted():
    labels = labels_of([600] * 10)
    counts = {gamma: label_counts(labels, GammaSimilarity(gamma)(labels, 20, rng()), 10) for gamma in (0, 0.5, 1)}
    assert (counts[0].max(axis=1) == 300).all() and ((counts[0] > 0).sum(axis=1) == 1).all()
    np.testing.assert_array_equal(counts[0].argmax(axis=1), np.arange(20) // 2)
    own = counts[0.5][np.arange(20), np.arange(20) // 2]  # 150 of the sorted half, and a tenth of the other half
    assert np.abs(own - 165).max() < 25
    assert ((counts[1] - 30) ** 2 / 30).sum() < 240  # about 171 degrees of freedom


@given(samples=st.integers(10, 60), gamma=st.floats(0, 1), seed=st.integers(0, 5))
@quick
def test_gamma_similarity_leaves_nobody_without_samples(samples, gamma, seed):
    """Also where either kind of samples alone is too little for everybody."""
    sizes = [len(part) for part in GammaSimilarity(gamma)(np.arange(samples) % 3, 10, rng(seed))]
    assert min(sizes) >= 1 and max(sizes) - min(sizes) <= 2 and sum(sizes) == samples


def test_quantity_skew_by_a_power_law():
    labels = labels_of([3000] * 10)
    parts = QuantitySkew("power", exponent=1.0)(labels, 10, rng())
    sizes = np.array(sorted(map(len, parts), reverse=True))
    np.testing.assert_allclose(sizes, 30000 / np.arange(1, 11) / (1 / np.arange(1, 11)).sum(), atol=3)
    assert np.argmax([len(part) for part in parts]) != 0  # not always the first client
    largest = max(parts, key=len)
    assert np.abs(np.bincount(labels[largest]) / len(largest) - 0.1).max() < 0.02  # the same mixture of classes
    equal = QuantitySkew("power", exponent=0)(labels, 10, rng())
    assert {len(part) for part in equal} == {3000}


def test_quantity_skew_by_a_dirichlet_draw_has_its_spread():
    """The variance of a Dir(alpha, ..., alpha) coordinate is (1/m)(1 - 1/m) / (m alpha + 1) for m clients."""
    labels = np.zeros(100_000, dtype=np.int64)
    draws = [QuantitySkew(alpha=0.5)(labels, 10, rng(seed)) for seed in range(60)]
    shares = np.array([[len(part) / 100_000 for part in parts] for parts in draws])
    assert shares.var() == pytest.approx(0.1 * 0.9 / 6, rel=0.2)


def test_quantity_skew_at_its_extremes():
    labels = labels_of([500] * 4)
    sizes = sorted(len(part) for part in QuantitySkew(alpha=1e-6, min_size=10)(labels, 20, rng()))
    assert sizes[:19] == [10] * 19 and sizes[19] == 2000 - 190
    sizes = [len(part) for part in QuantitySkew(alpha=1e6)(labels, 20, rng())]
    assert max(sizes) - min(sizes) <= 2


def test_mixed_skew_has_both_its_sizes_and_its_classes():
    labels = labels_of([3000] * 10)
    parts = MixedSkew(ratio=32, alpha=5)(labels, 6, rng())
    sizes = np.array(sorted(map(len, parts), reverse=True))
    np.testing.assert_allclose(sizes, 30000 * 0.5 ** np.arange(6) / (2 - 0.5**5), atol=10)
    assert np.argmax([len(part) for part in parts]) != 0  # not always the first client
    shares = label_counts(labels, parts, 10) / np.array([[len(part)] for part in parts])
    small = shares[np.argsort([len(part) for part in parts])[:3]]
    assert small.max(axis=1).min() > 0.2  # each has a class of its own, where all alike would have 0.1 of each
    assert np.abs(small[0] - small[1]).sum() > 0.5  # and not the same one


@pytest.mark.parametrize(("alpha", "most"), [(0.01, 1.0), (1e6, 0.11)])
def test_the_classes_of_mixed_skew_go_from_one_to_all(alpha, most):
    labels = labels_of([3000] * 10)
    smallest = min(MixedSkew(ratio=32, alpha=alpha)(labels, 6, rng(1)), key=len)
    assert np.bincount(labels[smallest], minlength=10).max() / len(smallest) == pytest.approx(most, abs=0.01)


@given(sizes=class_sizes, num_clients=st.integers(3, 12), classes=st.integers(1, 6), seed=st.integers(0, 5))
@quick
def test_every_client_has_exactly_k_classes(sizes, num_clients, classes, seed):
    labels = labels_of(sizes, seed)
    if not classes <= len(sizes) <= num_clients * classes:
        with pytest.raises(ConfigError, match="cannot hold all"):
            ClassesPerClient(classes)(labels, num_clients, rng(seed))
        return
    counts = label_counts(labels, ClassesPerClient(classes)(labels, num_clients, rng(seed)), len(sizes))
    assert ((counts > 0).sum(axis=1) == classes).all()
    np.testing.assert_array_equal(counts.sum(axis=0), sizes)
    for column in counts.T:  # who holds a class has as much of it as the others that do
        assert column[column > 0].max() - column[column > 0].min() <= 1


def test_k_classes_are_drawn_as_in_niid_bench():
    labels = labels_of([600] * 10)
    held = label_counts(labels, ClassesPerClient(3)(labels, 40, rng()), 10) > 0
    assert all(held[client, client % 10] for client in range(40))
    holders = held.sum(axis=0)
    assert holders.sum() == 120 and len(set(holders.tolist())) > 1  # drawn, not dealt evenly


@pytest.mark.parametrize("factor", [1, 10, 100])
def test_a_long_tail_has_its_imbalance_factor(factor):
    labels = labels_of([1000] * 10)
    parts = LongTail(IID(), factor)(labels, 8, rng())
    kept = label_counts(labels, parts, 10).sum(axis=0)
    np.testing.assert_array_equal(kept, np.round(1000 * factor ** -(np.arange(10) / 9)))
    assert kept[0] / kept[-1] == factor
    if factor == 1:
        assert sum(map(len, parts)) == 10_000


def test_a_long_tail_is_split_by_its_inner_partition():
    labels = labels_of([400] * 5)
    counts = label_counts(labels, LongTail(Fang(1), 4)(labels, 5, rng()), 5)
    np.testing.assert_array_equal(counts, np.diag([400, 283, 200, 141, 100]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GammaSimilarity(1.1), r"gamma must be in \[0, 1\], got 1.1"),
        (lambda: QuantitySkew("zipf"), "law must be one of dirichlet, power, got 'zipf'"),
        (
            lambda: QuantitySkew(min_size=10)(labels_of([50]), 6, rng()),
            "50 samples are too few for 6 clients with 10 each",
        ),
        (lambda: MixedSkew(ratio=0.5), r"ratio must be in \[1, 1e\+06\], got 0.5"),
        (lambda: MixedSkew()(labels_of([2, 2]), 6, rng()), "4 samples cannot be split over 6 clients"),
        (lambda: ClassesPerClient(0), "classes must be >= 1, got 0"),
        (lambda: ClassesPerClient(5)(labels_of([30] * 4), 6, rng()), "take partition.classes from 1 to 4"),
        (lambda: ClassesPerClient()(labels_of([3, 90]), 10, rng()), "class 0 has 3 samples for 10 clients"),
        (lambda: LongTail(IID(), 0.5), "factor must be >= 1, got 0.5"),
        (lambda: LongTail(Natural()), "its inner partition knows owners only"),
        (lambda: LongTail(IID(), 1e9)(labels_of([9, 9, 9]), 12, rng()), "leaves 11 of 27 samples for 12 clients"),
        (lambda: FromFile(" "), "partition.path must name a file"),
    ],
)
def test_bad_input_to_the_field_s_partitions_is_one_clear_line(make, message):
    refused(make, message)


# --- partitions from files -------------------------------------------------------------------------------------------


def test_a_saved_partition_is_read_as_it_was(tmp_path):
    labels, path = labels_of([40, 50, 60]), tmp_path / "split.csv"
    shards = Dirichlet(0.5)(labels, 7, rng())
    path.write_text(from_file.text(shards, labels, {2, 5}))
    read = FromFile(str(path))(labels, 7, rng(9))
    assert all(np.array_equal(a, b) for a, b in zip(shards, read, strict=True))  # also in order
    assert path.read_text().splitlines()[0] == "sample,client,label,byzantine"


def test_a_file_of_another_program_needs_two_columns(tmp_path):
    path = tmp_path / "split.csv"
    path.write_text("client,weight,sample\r\n1,0.5,3\r\n0,x,2\r\n1,,0\r\n")
    parts = FromFile(str(path))(np.array([1, 1, 1, 1, 1]), 2, rng())
    assert [part.tolist() for part in parts] == [[2], [3, 0]]  # samples 1 and 4 go to nobody


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file or directory; robustfl-data partition --output"),
        (b"sample,owner\n0,0\n", "no column client in the first line"),
        (b"sample,client\n", "no samples"),
        (b"", "no column sample and client"),
        (b"sample,client\n0,0\n1\n", "line 3 has 1 values, the first line 2"),
        (b"sample,client\n0,0\n1.5,1\n", "invalid literal for int"),
        (b"sample,client\n0,0\n99999999999999999999,1\n", "too large"),
        (b"\x80\x04\x95 pickle", "can't decode byte 0x80"),
        (b"sample,client\n0,0\n6,1\n", "has samples 0 to 6, but there are 0 to 5 to train on"),
        (b"sample,client\n-1,0\n2,1\n", "has samples -1 to 2"),
        (b"sample,client\n0,0\n2,0\n0,1\n", "0 stand there more than once"),
        (b"sample,client\n0,0\n2,2\n", "the clients must be 0, 1, 2, ... without gaps, got 0, 2"),
        (b"sample,client,label\n0,0,0\n1,1,2\n", "sample 1 has label 1 here and 2 there"),
    ],
)
def test_a_file_that_is_no_partition_of_these_data_is_refused_in_one_line(tmp_path, content, message):
    path = tmp_path / "split.csv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=message) as error:
        FromFile(str(path))(np.arange(6), 2, rng())
    assert "\n" not in str(error.value) and str(path) in str(error.value)


def test_a_file_with_other_clients_says_how_many_it_has(tmp_path):
    path = tmp_path / "split.csv"
    path.write_text("sample,client\n0,0\n1,1\n2,2\n")
    with pytest.raises(ConfigError, match="has 3 clients; set num_clients=3"):
        FromFile(str(path))(np.arange(6), 20, rng())


def test_a_file_that_changed_after_the_run_was_configured_is_refused(tmp_path):
    path = tmp_path / "split.csv"
    path.write_text("sample,client\n0,0\n1,1\n")
    with pytest.raises(DataError, match=r"has SHA-256 \w{12}\.\.\., but the run is of 0000"):
        FromFile(str(path), digest="0" * 64)(np.arange(6), 2, rng())


def test_clients_of_the_data_in_parts():
    owners = labels_of([7, 4, 9])
    parts = NaturalParts()(owners, 6, rng())
    assert [len(part) for part in parts] == [4, 3, 2, 2, 5, 4]
    assert [set(owners[part]) for part in parts] == [{i // 2} for i in range(6)]
    assert any((np.diff(part) < 0).any() for part in parts), "at random"
    with pytest.raises(ConfigError, match="3 clients of its own: num_clients must be a multiple, got 7"):
        NaturalParts()(owners, 7, rng())
    with pytest.raises(ConfigError, match="a client of the data set has 4 samples, too few for 5 clients"):
        NaturalParts()(owners, 15, rng())
