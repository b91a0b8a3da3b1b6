"""The check that attacks on labels share."""

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.parts.attacks.base import Shard


def require_classes(attack: str, shard: Shard) -> None:
    """Raise ConfigError unless the labels of the samples are classes."""
    if shard.y.is_floating_point():
        raise ConfigError(
            f"attack {attack} changes classes, but these data have numbers to predict; "
            "choose another attack, such as ipm or brifca_outlier"
        )
