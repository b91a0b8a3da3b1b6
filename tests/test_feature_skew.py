"""Feature skew: whose images are corrupted, by what, and whose are not; and unbalanced or noisy server data."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from robustfl_bench.base import seeding
from robustfl_bench.interfaces import Attack, ConfigError, Data
from robustfl_bench.parts import datasets
from robustfl_bench.parts.corruptions.common import CommonCorruption
from robustfl_bench.parts.datasets.digits import Digits
from robustfl_bench.parts.datasets.images import SCALINGS, to_data
from robustfl_bench.parts.server_data.per_class import PerClass
from tests import presets
from tests.presets import federation
from tests.rounds import refused

DATA = datasets.load(Digits(), None, torch.device("cpu"))


def identity(*overrides: str) -> dict[str, Any]:
    return presets.planned(*overrides).config


def pixels(x: Tensor) -> Tensor:
    assert DATA.scaling is not None
    return DATA.scaling.pixels(x)


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("channels", [1, 3])
def test_scaling_goes_there_and_back(scaling: str, channels: int) -> None:
    raw = np.random.default_rng(0).integers(0, 256, (5, channels, 4, 4), dtype=np.uint8)
    labels = np.zeros(5, dtype=np.uint8)
    mean, sd = (0.2, 0.4, 0.6)[:channels], (0.3, 0.2, 0.1)[:channels]
    data = to_data((raw, labels), (raw, labels), "official", scaling, mean, sd)
    assert data.scaling is not None
    original = torch.from_numpy(raw / np.float32(255))
    torch.testing.assert_close(data.scaling.pixels(data.train_x), original)
    torch.testing.assert_close(data.scaling.inputs(original), data.train_x)
    moved = data.to(torch.device("cpu")).scaling
    assert moved is not None and torch.equal(moved.mean, data.scaling.mean)


def test_each_client_has_its_own_corruption_and_nobody_else_any() -> None:
    before = DATA.train_x.clone()
    f = federation("corruption=common", "num_clients=8", "seed=3", "aggregator=boba")
    corrupt, kinds = CommonCorruption(3), set()
    for i in range(8):
        rng = seeding.generator(3, "corruption", i)
        expected = corrupt(pixels(DATA.train_x[f.clients.shards[i]]), rng)
        own = f.honest.x[f.honest.slice(i)]
        torch.testing.assert_close(pixels(own), expected, atol=1e-5, rtol=0)
        assert (own - DATA.train_x[f.clients.shards[i]]).abs().max() > 0.05
        kinds.add(int(seeding.generator(3, "corruption", i).integers(15)))
    assert len(kinds) > 3
    clean = federation("num_clients=8", "seed=3", "aggregator=boba")
    assert torch.equal(f.honest.y, clean.honest.y)
    assert torch.equal(f.clients.server.x, clean.clients.server.x)
    assert torch.equal(DATA.train_x, before)


def test_corruption_depends_on_neither_rule_nor_attack() -> None:
    one = federation("corruption=common", "num_clients=8", "attack=ipm", "aggregator=krum", "num_byzantine=2")
    other = federation("corruption=common", "num_clients=8")
    assert torch.equal(one.honest.x, other.honest.x)
    replaced = federation("corruption=common", "num_clients=8", "attack=ipm", "byzantine_placement=replace")
    for position, i in enumerate(replaced.clients.honest_ids):
        assert torch.equal(replaced.honest.x[replaced.honest.slice(position)], other.honest.x[other.honest.slice(i)])


def test_byzantine_clients_poison_what_their_cameras_gave_them() -> None:
    class Identity(Attack):
        """Poisons nothing: what it is given is what is seen."""

    options = ("num_clients=8", "num_byzantine=3", "attack=ipm", "byzantine_placement=replace")
    f = federation("corruption=common", *options, attack=Identity())
    everyone = federation("corruption=common", "num_clients=8").honest
    for position, i in enumerate(f.clients.byzantine_ids):
        assert torch.equal(f.byzantine.x[f.byzantine.slice(position)], everyone.x[everyone.slice(int(i))])


def test_severity_and_kinds_are_options() -> None:
    mild, strong = (
        federation("corruption=common", "corruption.kinds=[gaussian_noise]", f"corruption.severity={severity}")
        for severity in (1, 5)
    )
    clean = federation()
    change = [float((f.honest.x - clean.honest.x).square().mean().sqrt()) for f in (mild, strong)]
    assert 1.5 * change[0] < change[1]


def test_texts_have_no_images() -> None:
    texts = Data(DATA.train_x, DATA.train_y, DATA.test_x, DATA.test_y)
    with pytest.raises(ConfigError, match="this data set has none; use corruption=none"):
        federation("corruption=common", data=texts)
    assert len(federation(data=texts).honest) == 20


def test_no_corruption_is_no_part_of_a_runs_identity() -> None:
    assert not identity()["corruption"] and identity("corruption=common")["corruption"]
    assert set(identity()["server_data"]) == {"_target_", "samples_per_class"}


# ---- the server's data


def test_noisy_server_data() -> None:
    noisy = federation("server_data=noisy", "server_data.corruption.kinds=[speckle_noise]", "aggregator=boba")
    clean = federation("aggregator=boba")
    assert torch.equal(noisy.honest.x, clean.honest.x)
    assert torch.equal(noisy.clients.server.y, clean.clients.server.y)
    for label in range(10):
        own = clean.clients.server.slice(label)
        expected = CommonCorruption(3, ["speckle_noise"])(
            pixels(clean.clients.server.x[own]), seeding.generator(0, "server corruption", label)
        )
        torch.testing.assert_close(pixels(noisy.clients.server.x[own]), expected, atol=1e-5, rtol=0)
    assert torch.equal(noisy.clients.server_together.x, noisy.clients.server.x)


def test_unbalanced_server_data() -> None:
    labels = np.arange(400) % 4
    chosen = PerClass([40, 30, 20, 10])(labels, 4, seeding.generator(0, "server data"))
    assert [len(part) for part in chosen] == [40, 30, 20, 10]
    for label, part in enumerate(chosen):
        assert len(set(part.tolist())) == len(part)
        assert (labels[part] == label).all()
    balanced = PerClass(40)(labels, 4, seeding.generator(0, "server data"))
    np.testing.assert_array_equal(chosen[1], balanced[1][:30])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PerClass(0), "samples_per_class must be >= 1, got 0"),
        (lambda: PerClass([3, 0]), r"samples_per_class must be >= 1, got \[3, 0\]"),
        (lambda: PerClass([]), r"samples_per_class must be a whole number or a list of them, got \[\]"),
        (lambda: PerClass(2.5), "must be a whole number or a list of them, got 2.5"),  # type: ignore[arg-type]
        (lambda: PerClass("many"), "must be a whole number or a list of them, got 'many'"),  # type: ignore[arg-type]
        (
            lambda: PerClass([3, 3])(np.arange(30) % 3, 3, np.random.default_rng(0)),
            r"samples_per_class=\[3, 3\] needs one number per class, 3",
        ),
        (
            lambda: PerClass([3, 30, 3])(np.arange(30) % 3, 3, np.random.default_rng(0)),
            r"samples_per_class=\[3, 30, 3\] but class 1 has 10 samples",
        ),
    ],
)
def test_bad_server_data(make: Any, message: str) -> None:
    refused(make, message)
