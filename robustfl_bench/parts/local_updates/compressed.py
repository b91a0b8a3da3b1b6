"""Compressed gradient differences, as in BROADCAST (Zhu and Ling, IEEE TSIPN 2023, arXiv 2104.06685)."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base.abilities import passes_on
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import between, one_of
from robustfl_bench.numerics.network.client_rows import ClientRows
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Samples
from robustfl_bench.parts.local_updates.base import LocalUpdate


@passes_on("inner")
@dataclass(frozen=True)
class Compressed(LocalUpdate):
    """A client sends only a compressed difference between its new upload and the server's copy of its uploads.

    The copy h, kept by both, is initially zero. If ``inner`` computes g, the client sends Q = compress(g - h) and the
    server uses h + Q as the upload. Both then add ``beta`` Q to h, so that g - h becomes small if g changes little.
    ``compressor`` = ``random`` keeps every coordinate with probability ``share`` and divides it by ``share``, without
    bias; ``top`` keeps that share of the coordinates, the largest in absolute value. BROADCAST is ``random`` on
    Byrd-SAGA's gradients. ``beta`` null is 1 / (1 + variance). The state is one vector for each client that has
    taken part.
    """

    inner: LocalUpdate
    """the local update whose uploads are compressed"""
    compressor: Annotated[str, one_of(random="each with probability share", top="the largest")] = "random"
    """which coordinates are sent"""
    share: Annotated[float, between(1e-6, 1)] = 0.1
    """share of the coordinates that a client sends"""
    beta: Annotated[float | None, between(0, 1)] = None
    """factor of the difference added to the remembered upload; null: share with random, 1 with top"""

    sends_less = True

    def __post_init__(self) -> None:
        if self.inner.sends_models:
            raise ConfigError(f"inner must send updates, and {type(self.inner).__name__} sends models")

    @property
    def remembered(self) -> int:
        """One vector for each client, and the vectors of ``inner``."""
        return 1 + self.inner.remembered

    def __call__(self, network: Network, params: Tensor, samples: Samples, lr: float, out: Tensor) -> Tensor:
        """Fill the rows of ``out`` (n, d) with the uploads as the server reconstructs them; returns the
        losses of ``inner``."""
        losses = self.inner(network, params, samples, lr, out)
        known = ClientRows(samples.memory, "known_uploads", len(samples.population))
        if new := known.missing(samples.clients):
            known.add([samples.clients[i] for i in new], out.new_zeros(len(new), out.shape[1]))
        beta = self.beta if self.beta is not None else self.share if self.compressor == "random" else 1.0
        for row, i, (_, copy) in zip(out, samples.ids, known.vectors(samples.clients), strict=True):
            row -= copy
            row *= self._kept(row, samples, i)
            row += copy
            copy.lerp_(row, beta)  # h + beta Q, as row is h + Q
        return losses

    def _kept(self, row: Tensor, samples: Samples, i: int) -> Tensor:
        """The factors (d,) of the coordinates."""
        if self.compressor == "top":
            kept = torch.zeros_like(row)
            kept[row.abs().topk(max(1, round(self.share * len(row)))).indices] = 1
            return kept
        kept = torch.from_numpy(samples.draws("kept", i).random(len(row), dtype=np.float32) < self.share)
        return kept.to(row.device) / self.share
