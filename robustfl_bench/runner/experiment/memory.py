"""Lower bound on the memory of a run, from its settings, compared with the free memory before anything is loaded."""

import math
import os
import shutil
import time
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from robustfl_bench.base.abilities import Part, overrides
from robustfl_bench.base.console import say
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.trees import flatten
from robustfl_bench.parts.datasets import folder_of
from robustfl_bench.parts.datasets.base import Dataset
from robustfl_bench.parts.datasets.files import bytes_read
from robustfl_bench.runner.experiment import samples
from robustfl_bench.runner.experiment.machine import Reservations, choose_device, free_bytes, release_gpu
from robustfl_bench.runner.experiment.networks import outputs_per_sample
from robustfl_bench.runner.experiment.plan import Request
from robustfl_bench.runner.store.shared import SharedFiles, folder_of_user
from robustfl_bench.train.participation import taking_part
from robustfl_bench.train.parts import Parts
from robustfl_bench.train.settings import Settings

if TYPE_CHECKING:
    import torch

Where = Literal["float32", "bfloat16", "file"]
"""Where the updates of a round are: in memory as float32 or bfloat16 numbers, or in a file."""

_HALF, _FLOAT, _DOUBLE = 2, 4, 8  # bytes; a token id has as many as a float
_TURNS = 8  # in which honest clients train whose updates are stored in bfloat16 (see ``engine.in_bfloat16``)
_CLIENT = 112  # bytes of the empty index array that a client has
COPIES = "the clients' copies of their samples"
RESIDENT = 1 << 29  # bytes of the updates that are in memory when they are in a file
SMALL = 1 << 26  # bytes of the updates of a run that may train together with others (see ``engine.stack``)
TINY = 1 << 24  # bytes that a run takes without a look at what others need
POLL = 2.0  # seconds between two looks at the room that other runs leave
GAP = 3  # looks at which no other run may be seen on a GPU: other processes may be between two of theirs


def check(request: Request) -> Where:
    """Where the updates of a round are: in a file if the run fits into memory without them only.

    Waits where the run fits, here or on its GPU, only once other runs have ended. Raises ConfigError when it certainly
    does not fit, and where the device does not exist.
    """
    device, processes = choose_device(request.settings.device), request.settings.processes
    if "RANK" in os.environ:  # those that torchrun started on this machine, if it reports them
        processes = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    needed, files, on_cpu = needs(request, device), _files(request, device), device.type == "cpu"
    here = {what: processes * size for what, size in (files | (needed if on_cpu else {})).items()}
    alone = on_cpu and request.settings.processes == 1
    if not on_cpu:
        _wait_for_gpu(request, device, needed)
    free = free_bytes()
    if on_disk := alone and sum(here.values()) > free and _has_room(request):
        here = files | _with_updates_on_disk(request, needed)
    if sum(here.values()) > free:
        raise _refusal(request, here, free, "this machine")
    place: Where = "file" if on_disk else "bfloat16" if in_bfloat16(request) else "float32"
    shared = _shared(request, device) if place == "float32" else ()
    if (own := sum(size for what, size in here.items() if what not in shared)) > TINY:
        _wait_for_room(request, own)
    if on_disk:
        folder = request.settings.results_dir
        say(f"{_updates_of(request)} are kept in a file in {folder}: {_size(_matrix(request))} do not fit into memory")
    return place


def _refusal(request: Request, wanted: Mapping[str, int], free: int, where: str) -> ConfigError:
    """That a run which needs these bytes does not fit into the ``free`` ones, and what to lower."""
    worst = max(wanted, key=lambda what: wanted[what])
    dataset, n, processes = request.parts.dataset, _updates_per_round(request), request.settings.processes
    of_data = worst in (_samples_of(dataset), _files_of(dataset)) and not _drawn(request.config["dataset"])
    advice = f"take a smaller data set than dataset={dataset.name}" if of_data else f"lower {_largest(request.config)}"
    sizes = f"(n={n}, d={request.dim})"
    taken = _size(wanted[worst]) + f" in {processes} processes" * (processes > 1)
    return ConfigError(f"{worst} take {taken} and {_size(free)} are free on {where} {sizes}; {advice}")


def in_bfloat16(request: Request) -> bool:
    """Whether the updates of a round are stored in bfloat16, in which they arrive.

    Those of small runs are not, which may train together, nor those of clients with so few samples that most of them
    go through the network together, in float32. Attackers who ask the rule, or plan, need float32.
    """
    from robustfl_bench.numerics.network.flat import CHUNK  # late: they import torch
    from robustfl_bench.parts.protocols.star import Star

    s, attack, course = request.settings, request.parts.attack, request.parts.course
    arrive = isinstance(course, Star) and course.update_dtype is not None and s.processes == 1
    asks = s.num_byzantine and (attack.plans or (attack.crafts and not attack.by_columns))
    takes_turns = s.clients_per_round * _at_once(request) >= _TURNS * CHUNK
    return arrive and not asks and takes_turns and _matrix(request) > SMALL


def needs(request: Request, device: "torch.device") -> dict[str, int]:
    """The bytes that a run, or one of its ``processes``, needs at least on its device, by what needs them.

    They are lower bounds: the clients, what the local update remembers of the honest ones that take part, the models
    (k, d), the updates of a round (n, d), the (n, n) matrices of the attack, the pre-aggregation and the rule, and the
    samples if they are drawn or their number is declared, unless this process has loaded them. Two are means over the
    clients, where every training sample has a client: the clients' copy of their samples, and the feature maps of one.
    """
    settings, parts = request.settings, request.parts
    n, d = _updates_per_round(request), request.dim
    models = 1 if parts.clustering is None else parts.clustering.num_clusters
    vectors, shape = parts.local_update.remembered, math.prod(parts.dataset.input_shape)
    remembered = _taking_part(settings, parts) // settings.processes if vectors else 0
    own, mixing = _own(request), parts.pre_aggregation
    most_square = max(part.square_matrices for part in (parts.attack, parts.aggregator, mixing) if part is not None)
    remembers = type(parts.local_update).__name__
    return {
        _updates_of(request): _held(request),
        f"what {remembers} remembers of {remembered} clients": _FLOAT * vectors * remembered * d,
        f"{models} models of d={d} parameters": _FLOAT * models * d,
        f"the (n, n) matrices of n={n} clients": _DOUBLE * n**2 * most_square,
        _samples_of(parts.dataset): _FLOAT * (0 if samples.is_loaded(request, device) else _numbers(request)),
        COPIES: _FLOAT * int(own * _least_honest(settings)) * shape,
        "the feature maps of a client": _FLOAT * _at_once(request) * outputs_per_sample(parts.model, parts.dataset),
        f"{settings.total_clients} clients": _CLIENT * settings.total_clients,
    }


def _own(request: Request) -> float:
    """The mean number of samples of a client, where every training sample has one; else 0."""
    if "covering" in request.parts.partition.exempt:
        return 0.0
    mean = _train_samples(request) / request.settings.num_clients
    return mean * (1 - (request.settings.validation_share or 0))


def _at_once(request: Request) -> int:
    """The number of samples of a client that go through the network together."""
    return int(min(request.settings.batch_size or math.inf, _own(request)))


def _shared(request: Request, device: "torch.device") -> tuple[str, ...]:
    """What of ``needs`` and of files processes on this machine have in common. The system keeps it in its cache of
    files, whose memory it can take back."""
    dataset = request.parts.dataset
    among_processes = isinstance(samples.shared(request, device), SharedFiles)
    return (_samples_of(dataset), _files_of(dataset), COPIES) if among_processes else ()


def _with_updates_on_disk(request: Request, needed: Mapping[str, int]) -> dict[str, int]:
    """What a run needs in memory if the updates of a round are in a file: the whole matrices that its parts make of
    them, and the part of the file that stays in memory."""
    matrix, few = _matrix(request), dict(needed)
    few[_updates_of(request)] = min(matrix, RESIDENT)
    for part in _parts_in(request.parts):
        if part.whole_matrices:
            few[f"the {part.whole_matrices} matrices that {type(part).__name__} makes of all updates"] = (
                part.whole_matrices * matrix
            )
    return few


def _parts_in(whole: object) -> Iterator[Part]:
    """The parts of a run or of a part, and the parts within them."""
    for part in vars(whole).values():
        if isinstance(part, Part):
            yield part
            yield from _parts_in(part)


def _has_room(request: Request) -> bool:
    """Whether the updates of a round fit on the disk of the results."""
    folder = Path(request.settings.results_dir).expanduser().absolute()
    there = next(path for path in (folder, *folder.parents) if path.is_dir())
    return shutil.disk_usage(there).free > _matrix(request)


def _updates_of(request: Request) -> str:
    n, d = _updates_per_round(request), request.dim
    return f"the updates of n={n} clients by d={d} parameters"


def _matrix(request: Request) -> int:
    """The bytes of the updates of a round as float32 numbers."""
    return _FLOAT * _updates_per_round(request) * request.dim


def _held(request: Request) -> int:
    """The bytes of the updates of a round in the memory of this process, unless they are in a file.

    In bfloat16, the honest clients train in turns, whose updates are in float32. One of several processes holds its
    columns of all updates, and, while processes exchange the honest ones, these columns and twice the whole updates of
    its clients.
    """
    s, n, d = request.settings, _updates_per_round(request), request.dim
    honest = max(0, n - s.total_clients + _least_honest(s))
    if in_bfloat16(request):
        return d * (_HALF * n + _FLOAT * (honest // _TURNS))
    if s.processes > 1:
        return _FLOAT * ((n + honest) * (d // s.processes) + 2 * (honest // s.processes) * d)
    return _FLOAT * n * d


_announced: dict[tuple[Path, int], int] = {}
"""The bytes that each run of this process announced, by the folder of the announcements and the ``id`` of its plan."""


def _announce(reservations: Reservations, request: Request, needed: int) -> None:
    """Announce that a run of this process needs these bytes, until ``request`` or this process ends.

    A process announces the sum of what its runs need.
    """
    _announced[reservations.folder, id(request)] = needed
    reservations.announce(_announced_in(reservations.folder))
    weakref.finalize(request, _withdraw, reservations, id(request))


def _announced_in(folder: Path) -> int:
    return sum(needed for (place, _), needed in _announced.items() if place == folder)


def _withdraw(reservations: Reservations, run: int) -> None:
    """End the announcement of one run of this process."""
    _announced.pop((reservations.folder, run), None)
    if left := _announced_in(reservations.folder):
        reservations.announce(left)
    else:
        reservations.drop()


def _wait_for_room(request: Request, needed: int) -> None:
    """Wait until a run that needs ``needed`` bytes fits beside the runs that have announced theirs, and announce it."""
    try:
        reservations, waits = Reservations(), False
    except OSError:  # nowhere to write: runs do not know of each other
        return
    while True:
        with reservations.lock():
            reservations.drop()
            if not (others := reservations.of_others()) or needed <= free_bytes() - others:
                _announce(reservations, request, needed)
                return
        if not waits:
            say(f"waiting for other runs on this machine to end: this one needs {_size(needed)}, and of "
                f"{_size(free_bytes())} free they still need {_size(others)}")  # fmt: skip
        waits = True
        time.sleep(POLL)


def _wait_for_gpu(request: Request, gpu: "torch.device", needed: Mapping[str, int]) -> None:
    """Wait until a run that needs these bytes on a GPU fits beside the other runs on it, and announce it there.

    Raises ConfigError if it can never fit, or if no other run is seen there that could end.
    """
    wanted, (name, free, total) = sum(needed.values()), _gpu(gpu)
    runs = _runs_on(name)
    waits, unseen = False, 0
    while wanted > free:
        release_gpu()
        others = runs is not None and runs.are_others
        unseen = 0 if others else unseen + 1
        if wanted > total or unseen > GAP:
            raise _refusal(request, needed, free, str(gpu))
        if others and not waits:
            say(f"waiting for other runs on {gpu} to end: this one needs {_size(wanted)}, and {_size(free)} are free")
            waits = True
        time.sleep(POLL)
        _, free, _ = _gpu(gpu)
    if runs is not None:
        _announce(runs, request, wanted)


def others_on(device: "torch.device") -> bool:
    """Whether other runs are seen on a GPU; False on a CPU."""
    return device.type != "cpu" and (runs := _runs_on(_gpu(device)[0])) is not None and runs.are_others


def wait_for_others(request: Request, gpu: "torch.device") -> None:
    """Wait, in a run that found its GPU full, until twice the memory that this process had there is free, or no other
    run is on it.

    How much a network takes while it trains, which ``needs`` leaves out, is known only then.
    """
    wanted, runs = 2 * _most_held(gpu), _runs_on(_gpu(gpu)[0])
    if runs is None:
        return
    release_gpu()
    needed = _announced.get((runs.folder, id(request)), 0)
    _withdraw(runs, id(request))  # runs that wait for each other would wait forever
    say(f"{gpu} is full: this run waits for others on it to end, or for {_size(wanted)}, and goes on from its last "
        "checkpoint")  # fmt: skip
    while runs.are_others and _gpu(gpu)[1] < wanted:
        time.sleep(POLL)
    _announce(runs, request, needed)


def _runs_on(name: str) -> Reservations | None:
    """What runs on a GPU announced; None where there is nowhere to write, and runs do not know of each other."""
    try:
        return Reservations(folder_of_user(f"memory-{name}"))
    except OSError:
        return None


def _most_held(gpu: "torch.device") -> int:
    """The most bytes that this process has had on a GPU at once."""
    import torch

    return torch.cuda.max_memory_reserved(gpu)


def _gpu(gpu: "torch.device") -> tuple[str, int, int]:
    """What tells a GPU from others on this machine, its free bytes, and all its bytes."""
    import torch

    properties = torch.cuda.get_device_properties(gpu)
    return str(getattr(properties, "uuid", properties.name)), *torch.cuda.mem_get_info(gpu)


def _updates_per_round(request: Request) -> int:
    return request.parts.course.updates_per_round(request.settings.clients_per_round)


def _taking_part(settings: Settings, parts: Parts) -> int:
    """Lower bound on the honest clients that take part in some round."""
    least = _least_honest(settings)
    if settings.clients_per_round >= settings.total_clients:
        return least
    drawn = settings.participation_by is None and parts.availability is None
    if not drawn or overrides(parts.course, "step"):  # other clients, or who they are depends on the data
        return 0
    seen = np.zeros(settings.total_clients, dtype=bool)
    for round in range(settings.rounds):
        seen[taking_part(settings, round)] = True
        if seen.all():
            break
    return max(0, int(seen.sum()) - (settings.total_clients - least))


def _least_honest(settings: Settings) -> int:
    """Lower bound on the honest clients: Byzantine ones chosen by their share of the data are counted only once data
    are read."""
    if not settings.num_byzantine or settings.byzantine_placement == "add":
        return settings.num_clients
    return settings.num_clients - settings.num_byzantine if settings.byzantine_share_by == "clients" else 1


def _samples_of(dataset: Dataset) -> str:
    return f"the samples of {dataset.name}"


def _files_of(dataset: Dataset) -> str:
    return f"the files of {dataset.name}"


def _numbers(request: Request) -> int:
    """Numbers in the inputs of the data if they are drawn or declared, else 0."""
    return _drawn(request.config["dataset"]) or _declared(request.parts.dataset)


def _files(request: Request, device: "torch.device") -> dict[str, int]:
    """The bytes of the files of data whose numbers are not known, which are read whole."""
    dataset = request.parts.dataset
    read = 0
    if not samples.is_loaded(request, device) and not _numbers(request):
        read = bytes_read(dataset.source, folder_of(request.settings.data_dir))
    return {_files_of(dataset): read}


def _train_samples(request: Request) -> int:
    """The number of training samples, by the smallest variant; 0 where that is not declared."""
    dataset = request.parts.dataset
    if drawn := _drawn(request.config["dataset"]):
        return drawn // math.prod(dataset.input_shape)
    source = dataset.source
    if source is None or source.leaf or source.base is not None or not source.sizes:
        return 0
    return min(train for train, _ in source.sizes.values())


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
