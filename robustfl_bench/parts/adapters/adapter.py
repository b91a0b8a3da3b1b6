"""The state and the random numbers of somebody else's code, and the base class of adapters of rules."""

from __future__ import annotations

import copy
import pickle
import random
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from robustfl_bench.base.errors import BrokenContract, ConfigError, one_line
from robustfl_bench.parts.aggregators.base import Aggregator, ServerAlone, ServerView

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from robustfl_bench.numerics.updates import Aggregate, Updates

_COLUMNS = 8  # of the random updates on which a rule is tried


@dataclass(frozen=True)
class Adapter(Aggregator):
    """A rule of another package, which knows nothing of this one.

    An object keeps what it needs of earlier rounds in its attributes. Attributes that change, arrays and numbers, are
    the ``memory`` of the rule, so that a run resumes exactly; others that change raise ConfigError. Global random
    streams are seeded for each call, and afterwards are as before.
    """

    rule: Any
    """what is called, and the values of its arguments"""

    @abstractmethod
    def ask(self, rule: Any, updates: Updates, server: ServerView) -> Any:
        """The vector (d,), an array or a tensor, that the ``rule`` makes of the updates."""

    def check(self, n: int) -> None:
        """Raise ConfigError if the rule fails on n random updates, or makes numbers of them that are not finite."""
        import numpy as np
        import torch

        from robustfl_bench.numerics.updates import Updates

        rng = np.random.default_rng(0)
        rows = torch.from_numpy(rng.normal(size=(n, _COLUMNS))).float()
        server = ServerAlone(
            self, lambda name: name, params=torch.zeros(_COLUMNS), step_size=1.0, round=0, rng=rng, previous=None,
            clients=torch.arange(n), counts=torch.ones(n, dtype=torch.float64), memory={},
        )  # fmt: skip
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                finite = bool(self._made(Updates(rows), server).vector.isfinite().all())
        except (ConfigError, BrokenContract):
            raise
        except Exception as error:  # somebody else's code can raise anything
            reason = one_line(error) or type(error).__name__
            raise ConfigError(f"{self._name} fails on {n} updates: {reason}") from error
        if not finite:
            raise ConfigError(f"{self._name} makes numbers that are not finite of {n} updates")

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        try:
            made = self._made(updates, server)
        except Exception:
            self.check(updates.n)  # says so if they are too few
            raise
        if not made.vector.isfinite().all():
            self.check(updates.n)
        return made

    def _made(self, updates: Updates, server: ServerView) -> Aggregate:
        from robustfl_bench.numerics.updates import Aggregate

        tensors = getattr(self, "array", "") == "torch"
        made, memory = remembering(
            self.rule, server.memory, tensors, server.rng, lambda rule: self.ask(rule, updates, server)
        )
        d = updates.matrix.shape[1]
        result = tensor_of(self._name, made, f"a vector ({d},)", ((d,), (1, d), (d, 1)))
        return Aggregate(result.reshape(d).to(updates.matrix), memory=memory or None)

    @property
    def _name(self) -> str:
        return name_of(self.rule)


def name_of(asked: Any) -> str:
    """The name of a function, or of the class of an object."""
    return str(getattr(asked, "__name__", type(asked).__name__))


def tensor_of(name: str, made: Any, wanted: str, shapes: Sequence[tuple[int, ...]]) -> Tensor:
    """The tensor of what a function returned. Raises BrokenContract for nothing, complex numbers and other shapes."""
    import torch

    if made is None:
        raise BrokenContract(f"{name} returned nothing; it must return {wanted}")
    result = torch.as_tensor(made).detach()
    if tuple(result.shape) not in shapes:
        raise BrokenContract(f"{name} must return {wanted}, got shape {tuple(result.shape)}")
    if result.is_complex():
        raise BrokenContract(f"{name} must return {wanted} of real numbers, got complex ones")
    return result


def remembering(
    asked: Any, memory: Mapping[str, Tensor], tensors: bool, rng: np.random.Generator, ask: Callable[[Any], Any]
) -> tuple[Any, dict[str, Tensor]]:
    """What ``ask`` returns of a copy of a function or an object that remembers ``memory``, as ``tensors`` or arrays,
    and its memory after it. Global random streams are seeded from ``rng``."""
    used = copy.deepcopy(asked)
    for name, value in memory.items():
        setattr(used, name, value.item() if value.ndim == 0 else value if tensors else value.numpy())
    with _seeded(int(rng.integers(1 << 31))):
        made = ask(used)
    return made, _changed(name_of(asked), asked, used)


def _changed(name: str, before: Any, after: Any) -> dict[str, Tensor]:
    """The attributes of an object that a call has changed. Raises ConfigError for other ones than arrays and
    numbers."""
    import numpy as np
    import torch

    found: dict[str, Tensor] = {}
    first: Mapping[str, Any] = getattr(before, "__dict__", {})
    for key, value in getattr(after, "__dict__", {}).items():
        if key in first and _bytes(first[key]) == _bytes(value):
            continue
        if not isinstance(value, int | float | np.ndarray | np.generic | torch.Tensor):
            raise ConfigError(
                f"{name} keeps {key}, a {type(value).__name__}, from round to round, which no checkpoint can hold: "
                "write it as a part with memory (robustfl-bench new GROUP NAME)"
            )
        found[key] = torch.as_tensor(value).detach().cpu().clone()
    return found


def _bytes(value: Any) -> bytes | None:
    try:
        return pickle.dumps(value)
    except Exception:  # an object can refuse in any way; then it counts as the same
        return None


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Global random generators begin at ``seed`` within the context, and are as before after it."""
    import numpy as np
    import torch

    from robustfl_bench.base.seeding import GlobalGenerators

    before = GlobalGenerators()
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.default_generator.manual_seed(seed)  # torch.manual_seed also keeps the stack, for GPUs that may not be there
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)
    try:
        yield
    finally:
        before.restore()
