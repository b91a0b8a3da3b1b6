"""The claims of a measured paper as sheets: the verdicts, what speaks against claims, and what would decide them."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence

from robustfl_bench.base.grouping import grouped
from robustfl_bench.lab.agreement.measured import NO_LOOKS, MeasuredPaper, Open
from robustfl_bench.lab.agreement.verdicts import FAILS, FEW, HOLDS, UNDECIDED, UNTESTED, Finding, Verdict
from robustfl_bench.read.tables import agreement
from robustfl_bench.read.tables.claims import Side, short
from robustfl_bench.read.tables.sheets import Printed, Sheet
from robustfl_bench.read.tables.table import Table

_BY = ", by stand-ins"
_AGAINST = 3  # comparisons that speak against a claim and are listed
MEANING = (
    f"{HOLDS}: each comparison is true by its 95% interval, paired over seeds; "
    f"{FAILS}: one is false by its interval, widened for the number of comparisons (Bonferroni); where one cell of an "
    "extreme decides, intervals are also widened for the number of its cells",
    f"{FEW}: the intervals, which need two seeds or those of a planned look, say neither; {UNDECIDED}: nor do they at "
    f"the last planned look; {UNTESTED}: cells that it compares have no number",
    "measured and published: how many comparisons are true of the means, of all that have numbers",
)
"""What the words and the numbers of ``claims`` mean."""


def claims(paper: MeasuredPaper, repeats: str = "seeds") -> Sheet:
    """The verdict on each claim about each table or block; below, each claim once. The last column says of how many
    ``repeats`` the numbers are."""
    rows, notes = [], []
    printed = any(verdict.published for verdict in paper.verdicts)
    by_name = grouped((verdict.claim.name, place) for place, verdict in enumerate(paper.verdicts))
    for note, (name, places) in enumerate(by_name.items(), 1):
        rows += [[Printed(name, note=note), *words(*_verdict(paper, place, printed))] for place in places]
        claim = paper.verdicts[places[0]].claim
        notes.append(f"[{note}] {claim.words} ({claim.place}): {'; '.join(claim.formulas)}")
    heading = ["claim", "table", "verdict", "measured", *["published"] * printed, repeats]
    heading += ["with stand-ins"] * bool(paper.stood_in)
    return Sheet([f"{paper.title}: claims"], heading, rows, labels=3, footnotes=[*notes, *kinds(paper)])


def decided(paper: MeasuredPaper) -> list[Sheet]:
    """The claims that hold or do not, in words, each verdict once for all tables that it is about; no sheet if there
    are none."""
    about: dict[tuple[str, str], list[str]] = {}
    for place, own in enumerate(paper.verdicts):
        verdict, by = (own, "") if own.decided or place not in paper.stood_in else (paper.stood_in[place][1], _BY)
        if verdict.decided:
            about.setdefault((verdict.claim.words, verdict.word + by), []).append(verdict.claim.about)
    rows = [words(claim, word, "; ".join(tables)) for (claim, word), tables in about.items()]
    heading = ["claim", "verdict", "in"]
    return [Sheet([f"{paper.title}: the claims that are decided"], heading, rows, labels=3)] if rows else []


def _verdict(paper: MeasuredPaper, place: int, printed: bool) -> list[str]:
    """Table, verdict, comparisons that are true of measured and, if ``printed``, of published means, seeds, and what
    stand-ins say, if any say something."""
    verdict = paper.verdicts[place]
    seeds = agreement.span(verdict.seeds) if any(verdict.seeds) else "-"
    line = [verdict.claim.about, paper.words[place], _true(verdict), *[_share(verdict.published)] * printed, seeds]
    if paper.stood_in:
        line.append(_of_stand_in(paper, place))
    return line


def _of_stand_in(paper: MeasuredPaper, place: int) -> str:
    """``holds, 14 of 14^a``, with the mark that the stand-in has in its table."""
    if place not in paper.stood_in:
        return ""
    difference, verdict = paper.stood_in[place]
    return f"{verdict.word}, {_true(verdict)}{_marks(paper, verdict.claim.table)[difference]}"


def kinds(paper: MeasuredPaper) -> list[str]:
    """What the marks of stand-ins mean in each table that has some."""
    return [f"{short(name)}{mark}: {words}" for name in paper.tables for words, mark in _marks(paper, name).items()]


def _marks(paper: MeasuredPaper, name: str) -> dict[str, str]:
    """The marks of a table's stand-ins, by their differences in words: first those of its cells, as the table has
    them, then those by which its claims alone are judged."""
    table = paper.tables[name]
    judging = (words for words, verdict in paper.stood_in.values() if verdict.claim.table == name)
    own = {words: table.mark(words) for words in table.kinds if words}
    more = [words for words in dict.fromkeys(judging) if words not in own]
    return own | {words: f"^{chr(ord('a') + len(own) + place)}" for place, words in enumerate(more)}


def _true(verdict: Verdict) -> str:
    measured = _share(verdict.findings)
    if 0 < len(verdict.findings) < (total := len(verdict.claim.comparisons)):
        measured += f" (all: {total})"
    return measured


def _share(findings: Sequence[Finding]) -> str:
    """How many comparisons are true of the means."""
    return f"{sum(finding.true for finding in findings)} of {len(findings)}" if findings else "-"


def against(paper: MeasuredPaper) -> list[Sheet]:
    """The comparisons that are not true of the means, a row for each; no sheet if there are none."""
    rows = []
    for verdict in paper.verdicts:
        false = sorted((finding for finding in verdict.findings if not finding.true), key=lambda one: one.margin)
        table = paper.tables[verdict.claim.table]
        named = (verdict.claim.name, verdict.claim.about)
        rows += [words(*named, *_numbers(finding, table)) for finding in false[:_AGAINST]]
    title = f"{paper.title}: what speaks against claims, at most {_AGAINST} comparisons of each"
    return [Sheet([title], ["claim", "table", "of", "measured", "and", "measured"], rows, labels=3)] if rows else []


def _numbers(finding: Finding, table: Table) -> list[str]:
    """A comparison with what was measured: ``boba / ipm``, 91.9, ``krum / ipm``, 92.0."""
    sides = ((finding.comparison.left, finding.left.mean), (finding.comparison.right, finding.right.mean))
    (_, _, label), *_ = finding.comparison.left.keys or finding.comparison.right.keys
    digits = table.column(label).value.digits
    return [word for side, mean in sides for word in (_named(side) if side.keys else "", f"{mean:.{digits}f}")]


def _named(side: Side) -> str:
    if side.extreme:
        return f"{side.extreme} of {side.keys[0][1]}"
    return " / ".join(filter(None, side.keys[0]))


def deciding(paper: MeasuredPaper) -> list[Sheet]:
    """What each open claim lacks: the seeds of its next look, the runs that it needs for it, their hours, and those of
    all looks; no sheet without open claims for which looks are planned."""
    planned = [one for one in paper.open_claims if one.stands != NO_LOOKS]
    if not planned:
        return []
    rows = [words(one.verdict.claim.name, one.verdict.claim.about, *_lacking(one), _stand_in(paper, one))
            for one in planned]  # fmt: skip
    heading = ["claim", "table", "next look", "runs", "hours", "last look", "hours", "times of", "stand-in, hours"]
    changes = "".join(f" {override}" for override in paper.overrides)
    return [
        Sheet(
            above=[f"{paper.title}: what would decide the open claims"],
            heading=heading,
            rows=rows,
            labels=2,
            footnotes=[
                "look: the number of seeds of each compared cell, of one attack if a worst case is to be the worse "
                "one; the looks, fixed beforehand, share the 5% (Pocock)",
                "hours of one core, as long as each look leaves the claim open; times of: the runs that they are "
                "estimated from, too many where those are smaller; stand-in: the settings that take least, "
                "and the hours of all looks at them",
                f"robustfl-bench decide {paper.name} CLAIM{changes} makes the runs, look after look, until the claim "
                "is decided; with --dry-run it says what it would do",
            ],
        )
    ]


def _lacking(one: Open) -> list[str]:
    """Seeds, runs and hours of the next look, seeds and hours of the last, and what the hours come from."""
    if (step := one.next) is None or (last := one.last) is None:
        return [one.stands, *["-"] * 5]
    return [str(step.look), str(len(step.runs)), hours(step.cost.hours), str(last.look), hours(last.cost.hours),
            last.cost.source]  # fmt: skip


def _stand_in(paper: MeasuredPaper, one: Open) -> str:
    """``batch_size=64, 0.7``: the stand-in whose looks at the same claim take least, and their hours."""
    claim = one.verdict.claim
    looks = [(last.cost.hours, " ".join(part.overrides)) for part in paper.standing_in for other in part.open_claims
             if other.verdict.claim == claim and (last := other.last)]  # fmt: skip
    if not (known := [look for look in looks if not math.isnan(look[0])] or looks):
        return "-"
    least, settings = min(known)
    return f"{settings}, {hours(least)}"


def command(one: Open, paper: str, overrides: Sequence[str] = (), options: Sequence[str] = ()) -> str:
    """The command that decides one claim."""
    claim = one.verdict.claim
    return shlex.join(["robustfl-bench", "decide", paper, claim.name, *overrides, "--table", claim.about, *options])


def hours(number: float) -> str:
    """Hours as a page shows them: ``0.3``, ``12``; a question mark where nothing is known."""
    if math.isnan(number):
        return "?"
    return f"{number:.0f}" if number >= 9.95 else f"{number:.1f}" if number >= 0.095 else "< 0.1"


def words(*texts: str) -> list[Printed]:
    """Cells that hold nothing but their text."""
    return [Printed(text) for text in texts]
