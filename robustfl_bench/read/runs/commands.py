"""The commands for runs that a table lacks."""

from __future__ import annotations

import shlex
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.read.runs import asking
from robustfl_bench.runner.config import stored

_RESULTS = "results"


def rerun(folder: str, changes: Iterable[str] = (), seeds: Sequence[str] = ()) -> str:
    """The command that runs the config of a run folder again, with some settings changed; empty without a folder."""
    if not _is_folder(folder):
        return ""
    changes = list(changes)
    words = [f"rerun={folder}", *changes, *_allowance("rerun", [folder], changes), *_beside(folder)]
    return _command([*words, *_seeds(seeds)], sweep=len(seeds) > 1)


def again(run: Mapping[Hashable, Any]) -> str:
    """The command for a row of ``records.load``, from its settings; empty if these make another run with today's
    options."""
    words = asking.overrides(run)
    return _command(words, sweep=False) if words else ""


def reference(folders: Sequence[str]) -> str:
    """The command for the runs that the recalls of these runs are compared with; empty without folders."""
    known = [folder for folder in folders if _is_folder(folder)]
    if not known:
        return ""
    words = [f"reference={','.join(known)}", *_allowance("reference", known), *_beside(known[0])]
    return _command(words, sweep=len(known) > 1)


def run(overrides: Iterable[str], seeds: Sequence[str] = (), results_dir: str = _RESULTS) -> str:
    """The command for the runs with these overrides."""
    return _command([*overrides, *_results(results_dir), *_seeds(seeds)], sweep=len(seeds) > 1)


def preset(name: str, overrides: Iterable[str] = (), results_dir: str = _RESULTS) -> str:
    """The command for all runs of a preset."""
    return _command([f"+experiment={name}", *overrides, *_results(results_dir)], sweep=True)


def _command(words: Sequence[str], sweep: bool) -> str:
    return shlex.join(["robustfl-bench", *(["-m"] if sweep else []), *words])


def _allowance(form: str, folders: Iterable[str], changes: Iterable[str] = ()) -> list[str]:
    try:
        return stored.allowance(form, folders, changes)
    except ConfigError:  # of a damaged config
        return []


def _seeds(seeds: Sequence[str]) -> list[str]:
    return [f"seed={','.join(seeds)}"] if seeds else []


def _is_folder(folder: str) -> bool:
    """Whether a run has a folder; runs from a CSV have none."""
    return Path(folder).is_dir()


def _beside(folder: str) -> list[str]:
    """The override, if any, that puts a run into the results folder of this run folder."""
    return _results(str(Path(folder).parent.parent))


def _results(folder: str) -> list[str]:
    return [f"results_dir={folder}"] if folder != _RESULTS else []
