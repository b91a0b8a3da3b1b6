"""The server of a rule that is called outside of a run: one without samples."""

from typing import Any, NoReturn

from robustfl_bench.errors import ConfigError
from robustfl_bench.interfaces import Aggregator, ServerView


def server_without_samples(rule: Aggregator, remedy: str, **known: Any) -> ServerView:
    """A ServerView with the ``known`` fields. Reading any other raises ConfigError with ``remedy`` at its end."""

    def lacking(*_: object) -> NoReturn:
        name = type(rule).__name__
        raise ConfigError(f"{name} needs samples of the server, or losses that clients report when asked: {remedy}")

    unknown = ("train_per_class", "train_together", "loss", "gradient", "losses_of")
    return ServerView(**(dict.fromkeys(unknown, lacking) | known))
