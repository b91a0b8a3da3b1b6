"""Which rule to use in a partition with a share of attackers, with or without server data: the group of the best."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from robustfl_bench.base.answers import as_json as rendered
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.lab.arena.additions import Addition
from robustfl_bench.lab.arena.conditions import LOWEST, conditioned, conditions, not_tried, own_samples
from robustfl_bench.lab.arena.order import WORST
from robustfl_bench.lab.arena.page import SCORE_MEANING
from robustfl_bench.lab.arena.pairs import BELOW, MARK_MEANING, mark
from robustfl_bench.lab.arena.panels import ENOUGH, HALF, SERVER_DATA, Arena, ArenaPanel, Scored, Standing
from robustfl_bench.lab.arena.planning import by_rule
from robustfl_bench.lab.arena.track import SERVER, Track
from robustfl_bench.lab.arena.views.numbers import wrong_assumptions
from robustfl_bench.lab.arena.words import bounds, cells, listed, number
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.read.runs.statistics import COMPARED
from robustfl_bench.read.runs.where import check_name
from robustfl_bench.read.tables.sheets import Sheet

TRACKS = ("silos", "digits", "hospitals")
"""The tracks that answer by default: the versions of the arena, the newest first, and a few unequal sites."""

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

    @property
    def title(self) -> str:
        """What was asked."""
        words, track = "with" if self.server_data else "without", self.arena.track
        return f"Arena {track.name}: {self.arena.titled(self.panel)}, {words} {SERVER_DATA}, {track.rules}"

    @cached_property
    def searched(self) -> Mapping[str, Addition]:
        """The rules of the panel that were run under attacks that search, under the one that leaves least."""
        return by_rule(self.panel, self.arena.additions)

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
        best = f"{names[0]}, the best of {len(self.rules)} rules, scores {self.group[0].score.value:.0f}"
        if (server := self.panel.server) and mark(self.panel, names[0]) == BELOW:
            return (
                f"train on the server's {own_samples(self.arena)} alone, which scores {server.score.value:.0f}; {best}"
            )
        if self.group[0].score.value < HALF:
            return f"no rule keeps half of what honest clients reach; {best}"
        words = f"{names[0]} has the highest score of {len(self.rules)} rules, each {LOWEST}"
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
    asked = _partition(sorted({*chain.from_iterable(partitions.values())}), partition)
    *newer, oldest = (name for name, known in partitions.items() if asked in known)
    for name in newer:
        with suppress(ConfigError, NoRuns):
            return recommend(arena(name), asked, attackers, server_data)
    return recommend(arena(oldest), asked, attackers, server_data)


def recommend(arena: Arena, partition: str, attackers: str, server_data: bool) -> Recommendation:
    """The recommendation for a partition and a share or number of attackers. Raises ConfigError for others than those
    that were run."""
    known = list(dict.fromkeys(partition for _, partition in arena.panels))
    panel = arena.panels[_number(arena, attackers), _partition(known, partition)]
    rules = [rule for rule in panel.standings if rule != SERVER and panel.is_whole(rule)
             and (server_data or SERVER_DATA not in arena.needs.of(rule))]  # fmt: skip
    if math.isnan(panel.honest):
        raise ConfigError(f"no run of {arena.track.experiment}_honest, which scores need; "
                          f"robustfl-bench -m +experiment={arena.track.experiment}_honest makes them")  # fmt: skip
    if not rules:
        raise ConfigError(f"no rule was run under all attacks of {arena.titled(panel)}")
    known = panel.run_enough(rules)
    best = panel.best(known) if len(known) >= ENOUGH else []
    return Recommendation(arena, panel, server_data, rules, [panel.standings[rule] for rule in best])


def _partition(known: Sequence[str], asked: str) -> str:
    """The partition of this name, or the only one whose name contains it."""
    alike = [name for name in known if asked and asked in name]
    if asked not in known and len(alike) == 1:
        return alike[0]
    check_name(asked, known, "partition")
    return asked


def _number(arena: Arena, asked: str) -> int:
    """The number of attackers, given as such or as a share of the clients."""
    shares = {f"{of / arena.track.clients:g}": of for of in arena.settled}
    try:
        value = float(asked)
    except ValueError:
        value = math.nan
    for of in arena.settled:
        if value in (of, of / arena.track.clients):
            return of
    raise ConfigError(
        f"--attackers {asked} was not run; known: {', '.join(shares)} of {arena.track.clients} clients, or "
        f"{', '.join(map(str, shares.values()))}"
    )


def sheet(found: Recommendation) -> Sheet:
    """The recommendation as a table."""
    panel = found.panel
    rows = [cells([
        of.rule, number(of.score.value) + bounds(panel.interval(of)), number(of.worst), of.attack,
        listed(panel.fails(of), 4), mark(panel, of.rule) or "above it" * (panel.server is not None),
        ", ".join(found.arena.needs.of(of.rule)) or "nothing", found.arena.needs.cost(of.rule),
    ]) for of in found.group or map(panel.standings.__getitem__, found.rules)]  # fmt: skip
    answer = Sheet(
        above=[found.title, f"{found.answer}."],
        heading=["rule", "score", "worst case", "under", "fails against", "server alone", "needs", "cost"],
        rows=rows,
        footnotes=[
            *SCORE_MEANING,
            f"fails against: attacks under which the score is below {HALF:g}",
            *[MARK_MEANING] * (panel.server is not None),
            "What nobody can promise there:",
        ],
        report=found.limits(),
    )
    return conditioned(answer, found.arena)


def as_json(found: Recommendation) -> str:
    """The recommendation as JSON, with numbers in place of words."""
    panel = found.panel

    def scored(of: Scored) -> dict[str, Any]:
        interval = panel.interval(of)
        return {
            "score": round(of.score.value, 2),
            "interval": [round(interval.low, 2), round(interval.high, 2)] if interval else None,
            "seeds": of.score.n,
        }

    def entry(of: Standing) -> dict[str, Any]:
        least = found.searched.get(of.rule)
        return {
            "rule": of.rule,
            **scored(of),
            "worst_case_percent": round(of.worst, 2),
            "worst_attack": of.attack,
            "searched": {"attack": least.by, **scored(least)} if least else None,
            "fails_against": panel.fails(of),
            "does_not_beat_server": mark(panel, of.rule) if of.rule != SERVER else None,
            "needs": list(found.arena.needs.of(of.rule)),
            "cost": found.arena.needs.cost(of.rule),
        }

    answer = {
        "arena": found.arena.track.name,
        "partition": panel.partition,
        "attackers": panel.number,
        "clients": found.arena.track.clients,
        "server_data": found.server_data,
        "conditions": asdict(conditions(found.arena)),
        "answer": found.answer,
        "rules": len(found.rules),
        "group": [entry(of) for of in found.group],
        "server_alone": entry(panel.server) if panel.server else None,
        "nobody_can_promise": found.limits(),
    }
    return rendered(answer)
