"""Random commands: some of those that ``scripts/checks/fuzz_config.py`` tries."""

from pathlib import Path

import pytest

from robustfl_bench.runner.experiment import plan
from tests.processes import call

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "checks" / "fuzz_config.py"


def test_random_commands_make_a_run_or_are_refused_in_one_line(tmp_path: Path) -> None:
    done = call(tmp_path, SCRIPT, "--count", "100", "--seed", "1")
    assert done.code == 0, done.out + done.err
    counts = {words[1]: int(words[0]) for line in done.out.splitlines()[1:] if (words := line.split(maxsplit=1))}
    assert counts["findings"] == 0
    assert min(counts["finished"], counts["refused"], counts["identities compared"]) >= 20, "it tries both"


def plant() -> None:
    """Every plan of this process fails with an error that is not the user's."""
    plan.Request.check = lambda _: {}["planted"]  # type: ignore[index]


def test_the_fuzz_finds_what_is_planted(tmp_path: Path) -> None:
    done = call(tmp_path, SCRIPT, "--count", "12", "--seed", "1", first=plant)
    assert done.code == 1 and "FINDING" in done.out, done.out + done.err
