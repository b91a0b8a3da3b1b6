"""Configs made without Hydra are those that Hydra makes, and a config that was run can be run again."""

import json
import re
from pathlib import Path

import pytest
import yaml
from hydra.core.config_store import ConfigStore

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.config import compose, identity, options, request
from robustfl_bench.experiment.plan import InfeasibleError, plan
from robustfl_bench.runs import records
from tests import presets as hydra
from tests.conftest import Bench, config_of, run_folders

EXPERIMENTS = sorted(
    str(path.relative_to(options.CONF / "experiment").with_suffix(""))
    for path in (options.CONF / "experiment").rglob("*.yaml")
    if "params" in path.read_text()
)
SMALL = ("rounds=2", "model.hidden=[8]", "num_clients=8", "num_byzantine=2")


def needs_rate(name: str) -> bool:
    """Whether the learning rate of an experiment is chosen by runs that may not come with the package."""
    return "${chosen_rate:" in str(options.load(f"experiment/{name}").get("lr"))


def plain(tree: object) -> object:
    return json.loads(json.dumps(tree))


def test_all_presets_are_seen() -> None:
    assert len(EXPERIMENTS) > 40


@pytest.mark.parametrize("scale", ["paper", "quick"])
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_sweep_and_its_runs_are_those_of_hydra(name: str, scale: str) -> None:
    base = [f"+experiment={name}", f"scale={scale}", *(["lr=0.1"] if needs_rate(name) else [])]
    jobs, runs = hydra.swept(*base), compose.sweep(base)
    assert [{*job} for job in jobs] == [{*run} for run in runs]
    for index in {0, len(jobs) - 1} if scale == "paper" else {len(jobs) // 2}:
        try:
            expected = plan(hydra.composed(*jobs[index]))
        except InfeasibleError as error:
            expected = error.plan
        resolved = compose.resolve(runs[index])
        assert plain(resolved.identity) == plain(expected.identity), runs[index]
        assert resolved.run_id == expected.run_id


@pytest.mark.parametrize(
    "overrides",
    [
        ["lr=5e-4", "partition=dirichlet", "partition.alpha=1e-2"],
        ["aggregator=b_krum", "aggregator@aggregator.rule=trmean", "aggregator.rule.num_byzantine=1", "attack=ipm"],
        ["partition=step", "partition.alpha=inf", "batch_size=8", "lr=1"],
        ["partition=from_file", f"partition.path={Path(__file__)}"],
        ["partition=long_tail", "partition@partition.inner=dirichlet", "partition.inner.alpha=0.5"],
        ["+setting=arfl/ten_clients", "+method=arfl/mkrum", "attack=none"],
        ["server_data.samples_per_class=[4,4,4,4,4,4,4,4,4,4]", "dataset=digits", "num_byzantine_declared=1"],
        ["clustering=ifca", "dataset=rotated_digits", "partition=natural"],
        ["pre_aggregation=bucketing", "pre_aggregation.bucketing.bucket_size=4"],
        ["pre_aggregation=[clipping,nnm]", "pre_aggregation.clipping.radius=0.5", "num_byzantine_declared=2"],
        ["aggregator=b_krum", "pre_aggregation@aggregator.pre_aggregation=nnm", "num_byzantine=1"],
        ["batch_size=010", "lr='1'", "seed=1_000", "aggregator='krum'", 'rounds="7"'],
        ["server_data.samples_per_class=[ 4, 4,4,4,4,4,4,4,4,4 ]", "participation=.5", "lr=1.", "precision= high"],
    ],
)
def test_single_runs_are_those_of_hydra(overrides: list[str]) -> None:
    assert plain(compose.resolve(overrides).identity) == plain(plan(hydra.composed(*overrides)).identity)


def test_settings_of_hydra_itself_are_no_part_of_a_run() -> None:
    plain_run = compose.resolve(["aggregator=krum"])
    for setting in ("hydra/launcher=processes", "hydra.launcher.n_jobs=2", "+hydra.sweeper.max_batch_size=20"):
        assert compose.resolve(["aggregator=krum", setting]).run_id == plain_run.run_id


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["aggregator=krumm"],
            "unknown aggregator 'krumm' (did you mean krum or mkrum or b_krum?); there are:",
        ),
        (["+setting=boba/minst"], "unknown setting 'boba/minst' (did you mean boba/mnist"),
        (["aggregator.num_selected=3"], "no setting 'aggregator.num_selected'"),
        (["no_such=3"], "no setting 'no_such'"),
        (["sed=3"], "no setting 'sed' (did you mean seed"),
        (["rounds=1.5"], "rounds must be of type int, got 1.5"),
        ([f"aggregator={'x' * 500}"], "unknown aggregator 'xxx"),
        (["lr=2024-01-01"], "lr must be of type float, got '2024-01-01'"),
        (["seed=${seed}"], "settings refer to each other in a circle"),
        (["krum"], "an override is KEY=VALUE, got 'krum'"),
    ],
)
def test_what_does_not_exist_is_named(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        compose.resolve(overrides)


def test_a_null_is_no_setting_and_no_attack_has_no_attackers() -> None:
    assert compose.resolve(["batch_size=null"]).run_id == compose.resolve([]).run_id
    assert compose.resolve(["attack=ipm", "num_byzantine=0"]).run_id == compose.resolve(["attack=none"]).run_id
    assert "corruption" not in compose.resolve([]).identity


def test_a_chain_is_known_by_its_steps_and_their_order() -> None:
    runs = ["none", "clipping", "[clipping]", "[clipping,nnm]", "[nnm,clipping]", "[none,nnm]", "nnm"]
    ids = {run: compose.resolve([f"pre_aggregation={run}"]).run_id for run in runs}
    assert ids["clipping"] == ids["[clipping]"] and ids["nnm"] == ids["[none,nnm]"]
    assert len(set(ids.values())) == 5
    assert len(compose.sweep(["pre_aggregation=none,nnm,[clipping,nnm]", "seed=0,1"])) == 6
    with pytest.raises(ConfigError, match="unknown pre_aggregation 'mnn'"):
        compose.resolve(["pre_aggregation=[nnm,mnn]"])


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["[nnm,nnm]"], "pre_aggregation takes each option once, got nnm twice in [nnm,nnm]"),
        (
            ["[clipping,nnm]", "pre_aggregation.clipping.radius=x"],
            "pre_aggregation.clipping.radius must be a number, g",
        ),
        (
            ["[clipping,nnm]", "pre_aggregation.clipping.radius=-1"],
            "pre_aggregation.clipping: radius must be >= 0, got",
        ),
        (
            ["clipping", "pre_aggregation.clipping.radius=x"],
            "pre_aggregation.clipping.radius must be a number, got 'x'",
        ),
        (["[arc,nnm]", "+pre_aggregation.arc.f=1"], "pre_aggregation.arc: no option 'f'"),
        (
            ["clipping", "pre_aggregation.clipping=wide"],
            "pre_aggregation.clipping must be an option or have a _target_",
        ),
        (
            ["[nnm,bucketing]", "pre_aggregation.nnm.num_byzantine=x", "pre_aggregation.bucketing.bucket_size=0"],
            "pre_aggregation.nnm.num_byzantine must be a whole number, got 'x'; "
            "pre_aggregation.bucketing: bucket_size must be >= 1, got 0",
        ),
    ],
)
def test_what_is_wrong_with_a_step_of_a_chain_is_named_as_it_was_typed(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}"):
        plan(compose.resolve([f"pre_aggregation={overrides[0]}", *overrides[1:]]).config)


def test_the_command_refuses_a_step_that_comes_twice_or_is_wrong(bench: Bench) -> None:
    twice = bench("-m", "pre_aggregation=none,[nnm,nnm]")
    assert (twice.code, twice.err) == (2, "error: pre_aggregation takes each option once, got nnm twice in [nnm,nnm]\n")
    wrong = bench("pre_aggregation=[clipping,nnm]", "pre_aggregation.clipping.radius=x")
    assert (wrong.code, wrong.err) == (2, "error: pre_aggregation.clipping.radius must be a number, got 'x'\n")


def test_an_option_inside_an_option_is_one_that_exists() -> None:
    for written in ("nmn", "[nnm,clipping]"):
        with pytest.raises(ConfigError, match=re.escape(f"unknown pre_aggregation '{written}'")):
            compose.resolve(["aggregator=b_krum", f"pre_aggregation@aggregator.pre_aggregation={written}"])
    assert len(compose.sweep(["aggregator=server_mix", "aggregator@aggregator.rule=krum,trmean", "seed=0,1"])) == 4


BEHIND = {
    "aggregator=foolsgold pre_aggregation=nnm": "foolsgold must know whose updates it gets; set pre_aggregation=none",
    "aggregator=arfl pre_aggregation=[clipping,bucketing]": "arfl needs the update of every client by itself",
    "aggregator=bulyan pre_aggregation=bucketing": "Bulyan cannot trim unless n > 4f, got n=5, f=2",
    "aggregator=krum pre_aggregation=nnm num_byzantine=6": "Krum needs n > 2f + 2, got n=14, f=6",
    "aggregator=trmean pre_aggregation=[nnm,bucketing] num_byzantine=3": "TrMean needs n > 2f, got n=6, f=3",
    "aggregator=b_krum num_byzantine=4": "Krum cannot compare updates unless n > f + 2, got n=6, f=4",
    "aggregator=server_mix aggregator@aggregator.rule=arfl pre_aggregation=nnm": "arfl needs the update of every",
}


@pytest.mark.parametrize("overrides", BEHIND)
def test_a_rule_that_cannot_work_behind_a_pre_aggregation_is_infeasible(overrides: str) -> None:
    with pytest.raises(InfeasibleError, match=f"^{re.escape(BEHIND[overrides])}"):
        plan(compose.resolve([*SMALL, "attack=ipm", *overrides.split()]).config)


def test_an_infeasible_rule_is_known_before_the_data_are_loaded(bench: Bench, tmp_path: Path) -> None:
    overrides = "aggregator=bulyan pre_aggregation=bucketing"
    command = [*SMALL, "attack=ipm", "dataset=mnist", "data_dir=nowhere", *overrides.split()]
    single = bench(*command)
    assert single.code == 2 and single.err.startswith(f"error: {BEHIND[overrides]}"), single.err
    assert single.err.count("\n") == 1 and not run_folders(tmp_path / "results")
    assert bench("-m", *command).code == 0
    (folder,) = run_folders(tmp_path / "results").values()
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["status"] == "infeasible" and summary["error"].startswith(BEHIND[overrides])


@pytest.mark.parametrize(
    "overrides",
    [
        "aggregator=krum pre_aggregation=bucketing num_byzantine=2",
        "aggregator=mkrum pre_aggregation=[clipping,bucketing]",
        "aggregator=foolsgold pre_aggregation=nnm aggregator.history=false",
        "aggregator=b_krum num_byzantine=2",
    ],
)
def test_a_rule_may_work_on_fewer_means_than_it_asks_for_of_clients(overrides: str) -> None:
    plan(compose.resolve([*SMALL, "attack=ipm", *overrides.split()]).config)


def test_a_chain_in_a_run_folder_is_that_of_a_table_s_cell() -> None:
    resolved = compose.resolve(["+setting=byzfl/simulation", "+method=byzfl/trmean"])
    steps = identity.defining(resolved.config)["pre_aggregation"]["steps"]
    assert steps[0]["radius"] == 2.0
    written = yaml.safe_load(yaml.safe_dump(steps))
    assert records.leaf(written) == records.leaf(resolved.identity["pre_aggregation"]["steps"])
    assert "2.0" not in records.leaf(written), "a number is written in one way"


def test_a_chain_is_run_and_run_again(bench: Bench, tmp_path: Path) -> None:
    chain = ["pre_aggregation=[clipping,bucketing,nnm]", "pre_aggregation.clipping.radius=0.5", "attack=ipm"]
    first = bench(*chain, *SMALL)
    assert first.code == 0, first.err
    (folder,) = run_folders(tmp_path / "results").values()
    steps = config_of(folder)["pre_aggregation"]["steps"]
    assert [step["_target_"].split(".")[-1] for step in steps] == ["Clipping", "Bucketing", "Nnm"]
    assert steps[0]["radius"] == 0.5
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["choices"]["pre_aggregation"] == "[clipping,bucketing,nnm]"
    again = bench(f"rerun={folder}")
    assert again.code == 0 and "stored result" in again.out, again.err
    changed = bench(f"rerun={folder}", "pre_aggregation=nnm")
    assert changed.code == 0 and len(run_folders(tmp_path / "results")) == 2, changed.err


def test_the_reference_is_average_without_attack_and_all_else_equal() -> None:
    run = compose.resolve(
        ["+setting=boba/mnist", "aggregator=b_krum", "attack=ipm", "pre_aggregation=bucketing", "seed=3"]
    )
    expected = compose.resolve(["+setting=boba/mnist", "aggregator=average", "attack=none", "seed=3"])
    assert identity.of(identity.reference(run.config)) == expected.identity


def test_options_that_may_be_null_are_written_out_where_null_is_not_the_default() -> None:
    """A null counts as an absent setting, so an absent one must not mean something else than null."""
    import dataclasses
    from importlib import import_module

    from robustfl_bench.engine.parts import GROUPS

    seen = 0
    for group in GROUPS:
        for name in options.names(group):
            content = options.option(group, name)
            if "_target_" not in content:
                continue
            module, _, kind = content["_target_"].rpartition(".")
            for field in dataclasses.fields(getattr(import_module(module), kind)):
                if "None" in str(field.type) and field.default not in (None, dataclasses.MISSING):
                    seen += 1
                    assert field.name in content, f"{group}={name} must name {field.name}"
    assert seen


# --- running a config again ------------------------------------------------------------------------------------------


def test_a_finished_run_is_found_and_a_changed_one_is_made(bench: Bench, tmp_path: Path) -> None:
    bench("aggregator=b_mkrum", "attack=ipm", "aggregator.rule.num_selected=3", *SMALL)
    (first,) = run_folders(tmp_path / "results").values()
    same = bench(f"rerun={first}")
    assert same.code == 0 and same.out.startswith("stored result")
    other = bench(f"rerun={first}", "aggregator.rule.num_selected=2", "seed=5")
    assert other.code == 0, other.err
    folders = run_folders(tmp_path / "results")
    (second,) = (path for path in folders.values() if path != first)
    config = config_of(first)
    config["aggregator"]["rule"]["num_selected"] = 2  # type: ignore[index]
    assert config_of(second) == config | {"seed": 5}


def test_a_rule_is_swapped_with_what_the_server_declares(bench: Bench, tmp_path: Path) -> None:
    bench("aggregator=trmean", "attack=ipm", "num_byzantine_declared=3", *SMALL)
    (first,) = run_folders(tmp_path / "results").values()
    assert bench(f"rerun={first}", "aggregator=krum").code == 0
    (krum,) = (path for path in run_folders(tmp_path / "results").values() if "krum" in path.name)
    assert config_of(krum)["aggregator"]["num_byzantine"] == 3  # type: ignore[index]


def test_several_folders_are_a_sweep(bench: Bench, tmp_path: Path) -> None:
    for rule in ("krum", "coomed"):
        bench(f"aggregator={rule}", "attack=ipm", *SMALL)
    folders = ",".join(map(str, run_folders(tmp_path / "results").values()))
    outcome = bench("-m", f"reference={folders}", "seed=0,1")
    assert outcome.code == 0, outcome.err
    references = [path for path in run_folders(tmp_path / "results").values() if "-average-" in path.name]
    assert {config_of(path)["seed"] for path in references} == {0, 1}
    assert not {"rerun", "reference"} & {*ConfigStore.instance().repo}, "Hydra copies all of it for every run"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no run folder"),
        ("][", "cannot read"),
        ("a: 1", "is not the config of a run"),
        ("7", "is not the config"),
    ],
)
def test_what_is_no_config_is_refused(bench: Bench, tmp_path: Path, content: str | None, message: str) -> None:
    (tmp_path / "run").mkdir()
    if content is not None:
        (tmp_path / "run" / "config.yaml").write_text(content)
    outcome = bench("rerun=run")
    assert outcome.code == 2 and message in outcome.err and len(outcome.err.splitlines()) == 1


METHODS = sorted(
    str(path.relative_to(options.CONF / "method").with_suffix("")) for path in (options.CONF / "method").rglob("*.yaml")
)


@pytest.mark.parametrize("method", METHODS)
def test_the_reference_of_every_method_composes(tmp_path: Path, method: str) -> None:
    """The command refuses none of them before it reads data."""
    command = (options.CONF / "method" / f"{method}.yaml").read_text().splitlines()[1]
    asked = command.removeprefix("# robustfl-bench ").split("  ")[0].split()
    setting = compose.resolve([word for word in asked if not word.startswith("+experiment")] or asked)
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "config.yaml").write_text(json.dumps(identity.defining(setting.config)))
    reference, _ = request.composed([f"reference={folder}", "rounds=1"])
    assert reference.aggregator._target_.endswith(".Average") and reference.attack._target_.endswith(".NoAttack")


# --- doors -----------------------------------------------------------------------------------------------------------


def test_a_preset_without_its_plus_is_told_how(bench: Bench) -> None:
    outcome = bench("setting=boba/mnist")
    assert outcome.code == 2 and "write +setting=" in outcome.err


def test_a_sweep_without_m_says_how_many_runs_it_has(bench: Bench, tmp_path: Path) -> None:
    outcome = bench("+experiment=demo")
    assert outcome.code == 2 and "sweeps aggregator, attack, seed: 36 runs; add -m" in outcome.err
    assert not (tmp_path / "results").exists()
    single = bench("+experiment=demo", "aggregator=krum", "attack=none", "seed=0", "rounds=1", "eval_every=1")
    assert single.code == 0, single.err
