"""Wrapped attacks act as the attack that they wrap; attacks on labels need labels."""

import numpy as np
import pytest
import torch

from robustfl_bench.base.abilities import overrides
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.interfaces import Attack, ChoiceView, Shard
from robustfl_bench.parts.attacks.claiming import Claiming
from robustfl_bench.parts.attacks.cluster_target import ClusterTarget
from robustfl_bench.parts.attacks.fake_loss import FakeLoss
from robustfl_bench.parts.attacks.ipm import InnerProductManipulation
from robustfl_bench.parts.attacks.label_flip import LabelFlip
from robustfl_bench.parts.attacks.label_flip_one import LabelFlipOne
from robustfl_bench.parts.attacks.planned import Planned
from robustfl_bench.parts.attacks.random_labels import RandomLabels
from robustfl_bench.parts.attacks.scheduled import Scheduled
from robustfl_bench.parts.attacks.wrapped import Wrapped


class Told(Attack):
    """Says of each ability that it is asked for it."""

    def __getattribute__(self, name: str) -> object:
        return (
            f"its own {name}"
            if not name.startswith("__") and name in Attack.abilities
            else super().__getattribute__(name)
        )


def test_a_wrapper_passes_on_every_ability_of_an_attack() -> None:
    passed_on = {name for name, ability in Attack.abilities.items() if ability.wrapper == "forward"}
    assert {"choose", "reports", "by_columns", "craft_messages"} <= passed_on
    assert {name: getattr(Wrapped(Told()), name) for name in passed_on} == {
        name: f"its own {name}" for name in passed_on
    }
    assert {name for name, ability in Attack.abilities.items() if ability.wrapper == "combine"} <= set(vars(Wrapped))


def test_a_wrapper_overrides_what_it_or_the_attack_within_overrides() -> None:
    assert overrides(Scheduled(LabelFlip()), "poison") and Scheduled(LabelFlip()).poisons
    assert not overrides(FakeLoss(Scheduled(InnerProductManipulation())), "poison")
    assert overrides(FakeLoss(InnerProductManipulation()), "report")
    assert not Scheduled(LabelFlip()).plans and Scheduled(Planned()).plans
    claims = Scheduled(Claiming(InnerProductManipulation(), 5.0))
    assert overrides(claims, "claim") and not overrides(Scheduled(InnerProductManipulation()), "claim")


@pytest.mark.parametrize("wrapper", [Scheduled, FakeLoss])
def test_a_wrapped_attack_chooses_the_model_that_it_attacks(wrapper: type[Wrapped]) -> None:
    view = ChoiceView(torch.zeros(4, 2), torch.tensor([1, 1, 2, 2, 3]), 3, None)
    target = ClusterTarget(InnerProductManipulation())
    assert wrapper(target).choose(view).tolist() == target.choose(view).tolist() == [3, 3, 3]


@pytest.mark.parametrize("attack", [LabelFlip(), LabelFlipOne(), RandomLabels()])
def test_numbers_to_predict_are_no_labels(attack: Attack) -> None:
    shard = Shard(torch.zeros(5, 2), torch.rand(5), 1, None, np.random.default_rng(0))
    with pytest.raises(ConfigError, match="changes classes, but these data have numbers to predict"):
        attack.poison(shard)
