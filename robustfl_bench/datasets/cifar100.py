"""CIFAR-100: small colour photographs in a hundred classes (Krizhevsky, see cifar10.py)."""

from dataclasses import dataclass
from pathlib import Path

from robustfl_bench.datasets.cifar import parse_python
from robustfl_bench.datasets.download import Download
from robustfl_bench.datasets.files import File, Layout, Source, read
from robustfl_bench.datasets.images import SCALINGS, to_data
from robustfl_bench.errors import check_choice
from robustfl_bench.interfaces import Data, Dataset

MEAN, SD = (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)  # of all training pixels, red, green, blue

SUBSET = "subset, the first 8 + 2 images of each class"  # enough to run the path, not to measure
FILES = (
    File("train", {"md5:16019d7e3df5f24257cddd939b257f8d": "official", "md5:b105cbb86148271a7ce68b9aa5eb4991": SUBSET}),
    File("test", {"md5:f0ef6b0ae62326f3e7ffdfab6717acfc": "official", "md5:bfb57a6c6ee59042c4514642fd715a18": SUBSET}),
)
PLACES = ("cifar-100-python.tar.gz", "cifar-100-python", "cifar-100-python-subset")


@dataclass(frozen=True)
class Cifar100(Dataset):
    """50,000 training and 10,000 test images, (N, 3, 32, 32), in 100 (fine) classes; ``scaling`` as in images.py.

    Reads the official archive of the python version as it is, or its unpacked files. ``Data.source`` tells when they
    are a subset only.
    """

    scaling: str = "standardize"

    name = "cifar100"
    input_shape = (3, 32, 32)
    num_classes = 100
    source = Source(
        name,
        layouts=tuple(Layout(folder + place, FILES) for folder in ("cifar100/", "") for place in PLACES),
        downloads=(
            Download(
                "cifar-100-python.tar.gz",
                "eb9058c3a382ffc7106e4002c42a8d85",
                ("https://www.cs.toronto.edu/~kriz/", "https://cave.cs.toronto.edu/kriz/"),
            ),
        ),
        num_train=50_000,
        num_test=10_000,
        licence="none stated, cite Krizhevsky 2009",
    )

    def __post_init__(self) -> None:
        check_choice("scaling", self.scaling, SCALINGS)

    def load(self, folder: Path) -> Data:
        files, variant = read(self.source, folder)
        train, test = (parse_python(file.content, file.path, "fine_labels", 100) for file in files)
        return to_data(train, test, variant, self.scaling, MEAN, SD)
