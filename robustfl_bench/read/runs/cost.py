"""How long runs will take, from those that were made."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass
from statistics import median

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.late import pd
from robustfl_bench.read.runs.matching import Config, Index
from robustfl_bench.runner.config.request import made
from robustfl_bench.runner.experiment.networks import operations_per_sample
from robustfl_bench.runner.experiment.speed import Speed
from robustfl_bench.runner.store.lines import default_of, tree

_SAMPLES = re.compile(r"(\d+) \+ \d+ samples")
_NETWORK = {"dataset", "model"}
_TRAINING = _NETWORK | {"local_update"}
_SETTING = _TRAINING | {"batch_size", "num_clients", "participation"}
_CLIENTS_HELD = "dataset.num_clients"
HOUR = 3600


@dataclass(frozen=True)
class Cost:
    """The ``seconds`` of some runs one after the other, nan if unknown, and the runs that say so, in words."""

    seconds: float
    source: str = ""

    @property
    def hours(self) -> float:
        """The time in hours."""
        return self.seconds / HOUR


@dataclass(frozen=True)
class _Kind:
    """Runs that are alike: what they share, in words, their key, and what the work of a round grows with."""

    words: str
    key: Callable[[Config], Hashable]
    grows_with: str = ""


_KINDS = (
    _Kind("other seeds of the same cells", lambda config: frozenset(config.items())),
    _Kind("the same rule in the same setting", lambda config: _shared(config, {"aggregator", *_SETTING})),
    _Kind("other rules in the same setting", lambda config: _shared(config, _SETTING)),
    _Kind("the same network and data, by samples", lambda config: _shared(config, _TRAINING), "samples"),
    _Kind(
        "the same network and data with other local updates, by samples",
        lambda config: _shared(config, _NETWORK),
        "samples",
    ),
    _Kind(
        "the same network on data of another number of clients, by clients",
        lambda config: _shared({**config, _CLIENTS_HELD: ""}, _TRAINING),
        "clients",
    ),
)
"""From the closest likeness to the loosest."""


class Costs:
    """The time of runs on a CPU, estimated from the rounds of the most similar ones of ``runs`` (``records.load``) that
    were made on one; their settings are in ``index``. With the ``speed`` of a device, from their operations where no
    run is similar, and everywhere on a GPU."""

    def __init__(self, runs: pd.DataFrame, index: Index, speed: Speed | None = None) -> None:
        self._samples, self._speed = _train_samples(runs, index), speed
        self._operations: dict[Hashable, float] = {}
        is_gpu = speed is not None and speed.is_gpu
        self._rounds: dict[Hashable, list[float]] = {}
        facts = zip(index.configs, runs["seconds"], runs["rounds_done"], runs["device"], strict=True)
        for config, seconds, rounds, device in facts:
            if seconds > 0 and rounds > 0 and not (is_gpu or str(device).startswith("cuda")):
                for place, kind in enumerate(_KINDS):
                    if (work := self._work(config, kind)) > 0:
                        self._rounds.setdefault((place, kind.key(config)), []).append(seconds / rounds / work)

    def of(self, configs: Iterable[Config]) -> Cost:
        """The time of runs with these settings, and the loosest likeness that it rests on."""
        total, used = 0.0, Counter[int]()
        for config in configs:
            seconds, place = self._of_one(config)
            total += seconds
            used[place] += 1
        if math.isnan(total):
            return Cost(total, "no run with such a network and data")
        if self._speed is not None and len(_KINDS) in used:
            return Cost(total, self._speed.source)
        return Cost(total, _KINDS[max(used)].words if used else "")

    def _of_one(self, config: Config) -> tuple[float, int]:
        for place, kind in enumerate(_KINDS):
            if (like := self._rounds.get((place, kind.key(config)))) and (work := self._work(config, kind)) > 0:
                return int(config["rounds"]) * work * median(like), place
        return self._by_operations(config), len(_KINDS)

    def _by_operations(self, config: Config) -> float:
        """The time of a run by the speed of the device; nan if it is unknown, or the samples of the run are."""
        if self._speed is None:
            return math.nan
        if (network := _shared(config, _NETWORK)) not in self._operations:
            self._operations[network] = _operations(config)
        seen = self._seen(config)
        batch = config.get("batch_size")
        steps = max(1.0, seen / (int(config["num_clients"]) * int(batch)) if batch else _told(config, "epochs") or 1)
        return int(config["rounds"]) * self._speed.seconds(steps, seen * self._operations[network])

    def _work(self, config: Config, kind: _Kind) -> float:
        """The samples whose gradients a round takes, the clients that take part, or 1 for a kind whose rounds are
        alike; nan if unknown."""
        if not kind.grows_with:
            return 1
        part = float(config.get("participation", 1))
        if kind.grows_with == "clients":
            return part * int(config["num_clients"])
        return self._seen(config)

    def _seen(self, config: Config) -> float:
        """The samples whose gradients a round takes."""
        part = float(config.get("participation", 1))
        steps, epochs = (_told(config, name) for name in ("steps", "epochs"))
        samples, batch = self._samples.get(_data(config), math.nan), config.get("batch_size")
        if epochs or batch is None:
            seen = samples * (epochs or steps or 1)
        else:
            seen = int(config["num_clients"]) * int(batch) * (steps or 1)
        return part * seen


def _operations(config: Config) -> float:
    """The operations of the gradient for a sample; nan for data whose seed the settings leave open."""
    content = tree(config.items())
    try:
        return operations_per_sample(*(made(group, content[group]) for group in ("model", "dataset")))
    except ConfigError:
        return math.nan


def _told(config: Config, option: str) -> int:
    """A whole number that the local update has; 0 if it has none."""
    name = f"local_update.{option}"
    value = config.get(name, default_of(config["local_update._target_"], option))
    return 0 if value == "null" else int(value)


def _data(config: Config) -> Hashable:
    """The data set, and how many of its clients are taken."""
    return config["dataset._target_"], config.get(_CLIENTS_HELD)


def _train_samples(runs: pd.DataFrame, index: Index) -> dict[Hashable, int]:
    """The training samples of each data set that the runs read."""
    samples = {}
    for config, data in zip(index.configs, runs["data"], strict=True):
        if isinstance(data, str) and (written := _SAMPLES.search(data)) and "dataset._target_" in config:
            samples[_data(config)] = int(written[1])
    return samples


def _shared(config: Config, parts: Collection[str]) -> Hashable:
    """The contents of groups, and scalars."""
    return frozenset((name, value) for name, value in config.items() if name.partition(".")[0] in parts)
