"""Rules and attacks of gossip against slow versions of their definitions."""

import numpy as np
import pytest
import torch

from robustfl_bench.aggregators.clipped_gossip import ClippedGossip
from robustfl_bench.aggregators.cs_plus import CsPlus
from robustfl_bench.numerics.updates import Updates
from tests import reference_field as field


def node(seed):
    """What a node receives: differences from its own model, its own row of zeros first, and gossip weights.

    Half of the seeds have equal weights, where sums of weights meet the weight of f attackers exactly.
    """
    rng = np.random.default_rng(seed)
    rows = np.concatenate([np.zeros((1, 30)), rng.normal(size=(7, 30)) * rng.uniform(0.2, 5, size=(7, 1))])
    weights = 1 / rng.integers(8, 12, size=8) if seed % 2 else np.full(8, 1 / 10)
    weights[0] = 1 - weights[1:].sum()
    return Updates(torch.from_numpy(rows).float(), torch.from_numpy(weights)), rows, weights


@pytest.mark.parametrize("f", [0, 1, 2, 3, 9])
def test_rules_that_clip_around_a_node(f):
    for seed in range(8):
        updates, rows, weights = node(seed)
        delta = f * weights[1:].max()
        for rule, radius in (
            (CsPlus(f), field.cs_plus_radius(rows, weights, delta) if f else np.inf),
            (ClippedGossip(f), field.clipped_gossip_radius(rows, weights, delta)),
            (ClippedGossip(f, radius=1.5), 1.5),
        ):
            expected = field.clipped_sum(rows, weights, radius)
            np.testing.assert_allclose(rule(updates, None).vector.double().numpy(), expected, rtol=1e-5, atol=1e-6)


def test_cs_plus_shortens_the_2f_farthest_of_equal_weights_to_the_next():
    updates, rows, _ = node(0)
    ordered = np.sort(np.linalg.norm(rows, axis=1))[::-1]
    longest = CsPlus(2)(updates, None).weights * updates.norms / updates.counts
    assert float(longest.max()) == pytest.approx(ordered[4], rel=1e-6)
