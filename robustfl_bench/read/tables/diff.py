"""The differences between two runs: settings, data, code, machine and numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from robustfl_bench.base.errors import ConfigError, one_line
from robustfl_bench.base.trees import flatten
from robustfl_bench.read.runs import records
from robustfl_bench.read.tables.sheets import Printed, Sheet
from robustfl_bench.runner.config import compose, identity
from robustfl_bench.runner.store import folders, lines
from robustfl_bench.train.code_digest import code_digest

_NUMBERS = ("final", "best", "last_10", "tuned")
_ABSENT = "-"


@dataclass(frozen=True)
class ComparedRun:
    """One of two runs that are compared: a finished run or, with ``folder`` None, the run of a command."""

    name: str
    config: Mapping[str, Any]
    folder: Path | None = None
    summary: Mapping[str, Any] = field(default_factory=dict)


def of_folder(path: str) -> ComparedRun:
    """The run of a folder. Raises ConfigError if the folder holds no run or its files cannot be read."""
    folder = Path(path).expanduser()
    config = identity.stored_config(folder)
    try:
        summary = folders.summary_in(folder)
    except records.Damaged as error:
        raise ConfigError(f"cannot read {folder / 'summary.json'}: {one_line(error)}") from None
    return ComparedRun(folder.name, config, folder, summary or {"status": "unfinished"})


def of_command(overrides: Sequence[str]) -> ComparedRun:
    """The run that ``robustfl-bench OVERRIDES`` would make with today's code. Raises ConfigError."""
    config = compose.resolve(overrides).config
    return ComparedRun(" ".join(overrides), config, summary={"code": {"package": code_digest(config)}})


def compare(first: ComparedRun, second: ComparedRun) -> Sheet:
    """The differences, a line each, below a line on whether both have the same identity, so that one's result answers
    for the other."""
    ids = [identity.run_id(side.config) for side in (first, second)]
    verdict = f"one identity, {ids[0]}" if ids[0] == ids[1] else f"different runs, {ids[0]} and {ids[1]}"
    rows = [[Printed(what), Printed(left), Printed(right)] for what, left, right in _differences(first, second)]
    return Sheet(
        above=[f"{first.name} and {second.name}: {verdict}"],
        heading=["differs in", "first", "second"],
        rows=rows or [[Printed("nothing"), Printed(_ABSENT), Printed(_ABSENT)]],
        labels=3,
        footnotes=_footnotes(first, second),
    )


def _differences(first: ComparedRun, second: ComparedRun) -> Iterator[tuple[str, str, str]]:
    yield from _unlike(_settings(first), _settings(second))
    yield from _unlike(_facts(first), _facts(second), only_shared=first.folder is None or second.folder is None)
    if first.folder is not None and second.folder is not None:
        yield from _rounds(first.folder, second.folder)


def _settings(side: ComparedRun) -> dict[str, str]:
    return {key: records.text(records.leaf(value)) for key, value in flatten(identity.of(side.config))}


def _facts(side: ComparedRun) -> dict[str, str]:
    """All facts of a summary that can differ between two runs of the same identity."""
    summary = side.summary
    facts = {name: summary.get(name) for name in ("status", "error", "device", "processor", "num_threads", "commit")}
    facts |= {f"versions.{name}": version for name, version in _part(summary, "versions").items()}
    code = _part(summary, "code")
    facts |= {"code": code.get("package")}
    facts |= {f"code of {group}": digest for group, digest in _part(code, "parts").items()}
    facts |= {"data": lines.data_line(_part(summary, "data"))}
    for name in _NUMBERS:
        facts |= {f"{name}.{key}": value for key, value in _part(summary, name).items() if not isinstance(value, list)}
    facts |= {"parameters": summary.get("model_sha256")}
    return {name: _short(value) for name, value in facts.items() if value is not None}


def _short(value: Any) -> str:
    written = records.text(value)
    return written[:12] if len(written) == 64 and set(written) <= set("0123456789abcdef") else written


def _unlike(
    first: Mapping[str, str], second: Mapping[str, str], only_shared: bool = False
) -> Iterator[tuple[str, str, str]]:
    for name in dict.fromkeys((*first, *second)):
        left, right = first.get(name, _ABSENT), second.get(name, _ABSENT)
        if left != right and not (only_shared and _ABSENT in (left, right)):
            yield name, left, right


def _rounds(first: Path, second: Path) -> Iterator[tuple[str, str, str]]:
    """The first evaluated round in which the numbers differ."""
    try:
        tables = [records.metrics(folder) for folder in (first, second)]
    except records.Damaged as error:
        yield "metrics.csv", one_line(error), _ABSENT
        return
    rows = zip(*(table.to_dict("records") for table in tables), strict=False)
    for left, right in rows:
        for name in left:
            if name in right and left[name] != right[name] and (left[name] == left[name] or right[name] == right[name]):
                yield f"metrics.csv, first {name} of round {left['round']:g}", f"{left[name]:.9g}", f"{right[name]:.9g}"
                return


def _part(summary: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = summary.get(name)
    return part if isinstance(part, Mapping) else {}


def _footnotes(first: ComparedRun, second: ComparedRun) -> list[str]:
    """Reasons in a run's folder why its stored result would not be returned."""
    notes = []
    for side in (first, second):
        if side.folder is not None and side.summary.get("status") in folders.MEASURED:
            if damage := folders.damage(side.folder, side.summary):
                notes.append(f"{side.name} is run again: {damage}")
        elif side.folder is not None:
            notes.append(f"{side.name} is run again or resumed: its status is {side.summary.get('status')}")
    return notes
