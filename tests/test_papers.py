"""The papers' tables as they are described: every printed number once, and the runs that the presets make."""

from collections import Counter
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from robustfl_bench import cli
from robustfl_bench.config import options
from robustfl_bench.config.options import CONF
from robustfl_bench.config.parts import GROUPS
from robustfl_bench.experiment.plan import plan
from robustfl_bench.papers.known import TABLES
from robustfl_bench.papers.tables import PaperTable, Published, published
from robustfl_bench.results import matching
from robustfl_bench.results.records import leaf, text
from robustfl_bench.results.selection import canonical

assert cli  # registers the typed settings with hydra

COUNTS = {"boba": 857, "raga": 546, "brace": 140, "arfl": 105}
SHAPES = {  # how many numbers the papers print
    "boba/table1": 93, "boba/table2": 315, "boba/table3": 35, "boba/table4": 35, "boba/table7": 105,
    "boba/table8": 140, "boba/table9": 134, "raga/table2": 156, "raga/table3": 156, "raga/table4": 156,
    "raga/table5": 78, "brace/table1": 9, "brace/table2a": 70, "brace/table2b": 70, "arfl/table2": 105,
}  # fmt: skip
PRINTED = {name: table for name, table in TABLES.items() if not table.stand_in}

SERVER, RING = "all, to a server", "a client, on a ring"
NOT_ON_A_RING = {("krum", RING), ("median", RING), ("trimmed_mean", RING), ("rar", SERVER), ("brace", SERVER)}
"""Of BRACE's Table 1, nor with a server."""


@pytest.mark.parametrize("paper", COUNTS)
def test_every_printed_number_is_a_cell_of_one_table(paper: str) -> None:
    tables = [table for table in PRINTED.values() if table.paper == paper and not table.formulas]
    cells = [cell for table in tables for cell in table.cells]
    assert len(published(paper)) == COUNTS[paper] == len(cells)
    assert {id(cell.published) for cell in cells} == {id(number) for number in published(paper)}


def test_tables_have_the_shape_of_the_printed_ones() -> None:
    counts: Counter[str] = Counter()
    for name, table in PRINTED.items():
        counts[name.split("_")[0]] += len(table.cells)
    assert counts == SHAPES


def test_the_only_dashes_are_those_of_the_reference() -> None:
    dashes = set()
    for table in TABLES.values():
        there = {(cell.block, cell.method, cell.column.label) for cell in table.cells}
        every = {(block.label, method, column.label) for block in table.blocks for method in table.methods
                 for column in table.columns}  # fmt: skip
        assert len(table.cells) == len(there)
        dashes |= {(method, label) for _, method, label in every - there}
    assert dashes == {("average", "none mrd"), *NOT_ON_A_RING}


def test_a_cell_runs_what_its_row_of_the_csv_says() -> None:
    names = {"dataset": "dataset", "attack": "attack", "aggregator": "aggregator", "byzantine": "num_byzantine"}
    checked = 0
    for table in PRINTED.values():
        for cell in table.cells:
            if cell.runs is None:
                assert cell.published.key["attack"] == "worst"
                continue
            for column, key in names.items():
                if printed := cell.published.key[column]:
                    assert str(cell.runs[key]) == printed
                    checked += 1
            share, clients = cell.published.key["attack_fraction"], cell.runs["num_clients"]
            exact = float(share or 0) * clients
            assert not share or cell.runs["num_byzantine"] in (round(exact), int(exact))
            setting = cell.published.key["setting"]
            if setting.startswith("participation="):
                assert float(setting.split("=")[1]) == cell.runs["participation"]
    assert checked > 4000


def test_numbers_stay_as_they_are_printed() -> None:
    first = published("boba")[0]
    assert (first.mean, first.sd, first.number, first.spread, first.text) == ("92.5", "0.1", 92.5, 0.1, "92.5 (0.1)")
    single = Published({}, "0.90", "")
    assert (single.text, single.spread, single.digits) == ("0.90", 0, 2)


# --- options without Hydra ---------------------------------------------------------------------------------------


def composed(*overrides: str, preset_folder: Path | None = None) -> Any:
    search = [f"hydra.searchpath=[file://{preset_folder}]"] if preset_folder else []
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose("config", overrides=[*overrides, *search], return_hydra_config=True)


def plain(node: Any) -> Any:
    return OmegaConf.to_container(node, resolve=False)


@pytest.mark.parametrize("group", GROUPS)
def test_options_are_read_as_hydra_composes_them(group: str) -> None:
    names = sorted(path.stem for path in (CONF / group).glob("*.yaml"))
    assert names
    for name in names:
        assert options.exists(group, name)
        with initialize_config_dir(str(CONF), version_base="1.3"):
            node = plain(compose(f"{group}/{name}"))
        for part in group.split("/"):
            node = node.get(part, {})
        # Hydra reads 5e-4 as a number, plain YAML as a word; as text they are the same
        ours = {key: canonical(text(leaf(value))) for key, value in options.flatten(options.option(group, name))}
        assert ours == {key: canonical(text(leaf(value))) for key, value in options.flatten(node)}


def test_defaults_are_those_of_the_configuration() -> None:
    cfg = composed()
    groups, scalars = options.defaults()
    assert groups == {group: cfg.hydra.runtime.choices[group] for group in groups} and set(GROUPS) <= set(groups)
    root = plain(cfg)
    assert {key: root[key] for key in scalars} == scalars
    assert not options.exists("aggregator", "nothing") and options.is_group("attack") and not options.is_group("lr")


def identity(*overrides: str) -> dict[str, str]:
    """The settings of a run with these overrides, as ``matching.held`` gives them."""
    planned = plan(without_hydra(composed(*overrides)))
    return {key: canonical(text(leaf(value))) for key, value in options.flatten(planned.identity)}


def without_hydra(cfg: Any) -> Any:
    return OmegaConf.masked_copy(cfg, [key for key in cfg if key != "hydra"])


MNIST = ("dataset=mnist", "num_clients=100", "num_byzantine=15", "num_byzantine_declared=16", "rounds=200",
         "schedule=step")  # fmt: skip


@pytest.mark.parametrize("rule", ["average", "b_mkrum", "boba", "geomed"])
def test_a_composed_run_is_the_one_that_its_cell_wants(rule: str) -> None:
    cells = {(c.method, c.column.label): c for c in TABLES["boba/table2_mnist"].cells if c.runs is not None}
    run = identity(*MNIST, f"aggregator={rule}", "attack=lie")
    assert matching.differences(run, matching.wanted(cells[rule, "lie"].runs or {})) == []
    for other in ("krum", "mkrum", "b_krum", "trmean"):
        assert matching.differences(run, matching.wanted(cells[other, "lie"].runs or {}))
    assert matching.differences(run, matching.wanted(cells[rule, "ipm"].runs or {}))


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("rounds=100", ["rounds=100"]),
        ("num_byzantine_declared=15", ["aggregator.num_byzantine=15"]),
        ("aggregator.num_selected=5", ["aggregator.num_selected=5"]),
        ("schedule.first_decay=late", ["schedule.first_decay=late"]),
        ("dataset.scaling=unit", ["dataset.scaling=unit"]),
        ("attack.z=0.7", ["attack.z=0.7"]),
        ("server_data.samples_per_class=5", ["server_data.samples_per_class=5"]),
        ("participation=0.5", ["participation=0.5"]),
        ("precision=high", ["precision=high"]),
        ("pre_aggregation=bucketing", ["pre_aggregation._target_", "pre_aggregation.bucket_size=2"]),
        ("seed=4", []),
        ("eval_every=10", []),
        ("aggregator=krum", ["aggregator.num_selected=1"]),
    ],
)
def test_one_other_setting_keeps_a_run_out(override: str, told: list[str]) -> None:
    cell = next(c for c in TABLES["boba/table2_mnist"].cells if (c.method, c.column.label) == ("mkrum", "lie"))
    found = matching.differences(identity(*MNIST, "aggregator=mkrum", "attack=lie", override),
                                 matching.wanted(cell.runs or {}))  # fmt: skip
    assert len(found) == len(told) and all(a.startswith(b) for a, b in zip(sorted(found), told, strict=True))


def test_settings_that_an_older_run_did_not_have_are_as_shipped_unless_the_table_names_them() -> None:
    cell = next(c for c in TABLES["boba/table2_mnist"].cells if (c.method, c.column.label) == ("boba", "lie"))
    target = matching.wanted(cell.runs or {})
    run = identity(*MNIST, "aggregator=boba", "attack=lie")
    older = {key: value for key, value in run.items() if key not in ("precision", "aggregator.es_subspace")
             and not key.startswith("local_update.")}  # fmt: skip
    assert matching.differences(older, target) == []
    for key in ("rounds", "server_data.samples_per_class", "aggregator._target_"):
        assert matching.differences({k: v for k, v in run.items() if k != key}, target) == [f"{key}=absent"]
    corrupted = next(c for c in TABLES["boba/table3"].cells if (c.method, c.column.label) == ("boba", "lie"))
    clean = matching.differences(run, matching.wanted(corrupted.runs or {}))
    assert "corruption._target_=absent" in clean and "corruption.severity=absent" in clean


# --- tables and presets --------------------------------------------------------------------------------------------


def relevant(runs: Mapping[str, Any], scale: str) -> frozenset[tuple[str, str]]:
    """What tells a cell's runs apart and must be the same in the preset; at scale=quick sizes may be others."""
    free = {*matching.SIZES, "schedule", "server_data"} if scale == "quick" else set()
    return frozenset((key, canonical(text(leaf(value)))) for key, value in runs.items()
                     if not {key, key.split(".")[0]} & free)  # fmt: skip


DIRECT = ("aggregator", "attack", "num_byzantine", "partition.alpha")  # these change no other setting
ABSENT = object()


def sweep_of(name: str, scale: str, folder: Path | None = None) -> dict[str, list[Any]]:
    """The swept values of a preset, without the seeds."""
    preset = (f"+experiment={name}", f"scale={scale}")
    sweep = OmegaConf.to_container(composed(*preset, preset_folder=folder).hydra.sweeper.params, resolve=True)
    assert isinstance(sweep, dict)
    return {str(key): choices(str(key), str(values)) for key, values in sweep.items() if key != "seed"}


def cells_of_preset(table: PaperTable, scale: str, folder: Path | None = None) -> set[frozenset[tuple[str, str]]]:
    """The runs that the preset's sweep makes, told by the settings that the table names.

    What a file of +method, +threat or +setting sets does not depend on the others, so that each is composed once.
    """
    preset = (f"+experiment={table.name}", f"scale={scale}")
    swept = sweep_of(table.name, scale, folder)
    direct = [[{key: value} for value in swept.pop(key)] for key in DIRECT if key in swept]
    files = {key: swept.pop(key) for key in list(swept) if key.startswith("+")}
    keys = {key for cell in table.cells for key in cell.runs or {}} - by_column(table)

    def settings(*overrides: str) -> dict[str, Any]:
        cfg = composed(*preset, *overrides, preset_folder=folder)
        found = dict(options.flatten(OmegaConf.to_container(without_hydra(cfg), resolve=True)))  # type: ignore[arg-type]
        found |= {group: name for group, name in cfg.hydra.runtime.choices.items() if options.is_group(group)}
        return {key: found[key] for key in keys if key in found}

    found = set()
    for others in product(*swept.values()):
        one = [f"{key}={value}" for key, value in zip(swept, others, strict=True)]
        first = {key: f"{key}={values[0]}" for key, values in files.items()}
        base = settings(*one, *first.values())
        changes = []
        for key, values in files.items():
            held = [settings(*one, *(first | {key: f"{key}={value}"}).values()) for value in values]
            changes.append([{name: each.get(name, ABSENT) for name in keys if each.get(name, ABSENT)
                             != base.get(name, ABSENT)} for each in held])  # fmt: skip
        for parts in product(*changes, *direct):
            run = {**base, **{key: value for part in parts for key, value in part.items()}}
            run |= {"num_byzantine": 0} if run["attack"] == "none" else {}
            found.add(relevant({key: value for key, value in run.items() if value is not ABSENT}, scale))
    return found


def choices(key: str, values: str) -> list[Any]:
    (override,) = OverridesParser.create().parse_overrides([f"{key}={values}"])
    return list(override.sweep_iterator()) if override.is_sweep_override() else [override.value()]


def cells_of_table(table: PaperTable, scale: str) -> set[frozenset[tuple[str, str]]]:
    apart = by_column(table)
    held = [cell.runs for cell in table.cells if cell.runs is not None]
    return {relevant({key: value for key, value in runs.items() if key not in apart}, scale) for runs in held}


def by_column(table: PaperTable) -> set[str]:
    """What a method brings to single columns only: looked at in full, one run each."""
    return {key for column in table.columns for brought in column.brings.values() for key in brought}


BEYOND = {"brace/table1": 5}  # its sweep is a product: RAR and BRACE with a server, and what a ring cannot compute


def check_preset(table: PaperTable, folder: Path | None = None) -> None:
    """The preset makes the runs of the table, no other and none less, and each in full what its cell wants."""
    paper, quick = (cells_of_preset(table, scale, folder) for scale in ("paper", "quick"))
    assert cells_of_table(table, "paper") <= paper
    assert len(paper - cells_of_table(table, "paper")) == BEYOND.get(table.name, 0)
    assert quick and len(quick - cells_of_table(table, "quick")) == BEYOND.get(table.name, 0)
    last = {cell.block: cell for cell in table.cells if cell.runs is not None}  # the last method, under attack
    special = [cell for cell in table.cells if cell.method in cell.column.brings]
    for scale, cell in product(("paper", "quick"), [*last.values(), *special]):
        runs = cell.runs or {}
        axes = {**cell.column.runs, "aggregator": cell.method}
        axes |= next(block.runs for block in table.blocks if block.label == cell.block)
        swept = sweep_of(table.name, scale, folder)
        files = {key: values for key, values in swept.items() if key.startswith("+")}
        if files:  # they set all else that belongs to the rule, the attack and the model
            axes = {key: value for key, value in axes.items() if key in swept}
            ends = (f"/{cell.method}", f"/{runs['attack']}", f"_{runs['model']}")
            axes |= {key: next(value for value in values if value.endswith(ends)) for key, values in files.items()}
        one = [f"{key}={value}" for key, value in axes.items() if scale == "paper" or key not in matching.SIZES]
        cfg = without_hydra(composed(f"+experiment={table.name}", f"scale={scale}", *one, preset_folder=folder))
        run = {key: canonical(text(leaf(value))) for key, value in options.flatten(plan(cfg).identity)}
        assert matching.differences(run, matching.wanted(runs, scale == "quick")) == []


@pytest.mark.parametrize("name", TABLES)
def test_table_and_preset_agree(name: str) -> None:
    if not options.exists("experiment", name):
        pytest.skip(f"there is no preset conf/experiment/{name}.yaml yet")
    check_preset(TABLES[name])


def write_preset(folder: Path, table: PaperTable, **sweep: str) -> None:
    groups = {f"override /{key}": value for key, value in table.runs.items() if options.is_group(key)}
    scalars = {key: value for key, value in table.runs.items() if not options.is_group(key)}
    nested: dict[str, Any] = {"num_byzantine": 15}
    for key, value in scalars.items():
        group, _, last = key.rpartition(".")
        (nested.setdefault(group, {}) if group else nested)[last] = value
    nested["rounds"] = f"${{at_scale:{nested['rounds']},5}}"
    nested["num_clients"] = f"${{at_scale:{nested['num_clients']},20}}"
    attacks = [column.label for column in table.columns if not column.worst]
    params = {"aggregator": ",".join(table.methods), "attack": ",".join(attacks), "seed": "0,1,2,3,4"} | sweep
    content = {"defaults": [{key: value} for key, value in groups.items()] + ["_self_"],
               "hydra": {"sweeper": {"params": params}}} | nested  # fmt: skip
    path = folder / "experiment" / f"{table.name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("# @package _global_\n" + yaml.safe_dump(content, sort_keys=False))


def test_the_check_of_presets_accepts_a_right_one_and_finds_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = PaperTable("try/table2", "", TABLES["boba/table2_mnist"].published, TABLES["boba/table2_mnist"].runs,
                       TABLES["boba/table2_mnist"].methods, TABLES["boba/table2_mnist"].columns)  # fmt: skip
    monkeypatch.setattr(PaperTable, "paper", "boba")
    write_preset(tmp_path / "right", table)
    check_preset(table, tmp_path / "right")
    wrong = {
        "a_rule_less": {"aggregator": ",".join(table.methods[1:])},
        "an_attack_more": {"attack": "none,gauss,ipm,lie,mimic,minmax,minsum"},
        "another_rate": {"lr": "0.2"},
        "fewer_declared": {"num_byzantine_declared": "15"},
        "another_partition": {"partition": "iid"},
        "another_decay": {"schedule.factor": "0.9"},
    }
    for name, sweep in wrong.items():
        write_preset(tmp_path / name, table, **sweep)
        with pytest.raises(AssertionError):
            check_preset(table, tmp_path / name)
