"""Every verb of the commands is a function of Python, too: the same words, options and answers."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import robustfl_bench as rb
from robustfl_bench.commands import python
from robustfl_bench.commands.results import main as results_main

SMALL: dict[str, Any] = {"rounds": 2, "num_clients": 6, "num_byzantine": 1, "model.hidden": [4]}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def runs() -> pd.DataFrame:
    return rb.sweep(aggregator=["krum", "average"], attack=["none", "ipm"], **SMALL | {"model.hidden": [[4]]})


def test_every_verb_can_be_called() -> None:
    verbs = python.verbs()
    words = {"results table", "results report", "data prepare", "bench judge", "bench decide", "bench arena verify"}
    assert words <= set(verbs) and len(verbs) == 30
    for name in verbs:
        with pytest.raises(rb.ConfigError, match=rf"robustfl-{name} has no 'nothing'"):
            rb.command(name, nothing=1)


def test_it_answers_as_the_command_does(runs: pd.DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(runs) == 4 and results_main(["table", "--format", "markdown"]) == 0
    assert rb.table(format="markdown") == capsys.readouterr().out
    frame = rb.table()
    assert isinstance(frame, pd.DataFrame) and set(frame["aggregator"]) == {"krum", "average"}
    assert results_main(["list", "brifca", "--format", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed and rb.command("list", "brifca") == rb.command("results list", "brifca") == listed
    kept = rb.table(where=["aggregator=krum"], value="best_accuracy")
    assert set(kept["aggregator"]) == {"krum"}
    assert rb.table(format="markdown")._repr_markdown_() == rb.table(format="markdown"), "a page in a notebook"
    assert rb.table(format="text")._repr_markdown_().startswith("```")


@pytest.mark.parametrize(("words", "settings"), [(("seed=0,0",), {}), ((), {"seed": [0, 0]})], ids=str)
def test_a_run_that_a_sweep_asks_for_twice_is_one_row(words: tuple[str, ...], settings: dict[str, Any]) -> None:
    assert len(rb.sweep(*words, **settings, **SMALL | {"model.hidden": [[4]]})) == 1


def test_what_comes_with_the_package_is_at_hand() -> None:
    assert isinstance(rb.table("arfl/writers"), pd.DataFrame)
    assert rb.recommend("iid", 5, track="digits")["partition"] == "iid"
    assert rb.command("bench docs", "glossary", format="text").startswith("# ")
    assert any(row["name"] == "digits" for row in rb.command("data list"))


def test_whether_the_server_has_data_is_true_false_or_a_word_of_the_command() -> None:
    for has, words in ((True, (True, "yes")), (False, (False, "no"))):
        assert all(rb.recommend("iid", 5, word, track="digits")["server_data"] is has for word in words)
    with pytest.raises(rb.ConfigError, match="server_data takes True or False, got 'maybe'"):
        rb.recommend("iid", 5, server_data="maybe")
    with pytest.raises(rb.ConfigError, match="recommend has no 'format'"):
        rb.recommend("iid", 5, format="csv")


def test_a_config_is_composed_and_runs() -> None:
    config = rb.compose("attack=ipm", aggregator="krum", **SMALL)
    assert config["aggregator"]["num_byzantine"] == 1 and config["rounds"] == 2
    assert rb.run(config).path == rb.run(attack="ipm", aggregator="krum", **SMALL).path


@pytest.mark.parametrize(
    ("name", "words", "options", "message"),
    [
        ("tabel", (), {}, r"no verb 'tabel' \(did you mean"),
        ("table", ("boba/nothing",), {}, "unknown table 'boba/nothing'"),
        ("table", (), {"format": "pdf"}, "invalid choice: 'pdf'"),
        ("table", (), {"formt": "csv"}, r"robustfl-results table has no 'formt' \(did you mean format\?\)"),
        ("tune", (), {}, "the following arguments are required: --over"),
    ],
)
def test_a_mistake_is_one_line(name: str, words: tuple[str, ...], options: dict[str, Any], message: str) -> None:
    with pytest.raises(rb.ConfigError, match=message) as error:
        rb.command(name, *words, **options)
    assert "\n" not in str(error.value)
