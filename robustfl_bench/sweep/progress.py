"""How far a sweep has come, by its run folders alone; and its end in words."""

from collections import Counter

from robustfl_bench.explain import say
from robustfl_bench.results.store import ENDED, FAILED
from robustfl_bench.sweep.ends import BUSY, MISSING, OTHERS, Incomplete, Outcome


def conclude(outcome: Outcome) -> Incomplete | None:
    """Say how a sweep ended, with its failures by reason; an Incomplete if results are missing."""
    counts = outcome.counts
    told = ", ".join(f"{counts[status]} {status}" for status in (*ENDED, OTHERS, MISSING) if counts[status])
    stored = sum(end.was_stored for end in outcome.ends)
    line = f"sweep: {len(outcome.ends)} runs: {told}" + (f"; {stored} were stored" if stored else "")
    say(line)
    for reason, number in Counter(end.reason for end in outcome.ends if end.status == FAILED).most_common():
        say(f"  {number} failed: {reason}")
    if not counts[FAILED] + counts[OTHERS] + counts[MISSING]:
        return None
    return Incomplete(line, BUSY if counts[OTHERS] and not counts[FAILED] + counts[MISSING] else 1)
