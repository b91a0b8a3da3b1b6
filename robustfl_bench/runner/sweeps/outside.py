"""Processes that a class of the user starts take the cells of a sweep, as ``conf/SWEEPS.md`` describes."""

from typing import Any

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.runner.config import targets
from robustfl_bench.runner.sweeps.cells import Sweep
from robustfl_bench.runner.sweeps.ends import Outcome
from robustfl_bench.runner.sweeps.take import take_with


def take_with_class(sweep: Sweep, options: Any) -> Outcome:
    """Answer what is stored, and let an instance of ``options["class"]`` with the other options as its fields complete
    the other cells. Raises ConfigError."""
    name, fields = options.get("class"), {key: value for key, value in options.items() if key != "class"}
    if not isinstance(name, str) or "." not in name:
        raise ConfigError(f"hydra.launcher.class must be a dotted name such as my_module.MyLauncher, got {name!r}")
    launcher = targets.build({"_target_": name, **fields})
    if not callable(getattr(launcher, "place", None)):
        raise ConfigError(f"hydra.launcher.class: {name} needs a method place(sweep), see conf/SWEEPS.md")
    return take_with(sweep, launcher.place)
