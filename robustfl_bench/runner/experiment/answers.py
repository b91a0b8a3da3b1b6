"""Results that exist: stored in a run folder, or kept by the package. Both answer a run on the same terms.

A result answers for the same config, the same data and the same computing code; otherwise a line says what differs and
the run is made. A result of other libraries or another kind of processor answers with a remark, as it may differ. One
of parts from outside that use what the seed does not fix answers no later run, as the same command gives another.
"""

import copy
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from robustfl_bench.runner.experiment import own_metrics, provenance
from robustfl_bench.runner.experiment.outside_code import OutsideCode
from robustfl_bench.runner.experiment.plan import Request
from robustfl_bench.runner.experiment.summary import score_of_line, tuned_by, words, words_of_line
from robustfl_bench.runner.store import folders, kept, lines
from robustfl_bench.runner.store.writing import Damaged

if TYPE_CHECKING:
    from robustfl_bench.parts.protocols.state import Round, State
    from robustfl_bench.train.federation import Federation
    from robustfl_bench.train.loop import Step


# Whether the numbers of a run with parts from outside this package follow from its seed.
#
# Parts of this package draw from named streams (``base.seeding``), which the tests check. Where a run has other
# parts, the global random generators are watched, and its first round in a process is computed twice.


UNKNOWN = "unknown"
"""Stands for the clock, or a generator without a seed: a round has two results, and no global generator was used."""

_found: dict[str, dict[str, None]] = defaultdict(dict)
"""What ``unseeded`` has found for runs with the same parts from outside, by these parts."""


def unseeded(code: OutsideCode) -> list[str]:
    """What the parts of a run from outside used in this process, and the seed does not fix: global generators, UNKNOWN,
    and functions that answer otherwise in another process; empty if nothing."""
    return list(dict.fromkeys([*_found.get(str(code), ()), *code.varying]))


def remark(code: OutsideCode, found: Iterable[object]) -> str:
    """One line on a run whose parts from outside were found ``unseeded``."""
    return (
        f"{uses(code, found)}: the same command gives other numbers each time; draw from the rng of the view, or "
        "from robustfl_bench.base.seeding.generator(seed, name)"
    )


def uses(code: OutsideCode, found: Iterable[object]) -> str:
    """What the parts from outside were found to use, in words."""
    words = ["the clock or a generator without a seed" if name == UNKNOWN else str(name) for name in found]
    return f"{code} uses {' and '.join(words)}, which seed does not fix"


@contextmanager
def watched(code: OutsideCode) -> Iterator[None]:
    """Find the global generators that are used within the context; without parts from outside, do nothing."""
    if not code.groups:
        yield
        return
    from robustfl_bench.base.seeding import GlobalGenerators

    before = GlobalGenerators()
    try:
        yield
    finally:
        _found[str(code)] |= dict.fromkeys(before.drawn())


def step_of(code: OutsideCode) -> "Step":
    """The step from round to round of a run; with parts from outside, one that finds what is ``unseeded``."""
    from robustfl_bench.train import rounds

    if not code.groups:
        return rounds.step
    tried = False

    def step(federation: "Federation", state: "State") -> "tuple[State, Round | None]":
        nonlocal tried
        trial = None if tried else _trial(federation, state)
        tried = True
        with watched(code):
            after, happened = rounds.step(federation, state)
        if trial is not None and not _equal(trial, after):
            _found[str(code)][UNKNOWN] = None
        return after, happened

    return step


def _trial(federation: "Federation", state: "State") -> "State":
    """The state after the next round, with the given state and the global generators left as they are."""
    from robustfl_bench.base.seeding import GlobalGenerators
    from robustfl_bench.train import rounds

    generators = GlobalGenerators()
    try:
        return rounds.step(federation, copy.deepcopy(state))[0]
    finally:
        generators.restore()


def _equal(first: "State", second: "State") -> bool:
    """Whether two states are equal to the bit, nan to nan."""
    from robustfl_bench.train.contract import alike

    return alike(first.stored(), second.stored())


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
    for twin in folder.copies:
        say(f"{twin} and {folder.path} are both run {folder.run_id}; the latter is used, remove one of them")
    try:
        summary = folder.summary()
        if summary is None or summary["status"] not in folders.MEASURED:
            return None
        if damage := provenance.damage(request, summary):
            raise Damaged(damage)
        if (other := provenance.other(request, summary)) is not None:
            raise Damaged(f"{words(summary)} was made with {other}")
        if request.settings.save_weights and not (folder.path / folders.WEIGHTS).exists():
            raise Damaged(f"{words(summary)} kept no weights")
        if (own := own_metrics.digests(request.settings.metrics)) and summary.get("own_metrics") != own:
            raise Damaged(f"{words(summary)} was made without, or with others than, these metrics")
        if not unseeded and is_unseeded(summary):
            raise Damaged(uses(request.outside, _unseeded(summary)))
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
    if line is None or line["state"] not in folders.MEASURED or _needs_a_run(request):
        return None
    if (value := score_of_line(line, request.dataset.source)) is None:
        return None
    if (other := provenance.other_than_line(request, line)) is not None:
        say(f"results of {line['file']} not used: made with {other}")
        return None
    origin = {"versions": lines.versions(line.get("versions")), "code": lines.code_of_line(line.get("code"))}
    if not unseeded and is_unseeded(origin):
        say(f"results of {line['file']} not used: {uses(request.outside, _unseeded(origin))}")
        return None
    _remark(request, {**line, **origin}, say, line["file"])
    return Answer("kept result", line["state"], words_of_line(line), line["file"], value, {})


def _needs_a_run(request: Request) -> bool:
    """Whether the call asks for what kept results lack: trained weights, or numbers of the user's metrics."""
    return bool(request.settings.save_weights or request.settings.metrics)


def _remark(request: Request, result: Mapping[str, Any], say: Say, place: object) -> None:
    """Call ``say`` with each reason for which the same command could give another result than this one."""
    unlike = provenance.remark(result.get("versions"), result.get("processor"), result.get("device"))
    if unlike is not None:
        say(f"{unlike}  {place}")
    if unseeded := _unseeded(result):
        say(remark(request.outside, unseeded))


def unfollowed(config: Mapping[str, Any], say: Say) -> None:
    """Call ``say`` where the config of a run that has ended names trackers, which get nothing of it."""
    if config.get("tracker"):
        say("a tracker gets no rows of a run that has ended; use_kept=false results_dir=ANOTHER makes it again")


def status(request: Request) -> str | None:
    """How a run ended, in its folder or as kept; None if it has not, or if its summary is damaged."""
    try:
        summary = request.folder.summary()
    except Damaged:
        return None
    line = kept.find(request.run_id) if summary is None else None
    return line["state"] if line is not None else summary["status"] if summary is not None else None
