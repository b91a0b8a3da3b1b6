"""Results of a stranger that name classes of a package beside them: no command that reads results imports it."""

import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from robustfl_bench.base import trusted
from robustfl_bench.commands import entry, results
from robustfl_bench.commands.verb import name_of
from robustfl_bench.lab.arena.answers import entries
from robustfl_bench.lab.arena.track import Track
from robustfl_bench.lab.arena.views import VIEWS
from robustfl_bench.read.runs import archive, commands, records
from robustfl_bench.runner.config import compose, identity, options
from robustfl_bench.runner.config.choices import labels
from robustfl_bench.runner.store import folders
from robustfl_bench.runner.store.results import of_rows
from robustfl_bench.train.parts import GROUPS
from tests.conftest import Bench, run_cli

HONEST = "+experiment=arena/digits_honest"
CLASS = {"_target_": "evilmod.Evil"}
OPTION = "evilmod:Evil"
ASKED = ("+experiment=arena/digits", "partition=iid", "num_byzantine=5", "seed=0", "lr=0.1")
NESTED: tuple[Mapping[str, Any], ...] = (
    *({group: CLASS} for group in GROUPS if group != "tracker"),
    {"aggregator": {"_target_": "robustfl_bench.adapters.Foreign", "rule": CLASS, "array": "numpy"}},
    {"aggregator": {"_target_": "robustfl_bench.aggregators.Krum", "num_byzantine": CLASS}},
    {"pre_aggregation": {"_target_": "robustfl_bench.pre_aggregations.Chain", "steps": [CLASS, CLASS]}},
    {"attack": {"_target_": "robustfl_bench.attacks.Scheduled", "attack": CLASS}},
)
"""The parts of configs in which the class stands."""

TABLE = f"""
tables:
  first:
    base: [+setting=boba/mnist, attack=ipm]
    rows: [{{label: evil, run: [aggregator={OPTION}]}}]
    column: {{run: [], published: {{}}}}
    columns: [accuracy]
"""
FILE, FOLDER = ("--from", "strange.csv"), ("--results-dir", "results")
SMALL = ("--protocol", "digits", "--partitions", "iid", "--attackers", "5", "--seeds", "0")
OF_RULE = ("--where", f"aggregator={OPTION}")
READERS: dict[str, list[tuple[str, ...]]] = {
    "status": [("--all",), ("--format", "json")],
    "list": [("arfl",), ("boba/table2",)],
    "table": [(), ("boba/table2_mnist",), ("--rows", "attack", "--columns", "aggregator"), ("theirs.yaml",)],
    "agreement": [("brifca",)],
    "arena": [("digits",), ("digits", "--claims"), *(("digits", "--view", view) for view in VIEWS),
              ("digits", "--plot", "a.png"), ("digits", "--entries", "entries")],
    "recommend": [("--partition", "iid", "--attackers", "5", "--track", "digits")],
    "tune": [("--over", "lr", *OF_RULE)],
    "plot": [(kind, "--output", "a.png", *OF_RULE) for kind in ("accuracy", "heat", "recall", "weights", "roc")],
    "figure": [(), ("boba/fig12", "--output", "a.png")],
    "report": [()],
    "diff": [("FIRST", "SECOND"), ("FIRST", "seed=1")],
    "export": [("--summary", "again.csv"), ("--output", "rounds.csv")],
    "publish": [("published", "--url", "https://example.org")],
}  # fmt: skip
"""The words after each verb of ``robustfl-results``."""

SOURCES: dict[str, list[tuple[str, ...]]] = {"status": [FOLDER], "diff": [()]}
"""The words that name the results, of verbs that do not take both kinds."""

MAKERS: dict[str, list[tuple[str, ...]]] = {
    "arena": [("enter", "krum", "--attacks", "ipm", *SMALL, *FOLDER),
              ("attack", "ipm", "--rules", "krum", *SMALL, *FOLDER)],
    "decide": [("boba", "--dry-run", *FOLDER)],
    "fill": [("byzfl", "--minutes", "1", "--dry-run", *FOLDER)],
    "judge": [("trmean", "--quick", "--seeds", "2", *FOLDER)],
    "probe": [("boba/fig1", "scale=quick", "rounds=1")],
    "remake": [("strange.csv", "--dry-run", *FOLDER), ("strange.csv", *FOLDER)],
    "resilience": [("aggregator=average", "--inputs", "round", "--steps", "1", "rounds=1", "num_clients=5",
                    "num_byzantine=1", "model.hidden=[2]")],
}  # fmt: skip
"""The words after each verb of ``robustfl-bench`` that reads results."""


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the module, run folders whose configs and choices name it, and the file and the entry of these."""
    folder = tmp_path_factory.mktemp("strange")
    (folder / "evilmod.py").write_text("open('imported', 'w').close()\nclass Evil: pass\n")
    usual = compose.resolve([*ASKED, "attack=ipm"])
    for parts in NESTED:
        _write_run(folder, usual, parts)
    for attack in Track("digits").swept["attack"]:
        _write_run(folder, compose.resolve([*ASKED, f"attack={attack}"]), {"aggregator": CLASS})
    _write_run(folder, compose.resolve([HONEST, *ASKED[1:]]), {})
    runs = records.load(folder / "results")
    assert set(runs["state"]) == {"finished"}, list(runs["error"])
    archive.write(runs.assign(code="0" * 12), str(folder / "strange.csv"))  # else no verb would ask for them again
    (folder / "entries" / "evil").mkdir(parents=True)
    archive.write(runs, str(folder / "entries" / "evil" / entries.RUNS))
    facts = {"name": "evil", "protocol": "digits", "command": "none", "aggregator": CLASS}
    (folder / "entries" / "evil" / entries.FACTS).write_text(options.written(facts))
    (folder / "theirs.yaml").write_text(TABLE)
    return folder


def _write_run(strange: Path, resolved: compose.Resolved, parts: Mapping[str, Any]) -> None:
    """A finished run with other parts than those that were resolved."""
    config = {**identity.defining(resolved.config), **parts}
    choices = labels({group: name for group, name in resolved.choices.items() if group not in parts}, config)
    choices |= {group: OPTION for group, content in parts.items() if content == CLASS}
    name = "strange" if parts else "honest"
    folder = strange / "results" / "runs" / f"{name}-{identity.run_id(config)}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(options.written(dict(config)))
    last = {"round": config["rounds"], "lr": 0.1, "test_loss": 0.5, "test_accuracy": 0.9, "validation_accuracy": 0.8}
    (folder / "metrics.csv").write_text(f"{','.join(last)}\n{','.join(map(str, last.values()))}\n")
    summary = {
        "status": "finished", "run_id": identity.run_id(config), "name": folder.name, "choices": dict(choices),
        "seconds": 1.5, **of_rows([last]),
        "code": {"package": "0" * 64, "parts": {}}, "files": folders.recorded(folder),
    }  # fmt: skip
    (folder / "summary.json").write_text(json.dumps(folders.seal(summary)))


@pytest.fixture
def here(strange: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder as the current one, of which nothing was imported in the end; others may not write into it."""
    monkeypatch.chdir(strange)
    monkeypatch.setattr(sys, "path", [*sys.path, str(strange)])
    yield strange
    imported = sys.modules.pop("evilmod", None), (strange / "imported").exists()
    (strange / "imported").unlink(missing_ok=True)
    assert imported == (None, False)


def test_every_verb_is_walked() -> None:
    assert set(READERS) == set(map(name_of, results.VERBS))
    assert set(MAKERS) == {*entry.VERBS, *entry.LABORATORY} - set(entry.READ_NO_RESULTS)


@pytest.mark.parametrize("verb", READERS)
def test_a_verb_that_reads_imports_nothing_that_results_name(
    here: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    first, second, *_ = sorted((here / "results" / "runs").iterdir())
    places = {"FIRST": str(first), "SECOND": str(second)}
    codes = list[int]()
    for words in READERS[verb]:
        for source in SOURCES.get(verb, (FILE, FOLDER)):
            code, _, errors = run_cli(capsys, verb, *(places.get(word, word) for word in words), *source)
            assert "Traceback" not in errors and "usage" not in errors, errors
            codes.append(code)
    lacking = verb == "publish" and find_spec("pyarrow") is None  # then one line says so
    assert (0 in codes or lacking) and set(codes) <= {0, 2, 3}, errors


@pytest.mark.slow
@pytest.mark.parametrize("verb", MAKERS)
def test_a_verb_that_makes_runs_imports_nothing_that_results_name(
    here: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.chdir(here)
    for words in MAKERS[verb]:
        assert "Traceback" not in bench(verb, *words).err


@pytest.mark.parametrize(
    "words",
    ["rerun=FIRST", "reference=FIRST", "rerun=FIRST --cfg job --resolve participation=0.5", "-m rerun=FIRST seed=0,1"],
)
def test_a_run_of_a_strangers_config_needs_allow(
    here: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.chdir(here)
    first = next(path for path in (here / "results" / "runs").iterdir() if "Evil" in (path / "config.yaml").read_text())
    bench(*words.replace("FIRST", str(first)).split()).refused(2, "if you trust it, add allow=evilmod")


def test_rows_are_not_asked_for_by_python_either(here: Path) -> None:
    runs = archive.read("strange.csv")
    strange = [run for run in runs.to_dict("records") if run["run"].startswith("strange")]
    assert len(strange) > len(NESTED) and not any(map(commands.overrides_of, strange))
    damaged = {"pre_aggregation": "[nnm,arc]", "pre_aggregation.steps": "[[[", "run_id": "0"}
    assert not commands.overrides_of({**strange[0], **damaged})


@pytest.mark.parametrize(("words", "source"), [("report", FILE), ("arena digits", FOLDER)])
def test_allow_lets_a_package_in(
    strange: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, source: tuple[str, ...]
) -> None:
    shutil.copytree(strange, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    monkeypatch.setattr(sys, "path", [*sys.path])
    results.main([*words.split(), *source, "--allow", "another"])
    assert "evilmod" not in sys.modules
    results.main([*words.split(), *source, "--allow", "evilmod"])
    assert sys.modules.pop("evilmod", None) is not None


@pytest.mark.parametrize(
    ("word", "packages"),
    [
        ("aggregator=mine.rules:Mine", {"mine"}),
        ("aggregator=krum,mine:Mine,yours:Yours", {"mine", "yours"}),
        ("pre_aggregation=[clipping,mine:Mine]", {"mine"}),
        ("aggregator@attack.rule=mine:Mine", {"mine"}),
        ("aggregator._target_=mine.rules.Mine", {"mine"}),
        ("mine:Mine", {"mine"}),
        ("aggregator=krum", set()),
        ("lr=0.1", set()),
        ("file:///tmp/mine:Mine.csv", set()),
    ],
)
def test_the_packages_of_a_word(word: str, packages: set[str]) -> None:
    assert trusted.named([word]) == packages


def test_the_gate_closes_and_opens_again() -> None:
    assert trusted.packages() is None
    with trusted.only():
        assert trusted.packages() == []
        with trusted.only(["mine"]), trusted.only():
            assert trusted.packages() == ["mine"]
        assert trusted.packages() == []
    assert trusted.packages() is None


def test_an_option_is_a_file_within_the_folders(tmp_path: Path) -> None:
    (tmp_path / "evil.yaml").write_text("_target_: evilmod.Evil\n")
    outside = "../" * 30 + str(tmp_path / "evil").lstrip("/")
    assert options.find(f"aggregator/{outside}") is None
