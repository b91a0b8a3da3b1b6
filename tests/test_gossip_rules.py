"""Rules and attacks of gossip against slow versions of their definitions."""

import numpy as np
import pytest
import torch

from robustfl_bench.numerics.neighbourhoods import Neighbourhoods
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.aggregators.clipped_gossip import ClippedGossip
from robustfl_bench.parts.aggregators.cs_plus import CsPlus
from robustfl_bench.parts.attacks.base import GossipView
from robustfl_bench.parts.attacks.dissensus import Dissensus
from robustfl_bench.parts.attacks.spectral_heterogeneity import SpectralHeterogeneity
from robustfl_bench.parts.protocols.topology import Graph, attached, two_cliques
from tests import reference_attacks as attacks
from tests import reference_field as field
from tests.presets import small as federation
from tests.presets import trained
from tests.test_gossip import Seeing


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


def view(graph: Graph, seed=0, d=6):
    """The attackers' view of nodes with random models; only some nodes may have attackers as neighbours."""
    inside, outside = (torch.from_numpy(part) for part in graph.weights)
    models = torch.from_numpy(np.random.default_rng(seed).normal(size=(len(inside), d))).float()
    links = torch.from_numpy(graph.byzantine).nonzero().flip(1)
    return GossipView(models, models, links, inside, outside, 0, 0.1, np.random.default_rng(0), {})


def uneven():
    """Two cliques of four and three nodes with a bridge; three nodes have one or two of the two attackers beside
    them."""
    byzantine = np.zeros((7, 2), dtype=bool)
    byzantine[[0, 0, 3, 6], [0, 1, 1, 0]] = True
    return Graph(two_cliques(7, 1), byzantine)


@pytest.mark.parametrize("graph", [uneven(), attached(two_cliques(6, 2), 3, None)], ids=["uneven", "all"])
def test_rules_that_mix_at_all_nodes_at_once(graph):
    seen = view(graph)
    receiver, sender = torch.from_numpy(np.concatenate([graph.honest, graph.byzantine], axis=1)).nonzero().T
    weights = torch.cat([seen.weights, seen.byzantine_weights], dim=1)[receiver, sender]
    messages = torch.cat([seen.models, 5 * seen.models[: seen.num_byzantine]])
    nodes = Neighbourhoods(seen.models, messages, receiver, sender, weights, seen.weights.diagonal())
    for rule in (CsPlus(1), ClippedGossip(1), ClippedGossip(0), ClippedGossip(2, radius=0.7)):
        alone = torch.stack([rule(nodes.at(i), None).vector for i in range(len(seen.models))])
        torch.testing.assert_close(rule.aggregate_nodes(nodes), alone, rtol=1e-5, atol=1e-6)


def test_dissensus_undoes_the_pull_of_the_honest_neighbours():
    seen = view(uneven())
    models, inside, outside = (part.double().numpy() for part in (seen.models, seen.weights, seen.byzantine_weights))
    for sent, (_, i) in zip(Dissensus(1.5).craft_messages(seen), seen.links.tolist(), strict=True):
        pull = sum(inside[i, j] * (models[j] - models[i]) for j in range(7) if j != i)
        np.testing.assert_allclose(sent.double().numpy(), models[i] - 1.5 * pull / outside[i].sum(), atol=1e-5)
    sent = Dissensus(1.0).craft_messages(seen).double().numpy()
    moved = sum(inside[0, j] * (models[j] - models[0]) for j in range(7))
    moved += sum(outside[0, b] * (sent[k] - models[0]) for k, (b, i) in enumerate(seen.links.tolist()) if i == 0)
    np.testing.assert_allclose(moved, 0, atol=1e-6)


def test_spectral_heterogeneity_moves_nodes_along_the_fiedler_vector():
    seen = view(uneven())
    models, inside = seen.models.double().numpy(), seen.weights.numpy()
    laplacian = np.zeros((7, 7))
    for i in range(7):
        for j in set(range(7)) - {i}:
            laplacian[i, j] -= inside[i, j]
            laplacian[i, i] += inside[i, j]
    values, vectors = np.linalg.eigh(laplacian)
    fiedler = vectors[:, np.argsort(values)[1]]
    assert len(set(np.sign(fiedler[:3]))) == len(set(np.sign(fiedler[4:]))) == 1 and fiedler[1] * fiedler[5] < 0
    slow = sum(fiedler[j] * models[j] for j in range(7))
    for sent, (_, i) in zip(SpectralHeterogeneity(2.0).craft_messages(seen), seen.links.tolist(), strict=True):
        np.testing.assert_allclose(sent.double().numpy(), models[i] + 2 * fiedler[i] * slow, atol=1e-5)


@pytest.mark.parametrize("local_update", ["fedsgd", "momentum"])
def test_lie_per_neighbourhood_is_the_mean_minus_z_deviations_of_the_receiver_and_its_honest_neighbours(local_update):
    seen = []
    f = federation(
        "protocol=gossip", "topology=two_cliques", "protocol.byzantine_neighbours=1", "attack=lie", "attack.z=2",
        "protocol.crafting=per_neighbourhood", "num_clients=8", "num_byzantine=2", "rounds=1",
        f"local_update={local_update}", aggregator=Seeing(seen=seen),
    )  # fmt: skip
    trained(f)
    assert sorted(len(rows) for rows, _ in seen) == [5] * 6 + [6] * 2  # the bridge has two ends
    for matrix, _ in seen:
        rows = matrix.double().numpy()
        mean, std = attacks.mean_and_std(rows[:-1])
        np.testing.assert_allclose(rows[-1], mean - 2 * std, atol=1e-6)
