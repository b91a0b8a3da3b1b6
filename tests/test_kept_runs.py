"""A run that comes with the package is answered from its line, if code and data are the same; else it is made."""

import csv
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from robustfl_bench.base.errors import DataError
from robustfl_bench.commands import making
from robustfl_bench.parts.aggregators.coomed import CooMed
from robustfl_bench.read.runs import archive, records
from robustfl_bench.runner.config import compose, identity, options
from robustfl_bench.runner.experiment import answers, samples
from robustfl_bench.runner.experiment.plan import plan
from robustfl_bench.runner.store import evidence, kept, lines
from robustfl_bench.runner.sweeps.cells import End
from tests.conftest import Bench, run_folders

SMALL = ("aggregator=krum", "rounds=2", "model.hidden=[4]")

Edit = Callable[[dict[str, str]], None]


@pytest.fixture
def ship(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Make runs and ship them; ``edit`` changes their lines. Returns what the runs printed, and their folders are
    gone."""

    def shipped(*overrides: str, edit: Edit | None = None) -> str:
        made = bench(*overrides, f"results_dir={tmp_path / 'made'}", "use_kept=false")
        file = tmp_path / "shipped" / "arena" / "runs.csv"
        file.parent.mkdir(parents=True)
        archive.write(records.load(tmp_path / "made"), str(file))
        with file.open(newline="") as opened:
            lines = list(csv.DictReader(opened))
        if edit is not None:
            for line in lines:
                line.pop(kept.SEAL)
                edit(line)
                line[kept.SEAL] = kept.sealer(line)(line.values())
            with file.open("w", newline="") as opened:
                writer = csv.DictWriter(opened, lines[0], lineterminator="\n")
                writer.writeheader()
                writer.writerows(lines)
        monkeypatch.setattr(kept, "FOLDER", tmp_path / "shipped")
        forget()
        return made.out

    yield shipped
    monkeypatch.undo()
    forget()


def forget() -> None:
    for cached in (kept.files, kept._places, kept._remembered_places, kept._lines):
        cached.cache_clear()


def test_a_kept_run_is_answered_without_a_folder(ship: Callable[..., str], bench: Bench, tmp_path: Path) -> None:
    made = ship(*SMALL)
    answered = bench(*SMALL)
    accuracy = made.removeprefix("result: ").split(" (best")[0]
    assert answered.out.startswith(f"kept result: {accuracy} (best") and "arena/runs.csv" in answered.out
    assert not run_folders(tmp_path / "results")
    made_again = bench(*SMALL, "use_kept=false")
    assert made_again.out.startswith(f"result: {accuracy}")
    assert bench(*SMALL).out.startswith(f"stored result: {accuracy}"), "a folder of one's own comes first"


def test_a_compressed_file_is_read_alike(ship: Callable[..., str], bench: Bench, tmp_path: Path) -> None:
    ship(*SMALL)
    (plain,) = kept.files()
    runs = archive.read(str(plain))
    compressed = plain.with_name("more.csv.gz")
    archive.write(runs, str(compressed))
    first = compressed.read_bytes()
    archive.write(runs, str(compressed))
    assert compressed.read_bytes() == first, "the same runs are the same bytes"
    assert archive.read(str(compressed)).drop(columns="folder").equals(runs.drop(columns="folder"))
    plain.unlink()
    forget()
    assert "arena/more.csv.gz" in bench(*SMALL).out


REGRESSION = ("dataset=linear_mixture", "dataset.dim=5", "model=linear_regression", "partition=natural",
              "num_byzantine=0", "attack=none", "aggregator=average", "rounds=2", "num_clients=10")  # fmt: skip


def test_a_run_that_is_judged_by_a_distance_is_answered(ship: Callable[..., str], bench: Bench) -> None:
    made = ship(*REGRESSION)
    answered = bench(*REGRESSION).out
    assert answered.startswith("kept result: distance ") and answered.count("\n") == 1
    assert answered.split("result: ")[1].split("  ")[0] == made.split("result: ")[1].split(" (best")[0]


def test_a_run_that_is_judged_by_its_loss_is_answered(ship: Callable[..., str], bench: Bench) -> None:
    ship(*REGRESSION, edit=lambda line: line.update({"last.distance": ""}))
    assert bench(*REGRESSION).out.startswith("kept result: loss ")


def test_a_divergence_is_infinitely_bad_by_what_the_run_is_judged_by(ship: Callable[..., str]) -> None:
    ship(*REGRESSION, edit=lambda line: line.update(state="diverged", error="diverged in round 1"))
    known = answers.from_kept(plan(compose.resolve(REGRESSION, options.HERE).config), print)
    assert known is not None and known.value == math.inf


def test_a_least_validation_loss_is_in_no_file(ship: Callable[..., str], bench: Bench) -> None:
    ship(*REGRESSION, "validation_share=0.2")
    assert bench(*REGRESSION, "validation_share=0.2").out.startswith("result: ")


def test_an_alias_is_the_same_run_and_another_run_is_not(ship: Callable[..., str], bench: Bench) -> None:
    ship("aggregator=coomed", *SMALL[1:])
    assert bench("aggregator=median", *SMALL[1:]).out.startswith("kept result: ")
    assert bench("aggregator=coomed", "seed=1", *SMALL[1:]).out.startswith("result: ")


@pytest.mark.parametrize(
    ("edit", "other"),
    [
        ({"code": "0" * 12}, "other code of robustfl_bench"),
        ({"code": f"{'0' * 12} aggregator={'0' * 12}"}, "other code of aggregator"),
        ({"code": ""}, "code that is not recorded"),
        ({"seed": "7"}, "another config of the same id"),
        ({"model.hidden": "[5]"}, "another config of the same id"),
    ],
)
def test_with_other_code_or_config_it_is_made_with_one_remark(
    ship: Callable[..., str], bench: Bench, edit: dict[str, str], other: str
) -> None:
    ship(*SMALL, edit=lambda line: line.update(edit))
    outcome = bench(*SMALL)
    assert outcome.out.startswith("result: ")
    remark = f"note: results of arena/runs.csv not used: made with {other}\n"
    assert outcome.err == remark
    swept = bench("-m", *SMALL, "seed=0", "aggregator.num_selected=1", "results_dir=other")
    assert swept.err.count(remark) == 1


def test_a_run_of_older_code_is_made_again_in_its_file(ship: Callable[..., str], bench: Bench) -> None:
    ship(*SMALL, edit=lambda line: line.update(code="0" * 12, final_accuracy="0"))
    (file,) = kept.files()
    listed = bench("remake", str(file), "--dry-run")
    assert "1 of 1 runs by other code" in listed.err and "robustfl-bench aggregator=krum" in listed.out
    assert not archive.read(str(file))["final_accuracy"].any(), "a dry run makes nothing"
    assert bench("remake", str(file)).code == 0
    (run,) = archive.read(str(file)).to_dict("records")
    assert run["final_accuracy"] > 0 and run["code"] != "0" * 12
    assert "0 of 1 runs by other code" in bench("remake", str(file)).err
    assert "no run has seed=5" in bench("remake", str(file), "--where", "seed=5").err


def _old(line: dict[str, str]) -> None:
    line.update(code="0" * 12, final_accuracy="0")


def test_a_run_that_fails_leaves_the_others_made_again(
    ship: Callable[..., str], bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise MemoryError("too much")

    ship("-m", "aggregator=krum,coomed", *SMALL[1:], edit=_old)
    (file,) = kept.files()
    monkeypatch.setattr(CooMed, "aggregate", broken)
    remade = bench("remake", str(file))
    assert remade.code == 2 and "1 of 2 cannot be made: MemoryError: too much" in remade.err
    assert f"{file}: 1 run of today's code now" in remade.err
    made = archive.read(str(file)).set_index("aggregator")["final_accuracy"]
    assert made["krum"] > 0 and made["coomed"] == 0


def test_lines_that_another_process_replaces_meanwhile_stay(
    ship: Callable[..., str], bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    ship("-m", *SMALL, "seed=0,1", edit=_old)
    (file,) = kept.files()
    made_cells = making.made_cells

    def meanwhile(*arguments: Any) -> list[End]:
        monkeypatch.setattr(making, "made_cells", made_cells)
        assert bench("remake", str(file), "--where", "seed=1").code == 0
        return made_cells(*arguments)

    monkeypatch.setattr(making, "made_cells", meanwhile)
    assert bench("remake", str(file), "--where", "seed=0").code == 0
    assert (archive.read(str(file))["final_accuracy"] > 0).tolist() == [True, True]


def test_runs_that_cannot_be_made_again_are_counted(ship: Callable[..., str], bench: Bench) -> None:
    def of_another_version(line: dict[str, str]) -> None:
        line |= {"code": "0" * 12, "momentum": "0.9"}
        line["run_id"] = identity.stored_id(lines.tree((name, line[name]) for name in line if lines.is_setting(name)))

    ship(*SMALL, edit=of_another_version)
    (file,) = kept.files()
    before = file.read_bytes()
    made = bench("remake", str(file))
    assert made.code == 1 and "1 of 1 cannot be asked for with today's options, such as digits-" in made.err
    assert file.read_bytes() == before


def test_a_line_that_does_not_fit_its_seal_is_none(ship: Callable[..., str], bench: Bench) -> None:
    ship(*SMALL)
    (file,) = kept.files()
    text = file.read_text()
    file.write_text(text.replace(",finished,", ",diverged,"))
    forget()
    assert bench(*SMALL).out.startswith("result: ")
    with pytest.raises(DataError, match="is not what was written: it does not fit its seal"):
        archive.read(str(file))


def test_a_result_of_another_processor_or_library_is_answered_with_a_remark(
    ship: Callable[..., str], bench: Bench
) -> None:
    ship(*SMALL, edit=lambda line: line.update(processor="Abacus", versions="torch 1.0, numpy 1.2"))
    outcome = bench(*SMALL)
    assert outcome.out.startswith("kept result: ")
    assert "torch 1.0 (now " in outcome.err and "Abacus (now " in outcome.err and outcome.err.count("\n") == 1


def test_other_data_are_not_those_of_the_kept_run(
    ship: Callable[..., str], bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    ship(*SMALL, edit=lambda line: line.update(data="subset, 8 + 2 samples, digest 000000000000"))
    assert bench(*SMALL).out.startswith("kept result: "), "bundled data follow from the code"
    monkeypatch.setattr(samples, "are_in_files", lambda request: True)
    assert bench(*SMALL, "results_dir=other").out.startswith("result: ")


def test_runs_that_are_made_again_are_a_part_of_a_file_in_the_index(ship: Callable[..., str], bench: Bench) -> None:
    ship(*SMALL, edit=_old)
    (file,) = kept.files()
    evidence.add(kept.FOLDER, [file])
    before = file.read_bytes()
    remade = bench("remake", str(file))
    assert remade.code == 0 and "runs.0001.csv: 1 line, 1 in the place of earlier ones" in remade.err
    (run,) = archive.read(str(file)).to_dict("records")
    assert file.read_bytes() == before and run["final_accuracy"] > 0
    forget()
    assert "arena/runs.0001.csv" in bench(*SMALL, "results_dir=other").out
