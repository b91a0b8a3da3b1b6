"""Networks that begin with given weights (ours)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robustfl_bench.base.abilities import passes_on
from robustfl_bench.base.errors import ConfigError, DataError
from robustfl_bench.base.regular import digest_of
from robustfl_bench.parts.models.base import Model

if TYPE_CHECKING:
    from torch import Tensor, nn


@passes_on("model")
@dataclass(frozen=True)
class Started(Model):
    """The network of ``model`` with the weights of a ``.safetensors`` file, by the names of its parameters.

    The setting ``init`` makes this model of any other, so that a run goes on from a trained model, with any attack and
    rule. Raises DataError for a file that cannot be read or has changed, ConfigError for weights of another network.
    """

    model: Model
    """the network"""
    path: str
    """a .safetensors with a tensor for each parameter"""
    digest: str | None = None
    """SHA-256 of the file: a changed file makes another run, a moved one does not"""

    def __call__(self, *args: Any, **kwargs: Any) -> nn.Module:
        """The network, as the base class describes it."""
        import torch

        module, weights = self.model(*args, **kwargs), self._read()
        own = dict(module.named_parameters())
        if unlike := sorted(own.keys() ^ weights.keys()):
            raise ConfigError(f"init: {self.path} has weights of another network: only one of them has {unlike[0]}")
        with torch.no_grad():
            for name, parameter in own.items():
                if parameter.shape != weights[name].shape:
                    shapes = f"{tuple(weights[name].shape)}, here {tuple(parameter.shape)}"
                    raise ConfigError(f"init: {self.path} has weights of another network: {name} is {shapes}")
                parameter.copy_(weights[name])
        return module

    def _read(self) -> dict[str, Tensor]:
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        found = digest_of(Path(self.path))
        if found is None:
            raise DataError(f"init: no file {self.path}; a run with save_weights=true writes weights.safetensors")
        if self.digest is not None and found != self.digest:
            raise DataError(f"init: {self.path} has changed: its SHA-256 is {found}, expected {self.digest}")
        try:
            return load_file(self.path)
        except (SafetensorError, OSError, ValueError) as error:
            raise DataError(f"init: {self.path} is no file of safetensors: {error}") from error
