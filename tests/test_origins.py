"""What is said above a table of the data, the code and the machines behind its numbers."""

import json
from pathlib import Path

import pandas as pd
import pytest

from robustfl_bench.read.runs import archive, records
from robustfl_bench.read.runs.origins import origins, other_code
from robustfl_bench.runner.store import folders
from tests.conftest import run_cli, run_folders
from tests.processes import start

SMALL = ("-m", "rounds=1", "model.hidden=[4]", "num_clients=6", "aggregator=average,coomed", "attack=none")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    command = start(tmp_path, *SMALL)
    _, errors = command.communicate()
    assert command.returncode == 0, errors
    return tmp_path / "results"


def change(folder: Path, **values: object) -> None:
    path = folder / "summary.json"
    path.write_text(json.dumps(folders.seal(json.loads(path.read_text()) | values)))


def test_data_stand_above_a_table_and_code_of_today_needs_no_word(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run_cli(capsys, "table", "--results-dir", results)
    lines = out.splitlines()
    assert code == 0 and sum(line.startswith("data: ") and "1437 + 360 samples, digest" in line for line in lines) == 1
    assert "other code" not in out and "kinds of machine" not in out


def test_other_code_other_data_and_other_machines_are_counted(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = run_folders(results).values()
    change(first, code={"package": "0" * 64, "parts": {}}, processor="Abacus")
    change(second, data={"variant": "subset", "train_samples": 8, "test_samples": 2, "digest": "f" * 64})
    lines = origins(records.load(results))
    assert lines[0].count("(1 run)") == 2 and "subset, 8 + 2 samples, digest ffffffffffff" in lines[0]
    assert lines[1] == "of 2 runs, 1 with other code than today's"
    assert lines[2].startswith("made on different kinds of machine: ") and "Abacus" in lines[2]
    kept = tmp_path / "kept.csv"
    _, out, _ = run_cli(capsys, "export", "--summary", kept, "--results-dir", results)
    assert "of 2 runs, 1 with other code than today's" in out
    runs = archive.read(str(kept))
    assert sorted(origins(runs)) == sorted(lines), "a kept file says the same"
    infeasible = runs.assign(state="infeasible", data=None)
    assert sorted(origins(pd.concat([runs, infeasible], ignore_index=True))) == sorted(lines), "it has read no data"
    assert not origins(infeasible)


def test_the_digests_of_generated_data_are_counted(results: Path) -> None:
    runs = records.load(results)
    for seeds, told in ((3, "; ".join(f"generated, 8 + 2 samples, digest {n} (2 runs)" for n in range(3))),
                        (4, "generated, 8 + 2 samples, 4 digests")):  # fmt: skip
        made = [runs.assign(data=f"generated, 8 + 2 samples, digest {n}") for n in range(seeds)]
        assert origins(pd.concat(made, ignore_index=True))[0] == f"data: {told}"


def test_what_older_runs_do_not_record_is_said(results: Path) -> None:
    for folder in run_folders(results).values():
        summary = json.loads((folder / "summary.json").read_text())
        (folder / "summary.json").write_text(
            json.dumps(folders.seal({k: v for k, v in summary.items() if k not in ("code", "data")}))
        )
    runs = records.load(results)
    assert origins(runs)[0] == "data: not recorded"
    assert other_code(runs) == "of 2 runs, 2 with code that is not recorded"
