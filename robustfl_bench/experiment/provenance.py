"""What a result comes from: the code of its parts, the data, and the rows; and whether a stored one still does."""

import ast
import hashlib
import importlib
import json
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from robustfl_bench import datasets
from robustfl_bench.config.options import flatten
from robustfl_bench.config.parts import GROUPS
from robustfl_bench.config.settings import Settings
from robustfl_bench.datasets.files import marks
from robustfl_bench.errors import DataError
from robustfl_bench.experiment import machine
from robustfl_bench.experiment.plan import Asked, Plan
from robustfl_bench.experiment.summary import results, words
from robustfl_bench.package import PACKAGE, package_digest
from robustfl_bench.results import store
from robustfl_bench.results.records import data_line
from robustfl_bench.results.writing import Damaged

if TYPE_CHECKING:  # importing torch takes over a second
    from robustfl_bench.interfaces import Data

LIBRARIES = ("site-packages", "dist-packages")  # folders in which modules of many authors lie side by side


def code(config: Mapping[str, Any]) -> dict[str, Any]:
    """The digest of this package, and for each config group with parts from outside the digest of their sources.

    A process reads each file once: what it has imported does not change when a file does.
    """
    targets = {group: _targets(config.get(group)) for group in GROUPS}
    parts = {group: _digest(names) for group, names in targets.items() if names}
    return {"package": package_digest(), "parts": parts}


def origin(planned: Plan, data: "Data") -> dict[str, Any]:
    """What was read: variant, numbers of samples, digest, and the state of the files that it was read from."""
    return data.origin | {"files": _marks(planned)}


def stamp(planned: Plan, data: "Data") -> dict[str, str]:
    """What a checkpoint belongs to."""
    made_with = json.dumps(code(planned.config), sort_keys=True)
    return {
        "run": planned.run_id,
        "code": hashlib.sha256(made_with.encode()).hexdigest(),
        "data": f"{data.variant} {data.digest}",
    }


def evaluated(settings: Settings) -> list[int]:
    """The rounds that get a row."""
    return [number for number in range(1, settings.rounds + 1) if settings.is_evaluated(number)]


def check_rows(rows: Sequence[Mapping[str, float]], settings: Settings) -> None:
    """Raise Damaged unless there is one row for each evaluated round, in their order."""
    found, expected = [row.get("round") for row in rows], evaluated(settings)
    if found != expected:
        last = f", the last of round {found[-1]:g}" if found and found[-1] is not None else ""
        raise Damaged(f"metrics.csv has {len(found)} rows{last}; expected {len(expected)}, up to {expected[-1]}")


def fault(asked: Asked, folder: store.RunFolder, summary: Mapping[str, Any]) -> str | None:
    """Why the stored result of a run is not that of this code, these data and these files; None if it is."""
    if damage := store.damage(folder.path, summary):
        return damage
    if summary["status"] == store.FINISHED:
        rows = folder.rows()
        check_rows(rows, asked.settings)
        if any(summary.get(name) != value for name, value in store.plain(results(rows)).items()):
            return "summary.json does not say what metrics.csv says"
    recorded, now = _within(summary, "code", "parts"), code(asked.config)["parts"]
    if changed := [group for group in GROUPS if recorded.get(group) != now.get(group)]:
        names = ", ".join(dict.fromkeys(name for group in changed for name in _targets(asked.config[group])))
        return f"{words(summary)} was made with other code of {' and '.join(changed)} ({names})"
    if other := _other_data(asked, _within(summary, "data")):
        return f"{words(summary)} was made of {other}"
    return None


def remark(summary: Mapping[str, Any]) -> str | None:
    """One line where a result was made with other code of this package; None if with the same."""
    then, now = _within(summary, "code").get("package"), package_digest()
    if then == now:
        return None
    names = [summary.get("commit"), machine.commit()]
    if names[0] == names[1]:
        names = [str(then)[:12], now[:12]]
    return f"made with other code of robustfl_bench: {names[0] or 'unknown'}, now {names[1]}; remove it to run it again"


def _other_data(asked: Asked, recorded: Mapping[str, Any]) -> str | None:
    """The data of a result and those of today, in words, if they differ. Where none can be loaded, they do not.

    Bundled and drawn data follow from config and code. The files of others are read only if their marks have changed.
    """
    dataset = asked.dataset
    if dataset.source is not None and (dataset.source.bundled or dataset.source.is_drawn):
        return None
    if (found := _marks(asked)) and dataset.source is not None and found == recorded.get("files"):
        return None
    try:
        import torch

        now = datasets.load(dataset, asked.settings.data_dir, torch.device("cpu")).origin
    except DataError:
        return None
    if all(recorded.get(name) == now[name] for name in ("variant", "digest")):
        return None
    return f"other data ({data_line(recorded) or 'unknown'}; now {data_line(now)})"


def _marks(asked: Asked) -> dict[str, list[int]]:
    """The state of every file of the data: of those that its source lists, and of those that its config names."""
    root = datasets.find_folder(asked.settings.data_dir)
    found = marks(asked.dataset.source, root)
    for _, value in flatten(asked.config["dataset"]):
        if isinstance(value, str) and (path := root / Path(value).expanduser()).is_file():
            state = path.stat()
            found[value] = [state.st_size, state.st_mtime_ns]
    return found


def _within(summary: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """A mapping inside a summary; empty if there is none."""
    value: Any = summary
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _targets(value: Any) -> tuple[str, ...]:
    """The classes from outside this package that a part's config names, at any depth."""
    if isinstance(value, list):
        return tuple(name for item in value for name in _targets(item))
    if not isinstance(value, Mapping):
        return ()
    own = str(value.get("_target_", ""))
    ours = not own or own.split(".")[0] in ("robustfl_bench", *sys.stdlib_module_names)
    return (*(() if ours else (own,)), *(name for item in value.values() for name in _targets(item)))


@cache
def _digest(names: tuple[str, ...]) -> str:
    """SHA-256 over the source files of classes, and of the modules beside them that they use."""
    total = hashlib.sha256()
    for path in sorted({path for name in names for path in _sources(name)}):
        total.update(path.read_bytes())
    return total.hexdigest()


def _sources(name: str) -> set[Path]:
    """The source file of a class, and those of the modules in its folder, or below it, that it imports."""
    found: set[Path] = set()
    waiting, home = {_module(name)}, None
    while waiting:
        module = waiting.pop()
        path = Path(getattr(module, "__file__", None) or "")
        home = home or path.parent
        if path.suffix == ".py" and path not in found and (not found or _belongs(path, home)):
            found.add(path)
            waiting |= _imported(module, path)
    return found


def _belongs(path: Path, home: Path) -> bool:
    """Whether a file is of the same author as those in the folder ``home``."""
    if home not in path.parents or PACKAGE in path.parents or home.name in LIBRARIES:
        return False
    return not any(part in LIBRARIES for part in path.relative_to(home).parts)


def _module(name: str) -> ModuleType:
    """The module that a class, or a method of it, is in."""
    while name := name.rpartition(".")[0]:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    raise ImportError("not a name of a class")


def _imported(module: ModuleType, path: Path) -> set[ModuleType]:
    """The modules that the source of a module names in its import statements, as far as they are loaded."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            package = (module.__package__ or "").split(".")
            above = package[: len(package) + 1 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return {found for name in names if (found := sys.modules.get(name)) is not None}
