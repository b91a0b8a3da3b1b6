"""Digits: small handwritten digits, which come with this package (Alpaydin and Kaynak, UCI repository, 1998)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np

from robustfl_bench.base import seeding
from robustfl_bench.base.fields import at_least, one_of
from robustfl_bench.parts.datasets.base import Data, Dataset
from robustfl_bench.parts.datasets.files import File, Layout, Source, read
from robustfl_bench.parts.datasets.images import SCALINGS, to_data

MEAN, SD = (0.305386,), (0.375507,)  # of the training pixels
NUM_TRAIN, NUM_TEST = 1437, 360


@dataclass(frozen=True)
class Digits(Dataset):
    """1437 training and 360 test images, (N, 1, 8, 8), of the digits 0 .. 9; ``scaling`` as in images.py.

    In the file one writer follows the other. Its first 1437 rows are for training and its last 360 for testing, so
    that most test digits come from writers not seen in training, as in the original study. With a number in ``split``
    the test images are drawn at random instead; ``split=${seed}`` draws them anew with every seed. Needs no data
    folder.
    """

    scaling: Annotated[str, one_of(**SCALINGS)] = "standardize"
    """pixels"""
    split: Annotated[int | None, at_least(0)] = None
    """seed of a random division into training and test images; null: by writer"""

    name = "digits"
    input_shape = (1, 8, 8)
    num_classes = 10
    source = Source(
        name,
        layouts=(
            Layout(
                str(Path(__file__).parent),
                (
                    File(
                        "digits.csv",
                        {"sha256:6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8": "official"},
                        size=264_712,
                    ),
                ),
            ),
        ),
        licence="CC BY 4.0",
        sizes={"official": (NUM_TRAIN, NUM_TEST)},
        bundled=True,
    )

    def load(self, folder: Path) -> Data:
        (file,), variant = read(self.source, folder)
        table = np.loadtxt(file.content.decode().splitlines(), dtype=np.uint8, delimiter=",")  # 64 pixels and the class
        pixels, labels = table[:, :-1].reshape(-1, 1, 8, 8), table[:, -1]
        if self.split is not None:
            order = seeding.generator(self.split, "digits").permutation(len(table))
            pixels, labels, variant = pixels[order], labels[order], "random split"
        train, test = (pixels[:NUM_TRAIN], labels[:NUM_TRAIN]), (pixels[NUM_TRAIN:], labels[NUM_TRAIN:])
        return to_data(train, test, variant, self.scaling, MEAN, SD, top=16)
