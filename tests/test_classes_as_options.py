"""Parts from outside chosen by their class, ``aggregator=my_module:MyRule``."""

import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.read.runs import commands
from robustfl_bench.runner.config import compose, identity, options, outside
from tests.conftest import Bench, config_of, run_cli, run_folders
from tests.presets import by_hydra

SMALL = ("rounds=2", "model.hidden=[8]", "num_clients=8", "num_byzantine=2")
PARTS = """
from dataclasses import dataclass, field

import torch

from robustfl_bench.interfaces import Aggregator, Attack, PreAggregation


@dataclass(frozen=True)
class CosineVote(Aggregator):
    num_byzantine: int
    stretch: float = 1.0
    sizes: tuple[int, ...] = (1, 2)
    names: list[str] = field(default_factory=list)
    device: object = torch.device("cpu")

    def aggregate(self, updates, server):
        return updates.combine(torch.full_like(updates.counts, self.stretch / updates.n))


@dataclass(frozen=True)
class Krum(CosineVote):
    power: int = field(kw_only=True)


@dataclass(frozen=True)
class HalfBack(Attack):
    num_byzantine: int

    def craft(self, view):
        return -0.5 * view.mean


@dataclass(frozen=True)
class Halved(PreAggregation):
    factor: float = 0.5

    def prepare(self, updates, rng):
        return updates.mix(torch.eye(updates.n, dtype=torch.float64) * self.factor)


class Stranger:
    pass
"""


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of its own name in the current folder, which Python does not look through by itself."""
    name = f"own_parts_{abs(hash(tmp_path)):x}"
    (tmp_path / f"{name}.py").write_text(PARTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder not in ("", str(tmp_path))])
    return name


def test_a_class_of_the_current_folder_is_an_option_with_its_fields_as_settings(bench: Bench, parts: str) -> None:
    outcome = bench(f"aggregator={parts}:CosineVote", "aggregator.stretch=2", f"attack={parts}:HalfBack", *SMALL)
    assert outcome.code == 0, outcome.err
    (name, folder) = next(iter(run_folders(Path("results")).items()))
    assert "-half_back2-cosine_vote-s0-" in name
    assert config_of(folder)["aggregator"] == {
        "_target_": f"{parts}.CosineVote", "names": [], "num_byzantine": 2, "sizes": [1, 2], "stretch": 2,
    }  # fmt: skip
    choices = json.loads((folder / "summary.json").read_text())["choices"]
    assert (choices["aggregator"], choices["attack"], choices["model"]) == ("cosine_vote", "half_back", "mlp")
    again = bench(f"rerun={folder}")
    assert again.code == 2 and f"add allow={parts}" in again.err, "a config of somebody else is not trusted"
    assert bench(f"rerun={folder}", f"allow={parts}").out.startswith("stored result")


def test_a_sweep_takes_classes_beside_options(bench: Bench, parts: str) -> None:
    chain = f"pre_aggregation=[clipping,{parts}:Halved]"
    outcome = bench("-m", f"aggregator=average,{parts}:CosineVote", chain, "pre_aggregation.halved.factor=0.1", *SMALL)
    assert outcome.code == 0, outcome.err
    folders = run_folders(Path("results"))
    assert [name.split("-")[3] for name in folders] == ["average", "cosine_vote"]
    summary = json.loads((list(folders.values())[-1] / "summary.json").read_text())
    assert f"aggregator={parts}:CosineVote" in shlex.split(summary["command"])
    assert summary["choices"]["pre_aggregation"] == "[clipping,halved]"


@pytest.mark.parametrize(
    "overrides",
    [
        ["aggregator=PARTS:CosineVote", "num_byzantine_declared=3", "attack=PARTS:HalfBack"],
        ["aggregator=PARTS:Krum", "aggregator.power=3", "aggregator.sizes=[5]"],
        ["pre_aggregation=PARTS:Halved"],
        ["pre_aggregation=[PARTS:Halved,nnm]", "pre_aggregation.halved.factor=2"],
        ["aggregator=b_krum", "aggregator@aggregator.rule=PARTS:CosineVote", "aggregator.rule.stretch=3"],
    ],
)
def test_hydra_composes_the_same_of_a_class_for_its_sweeper(parts: str, overrides: list[str]) -> None:
    given = [override.replace("PARTS", parts) for override in overrides]
    resolved = compose.resolve(given)
    assert identity.of(by_hydra(*given)) == resolved.identity
    assert parts in json.dumps(resolved.identity)


def test_the_commands_of_a_table_make_what_it_lacks(
    bench: Bench, parts: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    own = f"aggregator=average,{parts}:CosineVote"
    assert bench("-m", *SMALL, own, f"attack=none,{parts}:HalfBack").code == 0
    assert bench("-m", *SMALL, own, f"pre_aggregation=none,{parts}:Halved,clipping", "results_dir=halved").code == 0
    for columns, folder, removed in (
        ("attack", "results", ("*-half_back2-average-*", "*-none-cosine_vote-*")),
        ("pre_aggregation", "halved", ("*-average-*",)),
    ):
        for pattern in removed:
            for path in (tmp_path / folder).glob(f"runs/{pattern}"):
                shutil.rmtree(path)
        if columns == "pre_aggregation":
            assert bench(*SMALL, "results_dir=halved").code == 0
        _, out, _ = run_cli(capfd, "table", "--columns", columns, "--results-dir", folder)
        printed = [shlex.split(line)[1:] for line in out.splitlines() if line.strip().startswith("robustfl-bench ")]
        assert len(printed) == 2, out
        for command in printed:
            assert bench(*command).code == 0, command
        assert "missing" not in run_cli(capfd, "table", "--columns", columns, "--results-dir", folder)[1]


def test_a_stored_run_with_classes_is_shown_without_leave_and_asks_for_all_at_once(bench: Bench, parts: str) -> None:
    run = ("num_byzantine=0", f"pre_aggregation={parts}:Halved")
    assert bench(*SMALL, f"aggregator={parts}:CosineVote", *run).code == 0
    ((_, folder),) = run_folders(Path("results")).items()
    shown = bench(f"rerun={folder}", "--cfg", "job")
    assert shown.code == 0 and f"_target_: {parts}.CosineVote" in shown.out
    config = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(config.replace(f"{parts}.Halved", "others.Halved"))
    refused = bench(f"rerun={folder}")
    assert refused.code == 2 and f"'allow=[others,{parts}]'" in refused.err, refused.err
    assert commands.rerun(str(folder)).endswith(f" 'allow=[others,{parts}]'")


def test_required_fields_are_those_of_the_settings_and_the_servers_f_goes_to_rules(parts: str) -> None:
    known = {"_target_": f"{parts}.CosineVote", "stretch": 1.0, "sizes": [1, 2], "names": []}
    rule = outside.content("aggregator", f"{parts}:CosineVote")
    assert rule == known | {"num_byzantine": "${num_byzantine_declared}"}, "a default that YAML has no word for is left"
    assert outside.content("attack", f"{parts}:HalfBack")["num_byzantine"] == "${num_byzantine}"
    assert outside.content("aggregator", f"{parts}:Krum")["power"] == "???"


def test_a_readable_name_is_not_that_of_an_option_here(parts: str) -> None:
    assert options.label("aggregator", f"a.{parts}:Krum") == f"{parts}_krum"
    assert options.label("pre_aggregation", "[nnm,a:MyStep]") == "[nnm,my_step]"
    assert [outside.label(f"a:{name}") for name in ("CosineVote", "MLPHead2", "NNM")] == [
        "cosine_vote",
        "mlp_head2",
        "nnm",
    ]
    assert outside.label_of("robustfl_bench.attacks.NoAttack") == "none"
    assert outside.label_of("my_package.rules.CosineVote") == "cosine_vote"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["aggregator=PARTS_x:CosineVote"], "no module 'PARTS_x' (did you mean PARTS?); searched were the current"),
        (["aggregator=PARTS.py:CosineVote"], "no module 'PARTS.py' (did you mean PARTS?)"),
        (["aggregator=PARTS:CosinVote"], "PARTS.py) has no 'CosinVote' (did you mean CosineVote?)"),
        (["aggregator=PARTS:Stranger"], "a subclass of robustfl_bench.interfaces.Aggregator, got PARTS.Stranger"),
        (["aggregator=PARTS:HalfBack"], "got PARTS.HalfBack; did you mean attack=PARTS:HalfBack?"),
        (["aggregator=PARTS:Krum"], "aggregator.power has no default and no value; add aggregator.power=VALUE"),
        (["aggregator=PARTS:CosineVote", "aggregator.strech=2"], "no setting 'aggregator.strech' (did you mean"),
        (["aggregator=PARTS:CosineVote", "aggregator.stretch=two"], "aggregator.stretch must be a number, got 'two'"),
        (["aggregator=PARTS:Cosine:Vote"], "a class such as my_package.my_module:MyClass, got 'PARTS:Cosine:Vote'"),
        (["aggregator=json:PARTS"], "has no 'PARTS'"),
    ],
)  # fmt: skip
def test_a_mistake_with_a_class_is_one_line(bench: Bench, parts: str, overrides: list[str], message: str) -> None:
    given = [override.replace("PARTS", parts) for override in overrides]
    outcome = bench(*given, *SMALL)
    outcome.refused(2, message.replace("PARTS", parts))
    assert not Path("results").exists()
    if not message.startswith(("aggregator.", "no setting")):
        with pytest.raises(ConfigError, match=re.escape(message.replace("PARTS", parts))):
            compose.resolve(given)


def test_a_module_of_the_current_folder_hides_no_other(bench: Bench, parts: str) -> None:
    Path("random.py").write_text("raise RuntimeError('hidden')\n")
    Path("filelock.py").write_text("raise RuntimeError('hidden')\n")
    before = list(sys.path)
    assert bench("aggregator=krum", "rounds=1").code == 0
    assert sys.path == before, "without a class from outside, Python's path stays as it is"
    assert bench(f"aggregator={parts}:CosineVote", *SMALL).code == 0
    assert sys.path == [*before, os.getcwd()]
