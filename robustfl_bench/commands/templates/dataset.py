"""A data set: points around the corners of a polygon, drawn from a seed."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from robustfl_bench import Data, Dataset, check_fields


@dataclass(frozen=True)
class Template(Dataset):
    """``num_train`` and ``num_test`` points in the plane, in one of ``num_classes`` Gaussian clouds on a circle."""

    seed: int  # without a default it is the seed of the run
    num_train: int = 2000
    num_test: int = 500
    num_classes: int = 4
    noise: float = 0.3

    name = "template"
    input_shape = (2,)

    def __post_init__(self) -> None:
        check_fields(self, seed=(0, math.inf), num_train=(1, math.inf), num_test=(1, math.inf))
        check_fields(self, num_classes=(2, math.inf), noise=(0, math.inf))

    def load(self, folder: Path) -> Data:
        """The samples. One that is read from files looks for them in ``folder / self.name``."""
        rng = np.random.default_rng(self.seed)
        labels = rng.integers(self.num_classes, size=self.num_train + self.num_test)
        angles = 2 * math.pi * labels / self.num_classes
        points = np.stack([np.cos(angles), np.sin(angles)], axis=1) + self.noise * rng.normal(size=(len(labels), 2))
        x, y = torch.from_numpy(points).float(), torch.from_numpy(labels)
        cut = self.num_train
        return Data(x[:cut], y[:cut], x[cut:], y[cut:])
