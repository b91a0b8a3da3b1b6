"""The command of a run that is missing from a table, made from those of its neighbours in the table."""

import shlex
from collections.abc import Mapping, Sequence


def join_commands(commands: Mapping[str, str], labels: Mapping[str, str], seeds: Sequence[str]) -> str:
    """The command of the cell where two axes meet; empty when a neighbour's command is not known.

    ``commands`` and ``labels`` are keyed by the row's and by the column's key, in that order: a command of a run in the
    cell's row and one in its column, and the labels of both. The overrides of each axis come from the run that has
    the right label (``aggregator=krum aggregator.num_selected=3`` from the row), all others from the column's run,
    which also carries what the column brings along (``num_byzantine=0`` without attack).
    """
    row, column = commands
    if not (commands[row] and commands[column]):
        return ""
    program = [token for token in shlex.split(commands[column]) if "=" not in token and not token.startswith("~")]
    from_column = [token for token in _overrides(commands[column]) if _axis(token, labels) != row]
    from_row = [token for token in _overrides(commands[row]) if _axis(token, labels) == row]
    overrides = [token for token in [*from_column, *from_row] if _key(token) != "seed"]
    given = {_key(token) for token in overrides}
    overrides += [f"{key}={label}" for key, label in labels.items() if key not in given and key != "seed"]
    chosen = [labels["seed"]] if "seed" in labels else list(seeds)
    overrides += [f"seed={','.join(chosen)}"] if chosen else []
    sweep = ["-m"] if len(chosen) > 1 and "-m" not in program else []
    return shlex.join([*program, *sweep, *overrides])


def _overrides(command: str) -> list[str]:
    return [token for token in shlex.split(command) if "=" in token or token.startswith("~")]


def _key(token: str) -> str:
    return token.lstrip("+~").split("=", 1)[0]


def _axis(token: str, axes: Mapping[str, str]) -> str | None:
    """The axis that an override belongs to: the longest one that it names or lies under."""
    key = _key(token)
    return max((axis for axis in axes if key == axis or key.startswith(f"{axis}.")), key=len, default=None)
