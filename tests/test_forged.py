"""Results with right seals that no run can have: tables, reports and `remake` refuse them, with their file."""

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from robustfl_bench.read.runs import archive, records
from robustfl_bench.runner.store import folders, kept, results
from tests.conftest import Bench, contents, only_run, run_cli

SMALL = ("aggregator=krum", "attack=ipm", "num_byzantine=1", "num_clients=6", "rounds=3", "model.hidden=[4]")


RULES = "robustfl_bench.aggregators"


def change(folder: Path, change_config: Callable[[Any], object], change_summary: Callable[[Any], object]) -> None:
    """Change the config and the summary of a run folder, and seal both again."""
    config = yaml.safe_load((folder / "config.yaml").read_text())
    summary = json.loads((folder / "summary.json").read_text())
    change_config(config)
    change_summary(summary)
    (folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    summary["files"] = folders.recorded(folder)
    (folder / "summary.json").write_text(json.dumps(folders.seal(summary)))


def rewrite(folder: Path, old: str, new: str) -> None:
    """Change the last row of the metrics, and all that the summary says of it."""
    file = folder / "metrics.csv"
    rows = list(csv.DictReader(file.read_text().splitlines()))
    rows[-1][old] = new
    file.write_text("\n".join(",".join(row) for row in [rows[0], *(row.values() for row in rows)]) + "\n")
    result = results.of_rows([{name: float(text) for name, text in row.items()} for row in rows])
    change(folder, nothing, lambda summary: summary.update(folders.plain(result)))


def nothing(_: Any) -> None:
    """Leave it as it is."""


FOLDERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "final": (
        lambda folder: change(folder, nothing, lambda summary: summary["final"].update(test_accuracy=0.99)),
        "summary.json does not say what metrics.csv says",
    ),
    "range": (
        lambda folder: rewrite(folder, "test_accuracy", "7.5"),
        "metrics.csv: test_accuracy must be in 0..1, got 7.5",
    ),
    "count": (lambda folder: rewrite(folder, "honest_dropped", "-2"), "honest_dropped must be at least 0, got -2"),
    "rounds": (lambda folder: rewrite(folder, "round", "2"), "metrics.csv ends in round 2 of 3"),
    "id": (
        lambda folder: change(folder, lambda config: config.update(lr=0.9), nothing),
        "its config.yaml is that of run",
    ),
    "label": (
        lambda folder: change(folder, nothing, lambda summary: summary["choices"].update(aggregator="coomed")),
        f"summary.json: aggregator=coomed is {RULES}.CooMed, but its config builds {RULES}.Krum",
    ),
}


@pytest.mark.parametrize("what", FOLDERS)
def test_a_forged_folder_is_no_result(
    bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str], what: str
) -> None:
    assert bench(*SMALL).code == 0
    genuine = contents(tmp_path / "results")
    folder = only_run(tmp_path / "results")
    forge, message = FOLDERS[what]
    forge(folder)
    run = records.load(tmp_path / "results").iloc[0]
    assert run["state"] == "damaged" and message in run["error"], run["error"]
    for command in (["table"], ["report", "--output", "r.html"]):
        code, _, errors = run_cli(capfd, *command, "--results-dir", tmp_path / "results")
        assert code == 3 or "1 damaged" in errors
    again = bench(*SMALL)
    assert again.out.startswith("result: ")
    if what == "id":  # it is the folder of no run
        folder.rename(tmp_path / folder.name)
    else:
        assert "stored result not used: " in again.err
        assert contents(tmp_path / "results") == genuine


@pytest.fixture(scope="module")
def genuine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of one run."""
    from robustfl_bench import run

    folder = tmp_path_factory.mktemp("genuine")
    run(*SMALL, results_dir=folder)
    archive.write(records.load(folder), str(folder / "runs.csv"))
    return folder / "runs.csv"


LINES = {
    "final_accuracy": ("7.5", "final_accuracy must be in 0..1, got 7.5"),
    "best_accuracy": ("0", "its best accuracy, 0, is below its last one"),
    "recall": ("0.5 1.5", "recall must be in 0..1, got 1.5"),
    "last.honest_dropped": ("-2", "honest_dropped must be at least 0, got -2"),
    "seconds": ("long", "seconds must be a number, got 'long'"),
    "lr": ("0.9", "its settings are those of run"),
    "aggregator._target_": (f"{RULES}.CooMed", f"aggregator=krum is {RULES}.Krum, but"),
    "aggregator": ("coomed", f"aggregator=coomed is {RULES}.CooMed, but"),
}  # fmt: skip


@pytest.mark.parametrize("name", LINES)
def test_a_forged_line_is_refused_with_its_file(
    bench: Bench, genuine: Path, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    (line,) = csv.DictReader(genuine.read_text().splitlines())
    value, message = LINES[name]
    forged = {key: text for key, text in line.items() if key != kept.SEAL} | {name: value, "code": "0" * 12}
    with open("forged.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*forged, kept.SEAL])
        writer.writerow([*forged.values(), kept.sealer(forged)(forged.values())])
    for verb in (["table", "--from", "forged.csv"], ["report", "--from", "forged.csv"]):
        code, _, errors = run_cli(capfd, *verb)
        assert code == 3 and "forged.csv: the line of digits-" in errors and message in errors, errors
    bench("remake", "forged.csv", "--dry-run").refused(3, "forged.csv: the line of digits-", message)


def some_lines(path: Path) -> Iterator[list[str]]:
    """The header and each 200th line of a kept file, and its last one."""
    header, *rows = kept.content(path)[0].decode().splitlines()
    yield from csv.reader([header, *rows[::200], rows[-1]])


def test_no_kept_line_is_refused() -> None:
    paths = [path for file in kept.files() for path in kept.index_of(kept.FOLDER).parts(file)]
    assert len(paths) > 40
    for path in paths:
        header, *rows = some_lines(path)
        assert results.fault_of_lines(dict(zip(header, zip(*rows, strict=True), strict=True))) is None, path


def test_a_word_that_looks_like_a_number_keeps_its_id(bench: Bench) -> None:
    Path("a.csv").write_text("".join(f"{i},{i % 7},{i % 2}\n" for i in range(60)))
    asked = ("dataset=arrays", "dataset.path=a.csv", "dataset.label='2'", "partition=iid", "num_clients=4", "rounds=1")
    assert bench(*asked, "model.hidden=[4]").code == 0
    archive.write(records.load("results"), "runs.csv")
    assert list(archive.read("runs.csv")["state"]) == ["finished"]
