"""A sweep whose writing fails at any call stops in one line; repeated, it ends with the bytes of an undisturbed one."""

import signal
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import Bench, contents
from tests.faults import inject, kill_at
from tests.processes import start

SWEEP = (
    "-m", "rounds=4", "num_clients=4", "num_byzantine=1", "partition=iid", "model.hidden=[4]", "attack=ipm",
    "aggregator=geomed,coomed", "checkpoint_seconds=0",
)  # fmt: skip
CALLS = (1, 2, 3, 4, 5, 6, 7, 9, 11, 13, 15)
"""The calls that fail, one in each attempt of the sweep, which goes on from the one before."""

KILLS = (2, 5, 17, 9, 18, 20, 12)
"""The same for kills. Every few of them come after a checkpoint: five in a row without one give the run up."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of an undisturbed sweep."""
    folder = tmp_path_factory.mktemp("whole")
    command = start(folder, *SWEEP)
    _, errors = command.communicate()
    assert command.poll() == 0, errors
    return contents(folder / "results")


def since(fault: str, first: int, call: int) -> str | None:
    """A fault that lasts, from the call ``first`` on: one that passes is overcome."""
    return fault if call >= first else None


def left_behind(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.name.startswith(".claim") or path.name == "checkpoint.pt"]


@pytest.mark.parametrize("fault", ["eio", "enospc", "short"])
def test_a_sweep_goes_on_from_whichever_write_failed(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: dict[str, bytes], fault: str
) -> None:
    for first in CALLS:
        with monkeypatch.context() as patched:
            inject(partial(since, fault, first), partial(patched.setattr, raising=False))
            outcome = bench(*SWEEP)
        assert outcome.code == 1
        (line,) = [line for line in outcome.err.splitlines() if line.startswith("error: ")]
        remedy = "check the disk or the connection to it" if fault == "eio" else "free space for it"
        assert "cannot write results/" in line and remedy in line
    assert bench(*SWEEP).code == 0
    assert contents(tmp_path / "results") == whole and not left_behind(tmp_path)


def test_errors_that_pass_end_no_sweep(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: dict[str, bytes]
) -> None:
    with monkeypatch.context() as patched:
        numbers = inject(lambda call: "eio" if call % 7 == 0 else None, partial(patched.setattr, raising=False))
        outcome = bench(*SWEEP)
    assert outcome.code == 0 and "error" not in outcome.err and next(numbers) > 60
    assert contents(tmp_path / "results") == whole and not left_behind(tmp_path)


def test_a_sweep_goes_on_from_whichever_write_it_was_killed_in(tmp_path: Path, whole: dict[str, bytes]) -> None:
    for call in KILLS:
        command = start(tmp_path, *SWEEP, first=partial(kill_at, call))
        _, errors = command.communicate()
        assert command.poll() == -signal.SIGKILL, errors
    command = start(tmp_path, *SWEEP)
    _, errors = command.communicate()
    assert command.poll() == 0 and "starts again" not in errors, errors
    assert contents(tmp_path / "results") == whole and not left_behind(tmp_path)
