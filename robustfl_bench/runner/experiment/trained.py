"""The training of a run in its folder: the start, a checkpoint or round 0; the rows after every evaluated round, the
progress bar, and the calls that trackers get; and the trained model, whose weights nothing has to unpickle."""

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from robustfl_bench.base.console import is_live, say
from robustfl_bench.base.errors import ConfigError, DataError
from robustfl_bench.parts.trackers.base import Tracked, Tracker, Tracking
from robustfl_bench.runner.config import targets
from robustfl_bench.runner.experiment.own_metrics import apart
from robustfl_bench.runner.experiment.plan import Request
from robustfl_bench.runner.experiment.samples import Steps, Waiting
from robustfl_bench.runner.experiment.summary import digest, shown
from robustfl_bench.runner.store import folders
from robustfl_bench.runner.store.folders import OWN_METRICS, RunFolder, plain
from robustfl_bench.runner.store.sealed import Stamp
from robustfl_bench.runner.store.writing import Damaged, read_regular, write_atomically

if TYPE_CHECKING:
    from torch import Tensor, nn

    from robustfl_bench.parts.protocols.state import State
    from robustfl_bench.train.evaluation import Record
    from robustfl_bench.train.federation import Federation


def begin(federation: "Federation", folder: folders.RunFolder, stamp: Stamp) -> "State":
    """The state of the checkpoint in ``folder``, else the initial one. A line reports a checkpoint that cannot be used.

    The rows in the folder are cut back to that state.
    """
    from robustfl_bench.train.rounds import initial_state

    start = initial_state(federation)
    try:
        saved = folder.checkpoint(stamp)
        return start if saved is None else restored(saved.get("state"), start, federation)
    except Damaged as error:
        folder.forget_rows()
        say(f"starts again: {error}  {folder.path}")
        return start


def restored(stored: Any, start: "State", federation: "Federation") -> "State":
    """The stored state on the device of ``start``; raises Damaged unless it can follow ``start`` in this federation."""
    if not _fits(stored, start, federation):
        raise Damaged("checkpoint.pt does not hold a state of this run")
    return start.restored(stored, start.params.device)


def _fits(stored: Any, start: "State", federation: "Federation") -> bool:
    if not isinstance(stored, Mapping) or set(stored) != {field.name for field in fields(start)}:
        return False
    round, memory, params = stored["round"], stored["memory"], start.params
    clients = params.new_empty(federation.settings.total_clients)
    return (
        isinstance(round, int)
        and 0 <= round <= federation.settings.rounds
        and _alike(stored["params"], params)
        and (stored["previous"] is None or _alike(stored["previous"], params, any_type=True))
        and (stored["weights"] is None or _alike(stored["weights"], clients, any_type=True))
        and (stored["choice"] is None) == (start.choice is None)
        and (start.choice is None or _alike(stored["choice"], start.choice))
        and isinstance(stored["protocol"], dict)
        and isinstance(memory, list)
        and len(memory) == len(start.memory)
        and all(isinstance(each, dict) and set(each) == {field.name for field in fields(empty)}
                and all(isinstance(part, dict) for part in each.values())
                for each, empty in zip(memory, start.memory, strict=True))
    )  # fmt: skip


def _alike(value: Any, other: "Tensor", any_type: bool = False) -> bool:
    """Whether ``value`` is a tensor of the same shape and type."""
    is_tensor = hasattr(value, "untyped_storage")
    return is_tensor and value.shape == other.shape and (any_type or value.dtype == other.dtype)


def outcome(request: Request, federation: Any, folder: folders.RunFolder, params: "Tensor") -> dict[str, Any]:
    """What the summary of a run says of its models (k, d) after the last round; keeps their weights if that is asked.

    The file has the parameters of a model by their names, of several behind the number of each, ``model_0.weight``, and
    of a user's data what makes inputs of samples.
    """
    told: dict[str, Any] = {"model_sha256": digest(params)}
    if request.settings.save_weights:
        from safetensors.torch import save

        models = [federation.network.views(model) for model in params]
        places = [""] if len(models) == 1 else [f"model_{i}." for i in range(len(models))]
        named = {place + name: value.cpu().clone() for place, each in zip(places, models, strict=True)
                 for name, value in each.items()}  # fmt: skip
        inputs = federation.clients.data.inputs
        told |= {} if inputs is None else {"inputs": inputs}
        write_atomically(folder.path / folders.WEIGHTS, save(named, inputs and {"inputs": json.dumps(inputs)}))
    return told


def weights(folder: Path) -> bytes:
    """The file of weights of a run. Raises ConfigError if it kept none, DataError if the folder was changed."""
    summary = folders.summary_in(folder) or {}
    if folders.WEIGHTS not in summary.get("files", ()):
        raise ConfigError(f"this run kept no weights: make it with save_weights=true  {folder}")
    try:
        if damage := folders.damage(folder, summary):
            raise Damaged(damage)
        return read_regular(folder / folders.WEIGHTS)
    except Damaged as error:
        raise DataError(f"{error}  {folder}") from None


def model(folder: Path) -> "nn.Module":
    """The network of a run, with the weights of its only, or first, model. Raises as ``weights`` does. On a user's data
    it takes samples as they are in the files."""
    from safetensors.torch import load

    kept = {name.removeprefix("model_0."): value for name, value in load(weights(folder)).items()}
    config: Mapping[str, Any] = yaml.safe_load(read_regular(folder / "config.yaml"))
    made, dataset = targets.build(config["model"]), targets.build(config["dataset"])
    if dataset.content == "words":
        raise ConfigError("a model of words needs the vectors of its vocabulary: read weights.safetensors yourself")
    network: nn.Module = made(dataset.input_shape, dataset.num_classes)
    for name, parameter in network.named_parameters():
        parameter.data.copy_(kept[name])
    inputs = (folders.summary_in(folder) or {}).get("inputs")
    return (network if inputs is None else _standardized(network, inputs)).eval()


def _standardized(network: "nn.Module", inputs: Mapping[str, Any]) -> "nn.Module":
    """A network that takes samples before they are standardized."""
    import torch

    mean, sd = (torch.tensor(inputs[name], dtype=torch.float32) for name in ("mean", "sd"))

    def standardize(_: "nn.Module", given: "tuple[Tensor]") -> "tuple[Tensor]":
        (x,) = given
        return ((x.float() - mean.to(x.device)) / sd.to(x.device),)

    network.register_forward_pre_hook(standardize)
    return network


def check_trackers(trackers: Sequence[Tracker]) -> None:
    """Raise one ConfigError that names every tracker that cannot be used, before any data are loaded."""
    errors = []
    for tracker in trackers:
        try:
            tracker.check()
        except ConfigError as error:
            errors.append(str(error))
    if errors:
        raise ConfigError("; ".join(errors))


class Trackers:
    """Passes the records of one run to its trackers. A tracker that raises gets no further calls, with a note."""

    def __init__(self, request: "Request", folder: RunFolder, note: Callable[[str], None]) -> None:
        self._planned, self._folder, self._note = request, folder, note
        self._following: dict[Tracker, Tracking] = {}

    def begin(self, done: int) -> None:
        """The run begins, or resumes after ``done`` rounds."""
        folder = self._folder
        run = Tracked(folder.run_id, folder.path.name, self._planned.config, folder.path.absolute(), done)
        for tracker in self._planned.parts.tracker:
            with self._guarded(tracker):
                self._following[tracker] = tracker.begin(run)

    def record(self, record: Mapping[str, float]) -> None:
        """A round was evaluated."""
        numbers = {name: float(value) for name, value in record.items() if name != "round"}
        for tracker, tracking in list(self._following.items()):
            with self._guarded(tracker):
                tracking.record(int(record["round"]), dict(numbers))

    def end(self, summary: Mapping[str, Any] | None) -> None:
        """The run has ended with ``summary``; None: it was cut off and can be resumed."""
        told = None if summary is None else plain(summary)
        for tracker, tracking in list(self._following.items()):
            with self._guarded(tracker):
                tracking.end(told)
        self._following.clear()

    @contextmanager
    def _guarded(self, tracker: Tracker) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._following.pop(tracker, None)
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            self._note(f"{type(tracker).__name__} is not told about the rest of this run, which goes on: {reason}")


class Clock:
    """The seconds that a run has taken itself, without those in which it waited for other runs."""

    def __init__(self) -> None:
        self._waited = 0.0

    def now(self) -> float:
        """Seconds, from any start."""
        return time.monotonic() - self._waited

    def waiting(self, federation: "Federation", state: "State") -> Steps[None]:
        """The step of a run that waits before its next round, and is sent the seconds that were spent on it meanwhile,
        None for all of them."""
        stopped = time.monotonic()
        if (seconds := (yield Waiting(federation, state))) is not None:
            self._waited += time.monotonic() - stopped - seconds


def written(
    rounds: "Iterable[tuple[State, Record | None]]",
    folder: RunFolder,
    federation: "Federation",
    done: int,
    trackers: Trackers | None = None,
    silent: bool = False,
    clock: Clock | None = None,
) -> "Iterator[State]":
    """Yield the state of each round after the first ``done``, once the record of that round is in ``folder``.

    A row goes to metrics.csv and timings.csv, to weights.csv where the rule gives weights, and to own_metrics.csv with
    metrics of the user; then to the ``trackers``. ``silent``: no bar. ``clock`` measures the time of a round.
    """
    from tqdm import tqdm

    tqdm.set_lock(threading.RLock())  # its usual lock is shared by processes, and lost when one of them is killed
    if trackers is not None:
        trackers.begin(done)
    clock = clock or Clock()
    began, total = clock.now(), federation.settings.rounds
    with tqdm(
        total=total, initial=done, unit="round", desc=folder.path.name, disable=silent or not is_live()
    ) as progress:
        for state, record in rounds:
            if record is not None:
                row, own = apart(record, federation.settings.metrics)
                folder.append("metrics.csv", row)
                if own:
                    folder.append(OWN_METRICS, {"round": state.round} | own)
                if state.weights is not None:
                    shares = dict(zip(federation.clients.names, state.weights.tolist(), strict=True))
                    folder.append("weights.csv", {"round": state.round} | shares)
                folder.append("timings.csv", {"round": state.round, "seconds": clock.now() - began})
                if trackers is not None:
                    trackers.record(record)
                began = clock.now()
                progress.set_postfix_str(shown(record))
            progress.update()
            yield state
