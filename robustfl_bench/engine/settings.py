"""The scalars of a run, typed and range-checked before anything is loaded."""

import math
import os
import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.engine.parts import FOLLOWING, GROUPS

SCALES = ("quick", "paper")
CHOICES = {
    "precision": ("highest", "high", "medium"),
    "byzantine_placement": ("add", "replace"),
    "byzantine_share_by": ("clients", "data"),
    "knowledge": ("all", "own"),
    "scale": SCALES,
    "variant": ("fair", "published"),
    "lr_policy": ("own", "shared"),
}
"""The scalars that are words, with their allowed values."""

DEVICES = ("auto", "cpu", "cuda")
MOST_THREADS = 1024  # with more, the operating system may end the process


@dataclass
class Defining:
    """Scalars that define the experiment."""

    seed: int
    rounds: int
    lr: float
    batch_size: int | None
    num_clients: int
    num_byzantine: int
    num_byzantine_declared: int
    byzantine_placement: str
    byzantine_share_by: str
    knowledge: str | None
    participation: float
    validation_share: float | None
    eval_every: int
    precision: str


@dataclass
class Execution:
    """Scalars of the execution of a run; they change no result."""

    device: str
    num_threads: int | None
    data_dir: str | None
    results_dir: str
    checkpoint_seconds: float
    use_kept: bool
    retry_failed: bool
    wait: bool
    dry_run: bool
    origin: str | None
    allow: Any


@dataclass
class Switches:
    """Scalars that presets read; their effects are in other settings."""

    scale: str
    variant: str
    lr_policy: str
    rates: Any


@dataclass
class Settings(Switches, Execution, Defining):
    """Every scalar at the root of the configuration; ``conf/config.yaml`` holds the defaults and explains each."""

    def errors(self) -> list[str]:
        """A phrase for each scalar that is out of range."""
        found = [
            f"{name} must be {text}, got {value!r}"
            for name, value, low, high, text in (
                ("seed", self.seed, 0, math.inf, ">= 0"),
                ("rounds", self.rounds, 1, math.inf, ">= 1"),
                ("batch_size", self.batch_size, 1, math.inf, "null (the whole local set) or >= 1"),
                ("num_clients", self.num_clients, 1, math.inf, ">= 1"),
                ("num_byzantine", self.num_byzantine, 0, math.inf, ">= 0"),
                ("num_byzantine_declared", self.num_byzantine_declared, 0, math.inf, ">= 0"),
                ("eval_every", self.eval_every, 1, math.inf, ">= 1"),
                ("num_threads", self.num_threads, 1, MOST_THREADS, f"null (chosen here) or in [1, {MOST_THREADS}]"),
                ("checkpoint_seconds", self.checkpoint_seconds, 0, math.inf, ">= 0"),
            )
            if value is not None and not low <= value <= high
        ]
        if not 0 < self.lr < math.inf:
            found.append(f"lr must be > 0, got {self.lr!r}")
        if not 0 < self.participation <= 1:
            found.append(f"participation must be in (0, 1], got {self.participation!r}")
        if self.validation_share is not None and not 0 < self.validation_share < 1:
            found.append(f"validation_share must be null or in (0, 1), got {self.validation_share!r}")
        for name, known in CHOICES.items():
            if (value := getattr(self, name)) is not None and value not in known:
                found.append(f"{name} must be one of {', '.join(known)}, got {value!r}")
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
        return max(1, round(self.participation * self.total_clients))


def blocked(results_dir: str) -> list[str]:
    """A phrase if a file is in the place of the run folders, else None."""
    runs = Path(results_dir).expanduser() / "runs"
    for path in (runs, *runs.parents):
        if os.path.isfile(path):
            where = "" if str(path) == results_dir else f": {path}"
            return [f"results_dir={results_dir}{where} is a file; it must be a folder"]
    return []


SCALARS = tuple(field.name for field in fields(Settings))
DEFINING = (*(field.name for field in fields(Defining)), *(name for name in GROUPS if name not in FOLLOWING))
"""The keys in ``config.yaml`` of a run folder."""


def check(settings: Settings) -> None:
    """Raise one ConfigError that names everything out of range."""
    if errors := settings.errors():
        raise ConfigError("; ".join(errors))
