"""Shakespeare: the next character of what a role says, as LEAF (arXiv 1812.01097) and ARFL's code make it."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np

from robustfl_bench.base.errors import DataError
from robustfl_bench.base.fields import at_least, between
from robustfl_bench.numerics.characters import ALPHABET, numbers
from robustfl_bench.parts.datasets import leaf
from robustfl_bench.parts.datasets.base import Data, Dataset
from robustfl_bench.parts.datasets.files import File, Layout, Source, read

LENGTH = 80  # characters that are read to predict the next
Windows = tuple[np.ndarray, np.ndarray]  # characters (N, LENGTH) int32 and the next one (N,) int64
PLAYS = "sha256:ff1dc981032afd3444eeb85fbd86f5f59ba82f435583211ef63c8826e1d13e7c"
SUBSET = "subset of 10 roles"
SUBSET_TRAIN = "sha256:b9eadd4e91c0fa03641730bd62ae6cdf4200989974e69a2e7d5f648a64491a01"
SUBSET_TEST = "sha256:20f7fc3e48d5292d6a0dc1b4f377bc392a69a4a6ad8d64b51ed5d635cb276de5"
RECIPE = (
    "make it with LEAF (https://github.com/TalwalkarLab/leaf, data/shakespeare: ./preprocess.sh -s niid --sf 1.0 -k 0 "
    "-t sample{flag}) and copy its {what} into the folder shakespeare of the data folder"
)


@dataclass(frozen=True)
class Roles(Dataset):
    """Windows of 80 characters, as places in the alphabet, (N, 80) int32, and the next character of each, one of 80.

    Clients are speaking roles, each with a training and a test part; the test set is all test parts together. Roles
    with fewer than ``min_windows`` for training or none for testing are left out. ``num_clients`` of the others are
    drawn.
    """

    num_clients: Annotated[int, at_least(1)] = 71
    """number of speaking roles, drawn from all with enough text"""
    min_windows: Annotated[int, at_least(1)] = 100
    """least number of a role's training windows"""

    input_shape = (LENGTH,)
    num_classes = len(ALPHABET)
    content = "characters"

    def _chosen(self, name: str, roles: dict[str, tuple[Windows, Windows]], variant: str) -> Data:
        import torch

        long = [role for role, (train, test) in roles.items() if len(train[1]) >= self.min_windows and len(test[1])]
        chosen = [roles[role] for role in leaf.draw(long, self.num_clients, name)]
        train_x, train_y, test_x, test_y = (
            torch.from_numpy(array) for part in (0, 1) for array in joined(role[part] for role in chosen)
        )
        owners = torch.from_numpy(leaf.owners(len(train[1]) for train, _ in chosen))
        return Data(train_x, train_y, test_x, test_y, variant, owners=owners)


@dataclass(frozen=True)
class Shakespeare(Roles):
    """Windows of the text of every role, one every ``stride`` characters; the first ``train_share`` is for training.

    White space counts as one space, characters outside of the alphabet are left out. The defaults are those of ARFL.
    """

    stride: Annotated[int, at_least(1)] = 5
    """characters between the starts of two windows of 80"""
    train_share: Annotated[float, between(0.01, 0.99)] = 0.8
    """share of a role's text, from its beginning, for training; the end is for testing"""

    name = "shakespeare"
    source = Source(
        name,
        layouts=(
            Layout("shakespeare", (File("all_data.json", {}),)),
            Layout("shakespeare", (File("pd_eight_plays_by_role.json", {PLAYS: "eight plays, 220 roles"}, 960_257),)),
        ),
        licence="public domain",
        recipe=RECIPE.format(flag=" --raw", what="data/all_data/all_data.json"),
    )

    def load(self, folder: Path) -> Data:
        """Read the texts and cut them into windows."""
        files, variant = read(self.source, folder)
        roles = {}
        for role, data in leaf.users(files).items():
            if "raw" not in data:
                raise DataError(f"{files[0].path}: {role} has no text, expected raw; {self.source.remedy(folder)}")
            text = numbers(" ".join(data["raw"].split()))
            text = text[text >= 0]
            end = int(self.train_share * len(text))
            roles[role] = (windows(text[:end], self.stride), windows(text[end:], self.stride))
        return self._chosen(self.name, roles, variant)


@dataclass(frozen=True)
class ShakespeareLeaf(Roles):
    """The samples that LEAF has made and split, unchanged; unknown characters count as spaces."""

    name = "shakespeare_leaf"
    source = Source(
        name,
        layouts=(
            Layout(
                "shakespeare",
                (
                    File("leaf_subset_train.json", {SUBSET_TRAIN: SUBSET}, 3_738_594),
                    File("leaf_subset_test.json", {SUBSET_TEST: SUBSET}, 346_482),
                ),
            ),
        ),
        licence="public domain",
        sizes={SUBSET: (41_990, 3_881)},
        leaf=("shakespeare", "shakespeare/data"),
        recipe=RECIPE.format(flag=" --tf 0.8", what="data/train and data/test"),
    )

    def load(self, folder: Path) -> Data:
        """Read LEAF's samples."""
        files, variant = read(self.source, folder)
        train, test = (leaf.users(f for f in files if part in f.name) for part in ("train", "test"))
        roles = {
            role: (encoded(train[role], files[0].path), encoded(test[role], files[-1].path))
            for role in train.keys() & test.keys()
        }
        return self._chosen(self.name, roles, variant)


def windows(text: np.ndarray, stride: int) -> Windows:
    """The windows of a text (n,) of numbers that begin at every ``stride``-th character, and what follows each."""
    if len(text) <= LENGTH:
        return np.empty((0, LENGTH), dtype=np.int32), np.empty(0, dtype=np.int64)
    views = np.lib.stride_tricks.sliding_window_view(text, LENGTH + 1)[::stride]
    return views[:, :LENGTH].astype(np.int32), views[:, LENGTH].astype(np.int64)


def encoded(samples: dict[str, list[str]], path: str) -> Windows:
    """Windows and next characters as numbers; raises DataError for samples of another length."""

    def are_texts(values: list[str] | None, length: int) -> bool:
        return values is not None and all(isinstance(text, str) and len(text) == length for text in values)

    if not (are_texts(samples.get("x"), LENGTH) and are_texts(samples.get("y"), 1)):
        raise DataError(f"{path}: expected windows of {LENGTH} characters, each with one to predict; make it again")
    space = ALPHABET.index(" ")
    x, y = (numbers("".join(part)) for part in (samples["x"], samples["y"]))
    x[x < 0] = y[y < 0] = space
    return x.reshape(-1, LENGTH).astype(np.int32), y


def joined(parts: Iterable[Windows]) -> Windows:
    """The windows of several roles, one role after the other."""
    x, y = zip(*parts, strict=True)
    return np.concatenate(x), np.concatenate(y)
