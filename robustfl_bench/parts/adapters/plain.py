"""Functions and plain classes as attacks, partitions, local updates and models."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from robustfl_bench.base.errors import BrokenContract, ConfigError
from robustfl_bench.base.fields import one_of
from robustfl_bench.parts.adapters.adapter import name_of, remembering, tensor_of
from robustfl_bench.parts.adapters.signatures import CLIENTS, DECLARED, OUTPUTS, SIZES, call
from robustfl_bench.parts.attacks.base import Attack, AttackView, Crafted, Shard
from robustfl_bench.parts.local_updates.base import LocalUpdate
from robustfl_bench.parts.models.base import Model
from robustfl_bench.parts.partitions.base import Partition

if TYPE_CHECKING:
    from torch import Tensor, nn

    from robustfl_bench.numerics.network.network import Network
    from robustfl_bench.numerics.network.samples import Samples

Given = Callable[[], Any]
"""Makes what is given under a name, if it is asked for."""


@dataclass(frozen=True)
class Plain:
    """What is called, and what it is given: copies. Global random numbers that it draws follow the seed of the run."""

    function: Any
    """what is called, and the values of its arguments"""
    array: Annotated[str, one_of(numpy="NumPy arrays", torch="tensors on the device of the run")] = "numpy"
    """the kind of what it is given"""

    def _asked(
        self,
        rng: np.random.Generator,
        first: Sequence[Tensor | np.ndarray],
        given: Mapping[str, Given],
        memory: Mapping[str, Tensor] = MappingProxyType({}),
    ) -> tuple[Any, dict[str, Tensor]]:
        """What it returns for its ``first`` arguments and those that it names of what is ``given``, and what it
        remembers."""
        named = {name: partial(self._copied_of, make) for name, make in given.items()}
        tensors = self.array == "torch"
        return remembering(
            self.function, memory, tensors, rng, lambda asked: call(asked, *map(self._copied, first), **named)
        )

    def _copied_of(self, make: Given) -> Any:
        return self._copied(make())

    def _copied(self, value: Any) -> Any:
        """A copy of a tensor or an array, as it is given; any other value as it is."""
        if isinstance(value, np.ndarray):
            return value.copy()
        if not hasattr(value, "clone"):
            return value
        return value.clone() if self.array == "torch" else value.cpu().numpy().copy()

    @property
    def _name(self) -> str:
        return name_of(self.function)


@dataclass(frozen=True)
class PlainAttack(Plain, Attack):
    """What attackers send as a function, or an object that is called: of the honest updates (h, d).

    It returns the uploads of the b attackers, (b, d), or (d,) if all send the same. By name it gets what the view of an
    attack has: ``n`` clients and ``f`` attackers of the round, ``params`` (d,), ``previous``, ``round``, ``lr``,
    ``mean`` and ``std`` (d,), ``own`` (b, d), ``rng``, and ``ask``, which maps uploads to the server's aggregate (d,).
    What an object keeps from round to round is the memory of the attack.
    """

    def craft(self, view: AttackView) -> Crafted:
        import torch

        def ask(rows: Any) -> Any:
            return self._copied(view.aggregate(torch.as_tensor(rows).to(view.params)).vector)

        own = ("round", "lr", "rng", "params", "previous", "mean", "std", "own")
        given: dict[str, Given] = {
            **dict.fromkeys(CLIENTS, lambda: view.n),
            **dict.fromkeys(DECLARED, lambda: view.num_byzantine),
            **{name: partial(getattr, view, name) for name in own},
            "ask": lambda: ask,
        }
        made, memory = self._asked(view.rng, [view.honest.matrix], given, view.memory)
        b, d = view.num_byzantine, len(view.params)
        rows = tensor_of(self._name, made, f"updates ({d},) or ({b}, {d})", ((d,), (b, d)))
        return Crafted(rows.to(view.params), memory)


@dataclass(frozen=True)
class PlainPoison(Plain, Attack):
    """What attackers train on as a function: of the samples ``x`` (N, ...) and the labels ``y`` (N,) of one of them. It
    returns both. By name it gets ``num_classes``, ``rng`` and ``attacker``, the number of the client among them."""

    crafts = False

    def poison(self, shard: Shard) -> tuple[Tensor, Tensor]:
        import torch

        given: dict[str, Given] = {
            **dict.fromkeys(OUTPUTS, lambda: shard.num_classes),
            **{name: partial(getattr, shard, name) for name in ("rng", "attacker")},
        }
        made, _ = self._asked(shard.rng, [shard.x, shard.y], given)
        if not isinstance(made, tuple | list) or len(made) != 2 or len(made[0]) != len(made[1]):
            raise BrokenContract(f"{self._name} must return samples and as many labels")
        x, y = (torch.as_tensor(new).to(old) for new, old in zip(made, (shard.x, shard.y), strict=True))
        if x.shape[1:] != shard.x.shape[1:] or y.ndim != 1:
            shape = tuple(shard.x.shape[1:])
            raise BrokenContract(f"{self._name} must return samples of shape {shape}, got {tuple(x.shape[1:])}")
        return x, y


@dataclass(frozen=True)
class PlainPartition(Plain, Partition):
    """A division of the samples as a function of their labels (N,): it returns the client of each sample, (N,), or the
    indices of each client's samples, as a list or by client in a dict. By name it gets ``num_clients`` and ``rng``."""

    def __call__(self, labels: np.ndarray, num_clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        given: dict[str, Given] = {**dict.fromkeys(CLIENTS, lambda: num_clients), "rng": lambda: rng}
        made, _ = self._asked(rng, [labels], given)
        if isinstance(made, Mapping):
            made = [made[client] for client in sorted(made)]
        if not isinstance(made, list | tuple):
            clients = np.asarray(made)
            if clients.shape != labels.shape or clients.dtype.kind not in "iu":
                raise BrokenContract(f"{self._name} must return the client of each of the {len(labels)} samples, or "
                                     "lists of samples")  # fmt: skip
            if clients.size and (clients.min() < 0 or clients.max() >= num_clients):
                raise BrokenContract(f"{self._name} must return clients from 0 to {num_clients - 1}, got "
                                     f"{clients.min()} to {clients.max()}")  # fmt: skip
            made = [np.flatnonzero(clients == client) for client in range(num_clients)]
        return [np.asarray(part, dtype=np.int64) for part in made]


@dataclass(frozen=True)
class PlainUpdate(Plain, LocalUpdate):
    """A client's training as a function of the server's model ``params`` (d,): it returns the client's model (d,), and
    the server steps along the aggregate of the differences.

    By name it gets ``gradient``, which maps a model (d,) to the gradient (d,) on the client's next batch, ``lr``,
    ``round``, ``num_samples`` and the client's own ``rng``.
    """

    def __call__(self, network: Network, params: Tensor, samples: Samples, lr: float, out: Tensor) -> Tensor:
        """Fill the rows of ``out`` (n, d) with start minus end; returns the losses (n,) on the first batches."""
        import torch

        pairs = zip(samples.clients, samples.ids, strict=True)
        alone = [replace(samples, clients=[client], ids=[number]) for client, number in pairs]
        return torch.stack([self._train(network, params, own, lr, out[i]) for i, own in enumerate(alone)])

    def _train(self, network: Network, params: Tensor, samples: Samples, lr: float, row: Tensor) -> Tensor:
        import torch

        from robustfl_bench.base import seeding

        losses: list[Tensor] = []

        def gradient(model: Any) -> Any:
            batch = samples.batch(len(losses))
            losses.append(network.gradients(torch.as_tensor(model).to(params), batch, row[None])[0])
            return self._copied(row)

        rng = seeding.generator(samples.seed, "plain update", samples.stream, samples.round, samples.ids[0])
        given: dict[str, Given] = {
            "gradient": lambda: gradient,
            "lr": lambda: lr,
            "round": lambda: samples.round,
            "rng": lambda: rng,
            "num_samples": lambda: int(samples.sizes[0]),
        }
        made, _ = self._asked(rng, [params], given)
        end = tensor_of(self._name, made, f"a model ({len(params)},)", ((len(params),),)).to(params)
        if not losses:
            gradient(params)
        torch.sub(params, end, out=row)
        return losses[0]

    def step_size(self, lr: float) -> float:
        """1: the updates are differences of models."""
        return 1.0


@dataclass(frozen=True)
class PlainModel(Plain, Model):
    """A network as a class of PyTorch, or a function that makes it. By name it gets ``input_shape``, ``num_classes``,
    ``in_features``, the numbers in a sample, and ``in_channels``; its other arguments are options."""

    def __call__(self, input_shape: Sequence[int], num_classes: int) -> nn.Module:
        """The network, as the base class describes it."""
        from torch import nn

        given: dict[str, Given] = {
            "input_shape": lambda: tuple(input_shape),
            "in_channels": lambda: input_shape[0],
            **dict.fromkeys(SIZES, lambda: math.prod(input_shape)),
            **dict.fromkeys(OUTPUTS, lambda: num_classes),
        }
        made = call(self.function, **given)
        if not isinstance(made, nn.Module):
            raise ConfigError(f"model {self._name} must make a torch.nn.Module, got a {type(made).__name__}")
        return made
