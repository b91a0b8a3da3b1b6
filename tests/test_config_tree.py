"""The config tree explains itself: every file begins with a command that works, and its README is true."""

import re
import shlex
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import yaml

from robustfl_bench.base.errors import NotReady
from robustfl_bench.runner.config import compose
from robustfl_bench.runner.config.options import CONF, defaults
from robustfl_bench.runner.experiment.plan import plan
from tests.conftest import Bench, config_of, run_folders

FILES = sorted(CONF.rglob("*.yaml"))
README = (CONF / "README.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(?P<group>[\w/]+)` \| (?P<question>[^|]+) \| (?P<count>\d+) \| (?P<default>[^|]+) \|$", re.M)
ROWS = {row["group"]: row for row in ROW.finditer(README)}
FOLDERS = {path.parent.relative_to(CONF) for path in FILES if path.parent != CONF}


def words(line: str) -> list[str]:
    """The words of a command; a remark in brackets or after # follows two blanks."""
    return shlex.split(re.split(r"\s+[(#]", line.strip())[0])


def command_of(path: Path) -> list[str]:
    """The words of the command that a file of conf/ begins with."""
    lines = path.read_text(encoding="utf-8").splitlines()
    first = next(line for line in lines if not line.startswith("# @package "))
    assert first.startswith("# "), f"{path}: {first}"
    return words(first.removeprefix("# "))


@cache
def check(*command: str) -> None:
    """Fail unless the command is one of robustfl-bench whose run, in a sweep the last one, can be planned."""
    program, *overrides = command
    assert program == "robustfl-bench"
    own = [word for word in overrides if not word.startswith("hydra")]
    run = compose.sweep(own[1:])[-1] if own[0] == "-m" else own
    try:
        plan(compose.resolve(run).config)
    except NotReady:  # the runs that choose its rate do not come with the package
        plan(compose.resolve([*run, "lr=0.1"]).config)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(CONF)))
def test_a_file_begins_with_a_command_that_uses_it(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("mine.npz", x=np.zeros((4, 3)), y=np.arange(4) % 2)  # dataset=arrays reads such a file
    command = command_of(path)
    check(*command)
    folder, name = path.relative_to(CONF).parent, path.stem
    if folder.parts and name != "clients":
        group, *inner = folder.parts
        asked = {word.lstrip("+") for word in command if "=" in word}
        option = "/".join([*inner, name])
        assert {f"{group}={option}", f"{folder}={name}"} & asked or defaults()[0].get(group) == name, command


@pytest.mark.parametrize("path", sorted((CONF / "experiment").glob("*/*.yaml")), ids=lambda path: path.stem)
def test_an_experiment_sweeps_and_has_a_setting_of_its_paper(path: Path) -> None:
    """One dialect: the setting stands in the defaults list, or in the sweep where a preset sweeps several."""
    content, paper = yaml.safe_load(path.read_text(encoding="utf-8")), path.parent.name
    swept = content["hydra"]["sweeper"]["params"]
    named = [value for part in content.get("defaults", []) for key, value in part.items() if key == f"/setting/{paper}"]
    several = [option for option in swept.get("+setting", "").split(",") if option]
    assert (len(named) == 1 and not several) or (not named and len(several) > 1)
    assert all((CONF / "setting" / paper / f"{name}.yaml").is_file() for name in named)
    assert all(option.startswith(f"{paper}/") for option in several)


def test_the_readme_has_a_row_for_every_folder_with_its_count_and_default() -> None:
    assert set(ROWS) == {str(path) if path.parts[0] == "hydra" else path.parts[0] for path in FOLDERS}
    assert all(f"`{part}`" in README or f"`{path}`" in README for path in FOLDERS for part in path.parts)
    chosen, _ = defaults()
    for group, row in ROWS.items():
        assert int(row["count"]) == len(list((CONF / group).rglob("*.yaml"))), group
        assert row["question"].strip().endswith("?"), group
        if group in chosen:
            assert row["default"] == f"`{chosen[group]}`", group
    assert set(chosen) <= set(ROWS)


def test_every_command_of_the_readme_works() -> None:
    commands = [words(line) for block in re.findall(r"```\n(.*?)```", README, re.S) for line in block.splitlines()]
    ours = [command for command in commands if command[:1] == ["robustfl-bench"] and "--config-dir" not in command]
    assert len(ours) >= 3
    for command in ours:
        check(*command)


def test_the_readme_explains_every_resolver_that_a_file_uses() -> None:
    used = {name for path in FILES for name in re.findall(r"\$\{([\w.]+):", path.read_text(encoding="utf-8"))}
    assert used >= {"at_scale", "in_variant", "rb.share", "rb.times", "rb.ratio", "attacked"}
    for name in used:
        assert f"`${{{name}:" in README, name


def test_the_readme_s_option_from_outside_runs(bench: Bench, tmp_path: Path) -> None:
    (place,) = re.findall(r"`(my_conf/\S+\.yaml)`", README)
    ((option, line),) = re.findall(r"```yaml\n(.*?)```\n+```\n(.*?)\n```", README, re.S)
    (tmp_path / place).parent.mkdir(parents=True)
    (tmp_path / place).write_text(option)
    outcome = bench(*words(line)[1:], "rounds=1", "model.hidden=[8]")
    assert outcome.code == 0, outcome.err
    (folder,) = run_folders(tmp_path / "results").values()
    assert config_of(folder)["aggregator"]["num_selected"] == 5
