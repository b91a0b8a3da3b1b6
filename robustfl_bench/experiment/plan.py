"""From a composed config to a finished run folder: build and check every part, then run, record, resume."""

import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from robustfl_bench import __version__
from robustfl_bench.config.options import option
from robustfl_bench.config.settings import KEYS, Settings, check
from robustfl_bench.errors import ConfigError, Interrupted
from robustfl_bench.experiment.rows import score_of, shown, written
from robustfl_bench.interfaces import GROUPS, Dataset, Model, Parts, check_kind
from robustfl_bench.results import store

HERE = Path(__file__).resolve().parent.parent

DEFINING = (
    "seed",
    "rounds",
    "lr",
    "batch_size",
    "num_clients",
    "num_byzantine",
    "byzantine_placement",
    "byzantine_share_by",
    "participation",
    "eval_every",
    "precision",
    *GROUPS,
)  # num_byzantine_declared counts where a part uses it
# These count where there is one: older runs keep their identity
OPTIONAL = ("corruption", "clustering", "augmentation", "communication")
# At these values, likewise
UNSEEN = {"byzantine_share_by": "clients", "server_optimizer": option("server_optimizer", "sgd")}
SMALL = 2e9  # samples x parameters of a round up to which a second thread costs more than it brings
LAST = 10  # evaluated rounds of `last_10`
CLUSTERED = ("distance", "distance_nearest", "cluster_recovery")  # columns of metrics.csv that the summary has too


def _at_scale(paper: Any, quick: Any, *, _root_: DictConfig) -> Any:
    """``${at_scale:200,40}`` in a preset: 200 with scale=paper, 40 with scale=quick."""
    return quick if _root_.scale == "quick" else paper


def _share(part: float, whole: int) -> int:
    """``${share:${participation},60}`` in a preset: 15 with participation=0.25."""
    return round(part * whole)


def _in_variant(fair: Any, published: Any, *, _root_: DictConfig) -> Any:
    """``${in_variant:keep,random}`` in a preset: keep with variant=fair, random with variant=published."""
    return published if _root_.variant == "published" else fair


def _attacked(attacked: Any, clean: Any, *, _root_: DictConfig) -> Any:
    """``${attacked:1,10000}`` in an option: 1 where there are Byzantine clients, else 10000."""
    attack = _root_.get("attack") or {}
    absent = _root_.get("num_byzantine") == 0 or str(attack.get("_target_")).endswith(".NoAttack")
    return clean if absent else attacked


OmegaConf.register_new_resolver("at_scale", _at_scale, replace=True)
OmegaConf.register_new_resolver("attacked", _attacked, replace=True)
OmegaConf.register_new_resolver("ratio", lambda a, b: a / b, replace=True)  # 32 of 1039 clients: ${ratio:32,1039}
OmegaConf.register_new_resolver("in_variant", _in_variant, replace=True)
OmegaConf.register_new_resolver("times", lambda a, b: a * b, replace=True)  # 40 clients per cluster: ${times:40,${k}}
OmegaConf.register_new_resolver("share", _share, replace=True)


class RunFailed(RuntimeError):
    """A run ended in an unexpected error; the traceback is in its folder (exit code 1)."""


@dataclass(frozen=True)
class Plan:
    """A checked configuration: the built parts, and the resolved config that identifies the run."""

    settings: Settings
    dataset: Dataset
    parts: dict[str, Any]
    identity: dict[str, Any]

    @property
    def run_id(self) -> str:
        """Eight hex digits that stand for everything that defines the experiment."""
        return identify(self.identity)

    @property
    def reference(self) -> dict[str, Any]:
        """The identity of the run that recalls are compared with: Average without Byzantine clients, all else equal."""
        return self.identity | {
            "num_byzantine": 0,
            "attack": option("attack", "none"),
            "aggregator": option("aggregator", "average"),
            "pre_aggregation": option("pre_aggregation", "none"),
        }


class InfeasibleError(ConfigError):
    """The rule cannot work with this many clients, or without a server: a fact to record in a table, no mistake."""

    def __init__(self, reason: str, plan: Plan) -> None:
        super().__init__(reason)
        self.plan = plan


def identify(identity: Mapping[str, Any]) -> str:
    """Hash of a resolved, key-sorted config."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:8]


def plan(cfg: DictConfig) -> Plan:
    """Build and check every part before any data are loaded; raises one ConfigError with all that is wrong."""
    try:
        config: dict[str, Any] = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)  # type: ignore[assignment]
    except OmegaConfBaseException as error:
        raise ConfigError(" ".join(str(error).split())) from None
    if unknown := sorted(set(config) - set(KEYS)):
        raise ConfigError(f"no setting {', '.join(unknown)}; robustfl-bench --cfg job shows all")
    settings = Settings(**{key: value for key, value in config.items() if key not in GROUPS})
    check(settings)
    parts: dict[str, Any] = {}
    errors = []
    for group in GROUPS:
        try:
            parts[group] = instantiate(config[group], _convert_="all") if config[group] else None
            check_kind(group, parts[group])
        except InstantiationException as error:
            errors.append(f"{group}: {_reason(error)}")
        except ConfigError as error:
            errors.append(str(error))
    if errors:
        raise ConfigError("; ".join(errors))
    if not parts["attack"].present or settings.num_byzantine == 0:
        settings.num_byzantine = config["num_byzantine"] = 0
        config["attack"] = option("attack", "none")
    _check_model(parts["model"], parts["dataset"])
    planned = Plan(settings, parts["dataset"], parts, _identity(config))
    try:
        if parts["communication"] is not None:
            parts["communication"].check(parts)
        if parts["pre_aggregation"] is None:
            parts["aggregator"].check(settings.clients_per_round)
    except ConfigError as error:
        raise InfeasibleError(str(error), planned) from None
    return planned


def _identity(config: Mapping[str, Any]) -> dict[str, Any]:
    """What defines the experiment, of a resolved config."""
    there = [key for key in DEFINING if config[key] or key not in OPTIONAL]
    return {key: config[key] for key in there if key not in UNSEEN or config[key] != UNSEEN[key]}


def _reason(error: InstantiationException) -> str:
    cause = error.__cause__
    text = str(cause if cause is not None else error).split("\nfull_key")[0]
    if isinstance(cause, TypeError) and "unexpected keyword argument" in text:
        text = f"no option {text.rsplit(' ', 1)[-1]}"
    return " ".join(text.split())


def _check_model(model: Model, dataset: Dataset) -> None:
    if model.reads != dataset.content:
        takers = {"words": "has texts: take model=gru", "characters": "has texts by character: take model=lstm"}
        givers = {"words": "ag_news", "characters": "shakespeare"}
        mismatch = takers.get(dataset.content) or f"has no texts: take another model, or dataset={givers[model.reads]}"
        raise ConfigError(f"model {type(model).__name__} cannot read {dataset.name}, which {mismatch}")
    _num_params(model, dataset)


def _num_params(model: Any, dataset: Dataset) -> int:
    """Parameters of the model, from shapes only (a vocabulary, known when its texts are read, counts one word)."""
    import torch

    with torch.device("meta"):
        vectors = [torch.empty(1, dataset.embedding_dim)] if dataset.content == "words" else []
        module = model(dataset.input_shape, dataset.num_classes, *vectors)
    return sum(parameter.numel() for parameter in module.parameters())


def execute(
    cfg: DictConfig,
    overrides: Sequence[str] = (),
    choices: Mapping[str, str] | None = None,
    train: "Train | None" = None,
) -> float:
    """Run the experiment, or go on with it, or print its stored result; ``train`` may do it in another way.

    Returns the final test accuracy, or where there are no classes the distance from the true parameters.

    Raises ConfigError, DataError, RunLocked, OSError (results folder) with nothing written, Interrupted, or RunFailed.
    """
    planned = plan(cfg)
    names = dict(choices or {})
    folder = _folder(planned, names)
    if (stored := _stored(folder)) is not None:
        return stored
    # Missing data and impossible partitions are errors of the call, not failures of a run: nothing is written yet.
    data = _load(planned)
    federation = _federation(planned, data)
    folder.open(planned.identity)
    try:
        if (stored := _stored(folder)) is not None:  # by another process, while this one loaded its data
            return stored
        folder.reopen()
        outcome: dict[str, Any] = {"status": store.FAILED, "error": None}
        trace = None
        try:
            with _threads(_num_threads(planned, len(data.train_y))) as threads:
                outcome |= {"num_threads": threads, "device": str(data.train_x.device)}
                outcome |= (train or _train)(planned, federation, folder)
            outcome |= {"status": store.FINISHED} | _results(folder)
        except Interrupted:
            raise
        except ConfigError:  # found when a part was first used
            folder.discard()
            raise
        except Exception as error:
            outcome["error"] = f"{type(error).__name__}: {' '.join(str(error).split())}"
            trace = traceback.format_exc()
        summary = _summary(planned, folder, names, overrides) | outcome
        folder.finish(summary, trace)
    finally:
        folder.close()
    if summary["status"] == store.FAILED:
        raise RunFailed(f"{summary['error']} (traceback in {folder.path / 'error.txt'})")
    return _tell(folder, summary, "result")


def take_part(cfg: DictConfig, choices: Mapping[str, str], train: "Train") -> None:
    """Train as a client of an experiment whose results another process writes; raises ConfigError or DataError."""
    planned = plan(cfg)
    data = _load(planned)
    with _threads(_num_threads(planned, len(data.train_y))):
        train(planned, _federation(planned, data), _folder(planned, choices))


def _stored(folder: store.RunFolder) -> float | None:
    """Print and return the result of a finished run, else None."""
    summary = folder.summary()
    if summary is None or summary["status"] != store.FINISHED:
        return None
    return _tell(folder, summary, "stored result")


def record_infeasible(
    error: InfeasibleError, overrides: Sequence[str] = (), choices: Mapping[str, str] | None = None
) -> None:
    """Leave a run folder that says why this cell of a sweep cannot be run."""
    names = dict(choices or {})
    folder = _folder(error.plan, names)
    folder.open(error.plan.identity)
    try:
        outcome = {"status": store.INFEASIBLE, "error": str(error)}
        folder.finish(_summary(error.plan, folder, names, overrides) | outcome)
    finally:
        folder.close()


def _folder(planned: Plan, choices: Mapping[str, str]) -> store.RunFolder:
    s = planned.settings
    attack = f"{choices.get('attack', 'attack')}{s.num_byzantine}" if s.num_byzantine else "none"
    groups = [choices.get("partition", ""), attack, choices.get("aggregator", "")]
    if planned.identity.get("clustering"):
        groups.append(choices.get("clustering", ""))
    name = store.slug(planned.dataset.name, *groups, f"s{s.seed}")
    return store.RunFolder(s.results_dir, name, planned.run_id)


def _load(planned: Plan) -> Any:
    import torch

    from robustfl_bench import datasets

    s = planned.settings
    device = ("cuda" if torch.cuda.is_available() else "cpu") if s.device == "auto" else s.device
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ConfigError(f"device={s.device} but no CUDA device is visible; use device=cpu or device=auto")
    return datasets.load(planned.dataset, s.data_dir, torch.device(device))


def _federation(planned: Plan, data: Any) -> Any:
    from robustfl_bench.engine.federation import Federation

    return Federation(planned.settings, Parts(**planned.parts), data)


Train = Callable[[Plan, Any, store.RunFolder], Mapping[str, Any]]
"""Takes a plan, its Federation and the folder for the rows; returns what the summary is to have besides."""


def _train(planned: Plan, federation: Any, folder: store.RunFolder) -> Mapping[str, Any]:
    import torch

    from robustfl_bench.engine.loop import run
    from robustfl_bench.engine.rounds import initial_state
    from robustfl_bench.engine.state import State

    s = planned.settings
    torch.set_float32_matmul_precision(s.precision)
    state, saved = initial_state(federation), folder.checkpoint()
    if saved is not None:
        state = State.restored(saved["state"], state.params.device)
    stored = time.monotonic()
    try:
        for state in written(run(federation, state), folder, federation, state.round):  # noqa: B020
            if time.monotonic() - stored >= s.checkpoint_seconds and state.round < s.rounds:
                folder.save_checkpoint({"state": state.stored()})
                stored = time.monotonic()
    except (KeyboardInterrupt, SystemExit):
        if not state.changes_in_place:  # in the middle of a round the clients' memory is ahead of the state
            folder.cut(state.round)
            folder.save_checkpoint({"state": state.stored()})
        raise
    return {"model_sha256": digest(state.params)}


def digest(params: Any) -> str:
    """SHA-256 of models (k, d), to the bit."""
    return hashlib.sha256(params.cpu().contiguous().numpy().tobytes()).hexdigest()


def _num_threads(planned: Plan, samples: int) -> int:
    s = planned.settings
    if s.num_threads is not None:
        return s.num_threads
    dim = _num_params(planned.parts["model"], planned.dataset)
    per_round = samples if s.batch_size is None else min(samples, s.batch_size * s.clients_per_round)
    if per_round * dim < SMALL:
        return 1
    given = os.environ.get("SLURM_CPUS_PER_TASK") or os.environ.get("OMP_NUM_THREADS")
    if given and given.isdigit():
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1  # macOS has none


@contextmanager
def _threads(number: int) -> Iterator[int]:
    """Threads of PyTorch and of NumPy's BLAS; SIGTERM ends the run as Ctrl-C does, after a checkpoint."""
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(number)
    main = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143)) if main else None
    try:
        with threadpool_limits(number, user_api="blas"):
            yield number
    finally:
        torch.set_num_threads(before)
        if main:
            signal.signal(signal.SIGTERM, handler)


def _results(folder: store.RunFolder) -> dict[str, Any]:
    """The last evaluated round, the best one, and the mean of the last few."""
    rows = folder.rows()
    last, score = rows[-1], score_of(rows[-1])
    best = max(rows, key=lambda row: row[score] if score == "test_accuracy" else -row[score])
    clustered = [key for key in last if key in CLUSTERED or key.startswith("accuracy_cluster_")]
    final: dict[str, Any] = {key: last[key] for key in dict.fromkeys([score, "test_loss", *clustered])}
    if recall := [last[key] for key in last if key.startswith("recall_")]:
        final |= {"recall": recall}
    return {
        "final": {"round": int(last["round"])} | final,
        "best": {"round": int(best["round"]), score: best[score]},
        f"last_{LAST}": {score: float(np.mean([row[score] for row in rows[-LAST:]]))},
    }


def _summary(
    planned: Plan, folder: store.RunFolder, choices: Mapping[str, str], overrides: Sequence[str]
) -> dict[str, Any]:
    import torch

    replaced = ("attack", "aggregator", "pre_aggregation", "num_byzantine", "+threat")
    plain = [item for item in overrides if item.split("=")[0].split(".")[0] not in replaced]
    seconds = folder.path / "timings.csv"
    rows = seconds.read_text().split()[1:] if seconds.exists() else []
    return {
        "run_id": folder.run_id,
        "name": folder.path.name,
        "choices": {group: choices[group] for group in GROUPS if group in choices},
        "scale": planned.settings.scale,
        "variant": planned.settings.variant,
        "command": " ".join(["robustfl-bench", *overrides]),
        "reference_id": identify(planned.reference),
        "reference_command": " ".join(["robustfl-bench", *plain, "attack=none", "aggregator=average"]),
        "seconds": round(sum(float(row.split(",")[1]) for row in rows), 3),
        "versions": {
            "robustfl-bench": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
            "hydra-core": version("hydra-core"),
        },
        "commit": _commit(),
        "host": platform.node(),
        "processor": platform.processor() or platform.machine(),
    }


@lru_cache(maxsize=1)
def _commit() -> str | None:
    """The commit of a source checkout, with ``+changes`` when files differ from it."""
    if not (HERE.parent / ".git").exists():
        return None
    try:
        commit, changed = (
            subprocess.run(["git", *words], cwd=HERE.parent, capture_output=True, text=True, timeout=10).stdout.strip()
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "-uno"])
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return commit + ("+changes" if changed else "") or None


def _tell(folder: store.RunFolder, summary: Mapping[str, Any], what: str) -> float:
    """Print a finished run's result in one line; returns what it is judged by."""
    final, best = summary["final"], summary["best"]
    rounds = f"after {final['round']} rounds (best {shown(best)} at {best['round']})"
    print(f"{what}: {shown(final)} {rounds}  {folder.path}", flush=True)
    return float(final[score_of(final)])
