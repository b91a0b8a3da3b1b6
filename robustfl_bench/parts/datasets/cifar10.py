"""CIFAR-10: small colour photographs (Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np

from robustfl_bench.base.fields import one_of
from robustfl_bench.parts.datasets.base import Data, Dataset
from robustfl_bench.parts.datasets.cifar import parse_binary, parse_python
from robustfl_bench.parts.datasets.download import Download
from robustfl_bench.parts.datasets.files import File, Layout, Source, read
from robustfl_bench.parts.datasets.images import SCALINGS, to_data

MEAN, SD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)  # of the training pixels, red, green, blue

BATCHES = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch")
OFFICIAL_PYTHON = (
    "54636561a3ce25bd3e19253c6b0d8538147b0ae398331ac4a2d86c6d987368cd",
    "766b2cef9fbc745cf056b3152224f7cf77163b330ea9a15f9392beb8b89bc5a8",
    "0f00d98ebfb30b3ec0ad19f9756dc2630b89003e10525f5e148445e82aa6a1f9",
    "3f7bb240661948b8f4d53e36ec720d8306f5668bd0071dcb4e6c947f78e9682b",
    "d91802434d8376bbaeeadf58a737e3a1b12ac839077e931237e0dcd43adcb154",
    "f53d8d457504f7cff4ea9e021afcf0e0ad8e24a91f3fc42091b8adef61157831",
)
# The official images and labels in the official order, except that 77 + 21 images were decoded from JPEG copies.
REBUILT = "rebuilt, 98 of 60,000 images from JPEG"
REBUILT_PYTHON = (
    "8f5e3fb1f2cdda32f0f679b2c5076b1c7fb31af9042af268d16f9a0d14a0a352",
    "45490e0fc21561e03a1eac6894a9f48d7e8e77b3153169f6ee6a869ef46c3df2",
    "32b6ec97fa0ff0feded1fdabd5ca24c2bce9977156cad696f28bb13bb0b68f81",
    "731a66fc33dff933cf32c50a549dd799f3b3b77b2a8a79470551de2272e3649a",
    "080e180db663c3b64114508674b813cdd5d0dc34c8eab211a9f1d8df07ca37f0",
    "56598e371d88dca6062dc54f47476ba064851133ab6388a7f176929193fba9fa",
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
    File(batch, {f"sha256:{official}": "official", f"sha256:{rebuilt}": REBUILT}, at_most=32_000_000)
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

    scaling: Annotated[str, one_of(**SCALINGS)] = "standardize"
    """pixels"""

    name = "cifar10"
    input_shape = (3, 32, 32)
    num_classes = 10
    source = Source(
        name,
        layouts=tuple(Layout(folder + place, files) for folder in ("cifar10/", "") for place, files in PLACES),
        downloads=(
            Download(
                "cifar-10-python.tar.gz",
                "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
                ("https://www.cs.toronto.edu/~kriz/", "https://cave.cs.toronto.edu/kriz/"),
            ),
        ),
        sizes=dict.fromkeys(("official", REBUILT), (50_000, 10_000)),
        licence="none stated, cite Krizhevsky 2009",
    )

    def load(self, folder: Path) -> Data:
        files, variant = read(self.source, folder)
        batches = [
            (parse_binary if file.name.endswith(".bin") else parse_python)(file.content, file.path) for file in files
        ]
        *train, test = batches
        pixels, labels = (np.concatenate(part) for part in zip(*train, strict=True))
        return to_data((pixels, labels), test, variant, self.scaling, MEAN, SD)
