"""Wrapped attacks act as the attack that they wrap; attacks on labels need labels."""

import numpy as np
import pytest
import torch

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.interfaces import Attack, ChoiceView, Shard
from robustfl_bench.parts.attacks.cluster_target import ClusterTarget
from robustfl_bench.parts.attacks.fake_loss import FakeLoss
from robustfl_bench.parts.attacks.ipm import InnerProductManipulation
from robustfl_bench.parts.attacks.label_flip import LabelFlip
from robustfl_bench.parts.attacks.label_flip_one import LabelFlipOne
from robustfl_bench.parts.attacks.random_labels import RandomLabels
from robustfl_bench.parts.attacks.scheduled import Scheduled
from robustfl_bench.parts.attacks.wrapped import Wrapped


def test_a_wrapper_passes_on_every_member_of_an_attack() -> None:
    members = {name for name in vars(Attack) if not name.startswith("_")}
    assert "choose" in members
    assert members <= set(vars(Wrapped))


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
