"""``scripts/checks/cuda_check.py`` on a CPU, where every answer is right, and nothing is asked twice."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

from robustfl_bench.runner.config.options import CONF
from tests.processes import Outcome, call

SCRIPT = CONF.parent / "scripts" / "checks" / "cuda_check.py"
QUICK = ("exactness", "rules", "rounds", "bounds", "stacks")


def check(folder: Path, *arguments: str) -> Outcome:
    return call(folder, SCRIPT, "--output", str(folder), *arguments)


def answers(path: Path) -> dict[str, dict[str, str]]:
    with path.open() as file:
        return {row["case"]: row for row in csv.DictReader(file)}


def test_it_asks_in_sections_and_goes_on(tmp_path: Path) -> None:
    tiny = ("--device", "cpu", "--tiny", "--sections", *QUICK)
    begun = check(tmp_path, *tiny, "--seconds", "0")
    assert begun.code == 0 and "time is up in section exactness" in begun.out, begun.err
    (tmp_path / "rules.csv").write_text("case,value,unit,limit,verdict\nkrum,1,of it,0.1,WRONG\n")
    done = check(tmp_path, *tiny)
    assert done.code == 1, done.err
    assert done.out.splitlines()[-1] == "rules, krum: WRONG 1"  # not asked again
    rules = answers(tmp_path / "rules.csv")
    assert len(rules) > 50 and {row["verdict"] for name, row in rules.items() if name != "krum"} == {"ok"}
    times = answers(tmp_path / "bounds.csv")
    assert float(times["krum"]["value"]) > 0 and {"reading", "Gram", "Gram float32", "sort"} <= set(times)
    assert float(answers(tmp_path / "rounds.csv")["mlp, batches, CPU"]["value"]) > 0
    assert {row["unit"].split()[-1] for row in answers(tmp_path / "stacks.csv").values()} == {"shared"}
    assert answers(tmp_path / "exactness.csv")["products, highest"]["verdict"] == "ok"


def test_without_a_gpu_it_says_so(tmp_path: Path) -> None:
    refused = check(tmp_path, "--device", "cuda:7")
    assert refused.code == 2 and "device=cuda:7 but" in refused.err and "Traceback" not in refused.err


@pytest.mark.slow
def test_what_a_lent_device_will_do_is_rehearsed(tmp_path: Path) -> None:
    """Within seconds, so that the check is cut and no run is made."""
    command = ["bash", SCRIPT.with_name("fill_device.sh"), tmp_path, "0.1", "cpu", "karimireddy/clipping"]
    python = {"PYTHON": sys.executable, "PYTHONPATH": str(CONF.parent)}
    done = subprocess.run(command, env={**os.environ, **python}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert answers(tmp_path / "answers" / "exactness.csv") and "values: a paper's cell" in done.stderr
    assert "rules" in done.stdout and not (tmp_path / "filled.csv.gz").exists()
