"""The memory layout of the feature maps of convolutional networks, and the pixels that they need."""

from collections.abc import Sequence

from torch import Tensor, nn


class ChannelsLast(nn.Module):
    """Layer that returns the first ``height`` rows and ``width`` columns of the images, by default all; on a CPU with
    the channels of a pixel adjacent in memory."""

    def __init__(self, height: int | None = None, width: int | None = None) -> None:
        super().__init__()
        self.height, self.width = height, width

    def forward(self, x: Tensor) -> Tensor:
        """The images (N, C, height, width); the layers that follow keep the layout."""
        x = x[:, :, : self.height, : self.width]
        if x.device.type != "cpu":
            return x
        if x.shape[1] == 1:  # both layouts have the same bytes, and PyTorch decides by the strides
            _, _, height, width = x.shape
            return x.contiguous().as_strided(x.shape, (height * width, 1, width, 1))
        return x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)  # unlike memory_format, also under vmap


def side_in_use(side: int, blocks: Sequence[tuple[int, int]]) -> int:
    """How many of the ``side`` pixels along one side of an image some output depends on.

    ``blocks`` are the kernels of convolutions without padding, each with the size of the pooling after it (1 for none).
    A pooling drops the last pixels if they do not fill a window, and with them what they depend on.
    """
    for kernel, pooling in blocks:
        side = (side - kernel + 1) // pooling
    for kernel, pooling in reversed(blocks):
        side = side * pooling + kernel - 1
    return side
