"""The benchmarks still run: every rule, and every engine beside what it is compared with."""

import csv
from pathlib import Path

import pytest

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.runner.config.options import CONF, names, original
from tests.processes import call
from tests.rounds import build

pytestmark = pytest.mark.slow

EVERY_RULE = {original("aggregator", name) for name in names("aggregator")}
SMALL = {
    "bench_aggregators": ("--n", "60", "--d", "9000", "--share", "0.07", "--png", "pictures", "--csv", "x.csv"),
    "bench_all_reduce": ("--processes", "2", "--sizes", "20000", "--rules", "coomed", "--share", "20,500"),
    "bench_disk": ("--shapes", "20,3000", "--beside", "20,3000", "--folder", ".", "--csv", "x.csv"),
    "bench_rounds": ("--clients", "3", "--attackers", "0", "--samples", "20"),
    "bench_gossip": ("--nodes", "9", "--rules", "average"),
    "bench_stack": ("--runs", "2", "--rules", "average", "--rounds", "1"),
    "bench_local_sgd": ("--clients", "3", "--batch", "4"),
    "bench_models": ("--models", "dropout_cnn", "gru", "linear_regression", "mean", "--clients", "2", "--samples", "3",
                     "--png", "pictures", "--csv", "x.csv"),
    "bench_memory": ("--cases", "digits", "--csv", "x.csv"),
    "bench_workers": ("--settings", "arena/digits", "--own", "1", "--shared", "2", "--csv", "x.csv"),
    "bench_questions": ("--rules", "trmean", "--attacks", "opt_alie", "--csv", "x.csv"),
    "bench_scaling": ("--rules", "average", "krum", "trmean", "--n", "12", "20", "--d", "2000", "4000", "--at", "12",
                      "2000", "--memory", "8,200000", "--png", "pictures", "--csv", "x.csv"),
}  # fmt: skip
PICTURES = {
    "bench_aggregators": ("rules_n60_d9000_threads1",),
    "bench_models": ("models",),
    "bench_scaling": ("scaling_n", "scaling_d", "scaling_memory"),
}


def bench(folder: Path, name: str, *arguments: str) -> tuple[str, str]:
    """What a benchmark prints on both streams; it must succeed."""
    done = call(folder, CONF.parent / "scripts" / "benches" / f"{name}.py", *arguments)
    assert done.code == 0, done.err
    return done.out, done.err


def refuses(rule: str, clients: int, attackers: int) -> bool:
    """Whether a rule refuses so many clients."""
    try:
        build("aggregator", rule, num_byzantine=attackers).check(clients)
    except ConfigError:
        return True
    return False


@pytest.mark.parametrize("name", SMALL)
def test_it_runs(name: str, tmp_path: Path) -> None:
    out, err = bench(tmp_path, name, *SMALL[name], "--repeats", "1", "--threads", "1")
    assert "cores: " in out.splitlines()[1]  # whether the machine is idle
    if name == "bench_aggregators":
        with (tmp_path / "x.csv").open() as file:
            measured = {row["rule"] for row in csv.DictReader(file)}
        refused = {rule for rule in EVERY_RULE if refuses(rule, clients=60, attackers=4)}
        assert {"boba_es", "smea"} <= refused and EVERY_RULE - refused <= measured and len(measured) > 20
        assert all(f"{rule} left out" in err for rule in refused)
    if name == "bench_scaling":
        with (tmp_path / "x_memory.csv").open() as file:
            assert all(float(row["x matrix"]) >= 1 for row in csv.DictReader(file))
    drawn = {path.stem: path.stat().st_size for path in tmp_path.glob("pictures/*.png")}
    assert sorted(drawn) == sorted(PICTURES.get(name, ())) and all(size > 10_000 for size in drawn.values())


def test_results_are_read_again_by_every_command(tmp_path: Path) -> None:
    out, _ = bench(tmp_path, "bench_results", "--runs", "200", "--keep", "many", "--commands", "report", "export")
    assert [line.split()[0] for line in out.splitlines()] == ["report", "export"]
    assert (tmp_path / "many" / "rounds.csv").read_text().count("\n") == 1 + 200 * 20
    assert (tmp_path / "many" / "report.html").stat().st_size < 500_000


def test_a_table_is_projected(tmp_path: Path) -> None:
    out, _ = bench(tmp_path, "bench_tables", "--presets", "demo", "--rounds", "1", "--csv", "x.csv")
    with (tmp_path / "x.csv").open() as file:
        runs = {row["rule"]: int(row["runs"]) for row in csv.DictReader(file)}
    assert runs == {"average": 3, "coomed": 3, "mkrum": 3, "boba": 3, "all": 12}
    assert out.splitlines()[-1].startswith("one seed of demo: ")
