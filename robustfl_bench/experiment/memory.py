"""Lower bound on the memory of a run, from its settings, compared with the free memory before anything is loaded."""

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.trees import flatten
from robustfl_bench.datasets import find_folder, is_loaded
from robustfl_bench.datasets.base import Dataset
from robustfl_bench.datasets.files import bytes_read
from robustfl_bench.engine.settings import Settings
from robustfl_bench.experiment.machine import choose_device
from robustfl_bench.experiment.plan import Plan, num_params

if TYPE_CHECKING:
    import torch

_FLOAT = 4  # bytes; of a token id too
_CLIENT = 112  # bytes of the empty index array that a client has


def check(planned: Plan) -> None:
    """Raise ConfigError when a run certainly does not fit. A lower bound, so that no possible run is refused. It counts
    the clients, what the local update remembers of the honest ones, the models (k, d), the updates of a round (n, d),
    and the samples if they are drawn or their number is declared; else the size of the files on disk, which are read
    whole. Data that this process has already loaded count as 0.

    Raises ConfigError also where the device does not exist.
    """
    settings, parts = planned.settings, planned.parts
    device = choose_device(settings.device)
    n, d = parts.course.updates_per_round(settings.clients_per_round), num_params(parts.model, parts.dataset)
    models = 1 if parts.clustering is None else parts.clustering.num_clusters
    honest, vectors = _least_honest(settings), parts.local_update.remembered
    drawn, declared, on_disk = _data(planned, device)
    samples, files = f"the samples of {parts.dataset.name}", f"the files of {parts.dataset.name}"
    needs = {
        f"the updates of n={n} clients by d={d} parameters": _FLOAT * n * d,
        f"what {type(parts.local_update).__name__} remembers of {honest} clients": _FLOAT * honest * vectors * d,
        f"{models} models of d={d} parameters": _FLOAT * models * d,
        samples: _FLOAT * (drawn or declared),
        f"{settings.total_clients} clients": _CLIENT * settings.total_clients,
    }
    for where, free, needed in ((*_free(device), needs), (*_here(), {files: on_disk})):
        if sum(needed.values()) > free:
            worst = max(needed, key=lambda what: needed[what])
            smaller = f"take a smaller data set than dataset={parts.dataset.name}"
            advice = smaller if worst in (samples, files) and not drawn else f"lower {_largest(planned.config)}"
            raise ConfigError(
                f"{worst} take {_size(needed[worst])} and {_size(free)} are free on {where} (n={n}, d={d}); {advice}"
            )


def _least_honest(settings: Settings) -> int:
    """Lower bound on the honest clients: Byzantine ones chosen by their share of the data are counted only once data
    are read."""
    if not settings.num_byzantine or settings.byzantine_placement == "add":
        return settings.num_clients
    return settings.num_clients - settings.num_byzantine if settings.byzantine_share_by == "clients" else 1


def _data(planned: Plan, device: "torch.device") -> tuple[int, int, int]:
    """Numbers in the data if they are drawn or declared, and otherwise the bytes of their files."""
    dataset, data_dir = planned.parts.dataset, planned.settings.data_dir
    if is_loaded(dataset, data_dir, device):
        return 0, 0, 0
    if drawn := _drawn(planned.config["dataset"]):
        return drawn, 0, 0
    if declared := _declared(dataset):
        return 0, declared, 0
    return 0, 0, bytes_read(dataset.source, find_folder(data_dir))


def _drawn(dataset: Mapping[str, Any]) -> int:
    """Numbers in the training inputs of data that are drawn for each client; 0 for other data."""
    sizes = [dataset.get(name) for name in ("num_clients", "points", "dim")]
    return sizes[0] * sizes[1] * sizes[2] if all(isinstance(size, int) for size in sizes) else 0  # type: ignore


def _declared(dataset: Dataset) -> int:
    """Numbers in the training and test inputs of data in files, by the smallest variant; 0 where that is not declared.

    A data set that adds to a ``base`` loads all of the base, and may take a part of it. LEAF's files can be any part.
    """
    source = dataset.source
    while source is not None and source.base is not None:
        source = source.base
    if source is None or source.leaf or not source.sizes:
        return 0
    return min(map(sum, source.sizes.values())) * math.prod(dataset.input_shape)


def _free(device: "torch.device") -> tuple[str, int]:
    """The device of a run's matrices, and its free bytes."""
    import torch

    return (str(device), torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else _here()


def _here() -> tuple[str, int]:
    """This machine, and its free bytes."""
    return "this machine", _free_here()


def _free_here() -> int:
    """Bytes available to programs; all memory of the machine if the system does not report them."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _largest(config: Mapping[str, Any]) -> str:
    """The largest whole number among the settings that sizes depend on, as an override."""
    names = ("num_clients", "num_byzantine", "model", "dataset", "clustering")
    found = flatten({name: config[name] for name in names})
    numbers = {key: value if isinstance(value, list) else [value] for key, value in found if not key.endswith(".seed")}
    sizes = {
        key: max((number for number in values if isinstance(number, int)), default=0) for key, values in numbers.items()
    }
    key = max(sizes, key=lambda name: sizes[name])
    return f"{key} (now {sizes[key]})"


def _size(count: float) -> str:
    """Bytes in words."""
    for unit in ("bytes", "kB", "MB", "GB", "TB", "PB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} EB"
