"""Trackers follow a run and change nothing of it; the adapters are read back with what the real packages write."""

import builtins
import importlib.util
import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from robustfl_bench.base import errors
from robustfl_bench.interfaces import Tracked, Tracker, Tracking
from tests.conftest import Bench, config_of, contents, only_run

SMALL = ("rounds=4", "num_clients=6", "model.hidden=[4]")
HERE = "tests.test_trackers"
TOLD: list[tuple[str, Any]] = []


@dataclass(frozen=True)
class Diary(Tracker):
    """Writes down what it is told; raises ``error`` at one point, with what is known then."""

    fails_at: str | None = None
    round: int = 2
    error: str = "RuntimeError"

    def begin(self, run: Tracked) -> Tracking:
        self.tell("begin", run)
        return Page(self)

    def tell(self, point: str, what: Any) -> None:
        TOLD.append((point, what))
        if point == self.fails_at and (point != "record" or what[0] == self.round):
            raise getattr(builtins, self.error)("no\nnetwork")


@dataclass
class Page:
    diary: Diary

    def record(self, round: int, numbers: Mapping[str, float]) -> None:
        self.diary.tell("record", (round, dict(numbers)))
        numbers.clear()  # type: ignore[attr-defined]

    def end(self, summary: Mapping[str, Any] | None) -> None:
        self.diary.tell("end", summary)


@pytest.fixture(autouse=True)
def _empty_diary() -> None:
    TOLD.clear()


def diary(*settings: str, name: str = "diary") -> list[str]:
    return [f"+tracker.{name}.{setting}" for setting in (f"_target_={HERE}.Diary", *settings)]


def test_a_tracker_gets_the_run_then_each_row_then_the_summary(bench: Bench, tmp_path: Path) -> None:
    assert bench(*SMALL, "eval_every=2", *diary()).code == 0
    folder = only_run(tmp_path / "results")
    (begun, run), *records, (ended, summary) = TOLD
    assert (begun, ended) == ("begin", "end")
    assert run == Tracked(folder.name[-12:], folder.name, config_of(folder), folder, 0)
    header, *rows = [line.split(",") for line in (folder / "metrics.csv").read_text().splitlines()]
    assert [point for point, _ in records] == ["record"] * 2
    assert [round for _, (round, _) in records] == [2, 4]
    for (_, (_, numbers)), row in zip(records, rows, strict=True):
        assert list(numbers) == header[1:]
        assert list(numbers.values()) == pytest.approx([float(value) for value in row[1:]])
    written = json.loads((folder / "summary.json").read_text())
    assert summary == {name: value for name, value in written.items() if name not in ("files", "seal")}


def test_a_tracker_changes_neither_the_run_nor_its_id(bench: Bench, tmp_path: Path) -> None:
    bench(*SMALL, "results_dir=without")
    assert bench(*SMALL, "results_dir=with", *diary()).code == 0
    assert len(TOLD) == 6
    assert contents(tmp_path / "without") == contents(tmp_path / "with")
    summaries = [json.loads((only_run(tmp_path / name) / "summary.json").read_text()) for name in ("without", "with")]
    assert summaries[0]["choices"] == summaries[1]["choices"] and "tracker" not in summaries[0]["choices"]
    stored = bench(*SMALL, "results_dir=without", *diary())
    assert stored.out.startswith("stored result") and len(TOLD) == 6
    unfollowed = "note: a tracker gets no rows of a run that has ended; use_kept=false results_dir=ANOTHER makes it"
    assert stored.err == f"{unfollowed} again\n"
    assert bench("-m", "seed=0", *SMALL, "results_dir=without", *diary()).err.startswith(unfollowed)
    again = bench(f"rerun={only_run(tmp_path / 'with')}", "results_dir=again", *diary())
    assert again.code == 0, again.err
    assert contents(tmp_path / "again") == contents(tmp_path / "with") and len(TOLD) == 12
    assert bench(f"rerun={only_run(tmp_path / 'with')}", "results_dir=with").out.startswith("stored result")


def test_a_tracker_that_fails_is_left_out_with_one_note_and_others_go_on(bench: Bench, tmp_path: Path) -> None:
    bench(*SMALL, "results_dir=without")
    points = ("begin", "record", "end")
    failing = [word for point in points for word in diary(f"fails_at={point}", name=f"at_{point}")]
    outcome = bench(*SMALL, "results_dir=with", *failing, f"+tracker.other._target_={HERE}.Other")
    assert outcome.code == 0 and contents(tmp_path / "without") == contents(tmp_path / "with")
    notes = [line for line in outcome.err.splitlines() if line.startswith("note: ")]
    note = "note: Diary is not told about the rest of this run, which goes on: RuntimeError: no network"
    assert notes == [note]  # the command says the same line but once
    told = [name for name, _ in TOLD]
    assert [told.count(point) for point in points] == [3, 2 + 4, 1]
    assert [told.count(f"other {point}") for point in points] == [1, 4, 1]


@dataclass(frozen=True)
class Other(Diary):
    def tell(self, point: str, what: Any) -> None:
        TOLD.append((f"other {point}", what))


def test_a_run_that_is_cut_off_says_so_and_resumes_after_its_checkpoint(bench: Bench) -> None:
    assert bench(*SMALL, *diary("fails_at=record", "round=3", "error=KeyboardInterrupt")).code == 130
    assert [round for point, (round, _) in TOLD[1:4]] == [1, 2, 3] and TOLD[4:] == [("end", None)]
    TOLD.clear()
    assert bench(*SMALL, *diary()).code == 0
    assert TOLD[0][1].done == 2
    assert [what[0] for point, what in TOLD if point == "record"] == [3, 4]


def test_a_missing_package_is_one_line_before_any_data(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    outcome = bench("dataset=mnist", "data_dir=absent", "tracker=[tensorboard,wandb,mlflow]")
    packages = ("tensorboard", "wandb", "mlflow")
    lines = [f'{name} is not installed: pip install "robustfl-bench[{name}]"' for name in packages]
    assert (outcome.code, outcome.err) == (2, f"error: {'; '.join(lines)}\n")
    assert not list(tmp_path.iterdir())


# --- the real packages -----------------------------------------------------------------------------------------------


def needs(package: str) -> pytest.MarkDecorator:
    reason = f'needs the real package: pip install "robustfl-bench[{package}]"'
    return pytest.mark.skipif(importlib.util.find_spec(package) is None, reason=reason)


def cut_off(bench: Bench, *tracker: str) -> None:
    """A run that ends after its tracker has got a round that the checkpoint lacks."""
    outcome = bench(*SMALL, *tracker, *diary("fails_at=record", "round=3", "error=KeyboardInterrupt"))
    assert outcome.code == 130 and "note: " not in outcome.err, outcome.err


def resumed(bench: Bench, *tracker: str) -> list[dict[str, str]]:
    """The rows of the run, which goes on to its end."""
    outcome = bench(*SMALL, *tracker)
    assert outcome.code == 0 and "note: " not in outcome.err, outcome.err
    header, *rows = [line.split(",") for line in (only_run(Path("results")) / "metrics.csv").read_text().splitlines()]
    return [dict(zip(header, row, strict=True)) for row in rows]


@needs("tensorboard")
def test_tensorboard_shows_every_round_once(bench: Bench) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    cut_off(bench, "tracker=tensorboard")
    rows = resumed(bench, "tracker=tensorboard")
    folder = only_run(Path("results"))
    assert len(list((folder / "tensorboard").iterdir())) == 2
    events = EventAccumulator(str(folder / "tensorboard")).Reload()
    assert set(events.Tags()["scalars"]) == set(rows[0]) - {"round"}
    for name in ("test_accuracy", "test_loss", "lr"):
        assert [event.step for event in events.Scalars(name)] == [1, 2, 3, 4]
        assert [event.value for event in events.Scalars(name)] == pytest.approx([float(row[name]) for row in rows])
    texts = {tag: json.loads(events.Tensors(tag)[0].tensor_proto.string_val[0].strip(b"`\n")) for tag in TEXTS}
    assert texts["config/text_summary"] == config_of(folder)
    assert texts["summary/text_summary"]["status"] == "finished"


TEXTS = ("config/text_summary", "summary/text_summary")


@needs("wandb")
def test_wandb_goes_on_in_the_run_of_the_same_id(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    import wandb

    monkeypatch.setenv("WANDB_MODE", "offline")
    cut_off(bench, "tracker=wandb", "tracker.wandb.project=mine")
    wandb.teardown()  # as at the end of a process: W&B's service can lose a run of an id that it has just finished
    rows = resumed(bench, "tracker=wandb", "tracker.wandb.project=mine")
    folder = only_run(Path("results"))
    first, second = sorted((folder / "wandb").glob("offline-run-*/run-*.wandb"))
    steps = {}
    for path in (first, second):
        assert path.name == f"run-{folder.name[-12:]}.wandb"
        for record in _wandb_records(path):
            if record.WhichOneof("record_type") == "run":
                assert (record.run.run_id, record.run.project) == (folder.name[-12:], "mine")
                assert record.run.display_name == folder.name
            elif record.WhichOneof("record_type") == "history":
                said = {item.key or ".".join(item.nested_key): item.value_json for item in record.history.item}
                steps[path, record.history.step.num] = float(said["test_accuracy"])
    expected = [float(row["test_accuracy"]) for row in rows]
    assert [step for path, step in steps if path == first] == [1, 2, 3]
    assert [step for path, step in steps if path == second] == [3, 4]  # W&B ignores a step that it has
    assert list(steps.values()) == pytest.approx([*expected[:3], *expected[2:]], abs=1e-7)


def _wandb_records(path: Path) -> Iterator[Any]:
    """The records of W&B's file: a header of 7 bytes, then blocks of 32 KiB, as LevelDB writes its log."""
    from wandb.proto import wandb_internal_pb2

    content, at, parts = path.read_bytes(), 7, b""
    while at + 7 <= len(content):
        if (left := 32768 - at % 32768) < 7:
            at += left
            continue
        _, size, kind = struct.unpack("<IHB", content[at : at + 7])
        parts += content[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # whole, or the last part
            record = wandb_internal_pb2.Record()
            record.ParseFromString(parts)
            parts = b""
            yield record


@needs("mlflow")
def test_mlflow_has_one_run_with_every_round_once(bench: Bench, tmp_path: Path) -> None:
    from mlflow import MlflowClient

    uri = f"sqlite:///{tmp_path}/runs.db"
    cut_off(bench, "tracker=mlflow", f"tracker.mlflow.uri={uri}")
    rows = resumed(bench, "tracker=mlflow", f"tracker.mlflow.uri={uri}")
    client, folder = MlflowClient(tracking_uri=uri), only_run(Path("results"))
    home = client.get_experiment_by_name("robustfl-bench").experiment_id
    (run,) = client.search_runs([home])
    assert (run.info.run_name, run.info.status) == (folder.name, "FINISHED")
    assert (run.data.tags["run_id"], run.data.tags["status"]) == (folder.name[-12:], "finished")
    assert (run.data.params["rounds"], run.data.params["dataset._target_"]) == (
        "4",
        config_of(folder)["dataset"]["_target_"],
    )  # type: ignore[index]
    points = client.get_metric_history(run.info.run_id, "test_accuracy")
    assert [point.step for point in points] == [1, 2, 3, 4]
    assert [point.value for point in points] == pytest.approx([float(row["test_accuracy"]) for row in rows])
    (folder / "summary.json").unlink()
    assert bench(*SMALL, "tracker=mlflow", f"tracker.mlflow.uri={uri}").code == 0
    (again,) = client.search_runs([home])
    assert again.info.run_id != run.info.run_id, "a run that starts again replaces the earlier one"
