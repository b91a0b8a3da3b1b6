"""Fed-NGA and FLDetector against their slow versions, and what is particular to each."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from robustfl_bench.interfaces import ConfigError
from robustfl_bench.numerics.spectra import hessian_product
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.aggregators.average import Average
from robustfl_bench.parts.aggregators.coomed import CooMed
from robustfl_bench.parts.aggregators.fed_nga import FedNga
from robustfl_bench.parts.aggregators.fldetector import FlDetector, suspects
from robustfl_bench.parts.aggregators.foolsgold import FoolsGold
from tests import reference, reference_recent
from tests.rounds import agree, make_server, skewed_round
from tests.test_field_rules import rounds


def test_fed_nga():
    for updates, server, rows in rounds():
        counts = np.random.default_rng(0).integers(1, 9, len(rows)).astype(float)
        weighted = Updates(updates.matrix, torch.from_numpy(counts))
        agree(FedNga()(weighted, server), reference_recent.fed_nga(rows, counts))
        agree(FedNga(weighted=False)(weighted, server), reference_recent.fed_nga(rows, np.ones(len(rows))))


def test_to_fed_nga_sign_flipping_and_ipm_are_one_attack():
    updates, server = skewed_round(0, wild=0)
    mean = updates.matrix.mean(dim=0)
    flipped, ipm = (
        FedNga()(Updates(torch.cat([updates.matrix, -factor * mean.expand(3, -1)])), server) for factor in (4.0, 0.5)
    )
    assert torch.equal(flipped.vector, ipm.vector)
    unmoved = FedNga()(Updates(torch.cat([updates.matrix, torch.zeros(3, updates.d)])), server)
    agree(flipped, unmoved.vector.double().numpy() - 3 / 20 * (mean / mean.norm()).double().numpy())


def test_a_hessian_from_steps_along_all_axes_is_the_hessian():
    """BFGS on a quadratic recovers the Hessian from conjugate steps; in general the product is that of its matrix."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(6, 6))
    hessian = root @ root.T + np.eye(6)
    conjugate = np.linalg.eigh(hessian)[1].T
    vectors = np.concatenate([conjugate, conjugate @ hessian, rng.normal(size=(1, 6))])
    found = hessian_product(Updates(torch.from_numpy(vectors).float())).double().numpy()
    np.testing.assert_allclose(found, hessian @ vectors[-1], rtol=1e-4, atol=1e-4)
    steps = rng.normal(size=(3, 6))
    vectors = np.concatenate([steps, steps @ hessian, rng.normal(size=(1, 6))])
    found = hessian_product(Updates(torch.from_numpy(vectors).float())).double().numpy()
    np.testing.assert_allclose(found, reference_recent.bfgs(steps, steps @ hessian) @ vectors[-1], rtol=1e-4, atol=1e-4)
    vectors[2] = 0  # the model did not move
    assert not hessian_product(Updates(torch.from_numpy(vectors).float())).any()


@pytest.mark.parametrize("apart", [0.0, 4.0])
def test_suspects_are_the_upper_of_two_groups(apart):
    detected = 0
    for seed in range(4):
        scores = np.random.default_rng(seed).random(20)
        scores[:5] += apart
        found = suspects(scores, np.random.default_rng(seed))
        assert set(np.flatnonzero(found)) == reference_recent.suspects(scores, np.random.default_rng(seed))
        detected += found.any()
    assert detected == (4 if apart else 0)
    assert not suspects(np.ones(9), np.random.default_rng(0)).any()
    assert not suspects(np.array([0.0, 1.0]), np.random.default_rng(0)).any()


def quadratic_rounds(steps, attackers=3, clients=12, d=8, step_size=0.05):
    """Models and updates of rounds on quadratic losses of one curvature, where attackers send other noise each round;
    the caller sends the aggregate of each."""
    rng = np.random.default_rng(0)
    curvature, centres = rng.uniform(0.5, 2, size=d), rng.normal(size=(clients, d))
    model = np.full(d, 3.0)
    for _ in range(steps):
        rows = curvature * (model - centres) + 0.01 * rng.normal(size=(clients, d))
        rows[:attackers] = rng.normal(size=(attackers, d))
        rows = rows.astype(np.float32)
        aggregate = yield model.astype(np.float32), rows
        model = model - step_size * aggregate


def test_fldetector():
    """Attackers who send noise are found in round 2N + 1, with the same aggregates as the slow version before and
    after."""
    window, memory, last = 3, {}, None
    slow, told = reference_recent.FlDetector(reference.coomed, window), quadratic_rounds(12)
    model, rows = next(told)
    for number in range(11):
        server = make_server(torch.zeros(1, 8), clients=12)
        view = replace(server, params=torch.from_numpy(model), memory=memory, previous=last)
        found = FlDetector(CooMed(), window)(Updates(torch.from_numpy(rows)), view)
        expected = slow(model.astype(float), rows.astype(float), np.random.default_rng(0))
        agree(found, expected)
        assert ("removed" in found.memory) == bool(slow.removed) == (number >= 2 * window)
        assert found.accepted.tolist() == [i not in slow.removed for i in range(12)]
        memory, last = found.memory, found.vector
        model, rows = told.send(found.vector.double().numpy())
    assert slow.removed == {0, 1, 2} and set(memory) == {"removed"}


def test_fldetector_knows_clients_by_name():
    """Six of twelve clients take part; who was absent from the last round gets no share in this one."""
    memory, last, told, rng = {}, None, quadratic_rounds(9), np.random.default_rng(1)
    model, rows = next(told)
    for _ in range(6):
        clients = torch.from_numpy(np.sort(rng.choice(12, 6, replace=False)))
        server = make_server(torch.zeros(1, 8), clients=12)
        view = replace(server, params=torch.from_numpy(model), memory=memory, previous=last, clients=clients)
        updates = Updates(torch.from_numpy(rows)[clients])
        found = FlDetector(Average(), window=4)(updates, view)
        here, before, memory, last = (
            torch.isin(torch.arange(12), clients),
            memory.get("sent"),
            found.memory,
            found.vector,
        )
        assert torch.equal(memory["sent"], here) and torch.equal(memory["last"][clients], updates.matrix)
        model, rows = told.send(last.double().numpy())
    assert before is not None and torch.equal(memory["shares"][-1].isnan(), ~(before & here))
    removed = torch.arange(12) % 2 == 0
    found = FlDetector(Average())(updates, replace(view, memory={"removed": removed}))
    agree(found, updates.matrix[~removed[clients]].mean(dim=0).double().numpy())
    assert torch.equal(found.accepted, ~removed[clients]) and torch.equal(found.weights > 0, found.accepted)
    assert FlDetector(Average())(updates, replace(view, memory={"removed": removed | True})).vector.norm() == 0
    with pytest.raises(ConfigError, match="fldetector must know whose updates it gets"):
        FlDetector(Average())(updates, replace(view, clients=None))


def test_fldetector_keeps_the_memory_of_its_rule():
    updates, server = skewed_round(0)
    alone, inside = FoolsGold(), FlDetector(FoolsGold())
    memories = {}, {}
    for _ in range(3):
        found = [
            rule(updates, replace(server, memory=kept)) for rule, kept in zip((alone, inside), memories, strict=True)
        ]
        memories = [one.memory for one in found]
        assert torch.equal(found[0].vector, found[1].vector) and torch.equal(found[0].weights, found[1].weights)
