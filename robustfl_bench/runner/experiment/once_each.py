"""Refuses networks from outside whose gradients would be wrong, as they are computed layer by layer.

If all layers with parameters are Linear or Conv2d, a gradient is made of each layer's one input and output in a forward
pass (``network.gradients``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from robustfl_bench.base.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor, nn

AUTOGRAD = (
    "its gradients need autograd, which networks with a buffer have: in its __init__ write "
    'self.register_buffer("autograd", torch.zeros(1))'
)


def check(name: str, module: nn.Module, run: Callable[[nn.Module], object]) -> None:
    """Raise ConfigError for a ``module`` that uses a parameter twice, or whose layers are not each called once; ``run``
    passes samples through it. ``name`` is the model's.
    """
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
    calls: Counter[str] = Counter()

    def counting(path: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        return lambda *_: calls.update([path])

    hooks = [layer.register_forward_hook(counting(path)) for path, layer in layers.items()]
    run(module)
    for hook in hooks:
        hook.remove()
    for path in layers:
        if calls[path] != 1:
            raise ConfigError(f"model {name} calls its layer {path} {calls[path]} times for a sample; {AUTOGRAD}")
