"""What a run needs of memory at least, from its settings, against what is free: before anything is loaded."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from robustfl_bench.config import options
from robustfl_bench.config.settings import Settings
from robustfl_bench.errors import ConfigError
from robustfl_bench.experiment.plan import Plan, num_params

_FLOAT = 4  # bytes
_CLIENT = 112  # bytes of the empty index array that a client has


def check(planned: Plan) -> None:
    """Raise ConfigError when a run certainly does not fit: a lower bound, so that no possible run is refused.

    Counted are the clients, what the local update remembers of the honest ones, the models (k, d), the updates of a
    round (n, d), and data that are drawn at random.
    """
    settings, parts = planned.settings, planned.parts
    n, d = settings.clients_per_round, num_params(parts.model, parts.dataset)
    models = 1 if parts.clustering is None else parts.clustering.num_clusters
    honest, vectors = _least_honest(settings), parts.local_update.remembered
    needs = {
        f"the updates of n={n} clients by d={d} parameters": _FLOAT * n * d,
        f"what {type(parts.local_update).__name__} remembers of {honest} clients": _FLOAT * honest * vectors * d,
        f"{models} models of d={d} parameters": _FLOAT * models * d,
        f"the samples of {parts.dataset.name}": _FLOAT * _drawn(planned.config["dataset"]),
        f"{settings.total_clients} clients": _CLIENT * settings.total_clients,
    }
    where, free = _free(settings.device)
    if sum(needs.values()) > free:
        worst = max(needs, key=lambda what: needs[what])
        raise ConfigError(
            f"{worst} take {_size(needs[worst])} and {_size(free)} are free on {where} (n={n}, d={d}); "
            f"lower {_largest(planned.config)}"
        )


def _least_honest(settings: Settings) -> int:
    """Honest clients, at least: how many are Byzantine that hold a share of the data is not known before it is read."""
    if not settings.num_byzantine or settings.byzantine_placement == "add":
        return settings.num_clients
    return settings.num_clients - settings.num_byzantine if settings.byzantine_share_by == "clients" else 1


def _drawn(dataset: Mapping[str, Any]) -> int:
    """Numbers in the training inputs of data that are drawn for each client; 0 of others, whose size is in files."""
    sizes = [dataset.get(name) for name in ("num_clients", "points", "dim")]
    return sizes[0] * sizes[1] * sizes[2] if all(isinstance(size, int) for size in sizes) else 0  # type: ignore


def _free(device: str) -> tuple[str, int]:
    """Where the matrices of a run will be, and the bytes that are free there."""
    import torch

    if device.startswith("cuda") or (device == "auto" and torch.cuda.is_available()):
        name = "cuda" if device == "auto" else device
        if torch.cuda.is_available() and (torch.device(name).index or 0) < torch.cuda.device_count():
            return name, torch.cuda.mem_get_info(torch.device(name))[0]
    return "this machine", _free_here()


def _free_here() -> int:
    """Bytes that programs can still have; all that the machine has where it does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _largest(config: Mapping[str, Any]) -> str:
    """The largest whole number among the settings that sizes depend on, as an override."""
    names = ("num_clients", "num_byzantine", "model", "dataset", "clustering")
    found = options.flatten({name: config[name] for name in names})
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
