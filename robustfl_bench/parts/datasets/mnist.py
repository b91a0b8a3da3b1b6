"""MNIST: handwritten digits (LeCun, Bottou, Bengio and Haffner, Proc. IEEE 1998)."""

from robustfl_bench.parts.datasets import idx
from robustfl_bench.parts.datasets.idx_images import IdxImages


class Mnist(IdxImages):
    """60,000 training and 10,000 test images of the digits 0 .. 9."""

    name = "mnist"
    mean, sd = (0.1307,), (0.3081,)
    source = idx.source(
        name,
        folders=("mnist", "MNIST/raw", "."),  # the second is torchvision's
        unpacked=(
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
        published=(
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
        mirrors=(
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
            "http://yann.lecun.com/exdb/mnist/",
        ),
        licence="CC BY-SA 3.0",
    )
