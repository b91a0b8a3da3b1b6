"""Results that exist: stored in a run folder, or kept by the package. Both answer a run on the same terms.

A result answers for the same config, the same data and the same computing code; otherwise a line says what differs and
the run is made. A result of other libraries or another kind of processor answers with a remark, as it may differ. One
of parts from outside that use what the seed does not fix answers no later run, as the same command gives another.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from robustfl_bench.base.errors import DataError
from robustfl_bench.runner.experiment import machine, outside_code, own_metrics, samples
from robustfl_bench.runner.experiment.plan import Request
from robustfl_bench.runner.experiment.summary import score_of_line, tuned_by, words, words_of_line
from robustfl_bench.runner.store import bridges, folders, kept, lines
from robustfl_bench.runner.store.results import fault_of_folder, fault_of_lines
from robustfl_bench.runner.store.writing import Damaged
from robustfl_bench.train.parts import GROUPS
from robustfl_bench.train.settings import Settings

if TYPE_CHECKING:  # importing torch takes over a second
    from robustfl_bench.parts.datasets.base import Data

Say = Callable[[str], None]


@dataclass(frozen=True)
class Answer:
    """The result of a run: what it is (``stored result``, ``kept result``, ``result``), its status, the result in
    words, where it is, the number that sweeps tune by, and its summary, which a kept result lacks."""

    what: str
    status: str
    words: str
    place: str
    value: float
    summary: Mapping[str, Any]

    def tell(self, what: str | None = None) -> float:
        """Print the result in one line; returns the number that sweeps tune by."""
        print(f"{what or self.what}: {self.words}  {self.place}", flush=True)
        return self.value


def of_summary(folder: folders.RunFolder, summary: Mapping[str, Any], what: str = "result") -> Answer:
    """The answer of a run folder with this summary."""
    return Answer(what, summary["status"], words(summary), str(folder.path), tuned_by(summary), summary)


def existing(request: Request, say: Say, unseeded: bool = False) -> Answer | None:
    """The result of a run that need not be made: that of its folder if the run has ended there, else the kept one.

    ``unseeded``: also one that answers no later run, for those who read results.
    """
    has_ended = request.folder.ended_at is not None
    return (stored if has_ended else from_kept)(request, say, unseeded)


def stored(request: Request, say: Say, unseeded: bool = False) -> Answer | None:
    """The result in a run folder, if it still counts; None after ``say`` was called with the reason, or if there is
    none."""
    folder = request.folder
    for twin in folder.copies:
        say(f"{twin} and {folder.path} are both run {folder.run_id}; the latter is used, remove one of them")
    try:
        summary = folder.summary()
        if summary is None or summary["status"] not in folders.MEASURED:
            return None
        if reason := _hindrance(request, summary, unseeded):
            raise Damaged(reason)
    except Damaged as error:
        say(f"stored result not used: {error}; running again  {folder.path}")
        return None
    _remark(request, summary, say, folder.path)
    return of_summary(folder, summary, "stored result")


def lacks_extras(request: Request) -> bool:
    """Whether the folder of a run has its result, but not the weights or the numbers of metrics that are asked for."""
    try:
        summary = request.folder.summary()
        return summary is not None and summary["status"] in folders.MEASURED and _fault(request, summary) is None
    except Damaged:
        return False


def _fault(request: Request, summary: Mapping[str, Any]) -> str | None:
    """Why the summary of a run with a result is not that of this run, in one line; None if it is. Raises Damaged."""
    if damage := _damage(request, summary):
        return damage
    other = _other_code(request, _entry(summary, "code")) or _other_data(request, _entry(summary, "data"))
    return None if other is None else f"{words(summary)} was made with {other}"


def _hindrance(request: Request, summary: Mapping[str, Any], unseeded: bool) -> str | None:
    """Why the summary of a run with a result is no answer, in one line; None if it is. Raises Damaged."""
    if fault := _fault(request, summary):
        return fault
    if request.settings.save_weights and not (request.folder.path / folders.WEIGHTS).exists():
        return f"{words(summary)} kept no weights"
    if (own := own_metrics.digests(request.settings.metrics)) and summary.get("own_metrics") != own:
        return f"{words(summary)} was made without, or with others than, these metrics"
    return None if unseeded or not (drawn := unseeded_in(summary)) else request.outside.uses(drawn)


def unseeded_in(result: Mapping[str, Any]) -> list[str]:
    """What parts from outside used, by a result, that the seed does not fix; empty if nothing."""
    drawn = _entry(result, "code").get(lines.UNSEEDED)
    return drawn if isinstance(drawn, list) else []


def from_kept(request: Request, say: Say, unseeded: bool = False) -> Answer | None:
    """The result of a run that the package keeps, if it counts; else None, after ``say`` was called with the reason.

    A kept line that lacks the score by which runs with this config are judged does not count, nor does any where
    trained weights, or numbers of the user's metrics, are asked for.
    """
    s = request.settings
    line = kept.find(request.run_id) if s.use_kept and not (s.save_weights or s.metrics) else None
    if line is None or line["state"] not in folders.MEASURED:
        return None
    if (value := score_of_line(line, request.dataset.source)) is None:
        return None
    origin = {"versions": lines.versions(line.get("versions")), "code": lines.code_of_line(line.get("code"))}
    reason = None
    if (other := _other_than_line(request, line, origin["code"])) is not None:
        reason = f"made with {other}"
    elif not unseeded and (drawn := unseeded_in(origin)):
        reason = request.outside.uses(drawn)
    if reason is not None:
        say(f"results of {line['file']} not used: {reason}")
        return None
    _remark(request, {**line, **origin}, say, line["file"])
    return Answer("kept result", line["state"], words_of_line(line), line["file"], value, {})


def _remark(request: Request, result: Mapping[str, Any], say: Say, place: object) -> None:
    """Call ``say`` with each reason for which the same command could give another result than this one: it comes from
    other libraries or another kind of processor, or from parts that use what the seed does not fix."""
    then, now, processor = result.get("versions") or {}, machine.libraries(), result.get("processor")
    unlike = [f"{name} {then[name]} (now {now[name]})" for name in now if str(then.get(name, now[name])) != now[name]]
    if processor and result.get("device") == "cpu" and not machine.processor().startswith(processor):
        unlike.append(f"{processor} (now {machine.processor()})")  # older names say less
    if unlike:
        say(f"made with {' and '.join(unlike)}, which can change a result  {place}")
    if drawn := unseeded_in(result):
        say(request.outside.remark(drawn))


def unfollowed(config: Mapping[str, Any], say: Say) -> None:
    """Call ``say`` where the config of a run that has ended names trackers, which get nothing of it."""
    if config.get("tracker"):
        say("a tracker gets no rows of a run that has ended; use_kept=false results_dir=ANOTHER makes it again")


def status(request: Request) -> str | None:
    """How a run ended, in its folder or as kept; None if it has not, or if its summary is damaged."""
    try:
        summary = request.folder.summary() if request.folder.ended_at is not None else None
    except Damaged:
        return None
    if summary is not None:
        return str(summary["status"])
    line = kept.find(request.run_id)
    return None if line is None else line["state"]


# The origin of a result: code of its parts, data, rows; and whether a result still has the same origin.


def stamp(request: Request, data: "Data") -> dict[str, str]:
    """The identity of a run, its code and its data, which a checkpoint must match."""
    made_with = json.dumps(request.code, sort_keys=True)
    return {
        "run": request.run_id,
        "code": hashlib.sha256(made_with.encode()).hexdigest(),
        "data": f"{data.variant} {data.digest}",
    }


def check_rows(rows: Sequence[Mapping[str, float]], settings: Settings) -> None:
    """Raise Damaged unless there is one row for each evaluated round, in their order."""
    numbers = [row.get("round") for row in rows]
    expected = [number for number in range(1, settings.rounds + 1) if settings.is_evaluated(number)]
    if numbers != expected:
        last = f", the last of round {numbers[-1]:g}" if numbers and numbers[-1] is not None else ""
        raise Damaged(f"metrics.csv has {len(numbers)} rows{last}; expected {len(expected)}, up to {expected[-1]}")


def _damage(request: Request, summary: Mapping[str, Any]) -> str | None:
    """What is wrong with the files of a stored result, in one line; None if they are what the run wrote.

    Its config must be the whole config that is asked for: ids are short, so two configs could share one.
    """
    folder = request.folder
    if changed := folders.damage(folder.path, summary):
        return changed
    if folder.identity() != request.identity:
        return "config.yaml is that of another run with the same id; remove the folder"
    rows = folder.rows() if summary["status"] == folders.FINISHED else None
    if rows is not None:
        check_rows(rows, request.settings)
    return fault_of_folder(folder.path, summary, request.config, rows)


def _other_than_line(request: Request, line: Mapping[str, str], code: Mapping[str, Any]) -> str | None:
    """The config, code or data of a kept result, a line of a CSV file, in words, if they are not today's; else None."""
    if lines.whole_of_line(line) != lines.whole(request.identity):
        return "another config of the same id"
    if fault := fault_of_lines({name: [value] for name, value in line.items()}):
        return f"numbers that no run has: {fault}"
    if other := _other_code(request, code, digits=lines.SHORT):
        return other
    now = _loaded(request) if samples.are_in_files(request) else None
    if now is None or lines.data_line(now) == line.get("data"):
        return None
    return f"other data ({line.get('data') or 'not recorded'}; now {lines.data_line(now)})"


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
    return None if bridges.lead(package, request.computing) else "other code of robustfl_bench"


def _other_data(request: Request, recorded: Mapping[str, Any]) -> str | None:
    """The data of a result and today's, in words, if they differ.

    Data that cannot be loaded do not differ. Files are read only if their marks have changed.
    """
    if not samples.are_in_files(request):
        return None
    if (marks := samples.marks(request)) and request.dataset.source is not None and marks == recorded.get("files"):
        return None
    now = _loaded(request)
    if now is None or all(recorded.get(name) == now[name] for name in ("variant", "digest")):
        return None
    return f"other data ({lines.data_line(recorded) or 'unknown'}; now {lines.data_line(now)})"


def _loaded(request: Request) -> Mapping[str, Any] | None:
    """Today's data; None if they cannot be loaded."""
    import torch

    try:
        return samples.load(request, torch.device("cpu")).origin
    except DataError:
        return None


def _entry(result: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A mapping inside a result; empty if there is none."""
    value = result.get(name)
    return value if isinstance(value, Mapping) else {}
