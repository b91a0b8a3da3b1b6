"""What the tests of the rules share: rounds of a small problem, and rules built from their configs."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from torch import Tensor

from robustfl_bench.interfaces import ServerView
from robustfl_bench.updates import Updates

CONF = Path(__file__).parents[1] / "conf"


def names(group: str) -> list[str]:
    """Names of the configurations in ``conf/<group>``."""
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


def build(group: str, name: str, *overrides: str, num_byzantine: int = 3) -> Any:
    """The object that ``<group>=<name>`` makes when the server declares ``num_byzantine``."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = compose(f"{group}/{name}", [f"+num_byzantine_declared={num_byzantine}", *overrides])
    return instantiate(config[group])


def make_server(class_updates: Tensor, step_size: float = 0.1, seed: int = 0, clients: int = 20) -> ServerView:
    """A server whose loss is ``|params - target|^2 / 2``, with ``target`` such that its update is their mean."""
    update = class_updates.mean(dim=0)
    params = torch.zeros_like(update)

    def loss(models: Tensor) -> Tensor:
        return (models.double() + update.double()).square().sum(dim=1) / 2

    return ServerView(
        params=params,
        step_size=step_size,
        round=0,
        rng=np.random.default_rng(seed),
        previous=None,
        clients=torch.arange(clients),
        counts=torch.ones(clients, dtype=torch.float64),
        memory={},
        losses_of=lambda params, clients: torch.zeros(len(clients), dtype=torch.float64),
        train_per_class=lambda: class_updates,
        train_together=lambda: update,
        loss=loss,
        gradient=lambda model: model + update,
    )


def skewed_round(
    seed: int, honest: int = 17, wild: int = 3, classes: int = 4, d: int = 50, scale: float = 10.0
) -> tuple[Updates, ServerView]:
    """A round under label skew: honest updates are noisy mixtures of class directions, the first ``wild`` rows attacks.

    Clients have one or two classes; the attackers send ``-scale`` times the honest mean with a little noise.
    """
    rng = np.random.default_rng(seed)
    corners = rng.normal(size=(classes, d)) * 2 + rng.normal(size=d)
    mixtures = np.zeros((honest, classes))
    for row in mixtures:
        np.add.at(row, rng.integers(classes, size=2), 0.5)
    updates = mixtures @ corners + 0.1 * rng.normal(size=(honest, d))
    attacks = -scale * updates.mean(axis=0) + 0.1 * rng.normal(size=(wild, d))
    matrix = torch.from_numpy(np.concatenate([attacks, updates])).float()
    class_updates = torch.from_numpy(corners + 0.2 * rng.normal(size=(classes, d))).float()
    return Updates(matrix), make_server(class_updates, seed=seed, clients=honest + wild)
