"""Which rule to use in a partition with a share of attackers, with or without server data: the group of the best."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain

from robustfl_bench.base.console import counted
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.doors.catalogue import entries
from robustfl_bench.lab.arena.additions import Addition
from robustfl_bench.lab.arena.conditions import LOWEST, Conditions, conditions, not_tried, own_samples
from robustfl_bench.lab.arena.decision import ALONE, TRACKS, Facts, number_meant, partition_meant, scored
from robustfl_bench.lab.arena.order import WORST
from robustfl_bench.lab.arena.page import SCORE_MEANING
from robustfl_bench.lab.arena.pairs import BELOW, MARK_MEANING, mark
from robustfl_bench.lab.arena.panels import ENOUGH, HALF, SERVER_DATA, Arena, ArenaPanel, Scored, Standing
from robustfl_bench.lab.arena.planning import by_rule
from robustfl_bench.lab.arena.track import Track
from robustfl_bench.lab.arena.tuned import BOOKS
from robustfl_bench.lab.arena.views.numbers import wrong_assumptions
from robustfl_bench.lab.arena.words import bounds, cells, listed, number
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.read.runs.statistics import COMPARED
from robustfl_bench.read.tables.sheets import Sheet
from robustfl_bench.runner.config import options

_FEW = 10  # seeds below which intervals are called wide


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
        """Of how many rules the first is the best, in words: those that met the strongest attack that searches."""
        left = [rule for rule in self.rules if rule not in self.panel.unmet]
        return counted(len(left), "rule") + " that met the strongest attack" * (len(left) < len(self.rules))

    @property
    def answer(self) -> str:
        """The group in a sentence."""
        names = [standing.rule for standing in self.group]
        if not self.group:
            known = len(self.panel.run_enough(self.rules))
            return (
                f"too little was run to name a best rule: {ENOUGH} rules with {COMPARED} seeds under all attacks are "
                f"needed, and {known} {'has' if known == 1 else 'have'} them"
            )
        best = f"{names[0]}, the best of {self.compared}, scores {self.group[0].score.value:.0f}"
        if (server := self.panel.server) and mark(self.panel, names[0]) == BELOW:
            return (
                f"train on the server's {own_samples(self.arena)} alone, which scores {server.score.value:.0f}; {best}"
            )
        if self.group[0].score.value < HALF:
            return f"no rule keeps half of what honest clients reach; {best}"
        words = f"{names[0]} has the highest score of {self.compared}, each {LOWEST}"
        return f"{words}; {len(names) - 1} cannot be told from it: {listed(names[1:])}" if names[1:] else words

    def limits(self) -> list[str]:
        """What nobody can promise there."""
        panel, arena = self.panel, self.arena
        known = [interval.low for standing in self.group if (interval := panel.interval(standing)) is not None]
        lines = []
        if known:
            lines.append(
                f"The seeds show of no rule of the group that it keeps more than {max(known):.0f}% of what honest "
                "clients reach, even under the attacks that were run: the largest lower end of their intervals."
            )
        lines += [line for line in (self._server(), self._everyone(), self._wrong_f()) if line]
        lines.append(
            f"{panel.attacks} attacks were run, each alone and from the first round to the last. A score is "
            f"{LOWEST}, and a stronger attack may exist{self._beyond()}. Not tried: {listed(not_tried(arena))}."
        )
        lines += self._searches()
        if panel.seeds < _FEW and self.group:
            lines.append(f"{panel.seeds} seeds make wide intervals: more would leave fewer rules in the group.")
        lines.append(f"All this is for the protocol {arena.track.experiment} and {arena.track.rules}.")
        return lines

    def _beyond(self) -> str:
        """That even an attack which tries many is often not the worst."""
        if not self.group or WORST not in self.arena.track.swept["attack"]:
            return ""
        return (
            f": even {WORST}, which tries many attacks in every round, is not the worst for "
            f"{sum(standing.attack != WORST for standing in self.group)} of the group's {len(self.group)} rules"
        )

    def _searches(self) -> list[str]:
        """What attacks that search leave of the rules of the group, and of those that the list alone would place before
        it."""
        if not self.searched or not self.group:
            return []
        group = [standing.rule for standing in self.group]
        met = [self.searched[rule] for rule in group if rule in self.searched]
        words = [f"{of.rule} {of.words}" for of in met]
        others = [rule for rule in group if rule not in self.searched]
        seeds = min(of.score.n for of in met or self.searched.values())
        names = " or ".join(f"attack={attack}" for attack in self.arena.searched)
        lines = [f"Attackers who search ({names}, {seeds} seeds or more) leave "
                 f"{listed(words) if words else 'no rule of the group, as they were not run against it'}."]  # fmt: skip
        lines += [f"They were not run against {listed(others)}."] * bool(words and others)
        by_list = self.arena.by_list[self.panel.number, self.panel.partition].standings
        for rule in self.rules:
            alone = by_list[rule].score.value
            if rule not in group and rule in self.searched and alone > self.group[0].score.value:
                lines.append(
                    f"Without them {rule} would be ahead with {alone:.0f}; they leave {self.searched[rule].words}."
                )
        return lines

    def _server(self) -> str:
        """Which rules of the group are better than the server's samples alone."""
        server = self.panel.server
        if server is None or not server.accuracies or not self.group:
            return ""
        better = [of.rule for of in self.group if not mark(self.panel, of.rule)]
        beaten = "" if self.server_data else ", which needs no clients"
        score = f"{server.score.value:.0f}{bounds(self.panel.interval(server))}"
        return (
            f"The server's own samples alone score {score}{beaten}. Of the group, "
            f"{listed(better)} {'is' if len(better) < 2 else 'are'} above that beyond the seeds."
        )

    def _everyone(self) -> str:
        """The attacks under which all rules of the division fail."""
        failed = [set(self.panel.fails(self.panel.standings[rule])) for rule in self.rules]
        common = set.intersection(*failed) if failed else set()
        return f"Under {listed(sorted(common))} every rule scores below {HALF:g}." if common else ""

    def _wrong_f(self) -> str:
        """What a wrong f costs the rules of the group that need it."""
        parts = []
        for found in wrong_assumptions(self.arena.runs):
            if found.number != self.panel.number or self.panel.partition not in found.partitions:
                continue
            for of in self.group:
                by_f = found.worst.get(of.rule, {})
                if others := [f"{by_f[f]:.0f}% if it assumes {f}" for f in sorted(by_f) if f != found.number]:
                    right = f"{by_f[found.number]:.0f}%" if found.number in by_f else "unknown"
                    parts.append(f"{of.rule} ({right}; {', '.join(others)} of {self.arena.track.clients})")
        return f"Rules that need f depend on it; worst case of some attacks: {'; '.join(parts)}." if parts else ""

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
        panel, arena = self.panel, self.arena
        doubt = mark(panel, self.group[0].rule)
        standing = panel.server if panel.server and doubt == BELOW else self.group[0]
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
            "doubt": "" if standing.rule == ALONE else doubt,
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
    best = panel.best(known) if len(known) >= ENOUGH else []
    return Recommendation(arena, panel, server_data, rules, [panel.standings[rule] for rule in best])


def _rounded(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 2)


def sheet(facts: Facts) -> Sheet:
    """The facts of a recommendation as a table."""
    has_server = facts["server_alone"] is not None
    rows = [cells([
        of["rule"], scored(of, 1), number(of["worst_case_percent"] or math.nan), of["worst_attack"],
        listed(of["fails_against"], 4), of["does_not_beat_server"] or "above it" * has_server,
        ", ".join(of["needs"]) or "nothing", of["cost"],
    ]) for of in facts["group"] or facts["so_far"]]  # fmt: skip
    share, words = 100 * facts["attackers"] / facts["clients"], "with" if facts["server_data"] else "without"
    return Sheet(
        above=[
            f"Arena {facts['arena']}: {facts['partition']}, {share:.3g}% attackers, {words} {SERVER_DATA}, "
            f"{facts['rule_book']}",
            f"{facts['answer']}.",
        ],
        heading=["rule", "score", "worst case", "under", "fails against", "server alone", "needs", "cost"],
        rows=rows,
        footnotes=[
            Conditions(**facts["conditions"]).words,
            *SCORE_MEANING,
            f"fails against: attacks under which the score is below {HALF:g}",
            *[MARK_MEANING] * has_server,
            "What nobody can promise there:",
        ],
        report=facts["nobody_can_promise"],
    )
