"""What a bridge asks of the code of one side, before or after an edit, in a process of that side alone.

    python side.py PACKAGE TASK GIVEN ANSWER

``PACKAGE`` is the folder of the package of that side, GIVEN and ANSWER are pickled files. This module names no module
of the package, as an edit may move them: it looks for the functions that it calls.
"""

import hashlib
import importlib
import json
import pickle
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

SWEEP = "-m"
"""Begins the overrides of a sweep, whose runs may be trained together."""

FILES = ("metrics.csv", "weights.csv")


def function(package: Path, name: str, file: str) -> Callable[..., Any]:
    """The function of a name, in the only file of this name that defines it."""
    (home,) = (path for path in package.rglob(file) if f"\ndef {name}(" in path.read_text(encoding="utf-8"))
    module = importlib.import_module(".".join(home.relative_to(package.parent).with_suffix("").parts))
    defined: Callable[..., Any] = getattr(module, name)
    return defined


def units(package: Path, texts: Sequence[str]) -> tuple[dict[bytes, bytes], dict[str, bytes]]:
    """In which of the configs each unit of code takes part, and each class with all its methods: a byte for each.

    ``texts`` have the public names that the configs name.
    """
    closure_of = function(package, "closure_of", "code_digest.py")
    in_units: dict[bytes, bytearray] = {}
    in_wholes: dict[str, bytearray] = {}
    for place, text in enumerate(texts):
        closure = closure_of(text)
        for unit in closure.units:
            in_units.setdefault(unit.named, bytearray(len(texts)))[place] = 1
        for name in getattr(closure, "wholes", ()):
            in_wholes.setdefault(name, bytearray(len(texts)))[place] = 1
    return {unit: bytes(places) for unit, places in in_units.items()}, {
        name: bytes(places) for name, places in in_wholes.items()
    }


def answered(package: Path, paths: Sequence[str]) -> set[tuple[str, str]]:
    """The file and the id of each kept run that this code answers."""
    outdated, read = function(package, "outdated", "origins.py"), function(package, "read", "archive.py")
    current = set()
    for path in paths:
        kept = read(
            path, True
        )  # seals of an older version count with the index beside them, which only today's code sees
        current |= {(path, run_id) for run_id in kept.loc[~outdated(kept) & kept["code"].notna(), "run_id"]}
    return current


def runs(package: Path, asked: tuple[Sequence[Sequence[str]], str]) -> list[dict[str, Any]]:
    """The ends of runs, each given by its overrides; they are made in a folder."""
    front = importlib.import_module(package.name)
    ends = []
    for place, overrides in enumerate(asked[0]):
        folder = Path(asked[1]) / str(place)
        try:
            if overrides[0] == SWEEP:
                front.sweep(*overrides[1:], results_dir=folder)
                folders = sorted((folder / "runs").iterdir())
            else:
                folders = [front.run(*overrides, results_dir=folder).path]
            ends.append(_end(folders))
        except Exception as error:
            ends.append({"status": f"{type(error).__name__}: {str(error).replace(str(folder), '')}"})
        print(f"\r{place + 1} of {len(asked[0])} runs", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return ends


def _end(folders: Sequence[Path]) -> dict[str, Any]:
    """The digests of the files of runs with numbers, and of their models, and facts of the last."""
    hashes = {name: hashlib.sha256() for name in (*FILES, "model")}
    for folder in folders:
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        hashes["model"].update(f"{summary.get('model_sha256')} {summary.get('error')}".encode())
        for name in FILES:
            hashes[name].update((folder / name).read_bytes() if (folder / name).exists() else b"")
    digests = {name: total.hexdigest() for name, total in hashes.items()}
    return digests | {name: summary.get(name) for name in ("status", "processor", "versions", "final")}


def main() -> None:
    """Do one task."""
    package, task, given, answer = sys.argv[1:]
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(Path(package).parent))
    done = {"units": units, "answered": answered, "runs": runs}[task]
    Path(answer).write_bytes(pickle.dumps(done(Path(package), pickle.loads(Path(given).read_bytes()))))


if __name__ == "__main__":
    main()
