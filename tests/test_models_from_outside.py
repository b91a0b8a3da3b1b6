"""Networks from outside whose gradients are computed layer by layer: those of which this would be wrong are refused."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import robustfl_bench as rb
from robustfl_bench.interfaces import ConfigError, Model


class Body(nn.Module):
    """A layer and a head, called as ``kind`` says."""

    def __init__(self, features: int, classes: int, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.inner, self.head = nn.Linear(features, features), nn.Linear(features, classes)
        self.conv = nn.Conv2d(1, 1, 3, padding=1, padding_mode="circular" if kind == "circular" else "zeros")
        if kind == "tied":
            self.again = self.inner
        if kind == "autograd":
            self.register_buffer("autograd", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        if self.kind != "unused":
            x = self.conv(x)
        x = self.inner(x.flatten(1)).relu()
        if self.kind in ("twice", "autograd"):
            x = self.inner(x).relu()
        if self.kind == "cosine":
            return functional.linear(x, functional.normalize(self.head.weight), None)
        return self.head(x)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Odd(Model):
    kind: str = "twice"

    def __call__(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        return Body(shape[-1] * shape[-2], num_classes, self.kind)


@pytest.mark.parametrize(("kind", "told"), [
    ("twice", "calls its layer inner 2 times for a sample; its gradients need autograd"),
    ("unused", "calls its layer conv 0 times"),
    ("cosine", "calls its layer head 0 times"),
    ("circular", "conv has padding_mode='circular'"),
    ("tied", "has a parameter under two names"),
])  # fmt: skip
def test_a_network_whose_gradients_would_be_wrong_is_refused(kind: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=told):
        rb.run(model=Odd(kind), rounds=1, results_dir=tmp_path)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["plain", "autograd"])
def test_a_network_that_calls_each_layer_once_or_has_a_buffer_is_trained(kind: str, tmp_path: Path) -> None:
    result = rb.run(model=Odd(kind), rounds=20, num_clients=10, num_byzantine=0, partition="iid", lr=0.3,
                    results_dir=tmp_path)  # fmt: skip
    assert result.accuracy > 0.5
