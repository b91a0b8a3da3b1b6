"""The command as a user calls it, in this process; ``processes.py`` starts it in one of its own, to be killed."""

import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from robustfl_bench.commands import entry
from robustfl_bench.commands import results as results_cli
from robustfl_bench.store import sealed


def pytest_xdist_auto_num_workers() -> int:
    """Slow tests wait for other processes a third of their time."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests come first, so that no worker is left alone with one at the end."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@dataclass(frozen=True)
class Outcome:
    """Exit code and what was printed."""

    code: int
    out: str
    err: str


Bench = Callable[..., Outcome]


@pytest.fixture
def bench(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Bench:
    """Call ``robustfl-bench`` with overrides in an empty working directory, ``tmp_path``, and without the
    announcements of other runs on the machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("machine")))
    monkeypatch.delenv("ROBUSTFL_DATA", raising=False)

    def call(*overrides: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["robustfl-bench", *overrides])
        code = 0
        try:
            entry.bench()
        except SystemExit as stop:
            code = int(stop.code or 0)
        printed = capfd.readouterr()
        return Outcome(code, printed.out, printed.err)

    return call


def run_folders(folder: Path) -> dict[str, Path]:
    """Run folders by name."""
    return {path.name: path for path in sorted((folder / "runs").glob("*")) if path.is_dir()}


def contents(folder: Path, *names: str) -> dict[str, bytes]:
    """Bytes of the deterministic files of every run, by run and file."""
    names = names or ("metrics.csv", "config.yaml")
    return {f"{run}/{name}": (path / name).read_bytes() for run, path in run_folders(folder).items() for name in names}


def state_of(checkpoint: Path) -> dict[str, Any]:
    """The state in a checkpoint file."""
    content = sealed.load(checkpoint, {})
    assert content is not None
    state: dict[str, Any] = content["state"]
    return state


def config_of(path: Path) -> dict[str, object]:
    """The resolved config of a run folder."""
    loaded = yaml.safe_load((path / "config.yaml").read_text())
    assert isinstance(loaded, dict)
    return loaded


def run_cli(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    """Call ``robustfl-results``: exit code, standard output and standard error."""
    try:
        code = results_cli.main([str(argument) for argument in arguments])
    except SystemExit as left:
        code = int(str(left.code))
    captured = capsys.readouterr()
    return code, captured.out, captured.err
