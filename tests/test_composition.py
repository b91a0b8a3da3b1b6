"""The composer: what overrides mean, that Hydra reads conf/ alike, and that a config that was run can be run again."""

import json
import re
from pathlib import Path

import pytest
import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.trees import flatten
from robustfl_bench.read.runs import records
from robustfl_bench.runner.config import compose, identity, interpolate, options, request, words
from robustfl_bench.runner.experiment.plan import InfeasibleError, plan
from tests.conftest import Bench, config_of, run_folders
from tests.presets import by_hydra

SMALL = ("rounds=2", "model.hidden=[8]", "num_clients=8", "num_byzantine=2")


# --- as Hydra does it ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "overrides",
    [
        ["lr=5e-4", "partition=dirichlet", "partition.alpha=1e-2", "batch_size=8"],
        ["aggregator=b_krum", "aggregator@aggregator.rule=trmean", "aggregator.rule.num_byzantine=1", "attack=ipm"],
        ["partition=long_tail", "partition@partition.inner=dirichlet", "partition.inner.alpha=0.5"],
        ["pre_aggregation=[clipping,nnm]", "pre_aggregation.clipping.radius=0.5", "num_byzantine_declared=2"],
        ["++aggregator.weighted=true", "~server_data.samples_per_class=20", "+server_data.samples_per_class=[4,4]"],
        ["aggregator=krum", "+aggregator@aggregator.inner=trmean", "+aggregator.note={a:[1,'b c'],b:{}}", "++lr=.5"],
        ["dataset=rotated_digits", "partition=natural", "dataset.base={scaling:unit}", "clustering=ifca"],
        ["+setting=arfl/ten_clients", "+method=arfl/mkrum", "attack=none"],
        ["+setting=raga/mnist_mlp", "+method=raga/own/raga", "+threat=raga/lie", "scale=quick", "variant=published"],
        ["+experiment=brifca/fig1c", "dataset.num_clusters=2", "variant=published"],
        ["+experiment=arena/digits", "lr=0.1", "aggregator=krum", "attack=ipm"],
    ],
)
def test_hydra_composes_the_same_from_conf(overrides: list[str]) -> None:
    """So its sweepers find what presets sweep, and other programs can compose these files."""
    assert identity.of(by_hydra(*overrides)) == compose.resolve(overrides).identity


VALUES = (
    "1", "-1", "+1", "1_000", "010", "1e3", ".5", "1.", "inf", "-INF", "nan", "true", "False", "null", "NULL", "yes",
    "", "''", "'1'", '"a b"', r"'it\'s'", r"'a\\'", r"'a\b'", "a b", " a ", "a:b", r"a\,b\ c", r"a\\b", "$x/%y*?|@-",
    "[]", "[ 1, a ,'b c']", "[1,[2,[]]]", "{}", "{a: 1,b:[x,'y'],c:{d:null}}", "${seed}", "x${seed}y",
    "2024-01-01", "1 2",
)  # fmt: skip
UNREADABLE = (
    "[1", "1]", "(1)", "{a}", "{a:1", "a=b", "a'b", "'a", "[1,]", "[,1]", "{'a b':1}", "a[0]", "'a''b'", "a,", "a (b)",
)  # fmt: skip


def test_values_are_read_as_hydra_reads_them() -> None:
    hydra = OverridesParser.create()
    for text in VALUES:
        value, expected = words.override(f"x={text}").value, hydra.parse_override(f"x={text}").value()
        assert (repr(value), type(value)) == (repr(expected), type(expected)), text
        assert repr(words.read_value(words.written(value))) == repr(value), text
    for word in (f"x={text}" for text in UNREADABLE):
        with pytest.raises(ConfigError, match=f"^{re.escape(f'cannot read {word!r}: settings')}"):
            _ = words.override(word).value
        with pytest.raises(HydraException):
            hydra.parse_override(word)


def test_a_folder_of_ones_own_means_the_same_to_hydra(tmp_path: Path) -> None:
    write(tmp_path, "aggregator/mine", "defaults:\n- b_krum\n- _self_\nrule: {num_byzantine: 1}\n")
    lines = ["defaults:", "- /setting/boba/mnist", "- override /aggregator: b_krum", "- _self_", "seed: 7"]
    write(tmp_path, "setting/mine", "\n".join([GLOBAL, *lines]))
    rule = "override /aggregator@_global_.aggregator.rule: trmean"
    write(tmp_path, "method/mine", f"{GLOBAL}defaults: [{rule}, override /hydra/launcher: processes]\n")
    for given in (
        ["+setting=mine", "+method=mine"],
        ["aggregator=mine", "aggregator@aggregator.rule=trmean", "seed=7"],
    ):
        resolved = compose.resolve(given, options.search(tmp_path))
        assert resolved.config["aggregator"]["rule"]["_target_"] == "robustfl_bench.aggregators.TrMean"
        assert resolved.config["seed"] == 7 and resolved.choices["aggregator"] in ("mine", "b_krum")
        assert identity.of(by_hydra(f"hydra.searchpath=[file://{tmp_path}]", *given)) == resolved.identity


GLOBAL = "# @package _global_\n"


def write(folder: Path, name: str, content: str) -> None:
    """A file of options in a folder of one's own."""
    path = folder / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("setting/mine", f"# a preset\n{GLOBAL}seed: 7\n", "mine.yaml: a preset begins with # @package _global_"),
        ("setting/mine", "seed: 7\n", "mine.yaml: a preset begins with # @package _global_, not None"),
        ("setting/mine", f"{GLOBAL}rerun: x\n", "rerun cannot stand in a preset, only on the command line"),
        ("setting/mine", f"{GLOBAL}sed: 7\n", "no setting 'sed' (did you mean seed"),
        ("setting/mine", f"{GLOBAL}defaults: [override /attak: ipm]\n", "override /attak is no group of options (di"),
        ("setting/mine", f"{GLOBAL}defaults: [/attack: ipm]\n", "for an option write override /attack: ipm"),
        ("setting/mine", f"{GLOBAL}defaults: [/setting: minst]\n", "unknown setting 'minst'"),
        ("setting/mine", f"{GLOBAL}defaults: [optional /setting: {{}}]\n", "Unsupported item value in defaults"),
        ("setting/mine", f"{GLOBAL}defaults: boba\n", "mine.yaml: defaults must be a list, got 'boba'"),
        ("aggregator/mine", "# @package _global_\nseed: 7\n", "option of aggregator cannot have # @package _global_"),
        ("aggregator/mine", "defaults: [/aggregator@_global_: krum]\n", "no setting '_target_', 'num_selected'"),
        ("method/mine", f"{GLOBAL}defaults: [override /aggregator@rule: krum]\n", "'aggregator@rule'"),
        ("aggregator/mine", "defaults: [krumm]\n", "unknown aggregator 'krumm' (did you mean krum"),
        ("aggregator/mine", "- a list\n", "mine.yaml must hold KEY: VALUE, got ['a list']"),
        ("aggregator/mine", "_target_: robustfl_bench.aggregators.Krum\nnum_byzantine: ???\n", "add aggregator.num_"),
    ],
)  # fmt: skip
def test_what_is_not_read_in_a_file_is_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    write(tmp_path, name, content)
    group, _, option = name.partition("/")
    with pytest.raises(ConfigError, match=re.escape(message)):
        plan(
            compose.resolve(
                [f"{'' if group == 'aggregator' else '+'}{group}={option}"], options.search(tmp_path)
            ).config
        )


# --- overrides -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overrides", "changed"),
    [
        (["++seed=3"], {"seed": 3}),
        (["seed=1", "seed=2"], {"seed": 2}),
        (["+batch_size=8"], {"batch_size": 8}),
        (["~clustering", "~attack=none", "attack=none"], {}),
        (["~aggregator.weighted=false", "+aggregator.weighted=true"], {"aggregator.weighted": True}),
        (["results_dir='a (b), c'"], {"results_dir": "a (b), c"}),
        (["data_dir=${oc.env:HERE}/x"], {"data_dir": "there/x"}),
        (["wait=no", "retry_failed=0", "use_kept='on'"], {"wait": False, "retry_failed": False, "use_kept": True}),
        (["batch_size=010", "lr='1'", "num_clients=1_000", "aggregator='average'", 'rounds="7"'],
         {"batch_size": 10, "lr": 1.0, "num_clients": 1000, "rounds": 7}),
        (["participation=.5", "lr=1.", "precision= high"],
         {"participation": 0.5, "lr": 1.0, "precision": "high", "num_byzantine_declared": 3}),  # of a round
    ],
)  # fmt: skip
def test_settings_are_set_added_and_taken_away(
    overrides: list[str], changed: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERE", "there")
    usual, found = (dict(flatten(compose.resolve(given).config)) for given in ([], overrides))
    assert found == usual | changed


ALIKE = (
    *([f"+experiment={name}"] for name in ("arena/silos", "boba/table8", "raga/table4", "brace/fig4", "hospitals/six")),
    ["+setting=raga/mnist_mlp", "+method=raga/own/raga", "+threat=raga/lie", "scale=quick", "variant=published"],
    ["partition.alpha=0.3", "partition=dirichlet", "~clustering", "pre_aggregation=[clipping,nnm]"],
    ["+my.key=3", "rounds=${my.key}"],
    ["rounds=${seed}", "seed=7"],
    ["batch_size=${rb.times:${seed},2}"],
    ["data_dir=${oc.env:HERE}/${now:%f}"],
    ["aggregator._target_=robustfl_bench.aggregators.Krum"],
    ["aggregator=tests.presets:Recording"],
    ["lr=.5", "++lr=.25"],
)


@pytest.mark.parametrize("others", ALIKE, ids=" ".join)
def test_runs_that_differ_by_seed_and_rate_are_composed_as_each_alone(
    others: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERE", "there")
    fixed = compose.sweep(others)[0]
    for own in (["seed=3"], ["seed=4"], ["lr=0.5", "seed='5'"], ["lr=${batch_size}"], ["++seed=1"], ["seed=nan"]):
        ends = []
        for alone in (False, True):
            with monkeypatch.context() as patch, interpolate.at(0.0):
                if alone:
                    patch.setattr(compose, "_twin", lambda given, search: None)
                try:
                    found = compose.resolve([*fixed, *own])
                    ends.append((list(found.config.items()), dict(found.choices), found.overrides))
                except ConfigError as error:
                    ends.append(str(error))
        assert ends[0] == ends[1]


def test_only_runs_that_differ_by_no_more_are_composed_once() -> None:
    def is_known(*overrides: str) -> bool:
        return compose._twin(words.overrides(overrides), options.HERE) is not None

    assert is_known("aggregator=krum", "seed=1") and is_known("+setting=raga/mnist_mlp", "lr=0.1", "seed=2")
    assert not is_known("aggregator=krum") and not is_known("rounds=${seed}", "seed=7")
    assert not is_known("+aggregator.note=[1,${lr}]", "lr=0.1") and not is_known("data_dir=${now:%f}", "seed=1")


def test_a_config_that_somebody_changes_is_no_others() -> None:
    first, second = (compose.resolve(["aggregator=krum", f"seed={seed}"]).config for seed in (1, 2))
    first["aggregator"]["num_byzantine"] = -1
    third = compose.resolve(["aggregator=krum", "seed=3"]).config
    assert second["aggregator"] == third["aggregator"] != first["aggregator"]


def test_an_option_inside_an_option_is_replaced_at_any_depth() -> None:
    deep = ["aggregator=server_mix", "aggregator@aggregator.rule=b_krum", "aggregator@aggregator.rule.rule=trmean"]
    rule = compose.resolve([*deep, "num_byzantine_declared=1"]).config["aggregator"]["rule"]
    assert rule["rule"] == {"_target_": "robustfl_bench.aggregators.TrMean", "num_byzantine": 1}
    assert rule["pre_aggregation"]["_target_"].endswith(".Bucketing")
    without = compose.resolve([*deep[:2], "~pre_aggregation@aggregator.rule.pre_aggregation=bucketing"])
    assert set(without.config["aggregator"]["rule"]) == {"_target_", "rule"}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["aggregator=krumm"],
            "unknown aggregator 'krumm' (did you mean krum or mkrum or b_krum?); there are:",
        ),
        (["+setting=boba/minst"], "unknown setting 'boba/minst' (did you mean boba/mnist"),
        (
            ["aggregator.num_selected=3"],
            "the chosen option of aggregator has no setting 'aggregator.num_selected'; t",
        ),
        (
            ["aggregator=krum", "aggregator.num_selectd=3"],
            "(did you mean aggregator.num_selected or",
        ),
        (["no_such=3"], "no setting 'no_such'"),
        (["sed=3"], "no setting 'sed' (did you mean seed"),
        (["rounds=1.5"], "rounds must be of type int, got 1.5"),
        (["num_byzantine=0.2"], "20% of 100 clients are num_clients=100 num_byzantine=20 byzantine_placement=replace"),
        ([f"aggregator={'x' * 500}"], "unknown aggregator 'xxx"),
        (["lr=2024-01-01"], "lr must be of type float, got '2024-01-01'"),
        (["seed=${seed}"], "settings refer to each other in a circle"),
        (["krum"], "an override is KEY=VALUE, got 'krum'"),
        (["hydra/launcher=processes"], "hydra/launcher=processes is for sweeps, with -m"),
        (["seed=choice(1,2)"], "seed=choice(1,2) has several values: robustfl-bench -m makes a run of each"),
        (["seed=0,1"], "robustfl-bench -m makes a run of each; a list is written [0,1], and text with"),
        (["+seed=1"], "seed is there already: write seed=1"),
        (["+aggregator=krum"], "aggregator is there already: write aggregator=krum"),
        (["++aggregator=krum"], "aggregator is there already: write aggregator=krum"),
        (["++setting=boba/mnist"], "setting is a group of presets: write +setting=boba/mnist"),
        (["~aggregator=krum"], "~aggregator=krum deletes nothing: aggregator is average"),
        (["~seed=1"], "~seed=1 deletes nothing: seed is 0"),
        (["~aggregator.weigthed"], "'aggregator.weigthed' to delete (did you mean aggregator.weighted?)"),
        (["~attack"], "a run needs attack"),
        (["+aggregator@x=krum"], "+aggregator@x=krum has no place: write GROUP@"),
        (
            ["aggregator@aggregator.rule=krum"],
            "aggregator=average has no aggregator@aggregator.rule; there are: none; ",
        ),
        (
            ["aggregator=b_krum", "+aggregator@aggregator.rule=trmean"],
            "aggregator@aggregator.rule is there already",
        ),
        (
            ["aggregator=b_krum", "aggregator@aggregator.pre_aggregation=nnm"],
            "there are: pre_aggregation@aggregator.",
        ),
        (["a/b=3"], "no setting 'a/b'"),
        (["+rates={a:1}", "rates.b=2"], "no setting 'rates.b' (did you mean rates.a?)"),
        (["lr=${oc.env:NOT_THERE}"], "the environment has no variable 'NOT_THERE'"),
        (["lr=${hydra:jb.num}"], "lr must be of type float, got None"),
        (["wait=perhaps"], "wait must be of type bool, got 'perhaps'"),
        (["rerun=a", "reference=b"], "take one of rerun=FOLDER and reference=FOLDER, not rerun=a reference=b"),
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
    for written, message in (
        ("nmn", "unknown pre_aggregation 'nmn'"),
        ("[nnm]", "takes the name of an option, got ["),
    ):
        with pytest.raises(ConfigError, match=re.escape(message)):
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
    sweep = bench("-m", *command)
    assert sweep.code == 3 and sweep.err.startswith("error: no mnist in "), "a sweep asks for its data first"
    assert sweep.err.count("\n") == 1 and not run_folders(tmp_path / "results")
    assert bench("-m", *command, "dataset=digits").code == 0
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

    from robustfl_bench.train.parts import GROUPS

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
    bench("rerun=run").refused(2, message)


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
    assert reference["aggregator"]["_target_"].endswith(".Average")
    assert reference["attack"]["_target_"].endswith(".NoAttack")


# --- doors -----------------------------------------------------------------------------------------------------------


def test_a_sweep_without_m_says_how_many_runs_it_has(bench: Bench, tmp_path: Path) -> None:
    outcome = bench("+experiment=demo")
    assert outcome.code == 2 and "this sweeps aggregator, attack, seed: 36 runs; add -m" in outcome.err
    assert not (tmp_path / "results").exists()
    single = bench("+experiment=demo", "aggregator=krum", "attack=none", "seed=0", "rounds=1", "eval_every=1")
    assert single.code == 0, single.err
