"""The trained model of a run: its weights in the run folder, a file that nothing has to unpickle, and its network."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from robustfl_bench.base.errors import ConfigError, DataError
from robustfl_bench.runner.config import targets
from robustfl_bench.runner.experiment.plan import Request
from robustfl_bench.runner.experiment.summary import digest
from robustfl_bench.runner.store import folders
from robustfl_bench.runner.store.writing import Damaged, read_regular, write_atomically

if TYPE_CHECKING:
    from torch import Tensor, nn


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
