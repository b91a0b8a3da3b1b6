"""CIFAR-100: small colour photographs in a hundred classes (Krizhevsky, see cifar10.py)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from robustfl_bench.base.fields import one_of
from robustfl_bench.parts.datasets.base import Data, Dataset
from robustfl_bench.parts.datasets.cifar import parse_python
from robustfl_bench.parts.datasets.download import Download
from robustfl_bench.parts.datasets.files import File, Layout, Source, read
from robustfl_bench.parts.datasets.images import SCALINGS, to_data

MEAN, SD = (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)  # of all training pixels, red, green, blue

SUBSET = "subset, the first 8 + 2 images of each class"  # enough for a trial, too few to measure anything
OFFICIAL_TRAIN = "sha256:735e79b04f092ca3d2e6d07f368c0a7d70d48c48d28865950cc24454cf45129b"
OFFICIAL_TEST = "sha256:4b67687d9933c4db8f0831104447f15b93774f4f464bd0516f0f0f2ac83b7864"
SUBSET_TRAIN = "sha256:b62c34318fc7d3979999ebb7e9618964b64c3706e17fb6f5c1f28354f5e2f2c5"
SUBSET_TEST = "sha256:9a068d51e18099c6748ebf53863d0ba0de8dc9854e1cfd91101ccf6d4108b6ab"
FILES = (
    File("train", {OFFICIAL_TRAIN: "official", SUBSET_TRAIN: SUBSET}, at_most=160_000_000),
    File("test", {OFFICIAL_TEST: "official", SUBSET_TEST: SUBSET}, at_most=32_000_000),
)
PLACES = ("cifar-100-python.tar.gz", "cifar-100-python", "cifar-100-python-subset")


@dataclass(frozen=True)
class Cifar100(Dataset):
    """50,000 training and 10,000 test images, (N, 3, 32, 32), in 100 (fine) classes; ``scaling`` as in images.py.

    Reads the official archive of the python version as it is, or its unpacked files. ``Data.variant`` says if they
    are only a subset.
    """

    scaling: Annotated[str, one_of(**SCALINGS)] = "standardize"
    """pixels"""

    name = "cifar100"
    input_shape = (3, 32, 32)
    num_classes = 100
    source = Source(
        name,
        layouts=tuple(Layout(folder + place, FILES) for folder in ("cifar100/", "") for place in PLACES),
        downloads=(
            Download(
                "cifar-100-python.tar.gz",
                "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
                ("https://www.cs.toronto.edu/~kriz/", "https://cave.cs.toronto.edu/kriz/"),
            ),
        ),
        sizes={"official": (50_000, 10_000), SUBSET: (800, 200)},
        licence="none stated, cite Krizhevsky 2009",
    )

    def load(self, folder: Path) -> Data:
        files, variant = read(self.source, folder)
        train, test = (parse_python(file.content, file.path, "fine_labels", 100) for file in files)
        return to_data(train, test, variant, self.scaling, MEAN, SD)
