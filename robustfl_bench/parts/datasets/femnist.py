"""FEMNIST: handwritten digits and letters by writer, as LEAF makes it of NIST's database 19 (arXiv 1812.01097)."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from robustfl_bench.base.errors import DataError
from robustfl_bench.base.fields import at_least, one_of
from robustfl_bench.parts.datasets import leaf
from robustfl_bench.parts.datasets.base import Data, Dataset, Scaling
from robustfl_bench.parts.datasets.files import Source, read

if TYPE_CHECKING:
    from torch import Tensor

SCALINGS = {"unit": (0.0, 1.0), "symmetric": (0.5, 0.5)}  # (x - centre) / unit


@dataclass(frozen=True)
class Femnist(Dataset):
    """Images (N, 1, 28, 28) in 62 classes: digits, upper and lower case; dark on white, pixels in [0, 1].

    Clients are writers, ``num_clients`` of those in LEAF's files. Each has a training and a test part; the test set is
    all test parts together.
    """

    num_clients: Annotated[int, at_least(1)] = 1039
    """number of writers, drawn from all in the files"""
    scaling: Annotated[str, one_of(unit="0 to 1", symmetric="-1 to 1")] = "unit"
    """pixels"""

    name = "femnist"
    input_shape = (1, 28, 28)
    num_classes = 62
    source = Source(
        name,
        layouts=(),
        licence="public domain (NIST)",
        leaf=("femnist", "femnist/data"),
        recipe=(
            "make it with LEAF (https://github.com/TalwalkarLab/leaf, data/femnist: ./preprocess.sh -s niid --sf 0.3 "
            "-k 0 -t sample) and copy its data/train and data/test into the folder femnist of the data folder"
        ),
    )

    def load(self, folder: Path) -> Data:
        """Read LEAF's files."""
        import torch

        files, variant = read(self.source, folder)
        train, test = (leaf.users(f for f in files if f.name.startswith(part)) for part in ("train/", "test/"))
        if texts := [user for part in (train, test) for user in part if "y" not in part[user]]:
            raise DataError(f"{files[0].path}: {texts[0]} has no images; {self.source.remedy(folder)}")
        writers = leaf.draw((user for user in train if train[user]["y"] and user in test), self.num_clients, self.name)
        train_x, train_y = samples([train[writer] for writer in writers])
        test_x, test_y = samples([test[writer] for writer in writers])
        affine = Scaling(*(torch.full((1, 1, 1), value) for value in SCALINGS[self.scaling]))
        return Data(
            affine.inputs(train_x),
            train_y,
            affine.inputs(test_x),
            test_y,
            variant,
            scaling=affine,
            owners=torch.from_numpy(leaf.owners(len(train[writer]["y"]) for writer in writers)),
        )


def samples(writers: list[dict[str, Any]]) -> "tuple[Tensor, Tensor]":
    """Images (N, 1, 28, 28) and labels (N,) of the writers, one after the other."""
    import torch

    try:
        x = np.concatenate([np.asarray(writer["x"], dtype=np.float32).reshape(-1, 784) for writer in writers])
        y = np.concatenate([np.asarray(writer["y"]) for writer in writers]).astype(np.int64, casting="safe")
        if len(x) != len(y):
            raise ValueError(f"{len(x)} images with {len(y)} labels")
    except (ValueError, TypeError, KeyError) as error:
        raise DataError(
            f"femnist has other samples than images of 784 pixels ({error}); make its files again"
        ) from error
    if len(y) and not (x.min() >= 0 and x.max() <= 1 and y.min() >= 0 and y.max() < Femnist.num_classes):
        raise DataError("femnist has pixels outside of [0, 1] or labels outside of 0 to 61; make its files again")
    return torch.from_numpy(x).view(-1, 1, 28, 28), torch.from_numpy(y)
