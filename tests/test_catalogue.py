"""The catalogue: what ``--list`` prints, that the site's page has all of it, and that every option says its source."""

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

from robustfl_bench.base.parallel import workers
from robustfl_bench.commands.listing import WIDTH, listing
from robustfl_bench.doors.catalogue.entries import CatalogueEntry, entries, groups, option
from robustfl_bench.doors.catalogue.measures import facts
from robustfl_bench.runner.config import options
from robustfl_bench.train.parts import GROUPS
from tests.conftest import Bench

SCRIPT = Path(__file__).parents[1] / "scripts" / "generators" / "catalogue.py"
spec = importlib.util.spec_from_file_location("catalogue_script", SCRIPT)
assert spec is not None and spec.loader is not None
script: Any = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)

ALL = [group.name for group in groups()]
CITED = [entry for group in ("aggregator", "attack", "pre_aggregation", "partition") for entry in entries(group)]
OWN = '''"""A rule of a test."""

from dataclasses import dataclass
from typing import Annotated

import torch

from robustfl_bench.interfaces import Aggregator, ConfigError, at_least
from robustfl_bench.numerics.updates import Aggregate, Updates


@dataclass(frozen=True)
class Own(Aggregator):
    """Mean of two medians (e.g. of the updates, etc.) and of ``loss``. It is costly.

    A second paragraph.
    """

    num_byzantine: int
    steps: Annotated[int, at_least(1)] = 2
    """steps towards the median"""

    def check(self, n):
        if n < 3 * self.num_byzantine + 2:
            raise ConfigError("too few")

    def aggregate(self, updates, server):
        server.loss(server.params[None])
        fresh = Updates(updates.matrix * 2).gram[0, 0] + updates.gram[0, 0]
        middle = updates.by_sorted_column(lambda values: values[:, 0]) + updates.matrix.sort(dim=0).values[-1]
        return Aggregate(middle + 0 * fresh + server.rng.normal(), memory={"seen": fresh[None]})
'''


def test_what_a_rule_costs_does_not_depend_on_the_threads() -> None:
    with workers(2):
        assert facts(option("aggregator", "trmean")).words[-1] == "1 sort"


def test_the_table_of_groups_is_up_to_date() -> None:
    assert script.README.read_text(encoding="utf-8") == script.listed(), "run `make catalogue`"


def test_the_page_has_every_option_once_with_its_sentence_its_keys_and_its_cost() -> None:
    rows = script.page().splitlines()
    for group in (group for group in groups() if group.name in GROUPS):
        assert f"## `{group.name}` ({group.count}): {group.question}" in rows
        for entry in entries(group.name):
            (row,) = (row for row in rows if row.startswith(f"| [`{entry.name}`]({group.name}/{entry.name}.yaml)"))
            assert entry.summary.replace("``", "`").replace("|", script.BAR) in row
    assert any(row.startswith("| `krum` | `num_selected` | `1` | >= 1 |") for row in rows)
    assert any(row.startswith("| [`krum`]") and "needs f, n > 2f + 2; 1 Gram" in row for row in rows)


def test_the_comments_behind_keys_are_what_the_classes_say() -> None:
    files = dict(script.explained())
    assert len(files) > 150
    outdated = [str(file) for file, text in files.items() if file.read_text(encoding="utf-8") != text]
    assert outdated == [], "run `make catalogue`; a remark of a file itself is a line of its own above the key"


@pytest.mark.parametrize("entry", CITED, ids=lambda entry: f"{entry.group}={entry.name}")
def test_an_option_is_one_sentence_from_a_source(entry: CatalogueEntry) -> None:
    if not entry.target:
        return
    place = f"{entry.target.rpartition('.')[0]} ({entry.group}={entry.name})"
    assert entry.source, (
        f"{place}: say where it is from in the docstring of the module, in brackets at the end of its first line, such "
        "as (Author et al., ICML 2021, section 3), (ours) or (folklore); then run `make catalogue`"
    )
    sentence = entry.summary
    assert entry.same_as or (15 <= len(sentence) <= 170 and sentence.endswith(".") and not sentence[0].islower()), (
        f"{place}: the docstring of the class must begin with one sentence of at most 170 characters that says what it "
        f"computes; got {sentence!r}"
    )


def test_every_option_has_a_line_and_lists_fit_a_terminal() -> None:
    for group in ALL:
        text = listing([group])
        assert [line for line in text.splitlines() if len(line) > WIDTH] == []
        named = {line.split()[0] for line in text.partition("\n\n")[2].splitlines() if line and line[0] != " "}
        assert named == {entry.name for entry in entries(group)}
    assert all(f"{name} " in listing() for name in ALL)


@pytest.mark.parametrize(
    "written", [["aggregator", "boba_es"], ["aggregator=boba_es"], ["+threat=raga/lie"], ["aggregator", "krum"]]
)
def test_an_option_is_shown_with_its_keys(bench: Bench, written: list[str]) -> None:
    outcome = bench("--list", *written)
    assert outcome.code == 0 and outcome.err == ""
    assert max(map(len, outcome.out.splitlines())) <= WIDTH
    if "boba_es" in written[-1]:
        words = " ".join(outcome.out.replace("# ", "").split())
        assert "boba with fit=exhaustive" in words and "Stage 2 (`stage2`) writes every client's" in words
        assert "p_min: -0.5 in [-inf, 0]; least accepted coefficient" in words, "keys of the option that it builds on"
        assert "Source: Bao, Wu, He, AISTATS 2024, https://arxiv.org/abs/2208.12932" in words
    elif "krum" in written:
        assert "num_selected: 1 # >= 1; best updates averaged; null: n - f" in " ".join(outcome.out.split())
        assert "Other keys, with their defaults:\n  squared: true " in outcome.out
    else:
        assert "Noise of 0.7 standard deviations about the honest mean" in outcome.out and "z: 0.7" in outcome.out


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        (["agregator"], "no group 'agregator' (did you mean aggregator"),
        (["aggregator", "krumm"], "unknown aggregator 'krumm' (did you mean krum"),
        (["setting", "boba/minst"], "unknown setting 'boba/minst' (did you mean boba/mnist"),
        (["aggregator", "krum", "mkrum"], "a group and a name at most"),
        (["--lots"], "unrecognized arguments: --lots"),
        (["--config-dir", "absent"], "--config-dir must be a folder"),
    ],
)
def test_a_mistake_is_one_line(bench: Bench, arguments: list[str], phrase: str) -> None:
    bench("--list", *arguments).refused(2, phrase)


def test_aliases_and_variants_name_what_they_stand_for() -> None:
    summaries = {entry.name: entry.summary for entry in entries("aggregator")}
    assert summaries["median"] == "Alias of coomed." and summaries["rar"] == "Alias of average."
    assert summaries["mkrum"] == "krum with num_selected=null."
    assert summaries["b_mkrum"].endswith("(pre_aggregation=bucketing, rule=mkrum).")
    for entry in entries("aggregator"):
        if entry.same_as and not entry.differs:
            assert dict(options.option("aggregator", entry.name)) == dict(options.option("aggregator", entry.same_as))


def test_needs_and_cost_are_what_happens() -> None:
    found = {
        name: "; ".join(facts(option("aggregator", name)).words) for name in ("krum", "fltrust", "average", "arfl")
    }
    assert found == {
        "krum": "needs f, n > 2f + 2; 1 Gram",
        "fltrust": "needs server data; linear",
        "average": "a sum is enough; linear",
        "arfl": "needs training losses, sample counts; remembers; linear",
    }
    attacks = {
        name: facts(option("attack", name)).does for name in ("label_flip", "ipm", "fake_loss", "cluster_target")
    }
    assert attacks["label_flip"] == ("poisons data",) and "claims losses" in attacks["fake_loss"]
    assert attacks["ipm"] == ("crafts updates", "reads honest updates")
    assert attacks["cluster_target"][0] == "chooses a model"
    assert facts(option("attack", "tailored")).does[-1] == "evaluates the rule 13 times"
    assert facts(option("attack", "none")).words == [] and facts(option("pre_aggregation", "nnm")).cost == "1 Gram"


def test_options_from_outside_are_listed_and_measured(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_catalogued.py").write_text(OWN)
    (tmp_path / "conf" / "aggregator").mkdir(parents=True)
    (tmp_path / "conf" / "aggregator" / "own.yaml").write_text(
        "# robustfl-bench aggregator=own\n_target_: own_catalogued.Own\n"
        "num_byzantine: ${num_byzantine_declared}   # my own word\n"
    )
    (tmp_path / "conf" / "aggregator" / "lost.yaml").write_text("# robustfl-bench aggregator=lost\n_target_: no.Rule\n")
    monkeypatch.syspath_prepend(tmp_path)
    outcome = bench("--list", "aggregator", "--config-dir", "conf")
    assert outcome.code == 0, outcome.err
    blocks = {block.split()[0]: " ".join(block.split()) for block in outcome.out.split("\n\n")[1:]}
    own, lost = blocks["own"], blocks["lost"]
    assert "Mean of two medians (e.g. of the updates, etc.) and of `loss`. needs f, n > 3f + 1, server data" in own
    assert "; draws at random; remembers; 2 Grams + 2 sorts; " in own and "own.yaml" in own
    assert "No docstring of no.Rule" in lost and "cannot be measured: aggregator=lost: cannot build no.Rule" in lost
    assert set(blocks) == {*options.names("aggregator"), "own", "lost"}
    described = bench("--list", "aggregator", "own", "--config-dir", "conf").out
    assert "num_byzantine: ${num_byzantine_declared}   # my own word" in described
    assert "steps: 2   # >= 1; steps towards the median" in described
    count = re.search(r"aggregator +(\d+)", bench("--list", f"--config-dir={tmp_path / 'conf'}").out)
    assert count is not None and int(count[1]) == len(blocks)
