"""What varies in an experiment, as protocols; and what the parts are told about a round."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from robustfl_bench.errors import ConfigError as ConfigError
from robustfl_bench.errors import DataError as DataError
from robustfl_bench.errors import check_choice as check_choice
from robustfl_bench.errors import check_fields as check_fields
from robustfl_bench.errors import check_flags as check_flags
from robustfl_bench.updates import Aggregate, Updates, mean_row


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

    def to(self, device: torch.device) -> "Scaling":
        """The same on ``device``."""
        return Scaling(self.mean.to(device), self.sd.to(device))


@dataclass(frozen=True)
class Data:
    """A data set as tensors: ``train_x`` (N, ...) float32 or token ids, ``train_y`` (N,) int64, the same for test.

    ``source`` says which variant of the files was read (official, rebuilt, subset ...). Texts, as token ids with 0 for
    padding, come with the ``vectors`` (V, e) of their words; images with their ``scaling``. Where there are numbers to
    predict instead of classes, ``train_y`` is float32, (N,) or (N, t). A data set may know which client each training
    sample comes from, ``owners`` (N,), and in which of K clusters each sample is, ``clusters`` (N,) and
    ``test_clusters``; and one that is drawn knows the true parameters of the clusters, ``truth`` (K, d) float64.
    """

    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor
    source: str = "official"
    vectors: Tensor | None = None
    scaling: Scaling | None = None
    owners: Tensor | None = None
    clusters: Tensor | None = None
    test_clusters: Tensor | None = None
    truth: Tensor | None = None

    def to(self, device: torch.device) -> "Data":
        """The same data on ``device``."""
        values: dict[str, Any] = vars(self)
        return Data(**{name: value.to(device) if hasattr(value, "to") else value for name, value in values.items()})


@runtime_checkable
class Dataset(Protocol):
    """A data set: what it looks like is known before it is loaded. Frozen, so that equal ones are loaded once.

    ``num_classes`` are the outputs that a model needs: the classes, or as many numbers as there are to predict. One of
    texts also has ``embedding_dim``, the length of its words' vectors.
    """

    @property
    def name(self) -> str:
        """As in ``dataset=name``."""

    @property
    def num_classes(self) -> int:
        """Classes, or numbers to predict."""

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one sample."""

    def load(self, folder: Path) -> Data:
        """Read the files under ``folder`` (its own sub-folder of it); raises DataError when missing or damaged."""

    def __hash__(self) -> int:
        """Frozen data sets have one; it is the key under which their tensors are kept."""


class Partition(Protocol):
    """Splits samples over clients by their labels; or, with an attribute ``by_owner`` that is true, by their owners."""

    def __call__(self, labels: np.ndarray, num_clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Index arrays, one per client, disjoint; ``labels`` is (N,) int64. Raises ConfigError when impossible."""


class Corruption(Protocol):
    """Feature skew: changes the images of one client, before the data are standardised."""

    def __call__(self, images: Tensor, rng: np.random.Generator) -> Tensor:
        """Images (N, C, H, W) in [0, 1], corrupted; the input is left as it is. ``rng`` is the client's own stream."""


class Augmentation(Protocol):
    """Changes a client's samples a little when it trains on them; the losses it reports are of samples as they are."""

    @property
    def per(self) -> str:
        """``round``: one changed copy of the samples serves all passes over them in a round; ``batch``: no copy serves
        twice."""

    def __call__(self, x: Tensor, rng: np.random.Generator) -> Tensor:
        """The changed samples, of the same shape as ``x`` (N, ...), which is left as it is."""


class Model(Protocol):
    """Makes the network for inputs of a shape.

    A model of texts has an attribute ``reads_text = True`` and is called with its words' ``vectors`` (V, e) as well.
    """

    def __call__(self, input_shape: tuple[int, ...], num_classes: int, *vectors: Tensor) -> nn.Module:
        """A module with PyTorch's default initialisation, drawn from torch's global generator (the caller seeds it)."""


@dataclass(frozen=True)
class Shard:
    """Samples that an attacker changes: those of one Byzantine client, or the test set.

    ``x`` (N, ...) are inputs as the network gets them, ``y`` (N,) labels; images come with their ``scaling``. ``rng``
    is the client's own stream.
    """

    x: Tensor
    y: Tensor
    num_classes: int
    scaling: Scaling | None
    rng: np.random.Generator


@dataclass
class AttackView:
    """What omniscient, colluding attackers know in a round.

    ``honest`` are the honest updates of the round, or models where clients send those; ``num_byzantine`` attackers
    take part in it. ``own`` (b, d), computed when read, are the updates the attackers get by training honestly on
    their own (poisoned) data from ``params`` (d,); ``train_own`` those from any parameters. ``label_counts`` (h, c)
    are the honest clients' samples per class. ``aggregate`` asks the server's rule what it would do, given crafted
    rows (b, d). ``rng`` is the attack's random stream of this round. Where there are several models, all is about one
    of them and those who train it.
    """

    honest: Updates
    num_byzantine: int
    round: int
    lr: float
    params: Tensor
    label_counts: Tensor
    rng: np.random.Generator
    train_own: Callable[[Tensor], Tensor]
    aggregate: Callable[[Tensor], Aggregate]

    @property
    def n(self) -> int:
        """Number of clients in this round, Byzantine included."""
        return self.honest.n + self.num_byzantine

    @cached_property
    def own(self) -> Tensor:
        return self.train_own(self.params)

    @cached_property
    def mean(self) -> Tensor:
        """Mean honest update, (d,)."""
        return mean_row(self.honest.matrix)

    @cached_property
    def std(self) -> Tensor:
        """Standard deviation of the honest updates in every coordinate, (d,), with n - 1 in the denominator."""
        if self.honest.n < 2:
            return torch.zeros_like(self.mean)
        std = self._std(torch.float32)
        return std if 1e-15 < float(std.max()) < 1e15 else self._std(torch.float64)  # squares leave float32's range

    def _std(self, dtype: torch.dtype) -> Tensor:
        matrix, total = self.honest.matrix, torch.empty_like(self.mean, dtype=dtype)
        for start in range(0, self.honest.d, 4096):  # blocks that stay in the cache: 11 times faster than torch.std
            block = matrix[:, start : start + 4096].to(dtype)
            total[start : start + 4096] = (block - block.mean(dim=0)).square_().sum(dim=0)
        return (total / (self.honest.n - 1)).sqrt_().float()


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


class Attack:
    """An attack has two halves, each the identity unless overridden: poison data, and craft updates. It may also lie
    about losses, and have a goal of its own.

    ``present`` is False only for the absence of an attack: then there are no Byzantine clients at all. ``alone`` says
    that ``craft`` needs no honest updates, so that attackers who are all that trains a model can use it too.
    """

    present = True
    alone = False

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

    def craft(self, view: AttackView) -> Tensor:
        """What the Byzantine clients send: (b, d), or (d,) when they all send the same."""
        return view.own

    def choose(self, view: ChoiceView) -> Tensor:
        """Which model each Byzantine client attacks, (b,), where clients choose among several.

        Among those that honest clients train: the one of least loss on the attacker's own data, as if it were honest;
        without data, each of them in turn.
        """
        used: Tensor = torch.unique(view.honest)
        if view.own_losses is None:
            chosen = torch.arange(view.num_byzantine, device=used.device) % len(used)
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

    @cached_property
    def class_updates(self) -> Tensor:
        """One update per class, (c, d), trained as the clients train on the server's samples of that class."""
        return self.train_per_class()

    @cached_property
    def update(self) -> Tensor:
        """The update trained on all of the server's samples, (d,)."""
        return self.train_together()


class Aggregator(Protocol):
    """A robust rule: a pure function of the updates and of what it remembers. It may also define ``check(n)``, raising
    ConfigError before any data are loaded when n clients are too few for it; and ``ring``, its RingForm, or None."""

    def __call__(self, updates: Updates, server: ServerView) -> Aggregate:
        """The aggregate of one round."""


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


class Communication(Protocol):
    """Who sends what to whom. With ``apart`` every client computes on its own, to the bit."""

    @property
    def apart(self) -> bool:
        """Whether clients must not share a batch."""

    def check(self, parts: Mapping[str, Any]) -> None:
        """Raise ConfigError unless the parts of an experiment can communicate so."""

    def total_bits(self, rule: Aggregator, n: int, d: int) -> int:
        """Bits that n clients send in a round, together, of a model of d parameters."""

    def aggregate(self, rule: Aggregator, updates: Updates, server: ServerView) -> Aggregate:
        """The aggregate of one round."""


class PreAggregation(Protocol):
    """Prepares the updates for the rule; every known one is linear in them."""

    def __call__(self, updates: Updates, rng: np.random.Generator) -> Updates:
        """Most return ``updates.mix(mixing)``."""


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


class Clustering(Protocol):
    """Trains several models at once, each by a group of the clients."""

    @property
    def num_clusters(self) -> int:
        """k, the number of models."""

    def start(self, view: StartView) -> tuple[Tensor, Tensor | None]:
        """Initial models (k, d), and every client's model for good, (clients,) int64; None for groups that change:
        then a client trains, in every round, the model of least loss on its own data."""

    def fill(self, choice: Tensor, rng: np.random.Generator) -> Tensor:
        """The choices (n,) int64 of all clients of a round, after looking at models that nobody chose."""

    def step(self, params: Tensor, vector: Tensor, step_size: float, share: float) -> Tensor:
        """The next parameters (d,) of a model at ``params``, from the aggregate of its ``share`` of the clients."""


class Schedule(Protocol):
    """Learning rate against the round."""

    def __call__(self, lr: float, round: int) -> float:
        """The rate of ``round`` (from 0), from the initial rate ``lr``."""
