"""Which rule to use in a partition with a share of attackers, with or without server data: the group of the best."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from robustfl_bench.base.console import counted
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.doors.catalogue import entries
from robustfl_bench.lab.arena.additions import Addition, by_rule
from robustfl_bench.lab.arena.conditions import Conditions, conditions, not_tried, own_samples
from robustfl_bench.lab.arena.decision import ALONE, TRACKS, Facts, number_meant, partition_meant, scored
from robustfl_bench.lab.arena.order import BELOW, UNSHOWN, WORST, mark
from robustfl_bench.lab.arena.panels import ENOUGH, Arena, ArenaPanel, Scored, Standing
from robustfl_bench.lab.arena.track import Track
from robustfl_bench.lab.arena.tuned import BOOKS
from robustfl_bench.lab.arena.views.numbers import wrong_assumptions
from robustfl_bench.lab.arena.words import HALF, SERVER_DATA, lines, said, tabled
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.read.runs.statistics import COMPARED
from robustfl_bench.read.tables.sheets import Sheet
from robustfl_bench.runner.config import options


@dataclass(frozen=True)
class Recommendation:
    """The rules of a panel that may be used (``rules``), with or without server data, and the ``group`` of those that
    cannot be told from the best of them; empty where too little was run to call one the best."""

    arena: Arena
    panel: ArenaPanel
    server_data: bool
    rules: Sequence[str]
    group: Sequence[Standing]

    @cached_property
    def searched(self) -> Mapping[str, Addition]:
        """The rules of the panel that were run under attacks that search, under the one that leaves least."""
        return by_rule(self.panel, self.arena.additions)

    @property
    def compared(self) -> str:
        """Of how many rules the first is the best, in words: those that met the strongest attack that searches, or all
        if none has."""
        left = [rule for rule in self.rules if rule not in self.panel.unmet] or self.rules
        return counted(len(left), "rule") + " that met the strongest attack" * (len(left) < len(self.rules))

    @property
    def answer(self) -> str:
        """The group in a sentence."""
        server = self.panel.server
        return said(
            "cases.answer",
            case=self,
            enough=len(self.panel.run_enough(self.rules)),
            alone=server if self.group and server and mark(self.panel, self.group[0].rule) == BELOW else None,
            own=own_samples(self.arena),
            names=[standing.rule for standing in self.group],
            ENOUGH=ENOUGH,
            COMPARED=COMPARED,
        )

    def limits(self) -> list[str]:
        """What nobody can promise there."""
        panel, group = self.panel, [standing.rule for standing in self.group]
        lows = [interval.low for of in self.group if (interval := panel.interval(of)) is not None]
        failed = [set(panel.fails(panel.standings[rule])) for rule in self.rules]
        by_list = self.arena.by_list[panel.number, panel.partition].standings
        ahead = [{"rule": rule, "alone": by_list[rule].score.value, "left": self.searched[rule].words}
                 for rule in self.rules if group and rule not in group and rule in self.searched
                 and by_list[rule].score.value > self.group[0].score.value]  # fmt: skip
        met = [self.searched[rule] for rule in group if rule in self.searched]
        return lines(
            "cases.limits",
            case=self,
            lows=lows,
            better=[rule for rule in group if not mark(panel, rule)],
            everyone=sorted(set.intersection(*failed)) if failed else [],
            wrong_f=self._wrong_f(),
            WORST=WORST,
            not_tried=list(not_tried(self.arena)),
            met=met,
            unmet=[rule for rule in group if rule not in self.searched],
            seeds=min((of.score.n for of in met or self.searched.values()), default=0),
            ahead=ahead,
        )

    def _wrong_f(self) -> list[dict[str, Any]]:
        """What a wrong f costs the rules of the group that need it."""
        number = self.panel.number
        return [
            {"rule": of.rule, "right": by_f.get(number), "others": [(by_f[f], f) for f in sorted(by_f) if f != number]}
            for found in wrong_assumptions(self.arena.runs)
            if found.number == number and self.panel.partition in found.partitions
            for of in self.group for by_f in [found.worst.get(of.rule, {})] if by_f.keys() - {number}
        ]  # fmt: skip

    @cached_property
    def facts(self) -> Facts:
        """All of this as JSON has it, with numbers in place of words."""
        panel, arena = self.panel, self.arena
        return {
            "arena": arena.track.name,
            "book": next(name for name, book in BOOKS.items() if type(arena.track) is book),
            "rule_book": arena.track.rules,
            "partition": panel.partition,
            "attackers": panel.number,
            "clients": arena.track.clients,
            "server_data": self.server_data,
            "conditions": asdict(conditions(arena)),
            "own_samples": own_samples(arena),
            "answer": self.answer,
            "use": self._use(),
            "more": arena.track.command(["RULE"], []).removesuffix(" aggregator=RULE"),
            "rules": len(self.rules),
            "compared": self.compared,
            "group": [self._entry(of) for of in self.group],
            "so_far": [] if self.group else [self._entry(panel.standings[rule]) for rule in self.rules],
            "server_alone": self._entry(panel.server) if panel.server else None,
            "not_tried": list(not_tried(arena)),
            "nobody_can_promise": self.limits(),
        }

    def _use(self) -> Facts | None:
        """The rule to use, with the line to type for it under the attack that hurts it most; the server alone where it
        does better, and None where no best rule can be named."""
        if not self.group:
            return None
        server, doubt = self.panel.server, mark(self.panel, self.group[0].rule)
        return self.use_of(server if server and doubt == BELOW else self.group[0])

    def use_of(self, standing: Standing) -> Facts:
        """A rule of the panel, or the server alone, as what to use."""
        panel, arena = self.panel, self.arena
        run = next(run for run in arena.runs_of(panel) if run.rule == standing.rule)
        name, _ = arena.needs.asked_as(standing.rule)
        words = [f"aggregator={name}", *run.options, f"+setting=arena/{arena.track.name}",
                 f"partition={panel.partition}", f"num_byzantine={panel.number}", f"attack={standing.attack}",
                 f"lr={run.lr:g}"]  # fmt: skip
        about = entries.option("aggregator", name) if options.exists("aggregator", name) else None
        return {
            "rule": standing.rule,
            "option": name,
            **self._scored(standing),
            "attack": standing.attack,
            "doubt": "" if standing.rule == ALONE else mark(panel, standing.rule),
            "is_safe": standing.score.value >= HALF,
            "command": shlex.join(["robustfl-bench", *words]),
            "paper": about.source if about else "",
            "url": about.url if about else "",
            "entry": f"robustfl-bench --list aggregator {name}" if about else "",
        }

    def _scored(self, of: Scored) -> Facts:
        interval = self.panel.interval(of)
        return {
            "score": _rounded(of.score.value),
            "interval": [round(interval.low, 2), round(interval.high, 2)] if interval else None,
            "seeds": of.score.n,
        }

    def _entry(self, of: Standing) -> Facts:
        least = self.searched.get(of.rule)
        return {
            "rule": of.rule,
            **self._scored(of),
            "worst_case_percent": _rounded(of.worst),
            "worst_attack": of.attack,
            "searched": {"attack": least.by, **self._scored(least)} if least else None,
            "fails_against": self.panel.fails(of),
            "does_not_beat_server": mark(self.panel, of.rule) if of.rule != ALONE else None,
            "needs": list(self.arena.needs.of(of.rule)),
            "cost": self.arena.needs.cost(of.rule),
        }


def newest(
    arena: Callable[[str], Arena],
    partition: str,
    attackers: str,
    server_data: bool,
    book: Callable[[str], Track] = Track,
) -> Recommendation:
    """The recommendation of the first of TRACKS with this rule book that has the panel; ``arena`` reads the runs of
    one. Raises as ``recommend`` does for the last of those with the partition."""
    partitions: dict[str, list[str]] = {}
    for name in TRACKS:
        with suppress(ConfigError):  # no such book
            partitions[name] = book(name).swept["partition"]
    asked = partition_meant(sorted({*chain.from_iterable(partitions.values())}), partition)
    *newer, oldest = (name for name, known in partitions.items() if asked in known)
    for name in newer:
        with suppress(ConfigError, NoRuns):
            return recommend(arena(name), asked, attackers, server_data)
    return recommend(arena(oldest), asked, attackers, server_data)


def recommend(arena: Arena, partition: str, attackers: str, server_data: bool) -> Recommendation:
    """The recommendation for a partition and a share or number of attackers. Raises ConfigError for others than those
    that were run."""
    known = list(dict.fromkeys(partition for _, partition in arena.panels))
    meant = partition_meant(known, partition)
    number = number_meant(attackers, arena.track.clients, list(arena.settled), meant, server_data)
    panel = arena.panels[number, meant]
    rules = [rule for rule in panel.standings if rule != ALONE and panel.is_whole(rule)
             and (server_data or SERVER_DATA not in arena.needs.of(rule))]  # fmt: skip
    if math.isnan(panel.honest):
        raise ConfigError(f"no run of {arena.track.experiment}_honest, which scores need; "
                          f"robustfl-bench -m +experiment={arena.track.experiment}_honest makes them")  # fmt: skip
    if not rules:
        raise ConfigError(f"no rule was run under all attacks of {arena.titled(panel)}")
    known = panel.run_enough(rules)
    best = panel.best(known) or _below_the_server(panel, known) if len(known) >= ENOUGH else []
    return Recommendation(arena, panel, server_data, rules, [panel.standings[rule] for rule in best])


def _below_the_server(panel: ArenaPanel, rules: Sequence[str]) -> list[str]:
    """The best of rules that did not meet the strongest attack, which may only lower its score, if the server's own
    samples alone score more."""
    scores = panel.scores(rules)
    best = max(scores, key=lambda rule: scores[rule].value)
    return [best] if mark(panel, best) == BELOW else []


def _rounded(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 2)


def sheet(facts: Facts) -> Sheet:
    """The facts of a recommendation as a table."""
    return tabled(
        "cases.recommendation",
        facts["group"] or facts["so_far"],
        facts=facts,
        conditions=Conditions(**facts["conditions"]).words,
        scored=scored,
        has_server=facts["server_alone"] is not None,
        BELOW=BELOW,
        UNSHOWN=UNSHOWN,
    )
