"""GAS, FedSECA, Aksel, the medoid and noise on an aggregate, against their slow versions, and what is particular."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from robustfl_bench.interfaces import ConfigError
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.aggregators.aksel import Aksel
from robustfl_bench.parts.aggregators.coomed import CooMed
from robustfl_bench.parts.aggregators.fedseca import FedSeca
from robustfl_bench.parts.aggregators.foolsgold import FoolsGold
from robustfl_bench.parts.aggregators.gas import Gas
from robustfl_bench.parts.aggregators.krum import Krum
from robustfl_bench.parts.aggregators.medoid import Medoid
from robustfl_bench.parts.aggregators.noised import Noised
from robustfl_bench.parts.aggregators.norm_bound import NormBound
from robustfl_bench.parts.aggregators.zeno import Zeno
from tests import reference
from tests import reference_more as slow
from tests.rounds import agree, build, refused, skewed_round
from tests.test_field_rules import previous, rounds

F = 3


def test_medoid():
    for updates, server, rows in rounds():
        agree(Medoid()(updates, server), slow.medoid(rows))


@pytest.mark.parametrize("f", [None, 0, F])
@pytest.mark.parametrize("honest", [17, 18], ids=["even", "odd"])
def test_aksel(f, honest):
    for updates, server, rows in rounds(honest=honest):
        agree(Aksel(f)(updates, server), slow.aksel(rows, f))


@pytest.mark.parametrize("sparsity", [0.0, 0.37, 0.9])
def test_fedseca(sparsity):
    for updates, server, rows in rounds(honest=8):
        agree(FedSeca(sparsity)(updates, server), slow.fedseca(rows, sparsity))


def test_the_elected_signs_are_those_of_the_clients_who_agree():
    """Three clients against all others have no vote, however large they are; half of them would decide nothing."""
    updates, server = skewed_round(0, honest=17, wild=0)
    mean = updates.mean
    rows = torch.cat([mean + 0.01 * updates.matrix, -1e6 * mean.repeat(3, 1)])
    along = FedSeca()(Updates(rows), server).vector * mean
    assert (along >= 0).all() and (along > 0).any()


@pytest.mark.parametrize("groups", [1, 7, 1000])
def test_gas(groups):
    for updates, server, rows in rounds():
        dealt = np.array_split(np.random.default_rng(5).permutation(50), min(groups, 50))
        asked = replace(server, rng=np.random.default_rng(5))
        agree(Gas(CooMed(), F, groups)(updates, asked), slow.gas(rows, F, dealt, lambda part: np.median(part, axis=0)))


def test_gas_with_krum():
    updates, server = skewed_round(1, honest=8, scale=0.3)
    dealt, rows = np.array_split(np.random.default_rng(1).permutation(50), 3), updates.matrix.double().numpy()
    expected = slow.gas(rows, F, dealt, lambda part: reference.krum(part, F, len(part) - F))
    agree(Gas(Krum(F, None), F, 3)(updates, replace(server, rng=np.random.default_rng(1))), expected)


@pytest.mark.parametrize("name", ["fltrust", "history_trmean", "flame"])
def test_gas_cuts_what_the_server_knows_to_the_group(name):
    """With one group, which has all coordinates in another order, the reference is the rule's aggregate."""
    updates, plain = skewed_round(0)
    server = replace(previous(plain)[0], params=torch.linspace(-1, 1, 50), rng=np.random.default_rng(1))
    gas = build("aggregator", "gas", f"aggregator@aggregator.rule={name}", "aggregator.groups=1")
    dists = updates.sq_dists_from(gas.rule(updates, replace(server, rng=np.random.default_rng(2))).vector)
    found = gas(updates, server).weights
    assert set(found.nonzero().flatten().tolist()) == set(dists.argsort()[:-F].tolist())


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (Zeno(F), "Zeno needs whole models, which the groups of GAS are not; set aggregator.rule to another rule"),
        (FoolsGold(), "FoolsGold keeps a memory, but the groups of GAS change in every round"),
    ],
)
def test_gas_says_which_rules_it_cannot_take(rule, message):
    with pytest.raises(ConfigError, match=message):
        Gas(rule, F)(*skewed_round(0))


def test_noise_has_the_given_spread_and_leaves_the_rule_as_it_is():
    updates, server = skewed_round(0, d=20_000)
    still, noisy = NormBound()(updates, server), Noised(NormBound(), 0.3)(updates, server)
    noise = (noisy.vector - still.vector).double()
    assert noise.std() == pytest.approx(0.3, rel=0.05) and abs(noise.mean()) < 5 * 0.3 / 20_000**0.5
    assert noisy.weights is None
    assert torch.equal(Noised(NormBound(), 0)(updates, server).vector, still.vector)
    assert build("aggregator", "norm_bound_noise").rule == build("aggregator", "norm_bound")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Gas(CooMed(), F, 0), "groups must be >= 1"),
        (lambda: Gas(Krum(9), F).check(20), "Krum needs n > 2f"),
        (lambda: Gas(CooMed(), 20).check(20), "GAS needs n > f, got n=20, f=20"),
        (lambda: Aksel(10).check(20), "Aksel needs n > 2f, got n=20, f=10"),
        (lambda: FedSeca(1.5), r"sparsity must be in \[0, 1\]"),
        (lambda: Noised(CooMed(), -1), "noise must be >= 0"),
    ],
)
def test_bad_settings_are_one_clear_line(make, message):
    refused(make, message)
