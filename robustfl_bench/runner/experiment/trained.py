"""The start of a run's training, its checkpoint or round 0, and the trained model: its network, and its weights in the
run folder, a file that nothing has to unpickle."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from robustfl_bench.base.console import say
from robustfl_bench.base.errors import ConfigError, DataError
from robustfl_bench.runner.config import targets
from robustfl_bench.runner.experiment.plan import Request
from robustfl_bench.runner.experiment.summary import digest
from robustfl_bench.runner.store import folders
from robustfl_bench.runner.store.sealed import Stamp
from robustfl_bench.runner.store.writing import Damaged, read_regular, write_atomically

if TYPE_CHECKING:
    from torch import Tensor, nn

    from robustfl_bench.parts.protocols.state import State
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

    The file has the parameters of a model by their names, of several behind the number of each, ``model_0.weight``.
    """
    if request.settings.save_weights:
        from safetensors.torch import save

        models = [federation.network.views(model) for model in params]
        places = [""] if len(models) == 1 else [f"model_{i}." for i in range(len(models))]
        named = {place + name: value.cpu().clone() for place, each in zip(places, models, strict=True)
                 for name, value in each.items()}  # fmt: skip
        write_atomically(folder.path / folders.WEIGHTS, save(named))
    return {"model_sha256": digest(params)}


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
    """The network of a run, with the weights of its only, or first, model. Raises as ``weights`` does."""
    from safetensors.torch import load

    kept = {name.removeprefix("model_0."): value for name, value in load(weights(folder)).items()}
    config: Mapping[str, Any] = yaml.safe_load(read_regular(folder / "config.yaml"))
    made, dataset = targets.build(config["model"]), targets.build(config["dataset"])
    if dataset.content == "words":
        raise ConfigError("a model of words needs the vectors of its vocabulary: read weights.safetensors yourself")
    network: nn.Module = made(dataset.input_shape, dataset.num_classes)
    for name, parameter in network.named_parameters():
        parameter.data.copy_(kept[name])
    return network.eval()
