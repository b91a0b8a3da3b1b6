"""The JSON of LEAF (Caldas et al., arXiv 1812.01097): samples by user, in training and test files."""

import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from robustfl_bench.base import seeding
from robustfl_bench.base.errors import ConfigError, DataError
from robustfl_bench.parts.datasets.files import CheckedFile

Users = dict[str, dict[str, Any]]


def users(files: Iterable[CheckedFile]) -> Users:
    """The data of every user: ``{"x": [...], "y": [...]}``, or ``{"raw": text}`` before samples are made.

    Raises DataError for a file of another format, and for a user in two files.
    """
    found: Users = {}
    for file in files:
        try:
            content = json.loads(file.content)
            own: Users = content["user_data"]
            lengths = [(len(data["x"]), len(data["y"])) for data in own.values() if "raw" not in data]
            if not all(isinstance(data["raw"], str) for data in own.values() if "raw" in data):
                raise TypeError("raw is not a text")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DataError(
                f"{file.path}: not a JSON file of LEAF, expected user_data with x and y ({error!r})"
            ) from error
        if any(x != y for x, y in lengths):
            raise DataError(f"{file.path}: a user has not as many labels as samples; make the files again")
        if twice := found.keys() & own.keys():
            raise DataError(f"{file.path}: has user {min(twice)}, who is in another file too; make the files again")
        found |= own
    return found


def count(users: Users) -> int:
    """The number of samples of all users."""
    return sum(len(data.get("y", ())) for data in users.values())


def draw(names: Iterable[str], count: int, dataset: str) -> list[str]:
    """``count`` of the users, in order, the same in every run; a larger count adds users and drops none."""
    known = sorted(names)
    if count > len(known):
        raise ConfigError(f"{dataset} has {len(known)} clients with enough samples; set num_clients={len(known)}")
    order = seeding.generator(0, "users", dataset).permutation(len(known))
    return [known[i] for i in np.sort(order[:count])]


def owners(sizes: Iterable[int]) -> np.ndarray:
    """The client of every sample, (N,) int64, from the clients' sizes."""
    sizes = list(sizes)
    return np.repeat(np.arange(len(sizes)), sizes)
