"""What runs on one machine share: the memory of samples that lie in files, and the steps of those that are trained
together: which ones, and how many."""

import json
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from robustfl_bench.base.code_digest import package_digest
from robustfl_bench.base.errors import DataError, Terminated
from robustfl_bench.base.trees import flatten
from robustfl_bench.parts import datasets
from robustfl_bench.parts.datasets import files
from robustfl_bench.parts.datasets.base import Data, Dataset, Scaling
from robustfl_bench.runner.experiment.machine import SMALL, choose_device, choose_threads, give_back, work_of_round
from robustfl_bench.runner.experiment.plan import Request
from robustfl_bench.runner.store.shared import Content, OneCopy, SharedFiles, folder_of_user
from robustfl_bench.train.settings import DEFINING

if TYPE_CHECKING:
    import torch

    from robustfl_bench.parts.protocols.state import State
    from robustfl_bench.train.federation import Federation


_shared: SharedFiles | OneCopy | None = None
"""What the runs of this process share, with those of others if there are some."""


@contextmanager
def among(processes: int) -> Iterator[None]:
    """Within this context the runs of this process share samples, and do so with those of other processes on this
    machine, if ``processes`` is more than 1."""
    global _shared
    _shared = OneCopy()
    if processes > 1:
        with suppress(OSError, NotImplementedError):  # then each process has its own
            _shared = SharedFiles(folder_of_user("samples"))
    try:
        yield
    finally:
        if isinstance(_shared, SharedFiles):
            _shared.let_go()
        _shared = None


def forget() -> None:
    """Let later runs of this process read their samples again, as a part wrote into those that it was given."""
    datasets.forget()
    if isinstance(_shared, SharedFiles):
        _shared.let_go()


def load(request: Request, device: "torch.device") -> Data:
    """The data of a run on ``device``, see ``datasets.load``."""
    dataset, data_dir = _dataset(request, device), request.settings.data_dir
    known = datasets.is_loaded(dataset, data_dir, device, state := _state(request))
    data = datasets.load(dataset, data_dir, device, state)
    if not known:
        give_back()
    return data


def is_loaded(request: Request, device: "torch.device") -> bool:
    """Whether this process has the data of a run in memory."""
    return datasets.is_loaded(_dataset(request, device), request.settings.data_dir, device, _state(request))


def shared(request: Request, device: "torch.device") -> SharedFiles | OneCopy | None:
    """Where runs share the samples of a run; None if each has its own.

    Shared are, on a CPU, data sets that are read from files. If a class from outside this package makes or corrupts the
    samples, it is not known what they depend on, and each run has its own.
    """
    known = not {"dataset", "corruption"} & {*request.outside.groups}
    return _shared if are_in_files(request) and known and device.type == "cpu" else None


def are_in_files(request: Request) -> bool:
    """Whether the data of a run are read from files, and do not follow from its config and the code: these are bundled
    or drawn."""
    source = request.dataset.source
    return source is None or not (source.bundled or source.is_drawn)


def marks(request: Request) -> dict[str, list[int]]:
    """The state of every file of the data: of those that its source lists, and of those that its config names."""
    root = datasets.folder_of(request.settings.data_dir)
    found = files.marks(request.dataset.source, root)
    for _, value in flatten(request.config["dataset"]):
        if isinstance(value, str) and (path := root / Path(value).expanduser()).is_file():
            state = path.stat()
            found[value] = [state.st_size, state.st_mtime_ns]
    return found


def _state(request: Request) -> str:
    """The ``marks`` of a run, with which its data in memory are those in the files."""
    return json.dumps(marks(request)) if are_in_files(request) else ""


def _dataset(request: Request, device: "torch.device") -> Dataset:
    """The data set of a run, which reads a shared file if there is one."""
    if not isinstance(shelf := shared(request, device), SharedFiles):
        return request.dataset
    root = str(datasets.folder_of(request.settings.data_dir))
    subject = json.dumps([package_digest(), request.config["dataset"], root, marks(request)])
    return _Shared(request.dataset, subject, shelf)


@dataclass(frozen=True)
class _Shared(Dataset):
    """A data set of which processes share the samples: ``subject`` is all that these depend on."""

    dataset: Dataset
    subject: str
    files: SharedFiles

    @property
    def name(self) -> str:
        return self.dataset.name

    @property
    def num_classes(self) -> int:
        return self.dataset.num_classes

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.dataset.input_shape

    def load(self, folder: Path) -> Data:
        return _data(self.files.get(self.subject, lambda: _content(self.dataset.load(folder))))


def _content(data: Data) -> Content:
    """The tensors and the variant of data."""
    values: dict[str, Any] = {field.name: getattr(data, field.name) for field in fields(data)}
    if (scaling := values.pop("scaling")) is not None:
        values |= {"mean": scaling.mean, "sd": scaling.sd}
    return values


def _data(content: Content) -> Data:
    """The data of a content."""
    values = dict(content)
    if "mean" in values:
        values["scaling"] = Scaling(values.pop("mean"), values.pop("sd"))
    return Data(**values)


FREE = ("aggregator", "attack", "lr", "num_byzantine_declared", "pre_aggregation", "schedule", "server_data",
        "server_optimizer")  # fmt: skip
"""Settings in which runs that are trained together may differ: the gradients of their honest clients do not depend on
them."""

Ended = TypeVar("Ended")


@dataclass(frozen=True)
class Waiting:
    """A run before its next round."""

    federation: "Federation"
    state: "State"


Steps = Generator[Waiting, float | None, Ended]
"""A run that stops before each round, and is sent the seconds that were spent on it meanwhile."""


def alike(request: Request) -> str:
    """What runs that are trained together have in common."""
    s = request.settings
    shared = {name: request.config.get(name) for name in DEFINING if name not in FREE}
    return json.dumps([shared, s.device, s.data_dir, s.num_threads], sort_keys=True)


def at_once(request: Request) -> int:
    """How many runs like this one are trained together, 1 if each is trained alone.

    Together are dense networks on a CPU whose clients send one gradient, if a round has at most ``SMALL`` samples times
    parameters: larger products gain nothing, see results/bench/README.md. Trackers follow one run at a time, and
    products in bfloat16 belong to one run.
    """
    from robustfl_bench.train import stack

    s, parts = request.settings, request.parts
    if not s.stack or s.processes > 1 or parts.tracker or s.precision == "medium":
        return 1
    if choose_device(s.device).type != "cpu" or not stack.can_be_stacked(parts):
        return 1
    try:
        data = load(request, choose_device("cpu"))
    except DataError:  # each run reports it
        return 1
    number = len(data.train_y)
    if work_of_round(request, number) > SMALL or choose_threads(request, number) > 1:
        return 1
    updates = parts.course.updates_per_round(s.clients_per_round) * request.dim
    return stack.at_once(updates)


def alone(run: Steps[Ended]) -> Ended:
    """The result of a run that is trained alone."""
    return together([run])[0]


def together(runs: Sequence[Steps[Ended]]) -> list[Ended]:
    """The results of runs whose rounds go in step.

    If one is interrupted, so are all others: Terminated is raised where they wait. A run that was resumed from a later
    round waits for the others.
    """
    from robustfl_bench.train.stack import Stack

    stack, waiting, ended = Stack(), dict[int, Waiting](), dict[int, Ended]()

    def go_on(number: int, seconds: float | None = None) -> None:
        waiting.pop(number, None)  # which holds its data
        try:
            waiting[number] = runs[number].send(seconds)
        except StopIteration as end:
            ended[number] = end.value

    try:
        for number in range(len(runs)):
            go_on(number)
        while waiting:
            began, behind = time.monotonic(), min(run.state.round for run in waiting.values())
            numbers = [number for number, run in waiting.items() if run.state.round == behind]
            stack.prepare([(waiting[number].federation, waiting[number].state) for number in numbers])
            share = (time.monotonic() - began) / len(numbers)
            for number in numbers:
                go_on(number, share)
    except BaseException:
        for run in runs:  # a signal can come just before a run goes on, or just after it stopped
            with suppress(BaseException):
                run.throw(Terminated())
        raise
    return [ended[number] for number in range(len(runs))]
