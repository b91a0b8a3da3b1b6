"""A data set: points around the corners of a polygon, drawn from a seed (ours)."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch

from robustfl_bench import Data, Dataset, at_least


@dataclass(frozen=True)
class Template(Dataset):
    """``num_train`` and ``num_test`` points in the plane, in one of ``num_classes`` Gaussian clouds on a circle."""

    seed: Annotated[int, at_least(0)]  # without a default it is the seed of the run
    """seed of all draws"""
    num_train: Annotated[int, at_least(1)] = 2000
    """number of training samples"""
    num_test: Annotated[int, at_least(1)] = 500
    """number of test samples"""
    num_classes: Annotated[int, at_least(2)] = 4
    """number of classes, corners of the polygon"""
    noise: Annotated[float, at_least(0)] = 0.3
    """standard deviation of a point around its corner"""

    name = "template"
    input_shape = (2,)

    def load(self, folder: Path) -> Data:
        """The samples. One that is read from files looks for them in ``folder / self.name``."""
        rng = np.random.default_rng(self.seed)
        labels = rng.integers(self.num_classes, size=self.num_train + self.num_test)
        angles = 2 * math.pi * labels / self.num_classes
        points = np.stack([np.cos(angles), np.sin(angles)], axis=1) + self.noise * rng.normal(size=(len(labels), 2))
        x, y = torch.from_numpy(points).float(), torch.from_numpy(labels)
        cut = self.num_train
        return Data(x[:cut], y[:cut], x[cut:], y[cut:])
