"""The base class of aggregation rules, and the view of the server that a rule receives."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

from robustfl_bench.base.abilities import Ability, Part, Table
from robustfl_bench.base.errors import BrokenContract, ConfigError

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from robustfl_bench.numerics.neighbourhoods import Neighbourhoods
    from robustfl_bench.numerics.questions import Questions
    from robustfl_bench.numerics.updates import Aggregate, Updates

    Matrix = TypeVar("Matrix", np.ndarray, Tensor)


@dataclass
class ServerView:
    """The knowledge of the server in a round. Everything that needs server data is computed on first access.

    ``params`` (d,) is the model sent to the clients, ``step_size`` the factor of the aggregate in the server's step,
    ``after`` the function that maps an aggregate (d,) to the model (d,) after that step, by the server's optimizer;
    ``previous`` (d,) the last aggregate or None, ``rng`` the rule's random stream of this round. ``clients`` (n,) int64
    are the clients of the rows, None after a pre-aggregation; ``counts`` (N,) float64 are the sample counts of all
    clients. ``memory`` is the ``memory`` of the rule's last aggregate, empty at first.
    """

    params: Tensor
    step_size: float
    round: int
    rng: np.random.Generator
    previous: Tensor | None
    clients: Tensor | None
    counts: Tensor
    memory: Mapping[str, Tensor]
    after: Callable[[Tensor], Tensor]
    train_per_class: Callable[[], Tensor]
    train_together: Callable[[], Tensor]
    loss: Callable[[Tensor], Tensor]
    gradient: Callable[[Tensor], Tensor]
    """``loss`` maps models (k, d) to their mean losses (k,) float64 on the server's data; ``gradient`` (d,) to (d,)."""
    losses_of: Callable[[Tensor, Tensor], Tensor]
    """Returns the mean training losses (m,) float64 that ``clients`` (m,) report for a model (d,); Byzantine clients
    may report false ones."""
    layers: tuple[int, ...] = ()
    """Sizes of the model's parameter tensors, in the order of ``params``; empty if unknown."""

    @cached_property
    def class_updates(self) -> Tensor:
        """One update per class, (c, d), by training on the server's samples of the class in the clients' way."""
        return self.train_per_class()

    @cached_property
    def update(self) -> Tensor:
        """The update (d,) by training on all samples of the server."""
        return self.train_together()


class ServerAlone(ServerView):
    """The server of a rule that is called outside of a run: it has the ``known`` fields and nothing else.

    Reading another field raises ConfigError; ``lacking`` puts into words what the rule then needs, by the field's name.
    """

    __repr__ = object.__repr__  # ServerView's would read every field

    def __init__(self, rule: Aggregator, lacking: Callable[[str], str], **known: Any) -> None:
        self.__dict__ |= {**known, "_rule": type(rule).__name__, "_lacking": lacking}

    def __getattr__(self, name: str) -> Any:
        if name not in {field.name for field in fields(ServerView)}:
            raise AttributeError(name)
        raise ConfigError(f"{self.__dict__['_rule']} needs {self.__dict__['_lacking'](name)}")


def _argument(name: str) -> str:
    """What a rule called with a bare matrix needs, for a field of the server."""
    model = "the model: pass params="
    needed = {"params": model, "after": model, "losses_of": "the clients' losses: pass losses="}
    return needed.get(name, "the server's samples: run it through robustfl_bench.run")


def no_aggregate(made: object) -> str:
    """The fault of a rule that returned something else."""
    return f"returned a {type(made).__name__}, no Aggregate: updates.combine(weights) makes one"


@dataclass(frozen=True)
class RingForm:
    """The computation of a rule by clients on a ring, for rules whose aggregate depends only on a sum over clients.

    ``sent`` maps updates (..., d) to the summands, ``agreed`` maps the sum (d,) of n summands, or a chunk of it, to the
    aggregate. ``outcomes`` are the possible values of a coordinate of the aggregate if clients send signs; None if they
    send real numbers.
    """

    sent: Callable[[Tensor], Tensor]
    agreed: Callable[[Tensor, int], Tensor]
    outcomes: tuple[float, ...] | None = None


@dataclass(frozen=True)
class SumForm:
    """The computation of a rule by a server that learns only a sum over the clients.

    ``sent`` maps a client's update, ``Updates`` of one row with its sample count, to its message (k,) of any length
    k. ``agreed`` maps the sum (k,) float64 of n messages, and n, to the aggregate (d,). If several processes share the
    columns, d are those that are here.
    """

    sent: Callable[[Updates], Tensor]
    agreed: Callable[[Tensor, int], Tensor]


class Aggregator(Part):
    """A robust rule: a pure function of the updates and its memory.

    ``ring`` describes how clients on a ring compute the rule, None for a rule that needs a server. ``exempt`` names the
    promises of ``testing.PROMISES`` that the rule does not make, each with the reason. ``square_matrices`` is the most
    (n, n) float64 matrices that the rule holds at once, by which a run's memory is estimated before it starts.

        >>> import numpy as np
        >>> import robustfl_bench as rb
        >>> class Shortest(rb.Aggregator):
        ...     def aggregate(self, updates, server):
        ...         return updates.matrix[updates.norms.argmin()]
        >>> Shortest()(np.array([[3.0, 4.0], [1.0, 0.0], [100.0, -100.0]]))
        array([1., 0.])
    """

    abilities: ClassVar[Table] = {
        "exempt": Ability(counts="never"),
        "square_matrices": Ability(counts="never"),
        "ring": Ability(counts="always", wrapper="own", form_of="aggregate"),  # which a real ring asks for
        "aggregate": Ability(wrapper="combine"),
        "aggregate_weighted": Ability(wrapper="own", form_of="aggregate"),
        "from_sum": Ability(wrapper="own", form_of="aggregate"),
        "aggregate_many": Ability(wrapper="own", form_of="aggregate"),
        "aggregate_nodes": Ability(wrapper="own", form_of="aggregate"),
    }

    exempt: ClassVar[Mapping[str, str]] = MappingProxyType({})
    square_matrices: ClassVar[int] = 0

    if TYPE_CHECKING:

        @property
        def ring(self) -> RingForm | None:
            """How clients on a ring compute the rule."""
    else:
        ring = None

    def check(self, n: int) -> None:
        """Raise ConfigError if n clients are too few for the rule; called before any data are loaded."""

    def check_mixed(self, n: int) -> None:
        """Raise ConfigError if the rule cannot work on n updates made by a pre-aggregation, which belong to no client;
        called before any data are loaded. By default the same as ``check``."""
        self.check(n)

    @abstractmethod
    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        """The aggregate of one round; every rule implements this method.

        A rule may also return the vector (d,) alone, as a tensor or a NumPy array.
        """

    def aggregate_weighted(self, updates: Updates, server: ServerView) -> Aggregate:
        """The aggregate in which each client counts by ``updates.counts``; not called for a rule that does not
        override it.

        Where the rule's definition allows, a client of count k is the same as k clients of count 1.
        """
        raise NotImplementedError

    def from_sum(self) -> SumForm | None:
        """How a server that learns only a sum over the clients computes the rule, as under secure aggregation; None if
        it needs more. By default as clients on a ring."""
        form = self.ring
        return None if form is None else SumForm(lambda update: form.sent(update.columns[0]), form.agreed)

    def aggregate_many(self, questions: Questions, server: Callable[[], ServerView]) -> Tensor:
        """The vectors (k, d) of ``aggregate`` for k questions of attackers; by default the rule is asked one by one.

        ``server`` returns the view of the server, each time with the same random draws. No memory is kept. A rule may
        override the method to compute once what depends only on the honest updates, or all answers together.
        """
        import torch

        return torch.stack([self._aggregate_of(updates, server()).vector for updates in questions])

    def aggregate_nodes(self, nodes: Neighbourhoods) -> Tensor | None:
        """The vectors (h, d) of ``aggregate`` for the updates ``nodes.at(i)`` of all h nodes that gossip, in one pass;
        None, the default, if the rule is asked node by node.

        A rule whose vector is a sum of the updates with coefficients that follow from their lengths and weights can
        override the method: ``nodes.combine(coefficients)``.
        """
        return None

    @overload
    def __call__(self, updates: Updates, server: ServerView) -> Aggregate: ...

    @overload
    def __call__(
        self,
        updates: Matrix,
        *,
        previous: Any = None,
        params: Any = None,
        counts: Any = None,
        losses: Any = None,
        step_size: float = 1.0,
        rng: int | np.random.Generator = 0,
    ) -> Matrix: ...

    def __call__(self, updates: Any, server: Any = None, **given: Any) -> Any:
        """The aggregate of one round; for a bare matrix, the vector (d,) that aggregates its rows.

        The matrix (n, d) is a NumPy array or a torch tensor, one update per row; the vector is of the same kind and
        dtype. Rules compute in float32. The server's knowledge is given by arguments: the ``previous`` aggregate (d,),
        the model ``params`` (d,), the clients' sample ``counts`` (n,) and training ``losses`` (n,), the ``step_size``
        that multiplies the aggregate, and a seed or generator ``rng``. Raises ConfigError for too few clients, and if
        the rule reads anything else, such as the server's samples.
        """
        from robustfl_bench.numerics.updates import Updates

        if isinstance(updates, Updates):
            return self._aggregate_of(updates, server)
        return self._of_matrix(updates, **given)

    def _aggregate_of(self, updates: Updates, server: ServerView) -> Any:
        """What the rule returns, with a bare vector as an ``Aggregate``."""
        result: Any = self.aggregate(updates, server)
        if hasattr(result, "vector"):
            return result
        import numpy as np
        import torch

        from robustfl_bench.numerics.updates import Aggregate

        if isinstance(result, torch.Tensor | np.ndarray):
            return Aggregate(torch.as_tensor(result).to(updates.columns))
        return result

    def _of_matrix(
        self,
        matrix: Any,
        previous: Any = None,
        params: Any = None,
        counts: Any = None,
        losses: Any = None,
        step_size: float = 1.0,
        rng: Any = 0,
    ) -> Any:
        import numpy as np
        import torch

        from robustfl_bench.numerics import arrays
        from robustfl_bench.numerics.updates import Updates

        rows, written = arrays.read(matrix)
        n, d = rows.shape
        self.check(n)
        double = torch.ones(n, dtype=torch.float64, device=rows.device)
        counts = double if counts is None else arrays.vector("counts", counts, n, double)
        losses = None if losses is None else arrays.vector("losses", losses, n, double)
        known: dict[str, Any] = {
            "previous": None if previous is None else arrays.vector("previous", previous, d, rows),
            "step_size": step_size,
            "round": 0,
            "rng": np.random.default_rng(rng),
            "clients": torch.arange(n),
            "counts": counts,
            "memory": {},
        }
        if params is not None:
            known["params"] = start = arrays.vector("params", params, d, rows)
            known["after"] = lambda vector: start - step_size * vector
        if losses is not None:
            known["losses_of"] = lambda params, clients: losses[clients]
        made = self._aggregate_of(Updates(rows, counts, losses), ServerAlone(self, _argument, **known))
        if not hasattr(made, "vector"):
            raise BrokenContract(f"aggregator {type(self).__name__} {no_aggregate(made)}")
        return written(made.vector)
