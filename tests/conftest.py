"""The command as a user calls it, in this process; ``processes.py`` starts it in one of its own, to be killed."""

import gc
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from robustfl_bench.commands import entry
from robustfl_bench.commands import results as results_cli
from robustfl_bench.read.runs import archive
from robustfl_bench.runner.store import sealed
from tests.processes import Outcome, fork_from_preloaded

OF_KEPT_RUNS = {"test_facts.py", "test_claims.py", "test_reasons.py", "test_arena_views.py", "test_site.py"}
gc.set_threshold(200_000, 20, 20)  # as in robustfl-results: tests and tables of many runs make much that stays
# A script that starts the tests with & has them, and so the commands that they start, ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_xdist_auto_num_workers() -> int:
    """Slow tests wait for other processes a third of their time."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Slow tests come first, so that no worker is left alone with one at the end.

    Each worker begins with a block of the list, as long as the others; the files with slow tests are dealt out to them.
    Those that read the same tables of kept runs are in one hand, so that these are made once.
    """
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    shared = [item for item in items if item.path.name in OF_KEPT_RUNS]
    rest = [item for item in items if item.path.name not in OF_KEPT_RUNS]
    slow = [item for item in rest if item.get_closest_marker("slow")]
    others = [item for item in rest if not item.get_closest_marker("slow")]
    hands = [shared, *(list[pytest.Item]() for _ in range(1, workers))]
    for number, (_, of_file) in enumerate(groupby(slow, key=lambda item: item.path)):
        hands[(number + 1) % workers] += of_file
    items.clear()
    for left, hand in zip(range(workers, 0, -1), hands, strict=True):
        room = max(0, (len(others) + sum(map(len, hands[-left:]))) // left - len(hand))
        items += hand + others[:room]
        del others[:room]


@pytest.fixture(scope="session", autouse=True)
def _preloaded() -> None:
    """Where all tests are run, begin what those that start processes wait for."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        fork_from_preloaded()


@pytest.fixture(scope="session", autouse=True)
def _kept_runs_are_read_once() -> Iterator[None]:
    """A command reads those of the arena in five seconds; one process of tests plays many commands, which get the same
    table, and with it what was read of it; none may have changed it."""
    read = archive.kept
    tables = list[tuple[pd.DataFrame, dict[str, int]]]()

    @cache
    def known(arena: bool, folders: tuple[str, ...], *files: tuple[Path, int]) -> pd.DataFrame:
        table = read(arena, folders)
        tables.append((table, _summary(table)))
        return table

    def kept(arena: bool = False, folders: Collection[str] = ()) -> pd.DataFrame:
        return known(arena, tuple(folders), *((path, path.stat().st_mtime_ns) for path in archive.files()))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive, "kept", kept)
        yield
    for table, summary in tables:
        assert _summary(table) == summary, "a test or a command has changed the kept runs"


def _summary(table: pd.DataFrame) -> dict[str, int]:
    """A digest of each column of a table: of its memory, that is of numbers and of which other values it has where."""
    in_memory = {name: getattr(column.dtype, "storage", "") != "pyarrow" for name, column in table.items()}
    return {str(name): hash(column.to_numpy().tobytes()) if in_memory[name]
            else int(pd.util.hash_pandas_object(column).sum()) for name, column in table.items()}  # fmt: skip


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


def only_run(folder: Path) -> Path:
    """The folder of the only run."""
    (path,) = run_folders(folder).values()
    return path


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
