"""The base class of data sets, and the tensors that they load."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from robustfl_bench.base.abilities import Ability, Part, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch import Tensor

    from robustfl_bench.parts.datasets.files import Source


@dataclass(frozen=True)
class Scaling:
    """The standardisation of images: ``(pixels - mean) / sd``, pixels in [0, 1], ``mean`` and ``sd`` (C, 1, 1)."""

    mean: Tensor
    sd: Tensor

    def pixels(self, inputs: Tensor) -> Tensor:
        """The images (N, C, H, W) in [0, 1] from which ``inputs`` were made."""
        return (inputs * self.sd).add_(self.mean).clamp_(0, 1)

    def inputs(self, pixels: Tensor) -> Tensor:
        """The network inputs for the images ``pixels``."""
        return (pixels - self.mean).div_(self.sd)

    def to(self, device: torch.device) -> Scaling:
        """The same scaling on ``device``."""
        return Scaling(self.mean.to(device), self.sd.to(device))


@dataclass(frozen=True)
class Data:
    """A data set as tensors: ``train_x`` (N, ...) float32 or token ids, ``train_y`` (N,) int64, the same for test.

    ``variant`` names the variant of the files (official, rebuilt, subset ...). Texts, as token ids with 0 for padding,
    come with the ``vectors`` (V, e) of their words; images with their ``scaling``. For regression, ``train_y`` is
    float32, (N,) or (N, t). A data set may give the client of each training sample, ``owners`` (N,), and the cluster
    (of K) of each sample, ``clusters`` (N,) and ``test_clusters``. Generated data also have the true parameters of the
    clusters, ``truth`` (K, d) float64. ``inputs`` says what makes samples of a user's files inputs of a model: a sample
    minus ``mean``, divided by ``sd``; and the names of the ``classes``.

        >>> from pathlib import Path
        >>> import robustfl_bench as rb
        >>> data = rb.Digits().load(Path())  # or the copy in the package, if the folder has none
        >>> data.train_x.shape, data.test_y.shape, data.origin["variant"]
        (torch.Size([1437, 1, 8, 8]), torch.Size([360]), 'official')
    """

    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor
    variant: str = "official"
    vectors: Tensor | None = None
    scaling: Scaling | None = None
    owners: Tensor | None = None
    clusters: Tensor | None = None
    test_clusters: Tensor | None = None
    truth: Tensor | None = None
    inputs: Mapping[str, Any] | None = None

    def to(self, device: torch.device) -> Data:
        """The same data on ``device``."""
        values: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        return Data(**{name: value.to(device) if hasattr(value, "to") else value for name, value in values.items()})

    @cached_property
    def digest(self) -> str:
        """SHA-256, in hexadecimal, of the name, type, shape and little-endian bytes of each tensor but ``vectors``.

        Computed once, on first access. Data read from files have the same digest on every machine and device. Generated
        data may not, because their matrix products are rounded differently on different processors. The same holds for
        ``vectors`` made from the texts, which ``train_x`` determines; the digest of vectors read from a file is part of
        ``variant``.
        """
        import numpy as np
        import torch

        total = hashlib.sha256()
        for each in fields(self):
            tensor = getattr(self, each.name)
            if not isinstance(tensor, torch.Tensor) or each.name == "vectors":
                continue
            array = np.ascontiguousarray(tensor.cpu().numpy())
            total.update(f"{each.name} {array.dtype.name} {array.shape} ".encode())
            total.update(array.astype(array.dtype.newbyteorder("<"), copy=False).data)
        return total.hexdigest()

    @property
    def origin(self) -> dict[str, str | int]:
        """The variant, the numbers of samples and the digest of the data, for the summary of a run."""
        return {
            "variant": self.variant,
            "train_samples": len(self.train_y),
            "test_samples": len(self.test_y),
            "digest": self.digest,
        }


class Dataset(Part):
    """A data set, whose shapes are known before it is loaded.

    Subclasses are frozen, because equal data sets are loaded once. ``content`` is the kind of a sample: ``numbers``,
    ``words`` or ``characters``. A data set of words also has ``embedding_dim``, the length of its word vectors.
    ``source`` describes its files; if it is None, robustfl-data has to load the data to report their state.
    """

    abilities: ClassVar[Table] = {"not_finite": Ability(counts="never")}

    content: str = "numbers"
    embedding_dim: int = 0
    if TYPE_CHECKING:

        @property
        def source(self) -> Source | None:
            """The description of the files."""

        @property
        def name(self) -> str:
            """The name, as in ``dataset=name``."""

        @property
        def num_classes(self) -> int:
            """Number of outputs that a model needs: the number of classes, or of values to predict."""

        @property
        def input_shape(self) -> tuple[int, ...]:
            """Shape of one sample."""

        @property
        def class_names(self) -> Sequence[str]:
            """What the classes are called, empty if by their numbers alone."""

        @property
        def owner_names(self) -> Sequence[str]:
            """What the clients of the data are called, by their numbers in ``Data.owners``; empty if by these alone."""
    else:
        source = None
        class_names = owner_names = ()
        name: str
        num_classes: int
        input_shape: tuple[int, ...]

    def not_finite(self) -> str:
        """Where its files hold a number that is not finite, and what to do about it, for the message that refuses
        it."""
        return "make its files again"

    @abstractmethod
    def load(self, folder: Path) -> Data:
        """Read the files from the data set's sub-folder of ``folder``; raises DataError if they are missing or
        damaged."""
