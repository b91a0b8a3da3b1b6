"""The base class of attacks, and the views of a round that the attackers receive."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from robustfl_bench.base.abilities import Ability, Part, Table, overrides
from robustfl_bench.parts.datasets.base import Scaling

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from robustfl_bench.numerics.updates import Aggregate, Updates


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
    the server's rule for crafted rows (b, d), or (d,) if all attackers send the same. ``ask`` is the engine's faster
    way to ask several questions, which ``aggregate_many`` uses; None if there is none. ``upload`` maps updates (..., d)
    to the clients' uploads: the updates themselves, or the models that result from them. ``rng`` is the attack's random
    stream of this round. ``memory`` is the memory of the attack's last ``Crafted``, empty at first. With several
    models, a view covers one of them and the clients that train it.

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
    ask: Callable[[Tensor], Tensor] | None = None

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

    def aggregate_many(self, crafted: Tensor) -> Tensor:
        """The aggregates (k, d) of the server's rule for k candidates of crafted rows, (k, b, d) or (k, 1, d).

        The answers are those of ``aggregate`` up to rounding, about 1e-7 of their size.
        """
        if self.ask is not None:
            return self.ask(crafted)
        import torch

        alike = crafted.shape[1] == 1
        return torch.stack([self.aggregate(rows[0] if alike else rows).vector for rows in crafted])

    @cached_property
    def of_updates(self) -> AttackView:
        """The same view with updates in ``honest`` and ``own`` also if clients send models. The ``upload`` of this view
        turns crafted updates into models."""
        columns = self.upload(self.honest.columns)
        if columns is self.honest.columns:
            return self
        from robustfl_bench.numerics.updates import Updates

        honest = Updates(columns, self.honest.counts, self.honest.losses, self.honest.place)
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
class GossipView:
    """The knowledge of the colluding attackers in a round of gossip, where every neighbour gets a message of its own.

    ``before`` (h, d) are the honest nodes' models before the round, ``models`` (h, d) those after their local step,
    which they send. Link k goes from attacker ``links[k, 0]``, from 0 to ``num_byzantine`` - 1, to the honest node in
    row ``links[k, 1]``; ``links`` (e, 2) int64, all links of a node together, nodes in order. ``weights`` (h, h)
    float64 are the gossip weights W_ij among honest nodes, zero where there is no link, their own on the diagonal;
    ``byzantine_weights`` (h, b) those that node i gives to the attackers' messages. ``lr`` is the learning rate of the
    ``round`` (from 0), ``rng`` the attack's random stream of this round, ``memory`` that of its last ``Crafted``.
    """

    before: Tensor
    models: Tensor
    links: Tensor
    weights: Tensor
    byzantine_weights: Tensor
    round: int
    lr: float
    rng: np.random.Generator
    memory: Mapping[str, Tensor]

    @property
    def num_byzantine(self) -> int:
        """The number of attackers."""
        return self.byzantine_weights.shape[1]

    @property
    def adjacency(self) -> Tensor:
        """Which honest nodes are neighbours, (h, h) bool."""
        return (self.weights > 0).fill_diagonal_(False)


Harm = tuple[float, float]
"""The harm of what attackers try, and a second number that breaks ties."""


class PlanView(ABC):
    """The knowledge of attackers who choose, before a round, the attack that they carry out in it.

    ``round`` rounds are over, of ``rounds``. ``memory`` is that of their last ``Crafted``. ``varies`` says whether
    trainings with other random streams can end differently, beside the attack's own draws.
    """

    @property
    @abstractmethod
    def round(self) -> int: ...

    @property
    @abstractmethod
    def rounds(self) -> int: ...

    @property
    @abstractmethod
    def memory(self) -> Mapping[str, Tensor]: ...

    @property
    @abstractmethod
    def varies(self) -> bool: ...

    @property
    @abstractmethod
    def supposes(self) -> bool:
        """Whether honest clients are supposed in simulations, as with ``knowledge=own``."""

    @property
    @abstractmethod
    def error_at_hand(self) -> float:
        """The error rate of the model at hand on the samples of ``simulate``; 0 for regression."""

    @property
    @abstractmethod
    def own_draws(self) -> Callable[[int], np.random.Generator]:
        """A function that returns the random stream of the attackers themselves in a round (from 0) of the run."""

    @property
    @abstractmethod
    def layer_sizes(self) -> tuple[int, ...]:
        """The numbers of parameters of the model's layers, in the order of the updates' columns."""

    @abstractmethod
    def simulate(self, attacks: Sequence[Attack], stream: int) -> list[Harm | None]:
        """The harms of trainings to the end, each under one of the attacks, with the random streams of a number, never
        those of the run. None for an attack that cannot work.

        A harm is the mean error rate of the models of the evaluated rounds in the last third of the run, and their mean
        loss, on the clean samples of all clients (with ``knowledge=own``, of the attackers). For regression the error
        rate is 0. A training that diverges counts as guessing.
        """

    @abstractmethod
    def assess_by_class(self, models: Tensor) -> tuple[Tensor, Tensor | None]:
        """The mean losses (k,) float64 and error rates (k,) float64 of models (k, d) on the same samples as
        ``simulate``, every class with the same weight; for regression, None instead of the error rates."""

    @abstractmethod
    def carry_out(self, attack: Attack) -> object:
        """End the plan: the attackers carry out this attack in the next round, with its own poisoned data."""

    @abstractmethod
    def carry_out_on_labels(self, attack: Attack, choose: Callable[[Tensor], Tensor]) -> object:
        """End the plan: the attackers carry out this attack in the next round, on their own samples with other labels.

        ``choose`` maps the outputs (N, c) of the model at hand for these samples to the labels (N,).
        """


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
    attack whose clients train like honest clients, on poisoned data or on other labels.
    ``needs_honest`` is False if ``craft`` works without honest updates, which are missing for a model that only
    attackers train. ``by_columns`` says that ``craft`` also works where a process has a part of the columns: it reads
    ``honest.columns``, never ``matrix``, and takes lengths and products from ``honest.place`` and the updates.
    ``exempt`` may name ``finite`` (uploads may be non-finite) or ``memory`` (the attack keeps state on itself), with
    the reason. ``reports`` names the numbers that ``craft`` reports in each round: columns ``attack_NAME`` of
    metrics.csv. ``square_matrices`` is the most (n, n) float64 matrices of the honest updates that it holds at once.

        >>> import robustfl_bench as rb
        >>> from robustfl_bench.parts.attacks import InnerProductManipulation
        >>> rb.run(aggregator="average", attack=InnerProductManipulation(), rounds=5).accuracy < 0.3
        True
    """

    abilities: ClassVar[Table] = {
        "exempt": Ability(counts="never"),
        "square_matrices": Ability(counts="never"),
        "poisons": Ability(wrapper="own"),
        "plan": Ability(wrapper="combine"),
    }

    exempt: ClassVar[Mapping[str, str]] = MappingProxyType({})
    reports: ClassVar[tuple[str, ...]] = ()
    square_matrices: ClassVar[int] = 0

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

        @property
        def by_columns(self) -> bool:
            """Whether ``craft`` works on a part of the columns of the updates."""
    else:
        present, crafts, needs_honest, by_columns = True, True, True, False

    @property
    def poisons(self) -> bool:
        """Whether the attack overrides ``poison``, so that the Byzantine clients need data."""
        return overrides(self, "poison")

    @property
    def plans(self) -> bool:
        """Whether the attack overrides ``plan``."""
        return overrides(self, "plan")

    def plan(self, view: PlanView) -> object:
        """Choose the attack of the next round, which may be another one: returns ``view.carry_out(attack)``.

        It is called only if the attack overrides it.
        """
        raise NotImplementedError

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

    def claim(self, counts: Tensor) -> Tensor:
        """The sample counts (b,) float64 that Byzantine clients report, given their true ones."""
        return counts

    def craft(self, view: AttackView) -> Tensor | Crafted:
        """The uploads of the Byzantine clients, (b, d), or (d,) if all send the same.

        An attack with memory returns ``Crafted`` and reads its memory from ``view.memory`` in the next round.
        """
        return view.own

    def craft_messages(self, view: GossipView) -> Tensor | Crafted | None:
        """The models (e, d) that attackers send over their links in a round of gossip, one for each row of
        ``view.links``; None, the default, for an attack that sends what ``craft`` makes, the same to all neighbours."""
        return None

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
