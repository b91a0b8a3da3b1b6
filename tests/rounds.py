"""What the tests of the rules share: rounds of a small problem, and rules built from their configs."""

from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.utils import instantiate

from robustfl_bench.testing import example_round as skewed_round
from robustfl_bench.testing import example_server as make_server

__all__ = ["build", "make_server", "names", "skewed_round"]

CONF = Path(__file__).parents[1] / "conf"


def names(group: str) -> list[str]:
    """Names of the configurations in ``conf/<group>``."""
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


def build(group: str, name: str, *overrides: str, num_byzantine: int = 3) -> Any:
    """The object that ``<group>=<name>`` makes when the server declares ``num_byzantine``."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = compose(f"{group}/{name}", [f"+num_byzantine_declared={num_byzantine}", *overrides])
    return instantiate(config[group])
