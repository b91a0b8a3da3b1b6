"""Random commands: some of those that ``scripts/checks/fuzz_config.py`` tries."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "checks" / "fuzz_config.py"


def fuzz(*arguments: str, start: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(SCRIPT.parents[2]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, *start, str(SCRIPT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path}, timeout=600)


def test_random_commands_make_a_run_or_are_refused_in_one_line() -> None:
    done = fuzz("--count", "100", "--seed", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    counts = {words[1]: int(words[0]) for line in done.stdout.splitlines()[1:] if (words := line.split(maxsplit=1))}
    assert counts["findings"] == 0
    assert min(counts["finished"], counts["refused"], counts["identities compared"]) >= 20, "it tries both"


def test_the_fuzz_finds_what_is_planted() -> None:
    """Here every plan fails with an error that is not the user's."""
    planted = (
        "import runpy, sys; from robustfl_bench.experiment import execute; "
        "execute.plan = lambda cfg: {}['planted']; runpy.run_path(sys.argv.pop(1), run_name='__main__')"
    )
    done = fuzz("--count", "12", "--seed", "1", start=("-c", planted))
    assert done.returncode == 1 and "FINDING" in done.stdout, done.stdout + done.stderr
