"""Run an experiment in its folder: load, train, record, resume."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from traceback import format_exc
from typing import TYPE_CHECKING, Any

from robustfl_bench.base.abilities import overrides
from robustfl_bench.base.children import is_leaving
from robustfl_bench.base.console import note
from robustfl_bench.base.contained import no_exit
from robustfl_bench.base.errors import (
    BrokenContract,
    ConfigError,
    Diverged,
    FailedClosed,
    Interrupted,
    Reported,
    Terminated,
    one_line,
)
from robustfl_bench.parts import datasets
from robustfl_bench.runner.experiment import answers, own_metrics, samples, trained
from robustfl_bench.runner.experiment.answers import Answer
from robustfl_bench.runner.experiment.machine import choose_device, choose_threads, facts, threads, unused_gpu
from robustfl_bench.runner.experiment.plan import Request
from robustfl_bench.runner.experiment.samples import Steps, alone
from robustfl_bench.runner.experiment.trained import Clock, Trackers, check_trackers, written
from robustfl_bench.runner.store import folders
from robustfl_bench.runner.store.folders import RunLocked
from robustfl_bench.runner.store.lease import LeaseLost
from robustfl_bench.runner.store.results import of_rows
from robustfl_bench.runner.store.writing import CannotWrite, Damaged
from robustfl_bench.train.precision import set_precision
from robustfl_bench.train.settings import DEFINING

if TYPE_CHECKING:
    from robustfl_bench.runner.experiment import memory

POLL = 1.0
"""Seconds between two looks at a run that another process makes."""

CHECKPOINT_SPACING = 50
"""The least time between two checkpoints, in multiples of the time that writing one takes: under 2% of a run."""


class RunFailed(Reported, RuntimeError):
    """A run ended in an unexpected error, ``reason``; ``trace`` is the file with its traceback, if it has one."""

    def __init__(self, reason: str, trace: Path | None = None) -> None:
        super().__init__(reason if trace is None else f"{reason} (traceback in {trace})")
        self.reason = reason


def execute(request: Request, train: "Train | None" = None, note: Callable[[str], None] = note) -> float:
    """Complete the run and print its result in one line; returns the number that sweeps tune by, see ``summary``. While
    another process makes it, wait for that; with ``wait`` false raises RunLocked.

    A stored result, or a kept one, answers without building the parts, which would import torch.
    """
    if request.composed.get("tracker"):
        request.check()  # the rest was checked when the result was made
    answer, earlier = answers.existing(request, note), request.folder.ended_at
    if answer is not None:
        answers.unfollowed(request.composed, note)
    while answer is None:
        try:
            answer = complete(request, train, note)
        except RunLocked as error:
            if not request.settings.wait:
                raise
            note(f"{error}: its result is waited for; wait=false leaves it to that process")
            time.sleep(POLL)
            answer = answers.stored(request, note, unseeded=request.folder.ended_at != earlier)
    for line in _idle(request):
        note(line)
    return answer.tell()


def _idle(request: Request) -> Iterator[str]:
    """Remarks on what the call names in vain: a number of attackers without an attack, a graph without gossip."""
    s, given = request.settings, request.call.overrides
    words = [word for word in given if word.startswith("num_byzantine=") and not word.endswith("=0")]
    if words and not s.num_byzantine:
        declared = f"num_byzantine_declared={s.num_byzantine_declared}"
        yield f"{words[-1]} without an attack: all clients are honest, and a rule that takes f assumes {declared}"
    graphs = [word for word in given if word.startswith("topology=")]
    if graphs and "topology" not in (request.config["protocol"] or {}):
        yield f"{graphs[-1]} without protocol=gossip: clients have a server, and no neighbours"
    columns = [word for word in given if word.startswith("dataset.client=")]
    if columns and not request.config["partition"]["_target_"].endswith(".Natural"):
        yield f"{columns[-1]} without partition=natural: clients are drawn, and are not those of the column"


def complete(request: Request, train: "Train | None" = None, note: Callable[[str], None] = note) -> Answer:
    """Run the experiment or resume it; ``train`` replaces training in this process.

    If another process has finished it a moment ago, its result is the answer. ``note`` is called before the first
    round, once for each setting that is valid but looks unintended.

    Raises ConfigError (also for ``dry_run``), DataError, RunLocked, OSError (results folder) with nothing written,
    Interrupted, or RunFailed.
    """
    request.check()
    if request.settings.dry_run:
        raise ConfigError("dry_run=true makes no run; robustfl-bench itself says what would be made")
    return alone(completing(request, train, note))


def completing(
    request: Request, train: "Train | None" = None, note: Callable[[str], None] = note, silent: bool = False
) -> Steps[Answer]:
    """The steps of ``complete``, which stop before each round; ``silent``: without a bar for the run."""
    from robustfl_bench.runner.experiment import memory  # late: it imports numpy

    check_trackers(request.parts.tracker)
    own_metrics.metrics(request.settings.metrics)
    if (noise := request.parts.local_update.privacy) is not None:
        noise.check()
    _ = request.code  # now, as the files may change while the run goes on
    folder, outside = request.folder, request.outside
    datasets.require(request.dataset, request.settings.data_dir)
    where = memory.check(request)
    earlier = folder.ended_at
    folder.open()
    trackers, summary = Trackers(request, folder, note), None
    try:  # another process may have ended it a moment ago
        if (answer := answers.stored(request, lambda _: None, folder.ended_at != earlier)) is not None:
            return answer
        before = folder.held() if answers.lacks_extras(request) else None
        try:
            with outside.watched(), no_exit(lambda: str(outside)):
                marks = samples.marks(request)  # before, so that what changes meanwhile is another's
                data = _load(request)
                federation = _federation(request, data, where)
        except Exception as error:
            if before is None and not isinstance(error, Reported | OSError | MemoryError):  # in the code of a part
                words = _words(error)
                folder.begin(request.config)
                folder.finish(_facts(request, None) | {"status": folders.FAILED, "error": words}, format_exc())
                raise RunFailed(words, folder.path / "error.txt") from error
            folder.discard()  # an error of the call, not the failure of a run: nothing is left
            if isinstance(error, MemoryError):
                raise ConfigError(f"the memory does not suffice to deal out the data: {error}") from error
            raise
        folder.begin(request.config, keeps_weights=before is not None)
        gpu = unused_gpu(request.settings.device, data.train_x.device)
        unknown = " and ".join(outside.without_source)
        sourceless = f"{unknown} has no source: its result answers no later run" if unknown else ""
        for line in [*request.settings.remarks(), *filter(None, (gpu, sourceless))]:
            note(line)
        outcome, trace = yield from _attempt(request, data, federation, folder, train, trackers, note, silent)
        if outcome["status"] != folders.FINISHED and (changed := folder.changed()):  # of that nothing is sealed
            outcome |= {"status": folders.FAILED, "error": changed}
            folder.forget_rows()
            folder.begin(request.config)
        ended = _facts(request, outcome["device"]) | outcome | {"data": {**outcome["data"], "files": marks}}
        if read := outside.read:
            ended["code"]["read"] = read
        for group, paths in read.items():
            note(f"{group} reads {' and '.join(paths)}: a change there counts as one of its code")
        if unseeded := outside.unseeded:
            ended["code"]["unseeded"] = unseeded
            note(outside.remark(unseeded))
        folder.finish(ended, trace)
        if ended["status"] == folders.FAILED and before is not None:
            note("the result that was there stays")
            folder.restore(before)
        summary = ended
    finally:
        trackers.end(summary)
        folder.close()
    if ended["status"] == folders.FAILED:
        raise RunFailed(ended["error"], None if trace is None else folder.path / "error.txt")
    return answers.of_summary(folder, ended)


def _attempt(
    request: Request,
    data: Any,
    federation: Any,
    folder: folders.RunFolder,
    train: "Train | None",
    trackers: Trackers,
    note: Callable[[str], None],
    silent: bool,
) -> Steps[tuple[dict[str, Any], str | None]]:
    """Train; returns the outcome, and the traceback of a failure."""
    outcome: dict[str, Any] = {"status": folders.FAILED, "error": None, "device": str(data.train_x.device)}
    outcome["data"] = data.origin
    try:
        outcome["products"] = _in_precision(request, federation)
        if request.settings.precision != "highest" and outcome["products"] == "float32":
            note(f"precision={request.settings.precision}: this processor has no units for it that serve this model; "
                 "products are in float32")  # fmt: skip
        with threads(choose_threads(request, len(data.train_y))) as number, no_exit(lambda: str(request.outside)):
            outcome["num_threads"] = number
            if train is None:
                outcome |= yield from _train_beside_others(request, federation, folder, trackers, silent)
            else:
                outcome |= train(request, federation, folder, trackers)
        return outcome | {"status": folders.FINISHED} | of_rows(_all_rows(request, folder)), None
    except (Interrupted, CannotWrite):
        raise
    except ConfigError:  # found when a part was first used
        folder.discard()
        raise
    except Diverged as end:
        judged_by = "loss" if federation.network.regression else "accuracy"
        return outcome | {"status": folders.DIVERGED, "error": str(end), "judged_by": judged_by}, None
    except Exception as error:
        if isinstance(error, BrokenContract):
            samples.forget()
        return outcome | {"error": _words(error)}, format_exc()


def _words(error: Exception) -> str:
    """The error that ended a run, in one line."""
    import torch

    line = one_line(error)
    if isinstance(error, torch.OutOfMemoryError):  # what all processes hold follows
        line = line.partition(" Process ")[0].rstrip(".")
        return f"{line}; make fewer runs at once on it (hydra.launcher.n_jobs or runs_at_once)"
    return line if isinstance(error, BrokenContract | FailedClosed) else f"{type(error).__name__}: {line}"


def _in_precision(request: Request, federation: Any) -> str:
    """Let a federation compute with the precision of its settings; returns the type of the factors of its products."""
    from robustfl_bench.numerics.network import bfloat16

    precision = request.settings.precision
    products = set_precision(precision, federation.clients.data.train_x.device)
    if precision == "medium" and (network := bfloat16.rounded(federation.network)) is not None:
        federation.clients.network = network
        return "bfloat16"
    return products


def _all_rows(request: Request, folder: folders.RunFolder) -> list[dict[str, float]]:
    """The rows of the whole run; raises Damaged if they are not as they were written, and, after removing them, if they
    are not exactly those."""
    if changed := folder.changed():
        raise Damaged(changed)
    try:
        rows = folder.rows()
        answers.check_rows(rows, request.settings)
    except Damaged:
        folder.forget_rows()
        raise
    return rows


def take_part(request: Request, train: "Train") -> None:
    """Train as a client of an experiment whose results another process writes. Raises ConfigError or DataError."""
    request.check()
    _ = request.code
    data = _load(request)
    federation = _federation(request, data)
    _in_precision(request, federation)
    with threads(choose_threads(request, len(data.train_y))), suppress(Diverged):  # the other process records it
        train(request, federation, request.folder, None)


def record(outcome: Mapping[str, Any], request: Request, trace: str | None = None) -> None:
    """Write a run folder that says why this cell of a sweep has no result: the ``status`` and the ``error`` of
    ``outcome``.

    Raises RunLocked or CannotWrite.
    """
    folder = request.folder
    folder.open()
    with closing(folder):
        folder.begin(request.config)
        folder.finish({**_facts(request, None), **outcome}, trace)


def _facts(request: Request, device: str | None) -> dict[str, Any]:
    """The facts in the summary of every run, however it ended."""
    folder, choices = request.folder, request.call.choices
    seconds = folder.path / "timings.csv"
    rows = seconds.read_text().split()[1:] if seconds.exists() else []
    return {
        "run_id": folder.run_id,
        "name": folder.path.name,
        "choices": {group: choices[group] for group in DEFINING if group in choices},
        "scale": request.settings.scale,
        "variant": request.settings.variant,
        "command": request.call.command,
        "reference_id": request.reference_id,
        "seconds": round(sum(float(row.split(",")[1]) for row in rows), 3),
        "code": dict(request.code),
        **({"own_metrics": made} if (made := own_metrics.digests(request.settings.metrics)) else {}),
    } | facts(device)


def _load(request: Request) -> Any:
    return samples.load(request, choose_device(request.settings.device))


def _federation(request: Request, data: Any, where: "memory.Where" = "float32") -> Any:
    from robustfl_bench.train.federation import Store, federation_of
    from robustfl_bench.train.storage import InBfloat16, InMemory, OnDisk

    s, shelf = request.settings, None
    store: Store = InMemory
    if where == "file":
        store = partial(OnDisk, folder=Path(s.results_dir).expanduser())
    elif where == "bfloat16":
        store = partial(InBfloat16, batch_size=s.batch_size)
    elif (files := samples.shared(request, data.train_x.device)) is not None:
        from robustfl_bench.runner.experiment.shelf import Shelf

        shelf = Shelf(files, data.digest)
    federation = federation_of(s, request.parts, data, store, shelf)
    if overrides(request.parts.attack, "claim"):
        from robustfl_bench.train.claims import claimed

        federation.clients.counts = claimed(federation.clients)
    return federation


Train = Callable[[Request, Any, folders.RunFolder, Trackers | None], Mapping[str, Any]]


def _train_beside_others(
    request: Request, federation: Any, folder: folders.RunFolder, trackers: Trackers, silent: bool
) -> Steps[Mapping[str, Any]]:
    """Train in this process, and go on from the last checkpoint where other runs had filled the GPU."""
    import torch

    from robustfl_bench.runner.experiment import memory

    device = federation.clients.data.train_x.device
    while True:
        try:
            return (yield from _train_here(request, federation, folder, trackers, silent))
        except torch.OutOfMemoryError:
            if not memory.others_on(device):
                raise
        memory.wait_for_others(request, device)  # the error, which holds what the round had, is gone


def _train_here(
    request: Request, federation: Any, folder: folders.RunFolder, trackers: Trackers, silent: bool
) -> Steps[Mapping[str, Any]]:
    """Train in this process, from the checkpoint if there is one; stops before each round."""
    from robustfl_bench.train.loop import run
    from robustfl_bench.train.metrics import METRICS

    s, stamp, clock = request.settings, answers.stamp(request, federation.clients.data), Clock()
    state = trained.begin(federation, folder, stamp)
    spacing = CHECKPOINT_SPACING if s.checkpoint_seconds else 0
    due = time.monotonic() + s.checkpoint_seconds
    try:
        if state.round < s.rounds:
            yield from clock.waiting(federation, state)
        every = (*METRICS, *own_metrics.metrics(s.metrics))
        rounds = run(federation, state, request.outside.step(), every)
        for state in written(rounds, folder, federation, state.round, trackers, silent, clock):  # noqa: B020
            if (began := time.monotonic()) >= due and state.round < s.rounds:
                folder.save_checkpoint({"state": state.stored()}, stamp)
                cost = time.monotonic() - began
                due = began + cost + max(s.checkpoint_seconds, spacing * cost)
            if state.round < s.rounds:
                yield from clock.waiting(federation, state)
    except BaseException as error:
        if not is_leaving(error):
            raise
        # Within a round, the clients' memory is ahead of the state. Rows that somebody has changed are not sealed.
        if not state.changes_in_place and folder.changed() is None:
            with suppress(LeaseLost):
                folder.cut(state.round)
                folder.save_checkpoint({"state": state.stored()}, stamp)
        if isinstance(error, Exception):
            raise Terminated from error
        raise
    return trained.outcome(request, federation, folder, state.params)
