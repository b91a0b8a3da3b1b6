"""robustfl-data partition: the table, the file that a run reads back, the picture, and its errors."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from robustfl_bench.commands.data import main
from robustfl_bench.read.pages.pictures.canvas import WIDTHS
from robustfl_bench.read.pages.split import draw_split
from robustfl_bench.runner.experiment.split import Split, distances_from_all, effective_classes, gini
from tests.conftest import Bench, contents, run_folders

ATTACKED = ("attack=label_flip", "byzantine_placement=replace", "num_clients=8", "num_byzantine=2")
TINY = ("rounds=2", "model.hidden=[8]", "batch_size=16")


def example(byzantine: frozenset[int] = frozenset(), added: int = 0, clients: int = 4, classes: int = 3) -> Split:
    """Client i has 2 i + 2 samples, all of class i modulo ``classes``."""
    owner = np.repeat(np.arange(clients), 2 * np.arange(clients) + 2)
    shards = [np.flatnonzero(owner == client) for client in range(clients)]
    return Split("example", shards, owner % classes, classes, len(owner), byzantine, added)


def test_skew_by_hand() -> None:
    counts = np.array([[6, 0, 0], [0, 2, 2], [2, 2, 2]])
    np.testing.assert_allclose(effective_classes(counts), [1, 2, 3])
    np.testing.assert_allclose(distances_from_all(counts), [0.5, 0.5, 1 / 6])
    assert gini(np.array([5, 5, 5])) == pytest.approx(0)
    assert gini(np.array([0, 0, 0, 8])) == pytest.approx(3 / 4)
    assert gini(np.array([3, 1])) == pytest.approx(1 / 4)


def test_the_report_has_a_line_for_each_client_and_says_who_attacks() -> None:
    lines = example(frozenset({1, 3})).report().splitlines()
    assert [line.split() for line in lines[:5]] == [
        ["client", "samples", "0", "1", "2", "classes", "TV"],
        ["0", "2", "2", "0", "0", "1.0", "0.50"],
        ["1", "Byzantine", "4", "0", "4", "0", "1.0", "0.80"],
        ["2", "6", "0", "0", "6", "1.0", "0.70"],
        ["3", "Byzantine", "8", "8", "0", "0", "1.0", "0.50"],
    ]
    assert lines[5] == "example: 20 samples over 4 clients"
    assert lines[6] == "sizes: 2 to 8, median 5, Gini 0.250"
    assert "1.00 effective classes per client" in lines[7] and "TV 0.625" in lines[7]
    assert lines[8] == "Byzantine: 2 of 4 clients with 60.0% of the samples: 1, 3"
    assert example(added=4).report().endswith("Byzantine: 4 clients more, which hold no samples")
    assert len(example(classes=60).report().splitlines()[0]) < 60  # too many classes for columns


@pytest.mark.parametrize("options", [(), ("validation_share=0.1", "seed=3")], ids=["whole", "held out"])
def test_a_run_from_the_written_file_has_the_same_metrics(
    bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    overrides = (*ATTACKED, *TINY, *options, "partition=dirichlet", "partition.alpha=0.5")
    path = tmp_path / "split.csv"
    assert main(["partition", *overrides, "--output", str(path), "aggregator=coomed"]) == 0
    assert f"{path}: partition=from_file" in capfd.readouterr().out
    assert bench(*overrides, "results_dir=drawn").code == 0
    read = bench(*overrides[:-2], "partition=from_file", f"partition.path={path}", "results_dir=read")
    assert read.code == 0, read.err
    drawn, again = (contents(tmp_path / name, "metrics.csv", "weights.csv") for name in ("drawn", "read"))
    assert list(drawn.values()) == list(again.values()) and len(drawn) == 2
    rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
    (weights,) = (tmp_path / "drawn" / "runs").glob("*/weights.csv")
    attackers = {name.split("_")[1] for name in weights.read_text().splitlines()[0].split(",") if "byzantine" in name}
    assert {row[1] for row in rows if row[3] == "1"} == attackers


def test_a_changed_file_is_another_run_and_a_moved_one_is_the_same(bench: Bench, tmp_path: Path) -> None:
    rows = ["sample,client", *(f"{sample},{sample % 8}" for sample in range(400))]
    asked = ("partition=from_file", *ATTACKED, *TINY)
    (tmp_path / "partition.csv").write_text("\n".join(rows))
    assert bench(*asked).out.startswith("result")
    (tmp_path / "partition.csv").rename(tmp_path / "moved.csv")
    assert bench(*asked, "partition.path=moved.csv").out.startswith("stored result")
    (folder,) = run_folders(tmp_path / "results").values()
    (tmp_path / "moved.csv").write_text("\n".join(rows[:-1]))
    assert bench(*asked, "partition.path=moved.csv").out.startswith("result")
    assert len(run_folders(tmp_path / "results")) == 2
    changed = bench(f"rerun={folder}", "partition.path=moved.csv", "seed=1")
    assert changed.code == 3 and "but the run is of" in changed.err and changed.err.count("\n") == 1
    missing = bench(*asked)
    assert missing.code == 3 and "partition.csv: the partition cannot be read" in missing.err
    assert missing.err.count("\n") == 1 and len(run_folders(tmp_path / "results")) == 2


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["partition=dirichlt"], 2, "unknown partition 'dirichlt' (did you mean dirichlet or mild_dirichlet?)"),
        (["partition.alpha=1"], 2, "no setting 'partition.alpha'"),
        (["seed"], 2, "an override is KEY=VALUE, got 'seed'"),
        (["partition=step", "partition.alpha=0"], 2, "alpha must be >= 1, got 0"),
        (["partition=fang", "num_clients=5000"], 2, "1437 samples cannot be split over 5000 clients"),
        (["dataset=mnist", "data_dir=nothing"], 3, "nothing"),
        (["partition=from_file", "partition.path=no.csv"], 3, "no.csv: the partition cannot be read"),
        (["--output", "x.csv", "--picture", "split.jpg"], 2, "--picture must end in .png, .pdf, .svg, got 'split.jpg'"),
        (["--output", "split.txt"], 2, "--output must end in .csv, got split.txt"),
        (["--output", "/dev/null/split.csv"], 2, "cannot write /dev/null/split.csv: "),
        (["dataset=linear_mixture", "partition=natural", "model=linear_regression", "dataset.num_clients=20",
          "--output", "x.csv"], 2, "partition=from_file needs data with classes"),
    ],
)  # fmt: skip
def test_errors_take_one_line(
    arguments: list[str],
    code: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["partition", *arguments]) == code
    err = capfd.readouterr().err
    assert message in err and err.startswith("robustfl-data: ") and err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_unknown_options_are_refused(capfd: pytest.CaptureFixture[str]) -> None:
    for arguments in (["partition", "-m", "seed=0,1"], ["list", "seed=1"]):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == 2 and "unrecognized arguments" in capfd.readouterr().err


def test_options_of_one_s_own_are_found(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "partition").mkdir()
    (tmp_path / "partition" / "mine.yaml").write_text("_target_: robustfl_bench.partitions.Fang\nq: 1\n")
    assert main(["partition", "partition=mine", "num_clients=10", "--config-dir", str(tmp_path)]) == 0
    out = capfd.readouterr().out
    assert "digits, partition=mine, seed 0: 1437 samples over 10 clients" in out and "1.00 effective classes" in out


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_a_picture_is_written(suffix: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"split.{suffix}"
    assert main(["partition", "partition=fang", "--picture", str(path)]) == 0
    assert capfd.readouterr().out.rstrip().endswith(str(path)) and path.stat().st_size > 5000


def test_a_picture_shows_every_count_and_who_attacks() -> None:
    split = example(frozenset({1, 3}))
    figure = draw_split(split)
    assert figure.get_figwidth() == WIDTHS["column"]
    top, rows = figure.axes
    assert [bar.get_height() for bar in top.patches] == [2, 4, 6, 8]
    colours = [bar.get_facecolor() for bar in top.patches]
    assert colours[0] == colours[2] != colours[1] == colours[3]
    (marks,) = top.lines
    assert marks.get_xdata().tolist() == [1, 3]
    (bars,) = (found for found in rows.collections if len(found.get_paths()) == 4 and found.get_facecolor().any())
    boxes = {tuple(np.round(path.get_extents().bounds, 3)) for path in bars.get_paths()}
    assert boxes == {
        (client - 0.45, client % 3 - 0.5, 0.9, round(0.9 * (2 * client + 2) / 8, 3)) for client in range(4)
    }
    assert len(draw_split(Split("t", split.shards, None, 0, 20, frozenset(), 0)).axes) == 1  # no classes: sizes alone


def test_a_picture_has_names_where_the_data_give_them_and_room_for_few_classes() -> None:
    split = replace(example(classes=2), classes=("no", "yes"), clients=("A", "B$", "C", "D"))
    rows = draw_split(split).axes[1]
    names = [[label.get_text() for label in labels] for labels in (rows.get_yticklabels(), rows.get_xticklabels())]
    assert names == [["no", "yes"], ["A", r"B\$", "C", "D"]]
    figure = draw_split(example(classes=2))
    figure.canvas.draw()
    top, below = (axis.yaxis.label.get_window_extent() for axis in figure.axes)
    assert below.y1 <= top.y0, "labels do not overlap"
