"""The arena as tables: scores of every rule, its needs, and its flags."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from robustfl_bench.arena.scores import NEAR, WORST, Score, in_order, likeness, rank, scores, stability, strongest
from robustfl_bench.arena.track import HONEST, NONE, SERVER, ArenaRun, Track, by_number, track_and_runs
from robustfl_bench.base.code_digest import PACKAGE
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.config import compose, options, outside, stored
from robustfl_bench.runs.origins import origins
from robustfl_bench.runs.records import one_line
from robustfl_bench.runs.statistics import Interval, Ranks, paired
from robustfl_bench.tables.sheets import Printed, Sheet, Todo

if TYPE_CHECKING:
    import pandas as pd

    from robustfl_bench.arena.checks import RuleCheck

_HEADING = (
    "rule", "no attack", "worst case", "over server", "by", "rank", "max recall drop", "backdoor",
    "iid - pathological", "needs", "cost", "cells",
)  # fmt: skip
_FOOTNOTES = (
    "no attack, worst case: test accuracy [%]; worst case: of each partition and seed the least under any attack, the "
    "mean of these, and its 95% interval over seeds. A model that diverged counts as 0",
    f"over {SERVER} [points]: by how much the worst case is above that of the server's own samples alone, and the 95% "
    "interval of this difference, paired by seed; of rules with all cells",
    "by: the attack that does it most often, and in how many of the partitions and seeds",
    "rank: mean rank over partitions and attacks, 1 is best",
    "max recall drop [points]: the largest under any attack, against the plain mean without attack",
    "backdoor [%]: its success. iid - pathological [points]: loss of accuracy without attack",
    "needs: f, server data, ...; cost: Gram matrices and sorts of a round, counted",
    f"{HONEST}: what no attacker could stop, the plain mean of the honest clients alone",
)


def sheets(table: pd.DataFrame, name: str, allowed: Sequence[str] = ()) -> list[Sheet]:
    """A table for each number of attackers that rules were run with, one of flags, one of wrong assumptions about f.

    ``table`` is that of ``records.load``. Rules from outside are tried only if their package is ``allowed``. Raises
    ConfigError for an unknown track, NoRuns if it has none.
    """
    track, runs = track_and_runs(table, name)
    checked = _Checks(table, runs, allowed)
    chosen = by_number(track, runs)
    scores_by_number = {number: scores(of) for number, of in chosen.items()}
    pages = [_standing(track, number, chosen[number], scores_by_number[number], checked) for number in chosen]
    used = table.iloc[[run.row for run in runs]]
    pages[0] = replace(pages[0], above=[*pages[0].above, *_doubled(track, table, chosen), *origins(used)])
    pages[-1] = replace(pages[-1], footnotes=_FOOTNOTES)
    pages.append(_flags(scores_by_number, checked))
    wrong = {run.num_byzantine for run in runs if run.num_byzantine and run.declared not in (None, run.num_byzantine)}
    return [*pages, *(_declared([run for run in runs if run.num_byzantine == number], number)
                     for number in sorted(wrong))]  # fmt: skip


def _doubled(track: Track, table: pd.DataFrame, chosen: Mapping[int, Sequence[ArenaRun]]) -> list[str]:
    """The agreement of the rules' order with that at twice the size, if such runs exist."""
    if not options.exists("experiment", double := f"{track.experiment}_double"):
        return []
    twice = Track(double.partition("/")[2])
    others = twice.runs(table[table["num_clients"] == twice.clients])
    alike = likeness(chosen.get(others[0].num_byzantine // 2, []), others) if others else None
    if alike is None:
        return []
    return [f"at twice the size, the rank correlation with the same cells here is {alike[0]:.2f} ({alike[1]} rules)"]


class _Checks:
    """The needs and dependences of rules, each measured once; a reason in words if that is impossible."""

    def __init__(self, table: pd.DataFrame, runs: Sequence[ArenaRun], allowed: Sequence[str]) -> None:
        self._runs = {run.rule: run for run in runs}
        self._table, self._allowed = table, allowed
        self._found: dict[str, RuleCheck | str] = {}

    def of(self, rule: str) -> RuleCheck | str:
        if rule not in self._found:
            self._found[rule] = self._try(rule)
        return self._found[rule]

    def asked_as(self, rule: str) -> tuple[str, tuple[str, ...]]:
        """The option or class from outside that chooses a rule, and its changed options."""
        row = self._row(rule)
        known = options.exists("aggregator", str(row["aggregator"]))
        name = str(row["aggregator"]) if known else outside.word(str(row["aggregator._target_"]))
        return name, self._runs[rule].options

    def _row(self, rule: str) -> pd.Series[Any]:
        return self._table.iloc[self._runs[rule].row]

    def _try(self, rule: str) -> RuleCheck | str:
        from robustfl_bench.arena.checks import check

        row = self._row(rule)
        package = str(row["aggregator._target_"]).partition(".")[0]
        if package not in (PACKAGE.name, *self._allowed):
            return f"not tried: add --allow {package}"
        try:
            if package == PACKAGE.name:
                name, others = self.asked_as(rule)
                return check(compose.resolve([f"aggregator={name}", *others]).config["aggregator"])
            return check(stored.read(str(row["folder"]))["aggregator"])
        except ConfigError as error:
            return f"not tried: {error}"
        except Exception as error:
            if package == PACKAGE.name:
                raise
            return f"not tried: {type(error).__name__}: {one_line(error)}"  # a user's rule can raise anything


def _standing(
    track: Track, number: int, runs: Sequence[ArenaRun], score_of: Mapping[str, Score], checked: _Checks
) -> Sheet:
    ranked = rank(runs)
    rules, expected = in_order(score_of, track.attacked), track.cells
    best = max((score.worst for score in rules if score.cells == expected), default=math.nan)
    reference = [score_of[HONEST]] if HONEST in score_of else []
    server = next((score.by_seed for score in rules if score.rule == SERVER and score.cells == expected), {})
    lines = [_line(score, ranked, checked, expected, best, server) for score in [*reference, *rules]]
    above = [track.title(number)]
    if ranked is not None:
        above.append(
            f"ranks: {len(ranked.mean)} rules over {ranked.conditions} partitions and attacks; two mean ranks that "
            f"differ by less than {ranked.critical:.2f} cannot be told apart (Nemenyi, 95%)"
        )
    if (stable := stability(score_of)) is not None:
        above.append(
            f"stability: Spearman's rank correlation of the worst case between one seed and the others is "
            f"{stable[0]:.2f} ({stable[1]} rules, {stable[2]} seeds)"
        )
    if (harm := strongest(runs)) is not None:
        above.append(
            f"{WORST}: no single attack does more harm in {harm[0]} of {harm[2]} cases (rule, partition and seed), "
            f"and none by more than {NEAR} points in {harm[1]}"
        )
    missing = [score.rule for score in rules if score.cells < expected and not score.infeasible]
    by_options: dict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
    for rule in missing:
        name, others = checked.asked_as(rule)
        by_options[others][rule] = name
    todos = [
        Todo("missing", f"runs of {', '.join(names)}", f"robustfl-bench -m +experiment={track.experiment} "
             + " ".join([f"aggregator={','.join(dict.fromkeys(names.values()))}", *others]))
        for others, names in by_options.items()
    ]  # fmt: skip
    return Sheet(
        above=above,
        heading=_HEADING,
        rows=lines,
        bold="the best worst case of the rules with all cells",
        todos=todos,
    )


def _line(
    score: Score, ranked: Ranks | None, checked: _Checks, expected: int, best: float, server: Mapping[str, float]
) -> list[Printed]:
    needs, cost = "", ""
    if score.rule != HONEST and not isinstance(known := checked.of(score.rule), str):
        needs, cost = ", ".join(known.facts.needs), known.facts.cost
    if not score.cells and score.infeasible:
        return [Printed(score.rule), *[Printed("cannot run")] * 2, *[Printed("")] * 6, Printed(needs), Printed(cost),
                Printed(f"0/{expected}")]  # fmt: skip
    worst = _number(score.worst) + _spread(score.spread)
    above = paired(score.by_seed, server) if score.cells == expected and score.rule != SERVER else None
    place = ranked.mean.get(score.rule) if ranked is not None else None
    by = f"{score.attack} {100 * score.share:.0f}%" if score.attack and score.rule != HONEST else ""
    return [
        Printed(score.rule),
        Printed(_number(score.clean)),
        Printed(worst, best=score.worst == best),
        Printed(_number(above.mean) + _spread(above) if above is not None else ""),
        Printed(by),
        Printed("" if place is None else f"{place:.1f}"),
        Printed(_number(score.recall_drop)),
        Printed(_number(score.backdoor)),
        Printed(_number(score.skew)),
        Printed(needs),
        Printed(cost),
        Printed("" if score.rule == HONEST else f"{score.cells}/{expected}"),
    ]


def _spread(bounds: Interval | None) -> str:
    return f" ({bounds.low:.1f} to {bounds.high:.1f})" if bounds is not None else ""


def _number(number: float) -> str:
    return "" if math.isnan(number) else f"{number:.1f}"


def _flags(scores_by_number: Mapping[int, Mapping[str, Score]], checked: _Checks) -> Sheet:
    rows = []
    for rule in sorted({rule for of in scores_by_number.values() for rule in of if rule != HONEST}):
        known = checked.of(rule)
        flags = [known] if isinstance(known, str) else known.flags
        for number, of in scores_by_number.items():
            score = of.get(rule)
            if score is None:
                continue
            for words, differences in (
                (f"helped by {{}}, {number} attackers", score.helping),
                (f"{WORST} is beaten by {{}}, {number} attackers", score.stronger),
            ):
                if differences:
                    names = ", ".join(
                        f"{name} (+{difference.mean:.1f})" if "helped" in words else f"{name} ({-difference.mean:.1f})"
                        for name, difference in sorted(differences.items(), key=lambda item: -item[1].mean)
                    )
                    flags.append(words.format(names))
            if score.diverged:
                flags.append(f"diverged in {score.diverged} runs, {number} attackers")
        rows.append([Printed(rule), Printed("; ".join(flags))])
    return Sheet(
        above=[
            "Flags: what to look at before a rule's worst case is believed",
            "helped by: accuracy above that without attack, worst beaten by: a single attack that does more harm than "
            "the adaptive one; in points, where the paired 95% interval over partitions and seeds excludes 0",
        ],
        heading=["rule", "flags"],
        rows=rows,
        labels=2,
        footnotes=["in brackets after the others: by how much the result of one round changes, relative to its length"],
    )


def _declared(runs: Sequence[ArenaRun], number: int) -> Sheet:
    """The least accuracy under the attacks that were run with a wrong f, beside that with the right one, of the
    ``runs`` with this number of attackers."""
    wrong = [run for run in runs if run.declared not in (None, number)]
    conditions = {(run.partition, run.attack, run.seed) for run in wrong}
    alike = [run for run in runs if (run.partition, run.attack, run.seed) in conditions]
    assumed = sorted({run.declared for run in alike if run.declared is not None})
    rows = []
    for rule in sorted({run.rule for run in wrong}):
        of = {f: scores([run for run in alike if run.rule == rule and run.declared == f]) for f in assumed}
        worst_cases = [_number(of[f][rule].worst) if rule in of[f] else "" for f in assumed]
        rows.append([Printed(rule), *map(Printed, worst_cases)])
    attacks = ", ".join(sorted({run.attack for run in wrong} - {NONE}))
    return Sheet(
        above=[f"Wrong assumptions: worst case [%] with {number} attackers, {attacks}, if the rule assumes f of them"],
        heading=["rule", *(f"f = {f}" for f in assumed)],
        rows=rows,
    )
