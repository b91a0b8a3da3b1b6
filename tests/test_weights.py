"""Trained weights: kept in the run folder by ``save_weights``, read back as a network, the start of another run."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import robustfl_bench as rb
from tests.conftest import Bench, config_of, only_run, run_folders

TINY = ("rounds=3", "model.hidden=[4]", "num_clients=6", "partition=iid")
FILE = "weights.safetensors"


def test_weights_are_kept_if_that_is_asked(bench: Bench, tmp_path: Path) -> None:
    assert bench(*TINY).code == 0
    folder = only_run(tmp_path / "results")
    first = json.loads((folder / "summary.json").read_text())
    assert not (folder / FILE).exists()
    again = bench(*TINY, "save_weights=true")
    assert again.code == 0 and "kept no weights; running again" in again.err
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["model_sha256"] == first["model_sha256"] and set(summary["files"]) == {*first["files"], FILE}
    stored = bench(*TINY, "save_weights=true")
    assert stored.out.startswith("stored result") and bench(*TINY).out.startswith("stored result")
    content = (folder / FILE).read_bytes()
    (folder / FILE).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert FILE in bench(*TINY, "save_weights=true").err and (folder / FILE).read_bytes() == content, "made again"


def test_a_result_has_its_model_and_a_run_goes_on_from_its_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    small = {"model.hidden": [4], "num_clients": 6, "partition": "iid", "batch_size": None}
    whole = rb.run(**small, rounds=6)
    half = rb.run(**small, rounds=3, save_weights=True)
    x, y = rb.Digits().load(tmp_path).test_x, rb.Digits().load(tmp_path).test_y
    accuracy = float((half.model(x).argmax(dim=1) == y).float().mean())
    assert accuracy == pytest.approx(half.accuracy)
    rest = rb.run(**small, rounds=3, init=half.path)
    assert list(rest.metrics["test_loss"]) == list(whole.metrics["test_loss"])[3:], "full batches: no draw differs"
    place = half.save(tmp_path / "mine.safetensors")
    assert rb.run(**small, rounds=3, init=place).path == rest.path, "the content counts, not the place"
    with pytest.raises(rb.ConfigError, match="this run kept no weights: make it with save_weights=true"):
        _ = rest.model
    assert "init=" in rest.summary["command"]


def test_what_cannot_start_is_one_line(bench: Bench, tmp_path: Path) -> None:
    assert bench(*TINY, "save_weights=true").code == 0
    folder = only_run(tmp_path / "results")
    bench(*TINY, f"init={folder}", "model.hidden=[5]").refused(2, "has weights of another network: ")
    bench(*TINY, f"init={folder}", "model=linear", "~model.hidden").refused(2, "only one of them has ")
    bench(*TINY, "init=nowhere").refused(3, "init: no file nowhere; a run with save_weights=true")
    (tmp_path / "text.safetensors").write_text("no weights")
    bench(*TINY, "init=text.safetensors").refused(3, "text.safetensors is no file of safetensors")
    words = ("dataset=rotated_digits", "clustering=ifca", f"init={folder}")
    bench(*TINY, *words).refused(2, "init has the weights of one model, and clustering.init=model draws those of every")
    outcome = bench(*TINY, f"init={folder}")
    assert outcome.code == 0
    started = next(path for path in run_folders(tmp_path / "results").values() if path != folder)
    assert config_of(started)["model"]["_target_"] == "robustfl_bench.models.Started"
    save_file({name: value + 1 for name, value in load_file(folder / FILE).items()}, folder / FILE)
    bench(f"rerun={started}", "seed=1").refused(3, "has changed: its SHA-256 is ")
    bench(*TINY, f"init={folder}").refused(3, "is not what its run wrote: its SHA-256 differs")


def test_another_attempt_leaves_no_weights_of_an_earlier_one(bench: Bench, tmp_path: Path) -> None:
    assert bench(*TINY, "save_weights=true").code == 0
    folder = only_run(tmp_path / "results")
    content = (folder / FILE).read_bytes()
    (tmp_path / "own.py").write_text("def own(accuracy):\n    return accuracy\n")
    assert bench(*TINY, "metrics=own:own").code == 0 and (folder / FILE).read_bytes() == content, "of the same run"
    (folder / "summary.json").unlink()
    assert bench(*TINY).code == 0 and not (folder / FILE).exists()
    assert FILE not in json.loads((folder / "summary.json").read_text())["files"]


def test_several_models_are_kept_behind_their_numbers(bench: Bench, tmp_path: Path) -> None:
    words = ("rounds=2", "num_clients=8", "dataset=rotated_digits", "clustering=ifca", "model.hidden=[4]")
    outcome = bench(*words, "save_weights=true")
    assert outcome.code == 0, outcome.err
    weights = load_file(only_run(tmp_path / "results") / FILE)
    numbers = {name.partition(".")[0] for name in weights}
    assert len(numbers) > 1 and "model_0" in numbers
    assert all(torch.isfinite(value).all() for value in weights.values())
