"""PoisonedFL, Neurotoxin and the hybrid sparse attack against their slow versions, and what is particular to each."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from robustfl_bench.interfaces import Crafted
from robustfl_bench.parts.attacks.free_rider import FreeRider
from robustfl_bench.parts.attacks.hybrid_sparse import HybridSparse
from robustfl_bench.parts.attacks.lie import LittleIsEnough, lie_z
from robustfl_bench.parts.attacks.mimic import Mimic
from robustfl_bench.parts.attacks.neurotoxin import Neurotoxin
from robustfl_bench.parts.attacks.poisonedfl import PoisonedFl, needed
from robustfl_bench.parts.attacks.random_labels import RandomLabels
from tests import reference_attacks, reference_more
from tests.rounds import build, refused
from tests.test_attacks import honest_updates, make_view

D = 23


def vector(seed):
    return torch.from_numpy(honest_updates(1, seed=seed)[0])


# --- PoisonedFL ------------------------------------------------------------------------------------------------------


def pushes(attack, models, lr=0.1):
    """What the attackers add to the model in each round, and their memory at the end; d is that of the models."""
    sent, memory = [], {}
    for e, model in enumerate(models):
        previous = None if e == 0 else torch.from_numpy((models[e - 1] - model) / lr).float()
        view = make_view(honest_updates(5, len(model)), seed=e)
        made = attack.craft(
            replace(view, round=e, params=torch.from_numpy(model).float(), previous=previous, memory=memory)
        )
        sent.append(-made.rows.double().numpy() * lr)
        memory = made.memory
    return sent, memory


@pytest.mark.parametrize("along", [True, False], ids=["the model follows", "it does not"])
@pytest.mark.parametrize("interval", [1, 3, 50])
def test_poisonedfl(interval, along):
    rng, d = np.random.default_rng(interval), 60
    attack = PoisonedFl(factor=4, interval=interval)
    _, memory = pushes(attack, [np.ones(d)])
    signs = memory["signs"].double().numpy()
    steps = rng.normal(size=(12, d))
    steps[:, :3] = 0  # coordinates that never change
    steps = np.abs(steps) * signs if along else steps
    models = [rng.normal(size=d) + steps[:e].sum(axis=0) for e in range(1)]
    for step in steps:
        models.append(models[-1] + step)
    found, memory = pushes(attack, models)
    expected = reference_more.poisonedfl(signs, models, 4, interval)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
    assert (float(memory["factor"]) < 4) == (not along and interval < 50)
    assert not found[0].any()


def test_poisonedfl_keeps_its_direction_and_the_length_it_was_given():
    models = [np.random.default_rng(e).normal(size=40) for e in range(5)]
    found, memory = pushes(PoisonedFl(factor=3), models)
    signs = memory["signs"].double().numpy()
    assert set(signs) == {-1.0, 1.0}
    for e in range(1, 5):
        assert (found[e] * signs >= 0).all()
        assert np.linalg.norm(found[e]) == pytest.approx(3 * np.linalg.norm(models[e] - models[e - 1]), rel=1e-4)


def test_the_factor_of_poisonedfl_has_a_least_value():
    models = [np.random.default_rng(e).normal(size=40) for e in range(40)]
    _, memory = pushes(PoisonedFl(factor=1, interval=2, least=0.5, confidence=0.999), models)
    assert float(memory["factor"]) == pytest.approx(0.7, rel=1e-5)  # 0.49 would be too little


@pytest.mark.parametrize(("d", "wanted"), [(1204682, 603618), (139960, 70415), (717924, 359948), (145212, 73049)])
def test_the_number_of_coordinates_that_must_follow_is_that_of_the_authors_code(d, wanted):
    assert needed(d, 0.99) == wanted


# --- Neurotoxin ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("avoided", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("reference", ["previous", "honest"])
def test_neurotoxin(reference, avoided):
    own = torch.from_numpy(honest_updates(3, seed=2))
    honest = honest_updates()
    view = replace(make_view(honest), train_own=lambda params: own, previous=vector(5))
    against = vector(5).numpy() if reference == "previous" else honest.astype(float).mean(axis=0)
    expected = reference_more.neurotoxin(own.numpy(), against, avoided)
    attack = Neurotoxin(RandomLabels(), avoided, reference)
    np.testing.assert_array_equal(attack.craft(view).numpy(), expected)
    received = torch.ones(D)
    models = replace(
        view,
        honest=type(view.honest)(received - view.honest.matrix),
        upload=lambda updates: received - updates,
        train_own=lambda params: received - own,
    )
    np.testing.assert_allclose(attack.craft(models).numpy(), 1 - expected, atol=1e-6)


def test_neurotoxin_needs_no_honest_client_and_passes_on_what_is_remembered():
    attack = Neurotoxin(RandomLabels())
    assert attack.crafts and attack.poisons
    assert not Neurotoxin(FreeRider()).needs_honest and Neurotoxin(FreeRider(), reference="honest").needs_honest
    own = torch.from_numpy(honest_updates(3, seed=2))
    view = replace(make_view(honest_updates()), train_own=lambda params: own)
    assert torch.equal(attack.craft(view), own), "before the first aggregate nothing is known"
    remembered = Neurotoxin(Mimic(warmup=1)).craft(replace(view, previous=vector(5)))
    assert isinstance(remembered, Crafted) and "client" in remembered.memory
    stopped = build("attack", "scheduled", "attack@attack.attack=neurotoxin", "attack.last=4")
    assert stopped.active(4) and not stopped.active(5) and stopped.attack == build("attack", "neurotoxin")


# --- hybrid sparse ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("share", "z"), [(0.005, None), (0.2, None), (0.2, 0.3), (1.0, 0.3)])
def test_hybrid_sparse(share, z):
    honest = honest_updates(9)
    view = replace(make_view(honest, 4), params=vector(7))
    mean, std = reference_attacks.mean_and_std(honest.astype(float))
    params = vector(7).double().numpy()
    expected = reference_more.hybrid_sparse(mean, std, params, share, 1.5, lie_z(13, 4) if z is None else z)
    made = HybridSparse(1.5, z, share).craft(view)
    np.testing.assert_allclose(made.rows.numpy(), expected, rtol=1e-4, atol=1e-5)
    later = replace(view, params=vector(8), memory=made.memory)
    assert torch.equal(HybridSparse(1.5, z, share).craft(later).rows, made.rows), "chosen once"


def test_hybrid_sparse_is_lie_where_both_shifts_are_equal_and_may_turn_against_the_mean():
    view = replace(make_view(honest_updates(9), 4), params=vector(7))
    rows = HybridSparse(scale=0.7, z=0.7).craft(view).rows
    torch.testing.assert_close(rows, LittleIsEnough(0.7, "minus").craft(view))
    against = HybridSparse(z=0.7, direction="mean").craft(view).rows - view.mean
    assert (against * view.mean <= 0).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HybridSparse(share=2), r"share must be in \[0, 1\]"),
        (lambda: PoisonedFl(interval=0), "interval must be >= 1"),
        (lambda: Neurotoxin(RandomLabels(), reference="all"), "reference must be one of previous, honest"),
    ],
)
def test_bad_settings_are_one_clear_line(make, message):
    refused(make, message)
