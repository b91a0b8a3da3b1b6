"""A partition read from a file, saved before or made by another program (ours)."""

import csv
import hashlib
import io
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from robustfl_bench.base.errors import ConfigError, DataError, one_line
from robustfl_bench.parts.partitions.base import Partition

COLUMNS = ("sample", "client")
"""The columns that a file must have. A column ``label`` is compared with the data; other columns are ignored."""


@dataclass(frozen=True)
class FromFile(Partition):
    """Give every client the samples listed in a CSV file, in the order of the file; nothing is random.

    A line has a ``sample``, an index from 0 into the training set without the samples held out for validation, and its
    ``client``, from 0. Samples that are not in the file go to no client. A column ``label`` must agree with the data.
    ``robustfl-data partition --output FILE`` writes such files. Byzantine clients are drawn as in every run; a column
    with them is ignored.

    ``digest`` is the SHA-256 of the file and takes the place of ``path`` in the run's identity. A file with another
    digest when it is read raises DataError, as does a missing or malformed file.
    """

    path: str
    """a CSV with the columns sample and client: robustfl-data partition writes one"""
    digest: str | None = None
    """SHA-256 of the file: a changed file makes another run, a moved file does not; null: any file"""

    exempt: ClassVar = {"covering": "samples that are not in the file go to nobody"}

    def __post_init__(self) -> None:
        if not str(self.path).strip():
            raise ConfigError("partition.path must name a file")

    def __call__(self, labels: np.ndarray, num_clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        columns = self._columns()
        samples, clients = columns["sample"], columns["client"]
        self._check_samples(samples, labels, columns.get("label"))
        present, sizes = np.unique(clients, return_counts=True)
        if present[0] < 0 or present[-1] + 1 != len(present):
            raise DataError(f"{self.path}: the clients must be 0, 1, 2, ... without gaps, got {_few(present)}")
        if len(present) != num_clients:
            raise ConfigError(f"{self.path} has {len(present)} clients; set num_clients={len(present)}")
        return np.split(samples[np.argsort(clients, kind="stable")], np.cumsum(sizes)[:-1])

    def _columns(self) -> dict[str, np.ndarray]:
        """The known columns of the file, (N,) int64 each."""
        try:
            content = Path(self.path).expanduser().read_bytes()
        except OSError as error:
            raise DataError(
                f"{self.path}: the partition cannot be read: {error.strerror or error};"
                f" robustfl-data partition --output {self.path} writes one"
            ) from error
        found = hashlib.sha256(content).hexdigest()
        if self.digest not in (None, found):
            raise DataError(
                f"{self.path} has SHA-256 {found[:12]}..., but the run is of {str(self.digest)[:12]}...; restore the"
                " file, or name it anew with partition=from_file"
            )
        try:
            header, *rows = list(csv.reader(io.StringIO(content.decode("utf-8-sig")), strict=True)) or [[]]
            if missing := [name for name in COLUMNS if name not in header]:
                raise ValueError(f"no column {' and '.join(missing)} in the first line")
            if not rows:
                raise ValueError("no samples")
            if odd := [number for number, row in enumerate(rows, start=2) if len(row) != len(header)]:
                raise ValueError(f"line {odd[0]} has {len(rows[odd[0] - 2])} values, the first line {len(header)}")
            table = dict(zip(header, zip(*rows, strict=True), strict=True))
            known = [name for name in (*COLUMNS, "label") if name in header]
            return {name: np.array([int(value) for value in table[name]], dtype=np.int64) for name in known}
        except (ValueError, OverflowError, csv.Error) as error:
            reason = one_line(error)
            raise DataError(f"{self.path} is no partition (a CSV with {','.join(COLUMNS)}): {reason}") from error

    def _check_samples(self, samples: np.ndarray, labels: np.ndarray, expected: np.ndarray | None) -> None:
        """Raise DataError unless the samples exist, are distinct and have the labels given in the file."""
        low, high = samples.min(), samples.max()
        if low < 0 or high >= len(labels):
            raise DataError(
                f"{self.path} has samples {low} to {high}, but there are 0 to {len(labels) - 1} to train on"
            )
        unique, times = np.unique(samples, return_counts=True)
        if len(unique) < len(samples):
            raise DataError(f"{self.path}: {_few(unique[times > 1])} stand there more than once")
        if expected is not None and len(wrong := np.flatnonzero(labels[samples] != expected)):
            sample, label = samples[wrong[0]], expected[wrong[0]]
            raise DataError(
                f"{self.path} was written for other data or another validation_share: sample {sample} has label"
                f" {labels[sample]} here and {label} there"
            )


def text(shards: Sequence[np.ndarray], labels: np.ndarray, byzantine: Collection[int]) -> str:
    """The CSV text that ``FromFile`` reads, with a line for each sample of every client, in the order of ``shards``."""
    lines = [",".join([*COLUMNS, "label", "byzantine"])]
    for client, shard in enumerate(shards):
        attacks = int(client in byzantine)
        pairs = zip(shard.tolist(), labels[shard].tolist(), strict=True)
        lines += [f"{sample},{client},{label},{attacks}" for sample, label in pairs]
    return "\n".join([*lines, ""])


def _few(numbers: np.ndarray) -> str:
    """The first five numbers, as text."""
    shown = ", ".join(map(str, numbers[:5].tolist()))
    return f"{shown}, ..." if len(numbers) > 5 else shown
