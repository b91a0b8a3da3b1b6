"""The rules of ARFL: its weights against a quadratic program, its memory, and CFL and Multi-Krum as it runs them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from robustfl_bench.interfaces import ConfigError
from robustfl_bench.numerics.sample_weights import penalised_weights
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.aggregators.arfl import Arfl
from robustfl_bench.parts.aggregators.cfl import Cfl
from robustfl_bench.parts.aggregators.krum import Krum
from tests import reference_arfl as reference
from tests.rounds import make_server, skewed_round

LAMBDAS = (1e-3, 1e-2, 0.1, 0.5, 1.0, 3.0, 10.0, 1e4)


def instance(seed):
    """Losses, sample counts and lambda / M: every eighth with equal losses, zero losses or one client."""
    rng = np.random.default_rng(seed)
    n = 1 if seed % 8 == 7 else int(rng.integers(2, 8))
    losses = {5: np.full(n, 1.3), 6: np.where(np.arange(n) % 2, 0.0, 2.0)}.get(seed % 8, rng.gamma(2, 1, n))
    return losses, rng.integers(1, 200, n).astype(float), LAMBDAS[seed // 8 % len(LAMBDAS)]


@pytest.mark.parametrize("seed", range(200))
def test_weights_solve_the_quadratic_program(seed):
    losses, counts, share = instance(seed)
    lam = share * counts.sum()
    weights = penalised_weights(losses, counts, lam)
    best = reference.objective(reference.solve_qp(losses, counts, lam), losses, counts, lam)
    assert reference.objective(weights, losses, counts, lam) == pytest.approx(best, rel=1e-8, abs=1e-8)
    assert weights.min() >= 0 and weights.sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(weights, reference.theorem(losses, counts, lam), atol=1e-9)


def test_the_instances_are_of_all_kinds():
    """Some leave clients out, some do not; otherwise the program would not be tried."""
    left_out = [np.count_nonzero(penalised_weights(x, m, s * m.sum()) == 0) for x, m, s in map(instance, range(200))]
    assert 50 < np.count_nonzero(left_out) < 150


def test_the_ends_of_lambda():
    rng = np.random.default_rng(0)
    losses, counts = rng.gamma(2, 1, 50), rng.integers(1, 100, 50).astype(float)
    np.testing.assert_allclose(penalised_weights(losses, counts, 1e12 * counts.sum()), counts / counts.sum(), rtol=1e-9)
    alone = penalised_weights(losses, counts, 1e-9 * counts.sum())
    assert alone.argmax() == losses.argmin() and alone.max() == pytest.approx(1)


def test_weights_are_those_of_the_clients_in_any_order_and_of_losses_up_to_a_constant():
    rng = np.random.default_rng(1)
    losses, counts = rng.gamma(2, 1, 30), rng.integers(1, 100, 30).astype(float)
    order = rng.permutation(30)
    weights = penalised_weights(losses, counts, 500.0)
    assert 0 < np.count_nonzero(weights) < 30
    np.testing.assert_allclose(penalised_weights(losses[order], counts[order], 500.0), weights[order], rtol=1e-12)
    np.testing.assert_allclose(penalised_weights(losses + 1e6, counts, 500.0), weights, rtol=1e-6)


def test_who_reports_no_number_has_no_weight():
    losses = np.array([0.5, np.inf, 0.7, np.nan])
    weights = penalised_weights(losses, np.ones(4), 4.0)
    assert weights[1] == weights[3] == 0
    np.testing.assert_allclose(weights[[0, 2]], penalised_weights(losses[[0, 2]], np.ones(2), 4.0))
    assert not penalised_weights(np.full(3, np.inf), np.ones(3), 3.0).any()


class Asked:
    """Clients whose loss is their number, plus one for every time the model moved; remembers what they were asked."""

    def __init__(self):
        self.calls = []

    def __call__(self, params, clients):
        self.calls.append((params.clone(), clients.tolist()))
        return clients.double() + (len(self.calls) - 1) * 10


def ask(rule, clients, memory, counts):
    asked = Asked()
    server = make_server(torch.ones(2, 5), step_size=0.5)
    server = replace(server, clients=torch.tensor(clients), counts=counts, memory=memory, losses_of=asked)
    matrix = torch.arange(5.0 * len(clients)).view(-1, 5)
    return rule(Updates(matrix), server), asked.calls, matrix


@pytest.mark.parametrize("loss_at", ["aggregated", "received"])
def test_a_client_that_does_not_take_part_keeps_its_last_loss(loss_at):
    rule, counts = Arfl(loss_at=loss_at), torch.tensor([10.0, 20.0, 30.0, 40.0], dtype=torch.float64)
    first, calls, matrix = ask(rule, [3, 1], {}, counts)
    torch.testing.assert_close(first.weights, torch.tensor([2 / 3, 1 / 3], dtype=torch.float64))
    assert [who for _, who in calls] == [[0, 1, 2, 3], [3, 1]] and not calls[0][0].any()
    moved = -0.5 * (first.weights.float() @ matrix)
    torch.testing.assert_close(calls[1][0], moved if loss_at == "aggregated" else torch.zeros(5))
    assert first.memory["losses"].tolist() == [0, 11, 2, 13]

    second, calls, _ = ask(rule, [0, 2, 3], first.memory, counts)
    assert [who for _, who in calls] == [[0, 2, 3]]
    everyone = reference.theorem(np.array([0.0, 11, 2, 13]), counts.numpy(), 100.0)
    expected = everyone[[0, 2, 3]] / everyone[[0, 2, 3]].sum()
    assert expected[2] == 0 < expected[0] < expected[1], "with more data, client 2 counts more than the better client 0"
    np.testing.assert_allclose(second.weights.numpy(), expected, rtol=1e-12)
    assert first.memory["losses"].tolist() == [0, 11, 2, 13], "what was remembered is not changed in place"


def test_the_model_stays_when_nobody_present_has_weight():
    counts = torch.ones(3, dtype=torch.float64)
    memory = {"losses": torch.tensor([0.1, 90.0, 95.0], dtype=torch.float64)}
    aggregate, _, _ = ask(Arfl(), [1, 2], memory, counts)
    assert not aggregate.vector.any() and not aggregate.weights.any()
    assert aggregate.memory["losses"].tolist() == [0.1, 1.0, 2.0]


def test_arfl_needs_every_client_by_itself():
    updates, server = skewed_round(0)
    with pytest.raises(ConfigError, match="set pre_aggregation=none"):
        Arfl()(updates, replace(server, clients=None))


def test_clients_who_lie_about_their_losses_have_the_weight():
    """The paper's limitation (section 6): tiny losses bring their clients most of the weight."""
    losses, counts = np.full(20, 2.3), np.ones(20)
    losses[:6] = 0
    weights = penalised_weights(losses, counts, 20.0)
    assert weights[:6].sum() > 0.7
    losses[6:] = 3.4
    assert penalised_weights(losses, counts, 20.0)[:6].sum() == pytest.approx(1)


# --- CFL and Multi-Krum ----------------------------------------------------------------------------------------------


def rounds(count=8):
    """Rounds with attackers of every direction, and sample counts."""
    for seed in range(count):
        updates, server = skewed_round(seed, honest=11 + seed, wild=3 + seed % 4, scale=(-1.0, 3.0)[seed % 2])
        counts = torch.from_numpy(np.random.default_rng(seed).integers(1, 50, updates.n).astype(float))
        yield Updates(updates.matrix, counts), server, updates.matrix.double().numpy(), counts.numpy()


def test_cfl():
    kept = set()
    for updates, server, rows, counts in rounds():
        expected, members = reference.cfl(rows, counts)
        aggregate = Cfl()(updates, server)
        np.testing.assert_allclose(aggregate.vector.numpy(), expected, rtol=1e-4, atol=1e-5)
        assert aggregate.weights.nonzero()[:, 0].tolist() == members
        kept.add(len(members) == updates.n)
    assert kept == {True, False}


def test_which_group_cfl_hears():
    matrix = torch.tensor([[1.0, 0.1], [1.0, 0.2], [1.0, 0.0], [-1.0, 0.1], [-1.0, 0.0]])
    updates, server = Updates(matrix, torch.tensor([1.0, 1.0, 1.0, 5.0, 5.0], dtype=torch.float64)), None
    heard = {group: Cfl(group=group)(updates, server).weights.tolist() for group in ("larger", "heavier", "smaller")}
    assert heard["larger"] == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0, 0])
    assert heard["heavier"] == heard["smaller"] == [0, 0, 0, 0.5, 0.5]
    assert Cfl(threshold=-1)(updates, server).weights.tolist() == pytest.approx([1 / 13] * 3 + [5 / 13] * 2)
    even = Updates(matrix[[0, 3, 1, 4]])
    assert Cfl()(even, server).weights.tolist() == [0, 0.5, 0, 0.5], "of equals, the group without the first client"
    assert Cfl()(Updates(matrix[[0, 3]]), server).weights.tolist() == [0, 1]
    assert Cfl()(Updates(torch.zeros(3, 2)), server).vector.tolist() == [0, 0]


def test_mkrum_as_in_arfls_code():
    rule, differ = Krum(None, None, squared=False, self_distance=True, weighted=True), 0
    for updates, server, rows, counts in rounds():
        if updates.n % 2 == 0:  # for an odd number the code keeps one client less
            expected = reference.mkrum(rows, counts)
            np.testing.assert_allclose(rule(updates, server).vector.numpy(), expected, rtol=1e-4, atol=1e-5)
            plain = Krum(updates.n // 2, None)(updates, server).vector.numpy()
            differ += np.abs(plain - expected).max() > 1e-3
    assert differ > 2
    rule.check(4)  # no theory, no refusal


def test_bad_settings_are_told():
    for make, told in (
        (lambda: Arfl(regularization=0), "regularization must be in"),
        (lambda: Arfl(loss_at="now"), "loss_at must be one of aggregated, received"),
        (lambda: Cfl(group="all"), "group must be one of larger, heavier, smaller"),
        (lambda: Cfl(threshold=2), r"threshold must be in \[-1, 1\]"),
        (lambda: Krum(3, squared=1), "squared must be true or false, got 1"),
    ):
        with pytest.raises(ConfigError, match=told):
            make()
