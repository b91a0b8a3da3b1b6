"""Run folders as a table of runs: one row per run, with its settings and its result. Only reads. pandas is imported
when it is needed: the commands' ``--help`` must not wait for it.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_args

import yaml

from robustfl_bench.base.errors import ConfigError, DataError, one_line
from robustfl_bench.base.fields import options_of
from robustfl_bench.base.late import np, pd
from robustfl_bench.base.trees import flatten
from robustfl_bench.runner.config import identity, options
from robustfl_bench.runner.config.outside import label_of
from robustfl_bench.runner.store.folders import ENDED as ENDED
from robustfl_bench.runner.store.folders import MEASURED as MEASURED
from robustfl_bench.runner.store.folders import OWN_METRICS, damage, id_of, oddity, summary_in
from robustfl_bench.runner.store.lease import lease_on
from robustfl_bench.runner.store.lines import FACTS as FACTS
from robustfl_bench.runner.store.lines import code_line, data_line
from robustfl_bench.runner.store.lines import leaf as leaf
from robustfl_bench.runner.store.lines import text as text
from robustfl_bench.runner.store.lines import written as written
from robustfl_bench.runner.store.results import fault_of_folder
from robustfl_bench.runner.store.writing import Damaged as Damaged
from robustfl_bench.runner.store.writing import read_text
from robustfl_bench.train.settings import Defining

Result = TypeVar("Result")

STATES = (*ENDED, "running", "unfinished", "damaged")

_NULLABLE = [name for name, (_, wanted) in options_of(Defining).items() if NoneType in get_args(wanted)]
"""Scalars that may be null: a config leaves those out."""
AROUND = tuple(of.setting for of in identity.AROUND.values() if of.setting != "init")
"""The settings that put a rule or an attack around the chosen one. A table has those that some run of it uses; no
config holds them."""
_TOP_LEVEL_KEY = re.compile(r"^(?=[A-Za-z_]\w*:)", re.MULTILINE)
_YAML_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is ten times faster, where there is one


class NoRuns(DataError):
    """There are no runs to show. One line says where they were searched, and what to do."""


def load(results_dir: str | Path) -> pd.DataFrame:
    """All runs under ``results_dir/runs``, one row each, ordered by folder name.

    Columns: FACTS (accuracies and recalls are fractions of the test set; ``state`` is one of STATES), then the
    settings: scalars and dotted keys of ``config.yaml`` (``lr``, ``aggregator.num_selected``), and for each config
    group the name chosen (``aggregator``), and those of AROUND that are used. A null is the text "null".
    A damaged folder is a row whose ``error`` says what is wrong. Raises NoRuns when there is no folder.
    """
    runs = Path(results_dir).expanduser() / "runs"
    paths = runs.iterdir() if runs.is_dir() else ()
    folders = sorted(path for path in paths if path.is_dir() and not path.name.startswith("."))
    if not folders:
        hint = f"name {runs.parent.parent}" if runs.parent.name == "runs" else "name another folder"
        raise NoRuns(f"no runs in {runs}; make one with robustfl-bench, or {hint} with --results-dir")
    return of_folders(folders)


def of_folders(folders: Sequence[Path]) -> pd.DataFrame:
    """The table of the runs in these folders, as ``load`` has it, in their order."""
    rows, blocks = zip(*map(_read, folders), strict=True)
    _name_copies(rows)
    _name_choices(rows, blocks)
    seeds = pd.Series([row.get("seed", math.nan) for row in rows], dtype=object)
    return arrange(pd.DataFrame(list(rows)).assign(seed=seeds))


def arrange(runs: pd.DataFrame) -> pd.DataFrame:
    """The columns in the order that ``load`` promises; absent ones are added empty.

    Seeds are objects: beside a run without one they would become floats, which ``text`` rounds.
    """
    names = {"seed", "rounds", *_NULLABLE, *runs.columns} - set(FACTS)
    runs = runs.reindex(columns=[*FACTS, *sorted(names)]).astype({"seed": object})
    for name in _NULLABLE:
        null = runs[name].isna() & runs["rounds"].notna()
        runs[name] = runs[name].astype(object).mask(null, "null")
    used = _around(runs)
    return pd.concat([runs.drop(columns=[*used], errors="ignore"), pd.DataFrame(used)], axis=1) if used else runs


def _around(runs: pd.DataFrame) -> dict[str, pd.Series[Any]]:
    """The columns of AROUND that the parts of some run tell."""
    used: dict[str, pd.Series[Any]] = {}
    _, usual = options.defaults()
    for group, inner in (("aggregator", "rule"), ("attack", "attack")):
        place = group
        while f"{place}._target_" in runs:
            for target, of in identity.AROUND.items():
                if (has_it := runs[f"{place}._target_"] == target).any():
                    if of.setting not in used:
                        column = pd.Series(leaf(usual[of.setting]), index=runs.index, dtype=object)
                        used[of.setting] = column.mask(runs["rounds"].isna())
                    values = runs.get(f"{place}.{of.option}", pd.Series(None, index=runs.index, dtype=object))
                    used[of.setting] = used[of.setting].mask(has_it, values.map(of.value))
            place = f"{place}.{inner}"
    return used


def nothing() -> pd.DataFrame:
    """A table like that of ``load`` without a run."""
    return arrange(pd.DataFrame({name: pd.Series(dtype=object) for name in FACTS}))


def settings(runs: pd.DataFrame) -> list[str]:
    """The columns of ``load`` that are settings of a config."""
    return [name for name in runs.columns if name not in FACTS and name not in AROUND]


def all_settings(runs: pd.DataFrame) -> list[str]:
    """The columns of ``load`` that are settings, those of AROUND first."""
    return [*(name for name in runs.columns if name in AROUND), *settings(runs)]


def metrics(folder: str | Path) -> pd.DataFrame:
    """``metrics.csv`` of a run, one row per evaluated round; a half-written last line is left out. Raises Damaged."""
    return _table(Path(folder) / "metrics.csv")


def weights(folder: str | Path) -> pd.DataFrame:
    """``weights.csv`` of a run: the round, and for every client its weight, nan if it did not take part. Raises
    Damaged, also if the file is missing because the rule gave no weights."""
    return _table(Path(folder) / "weights.csv")


def own_metrics(folder: str | Path) -> pd.DataFrame:
    """``own_metrics.csv`` of a run, one row per evaluated round. Raises Damaged, and ConfigError if the run had no
    metrics of the user."""
    path = Path(folder) / OWN_METRICS
    if not path.exists():
        raise ConfigError(f"this run has no metrics of yours: give functions as metrics  {folder}")
    return _table(path)


def _table(path: Path) -> pd.DataFrame:
    lines = _whole_lines(path)
    try:
        return pd.read_csv(io.StringIO("\n".join(lines)), dtype=float).astype({"round": int})
    except (ValueError, KeyError) as error:
        raise Damaged(f"{path.name} is damaged: {one_line(error)}") from error


def column(folder: str | Path, name: str) -> pd.Series[float] | None:
    """One column of ``metrics.csv`` by round, None if it is absent; faster than ``metrics``. Raises Damaged."""
    header, rows = rounds(folder)
    if name not in header:
        return None
    at, value = header.index("round"), header.index(name)
    try:
        return pd.Series([float(row[value] or "nan") for row in rows], [int(row[at]) for row in rows])
    except ValueError as error:
        raise Damaged(f"metrics.csv is damaged: {one_line(error)}") from error


def all_metrics(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """``metrics`` of each of the runs, by folder; one that cannot be read is left out with a warning that names it."""
    tables = {}
    for folder, run in zip(runs["folder"], runs["run"], strict=True):
        try:
            tables[folder] = metrics(folder)
        except Damaged as error:
            warnings.warn(f"left out {run}: {error}", stacklevel=2)
    return tables


def rounds(folder: str | Path) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of ``metrics.csv`` as they are written. Raises Damaged."""
    header, *rows = (line.split(",") for line in _whole_lines(Path(folder) / "metrics.csv"))
    if not rows or any(len(row) != len(header) for row in rows):
        raise Damaged("metrics.csv holds no whole round" if not rows else "metrics.csv is damaged: its rows differ")
    return header, rows


def columns(folder: str | Path) -> list[str]:
    """The header of ``metrics.csv``. Raises Damaged."""
    return read_text(Path(folder) / "metrics.csv").partition("\n")[0].rstrip("\r").split(",")


def last_metrics(folder: str | Path) -> dict[str, float]:
    """The last evaluated round of a run, by column; faster than ``metrics``. Raises Damaged."""
    lines = _whole_lines(Path(folder) / "metrics.csv")
    names, values = lines[0].split(","), lines[-1].split(",")
    if len(lines) < 2 or len(names) != len(values):
        raise Damaged("metrics.csv holds no whole round")
    try:
        return {name: float(value or "nan") for name, value in zip(names, values, strict=True)}
    except ValueError as error:
        raise Damaged(f"metrics.csv is damaged: {one_line(error)}") from error


def mapped(column: pd.Series[Any], of: Callable[[Any], Result]) -> list[Result]:
    """``of`` applied to every value of a column of words and numbers, nan where it is absent."""
    results, places = mapped_once(column, of)
    return list(map(results.__getitem__, places.tolist()))


def mapped_once(column: pd.Series[Any] | Sequence[Any], of: Callable[[Any], Result]) -> tuple[list[Result], np.ndarray]:
    """``of`` applied once to each distinct value of a column, as runs share most; and the place of every run's."""
    values = np.asarray(column, dtype=object)
    if bool in set(map(type, values)):
        return list(map(of, values)), np.arange(len(values))  # True is 1 to a table of hashes
    places, distinct = pd.factorize(values)
    results = list(map(of, distinct))
    if (absent := places < 0).any():
        places[absent] = len(results)
        results.append(of(math.nan))
    return results, places


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """One row of ``load``, and the YAML text of each config group of the run."""
    row: dict[str, Any] = {"run": folder.name, "folder": str(folder), "run_id": folder.name.rpartition("-")[2]}
    row["error"] = ""
    blocks: dict[str, str] = {}
    try:
        blocks, config, values = _read_config(folder)
        row |= values
        row |= _read_summary(folder, config)
    except (OSError, ValueError, yaml.YAMLError) as error:
        row |= {"state": "damaged", "error": one_line(error)}
    with suppress(PermissionError):  # then it is damaged already
        if not (folder / "summary.json").exists() and lease_on(folder.absolute()).is_others():
            row |= {"state": "running", "error": ""}  # whatever is missing is being written
    return row, blocks


def _read_config(folder: Path) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
    """Text by group, the config, and its settings by dotted key.

    The runs of a sweep share most of their groups, so each different text is parsed once: 5,000 configs cost a few.
    """
    whole = read_text(folder / "config.yaml")
    blocks = [block for block in _TOP_LEVEL_KEY.split(whole) if block.strip()]
    try:
        parsed = [_parse(block) for block in blocks]
    except (yaml.YAMLError, Damaged):
        parsed = [_parse(whole)]  # a text which only makes sense as a whole, or a damaged one: the error says which
    if not parsed:
        raise Damaged("config.yaml is empty")
    groups = {block.split(":", 1)[0]: block for block in blocks}
    config = {name: value for tree, _ in parsed for name, value in tree.items()}
    return groups, config, {name: value for _, pairs in parsed for name, value in pairs}


@lru_cache(maxsize=10_000)
def _parse(block: str) -> tuple[Mapping[str, Any], tuple[tuple[str, Any], ...]]:
    try:
        tree = options.parse_with(_YAML_LOADER, block)
    except yaml.YAMLError as error:
        raise Damaged(f"config.yaml is damaged: {one_line(error)}") from error
    if not isinstance(tree, dict):
        raise Damaged("config.yaml is damaged: it must hold `key: value` lines")
    return tree, tuple((key, leaf(value)) for key, value in flatten(tree))


def _read_summary(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Facts of a run that ended, or how far one without a summary came. Raises Damaged."""
    if (summary := summary_in(folder)) is None:
        if fault := oddity(folder):
            raise Damaged(fault)
        return {"state": "unfinished", "rounds_done": _rounds_done(folder)}
    if summary["status"] in MEASURED and (fault := damage(folder, summary)):
        raise Damaged(fault)
    final, best, last, tuned = (_part(summary, name) for name in ("final", "best", "last_10", "tuned"))
    facts: dict[str, Any] = {name: summary.get(name) for name in FACTS if name in summary}
    facts["error"] = one_line(summary.get("error") or "")
    facts |= {
        "name": summary.get("name"),  # which a copy of the folder does not have
        "state": summary["status"],
        "rounds_done": _number(final, "round"),
        "final_accuracy": _number(final, "test_accuracy"),
        "best_accuracy": _number(best, "test_accuracy"),
        "last_accuracy": _number(last, "test_accuracy"),
        "validation_accuracy": _number(tuned, "validation_accuracy"),
        "last_validation_accuracy": _number(last, "validation_accuracy"),
        "tuned_accuracy": _number(tuned, "test_accuracy"),
        "test_loss": _number(final, "test_loss"),
        "recall": _recall(final),
        "code": code_line(_part(summary, "code")),
        "data": data_line(_part(summary, "data")),
        "rounded": None if (products := summary.get("products")) == "float32" else products,
        "versions": ", ".join(f"{name} {number}" for name, number in _part(summary, "versions").items()),
    }
    if summary.get("run_id", id_of(folder)) != id_of(folder):
        raise Damaged(f"summary.json is that of run {summary['run_id']}: a copy of its folder?")
    if id_of(folder) and (fault := fault_of_folder(folder, summary, config)):
        raise Damaged(fault)
    options = _part(summary, "choices")
    return facts | {name: leaf(value) for name, value in options.items() if not name.startswith("hydra/")}


def _part(summary: dict[str, Any], name: str) -> dict[str, Any]:
    part = summary.get(name) or {}
    if not isinstance(part, dict):
        raise Damaged(f"summary.json is damaged: {name} must be a mapping, got {part!r}")
    return part


def _number(part: dict[str, Any], name: str) -> float:
    value = part.get(name)
    if value is None:
        return float("nan")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Damaged(f"summary.json is damaged: {name} must be a number, got {value!r}")
    return value


def _recall(final: dict[str, Any]) -> list[float] | None:
    """A class without test samples has recall nan, which JSON may hold as null."""
    values = final.get("recall")
    if values is None:
        return None
    if not isinstance(values, list):
        raise Damaged(f"summary.json is damaged: recall must be a list, got {values!r}")
    return [_number({"recall": value}, "recall") for value in values]


def _name_copies(rows: tuple[dict[str, Any], ...]) -> None:
    """Mark folders that are no run's, and all but one folder of the same run, as damaged: they would count twice. A
    folder that was asked for twice is no copy."""
    used: dict[str, str] = {}
    for row in sorted(rows, key=lambda row: (row["state"] != "finished", row.pop("name", None) != row["run"])):
        if id_of(Path(row["folder"])) is None:
            row |= {"state": "damaged", "error": row["error"] or "its name does not end in the id of a run"}
        elif used.get(row["run_id"], row["run"]) != row["run"]:
            row |= {"state": "damaged", "error": f"it has the id of {used[row['run_id']]}; remove one of them"}
        used.setdefault(row["run_id"], row["run"])


def _name_choices(rows: tuple[dict[str, Any], ...], blocks: tuple[dict[str, str], ...]) -> None:
    """Give a run without a summary the names of its groups: of a run with the same text, else from ``_target_``."""
    known = {(group, text): row[group] for row, groups in zip(rows, blocks, strict=True) if row["state"] in ENDED
             for group, text in groups.items() if group in row}  # fmt: skip
    for row, groups in zip(rows, blocks, strict=True):
        for group, block in groups.items():
            if row.get(group, "null") == "null":  # an empty part has a name too
                name = known.get((group, block)) or label_of(str(row.get(f"{group}._target_", "")))
                row |= {group: name} if name else {}


def _rounds_done(folder: Path) -> int:
    try:
        return int(last_metrics(folder)["round"])
    except (Damaged, KeyError, ValueError):
        return 0


def _whole_lines(path: Path) -> list[str]:
    """Header and whole lines; a line that does not end yet is being written."""
    lines = read_text(path).replace("\r\n", "\n").split("\n")[:-1]
    if not lines:
        raise Damaged(f"{path.name} is empty")
    return lines
