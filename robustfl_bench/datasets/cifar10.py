"""CIFAR-10: small colour photographs (Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009)."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from robustfl_bench.datasets.cifar import parse_binary, parse_python
from robustfl_bench.datasets.download import Download
from robustfl_bench.datasets.files import File, Layout, Source, read
from robustfl_bench.datasets.images import SCALINGS, to_data
from robustfl_bench.errors import check_choice
from robustfl_bench.interfaces import Data, Dataset

MEAN, SD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)  # of the training pixels, red, green, blue

BATCHES = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch")
OFFICIAL_PYTHON = (
    "c99cafc152244af753f735de768cd75f",
    "d4bba439e000b95fd0a9bffe97cbabec",
    "54ebc095f3ab1f0389bbae665268c751",
    "634d18415352ddfa80567beed471001a",
    "482c414d41f54cd18b22e5b47cb7c3cb",
    "40351d587109b95175f43aff81a1287e",
)
# The official images and labels in the official order, except that 77 + 21 images were decoded from JPEG copies.
REBUILT = "rebuilt, 98 of 60,000 images from JPEG"
REBUILT_PYTHON = (
    "bae7eb8eccab9a495a7b644ff6d0cc2c",
    "6fc347172baf0a3cfcfdf2bd0401f4cf",
    "f110aadc8880d3ec6a41864f37adfc7d",
    "d0dcf5153e6b4f8317cb0439f1e46d3f",
    "f902d0081d81b037cf0decfdd75be3c9",
    "307885da25aaf8c9d5d349af7f990296",
)
OFFICIAL_BINARY = (  # sha1
    "aadd24acce27caa71bf4b10992e9e7b2d74c2540",
    "c0ba65cce70568cd57b4e03e9ac8d2a5367c1795",
    "1dd00a74ab1d17a6e7d73e185b69dbf31242f295",
    "aab85764eb3584312d3c7f65fd2fd016e36a258e",
    "26e2849e66a845b7f1e4614ae70f4889ae604628",
    "67eb016db431130d61cd03c7ad570b013799c88c",
)
PYTHON = tuple(
    File(batch, {f"md5:{official}": "official", f"md5:{rebuilt}": REBUILT})
    for batch, official, rebuilt in zip(BATCHES, OFFICIAL_PYTHON, REBUILT_PYTHON, strict=True)
)
BINARY = tuple(
    File(f"{batch}.bin", {f"sha1:{official}": "official"}, size=30_730_000)
    for batch, official in zip(BATCHES, OFFICIAL_BINARY, strict=True)
)
PLACES = (
    ("cifar-10-python.tar.gz", PYTHON),
    ("cifar-10-batches-py", PYTHON),
    ("cifar-10-batches-bin", BINARY),
    ("cifar-10-binary.tar.gz", BINARY),
)


@dataclass(frozen=True)
class Cifar10(Dataset):
    """50,000 training and 10,000 test images, (N, 3, 32, 32), in ten classes; ``scaling`` as in images.py.

    Reads the official archives as they are, or their unpacked files, of the python and of the binary version.
    """

    scaling: str = "standardize"

    name = "cifar10"
    input_shape = (3, 32, 32)
    num_classes = 10
    source = Source(
        name,
        layouts=tuple(Layout(folder + place, files) for folder in ("cifar10/", "") for place, files in PLACES),
        downloads=(
            Download(
                "cifar-10-python.tar.gz",
                "c58f30108f718f92721af3b95e74349a",
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
        batches = [
            (parse_binary if file.name.endswith(".bin") else parse_python)(file.content, file.path) for file in files
        ]
        *train, test = batches
        pixels, labels = (np.concatenate(part) for part in zip(*train, strict=True))
        return to_data((pixels, labels), test, variant, self.scaling, MEAN, SD)
