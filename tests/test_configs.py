"""Every YAML of conf/ makes the object it names, and its keys are the fields of that object, each described."""

import dataclasses
from importlib import import_module
from pathlib import Path
from types import NoneType
from typing import Any, get_args

import numpy as np
import pytest

from robustfl_bench.base import public
from robustfl_bench.base.fields import options_of, type_of_field
from robustfl_bench.doors.catalogue.entries import keys_of
from robustfl_bench.runner.config.compose import resolve
from robustfl_bench.runner.config.options import CONF, has_places
from robustfl_bench.train.parts import GROUPS
from robustfl_bench.train.settings import Settings
from tests import presets

OPTIONS = sorted(f"{path.parent.name}={path.stem}" for group in GROUPS for path in (CONF / group).glob("*.yaml"))
ROOM = ["num_clients=40", "num_byzantine=2", "attack=ipm", "byzantine_placement=replace"]


def command(option: str) -> list[str]:
    """The command with which the file of an option begins."""
    lines = (CONF / f"{option.replace('=', '/')}.yaml").read_text(encoding="utf-8").splitlines()
    first = next(line for line in lines if not line.startswith("# @package "))
    program, *words = first.removeprefix("# ").partition("  ")[0].split()
    assert program == "robustfl-bench", "an option begins with a command that uses it"
    return words


def beside(option: str) -> list[str]:
    """The overrides of a run with this option that can be planned: a model and its data need each other."""
    group = option.partition("=")[0]
    room = [override for override in ROOM if override.partition("=")[0] != group]
    needs = [word for word in command(option) if word.partition("=")[0] in {"dataset", "model"} - {group}]
    return [*room, *needs, option]


def test_all_files_are_seen() -> None:
    assert len(OPTIONS) >= 48
    assert {option.split("=")[0] for option in OPTIONS} == set(GROUPS)


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_builds(option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("data.npz", x=np.zeros((4, 3)), y=np.arange(4) % 2)  # dataset=arrays reads such a file
    presets.planned(*beside(option))


@pytest.mark.parametrize("option", OPTIONS)
def test_the_keys_of_an_option_are_the_fields_of_what_it_makes(option: str) -> None:
    group, _, name = option.partition("=")
    node = resolve(beside(option)).config[group] or {}
    assert isinstance(node, dict)
    _check_keys(node.get(name, {}) if has_places(group) else node)  # several options, each by its name


def _check_keys(node: dict[Any, Any]) -> None:
    if "_target_" not in node:
        assert node == {}
        return
    module, _, name = node["_target_"].rpartition(".")
    made = getattr(import_module(module), name)
    fields = {field.name for field in dataclasses.fields(made) if field.init}
    keys = {key for key in node if not str(key).startswith("_")}
    # An alias may fix only the keys that make it one: the rest is as in the option it stands for.
    assert keys <= fields
    missing = {f.name for f in dataclasses.fields(made) if f.default is f.default_factory is dataclasses.MISSING} - keys
    assert not missing
    for value in node.values():
        if isinstance(value, dict):
            _check_keys(value)


def targets() -> list[str]:
    """The classes that conf/ names."""
    files = [CONF / option.split("=")[0] / f"{option.split('=')[1]}.yaml" for option in OPTIONS]
    lines = [line for file in files for line in file.read_text().splitlines()]
    return sorted({line.split()[1] for line in lines if line.startswith("_target_: ")})


@pytest.mark.parametrize("target", targets())
def test_every_field_says_what_it_means_and_its_default_is_known_without_an_import(target: str) -> None:
    module, _, name = target.rpartition(".")
    made = getattr(import_module(module), name)
    keys = keys_of(made)
    assert set(keys) == {field.name for field in dataclasses.fields(made) if field.init}
    defaults = {key.name: key.default for key in keys.values() if key.default is not dataclasses.MISSING}
    assert {name: value for name, value in public.defaults(target).items() if name in keys} == defaults
    for key in keys.values():
        wanted = type_of_field(made, key.name)
        assert key.meaning, f"{target}.{key.name}: a string below the field must say what it means"
        assert not key.meaning.endswith("."), f"{target}.{key.name}: its meaning is a comment, without a full stop"
        assert ("null" in key.text) == (NoneType in get_args(wanted)), f"{target}.{key.name}: say what null means"
        checked = wanted in (int, float, bool, int | None, float | None) or get_args(wanted)[1:] == (...,)
        assert key.name in options_of(made) or not checked, f"{target}.{key.name}: annotate the values that it takes"


def test_every_scalar_is_explained_where_it_is_defined() -> None:
    lines = (CONF / "config.yaml").read_text().splitlines()
    defined = {line.split(":")[0] for line in lines if line and line[0].isalpha() and ":" in line}
    keys = keys_of(Settings)
    assert set(keys) <= defined and len(keys) > 20
    assert [name for name, key in keys.items() if not key.meaning] == []


def test_options_are_spelt_as_in_the_papers_tables() -> None:
    rules, attacks = ({path.stem for path in (CONF / group).glob("*.yaml")} for group in ("aggregator", "attack"))
    boba = {"average", "server", "coomed", "trmean", "krum", "mkrum", "geomed", "selfrej", "avgrej", "zeno", "fltrust"}
    assert boba | {"bygars", "b_krum", "b_mkrum", "rage", "boba", "median", "trimmed_mean", "fedavg", "rar"} <= rules
    assert {"none", "gauss", "ipm", "lie", "mimic", "minmax", "minsum"} <= attacks
    assert {"rar", "krum", "median", "trimmed_mean", "signsgd", "rlr", "brace"} <= rules
    brace = {"label_flip", "gaussian", "krum_attack", "trim_attack", "minmax", "minsum", "backdoor", "adaptive"}
    assert brace | {"none", "tailored"} <= attacks
