"""Parts from outside that misbehave are named in one line; a model that diverged ends as that, not as an accuracy."""

import json
from pathlib import Path

import pytest

from robustfl_bench.base.errors import Diverged
from robustfl_bench.commands import bench
from robustfl_bench.commands import results as results_cli
from robustfl_bench.read.pages import plots
from robustfl_bench.read.runs import archive, records
from robustfl_bench.read.tables.pivot import pivot
from robustfl_bench.runner.store import folders
from robustfl_bench.train.loop import run
from robustfl_bench.train.metrics import METRICS
from robustfl_bench.train.rounds import initial_state
from tests.conftest import Bench, contents, run_folders
from tests.presets import small as federation
from tests.processes import start

assert bench  # registers the typed settings with hydra

PARTS = """
from dataclasses import dataclass

import numpy as np
import torch
from functools import cached_property
from torch import nn
from robustfl_bench.interfaces import Aggregator, Attack, Crafted, Model, Partition, PreAggregation
from robustfl_bench.numerics.updates import Aggregate


@dataclass(frozen=True)
class Mean(Aggregator):
    weighted: bool = False

    def aggregate(self, updates, server):
        return Aggregate(updates.matrix.mean(dim=0))


class Short(Mean):
    def aggregate(self, updates, server):
        return Aggregate(updates.matrix.mean(dim=0)[:-1])


class Double(Mean):
    def aggregate(self, updates, server):
        return Aggregate(updates.matrix.double().mean(dim=0))


class Elsewhere(Mean):
    def aggregate(self, updates, server):
        return Aggregate(updates.matrix.mean(dim=0).to("meta"))


class Listed(Mean):
    def aggregate(self, updates, server):
        return updates.matrix.mean(dim=0).tolist()


class Bare(Mean):
    def aggregate(self, updates, server):
        return updates.matrix.mean(dim=0)


class BareArray(Mean):
    def aggregate(self, updates, server):
        return updates.matrix.numpy().astype(np.float64).mean(axis=0)


class SingleWeights(Mean):
    def aggregate(self, updates, server):
        return updates.combine(torch.ones(updates.n) / updates.n)


class ListedWeights(Mean):
    def aggregate(self, updates, server):
        return updates.combine([1 / updates.n] * updates.n)


class FewWeights(Mean):
    def aggregate(self, updates, server):
        return Aggregate(updates.matrix.mean(dim=0), weights=torch.ones(2, dtype=torch.float64))


class FloatMask(Mean):
    def aggregate(self, updates, server):
        return Aggregate(updates.matrix.mean(dim=0), accepted=torch.ones(updates.n))


class Remembers(Mean):
    def aggregate(self, updates, server):
        return Aggregate(updates.matrix.mean(dim=0), memory={"rounds": 3})


class Sorts(Mean):
    def aggregate(self, updates, server):
        rows = updates.matrix.numpy()
        rows.sort(axis=0)
        return Aggregate(updates.matrix[updates.n // 2].clone())


@dataclass
class Hides(Aggregator):
    weighted: bool = False
    momentum: float = 0.5

    def __post_init__(self):
        self.velocity = 0

    def aggregate(self, updates, server):
        self.velocity = self.momentum * self.velocity + updates.matrix.mean(dim=0)
        return Aggregate(self.velocity)


class Grows(Hides):
    def __post_init__(self):
        self.seen = {"norms": []}

    def aggregate(self, updates, server):
        self.seen["norms"].append(float(updates.norms.max()))
        return Aggregate(updates.matrix.mean(dim=0))


class Draws(Hides):
    def __post_init__(self):
        self.rng = np.random.default_rng(0)

    def aggregate(self, updates, server):
        return Aggregate(updates.matrix[self.rng.integers(updates.n)].clone())


class Computes(Mean):
    @cached_property
    def _table(self):
        return torch.ones(3)

    def aggregate(self, updates, server):
        return Aggregate(updates.matrix.mean(dim=0) * self._table[0])


class LateNan(Mean):
    def aggregate(self, updates, server):
        return Aggregate(updates.matrix.mean(dim=0) * (float("nan") if server.round == 2 else 1))


class LateShort(Mean):
    def aggregate(self, updates, server):
        return Aggregate(updates.matrix.mean(dim=0)[: 1 if server.round == 2 else None])


class LateWeights(Mean):
    def aggregate(self, updates, server):
        even = torch.full((updates.n,), 1 / updates.n, dtype=torch.float64)
        return Aggregate(updates.matrix.mean(dim=0), weights=even if server.round == 2 else None)


class Squares(Mean):
    def aggregate(self, updates, server):
        return Aggregate(updates.matrix.mean(dim=0) / updates.matrix.square().sum(dim=0).add(1) * float("inf"))


class Solves(Mean):
    def aggregate(self, updates, server):
        if updates.matrix.abs().max() > 1e4:
            raise np.linalg.LinAlgError("Eigenvalues did not converge")
        return Aggregate(updates.matrix.mean(dim=0))


class Wide(Attack):
    def craft(self, view):
        return torch.zeros(view.num_byzantine, view.honest.d + 1)


class Doubles(Attack):
    def craft(self, view):
        return Crafted(view.mean.double(), {})


class Spoils(Attack):
    def craft(self, view):
        view.honest.matrix[0] = 0
        return view.mean


class Huge(Attack):
    def craft(self, view):
        return torch.full_like(view.mean, 1e30)


class Large(Attack):
    def craft(self, view):
        return torch.full_like(view.mean, 1e5)


@dataclass(frozen=True)
class Loses(PreAggregation):
    bucket_size: int = 2

    def prepare(self, updates, rng):
        return updates.matrix


@dataclass(frozen=True)
class Deals(Partition):
    kind: str = ""

    def __call__(self, labels, num_clients, rng):
        parts = np.array_split(np.arange(len(labels)), num_clients)
        if self.kind == "few":
            return parts[1:]
        changed = {"same": parts[1], "empty": parts[0][:0], "beyond": parts[0] + 10**6, "words": parts[0] / 2,
                   "list": list(parts[0])}
        return [changed[self.kind], *parts[1:]]


def deals_one(labels, num_clients, rng):
    return [np.arange(len(labels))]


@dataclass(frozen=True)
class Builds(Model):
    kind: str = ""

    def __call__(self, input_shape, num_classes):
        width = 64 + (self.kind == "wide")
        layers = [nn.Flatten(), nn.Linear(width, 8), nn.Linear(8, 7 if self.kind == "seven" else num_classes)]
        if self.kind == "norm":
            layers.insert(2, nn.BatchNorm1d(8))
        return None if self.kind == "none" else nn.Sequential(*layers)


@dataclass(frozen=True)
class Shortens(PreAggregation):
    bucket_size: int = 2

    def prepare(self, updates, rng):
        return type(updates)(updates.matrix[:, 1:])
"""
RUN = ("rounds=4", "num_clients=6", "num_byzantine=2", "model.hidden=[4]", "partition=iid")
LR = ("rounds=6", "num_clients=6", "model.hidden=[4]", "partition=iid", "lr=1e30")


@pytest.fixture(autouse=True)
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the parts above importable."""
    (tmp_path / "misbehaving.py").write_text(PARTS)
    monkeypatch.syspath_prepend(tmp_path)


def _only_summary(results: Path) -> dict[str, object]:
    ((_, folder),) = run_folders(results).items()
    summary = json.loads((folder / "summary.json").read_text())
    assert isinstance(summary, dict)
    return summary


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("aggregator._target_=Short", "aggregator Short returned a vector of shape (309,) float32; (310,) float32"),
        ("aggregator._target_=Double", "aggregator Double returned a vector of shape (310,) float64; (310,) float32"),
        ("aggregator._target_=Elsewhere", "aggregator Elsewhere returned a vector on meta; the updates are on cpu"),
        ("aggregator._target_=Listed", "aggregator Listed returned a list, no Aggregate"),
        ("aggregator._target_=FewWeights", "aggregator FewWeights returned weights of shape (2,) float64; (6,)"),
        ("aggregator._target_=FloatMask", "aggregator FloatMask returned accepted of shape (6,) float32; (6,) bool"),
        ("aggregator._target_=Remembers", "aggregator Remembers returned a memory that is no dict of tensors"),
        ("aggregator._target_=Sorts", "aggregator Sorts wrote into the updates that it was given"),
        ("aggregator._target_=Hides", "aggregator Hides keeps velocity on itself, which is lost when a run resumes"),
        ("aggregator._target_=Grows", "aggregator Grows keeps seen on itself"),
        ("aggregator._target_=Draws", "aggregator Draws keeps rng on itself"),
        ("attack._target_=Wide", "attack Wide returned rows of shape (2, 311) float32; (2, 310) or (310,) float32"),
        ("attack._target_=Doubles", "attack Doubles returned rows of shape (310,) float64"),
        ("attack._target_=Spoils", "attack Spoils wrote into the updates that it was given"),
        ("pre_aggregation.bucketing._target_=Loses", "pre-aggregation Loses returned a Tensor, no Updates"),
        ("pre_aggregation.bucketing._target_=Shortens", "pre-aggregation Shortens returned 6 updates of length 309"),
    ],
)
def test_a_part_that_returns_something_else_than_promised_is_named_in_the_first_round(
    bench: Bench, tmp_path: Path, override: str, line: str
) -> None:
    given = override.replace("=", "=misbehaving.")
    option = ("pre_aggregation=bucketing",) if override.startswith("pre") else ()
    outcome = bench(*RUN, *option, given)
    outcome.refused(1, line)
    summary = _only_summary(tmp_path / "results")
    assert summary["status"] == "failed" and str(summary["error"]).startswith(line)
    assert not list(tmp_path.glob("results/runs/*/metrics.csv")), "found before a round ended"


@pytest.mark.parametrize("rule", ["Mean", "Computes", "Bare", "BareArray", "SingleWeights", "ListedWeights"])
def test_a_rule_that_keeps_to_its_contract_is_not_stopped(bench: Bench, rule: str) -> None:
    assert bench(*RUN, f"aggregator._target_=misbehaving.{rule}", "attack._target_=misbehaving.Large").code == 0


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("few", "gave 5 clients samples, expected 6"),
        ("same", "gave a sample to two clients"),
        ("empty", "gave a client no samples"),
        ("beyond", "gave a sample that there is not: places go from 0 to 1436"),
        ("words", "must give an array of whole numbers"),
        ("list", "must give an array of whole numbers"),
    ],
)
def test_a_partition_that_cannot_be_right_is_named_in_one_line(bench: Bench, kind: str, line: str) -> None:
    bench(*RUN[:3], "partition=misbehaving:Deals", f"partition.kind={kind}").refused(1, f"partition Deals {line}")


def test_a_part_that_fails_before_the_first_round_leaves_its_traceback(bench: Bench, tmp_path: Path) -> None:
    bench(*RUN[:3], "partition=misbehaving:Deals").refused(1, "KeyError: ''", "error.txt")
    summary = _only_summary(tmp_path / "results")
    assert (summary["status"], summary["error"]) == ("failed", "KeyError: ''")
    ((_, folder),) = run_folders(tmp_path / "results").items()
    assert "in __call__" in (folder / "error.txt").read_text()
    assert bench(*RUN[:3], "partition=misbehaving:Deals", "partition.kind=same").code == 1


def test_what_is_adapted_has_its_own_name_in_messages(bench: Bench) -> None:
    bench(*RUN[:3], "partition=misbehaving:deals_one").refused(
        1, "partition deals_one gave 1 clients samples, expected"
    )


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("none", "model Builds must return a torch.nn.Module, got None"),
        ("wide", "model Builds cannot take samples of shape (1, 8, 8): mat1 and mat2"),
        ("seven", "model Builds must give 10 outputs for each sample, shape (2, 10), got shape (2, 7)"),
        ("norm", "model Builds has BatchNorm1d: what a sample gives must not depend on other samples"),
    ],
)
def test_a_model_that_cannot_be_trained_is_refused_in_one_line(bench: Bench, kind: str, line: str) -> None:
    bench(*RUN[:3], "partition=iid", "model=misbehaving:Builds", f"model.kind={kind}").refused(2, line)


def test_a_rule_that_makes_nan_of_sane_updates_fails_by_name_and_round(bench: Bench, tmp_path: Path) -> None:
    outcome = bench(*RUN, "aggregator._target_=misbehaving.LateNan")
    assert outcome.code == 1
    assert "aggregator LateNan returned a non-finite aggregate in round 3, from finite updates" in outcome.err
    assert _only_summary(tmp_path / "results")["status"] == "failed"
    (rows,) = (len(table) for table in map(records.metrics, run_folders(tmp_path / "results").values()))
    assert rows == 2


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("LateShort", "aggregator LateShort returned a vector of shape (1,) float32; (310,) float32"),
        ("LateWeights", "round 3 has other columns in metrics.csv than the first round: byzantine_accepted, byz"),
    ],
)
def test_a_rule_that_changes_what_it_returns_is_stopped_in_that_round(
    bench: Bench, tmp_path: Path, rule: str, line: str
) -> None:
    bench(*RUN, f"aggregator._target_=misbehaving.{rule}").refused(1, line)
    (rows,) = (len(table) for table in map(records.metrics, run_folders(tmp_path / "results").values()))
    assert rows == 2


def test_a_rule_that_drowns_in_huge_updates_has_diverged(bench: Bench, tmp_path: Path) -> None:
    drowned = ("attack._target_=misbehaving.Huge", "aggregator._target_=misbehaving.Squares")
    outcome = bench(*RUN, *drowned)
    assert outcome.code == 0
    told = "diverged in round 1: aggregator Squares returned a non-finite aggregate, from updates of up to 1e+30"
    assert f"result: {told}" in outcome.out
    assert _only_summary(tmp_path / "results")["error"] == told


def test_linear_algebra_that_fails_is_divergence_with_huge_updates_alone(bench: Bench) -> None:
    huge = bench(*RUN, "attack._target_=misbehaving.Huge", "aggregator._target_=misbehaving.Solves")
    assert huge.code == 0 and "diverged in round 1: aggregator Solves failed with updates of up to 1e+30" in huge.out
    large = bench(*RUN, "attack._target_=misbehaving.Large", "aggregator._target_=misbehaving.Solves")
    assert large.code == 1 and "LinAlgError: Eigenvalues did not converge" in large.err


@pytest.mark.parametrize("rule", ["average", "boba", "fltrust", "bygars", "zeno", "rage"])
@pytest.mark.parametrize("eval_every", [1, 6])
def test_a_model_that_diverged_is_a_stored_result_without_an_accuracy(
    bench: Bench, tmp_path: Path, rule: str, eval_every: int
) -> None:
    asked = (*LR, f"aggregator={rule}", "attack=ipm", "num_byzantine=1", f"eval_every={eval_every}")
    first, again = bench(*asked), bench(*asked)
    assert (first.code, again.code) == (0, 0), first.err
    assert first.out.startswith("result: diverged in round ")
    assert again.out == f"stored {first.out}"
    summary = _only_summary(tmp_path / "results")
    assert summary["status"] == "diverged" and not {"final", "best"} & set(summary)
    assert not list(tmp_path.glob("results/runs/*/checkpoint.pt"))
    rows = list(tmp_path.glob("results/runs/*/metrics.csv"))
    assert all(records.metrics(path.parent)["test_loss"].notna().all() for path in rows)


def test_clients_whose_training_diverges_end_the_run_at_once(bench: Bench, tmp_path: Path) -> None:
    outcome = bench(*LR, "local_update=fedavg", "batch_size=8", "attack=none")
    assert "result: diverged in round 1: no honest client's update is finite" in outcome.out
    assert not list(tmp_path.glob("results/runs/*/metrics.csv"))


def test_rows_up_to_the_last_finite_round_stay() -> None:
    f = federation("lr=1e10", "rounds=4")
    rounds = run(f, initial_state(f), metrics=METRICS)
    _, record = next(rounds)
    assert record is not None and record["round"] == 1
    with pytest.raises(Diverged, match="diverged in round 2: ") as end:
        next(rounds)
    assert end.value.round == 2


def test_a_ring_whose_model_diverges_ends_as_its_simulation(bench: Bench, tmp_path: Path) -> None:
    asked = ("num_clients=3", "partition=iid", "model.hidden=[4]", "attack=none", "aggregator=rar", "lr=1e30",
             "rounds=6", "protocol=ring", "device=cpu")  # fmt: skip
    for every in (1, 4):
        process = start(
            tmp_path, *asked, f"eval_every={every}", "results_dir=ring", module="robustfl_bench.commands.ring"
        )
        out, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
        assert "result: diverged in round " in out
        assert bench(*asked, f"eval_every={every}", "results_dir=simulated").code == 0
    metrics = [contents(tmp_path / folder, "config.yaml") for folder in ("ring", "simulated")]
    assert metrics[0] == metrics[1]


def test_tables_figures_and_archives_show_what_diverged(
    bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    common = ("-m", "rounds=3", "num_clients=6", "num_byzantine=1", "model.hidden=[4]", "partition=iid")
    assert bench(*common, "attack=ipm,none", "aggregator=coomed", "seed=0,1").code == 0
    assert bench(*common, "attack=ipm,none", "aggregator=average", "seed=0").code == 0
    runs = records.load(tmp_path / "results")
    gone = (runs["aggregator"] == "average") & (runs["attack"] == "ipm")
    folder = Path(runs.loc[gone, "folder"].item())
    summary = json.loads((folder / "summary.json").read_text())
    kept = {name: value for name, value in summary.items() if name not in ("final", "best", "last_10")}
    kept |= {"status": "diverged", "error": "diverged in round 2: the test loss is not finite", "judged_by": "accuracy"}
    (folder / "summary.json").write_text(json.dumps(folders.seal(kept)))
    runs = records.load(tmp_path / "results")
    file = tmp_path / "kept.csv"
    archive.write(runs, str(file))
    for source in (runs, archive.read(str(file))):
        table = pivot(source)
        assert table.cell("average", "ipm").text(1) == table.cell("average", "worst").text(1) == "diverged"
        assert "diverged in round 2: the test loss is not finite" in table.notes  # beside one on runs at chance
        assert table.cell("coomed", "worst").seeds
    figure = plots.rounds(runs)
    assert "diverged: average / IPM (1)" in " ".join(figure.get_suptitle().split())
    assert results_cli.main(["status", "--results-dir", str(tmp_path / "results")]) == 0
    told = capfd.readouterr().out
    assert "1 diverged" in told and "average-s0" in told and "diverged in round 2" in told


def test_a_cell_with_a_diverged_seed_has_no_mean(bench: Bench, tmp_path: Path) -> None:
    common = ("rounds=3", "num_clients=6", "num_byzantine=1", "model.hidden=[4]", "partition=iid", "aggregator=average")
    for seed in (0, 1, 2):
        assert bench(*common, "attack=ipm", f"seed={seed}").code == 0
    ((_, folder), *_) = run_folders(tmp_path / "results").items()
    summary = json.loads((folder / "summary.json").read_text()) | {"status": "diverged", "error": "diverged in round 1"}
    (folder / "summary.json").write_text(json.dumps(folders.seal(summary)))
    table = pivot(records.load(tmp_path / "results"))
    assert table.cell("average", "ipm").text(1) == "diverged 1/3"
    assert table.cell("average", "worst").text(1) == "diverged"
