"""The parts of "Mean aggregator is more robust": FABA, LFighter and dynamic label flipping against slow versions."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from robustfl_bench.interfaces import ConfigError
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.aggregators.faba import Faba
from robustfl_bench.parts.aggregators.lfighter import LFighter
from robustfl_bench.runner.config import compose
from robustfl_bench.runner.experiment.plan import plan
from robustfl_bench.runner.processes import member as client
from robustfl_bench.train import rounds
from robustfl_bench.train.foresight import Foresight
from tests import presets
from tests.rounds import agree, skewed_round
from tests.test_field_rules import SCALES

LAYERS = (8, 28, 4)  # four output neurons with seven weights each


def shapes():
    """Rounds with attackers near and far: updates, a server that knows the layers, and the rows."""
    for seed, scale in enumerate(SCALES):
        updates, server = skewed_round(seed, honest=7, wild=3, d=sum(LAYERS), scale=scale)
        yield updates, replace(server, layers=LAYERS), updates.matrix.double().numpy()


def faba(rows, f):
    left = list(rows)
    for _ in range(f):
        mean = sum(left) / len(left)
        left.pop(max(range(len(left)), key=lambda i: np.linalg.norm(left[i] - mean)))
    return sum(left) / len(left)


def best_split(points):
    """The two groups of least total squared distance from their means, among all of them."""

    def spread(side):
        groups = [[point for point, here in zip(points, side, strict=True) if here is which] for which in (True, False)]
        return sum(np.sum((np.array(group) - np.mean(group, axis=0)) ** 2) for group in groups if group)

    return min(product((True, False), repeat=len(points)), key=spread)


def lfighter(rows, layers):
    """As src/aggregation.py of the authors, without biases in the norms, and with the best of all splits in two."""
    weights = rows[:, -layers[-2] - layers[-1] : -layers[-1]].reshape(len(rows), layers[-1], -1)
    sizes = [sum(np.linalg.norm(client[neuron]) for client in weights) for neuron in range(layers[-1])]
    chosen = np.argsort(sizes)[-2:]
    points = [client[chosen].ravel() for client in weights]
    side, scores = best_split(points), {}
    for which in (True, False):
        group = [point for point, here in zip(points, side, strict=True) if here is which]
        least = [min(0.0, *(a @ b / np.linalg.norm(a) / np.linalg.norm(b) for b in group)) for a in group]
        scores[which] = len(group) / len(rows) * (1 - np.mean(least))
    kept = [row for row, here in zip(rows, side, strict=True) if scores[here] == max(scores.values())]
    return np.mean(kept, axis=0)


@pytest.mark.parametrize("f", [0, 1, 3])
def test_faba(f):
    for updates, server, rows in shapes():
        agree(Faba(f)(updates, server), faba(rows, f))


def test_faba_leaves_out_one_at_a_time_not_the_f_farthest():
    rows = np.array([[0.0], [1.0], [2.0], [-9.0], [12.0]])
    assert Faba(2)(rows).item() == 1.0
    rows = np.array([[0.0], [0.0], [0.0], [4.0], [5.0], [5.5], [-4.5]])  # -4.5 is not among the two farthest
    assert Faba(3)(rows).item() == faba(rows, 3).item()
    with pytest.raises(ConfigError, match="FABA needs n > 2f, got n=5, f=3"):
        Faba(3)(rows[:5])


def test_lfighter():
    dropped = set()
    for updates, server, rows in shapes():
        aggregate = LFighter()(updates, server)
        agree(aggregate, lfighter(rows, LAYERS))
        dropped.add(int((aggregate.weights == 0).sum()))
    assert dropped - {0}


def test_lfighter_looks_at_the_output_weights_alone():
    updates, server = skewed_round(0, honest=7, wild=3, d=sum(LAYERS))
    server = replace(server, layers=LAYERS)
    other = updates.matrix.clone()
    other[:, : LAYERS[0]] += 100 * torch.arange(10.0)[:, None]
    same = [LFighter()(Updates(rows), server).weights for rows in (updates.matrix, other)]
    assert torch.equal(*same)
    with pytest.raises(ConfigError, match="take a model that ends in a linear layer"):
        LFighter()(updates, replace(server, layers=(8, 27, 5)))


def federation(*overrides):
    small = ["partition=iid", "num_clients=5", "num_byzantine=2", "byzantine_placement=replace", "model=linear"]
    return presets.federation(*small, "attack=dynamic_label_flip", *overrides)


def test_dynamic_label_flip_gives_every_sample_the_least_probable_class_of_the_model_at_hand():
    real = federation("lr=0.5")
    state, labels = rounds.initial_state(real), []
    for _ in range(2):
        samples = real.parts.attack.plan(Foresight(real, state, rounds.step)).byzantine
        weights, biases = state.params[0][:-10].view(10, -1), state.params[0][-10:]
        probabilities = (samples.x.flatten(1) @ weights.T + biases).softmax(dim=1)
        assert torch.equal(samples.y, probabilities.argmin(dim=1))
        assert torch.equal(samples.x, real.clients.byzantine_clean.x)
        labels.append(samples.y)
        state, _ = rounds.step(real, state)
    assert not torch.equal(*labels)
    assert not torch.equal(labels[0], real.clients.byzantine_clean.y)


def test_dynamic_label_flip_trains_on_these_labels():
    real = federation("aggregator=average", "lr=1.0")
    state = rounds.initial_state(real)
    samples = real.parts.attack.plan(Foresight(real, state, rounds.step)).byzantine
    params, gradients = state.params[0], []
    for population in (real.honest, samples):
        for place in range(len(population)):
            own = population.slice(place)
            gradients.append(real.network.gradient(params, population.x[own], population.y[own]))
    after, _ = rounds.step(real, state)
    torch.testing.assert_close(params - after.params[0], torch.stack(gradients).mean(dim=0), rtol=1e-4, atol=1e-6)


def test_a_schedule_goes_around_dynamic_label_flip():
    real = federation("attack=scheduled", "attack@attack.attack=dynamic_label_flip", "attack.first=2")
    state = rounds.initial_state(real)
    planned = real.parts.attack.plan(Foresight(real, state, rounds.step))
    assert torch.equal(planned.attackers_samples(1).y, real.clients.byzantine_clean.y)
    assert not torch.equal(planned.attackers_samples(2).y, real.clients.byzantine_clean.y)


def test_added_clients_have_nothing_to_relabel():
    with pytest.raises(ConfigError, match="added clients hold none"):
        federation("byzantine_placement=add")


def test_a_ring_whose_clients_make_no_plans_refuses_it():
    ring = ["protocol=ring", "aggregator=rar", "device=cpu", "num_clients=3", "num_byzantine=1"]
    run = compose.resolve([*ring, "byzantine_placement=replace", "attack=dynamic_label_flip"])
    with pytest.raises(ConfigError, match="take attack=label_flip, or none"):
        client.check(plan(run.config), 3)
