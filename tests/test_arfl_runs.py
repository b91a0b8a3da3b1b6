"""ARFL at work: whose data are bad loses its weight, who lies about its loss gains all of it."""

from pathlib import Path

import pandas as pd
import pytest

from robustfl_bench.read.pages import figures, plots
from robustfl_bench.read.runs import records
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


def test_weights_against_lambda_and_by_method(runs: dict[tuple[str, str], Path], folder: Path) -> None:
    """Figs. 5 and 7, of the runs that are there."""
    last = pd.read_csv(runs["arfl", "label_shuffle"] / "weights.csv").iloc[-1, 1:]
    table = records.load(folder / "out")
    chosen = table[table["attack"] == "label_shuffle"].assign(panel="", x="1")
    chosen = chosen.assign(line=chosen["aggregator"])
    clients = plots.curves_of_clients(chosen, last=True)
    arfl = clients[clients["method"] == "arfl"].set_index("line")["mean"]
    assert arfl[last.index].tolist() == pytest.approx(last.tolist()) and len(arfl) == 10
    bars = figures.by_client(clients, "fedavg")
    honest = bars[bars["line"] == "fedavg, honest clients alone"]
    assert honest["mean"].sum() == pytest.approx(1) and not honest["x"].str.startswith("byzantine").any()
    assert set(bars["line"]) == {"arfl", "fedavg", "fedavg, honest clients alone"}
