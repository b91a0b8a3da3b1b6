"""Bridges: edits of computing code that changed no number, so that the runs of before still count.

A stored run holds the digest of the code that computed it, over all functions that take part. Every edit of one of them
changes the digest, also an edit that only divides the same work in another way. A bridge is a file of
``results/bridges``. The command ``python -m scripts.generators.bridge`` writes it after a sample of runs had the same
bytes with the code of before and with that of after; the sample stands beside it. Each step of a bridge lists functions
of the code of after and functions of the code of before, by name and digest. Where all of the first take part in a run,
the second are put in their place, and the digest of the result is the digest that the run had before.

A step names functions by their text, so a later edit of one of them ends it. Runs of before then count as made by other
code, until a sample proves that edit too. Bridges follow each other in the order of the numbers that begin their names.
"""

import csv
import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from robustfl_bench.base.code_digest import Closure, digest_of
from robustfl_bench.base.errors import DataError, one_line
from robustfl_bench.runner.store import kept

FOLDER = kept.FOLDER / "bridges"
"""The folder of the bridges that come with the package."""

COLUMNS = ("step", "side", "unit", "digest", "proof", kept.SEAL)
"""The columns of a bridge. ``proof`` is the beginning of the SHA-256 of its sample."""

AFTER, BEFORE = "after", "before"

WHOLE = "all methods"
"""Stands in place of a digest where a step is for runs that name the class ``unit`` themselves, so that all its methods
count."""

_seal = kept.sealer(())

DIGITS = 16
"""Digits of a proof."""

Units = frozenset[bytes]
"""Units of code, each its name and then its digest, as ``Unit.named`` has them."""


@dataclass(frozen=True)
class BridgeStep:
    """Where all of ``after`` take part in a run, ``before`` took part before; what is in both has not changed."""

    after: Units
    before: Units


Bridge = tuple[BridgeStep, ...]


def _earlier(closure: Closure) -> tuple[Units, ...]:
    """The code, other than its own, whose runs count as those of a closure: the units of each, the oldest first."""
    wholes = frozenset(_atom(name, WHOLE) for name in closure.wholes)
    units = [frozenset(unit.named for unit in closure.units)]
    for bridge in reversed(bridges(FOLDER)):
        units.append(crossed(bridge, units[-1], wholes))
    return (*reversed([*dict.fromkeys(units)][1:]),)


@cache
def lead(digest: str, closure: Closure) -> bool:
    """Whether bridges lead from the code with this digest, or with one that begins so, to the code of a closure, or it
    is that code.

    Runs of the first then count as runs of the second. Most kept runs are of the oldest code, which is compared first.
    """
    return any(digest_of(units).startswith(digest) for units in _earlier(closure)) or closure.digest.startswith(digest)


def crossed(bridge: Bridge, units: Units, wholes: Units) -> Units:
    """The units of the code of before, of a run whose units of today are these."""
    taken = [step for step in bridge if step.after - wholes <= units]
    if not taken:
        return units
    return units.difference(*(step.after for step in taken)).union(*(step.before for step in taken))


@cache
def bridges(folder: Path) -> tuple[Bridge, ...]:
    """The bridges of a folder, the oldest first. Raises DataError for one that is not what was written."""
    return tuple(map(read, files(folder)))


def sources() -> list[Path]:
    """The files of all bridges of the package, and of their samples."""
    return [path for bridge in files(FOLDER) for path in (bridge, sample_of(bridge))]


def files(folder: Path) -> list[Path]:
    """The files of the bridges of a folder, ``NUMBER_NAME.csv``, by their numbers."""
    paths = [path for path in folder.glob("*_*.csv") if not path.stem.endswith("_sample")]
    return sorted(paths, key=lambda path: int(path.stem.partition("_")[0]))


def file_of(folder: Path, name: str) -> Path:
    """The file of the bridge of this name; a new one comes last."""
    found, numbers = {}, [0]
    for path in files(folder):
        number, _, own = path.stem.partition("_")
        found[own] = path
        numbers.append(int(number))
    return found.get(name, folder / f"{max(numbers) + 1}_{name}.csv")


def sample_of(bridge: Path) -> Path:
    """The file of the runs that prove a bridge."""
    return bridge.with_name(f"{bridge.stem}_sample.csv")


def read(path: Path) -> Bridge:
    """The steps of a bridge. Raises DataError if a line does not fit its seal, or the sample is another."""
    try:
        proof = proof_of(sample_of(path).read_bytes())
        lines = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
    except (OSError, UnicodeError, csv.Error) as error:
        raise DataError(f"cannot read the bridge {path}: {one_line(error)}") from error
    if not lines or tuple(lines[0]) != COLUMNS:
        raise DataError(f"{path} is no bridge: its columns must be {', '.join(COLUMNS)}")
    sides: Mapping[str, Mapping[str, set[bytes]]] = defaultdict(lambda: {AFTER: set(), BEFORE: set()})
    for number, line in enumerate(lines[1:], start=2):
        if len(line) != len(COLUMNS) or _seal(line[:-1]) != line[-1]:
            raise DataError(f"{path}: line {number} is not what was written: it does not fit its seal")
        if line[4] != proof:
            raise DataError(f"{path}: its sample, {sample_of(path).name}, is not the one that proved it")
        sides[line[0]][line[1]].add(_atom(line[2], line[3]))
    return tuple(BridgeStep(frozenset(step[AFTER]), frozenset(step[BEFORE])) for step in sides.values())


def proof_of(sample: bytes) -> str:
    """The beginning of the SHA-256 of a sample."""
    return hashlib.sha256(sample).hexdigest()[:DIGITS]


def rows(steps: Bridge, proof: str) -> Iterator[tuple[str, ...]]:
    """The lines of a file with these steps."""
    for number, step in enumerate(steps, start=1):
        for side, atoms in ((AFTER, step.after), (BEFORE, step.before)):
            for name, digest in sorted(map(parted, atoms)):
                values = (str(number), side, name, digest, proof)
                yield (*values, _seal(values))


def whole(name: str) -> bytes:
    """What stands for a class all of whose methods count, in a step."""
    return _atom(name, WHOLE)


def parted(atom: bytes) -> tuple[str, str]:
    """The name of a unit, and its digest in hex digits or WHOLE."""
    if atom.endswith(WHOLE.encode()):
        return atom.removesuffix(WHOLE.encode()).decode(), WHOLE
    return atom[:-32].decode(), atom[-32:].hex()


def _atom(name: str, digest: str) -> bytes:
    return name.encode() + (WHOLE.encode() if digest == WHOLE else bytes.fromhex(digest))
