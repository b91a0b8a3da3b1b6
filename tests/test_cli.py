"""What a user of the command sees: results, stored results, sweeps, and one clear line for every mistake."""

import json
import os
import re
import signal
import stat
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from filelock import SoftFileLease

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.runner.config import compose, identity, request
from robustfl_bench.runner.experiment.plan import plan
from robustfl_bench.runner.store import lease
from tests.conftest import Bench, config_of, contents, run_folders
from tests.processes import die_in_run, lines_of_metrics, start, wait_for

SMALL = ("rounds=3", "num_clients=10")

MISTAKES = [
    (["aggregator=krumm"], 2, ["unknown aggregator 'krumm' (did you mean krum", "there are:"]),
    (["attack=ippm"], 2, ["unknown attack 'ippm' (did you mean ipm"]),
    (["sed=1"], 2, ["no setting 'sed' (did you mean seed?)"]),
    (["partition=dirichlet", "alpha=0.1"], 2, ["no setting 'alpha' (did you mean partition.alpha?)"]),
    (["alpha=0.1"], 2, ["(did you mean attack.alpha or partition.alpha?)"]),
    (["learning_rate=0.1"], 2, ["no setting 'learning_rate' (did you mean lr?)"]),
    (["epochs=2"], 2, ["no setting 'epochs' (did you mean local_update.epochs or rounds?)"]),
    (["f=2"], 2, ["no setting 'f' (did you mean num_byzantine?)"]),
    (["dataset=MNIST"], 2, ["unknown dataset 'MNIST' (did you mean mnist"]),
    (["boba/table2"], 2, ["got 'boba/table2'; a preset is chosen by +experiment=NAME or +setting=NAME"]),
    (["+experiment=boba/table2"], 2, ["(did you mean boba/table2_ag_news or boba/table2_cifar10 or boba/table2_mnist"]),
    (["seed=0,1,2"], 2, ["this sweeps seed: 3 runs; add -m to make them all"]),
    (["aggregator=krum", "aggregator.num_selectd=2"], 2, ["did you mean aggregator.num_selected"]),
    (["aggregator=average", "aggregator.p_min=0"], 2, ["the chosen option of aggregator has no setting"]),
    (["+bogus=1"], 2, ["no setting 'bogus'"]),
    (["+aggregator.bogus=1"], 2, ["aggregator: no option 'bogus'"]),
    (["rounds=ten"], 2, ["rounds must be of type int, got 'ten'"]),
    (["aggregator=mkrum", "aggregator.num_selected=ten"], 2, ["must be a whole number or null, got 'ten'"]),
    (["aggregator=krum", "num_byzantine_declared=11"], 2, ["Krum needs n > 2f + 2, got n=10, f=11"]),
    (["num_clients=1000", "partition=pathological"], 2, ["samples for 200 shards; lower num_clients"]),
    (["lr=-0.1"], 2, ["lr must be > 0, got -0.1"]),
    (["lr=nan"], 2, ["lr must be > 0, got nan"]),
    (["rounds=0"], 2, ["rounds must be >= 1, got 0"]),
    (["rounds=0", "lr=-1"], 2, ["rounds must be >= 1, got 0; lr must be > 0, got -1.0"]),
    (["participation=1.5"], 2, ["participation must be in (0, 1], got 1.5"]),
    (["byzantine_placement=replace", "num_byzantine=10", "attack=ipm"], 2, ["leaves no honest client"]),
    (["model=cnn"], 2, ["needs larger images than (8, 8)"]),
    (["model=gru"], 2, ["model Gru cannot read digits, which has no texts: take another model, or dataset=ag_news"]),
    (["dataset=ag_news"], 2, ["model Mlp cannot read ag_news, which has texts: take model=gru"]),
    (["model.hidden=[0]"], 2, ["hidden must be a list of whole numbers >= 1, got [0]"]),
    (["server_data.samples_per_class=9999", "aggregator=boba"], 2, ["samples_per_class=9999 but class 0 has"]),
    (["aggregator._target_=nowhere.Nothing"], 2, ["aggregator:", "nowhere"]),
    (["dataset=mnist", "data_dir=absent"], 3, ["mnist", "robustfl-data prepare mnist"]),
    (["aggregator=5"], 2, ["aggregator takes the name of an option, got 5"]),
    (["aggregator=[krum]"], 2, ["aggregator takes the name of an option, got [krum]"]),
    (
        ["pre_aggregation=[clippin,nnm]"],
        2,
        ["unknown pre_aggregation 'clippin' (did you mean clipping?); there are: arc"],
    ),
    (
        ["pre_aggregation=[]"],
        2,
        ["pre_aggregation takes the name of an option, got []; for none", "pre_aggregation=none"],
    ),
    (["dataset=true"], 2, ["dataset takes the name of an option"]),
    (["server_data.corruption=abc"], 2, ["no setting 'server_data.corruption' (did you mean server_data.corruption."]),
    (
        ["attack=ipm", "num_byzantine=1000000000"],
        2,
        ["n=1000000010", "d=55210", "lower num_byzantine"],
    ),
    (["model.hidden=[1000000000]"], 2, ["n=10", "d=75000000010", "lower model.hidden (now 1000000000)"]),
    (["model.hidden=[1000000000000000000]"], 2, ["model Mlp cannot be built for digits"]),
    (["seed=" + "9" * 400], 2, ["9...: whole numbers go up to 9223372036854775807"]),
    (["num_clients=" + "9" * 400], 2, ["9...: whole numbers go up to 9223372036854775807"]),
    (["partition.shards_per_client=9999999999"], 2, ["the memory does not suffice to deal out the data"]),
    (["-m", "seed=range(-1)"], 2, ["range(-1) has no values"]),
    (["-m", "seed=range(1000000000000)"], 2, ["range(1000000000000) has more than 100000 values"]),
    (["--experimental-rerun"], 2, ["--experimental-rerun is not for this command: rerun=FOLDER runs the config"]),
    (["model.hidden=5"], 2, ["model.hidden must be a list, each a whole number, got 5"]),
    (["num_threads=1000000000"], 2, ["num_threads must be null or in [1, 1024], got 1000000000"]),
    (
        ["participation=0.001"],
        2,
        ["of 14 clients leaves no client in a round; take at least 0.071"],
    ),
    (["num_byzantine_declared=15"], 2, ["num_byzantine_declared=15 is more than all 14 clients"]),
    (["results_dir="], 2, ["results_dir must name a folder, got ''"]),
    (["device=cuda:x"], 2, ["device must be one of", "got 'cuda:x'"]),
    (["num_clients=-1"], 2, ["num_clients must be >= 1, got -1"]),
    (["+method=brace/brace"], 2, ["takes its rate from a setting of its paper: add +setting=brace/..."]),
    (["~seed"], 2, ["a run needs seed"]),
    (["+settin=boba/mnist"], 2, ["no setting 'settin' (did you mean setting?)"]),
    (["+setting=boba/minst"], 2, ["unknown setting 'boba/minst' (did you mean boba/mnist"]),
    (["~aggregatr"], 2, ["no setting 'aggregatr' to delete (did you mean aggregator"]),
    (["aggregator=krum", "+aggregator.num_selectd=2"], 2, ["no option 'num_selectd' (did you mean num_selected?)"]),
    (["aggregator._target_=robustfl_bench.aggregators.Krumm"], 2, ["has no 'Krumm' (did you mean Krum?)"]),
    (["aggregator=b_krum", "aggregator.rule=5"], 2, ["aggregator.rule must be a subclass of"]),
    (["dataset.scaling=${nowhere}"], 2, ["nowhere"]),
    (["attack=label_flip"], 2, ["LabelFlip trains on the Byzantine clients' own data, but added clients hold none"]),
    (
        ["attack=ipm", "num_clients=10", "num_byzantine=5", "participation=0.2", "rounds=200"],
        2,
        [
            "attack InnerProductManipulation needs the updates of honest clients, and in round 6",
            "set participation_by=kind",
        ],
    ),
    (["seed=a", "rounds=b"], 2, ["seed must be of type int, got 'a'; rounds must be of type int, got 'b'"]),
    (["lr=inf"], 2, ["lr must be a finite number > 0, got inf"]),
    (["results_dir=own.py"], 2, ["error: results_dir=own.py is a file; it must be a folder"]),
    (["-m", "results_dir=own.py/x"], 2, ["error: results_dir=own.py/x: own.py is a file; it must be a folder"]),
    (["--rounds=2"], 2, ["no option --rounds; settings are written rounds=2, without --"]),
    (["--cfg", "jobs"], 2, ["argument --cfg/-c: invalid choice: 'jobs' (choose from 'job'"]),
    (["seed = 1"], 2, ["cannot read 'seed = 1': settings are KEY=VALUE without spaces around =; quote"]),
    (["variant=a (b)"], 2, ["cannot read 'variant=a (b)'", """: "key='a b'\""""]),
    (["results_dir=/proc/nowhere"], 1, ["cannot write", "results_dir"]),
]


@pytest.mark.parametrize(("overrides", "code", "phrases"), MISTAKES, ids=[" ".join(case[0])[:60] for case in MISTAKES])
def test_a_mistake_is_one_line_and_leaves_nothing(
    bench: Bench, tmp_path: Path, overrides: list[str], code: int, phrases: list[str]
) -> None:
    (tmp_path / "own.py").touch()
    bench(*SMALL, *overrides).refused(code, *phrases)
    assert not run_folders(tmp_path / "results")


def test_attackers_without_an_attack_are_reported_as_honest(bench: Bench) -> None:
    silent = (["num_byzantine=0"], ["attack=ipm", "num_byzantine=2"], ["attack=none"])
    assert not any("num_byzantine" in bench(*SMALL, *overrides).err for overrides in silent)
    outcome = bench(*SMALL, "num_byzantine=2", "attack=none", "aggregator=krum")
    assert outcome.code == 0 and outcome.err == (
        "note: num_byzantine=2 without an attack: all clients are honest, and a rule that takes f assumes "
        "num_byzantine_declared=2\n"
    )


@pytest.mark.parametrize("sweep", [[], ["-m"]])
def test_a_file_of_the_user_that_is_no_yaml_is_named_with_its_line(
    bench: Bench, tmp_path: Path, sweep: list[str]
) -> None:
    (tmp_path / "own" / "aggregator").mkdir(parents=True)
    (tmp_path / "own" / "aggregator" / "mine.yaml").write_text("a: 1\nb: [1\nc: 2\n")
    outcome = bench(*sweep, "--config-dir", "own", "aggregator=mine", *SMALL)
    assert outcome.code == 2
    assert "own/aggregator/mine.yaml line 3: not YAML: did not find expected ',' or ']'" in outcome.err.splitlines()[0]


def test_a_read_only_results_folder_is_one_line(bench: Bench, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root writes into read-only folders")
    (tmp_path / "results").mkdir()
    (tmp_path / "results").chmod(stat.S_IRUSR | stat.S_IXUSR)
    outcome = bench(*SMALL)
    assert outcome.code == 1
    assert "cannot write" in outcome.err and "results_dir" in outcome.err


def test_the_same_command_again_prints_the_stored_result_and_changes_no_file(bench: Bench, tmp_path: Path) -> None:
    def seen() -> dict[str, tuple[int, int]]:
        return {str(p): (p.stat().st_mtime_ns, p.stat().st_size) for p in tmp_path.rglob("*") if p.is_file()}

    first = bench(*SMALL, "attack=ipm")
    before = seen()
    second = bench(*SMALL, "attack=ipm")
    assert first.code == second.code == 0
    assert first.out.replace("result:", "stored result:") == second.out
    assert seen() == before


def test_where_a_run_is_executed_is_no_part_of_its_identity(bench: Bench, tmp_path: Path) -> None:
    bench(*SMALL)
    elsewhere = ("num_threads=2", "device=cpu", "scale=quick", f"data_dir={tmp_path}", "checkpoint_seconds=1")
    outcome = bench(*SMALL, *elsewhere)
    assert outcome.out.startswith("stored result")
    assert len(run_folders(tmp_path / "results")) == 1


def test_aliases_and_absent_attackers_are_the_same_run(bench: Bench, tmp_path: Path) -> None:
    bench(*SMALL, "aggregator=coomed")
    assert bench(*SMALL, "aggregator=median", "num_byzantine=2").out.startswith("stored result")
    assert bench(*SMALL, "aggregator=median", "attack=ipm", "num_byzantine=0").out.startswith("stored result")
    assert len(run_folders(tmp_path / "results")) == 1


def test_a_run_folder_holds_what_the_design_promises(bench: Bench, tmp_path: Path) -> None:
    bench(*SMALL, "attack=ipm", "aggregator=krum", "num_byzantine=2", "num_clients=12", "eval_every=2")
    ((name, folder),) = run_folders(tmp_path / "results").items()
    summary = json.loads((folder / "summary.json").read_text())
    files = {"config.yaml", "metrics.csv", "timings.csv", "summary.json", "weights.csv"}
    assert {path.name for path in folder.iterdir()} == files
    header, *rows = (folder / "metrics.csv").read_text().splitlines()
    assert header.split(",")[:5] == ["round", "lr", "train_loss", "test_loss", "test_accuracy"]
    assert header.endswith(
        "recall_9,byzantine_weight,effective_clients,byzantine_accepted,honest_dropped,non_finite_updates"
    )
    assert [row.split(",")[0] for row in rows] == ["2", "3"]
    assert summary["status"] == "finished" and summary["name"] == name and name.endswith(summary["run_id"])
    assert summary["choices"]["aggregator"] == "krum"
    assert len(summary["final"]["recall"]) == 10
    assert config_of(folder)["aggregator"] == {
        "_target_": "robustfl_bench.aggregators.Krum",
        "num_byzantine": 2,
        "num_selected": 1,
    }


def test_the_reference_of_max_recall_drop_is_the_run_of_its_command(bench: Bench, tmp_path: Path) -> None:
    bench(*SMALL, "attack=ipm", "aggregator=coomed", "num_byzantine=2", "attack.scale=3")
    ((_, folder),) = run_folders(tmp_path / "results").items()
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["reference_id"] != summary["run_id"]
    bench(f"reference={folder}")
    assert any(name.endswith(summary["reference_id"]) for name in run_folders(tmp_path / "results"))


GRID = ("aggregator=average,krum,boba", "attack=ipm", "seed=0,1")
SWEEP = ("-m", "rounds=3", "num_clients=12", "num_byzantine=2", *GRID)


def test_a_sweep_has_the_same_bytes_in_one_process_and_in_several(bench: Bench, tmp_path: Path) -> None:
    assert bench(*SWEEP, "results_dir=basic").code == 0
    assert bench(*SWEEP, "results_dir=several", "hydra/launcher=processes", "hydra.launcher.n_jobs=2").code == 0
    assert len(run_folders(tmp_path / "basic")) == 6
    assert contents(tmp_path / "basic") == contents(tmp_path / "several")


def test_an_interrupted_sweep_finishes_only_what_is_missing(bench: Bench, tmp_path: Path) -> None:
    assert bench(*SWEEP, "results_dir=whole").code == 0
    process = start(tmp_path, *SWEEP, "results_dir=cut", "rounds=3", first=partial(die_in_run, 4))
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    done = {path: path.stat().st_mtime_ns for path in (tmp_path / "cut").glob("runs/*/summary.json")}
    assert len(done) == 3
    outcome = bench(*SWEEP, "results_dir=cut")
    assert outcome.code == 0
    assert outcome.out.count("stored result:") == len(done)
    assert all(path.stat().st_mtime_ns == made for path, made in done.items())
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


def test_a_failed_run_does_not_stop_a_sweep_and_is_run_again(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from robustfl_bench.parts.aggregators.coomed import CooMed

    def broken(*_: object) -> None:
        raise ZeroDivisionError("seventh\nseal")

    with monkeypatch.context() as patch:
        patch.setattr(CooMed, "aggregate", broken)
        outcome = bench("-m", *SMALL, "aggregator=coomed,average")
    assert outcome.code == 1
    assert outcome.err.count("ZeroDivisionError: seventh seal") == 2  # when it happens, and as the sweep ends
    summaries = [json.loads((path / "summary.json").read_text()) for path in run_folders(tmp_path / "results").values()]
    assert sorted(summary["status"] for summary in summaries) == ["failed", "finished"]
    (error,) = (tmp_path / "results").glob("runs/*/error.txt")
    assert "Traceback" in error.read_text()
    assert bench("-m", *SMALL, "aggregator=coomed,average").code == 0
    assert not list((tmp_path / "results").glob("runs/*/error.txt"))


def test_an_infeasible_cell_of_a_sweep_is_recorded_and_is_no_failure(bench: Bench, tmp_path: Path) -> None:
    outcome = bench("-m", *SMALL, "attack=ipm", "num_byzantine=9", "aggregator=krum,average")
    assert outcome.code == 0
    assert "infeasible: Krum needs n > 2f + 2, got n=19, f=9" in outcome.err
    summaries = [json.loads((path / "summary.json").read_text()) for path in run_folders(tmp_path / "results").values()]
    assert sorted(summary["status"] for summary in summaries) == ["finished", "infeasible"]


def test_a_run_that_another_process_writes_is_left_alone(bench: Bench, tmp_path: Path) -> None:
    bench(*SMALL)
    ((_, folder),) = run_folders(tmp_path / "results").items()
    (folder / "summary.json").unlink()
    with SoftFileLease(folder / lease.NAME, lease_duration=lease.EXPIRY):
        bench(*SMALL, "wait=false").refused(75, "is being written by another process")


@pytest.mark.slow
def test_a_run_that_another_process_makes_is_waited_for(bench: Bench, tmp_path: Path) -> None:
    words = (*SMALL, "rounds=400", "eval_every=20", "use_kept=false")
    first = start(tmp_path, *words)
    wait_for(lambda: lines_of_metrics(tmp_path / "results"), first)
    second = bench(*words)
    out, _ = first.communicate()
    assert (first.returncode, second.code, second.out) == (0, 0, f"stored {out}")
    assert second.err.count("its result is waited for; wait=false leaves it to that process") == 1, second.err


def test_the_config_is_shown(bench: Bench) -> None:
    assert "num_byzantine_declared" in bench("--cfg", "job").out


# --- notes, memory, and configs of somebody else ----------------------------------------------------------------------

NOTES = [
    (["eval_every=9"], "eval_every=9 is more than rounds=1: only the last is evaluated"),
    (["participation=0.1"], "participation=0.1 leaves 1 of 10 clients in a round"),
    (["attack=ipm", "num_byzantine=10"], "10 Byzantine clients against 10 honest: no rule promises anything"),
    (["attack=ipm", "num_byzantine=6", "byzantine_placement=replace"], "6 Byzantine clients against 4 honest"),
]


@pytest.mark.parametrize(("overrides", "phrase"), NOTES, ids=[" ".join(case[0]) for case in NOTES])
def test_what_may_not_be_meant_is_said_once_and_run(bench: Bench, overrides: list[str], phrase: str) -> None:
    outcome = bench("rounds=1", "num_clients=10", "model.hidden=[4]", "-m", "seed=0,1", *overrides)
    assert outcome.code == 0 and outcome.out.count("result: ") == 2
    line, end = outcome.err.splitlines()
    assert line.startswith(f"note: {phrase}") and end == "sweep: 2 runs: 2 finished"


def test_what_the_command_refuses_is_refused_from_python() -> None:
    for overrides, phrase in (
        (["lr=-1"], "lr must be > 0"),
        (["aggregator=5"], "aggregator takes the name of an option, got 5"),
        (["aggregator=krum", "num_clients=3"], "Krum needs n > 2f"),
        (["+experiment=demo"], "add -m to make them all"),
    ):
        with pytest.raises(ConfigError, match=re.escape(phrase)):
            plan(request.composed(overrides)[0])
    cfg, call = request.composed(["aggregator=krum", "seed=3"])
    assert cfg["seed"] == 3 and call.command == "robustfl-bench aggregator=krum seed=3"


def test_the_option_for_sweeps_may_stand_anywhere(bench: Bench) -> None:
    outcome = bench("rounds=1", "model.hidden=[4]", "-m", "seed=0,1", "num_clients=5")
    assert outcome.code == 0 and outcome.out.count("result: ") == 2, outcome.err
    shown = bench("rounds=1", "--cfg", "job", "seed=7")
    assert shown.code == 0 and "seed: 7" in shown.out, shown.err


def test_printed_overrides_are_quoted_for_a_shell(bench: Bench) -> None:
    outcome = bench("-m", *SMALL, "model.hidden=[4,4]", "aggregator=krum", "num_byzantine_declared=9,8")
    assert outcome.err.count("infeasible: ") == 2
    assert outcome.err.count("'model.hidden=[4,4]'") == 2


def foreign(folder: Path, **changed: object) -> Path:
    """A run folder of somebody else, made by our defaults but for what is changed."""
    config = identity.defining(compose.resolve([*SMALL, "model.hidden=[4]"]).config) | changed
    folder.mkdir()
    (folder / "config.yaml").write_text(json.dumps(config))
    return folder


DANGERS = [
    ("aggregator", {"_target_": "os.system", "command": "touch called"}, "builds aggregator by os.system"),
    ("aggregator", {"_target_": "robustfl_bench.commands.bench.os.system", "command": "touch called"}, "cannot import"),
    (
        "aggregator",
        {"_target_": "robustfl_bench.runner.sweeps.take.say", "message": "called"},
        "must be a subclass of",
    ),
    (
        "aggregator",
        {
            "_target_": "robustfl_bench.aggregators.PreAggregated",
            "pre_aggregation": {"_target_": "subprocess.run", "args": ["touch", "called"]},
        },
        "builds aggregator.pre_aggregation by subprocess.run",
    ),
    (
        "model",
        {"_target_": "robustfl_bench.models.Mlp", "hidden": [{"_target_": "os.mkdir", "path": "called"}]},
        "builds model.hidden[0] by os.mkdir",
    ),
    ("aggregator", {"_target_": "robustfl_bench.attacks.NoAttack"}, "must be a subclass of"),
    (
        "aggregator",
        {"_target_": "robustfl_bench.aggregators.CooMed", "_partial_": True},
        "no option '_partial_'",
    ),
    ("aggregator", {"_target_": "robustfl_bench.aggregators.CooMed", "_args_": [1]}, "no option '_args_'"),
    ("aggregator", {"_target_": ["os.system"]}, "is no class"),
    ("precision", "${oc.env:HOME}", "is an interpolation"),
]


@pytest.mark.parametrize("form", ["rerun", "reference"])
@pytest.mark.parametrize(("group", "content", "phrase"), DANGERS, ids=[f"{case[0]} {case[2]}" for case in DANGERS])
def test_a_config_of_somebody_else_calls_nothing(
    bench: Bench, tmp_path: Path, form: str, group: str, content: object, phrase: str
) -> None:
    foreign(tmp_path / "theirs", **{group: content})
    outcome = bench(f"{form}=theirs", "results_dir=made", "data_dir=.")
    if form == "rerun" or group != "aggregator":  # the reference has a rule of our own
        outcome.refused(2, phrase)
        assert not (tmp_path / "made").exists()
    else:
        assert outcome.code == 0, outcome.err
    assert not (tmp_path / "called").exists()


def test_aliases_that_stand_for_billions_of_values_are_refused(bench: Bench, tmp_path: Path) -> None:
    folder = foreign(tmp_path / "theirs")
    lines = ["a0: &a0 [1,1]", *(f"a{i}: &a{i} [*a{i - 1},*a{i - 1}]" for i in range(1, 40))]
    model = "".join(f"  {line}\n" for line in ("_target_: robustfl_bench.models.Mlp", *lines))
    (folder / "config.yaml").write_text(f"dataset: {{}}\naggregator: {{}}\nmodel:\n{model}")
    bench("rerun=theirs").refused(2, "10000 values")


OWN_RULE = """
from dataclasses import dataclass
from robustfl_bench.parts.aggregators.average import Average

open("imported", "w").close()

@dataclass(frozen=True)
class Mine(Average):
    pass
"""


def test_parts_of_other_packages_are_built_when_the_user_allows_them(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_rules_allowed.py").write_text(OWN_RULE)
    monkeypatch.syspath_prepend(tmp_path)
    foreign(tmp_path / "theirs", aggregator={"_target_": "my_rules_allowed.Mine"})
    refused = bench("rerun=theirs")
    assert refused.code == 2 and "if you trust it, add allow=my_rules_allowed" in refused.err
    assert not (tmp_path / "imported").exists(), "nothing of it was even imported"
    assert bench("rerun=theirs", "allow=other").err.strip().endswith("add 'allow=[other,my_rules_allowed]'")
    assert bench("rerun=theirs", "allow=7").code == 2
    allowed = bench("rerun=theirs", "allow=[other,my_rules_allowed]")
    assert allowed.code == 0, allowed.err
    ((_, folder),) = run_folders(tmp_path / "results").items()
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["command"] == "robustfl-bench rerun=theirs 'allow=[other,my_rules_allowed]'"
    own = bench(*SMALL, "model.hidden=[4]", "~aggregator.weighted", "aggregator._target_=my_rules_allowed.Mine")
    assert own.code == 0 and own.out.startswith("stored result"), own.err  # the user's own words need no permission


@pytest.mark.parametrize(
    "module", ["robustfl_bench", *(f"robustfl_bench.commands.{name}" for name in ("ring", "results", "data"))]
)
def test_an_interrupt_while_modules_are_imported_is_one_line(tmp_path: Path, module: str) -> None:
    name = {"robustfl_bench": "bench"}.get(module, module.rpartition(".")[2]).replace("datasets", "data")
    slow = (
        "import sys, builtins, os, signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it\n"
        "real, sent = builtins.__import__, []\n"
        "def tell(name, *rest):\n"
        "    if not sent and name.startswith('robustfl_bench.') and name != 'robustfl_bench.commands.entry':\n"
        "        sent.append(name); os.kill(os.getpid(), signal.SIGINT)\n"
        "    return real(name, *rest)\n"
        "builtins.__import__ = tell\n"
        f"from robustfl_bench.commands.entry import {name}\n"
        f"sys.argv = ['command', 'list']\n{name}()\n"
    )
    ended = subprocess.run([sys.executable, "-c", slow], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stderr, ended.stdout) == (130, "interrupted\n", "")
