"""The parts of an experiment, one base class per config group, and the views of a round that the parts receive.

Every part is a subclass. The base classes define the default abilities, which a part overrides. Type checkers see some
abilities as read-only properties, so that a part may define them as a class attribute, a field or a property. Importing
this module does not import NumPy or torch, which takes over a second.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, overload

from robustfl_bench.abilities import Part
from robustfl_bench.errors import ConfigError as ConfigError
from robustfl_bench.errors import DataError as DataError
from robustfl_bench.errors import check_choice as check_choice
from robustfl_bench.errors import check_fields as check_fields
from robustfl_bench.errors import check_flags as check_flags

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import Tensor, nn

    from robustfl_bench.config.parts import Parts
    from robustfl_bench.datasets.files import Source
    from robustfl_bench.engine.network import Network
    from robustfl_bench.engine.samples import Samples
    from robustfl_bench.updates import Aggregate, Updates

    Matrix = TypeVar("Matrix", np.ndarray, Tensor)


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
    clusters, ``truth`` (K, d) float64.
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
    else:
        source = None
        name: str
        num_classes: int
        input_shape: tuple[int, ...]

    @abstractmethod
    def load(self, folder: Path) -> Data:
        """Read the files from the data set's sub-folder of ``folder``; raises DataError if they are missing or
        damaged."""


class Partition(Part):
    """Splits samples over clients by the labels; with ``by_owner``, by the owners of the samples.

    ``exempt`` may name ``covering`` (some samples go to no client) or ``empty`` (some clients get no samples), with the
    reason.
    """

    by_owner: bool = False
    exempt: ClassVar[Mapping[str, str]] = MappingProxyType({})

    @abstractmethod
    def __call__(self, labels: np.ndarray, num_clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Disjoint index arrays, one per client; ``labels`` is (N,) int64. Raises ConfigError if there is no such
        split."""


class Corruption(Part):
    """Feature skew: changes the images of one client, before the data are standardised."""

    @abstractmethod
    def __call__(self, images: Tensor, rng: np.random.Generator) -> Tensor:
        """Corrupted images (N, C, H, W) in [0, 1]; the input is not changed. ``rng`` is the client's own stream."""


class Augmentation(Part):
    """Augments a client's samples during training; reported losses are those of the unchanged samples.

    ``per`` is ``round`` (one augmented copy of the samples for all passes of a round) or ``batch`` (every batch is
    augmented anew).
    """

    per: str = "round"

    @abstractmethod
    def __call__(self, x: Tensor, rng: np.random.Generator) -> Tensor:
        """The augmented samples, of the same shape as ``x`` (N, ...), which is not changed."""


class Model(Part):
    """Creates the network for a given input shape.

    ``reads`` is the ``content`` of the data sets that the model accepts. A model of words is also called with the word
    ``vectors`` (V, e).
    """

    reads: str = "numbers"

    @abstractmethod
    def __call__(self, *args: Any, **kwargs: Any) -> nn.Module:
        """The module for ``input_shape`` and ``num_classes``, with PyTorch's default initialisation, drawn from torch's
        global generator, which the caller seeds."""


@dataclass(frozen=True)
class Shard:
    """The samples that an attacker changes: those of one Byzantine client, or the test set.

    ``x`` (N, ...) are network inputs, ``y`` (N,) labels; images come with their ``scaling``. ``rng`` is the client's
    own stream. ``attacker`` is the client's index among the Byzantine clients, from 0; None for the test set.
    """

    x: Tensor
    y: Tensor
    num_classes: int
    scaling: Scaling | None
    rng: np.random.Generator
    attacker: int | None = None

    def draw(self, count: int) -> Tensor:
        """The indices (count,) of random samples without repetition, on the device of the labels."""
        import torch

        return torch.from_numpy(self.rng.permutation(len(self.y))[:count]).to(self.y.device)


@dataclass
class AttackView:
    """The knowledge of the colluding attackers in a round.

    ``honest`` holds the honest updates of the round, or the models if clients send models. ``clients`` (h,) int64 are
    the clients of its rows, ``label_counts`` (h, c) the samples per class of these clients. With ``knowledge=own``
    these three describe the attackers themselves, and ``honest`` is ``own``. ``n`` clients take part in the round, of
    which ``num_byzantine`` are attackers. ``own`` (b, d), computed on first access, are the updates from honest
    training on the attackers' own (poisoned) data from ``params`` (d,); ``train_own`` computes them from any
    parameters. ``previous`` (d,) is the last aggregate, None in the first round. ``aggregate`` returns the aggregate of
    the server's rule for crafted rows (b, d). ``upload`` maps updates (..., d) to the clients' uploads: the updates
    themselves, or the models that result from them. ``rng`` is the attack's random stream of this round. ``memory`` is
    the memory of the attack's last ``Crafted``, empty at first. With several models, a view covers one of them and the
    clients that train it.

    ``after`` returns the model (d,) after the server's step along an aggregate (d,). ``assess`` evaluates models (k, d)
    on a fixed sample of the honest clients' data (with ``knowledge=own``, the attackers' data): it returns their mean
    losses (k,) float64 and error rates (k,) float64, or None instead of the error rates for regression.
    """

    honest: Updates
    clients: Tensor
    n: int
    num_byzantine: int
    round: int
    lr: float
    params: Tensor
    previous: Tensor | None
    label_counts: Tensor
    rng: np.random.Generator
    memory: Mapping[str, Tensor]
    train_own: Callable[[Tensor], Tensor]
    aggregate: Callable[[Tensor], Aggregate]
    upload: Callable[[Tensor], Tensor]
    after: Callable[[Tensor], Tensor]
    assess: Callable[[Tensor], tuple[Tensor, Tensor | None]]

    @cached_property
    def own(self) -> Tensor:
        return self.train_own(self.params)

    @property
    def mean(self) -> Tensor:
        """Mean honest update, (d,)."""
        return self.honest.mean

    @property
    def std(self) -> Tensor:
        """Standard deviation of the honest updates per coordinate, (d,), with n - 1 in the denominator."""
        return self.honest.std

    @cached_property
    def of_updates(self) -> AttackView:
        """The same view with updates in ``honest`` and ``own`` also if clients send models. The ``upload`` of this view
        turns crafted updates into models."""
        matrix = self.upload(self.honest.matrix)
        if matrix is self.honest.matrix:
            return self
        from robustfl_bench.updates import Updates

        honest = Updates(matrix, self.honest.counts, self.honest.losses)
        return replace(self, honest=honest, train_own=lambda params: self.upload(self.train_own(params)))


@dataclass
class ChoiceView:
    """The knowledge of the attackers when they choose which of several models to attack.

    ``params`` (k, d) are the models, ``honest`` (h,) the honest clients' choices. ``own_losses`` maps models (k, d) to
    their losses (b, k) on the attackers' own (poisoned) data; None if the attackers have no data.
    """

    params: Tensor
    honest: Tensor
    num_byzantine: int
    own_losses: Callable[[Tensor], Tensor] | None


@dataclass(frozen=True)
class Crafted:
    """The result of an attack that keeps a memory or reports numbers.

    ``rows`` are the uploads, ``memory`` is available to the attack in the next round. ``notes`` has the values of its
    ``reports``, for the record of the round.
    """

    rows: Tensor
    memory: Mapping[str, Tensor] = field(default_factory=dict)
    notes: Mapping[str, float] = field(default_factory=dict)


class Attack(Part):
    """An attack in two halves, each the identity unless overridden: it poisons data and crafts updates. It may also
    report false losses and have a goal.

    ``present`` is False only for ``none``: then there are no Byzantine clients at all. ``crafts`` is False for an
    attack that does not override ``craft``: its clients train like honest clients, on poisoned data. ``needs_honest``
    is False if ``craft`` works without honest updates, which are missing for a model that only attackers train.
    ``exempt`` may name ``finite`` (uploads may be non-finite) or ``memory`` (the attack keeps state on itself), with
    the reason. ``reports`` names the numbers that ``craft`` reports in each round: columns ``attack_NAME`` of
    metrics.csv.
    """

    exempt: ClassVar[Mapping[str, str]] = MappingProxyType({})
    reports: ClassVar[tuple[str, ...]] = ()

    if TYPE_CHECKING:

        @property
        def present(self) -> bool:
            """Whether there are Byzantine clients."""

        @property
        def crafts(self) -> bool:
            """Whether the attack overrides ``craft``."""

        @property
        def needs_honest(self) -> bool:
            """Whether ``craft`` needs honest updates."""
    else:
        present, crafts, needs_honest = True, True, True

    @property
    def poisons(self) -> bool:
        """Whether the attack overrides ``poison``, so that the Byzantine clients need data."""
        return type(self).poison is not Attack.poison

    def active(self, round: int) -> bool:
        """Whether the Byzantine clients attack in this round (from 1).

        In all other rounds they are honest: they train on their own unpoisoned samples and report true losses. Added
        clients have no samples and send the honest mean.
        """
        return True

    def poison(self, shard: Shard) -> tuple[Tensor, Tensor]:
        """The samples on which one Byzantine client trains."""
        return shard.x, shard.y

    def goal(self, shard: Shard) -> tuple[Tensor, Tensor] | None:
        """Test samples as changed by the attacker, with the target classes; the share of them that the model classifies
        as the target is ``attack_success_rate``. None for an untargeted attack."""
        return None

    def report(self, losses: Tensor, honest: Tensor) -> Tensor:
        """The losses (b,) that Byzantine clients report, given their true ``losses`` and those of honest clients
        (h,)."""
        return losses

    def craft(self, view: AttackView) -> Tensor | Crafted:
        """The uploads of the Byzantine clients, (b, d), or (d,) if all send the same.

        An attack with memory returns ``Crafted`` and reads its memory from ``view.memory`` in the next round.
        """
        return view.own

    def choose(self, view: ChoiceView) -> Tensor:
        """The model that each Byzantine client attacks, (b,), if clients choose among several models.

        By default, of the models that honest clients train, the one of least loss on the attacker's own data, as an
        honest client chooses; attackers without data are spread evenly over these models.
        """
        used: Tensor = view.honest.unique()
        if view.own_losses is None:
            chosen = used.new_tensor(range(view.num_byzantine)) % len(used)
        else:
            chosen = view.own_losses(view.params[used]).argmin(dim=1)
        return used[chosen]


@dataclass
class ServerView:
    """The knowledge of the server in a round. Everything that needs server data is computed on first access.

    ``params`` (d,) is the model sent to the clients, ``step_size`` the factor of the aggregate in the server's step,
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


class _Caller(ServerView):
    """The server of a rule that is called with a bare matrix: it knows only the arguments of the call."""

    __repr__ = object.__repr__  # ServerView's would read every field

    def __init__(self, rule: str, known: Mapping[str, Any]) -> None:
        self.__dict__ |= {**known, "rule": rule}

    def __getattr__(self, name: str) -> Any:
        if name not in {field.name for field in fields(ServerView)}:
            raise AttributeError(name)
        needed = {"params": "the model: pass params=", "losses_of": "the clients' losses: pass losses="}
        reason = needed.get(name, "the server's samples: run it through robustfl_bench.run")
        raise ConfigError(f"{self.__dict__['rule']} needs {reason}")


class LocalUpdate(Part):
    """The computation of a client between receiving a model and sending its update.

    With ``sends_models`` clients send models: rules still get updates, the received model minus the sent one, but
    attackers see and send models.

    ``repeats`` is the number of local steps or passes in a round, 1 if a straggler cannot make fewer. A local update
    with several repeats reads from ``samples.repeats`` how many each client makes; ``samples.epochs`` counts its passes
    itself. ``remembered`` is the number of vectors (d,) that are stored for each client.
    """

    if TYPE_CHECKING:

        @property
        def sends_models(self) -> bool:
            """Whether attackers see and send models."""

        @property
        def repeats(self) -> int:
            """Number of local steps or passes in a round, of which a straggler may leave out all but the first."""

        @property
        def remembered(self) -> int:
            """Number of vectors (d,) stored for each client."""
    else:
        sends_models, repeats, remembered = False, 1, 0

    @abstractmethod
    def __call__(self, network: Network, params: Tensor, samples: Samples, lr: float, out: Tensor) -> Tensor:
        """Fill the rows of ``out`` (n, d) with the updates of the clients of ``samples``, which start from ``params``
        (d,); returns their mean training losses (n,) float64 at ``params``."""

    def step_size(self, lr: float) -> float:
        """The factor of the aggregate in the server's step: ``lr`` if clients send gradients."""
        return lr


class Aggregator(Part):
    """A robust rule: a pure function of the updates and its memory.

    ``ring`` describes how clients on a ring compute the rule, None for a rule that needs a server. ``exempt`` names the
    promises of ``testing.PROMISES`` that the rule does not make, each with the reason.
    """

    exempt: ClassVar[Mapping[str, str]] = MappingProxyType({})

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
        """The aggregate of one round; every rule implements this method."""

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
        from robustfl_bench.updates import Updates

        if isinstance(updates, Updates):
            return self.aggregate(updates, server)
        return self._of_matrix(updates, **given)

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

        from robustfl_bench import arrays
        from robustfl_bench.updates import Updates

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
            known["params"] = arrays.vector("params", params, d, rows)
        if losses is not None:
            known["losses_of"] = lambda params, clients: losses[clients]
        return written(self.aggregate(Updates(rows, counts, losses), _Caller(type(self).__name__, known)).vector)


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


class Communication(Part):
    """The communication between clients, and with the server if there is one.

    With ``clients_compute_alone`` the engine computes every client's update separately, so that a separate process per
    client gives the same bits.
    """

    clients_compute_alone: bool = False

    def check(self, parts: Parts) -> None:
        """Raise ConfigError if the parts of an experiment cannot communicate in this way."""

    def deliver(self, uploads: Tensor) -> None:
        """Turn the clients' uploads (n, d) into the received ones, in place; by default they are the same."""

    @abstractmethod
    def total_bits(self, rule: Aggregator, n: int, d: int) -> int:
        """The number of bits that n clients together send in a round, for a model of d parameters."""

    @abstractmethod
    def aggregate(self, rule: Aggregator, updates: Updates, server: ServerView) -> Aggregate:
        """The aggregate of one round."""


class Availability(Part):
    """Decides which participating clients deliver an update, and how much of their local work they do.

    Byzantine clients always deliver unless ``byzantine`` is True.
    """

    byzantine: bool = False

    def check(self, parts: Parts) -> None:
        """Raise ConfigError if the parts of an experiment do not allow it."""

    @abstractmethod
    def __call__(self, num_clients: int, rng: np.random.Generator) -> np.ndarray:
        """The share of its local work that every client does in a round, (num_clients,) float64 in [0, 1]; with 0, its
        update does not arrive. ``rng`` is the round's own stream, the same for all attacks and rules."""


class PreAggregation(Part):
    """Transforms the updates before the rule; all known pre-aggregations are linear in the updates."""

    def check(self, n: int) -> None:
        """Raise ConfigError if n clients are too few; called before any data are loaded."""

    def num_made(self, n: int) -> int:
        """The number of updates that it makes of n; by default n."""
        return n

    @abstractmethod
    def prepare(self, updates: Updates, rng: np.random.Generator) -> Updates:
        """The updates for the rule; most pre-aggregations return ``updates.mix(mixing)``."""

    @overload
    def __call__(self, updates: Updates, rng: np.random.Generator) -> Updates: ...

    @overload
    def __call__(self, updates: Matrix, rng: int | np.random.Generator = 0) -> Matrix: ...

    def __call__(self, updates: Any, rng: Any = 0) -> Any:
        """The prepared updates; for a bare matrix (n, d), a matrix (n', d) of the same kind and dtype.

        The matrix is a NumPy array or a torch tensor, one update per row. ``rng`` is a generator or a seed.
        """
        from robustfl_bench.updates import Updates

        if isinstance(updates, Updates):
            return self.prepare(updates, rng)
        import numpy as np

        from robustfl_bench import arrays

        rows, written = arrays.read(updates)
        self.check(len(rows))
        return written(self.prepare(Updates(rows), np.random.default_rng(rng)).matrix)


@dataclass
class StartView:
    """The knowledge of a clustering before training starts.

    ``seed`` is the run's; ``rng`` returns the stream of a seed and a name. ``initial`` returns the model's initial
    parameters (d,), an independent draw for each number. ``truth`` (K, d) float64 are the true parameters if the data
    have them. ``clients`` gathers the samples (x, y) of every client, in the order of the clients, with those of
    Byzantine clients poisoned; ``clusters`` (clients,) are the clients' true clusters, -1 for Byzantine clients, or
    None. ``module`` is the network.
    """

    seed: int
    rng: Callable[..., np.random.Generator]
    initial: Callable[[int], Tensor]
    truth: Tensor | None
    clients: Callable[[], list[tuple[Tensor, Tensor]]]
    clusters: np.ndarray | None
    module: nn.Module


class Clustering(Part):
    """Trains ``num_clusters`` models at once, each by a cohort of the clients."""

    num_clusters: int

    @abstractmethod
    def start(self, view: StartView) -> tuple[Tensor, Tensor | None]:
        """Initial models (k, d), and each client's fixed model, (clients,) int64. With None instead, every client
        trains in each round the model of least loss on its own data."""

    def fill(self, choice: Tensor, rng: np.random.Generator) -> Tensor:
        """The choices (n,) int64 of all clients of a round, changed if a model that no client chose shall be
        trained."""
        return choice

    def step_scale(self, share: float) -> float:
        """Factor of the step size of a model that a ``share`` of the round's clients trained."""
        return 1.0

    def project(self, params: Tensor) -> Tensor:
        """The parameters (d,) of a model after the server's step, projected onto the allowed set."""
        return params


class Schedule(Part):
    """The learning rate as a function of the round."""

    @abstractmethod
    def __call__(self, lr: float, round: int) -> float:
        """The learning rate of ``round`` (from 0), given the initial rate ``lr``."""


class ServerData(Part):
    """The server's own labelled samples. ``corruption`` changes their images."""

    corruption: Corruption | None = None

    @abstractmethod
    def __call__(self, labels: np.ndarray, num_classes: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Sample indices, one array per class; ``labels`` is (N,) int64. Raises ConfigError if samples are lacking."""


class ServerOptimizer(Part):
    """The server's step from a model and its aggregate to the next model."""

    @abstractmethod
    def __call__(
        self, params: Tensor, aggregate: Tensor, step_size: float, memory: Mapping[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The next parameters (d,), and the optimizer's new memory of this model.

        ``memory`` is the memory after the model's last step, empty at first.
        """


def check_clients(rule: Aggregator, mixing: PreAggregation | None, n: int) -> None:
    """Raise ConfigError if a rule cannot work with the updates of n clients, or with those that ``mixing`` makes of
    them.

    If ``mixing`` makes fewer updates, such as means, the number of clients that the rule's guarantee needs is not
    required.
    """
    if mixing is not None:
        mixing.check(n)
        rule.check_mixed(mixing.num_made(n))
    if mixing is None or mixing.num_made(n) == n:
        rule.check(n)


@dataclass(frozen=True)
class Tracked:
    """The description of a run for a tracker: its id, readable ``name``, resolved ``config`` and ``folder``.

    ``done`` is the number of rounds already done: 0 for a new run, else that of the checkpoint that it resumes from.
    """

    run_id: str
    name: str
    config: Mapping[str, Any]
    folder: Path
    done: int


class Tracking(Protocol):
    """A tracker that follows one run."""

    def record(self, round: int, numbers: Mapping[str, float]) -> None:
        """Called with the numbers of a row of ``metrics.csv`` right after it is written, in ascending order of rounds,
        which are at least ``done`` + 1."""

    def end(self, summary: Mapping[str, Any] | None) -> None:
        """Called at the end with the content of ``summary.json``; None if the run was interrupted and can be
        resumed."""


class Tracker(Part):
    """Copies the records of a run to an experiment tracker. It changes no result and is not part of a run's identity.

    A tracker that raises an Exception is not used for the rest of the run, with a note. A resumed run records the
    rounds after its checkpoint again, of which the interrupted attempt may have recorded some.
    """

    def check(self) -> None:
        """Raise ConfigError if the tracker cannot work, as without its package; called before any data are loaded."""

    @abstractmethod
    def begin(self, run: Tracked) -> Tracking:
        """Start to follow a run; the tracker's package is imported here."""
