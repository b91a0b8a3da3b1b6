"""Which rule to use in which case: the file that ``robustfl-results recommend`` reads, and the first table of
README.md, both made of the arena's runs by ``make arena``."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.lab.arena.additions import GOALS
from robustfl_bench.lab.arena.answers.findings import CONDITIONS
from robustfl_bench.lab.arena.answers.recommend import Recommendation, recommend
from robustfl_bench.lab.arena.conditions import OTHER_DATA, conditions, data_of, own_samples
from robustfl_bench.lab.arena.decision import ALONE, TRACKS, Facts, scored, share_of
from robustfl_bench.lab.arena.panels import ENOUGH, REFERENCE, Arena, ArenaPanel
from robustfl_bench.lab.arena.track import Track
from robustfl_bench.lab.arena.tuned import BOOKS
from robustfl_bench.lab.arena.views.targeted import targeted
from robustfl_bench.lab.arena.words import LOWEST, SERVER_DATA, listed, said
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.runner.config.names import readable

HEADING = ("your case", "use", "type", "keeps", "not tried")
ROWS = (
    ("clients have like data", "iid", False),
    ("mild label skew (Dirichlet), no data of your own", "mild_dirichlet", False),
    ("mild label skew (Dirichlet), and you own {samples}", "mild_dirichlet", True),
    ("strong label skew (pathological), no data of your own", "pathological", False),
    ("strong label skew (pathological), and you own {samples}", "pathological", True),
    ("many phones, few in a round", "natural", False),
    ("{clients} hospitals of unequal size", "quantity_skew", False),
)
"""The first cases of the table in words, each with its partition and whether the server has data."""

IMAGES = "fashion"
"""The track in which attackers with a goal met the rules."""

_TRIED = {"fashion_momentum": "momentum", "silos_dropout": "rounds in which some clients are absent"}
"""What a track has that ``not_tried`` says of the others."""

_LASTING = "robustfl-bench -m +experiment=backdoor_persistence"


def cases(arenas: Mapping[str, Arena]) -> Iterator[Facts]:
    """Every case that the first of the tracks that has it can answer: each partition with a number of attackers, with
    and without server data, in both rule books."""
    for book in BOOKS.values():
        answered = set[tuple[int, str]]()
        for name in TRACKS:
            with suppress(KeyError, ConfigError, NoRuns):  # no runs, or no such book
                arena = arenas[name] if book is Track else arenas[name].beside(name, book)
                for number, partition in [place for place in arena.panels if place not in answered]:
                    with suppress(ConfigError):  # too little was run to say anything
                        found = [recommend(arena, partition, str(number), reads) for reads in (False, True)]
                        plain = book is Track and name not in CONDITIONS
                        yield from [with_others(of, arenas) if plain else of.facts for of in found]
                        answered.add((number, partition))


def with_others(of: Recommendation, arenas: Mapping[str, Arena]) -> Facts:
    """The case with what its rule keeps elsewhere, which is the steadiest, or withstands attackers with a goal."""
    case = _withstanding(of, _steadiest(of, {name: arenas[name] for name in CONDITIONS if name in arenas}))
    found = [there for name in CONDITIONS if name in arenas and (there := elsewhere(case, name, arenas[name]))]
    data = [there["where"].removeprefix("on ") for there in found if CONDITIONS[there["arena"]].endswith("{data}")]
    tried = [_TRIED[there["arena"]] for there in found if there["arena"] in _TRIED]
    left = [listed([words, *data]) if words.startswith(OTHER_DATA) else words for words in case["not_tried"]]
    case = {**case, "elsewhere": found, "not_tried": [words for words in left if words not in tried]}
    is_best = not of.group or case["use"]["rule"] in (of.group[0].rule, ALONE)
    return case if is_best else {**case, "answer": said("cases.use", case=case, ALONE=ALONE).removesuffix(".")}


def _steadiest(of: Recommendation, others: Mapping[str, Arena]) -> Facts:
    """The case with the rule, or the server alone, whose least score here and in the same panel of the others is the
    highest, of those that met the strongest attack in all of them; ``steady`` says which one is the best here alone."""
    case, arena = of.facts, of.arena
    if case["use"] is None:
        return case
    there = {CONDITIONS[name].format(data=data_of(other)): panel for name, other in others.items()
             if (panel := searched_panel(case, other)) is not None}  # fmt: skip
    rules = [rule for rule in (*of.rules, ALONE)
             if all(_is_known(panel, rule) for panel in (of.panel, *there.values()))]  # fmt: skip
    least = {rule: min(panel.standings[rule].score.value for panel in (of.panel, *there.values())) for rule in rules}
    first = case["use"]["rule"]
    best = max(rules, key=least.__getitem__, default=first)
    if not there or best == first or first not in rules:
        return case
    where = min(there, key=lambda words: there[words].standings[first].score.value)
    steady = {"first": first, "score": case["use"]["score"], "least": round(least[first], 2), "where": where,
              "places": [f"on {data_of(arena)}", *there], "rules": len(rules) - (ALONE in rules)}  # fmt: skip
    return {**case, "use": of.use_of(of.panel.standings[best]), "steady": steady}


def _withstanding(of: Recommendation, case: Facts) -> Facts:
    """The case with the first rule of its group that withstands attackers with a goal in this panel, if the best one
    does not; ``goal`` says how far they get against the best one."""
    first = of.group[0].rule if of.group else None
    if case["use"] is None or case["use"]["rule"] != first or not of.arena.under(*GOALS):
        return case
    found = {rule.rule: rule for panel, rules in targeted(of.arena).items()
             if (panel.number, panel.partition) == (of.panel.number, of.panel.partition) for rule in rules}  # fmt: skip
    safe = next((standing for standing in of.group if standing.rule in found and found[standing.rule].withstands), None)
    if safe is None or first not in found or found[first].withstands:
        return case
    goal = {"first": first, "score": case["use"]["score"], "attack": found[first].worst,
            "success": round(found[first].success, 2)}  # fmt: skip
    return {**case, "use": of.use_of(safe), "goal": goal}


def searched_panel(case: Facts, arena: Arena) -> ArenaPanel | None:
    """The panel of the partition and the share of attackers of a case, where enough rules met those who search."""
    share = case["attackers"] / case["clients"]
    return next((panel for (number, partition), panel in arena.panels.items()
                 if (partition, number / arena.track.clients) == (case["partition"], share)
                 and len(panel.met) >= ENOUGH), None)  # fmt: skip


def _is_known(panel: ArenaPanel, rule: str) -> bool:
    """Whether a rule has a score in a panel, under all attacks and under the strongest one that searches."""
    return rule not in panel.unmet and rule in panel.scores([rule])


def elsewhere(case: Facts, track: str, arena: Arena) -> Facts | None:
    """What the rule to use keeps in another track, in the panel of the same partition and share of attackers; None
    where it was not run there under all attacks, or few rules met those who search."""
    if case["use"] is None:
        return None
    rule, panel = case["use"]["rule"], searched_panel(case, arena)
    if panel is None or not _is_known(panel, rule):
        return None
    standing = panel.standings[rule]
    bounds, alone = panel.interval(standing), panel.server.score.value if panel.server else math.nan
    return {
        "arena": track,
        "where": CONDITIONS[track].format(data=data_of(arena)),
        "attack": standing.attack,
        "own_samples": own_samples(arena),
        "better_alone": round(alone, 2) if alone > standing.score.value else None,
        "score": round(standing.score.value, 2),
        "interval": [round(bounds.low, 2), round(bounds.high, 2)] if bounds else None,
    }


def table(known: Sequence[Facts], arenas: Mapping[str, Arena]) -> str:
    """The table of README.md with its conditions, in Markdown."""
    rows, options = [], list[str]()
    for words, partition, reads in ROWS:
        of_case = [case for case in known if (case["book"], case["partition"], case["server_data"])
                   == ("plain", partition, reads)]  # fmt: skip
        if not of_case:
            rows.append([words.format(samples="samples", clients="some"), "not run", "", "", ""])
            continue
        case = min(of_case, key=lambda case: (case["use"] is None, case["attackers"]))
        place = words.format(samples=case["own_samples"].removeprefix("own "), clients=case["clients"])
        rows.append([f"{place}, {share_of(case)} attack", *_answer(case), ", ".join(case["not_tried"])])
        options += [case["use"]["option"]] if case["use"] else []
    for above, row in reversed([*pairwise(rows)]):
        row[2:] = ["the same" if cell and cell == above[at] else cell for at, cell in enumerate(row[2:], 2)]
    rows.append(_backdoor(arenas.get(IMAGES)))
    rules = ",".join(dict.fromkeys([*options, ALONE, "average"]))
    own = f"`robustfl-bench -m dataset=arrays dataset.path=FILE.csv aggregator={rules} attack=none,ipm,lie`"
    rows.append(["nothing of this fits", "compare rules on your own data", own, "", "all of it"])
    lines = [HEADING, ["---"] * len(HEADING), *rows]
    caption = (
        f"Keeps: the score under the worst known attack, {LOWEST}, with a 95% interval. Tied: the seeds do not tell "
        f"them apart. {conditions(arenas['silos']).words}. Phones, hospitals "
        "and the backdoor have data of their own: `robustfl-results arena devices|hospitals|fashion`."
    )
    return "\n".join([*(f"| {' | '.join(cells)} |" for cells in lines), "", caption, ""])


def _answer(case: Facts) -> tuple[str, str, str]:
    """What to use, the line to type and what it keeps."""
    use = case["use"]
    if use is None:
        return "too little was run to say", f"`{case['more']}`", ""
    others = [f"{other['score']:.0f} ({other['where'].removeprefix('on ')}{_less(other)})"
              for other in case.get("elsewhere", ())]  # fmt: skip
    there = f"; elsewhere {', '.join(others)}" * bool(others)
    first, *tied_with = case["group"]
    line = f"`{use['command']}`"
    steady = case.get("steady")
    falls = f", and {steady['least']:.0f} {steady['where']}" if steady else ""
    if use["rule"] == ALONE:
        best = f"the best of {case['compared']}, {linked(first['rule'])}, keeps {first['score']:.0f}{falls}"
        samples = case["own_samples"].removeprefix("own ")
        advice = f"train on your own {samples}" if case["server_data"] else f"label {samples} and train on them alone"
        return f"**{advice}**: {best}", line, scored(use) + there
    words = linked(use["rule"]) if use["is_safe"] else f"nothing is safe; the best is {linked(use['rule'])}"
    tied = f", tied with {len(tied_with)} more" * bool(tied_with)
    alone = case["server_alone"]
    doubt = f", not shown above your {case['own_samples']} alone ({alone['score']:.0f})" if use["doubt"] else ""
    if steady:
        tied = f": the highest least score of {steady['rules']} rules; {linked(steady['first'])} keeps "
        tied += f"{steady['score']:.0f}{falls}"
    if goal := case.get("goal"):
        tied += f"; under {linked(goal['first'])} ({goal['score']:.0f}) a backdoor succeeds in {goal['success']:.0f}%"
    return f"{words}{tied}{doubt}", line, f"{scored(use)} under {use['attack']}{there}"


def _less(other: Facts) -> str:
    """That the server's own samples keep more there, in words."""
    return "" if other["better_alone"] is None else f", where {other['own_samples']} keep {other['better_alone']:.0f}"


def _backdoor(arena: Arena | None) -> list[str]:
    """The rule that keeps attackers with a goal farthest from it, without server data if one withstands, in the first
    panel in which rules met them: the cells of its row."""
    words, line = "attackers plant a backdoor", f"`robustfl-bench aggregator={{}} {{}} attack={GOALS[0]}`"
    if arena is None or not arena.under(*GOALS):
        return [words, "not run", line.format("krum", f"+setting=arena/{IMAGES}"), "", "all of it"]
    panel, rules = next(iter(targeted(arena).items()))
    plain = max((of.success for of in rules if of.rule == REFERENCE), default=math.nan)
    rules = [of for of in rules if of.rule != ALONE]
    without = next(of for of in rules if SERVER_DATA not in arena.needs.of(of.rule))
    best = next((of for of in rules if of.withstands and (of is without or not without.withstands)), without)
    keeps = (f"{best.kept:.0f} on {data_of(arena)}; in {best.success:.0f}% of the "
             f"samples they reach their goal (plain mean: {plain:.0f}%)")  # fmt: skip
    use = linked(best.rule) if best.withstands else f"nothing is safe; the best is {linked(best.rule)}"
    if best is not without:
        samples = own_samples(arena).removeprefix("own ")
        use = (f"**label {samples}**, then {use}; without them nothing is safe, the best is {linked(without.rule)} "
               f"({without.success:.0f}%)")  # fmt: skip
    place = f"{words}, {readable(panel.partition)}, {arena.share(panel.number)} attack"
    where = f"+setting=arena/{IMAGES} partition={panel.partition} num_byzantine={panel.number}"
    return [place, use, line.format(best.rule, where), keeps, f"one that lasts: `{_LASTING}`"]


def linked(rule: str) -> str:
    """A rule as readers know it, with the way to its entry in the catalogue."""
    return f"[{readable(rule)}](conf/aggregator/{rule.partition(' ')[0]}.yaml)"
