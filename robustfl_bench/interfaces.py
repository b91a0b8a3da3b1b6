"""The parts of an experiment, one base class for each config group, and the views of a round that the parts get.

A part is a subclass. Abilities have their defaults here; a part overrides those that it has. To type checkers some are
read-only properties: a part may have a class attribute, a field or a property there. Importing this module does not
import NumPy or torch, which takes over a second.
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
    """How images became inputs: ``(pixels - mean) / sd``, pixels in [0, 1], ``mean`` and ``sd`` (C, 1, 1)."""

    mean: Tensor
    sd: Tensor

    def pixels(self, inputs: Tensor) -> Tensor:
        """The images (N, C, H, W) in [0, 1] behind ``inputs``."""
        return (inputs * self.sd).add_(self.mean).clamp_(0, 1)

    def inputs(self, pixels: Tensor) -> Tensor:
        """What a network is given for the images."""
        return (pixels - self.mean).div_(self.sd)

    def to(self, device: torch.device) -> Scaling:
        """The same on ``device``."""
        return Scaling(self.mean.to(device), self.sd.to(device))


@dataclass(frozen=True)
class Data:
    """A data set as tensors: ``train_x`` (N, ...) float32 or token ids, ``train_y`` (N,) int64, the same for test.

    ``variant`` names the variant of the files (official, rebuilt, subset ...). Texts, as token ids with 0 for padding,
    come with the ``vectors`` (V, e) of their words; images with their ``scaling``. For regression, ``train_y`` is
    float32, (N,) or (N, t). A data set may know the client of each training sample, ``owners`` (N,), and the cluster
    (of K) of each sample, ``clusters`` (N,) and ``test_clusters``. Data drawn at random know the true parameters of the
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

        Computed once, on first access. Data read from files have the same digest on every machine and device. Drawn
        data need not: their matrix products round differently on different processors. So do ``vectors`` made from the
        texts, which follow from ``train_x``; the digest of vectors read from a file is part of ``variant``.
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
        """What was read, for the summary of a run: the variant, the numbers of samples, and the digest."""
        return {
            "variant": self.variant,
            "train_samples": len(self.train_y),
            "test_samples": len(self.test_y),
            "digest": self.digest,
        }


class Dataset(Part):
    """A data set. What it looks like is known before it is loaded.

    Subclasses are frozen, as equal data sets are loaded once. ``content`` is what a sample consists of: ``numbers``,
    ``words`` or ``characters``. A data set of words also has ``embedding_dim``, the length of its words' vectors.
    ``source`` describes its files. With None, robustfl-data does not know them and loads the data to see their state.
    """

    content: str = "numbers"
    embedding_dim: int = 0
    if TYPE_CHECKING:

        @property
        def source(self) -> Source | None:
            """The files."""

        @property
        def name(self) -> str:
            """As in ``dataset=name``."""

        @property
        def num_classes(self) -> int:
            """Outputs that a model needs: the classes, or as many numbers as there are to predict."""

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
        """Read the files under ``folder`` (its own sub-folder of it); raises DataError when missing or damaged."""


class Partition(Part):
    """Splits samples over clients by their labels; with ``by_owner`` by their owners.

    ``exempt`` may name ``covering`` (some samples go to nobody) or ``empty`` (some clients get none), with the reason.
    """

    by_owner: bool = False
    exempt: ClassVar[Mapping[str, str]] = MappingProxyType({})

    @abstractmethod
    def __call__(self, labels: np.ndarray, num_clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Index arrays, one per client, disjoint; ``labels`` is (N,) int64. Raises ConfigError when impossible."""


class Corruption(Part):
    """Feature skew: changes the images of one client, before the data are standardised."""

    @abstractmethod
    def __call__(self, images: Tensor, rng: np.random.Generator) -> Tensor:
        """Images (N, C, H, W) in [0, 1], corrupted; the input is left as it is. ``rng`` is the client's own stream."""


class Augmentation(Part):
    """Changes a client's samples a little when it trains on them; the losses it reports are of samples as they are.

    ``per`` is ``round`` (one changed copy of the samples serves all passes of a round) or ``batch`` (every batch is
    changed anew).
    """

    per: str = "round"

    @abstractmethod
    def __call__(self, x: Tensor, rng: np.random.Generator) -> Tensor:
        """The changed samples, of the same shape as ``x`` (N, ...), which is left as it is."""


class Model(Part):
    """Makes the network for inputs of a shape.

    ``reads`` is the ``content`` of the data sets that it takes. A model of words is called with the words' ``vectors``
    (V, e) as well.
    """

    reads: str = "numbers"

    @abstractmethod
    def __call__(self, *args: Any, **kwargs: Any) -> nn.Module:
        """Called with ``input_shape`` and ``num_classes``: a module with PyTorch's default initialisation, drawn from
        torch's global generator (the caller seeds it)."""


@dataclass(frozen=True)
class Shard:
    """Samples that an attacker changes: those of one Byzantine client, or the test set.

    ``x`` (N, ...) are inputs as the network gets them, ``y`` (N,) labels; images come with their ``scaling``. ``rng``
    is the client's own stream. ``attacker`` is the client's place among the Byzantine clients, from 0; None for the
    test set.
    """

    x: Tensor
    y: Tensor
    num_classes: int
    scaling: Scaling | None
    rng: np.random.Generator
    attacker: int | None = None

    def draw(self, count: int) -> Tensor:
        """The places (count,) of random samples, on the device of the labels."""
        import torch

        return torch.from_numpy(self.rng.permutation(len(self.y))[:count]).to(self.y.device)


@dataclass
class AttackView:
    """What colluding attackers know in a round.

    ``honest`` are the honest updates of the round, or models where clients send those; ``clients`` (h,) int64 says
    whose updates its rows are, ``label_counts`` (h, c) those clients' samples per class. With ``knowledge=own`` these
    three are of the attackers themselves, and ``honest`` is ``own``. ``n`` clients take part in the round, of which
    ``num_byzantine`` are attackers. ``own`` (b, d), computed when read, are the updates the attackers get by training
    honestly on their own (poisoned) data from ``params`` (d,); ``train_own`` those from any parameters. ``previous``
    (d,) is the last aggregate, None in the first round. ``aggregate`` asks the server's rule what it would do, given
    crafted rows (b, d). ``upload`` maps updates (..., d) to what clients send: the updates, or the models they lead to.
    ``rng`` is the attack's random stream of this round. ``memory`` is what the attack put into its last ``Crafted``,
    empty at first. With several models, a view covers one of them and the clients that train it.

    ``after`` gives the model (d,) that the server makes of an aggregate (d,). ``assess`` judges models (k, d) on a
    fixed sample of the honest clients' own data (with ``knowledge=own`` of the attackers'): their mean losses (k,)
    float64, and the shares (k,) float64 that they get wrong (None for regression).
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
        """Standard deviation of the honest updates in every coordinate, (d,), with n - 1 in the denominator."""
        return self.honest.std

    @cached_property
    def of_updates(self) -> AttackView:
        """The view with updates where clients send models: ``honest`` and ``own``. ``upload`` of this view makes models
        of what is crafted there."""
        matrix = self.upload(self.honest.matrix)
        if matrix is self.honest.matrix:
            return self
        from robustfl_bench.updates import Updates

        honest = Updates(matrix, self.honest.counts, self.honest.losses)
        return replace(self, honest=honest, train_own=lambda params: self.upload(self.train_own(params)))


@dataclass
class ChoiceView:
    """What attackers know when they choose which of several models to attack.

    ``params`` (k, d) are the models, ``honest`` (h,) the honest clients' choices. ``own_losses`` maps models (k, d) to
    the losses (b, k) on the attackers' own (poisoned) data; None where they hold none.
    """

    params: Tensor
    honest: Tensor
    num_byzantine: int
    own_losses: Callable[[Tensor], Tensor] | None


@dataclass(frozen=True)
class Crafted:
    """What an attack returns that remembers or reports something.

    ``rows`` are what it sends, ``memory`` is what it remembers until the next round. ``notes`` are the numbers of its
    ``reports``, for the record of the round.
    """

    rows: Tensor
    memory: Mapping[str, Tensor] = field(default_factory=dict)
    notes: Mapping[str, float] = field(default_factory=dict)


class Attack(Part):
    """An attack has two halves, each the identity unless overridden: poison data, and craft updates. It may also lie
    about losses, and have a goal of its own.

    ``present`` is False only for the absence of an attack: then there are no Byzantine clients at all. ``crafts`` is
    False for an attack that leaves ``craft`` as it is: its clients train like honest ones, on poisoned data.
    ``needs_honest`` is False where ``craft`` works without honest updates, for a model that only attackers train.
    ``exempt`` may name ``finite`` (what it sends need not be) or ``memory`` (it takes notes), with the reason.
    ``reports`` names the numbers that ``craft`` notes in each round: columns ``attack_NAME`` of metrics.csv.
    """

    exempt: ClassVar[Mapping[str, str]] = MappingProxyType({})
    reports: ClassVar[tuple[str, ...]] = ()

    if TYPE_CHECKING:

        @property
        def present(self) -> bool:
            """Whether there are Byzantine clients."""

        @property
        def crafts(self) -> bool:
            """Whether ``craft`` is more than the default."""

        @property
        def needs_honest(self) -> bool:
            """Whether ``craft`` needs honest updates."""
    else:
        present, crafts, needs_honest = True, True, True

    @property
    def poisons(self) -> bool:
        """Whether ``poison`` is more than the default, so that the Byzantine clients need data."""
        return type(self).poison is not Attack.poison

    def active(self, round: int) -> bool:
        """Whether the Byzantine clients attack in this round (from 1).

        In the others they are honest: they train on their own samples, not poisoned, and tell the truth. Added clients
        hold no samples and send the honest mean.
        """
        return True

    def poison(self, shard: Shard) -> tuple[Tensor, Tensor]:
        """The samples on which one Byzantine client trains."""
        return shard.x, shard.y

    def goal(self, shard: Shard) -> tuple[Tensor, Tensor] | None:
        """Test samples as the attacker changes them, with the classes it wants them taken for: the share that is taken
        so is ``attack_success_rate``. None for attacks that only do damage."""
        return None

    def report(self, losses: Tensor, honest: Tensor) -> Tensor:
        """The losses (b,) that Byzantine clients claim, from their true ones and those of honest clients (h,)."""
        return losses

    def craft(self, view: AttackView) -> Tensor | Crafted:
        """What the Byzantine clients send: (b, d), or (d,) when they all send the same.

        An attack that remembers something returns ``Crafted``, and reads it from ``view.memory`` in the next round.
        """
        return view.own

    def choose(self, view: ChoiceView) -> Tensor:
        """Which model each Byzantine client attacks, (b,), where clients choose among several.

        Among those that honest clients train: the one of least loss on the attacker's own data, as if it were honest;
        without data, each of them in turn.
        """
        used: Tensor = view.honest.unique()
        if view.own_losses is None:
            chosen = used.new_tensor(range(view.num_byzantine)) % len(used)
        else:
            chosen = view.own_losses(view.params[used]).argmin(dim=1)
        return used[chosen]


@dataclass
class ServerView:
    """What the server knows in a round. Everything that needs server data is computed when it is read.

    ``params`` (d,) is the model sent out, ``step_size`` what multiplies the aggregate, ``previous`` (d,) the last
    aggregate or None, ``rng`` the rule's random stream of this round. ``clients`` (n,) int64 says whose updates the
    rows are, None after a pre-aggregation; ``counts`` (N,) float64 are the sample counts of all clients. ``memory`` is
    what the rule put into its last aggregate's ``memory``, empty at first.
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
    """Asks ``clients`` (m,) for their mean training losses (m,) float64 with a model (d,); Byzantine ones may lie."""
    layers: tuple[int, ...] = ()
    """Sizes of the model's parameter tensors, in the order of ``params``; empty where nobody knows them."""

    @cached_property
    def class_updates(self) -> Tensor:
        """One update per class, (c, d), trained as the clients train on the server's samples of that class."""
        return self.train_per_class()

    @cached_property
    def update(self) -> Tensor:
        """The update trained on all of the server's samples, (d,)."""
        return self.train_together()


class _Caller(ServerView):
    """The server of a rule that is called with a matrix alone: it knows what the caller gives."""

    __repr__ = object.__repr__  # that of ServerView reads all there is

    def __init__(self, rule: str, known: Mapping[str, Any]) -> None:
        self.__dict__ |= {**known, "rule": rule}

    def __getattr__(self, name: str) -> Any:
        if name not in {field.name for field in fields(ServerView)}:
            raise AttributeError(name)
        needed = {"params": "the model: pass params=", "losses_of": "the clients' losses: pass losses="}
        reason = needed.get(name, "the server's samples: run it through robustfl_bench.run")
        raise ConfigError(f"{self.__dict__['rule']} needs {reason}")


class LocalUpdate(Part):
    """What a client computes between receiving a model and sending its update.

    With ``sends_models`` clients send models: rules get the received model minus those as updates all the same, but
    attackers see and send models.

    ``repeats`` is the number of local steps or passes in a round, 1 where a straggler cannot make fewer. One that makes
    several asks ``samples.repeats`` how many each client makes; the passes of ``samples.epochs`` are counted there.
    ``remembered`` is the number of vectors (d,) that it remembers of each client.
    """

    if TYPE_CHECKING:

        @property
        def sends_models(self) -> bool:
            """Whether attackers see and send models."""

        @property
        def repeats(self) -> int:
            """Local steps or passes in a round that can be left out but for the first."""

        @property
        def remembered(self) -> int:
            """Vectors (d,) of each client."""
    else:
        sends_models, repeats, remembered = False, 1, 0

    @abstractmethod
    def __call__(self, network: Network, params: Tensor, samples: Samples, lr: float, out: Tensor) -> Tensor:
        """Fill the rows of ``out`` (n, d) with the updates of the clients of ``samples``, which start from ``params``
        (d,); returns their mean training losses (n,) float64 at ``params``."""

    def step_size(self, lr: float) -> float:
        """What the server multiplies the aggregate with before it subtracts it: ``lr`` where clients send gradients."""
        return lr


class Aggregator(Part):
    """A robust rule: a pure function of the updates and of what it remembers.

    ``ring`` is how clients on a ring compute it, None for a rule that needs a server. ``exempt`` names the promises of
    ``testing.PROMISES`` that the rule does not make, each with the reason.
    """

    exempt: ClassVar[Mapping[str, str]] = MappingProxyType({})

    if TYPE_CHECKING:

        @property
        def ring(self) -> RingForm | None:
            """How clients on a ring compute the rule."""
    else:
        ring = None

    def check(self, n: int) -> None:
        """Raise ConfigError when n clients are too few for the rule; called before any data are loaded."""

    def check_mixed(self, n: int) -> None:
        """Raise ConfigError when the rule cannot work on n updates that a pre-aggregation made, which are no client's
        own; called before any data are loaded. Unless overridden, it asks for as many as of clients."""
        self.check(n)

    @abstractmethod
    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        """The aggregate of one round: what a rule defines."""

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
        """The aggregate of one round; of a matrix alone, the vector (d,) that the rule makes of its rows.

        The matrix (n, d) is a NumPy array or a torch tensor, one update per row; the vector is of the same kind and
        dtype. Rules compute in float32. What a server would know can be given: the ``previous`` aggregate (d,), the
        model ``params`` (d,), the clients' sample ``counts`` (n,) and training ``losses`` (n,), the ``step_size`` that
        multiplies the aggregate, and a seed or generator ``rng``. Raises ConfigError for too few clients, and where
        the rule reads something else, such as the server's samples.
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
    """How clients on a ring compute a rule, where a coordinate of the aggregate depends on a sum over clients alone.

    ``sent`` maps updates (..., d) to what clients add up, ``agreed`` the sum (d,) of n of those, or a chunk of it, to
    the aggregate. ``outcomes`` are the values of a coordinate of the aggregate where they are few: then clients send
    signs. None: real numbers.
    """

    sent: Callable[[Tensor], Tensor]
    agreed: Callable[[Tensor, int], Tensor]
    outcomes: tuple[float, ...] | None = None


class Communication(Part):
    """Who sends what to whom.

    With ``clients_compute_alone`` the engine computes every client's update by itself, so that a process of its own
    would reach the same bits.
    """

    clients_compute_alone: bool = False

    def check(self, parts: Parts) -> None:
        """Raise ConfigError unless the parts of an experiment can communicate so."""

    def deliver(self, uploads: Tensor) -> None:
        """Turn the clients' uploads (n, d) into what arrives, in place: the same, unless overridden."""

    @abstractmethod
    def total_bits(self, rule: Aggregator, n: int, d: int) -> int:
        """Bits that n clients send in a round, together, of a model of d parameters."""

    @abstractmethod
    def aggregate(self, rule: Aggregator, updates: Updates, server: ServerView) -> Aggregate:
        """The aggregate of one round."""


class Availability(Part):
    """Which of the clients that take part in a round deliver, and how much of their local work they do.

    Byzantine clients always deliver unless ``byzantine``.
    """

    byzantine: bool = False

    def check(self, parts: Parts) -> None:
        """Raise ConfigError unless the parts of an experiment allow it."""

    @abstractmethod
    def __call__(self, num_clients: int, rng: np.random.Generator) -> np.ndarray:
        """The share of its local work that every client does in a round, (num_clients,) float64 in [0, 1]; the update
        of one with 0 does not arrive. ``rng`` is the round's own stream, the same whatever the attack and the rule."""


class PreAggregation(Part):
    """Prepares the updates for the rule; every known one is linear in them."""

    def check(self, n: int) -> None:
        """Raise ConfigError when n clients are too few; called before any data are loaded."""

    def num_made(self, n: int) -> int:
        """How many updates it makes of n: as many, unless overridden."""
        return n

    @abstractmethod
    def prepare(self, updates: Updates, rng: np.random.Generator) -> Updates:
        """What the rule is given: most return ``updates.mix(mixing)``."""

    @overload
    def __call__(self, updates: Updates, rng: np.random.Generator) -> Updates: ...

    @overload
    def __call__(self, updates: Matrix, rng: int | np.random.Generator = 0) -> Matrix: ...

    def __call__(self, updates: Any, rng: Any = 0) -> Any:
        """The prepared updates; of a matrix (n, d) alone, a matrix (n', d) of the same kind and dtype.

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
    """What is known before the first of several models is trained.

    ``seed`` is the run's; ``rng`` gives the stream of a seed and a name. ``initial`` gives the model's own initial
    parameters (d,), drawn independently for each number. ``truth`` (K, d) float64 are the true parameters where the
    data have them. ``clients`` gathers the samples (x, y) of every client, in the order of the clients, those of
    Byzantine clients poisoned; ``clusters`` (clients,) are their true clusters, -1 for Byzantine clients, or None.
    ``module`` is the network.
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
        """Initial models (k, d), and each client's fixed model, (clients,) int64. None for cohorts that change: then a
        client trains, in every round, the model of least loss on its own data."""

    def fill(self, choice: Tensor, rng: np.random.Generator) -> Tensor:
        """The choices (n,) int64 of all clients of a round, after looking at models that nobody chose."""
        return choice

    def step_scale(self, share: float) -> float:
        """Factor of the step size of a model that this ``share`` of the round's clients trained."""
        return 1.0

    def project(self, params: Tensor) -> Tensor:
        """The parameters (d,) of a model after the server's step, moved to where they are allowed to be."""
        return params


class Schedule(Part):
    """Learning rate against the round."""

    @abstractmethod
    def __call__(self, lr: float, round: int) -> float:
        """The rate of ``round`` (from 0), from the initial rate ``lr``."""


class ServerData(Part):
    """The server's own labelled samples. ``corruption`` changes their images."""

    corruption: Corruption | None = None

    @abstractmethod
    def __call__(self, labels: np.ndarray, num_classes: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Sample indices, one array per class; ``labels`` is (N,) int64. Raises ConfigError when impossible."""


class ServerOptimizer(Part):
    """The server's step: from a model and the aggregate of its updates to the next model."""

    @abstractmethod
    def __call__(
        self, params: Tensor, aggregate: Tensor, step_size: float, memory: Mapping[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The next parameters (d,), and what the optimizer remembers of this model.

        ``memory`` is what it remembered after the model's last step, empty at first.
        """


def check_clients(rule: Aggregator, mixing: PreAggregation | None, n: int) -> None:
    """Raise ConfigError when a rule cannot work with the updates of n clients, or with what ``mixing`` makes of them.

    What a rule asks of clients for the sake of its guarantee does not count for fewer means of them.
    """
    if mixing is not None:
        mixing.check(n)
        rule.check_mixed(mixing.num_made(n))
    if mixing is None or mixing.num_made(n) == n:
        rule.check(n)


@dataclass(frozen=True)
class Tracked:
    """A run as a tracker is told of it: its id, readable ``name``, resolved ``config`` and ``folder``.

    ``done`` is the number of rounds before it: 0 for a run that begins, else that of the checkpoint it resumes from.
    """

    run_id: str
    name: str
    config: Mapping[str, Any]
    folder: Path
    done: int


class Tracking(Protocol):
    """A tracker at work on one run."""

    def record(self, round: int, numbers: Mapping[str, float]) -> None:
        """The numbers of a row of ``metrics.csv``, right after it was written. Rounds rise, from ``done`` + 1."""

    def end(self, summary: Mapping[str, Any] | None) -> None:
        """How the run ended, as in ``summary.json``; None where it was cut off and can be resumed."""


class Tracker(Part):
    """Copies the records of a run to an experiment tracker. It changes no result, and is no part of a run's identity.

    A tracker that raises an Exception is left out for the rest of the run, with a note. A run that resumes begins again
    with the rounds after its checkpoint, of which an interrupted attempt may have recorded some.
    """

    def check(self) -> None:
        """Raise ConfigError when the tracker cannot work, as without its package; called before any data are loaded."""

    @abstractmethod
    def begin(self, run: Tracked) -> Tracking:
        """Follow a run; packages are imported here."""
