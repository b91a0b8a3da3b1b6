"""Results that exist: stored in a run folder, or kept by the package. Both answer a run on the same terms.

A result answers for the same config, the same data and the same computing code; otherwise a line says what differs and
the run is made. A result of other libraries or another kind of processor answers with a remark, as it may differ. One
of parts from outside that use what the seed does not fix answers no later run, as the same command gives another.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from robustfl_bench.runner.experiment import provenance, repeatable
from robustfl_bench.runner.experiment.plan import Request
from robustfl_bench.runner.experiment.summary import score_of_line, tuned_by, words, words_of_line
from robustfl_bench.runner.store import folders, kept, lines
from robustfl_bench.runner.store.writing import Damaged

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
    if (request.folder.path / "summary.json").exists():
        return stored(request, say, unseeded)
    return from_kept(request, say, unseeded)


def stored(request: Request, say: Say, unseeded: bool = False) -> Answer | None:
    """The result in a run folder, if it still counts; None after ``say`` was called with the reason, or if there is
    none."""
    folder = request.folder
    for copy in folder.copies:
        say(f"{copy} and {folder.path} are both run {folder.run_id}; the latter is used, remove one of them")
    try:
        summary = folder.summary()
        if summary is None or summary["status"] not in folders.MEASURED:
            return None
        if damage := provenance.damage(request, summary):
            raise Damaged(damage)
        if (other := provenance.other(request, summary)) is not None:
            raise Damaged(f"{words(summary)} was made with {other}")
        if not unseeded and is_unseeded(summary):
            raise Damaged(repeatable.uses(request.outside, _unseeded(summary)))
    except Damaged as error:
        say(f"stored result not used: {error}; running again  {folder.path}")
        return None
    _remark(request, summary, say, folder.path)
    return of_summary(folder, summary, "stored result")


def is_unseeded(summary: Mapping[str, Any]) -> bool:
    """Whether a result is that of parts from outside that use what the seed does not fix."""
    return bool(_unseeded(summary))


def _unseeded(result: Mapping[str, Any]) -> list[str]:
    """What they use."""
    code = result.get("code")
    found = code.get(lines.UNSEEDED) if isinstance(code, Mapping) else None
    return found if isinstance(found, list) else []


def from_kept(request: Request, say: Say, unseeded: bool = False) -> Answer | None:
    """The result of a run that the package keeps, if it counts; else None, after ``say`` was called with the reason.

    A kept line that lacks the score by which runs with this config are judged does not count.
    """
    line = kept.find(request.run_id) if request.settings.use_kept else None
    if line is None or line["state"] not in folders.MEASURED:
        return None
    if (value := score_of_line(line, request.dataset.source)) is None:
        return None
    if (other := provenance.other_than_line(request, line)) is not None:
        say(f"results of {line['file']} not used: made with {other}")
        return None
    origin = {"versions": lines.versions(line.get("versions")), "code": lines.code_of_line(line.get("code"))}
    if not unseeded and is_unseeded(origin):
        say(f"results of {line['file']} not used: {repeatable.uses(request.outside, _unseeded(origin))}")
        return None
    _remark(request, {**line, **origin}, say, line["file"])
    return Answer("kept result", line["state"], words_of_line(line), line["file"], value, {})


def _remark(request: Request, result: Mapping[str, Any], say: Say, place: object) -> None:
    """Call ``say`` with each reason for which the same command could give another result than this one."""
    unlike = provenance.remark(result.get("versions"), result.get("processor"), result.get("device"))
    if unlike is not None:
        say(f"{unlike}  {place}")
    if unseeded := _unseeded(result):
        say(repeatable.remark(request.outside, unseeded))


def status(request: Request) -> str | None:
    """How a run ended, in its folder or as kept; None if it has not, or if its summary is damaged."""
    try:
        summary = request.folder.summary()
    except Damaged:
        return None
    line = kept.find(request.run_id) if summary is None else None
    return line["state"] if line is not None else summary["status"] if summary is not None else None
