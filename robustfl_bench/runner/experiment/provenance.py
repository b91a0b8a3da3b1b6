"""The origin of a result (code of its parts, data, rows), and whether a stored result still has the same origin."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from robustfl_bench.base.errors import DataError
from robustfl_bench.base.source_code import Origin
from robustfl_bench.runner.config import identity
from robustfl_bench.runner.experiment import machine, outside_code, samples
from robustfl_bench.runner.experiment.plan import Asked, Plan
from robustfl_bench.runner.experiment.summary import results
from robustfl_bench.runner.store import bridges, folders, lines
from robustfl_bench.runner.store.lines import data_line
from robustfl_bench.runner.store.writing import Damaged
from robustfl_bench.train.code_digest import closure_of, code_digest
from robustfl_bench.train.parts import GROUPS
from robustfl_bench.train.settings import Settings

if TYPE_CHECKING:  # importing torch takes over a second
    from robustfl_bench.parts.datasets.base import Data


def code(config: Mapping[str, Any]) -> dict[str, Any]:
    """Digests of the code that computes a run: of this package, and for each config group with parts from outside, of
    their sources.

    A process reads each file once: later edits do not change the code that it has imported.
    """
    parts = {group: outside_code.digest(names) for group, names in outside(config).items()}
    return {"package": code_digest(config, _sources(config)), "parts": parts}


def _sources(config: Mapping[str, Any]) -> set[Origin]:
    """The sources of the parts from outside."""
    return {origin for names in outside(config).values() for origin in outside_code.code(names)}


def read(config: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """The files and environment variables that parts from outside have read in this process, with their SHA-256, by
    config group."""
    groups = {group: names for group, names in outside(config).items() if group != "dataset"}  # see ``origin``
    read_by = {group: outside_code.read_by(names) for group, names in groups.items()}
    return {group: paths for group, paths in read_by.items() if paths}


def without_source(config: Mapping[str, Any]) -> list[str]:
    """The classes from outside of which there is no source."""
    return outside_code.without_source(name for names in outside(config).values() for name in names)


def outside(config: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The classes from outside this package, by config group."""
    return {group: names for group in GROUPS if (names := outside_code.targets(config.get(group)))}


def origin(planned: Plan, data: "Data") -> dict[str, Any]:
    """The data that were read: variant, numbers of samples, digest, and the state of their files."""
    return data.origin | {"files": samples.marks(planned)}


def stamp(planned: Plan, data: "Data") -> dict[str, str]:
    """The identity of a run, its code and its data, which a checkpoint must match."""
    made_with = json.dumps(code(planned.config), sort_keys=True)
    return {
        "run": planned.run_id,
        "code": hashlib.sha256(made_with.encode()).hexdigest(),
        "data": f"{data.variant} {data.digest}",
    }


def evaluated(settings: Settings) -> list[int]:
    """The rounds that get a row."""
    return [number for number in range(1, settings.rounds + 1) if settings.is_evaluated(number)]


def check_rows(rows: Sequence[Mapping[str, float]], settings: Settings) -> None:
    """Raise Damaged unless there is one row for each evaluated round, in their order."""
    found, expected = [row.get("round") for row in rows], evaluated(settings)
    if found != expected:
        last = f", the last of round {found[-1]:g}" if found and found[-1] is not None else ""
        raise Damaged(f"metrics.csv has {len(found)} rows{last}; expected {len(expected)}, up to {expected[-1]}")


def damage(asked: Asked, folder: folders.RunFolder, summary: Mapping[str, Any]) -> str | None:
    """What is wrong with the files of a stored result, in one line; None if they are what the run wrote.

    Its config must be the whole config that is asked for: ids are short, so two configs could share one.
    """
    if found := folders.damage(folder.path, summary):
        return found
    if folder.identity() != identity.of(asked.config):
        return "config.yaml is that of another run with the same id; remove the folder"
    if summary["status"] == folders.FINISHED:
        rows = folder.rows()
        check_rows(rows, asked.settings)
        if any(summary.get(name) != value for name, value in folders.plain(results(rows)).items()):
            return "summary.json does not say what metrics.csv says"
    return None


def other(asked: Asked, summary: Mapping[str, Any]) -> str | None:
    """The code or the data of a stored result, in words, if they are not today's; else None."""
    return _other_code(asked, _within(summary, "code")) or _other_data(asked, _within(summary, "data"))


def other_than_line(asked: Asked, line: Mapping[str, str]) -> str | None:
    """The same of a kept result, a line of a CSV file; also its config, if it is not that which is asked for."""
    if lines.whole_of_line(line) != lines.whole(asked.identity):
        return "another config of the same id"
    recorded = lines.code_of_line(line.get("code"))
    if other := _other_code(asked, recorded, digits=lines.SHORT):
        return other
    if _follow(asked) or (now := _loaded(asked)) is None or data_line(now) == line.get("data"):
        return None
    return f"other data ({line.get('data') or 'not recorded'}; now {data_line(now)})"


def _other_code(asked: Asked, recorded: Mapping[str, Any], digits: int | None = None) -> str | None:
    """What of the computing code differs from today's, in words; digests are compared up to ``digits``."""
    now = code(asked.config)
    was = recorded.get("parts") or {}
    changed = [group for group in GROUPS if (was.get(group) or "")[:digits] != now["parts"].get(group, "")[:digits]]
    if unknown := without_source(asked.config):
        return f"code that has no source ({', '.join(unknown)})"
    if changed:
        names = ", ".join(
            dict.fromkeys(name for group in changed for name in outside_code.targets(asked.config[group]))
        )
        return f"other code of {' and '.join(changed)}" + (f" ({names})" if names else "")
    for group, paths in (recorded.get("read") or {}).items():
        for path, content in paths.items():
            if outside_code.now(path) != content:
                return f"another {path}, which {group} reads"
    if not recorded.get("package"):
        return "code that is not recorded"
    if (package := recorded["package"][:digits]) == now["package"][:digits]:
        return None
    computing = closure_of(asked.config, _sources(asked.config))
    return None if bridges.lead(package, computing) else "other code of robustfl_bench"


def remark(versions: Mapping[str, Any] | None, processor: str | None, device: str | None) -> str | None:
    """One line if a result comes from other libraries or another kind of processor, which can change it; else None."""
    then, now = versions or {}, machine.libraries()
    unlike = [f"{name} {then[name]} (now {now[name]})" for name in now if str(then.get(name, now[name])) != now[name]]
    if processor and device == "cpu" and processor != machine.processor():
        unlike.append(f"{processor} (now {machine.processor()})")
    return f"made with {' and '.join(unlike)}, which can change a result" if unlike else None


def _follow(asked: Asked) -> bool:
    """Whether the data follow from config and code: they are bundled or drawn."""
    source = asked.dataset.source
    return source is not None and (source.bundled or source.is_drawn)


def _other_data(asked: Asked, recorded: Mapping[str, Any]) -> str | None:
    """The data of a result and today's, in words, if they differ.

    Data that cannot be loaded do not differ. Files are read only if their marks have changed.
    """
    if _follow(asked):
        return None
    if (found := samples.marks(asked)) and asked.dataset.source is not None and found == recorded.get("files"):
        return None
    now = _loaded(asked)
    if now is None or all(recorded.get(name) == now[name] for name in ("variant", "digest")):
        return None
    return f"other data ({data_line(recorded) or 'unknown'}; now {data_line(now)})"


def _loaded(asked: Asked) -> Mapping[str, Any] | None:
    """Today's data; None if they cannot be loaded."""
    import torch

    try:
        return samples.load(asked, torch.device("cpu")).origin
    except DataError:
        return None


def _within(summary: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """A mapping inside a summary; empty if there is none."""
    value: Any = summary
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}
