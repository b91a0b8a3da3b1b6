"""MNIST by its real writers, as listed in QMNIST (Yadav and Bottou, NeurIPS 2019, https://arxiv.org/abs/1905.10498)."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np

from robustfl_bench.base import seeding
from robustfl_bench.base.errors import DataError
from robustfl_bench.base.fields import at_least, between, one_of
from robustfl_bench.parts.datasets import idx, leaf
from robustfl_bench.parts.datasets.base import Data, Dataset
from robustfl_bench.parts.datasets.download import Download
from robustfl_bench.parts.datasets.files import File, Layout, Source, read
from robustfl_bench.parts.datasets.images import SCALINGS
from robustfl_bench.parts.datasets.mnist import Mnist

MIRRORS = (
    "https://raw.githubusercontent.com/facebookresearch/qmnist/master/",
    "https://github.com/facebookresearch/qmnist/raw/main/",
)
LABELS = "qmnist-train-labels-idx2-int"
SHA256 = "bb1b6e1ec7b04fd5696f1ed50b5f58f8ef195118edd5c93c81783df9740b8ac5"  # unpacked
PUBLISHED = "2c05dc77f6b916b38e455e97ab129a42a444f3dbef09b278a366f82904e0dd9f"  # packed
CLASS, WRITER = 0, 2  # columns


@dataclass(frozen=True)
class MnistWriters(Dataset):
    """The 60,000 training images of MNIST, by the 539 people who wrote them: 19 to 131 each.

    A client is a writer, ``num_clients`` of them are drawn. Each keeps a random ``train_share`` of its images for
    training, the same in every run; the other images of all writers are the test set. ``scaling`` as in images.py.
    A stand-in for FEMNIST, with real differences between clients and half its difficulty.
    """

    num_clients: Annotated[int, at_least(1)] = 539
    """number of writers, drawn from all 539"""
    train_share: Annotated[float, between(0.01, 0.99)] = 0.8
    """share of a writer's images for training; the rest of all writers is the test set"""
    scaling: Annotated[str, one_of(**SCALINGS)] = "standardize"
    """pixels"""

    name = "mnist_writers"
    input_shape = (1, 28, 28)
    num_classes = 10
    source = Source(
        name,
        layouts=tuple(
            Layout(folder, (File(LABELS, {f"sha256:{SHA256}": "official"}, 1_920_012),))
            for folder in ("mnist_writers", "qmnist", "QMNIST/raw")
        ),
        downloads=(Download(f"{LABELS}.gz", PUBLISHED, MIRRORS),),
        sizes={"official": (48_214, 11_786)},  # of all writers, at the default train_share
        licence="BSD 3-clause",
        base=Mnist.source,
    )

    def load(self, folder: Path) -> Data:
        """Read MNIST and the writers of its images."""
        import torch

        images = Mnist(self.scaling).load(folder)
        (file,), variant = read(self.source, folder)
        table = idx.parse(file.content, file.path)
        if table.shape[0] != len(images.train_y) or not np.array_equal(table[:, CLASS], images.train_y.numpy()):
            raise DataError(f"{file.path}: its labels are not those of MNIST; {self.source.remedy(folder)}")
        writers = leaf.draw(map(str, np.unique(table[:, WRITER])), self.num_clients, self.name)
        train, test = [], []
        for writer in map(int, writers):
            rng = seeding.generator(0, "test images of a writer", writer)
            own = rng.permutation(np.flatnonzero(table[:, WRITER] == writer))
            cut = math.ceil(self.train_share * len(own))
            train.append(np.sort(own[:cut]))
            test.append(np.sort(own[cut:]))
        rows, others = (torch.from_numpy(np.concatenate(part)) for part in (train, test))
        return replace(
            images,
            train_x=images.train_x[rows],
            train_y=images.train_y[rows],
            test_x=images.train_x[others],
            test_y=images.train_y[others],
            variant=f"{images.variant}, writers {variant}",
            owners=torch.from_numpy(leaf.owners(map(len, train))),
        )
