"""From pixels to tensors, for all image data sets."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # importing torch takes over a second, and `robustfl-data` does without it
    from torch import Tensor

    from robustfl_bench.parts.datasets.base import Data

Labelled = tuple[np.ndarray, np.ndarray]  # pixels and labels
SCALINGS = {"standardize": "mean 0, sd 1 over the training set", "unit": "0 to 1", "symmetric": "-1 to 1"}


def scale(pixels: np.ndarray, scaling: str, mean: Sequence[float], sd: Sequence[float], top: int) -> "Tensor":
    """Integers 0 .. ``top`` of shape (N, C, H, W) as contiguous float32.

    "unit" divides by ``top``, giving [0, 1]; "symmetric" stretches that to [-1, 1]; "standardize" instead subtracts
    the ``mean`` and divides by the ``sd`` of each channel, both on the unit scale.
    """
    import torch

    x = torch.from_numpy(pixels.astype(np.float32, order="C")).div_(top)
    if scaling == "symmetric":
        x.mul_(2).sub_(1)
    elif scaling == "standardize":
        x.sub_(torch.tensor(mean).view(-1, 1, 1)).div_(torch.tensor(sd).view(-1, 1, 1))
    return x


def to_data(
    train: Labelled,
    test: Labelled,
    variant: str,
    scaling: str,
    mean: Sequence[float],
    sd: Sequence[float],
    top: int = 255,
) -> "Data":
    """Pixels (N, C, H, W) and class numbers (N,), of any integer type, as scaled tensors (see ``scale``)."""
    import torch

    from robustfl_bench.parts.datasets.base import Data, Scaling

    train_x, test_x = (scale(pixels, scaling, mean, sd, top) for pixels, _ in (train, test))
    train_y, test_y = (torch.from_numpy(labels.astype(np.int64)) for _, labels in (train, test))
    centre, unit = {"standardize": (mean, sd), "symmetric": ((0.5,), (0.5,)), "unit": ((0.0,), (1.0,))}[scaling]
    affine = Scaling(torch.tensor(centre).view(-1, 1, 1), torch.tensor(unit).view(-1, 1, 1))
    return Data(train_x, train_y, test_x, test_y, variant, scaling=affine)
