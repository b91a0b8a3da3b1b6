"""The scalars of a run, typed and range-checked before anything is loaded."""

import math
import os
import re
from dataclasses import dataclass, fields
from types import NoneType
from typing import Annotated, Any, get_args

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import Option, at_least, one_of, options_of
from robustfl_bench.train.execution import Execution
from robustfl_bench.train.parts import FOLLOWING, GROUPS

DEVICES = ("auto", "cpu", "cuda")


@dataclass
class Defining:
    """Scalars that define the experiment."""

    seed: Annotated[int, at_least(0)]
    """fixes all random draws"""
    rounds: Annotated[int, at_least(1)]
    """number of communication rounds"""
    lr: Annotated[float, Option(0, math.inf, "()")]
    """initial learning rate; group `schedule` makes it decay"""
    batch_size: Annotated[int | None, at_least(1)]
    """samples per client and step; null: the whole local set"""
    num_clients: Annotated[int, at_least(1)]
    """number of honest clients; with byzantine_placement=replace, of all clients"""
    num_byzantine: Annotated[int, at_least(0)]
    """number of Byzantine clients; counts as 0 with attack=none"""
    num_byzantine_declared: Annotated[int, at_least(0)]
    """f: the number that the server assumes in a round; rules read it. 0.1: a tenth of all clients, of whom at most f
    take part in 95% of rounds; null: the same of num_byzantine, at most what the rule accepts with participation < 1"""
    byzantine_placement: Annotated[str, one_of(add="to num_clients", replace="some of num_clients")]
    """what Byzantine clients do"""
    byzantine_share_by: Annotated[
        str, one_of(clients="a count", data="those holding num_byzantine/num_clients of the samples")
    ]
    """meaning of num_byzantine"""
    knowledge: Annotated[str | None, one_of(all="every honest update", own="what they compute on their own data")]
    """what attackers know"""
    participation: Annotated[float, Option(0, 1, "(]")]
    """share of all clients that take part in a round"""
    participation_by: Annotated[str | None, one_of(kind="the same share of honest clients and of attackers")]
    """by what they are drawn, if not among all clients (null)"""
    validation_share: Annotated[float | None, Option(0, 1, "()")]
    """share of the training set held out for tuning. A run then returns its best validation accuracy, which sweepers
    maximise; null: a run returns its last test accuracy"""
    eval_every: Annotated[int, at_least(1)]
    """rounds between evaluations on the test set; the last round is always evaluated"""
    precision: Annotated[str, one_of("highest", high="TF32", medium="bfloat16")]
    """precision of float32 products; a device without the units computes in float32 and says so"""


@dataclass
class Switches:
    """Scalars that presets read; their effects are in other settings."""

    scale: Annotated[str, one_of(quick="a small version for a laptop", paper="the paper's sizes")]
    """size of the experiments of a paper"""
    variant: Annotated[str, one_of(fair="follows the text", published="follows the code")]
    """where a paper's code departs from its text"""
    lr_policy: Annotated[str, one_of(own="their own", shared="RAGA's")]
    """rates of RAGA's baselines"""
    rates: Any
    """learning rates of a paper's methods by kind, which its settings define"""


@dataclass
class Settings(Switches, Execution, Defining):
    """Every scalar at the root of the configuration; ``conf/config.yaml`` holds the defaults."""

    def errors(self) -> list[str]:
        """A phrase for each scalar that is out of range."""
        found = []
        for name, (option, wanted) in options_of(Settings).items():
            if (value := getattr(self, name)) is not None and not option.allows(value):
                null = "null or " if NoneType in get_args(wanted) and not option.choices else ""
                found.append(f"{name} must be {null}{option.instead_of(value)}, got {value!r}")
        for name, folder in (("results_dir", self.results_dir), ("data_dir", self.data_dir)):
            if folder is not None and not folder.strip():
                found.append(f"{name} must name a folder, got {folder!r}")
        found += blocked(self.results_dir)
        if not re.fullmatch(rf"{'|'.join(DEVICES)}|cuda:\d+", self.device):
            found.append(f"device must be one of {', '.join(DEVICES)} or cuda:N, got {self.device!r}")
        if self.byzantine_placement == "replace" and self.num_byzantine >= self.num_clients:
            found.append(
                f"num_byzantine={self.num_byzantine} leaves no honest client of num_clients={self.num_clients} "
                "with byzantine_placement=replace"
            )
        elif self.num_byzantine_declared > self.total_clients:
            found.append(
                f"num_byzantine_declared={self.num_byzantine_declared} is more than all {self.total_clients} clients"
            )
        if (
            0 < self.participation <= 1
            and self.total_clients > 0
            and round(self.participation * self.total_clients) < 1
        ):
            found.append(
                f"participation={self.participation:g} of {self.total_clients} clients leaves no client in a round; "
                f"take at least {1 / self.total_clients:.2g}"
            )
        return found

    def remarks(self) -> list[str]:
        """A phrase for each setting that is valid but looks unintended."""
        found = []
        if self.clients_per_round == 1 < self.total_clients:
            found.append(
                f"participation={self.participation:g} leaves 1 of {self.total_clients} clients in a round: "
                "a rule has nothing to compare"
            )
        if (honest := self.total_clients - self.num_byzantine) <= self.num_byzantine:
            found.append(f"{self.num_byzantine} Byzantine clients against {honest} honest: no rule promises anything")
        if self.eval_every > self.rounds:
            found.append(f"eval_every={self.eval_every} is more than rounds={self.rounds}: only the last is evaluated")
        return found

    def is_evaluated(self, number: int) -> bool:
        """Whether round ``number`` (from 1) gets a record."""
        return number % self.eval_every == 0 or number == self.rounds

    @property
    def total_clients(self) -> int:
        """All clients, Byzantine included."""
        return self.num_clients + (self.num_byzantine if self.byzantine_placement == "add" else 0)

    @property
    def clients_per_round(self) -> int:
        """Clients that take part in a round, Byzantine included."""
        return max(1, at_share(self.participation, self.total_clients))


def at_share(participation: float, clients: int) -> int:
    """How many of so many clients take part in a round, if the share of participation counts alone."""
    return round(participation * clients)


def blocked(results_dir: str) -> list[str]:
    """A phrase if a file is in the place of the run folders, else None."""
    path = os.path.join(os.path.expanduser(results_dir), "runs")
    while not os.path.isdir(path) and path != (above := os.path.dirname(path)):
        if os.path.isfile(path):
            where = "" if path == results_dir else f": {path}"
            return [f"results_dir={results_dir}{where} is a file; it must be a folder"]
        path = above
    return []


SCALARS = tuple(field.name for field in fields(Settings))
CHOICES = {name: option.words for name, (option, _) in options_of(Settings).items() if option.choices}
"""The scalars that are words, with their allowed values."""

DEFINING = (*(field.name for field in fields(Defining)), *(name for name in GROUPS if name not in FOLLOWING))
"""The keys in ``config.yaml`` of a run folder."""


def check(settings: Settings) -> None:
    """Raise one ConfigError that names everything out of range."""
    if errors := settings.errors():
        raise ConfigError("; ".join(errors))
