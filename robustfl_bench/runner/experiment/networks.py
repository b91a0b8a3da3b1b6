"""What can be said of a model before any data are loaded: that it fits them, that its gradients are right, its size.

If all layers of a network with parameters are Linear or Conv2d, a gradient is made of each layer's one input and output
in a forward pass (``network.gradients``), so networks from outside that use one twice are refused.
"""

import json
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any

from robustfl_bench.base.errors import ConfigError, DataError, one_line
from robustfl_bench.base.read_only import is_outside
from robustfl_bench.parts.datasets.base import Dataset
from robustfl_bench.parts.models.base import Model
from robustfl_bench.parts.models.started import Started

if TYPE_CHECKING:  # importing torch takes over a second
    from torch import Tensor, nn

AUTOGRAD = (
    "its gradients need autograd, which networks with a buffer have: in its __init__ write "
    'self.register_buffer("autograd", torch.zeros(1))'
)


def check(model: Model, dataset: Dataset) -> None:
    """Raise ConfigError for a model that cannot read these data, cannot be built, or whose gradients would be wrong."""
    if model.reads != dataset.content:
        takers = {"words": "has texts: take model=gru", "characters": "has texts by character: take model=lstm"}
        givers = {"words": "ag_news", "characters": "shakespeare"}
        mismatch = takers.get(dataset.content) or f"has no texts: take another model, or dataset={givers[model.reads]}"
        raise ConfigError(f"model {type(model).__name__} cannot read {dataset.name}, which {mismatch}")
    num_params(model, dataset)
    if is_outside(type(model.model if isinstance(model, Started) else model)):
        _check_layers(model, dataset)


def _check_layers(model: Model, dataset: Dataset) -> None:
    """Raise ConfigError for a network from outside that cannot be run, or whose gradients would be wrong."""
    import torch

    name, vectors = type(model).__name__, [torch.zeros(1, dataset.embedding_dim)] * (dataset.content == "words")
    try:
        _check_calls(name, _shapes_of(model, dataset), _one_sample(dataset, "meta"))
        return
    except ConfigError:
        raise
    except Exception:  # a module that reads values, which shapes do not have
        module = model(dataset.input_shape, dataset.num_classes, *vectors)
    try:
        _check_calls(name, module, _one_sample(dataset, "cpu"))
    except ConfigError:
        raise
    except Exception as error:  # whatever somebody else's code raises
        reason = one_line(error)[:200]
        raise ConfigError(f"model {name} cannot take samples of shape {dataset.input_shape}: {reason}") from error


def _one_sample(dataset: Dataset, device: str) -> Any:
    """A sample of zeros."""
    import torch

    kind = torch.float32 if dataset.content == "numbers" else torch.int32
    return torch.zeros(1, *dataset.input_shape, dtype=kind, device=device)


def _once(size: Callable[[Any, Dataset], int]) -> Callable[[Any, Dataset], int]:
    """A size of a model, which runs of one process share if the model is this package's, with plain options: it follows
    from these and from what ``_shapes_of`` reads of the data set."""
    sizes: dict[tuple[object, ...], int] = {}

    @wraps(size)
    def known(model: Any, dataset: Dataset) -> int:
        try:
            options = None if is_outside(type(model)) else json.dumps(vars(model))
        except TypeError:  # a model within it, or weights
            options = None
        if options is None:
            return size(model, dataset)
        width = dataset.embedding_dim if dataset.content == "words" else 0
        subject = type(model), options, dataset.input_shape, dataset.num_classes, dataset.content, width
        if subject not in sizes:
            sizes[subject] = size(model, dataset)
        return sizes[subject]

    return known


@_once
def num_params(model: Any, dataset: Dataset) -> int:
    """Number of the model's parameters, from shapes only. A vocabulary, which depends on the texts, counts as one word.

    Raises ConfigError for a model that cannot be built.
    """
    return sum(parameter.numel() for parameter in _shapes_of(model, dataset).parameters())


@_once
def outputs_per_sample(model: Any, dataset: Dataset) -> int:
    """Numbers in the outputs of all layers with parameters for one sample, from shapes only; 0 for a network that
    shapes cannot run.

    Other layers may work in place. What a module computes outside of layers is not counted.
    """
    import torch

    from robustfl_bench.numerics.network.dense import is_dense

    module, numbers = _shapes_of(model, dataset), 0
    if is_dense(module):  # to run one on shapes, PyTorch imports its compiler, which takes two seconds
        return sum(layer.out_features for layer in module if isinstance(layer, torch.nn.Linear))

    def count(_: Any, __: Any, output: Any) -> None:
        nonlocal numbers
        numbers += output.numel() if isinstance(output, torch.Tensor) else 0

    for layer in module.modules():
        if any(True for _ in layer.parameters(recurse=False)):
            layer.register_forward_hook(count)
    try:
        with torch.no_grad():
            module(_one_sample(dataset, "meta"))
    except Exception:  # a module that reads values, which shapes do not have
        return 0
    return numbers


@_once
def operations_per_sample(model: Any, dataset: Dataset) -> int:
    """The operations of the gradient for one sample: three times the multiplications and additions of each layer's
    weights, at each place and time."""
    import torch

    # with numbers of any value, as to run a network on shapes PyTorch imports its compiler, which takes two seconds
    module = _shapes_of(model, dataset).to_empty(device="cpu")
    layers = [layer for layer in module.modules() if any(one.dim() > 1 for one in layer.parameters(recurse=False))]
    every = 1 if dataset.content == "numbers" else dataset.input_shape[0]  # of layers that a module does not call
    places = dict.fromkeys(layers, every)

    def count(layer: Any, _: Any, output: Any) -> None:
        if isinstance(output, torch.Tensor):
            places[layer] = output.numel() // max(len(weight) for weight in layer.parameters(recurse=False))

    for layer in layers:
        layer.register_forward_hook(count)
    with torch.no_grad(), suppress(Exception):  # a module that is none without its values
        module(_one_sample(dataset, "cpu"))
    weights = [(layer, weight) for layer in layers for weight in layer.parameters(recurse=False) if weight.dim() > 1]
    return 6 * int(sum(places[layer] * weight.numel() for layer, weight in weights))


def _shapes_of(model: Any, dataset: Dataset) -> Any:
    """The module of a model, without memory for its parameters."""
    import torch

    shape, classes = dataset.input_shape, dataset.num_classes
    try:
        with torch.device("meta"):
            vectors = [torch.empty(1, dataset.embedding_dim)] if dataset.content == "words" else []
            module = model(shape, classes, *vectors)
    except (ConfigError, DataError):
        raise
    except (RuntimeError, TypeError, OverflowError) as error:  # sizes beyond 64 bits
        reason = one_line(error)[:200]
        raise ConfigError(f"model {type(model).__name__} cannot be built for {dataset.name}: {reason}") from error
    if not isinstance(module, torch.nn.Module):
        raise ConfigError(f"model {type(model).__name__} must return a torch.nn.Module, got {module!r}")
    if mixing := [layer for layer in module.modules() if _mixes(layer)]:
        raise ConfigError(
            f"model {type(model).__name__} has {type(mixing[0]).__name__}: what a sample gives must not depend on "
            "other samples or on earlier rounds; use GroupNorm or LayerNorm"
        )
    return module


def _mixes(layer: Any) -> bool:
    """Whether a layer makes the output for a sample depend on others, of its batch or of earlier ones."""
    from torch.nn.modules import batchnorm

    return isinstance(layer, batchnorm._BatchNorm) or bool(
        isinstance(layer, batchnorm._NormBase) and layer.track_running_stats
    )


def _check_calls(name: str, module: "nn.Module", samples: "Tensor") -> None:
    """Raise ConfigError for a ``module`` that uses a parameter twice, or whose layers are not each called once for
    samples. ``name`` is the model's."""
    from torch import nn

    from robustfl_bench.numerics.network.dropout import has_dropout
    from robustfl_bench.numerics.network.gradients import WithGradients

    if len([*module.named_parameters(remove_duplicate=False)]) != len([*module.parameters()]):
        raise ConfigError(f"model {name} has a parameter under two names: give each layer its own")
    layers = {path: layer for path, layer in module.named_modules() if any(True for _ in layer.parameters(False))}
    simple = all(type(layer) in (nn.Linear, nn.Conv2d) for layer in layers.values())
    own = isinstance(module, WithGradients) or has_dropout(module) or any(True for _ in module.buffers())
    if own or not simple:
        return
    for path, layer in layers.items():
        if isinstance(layer, nn.Conv2d) and layer.padding_mode != "zeros":
            raise ConfigError(f"model {name}: {path} has padding_mode={layer.padding_mode!r}; {AUTOGRAD}")
    calls = Counter[nn.Module]()
    hooks = [layer.register_forward_hook(lambda layer, *_: calls.update([layer])) for layer in layers.values()]
    module(samples)
    for hook in hooks:
        hook.remove()
    for path, layer in layers.items():
        if calls[layer] != 1:
            raise ConfigError(f"model {name} calls its layer {path} {calls[layer]} times for a sample; {AUTOGRAD}")
