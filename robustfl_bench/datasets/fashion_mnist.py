"""Fashion-MNIST: pictures of clothes (Xiao, Rasul and Vollgraf 2017, https://arxiv.org/abs/1708.07747)."""

from robustfl_bench.datasets import idx
from robustfl_bench.datasets.idx_images import IdxImages


class FashionMnist(IdxImages):
    """60,000 training and 10,000 test images of ten kinds of clothes."""

    name = "fashion_mnist"
    mean, sd = (0.2860,), (0.3530,)
    source = idx.source(
        name,
        folders=("fashion_mnist", "FashionMNIST/raw", "."),  # the second is torchvision's
        sha256=(
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
        md5=(
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "25c81989df183df01b3e8a0aad5dffbe",
            "bef4ecab320f06d8554ea6380940ec79",
            "bb300cfdad3c16e7a12a480ee83cd310",
        ),
        mirrors=(
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        ),
        licence="MIT",
    )
