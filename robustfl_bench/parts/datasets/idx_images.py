"""Image data sets of idx files: the common part of MNIST and its drop-in replacements."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from robustfl_bench.base.fields import one_of
from robustfl_bench.parts.datasets import idx
from robustfl_bench.parts.datasets.base import Data, Dataset
from robustfl_bench.parts.datasets.files import Source, read
from robustfl_bench.parts.datasets.images import SCALINGS, to_data


@dataclass(frozen=True)
class IdxImages(Dataset):
    """60,000 training and 10,000 test images, (N, 1, 28, 28), of ten classes; ``scaling`` as in images.py.

    A data set names its files, ``source``, and the ``mean`` and ``sd`` of its training pixels on the unit scale.
    """

    scaling: Annotated[str, one_of(**SCALINGS)] = "standardize"
    """pixels"""

    source: ClassVar[Source]
    mean: ClassVar[tuple[float]]
    sd: ClassVar[tuple[float]]
    input_shape = (1, 28, 28)
    num_classes = 10

    def load(self, folder: Path) -> Data:
        files, variant = read(self.source, folder)
        train_x, train_y, test_x, test_y = (idx.parse(file.content, file.path) for file in files)
        train, test = (train_x[:, None], train_y), (test_x[:, None], test_y)
        return to_data(train, test, variant, self.scaling, self.mean, self.sd)
