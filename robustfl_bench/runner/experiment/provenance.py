"""The origin of a result (code of its parts, data, rows), and whether a stored result still has the same origin."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from robustfl_bench.base.errors import DataError
from robustfl_bench.runner.experiment import machine, outside_code, samples
from robustfl_bench.runner.experiment.plan import Request
from robustfl_bench.runner.store import bridges, folders, lines
from robustfl_bench.runner.store.lines import data_line
from robustfl_bench.runner.store.results import fault_of_folder, fault_of_lines
from robustfl_bench.runner.store.writing import Damaged
from robustfl_bench.train.code_digest import closure_of
from robustfl_bench.train.parts import GROUPS
from robustfl_bench.train.settings import Settings

if TYPE_CHECKING:  # importing torch takes over a second
    from robustfl_bench.parts.datasets.base import Data


def origin(request: Request, data: "Data") -> dict[str, Any]:
    """The data that were read: variant, numbers of samples, digest, and the state of their files."""
    return data.origin | {"files": samples.marks(request)}


def stamp(request: Request, data: "Data") -> dict[str, str]:
    """The identity of a run, its code and its data, which a checkpoint must match."""
    made_with = json.dumps(request.code, sort_keys=True)
    return {
        "run": request.run_id,
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


def damage(request: Request, summary: Mapping[str, Any]) -> str | None:
    """What is wrong with the files of a stored result, in one line; None if they are what the run wrote.

    Its config must be the whole config that is asked for: ids are short, so two configs could share one.
    """
    folder = request.folder
    if found := folders.damage(folder.path, summary):
        return found
    if folder.identity() != request.identity:
        return "config.yaml is that of another run with the same id; remove the folder"
    rows = folder.rows() if summary["status"] == folders.FINISHED else None
    if rows is not None:
        check_rows(rows, request.settings)
    return fault_of_folder(folder.path, summary, request.config, rows)


def other(request: Request, summary: Mapping[str, Any]) -> str | None:
    """The code or the data of a stored result, in words, if they are not today's; else None."""
    return _other_code(request, _within(summary, "code")) or _other_data(request, _within(summary, "data"))


def other_than_line(request: Request, line: Mapping[str, str]) -> str | None:
    """The same of a kept result, a line of a CSV file; also its config, if it is not that which is asked for."""
    if lines.whole_of_line(line) != lines.whole(request.identity):
        return "another config of the same id"
    if fault := fault_of_lines({name: [value] for name, value in line.items()}):
        return f"numbers that no run has: {fault}"
    recorded = lines.code_of_line(line.get("code"))
    if other := _other_code(request, recorded, digits=lines.SHORT):
        return other
    if _follow(request) or (now := _loaded(request)) is None or data_line(now) == line.get("data"):
        return None
    return f"other data ({line.get('data') or 'not recorded'}; now {data_line(now)})"


def _other_code(request: Request, recorded: Mapping[str, Any], digits: int | None = None) -> str | None:
    """What of the computing code differs from today's, in words; digests are compared up to ``digits``."""
    now = request.code
    was = recorded.get("parts") or {}
    changed = [group for group in GROUPS if (was.get(group) or "")[:digits] != now["parts"].get(group, "")[:digits]]
    if unknown := request.outside.without_source:
        return f"code that has no source ({', '.join(unknown)})"
    if changed:
        names = ", ".join(dict.fromkeys(name for group in changed for name in request.outside.groups.get(group, ())))
        return f"other code of {' and '.join(changed)}" + (f" ({names})" if names else "")
    for group, paths in (recorded.get("read") or {}).items():
        for path, content in paths.items():
            if outside_code.now(path) != content:
                return f"another {path}, which {group} reads"
    if not recorded.get("package"):
        return "code that is not recorded"
    if (package := recorded["package"][:digits]) == now["package"][:digits]:
        return None
    computing = closure_of(request.config, request.outside.sources)
    return None if bridges.lead(package, computing) else "other code of robustfl_bench"


def remark(versions: Mapping[str, Any] | None, processor: str | None, device: str | None) -> str | None:
    """One line if a result comes from other libraries or another kind of processor, which can change it; else None."""
    then, now = versions or {}, machine.libraries()
    unlike = [f"{name} {then[name]} (now {now[name]})" for name in now if str(then.get(name, now[name])) != now[name]]
    if processor and device == "cpu" and not machine.processor().startswith(processor):  # older names say less
        unlike.append(f"{processor} (now {machine.processor()})")
    return f"made with {' and '.join(unlike)}, which can change a result" if unlike else None


def _follow(request: Request) -> bool:
    """Whether the data follow from config and code: they are bundled or drawn."""
    source = request.dataset.source
    return source is not None and (source.bundled or source.is_drawn)


def _other_data(request: Request, recorded: Mapping[str, Any]) -> str | None:
    """The data of a result and today's, in words, if they differ.

    Data that cannot be loaded do not differ. Files are read only if their marks have changed.
    """
    if _follow(request):
        return None
    if (found := samples.marks(request)) and request.dataset.source is not None and found == recorded.get("files"):
        return None
    now = _loaded(request)
    if now is None or all(recorded.get(name) == now[name] for name in ("variant", "digest")):
        return None
    return f"other data ({data_line(recorded) or 'unknown'}; now {data_line(now)})"


def _loaded(request: Request) -> Mapping[str, Any] | None:
    """Today's data; None if they cannot be loaded."""
    import torch

    try:
        return samples.load(request, torch.device("cpu")).origin
    except DataError:
        return None


def _within(summary: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """A mapping inside a summary; empty if there is none."""
    value: Any = summary
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}
