"""ARFL at work: whose data are bad loses its weight, who lies about its loss gains all of it."""

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from robustfl_bench.config.options import CONF
from tests.conftest import run_folders
from tests.processes import start

TEN = (
    "dataset=digits", "model=mlp", "model.hidden=[50]", "partition=dirichlet", "partition.alpha=0.5",
    "local_update=fedavg", "local_update.epochs=2", "num_clients=10", "num_byzantine=3", "byzantine_placement=replace",
    "batch_size=16", "rounds=20", "eval_every=5", "lr=0.1",
)  # fmt: skip
ATTACKS = ("label_shuffle", "fake_loss")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with the results of every rule under every attack in ``out``."""
    folder = tmp_path_factory.mktemp("arfl") / "work"
    folder.mkdir()
    command = start(folder, "-m", *TEN, "aggregator=arfl,fedavg", f"attack={','.join(ATTACKS)}", "results_dir=out")
    _, errors = command.communicate()
    assert command.returncode == 0, errors
    return folder


@pytest.fixture
def runs(folder: Path) -> dict[tuple[str, str], Path]:
    """The folder of every run by rule and attack."""
    found = {}
    for name, path in run_folders(folder / "out").items():
        found[next((r, a) for r in ("arfl", "fedavg") for a in ATTACKS if f"-{a}3-{r}-" in name)] = path
    assert len(found) == 4
    return found


def test_corrupted_clients_lose_their_weight_and_liars_take_it_all(runs: dict[tuple[str, str], Path]) -> None:
    """As in ARFL's Fig. 6, lambda = M, and in the limitation that its authors state (section 6)."""
    weights = {key: pd.read_csv(path / "weights.csv").set_index("round") for key, path in runs.items()}
    byzantine = {key: table.filter(like="byzantine").sum(axis=1) for key, table in weights.items()}
    assert weights["arfl", "label_shuffle"].iloc[-1].sum() == pytest.approx(1)
    assert 3 * byzantine["arfl", "label_shuffle"].iloc[-1] < byzantine["fedavg", "label_shuffle"].iloc[-1]
    assert byzantine["arfl", "fake_loss"].iloc[-1] > 0.5 > byzantine["fedavg", "fake_loss"].iloc[-1]
    accuracy = {key: pd.read_csv(path / "metrics.csv")["test_accuracy"].iloc[-1] for key, path in runs.items()}
    assert accuracy["arfl", "fake_loss"] < accuracy["fedavg", "fake_loss"] - 0.1


def test_the_script_draws_figures_5_and_7(runs: dict[tuple[str, str], Path], folder: Path, tmp_path: Path) -> None:
    script = CONF.parent / "scripts" / "arfl_figures.py"
    for name in ("fig5", "fig7"):
        command = [sys.executable, str(script), name, "--results-dir", str(folder / "out"), "--output", "drawn"]
        drawn = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert drawn.returncode == 0, drawn.stderr
        assert (tmp_path / "drawn" / f"{name}.png").stat().st_size > 10_000
    last = pd.read_csv(runs["arfl", "label_shuffle"] / "weights.csv").iloc[-1, 1:]
    five, seven = (pd.read_csv(tmp_path / "drawn" / f"{name}.csv") for name in ("fig5", "fig7"))
    assert five["lambda"].tolist() == [1] and five.iloc[0, 2:].tolist() == pytest.approx(last.tolist())
    assert seven["ARFL"].tolist() == pytest.approx(last.tolist())
    assert seven["FedAvg, honest clients alone"].sum() == pytest.approx(1)
