"""The arena as pages of the site: a board of all scores, a page for each rule and attack, the runs of each score."""

import html
import inspect
from collections.abc import Iterator
from functools import cache
from itertools import groupby

from robustfl_bench.doors.catalogue.entries import CatalogueEntry, entries
from robustfl_bench.doors.catalogue.measures import facts
from robustfl_bench.lab.arena.needs import RuleNeeds
from robustfl_bench.lab.arena.page import by_score, divided
from robustfl_bench.lab.arena.panels import Arena, ArenaPanel
from robustfl_bench.lab.arena.track import SERVER
from robustfl_bench.lab.arena.tuned import BOOKS
from robustfl_bench.lab.arena.words import HALF, SERVER_DATA, bounds, listed, number
from robustfl_bench.read.tables.sheets import csv_text
from robustfl_bench.runner.config import targets
from robustfl_bench.runner.config.names import readable
from robustfl_bench.runner.config.words import written
from scripts.generators.arena import shipped
from scripts.generators.catalogue import BAR, key_rows

TRACKS = {
    "silos": "version 3, silos", "silos_tuned": "version 3, rules tuned",
    "digits": "version 1, digits", "image": "version 1, images",
}  # fmt: skip
"""The tracks and rule books of the board, the first is shown first; their names."""
PLURALS = {"aggregator": "rules", "attack": "attacks"}
RUNS = ("rule", "partition", "attackers", "attack", "seed", "rate", "state", "accuracy", "run")
"""The columns of the files of runs."""

_INTRODUCTION = """---
hide: [navigation, toc]
---
# The board

Each number is the score of a rule in one case, the lowest known so far: its worst case over all attacks that were run
against it, where 0 is guessing and 100 what the honest clients alone reach. **Bold** numbers cannot be told from the
best of their division, with or without server data, and have as many seeds. The list begins with the rules
whose lowest number shown is highest. Rules that lack a case come after those that have all, with a question mark: an
empty case has no runs yet, and may be lower. Last are those that cannot run in a case, where attackers are too many
for them. The first line is no rule: a model of the server's own samples, which no attack reaches. A number opens the
runs behind it, a name the page of the rule; the headings sort. [The arena](../results/arena/README.md) explains the
protocol and what these numbers cannot say. The attacks are listed [below](#attacks).
"""


@cache
def arenas() -> dict[str, Arena]:
    """The tracks of the arena by the names of TRACKS, from the kept runs."""
    books = {name: name.partition("_") for name in TRACKS}
    return {name: shipped(track, BOOKS[book or "plain"]) for name, (track, _, book) in books.items()}


def place(group: str, name: str) -> str:
    """The page of a rule or an attack."""
    return f"arena/{PLURALS[group]}/{name}.md"


def pages() -> Iterator[tuple[str, str]]:
    """All pages and files of runs, each with its content."""
    yield from arena_pages()
    for group, in_arena in (("aggregator", standing), ("attack", attacked)):
        for entry in entries(group):
            yield place(group, entry.name), "\n".join([*described(entry), *in_arena(entry.name), *code(entry)])


def arena_pages() -> Iterator[tuple[str, str]]:
    """The board and the files of runs."""
    yield "arena/board.md", _board()
    for track, arena in arenas().items():
        for panel in arena.panels.values():
            yield from _runs(track, arena, panel)


# --- the board --------------------------------------------------------------------------------------------------------


def _known(rule: str) -> RuleNeeds:
    """What is known of the needs of a rule, by the first track that has runs of it."""
    tracks = arenas().values()
    return next(arena.needs for arena in tracks if any(rule in panel.standings for panel in arena.panels.values()))


def _board() -> str:
    digits = arenas()["digits"]
    columns = [(track, arena, panel) for track, arena in arenas().items() for panel in arena.panels.values()]
    in_order = [rule for arena in arenas().values() for rule in by_score(list(arena.panels.values()))]
    order = list(dict.fromkeys([SERVER, *in_order]))
    best = {(track, panel.number, panel.partition):
            {rule for _, _, top in divided(arena, panel) for rule in panel.comparable_best(top)}
            for track, arena, panel in columns}  # fmt: skip
    heads = [
        _head("rule", "text"),
        _head("needs", "text"),
        *(_head(of, "number") for of in ("cost", "lowest known")),
    ]
    for track, arena, panel in columns:
        share = arena.share(panel.number)
        heads.append(_head(f"{readable(panel.partition)} {share}", "number", track, share, panel.partition))
    rows = []
    for rule in order:
        known = _known(rule)
        needs, cost = known.of(rule), known.cost(rule)
        cells = [_score(track, arena, panel, rule, rule in best[track, panel.number, panel.partition])
                 for track, arena, panel in columns]  # fmt: skip
        weight = sum(known.operations(rule).values())
        rows.append(
            f'<tr{" class=reference" * (rule == SERVER)} data-needs="{html.escape("; ".join(needs))}" '
            f'data-server="{int(SERVER_DATA in needs)}">'
            f'<th scope="row" data-key="{rule}"><a href="rules/{rule}.html">{readable(rule)}</a></th>'
            f"<td>{', '.join(needs) or 'nothing'}</td>"
            f'<td data-value="{weight:g}">{cost}</td><td class="lowest"></td>{"".join(cells)}</tr>'
        )
    shares = [digits.share(of) for of in digits.settled]
    partitions = list(digits.track.swept["partition"])
    controls = [
        _select("track", "Track and rule book", {name: TRACKS[name] for name in arenas()}),
        _select("share", "Attackers", {"": "all", **{share: share for share in shares}}),
        _select("partition", "Partition", {"": "all", **{name: readable(name) for name in partitions}}),
        _select("division", "Division", {"": "all rules", "0": "without server data", "1": "that read server data"}),
        _select("needs", "Needs", {"": "anything", "f": "not the number of attackers, f", "nothing": "nothing"}),
        _select("cost", "Cost", {"": "any", "0": "linear", "1.5": "up to 1 Gram or sort", "3": "up to 3"}),
        '<label>Name <input type="search" id="board-name" autocomplete="off"></label>',
    ]
    attacks = {track: listed(f"[{readable(name)}](attacks/{name}.md)" for name in arena.track.swept["attack"][1:])
               for track, arena in arenas().items()}  # fmt: skip
    return "\n".join([
        _INTRODUCTION,
        f'<form id="board-controls" aria-label="Filters of the board">{"".join(controls)}</form>',
        '<p id="board-count" role="status"></p>',
        '<div id="board-frame" tabindex="0" role="region" aria-label="Scores of all rules">',
        f'<table id="board" class="board"><thead><tr>{"".join(heads)}</tr></thead>',
        "<tbody>", *rows, "</tbody></table></div>",
        '<script src="../assets/board.js"></script>', "",
        "## Attacks", "", *(f"- {TRACKS[name]}: each score is the least over {of}" for name, of in attacks.items()), "",
    ])  # fmt: skip


def _head(words: str, kind: str, track: str = "", share: str = "", partition: str = "") -> str:
    data = f' data-track="{track}" data-share="{share}" data-partition="{partition}"' if track else ""
    return f'<th scope="col" data-kind="{kind}"{data}><button type="button">{words}</button></th>'


def _select(name: str, label: str, choices: dict[str, str]) -> str:
    options = "".join(f'<option value="{value}">{words}</option>' for value, words in choices.items())
    return f'<label>{label} <select id="board-{name}">{options}</select></label>'


def _score(track: str, arena: Arena, panel: ArenaPanel, rule: str, best: bool) -> str:
    """The cell of a score; empty where the rule was not run."""
    if rule in panel.infeasible:
        return '<td class="cannot">cannot run</td>'
    of_rule = panel.standings.get(rule)
    if of_rule is None or not panel.is_whole(rule):
        return "<td></td>"
    value = of_rule.score.value
    about = f"{bounds(panel.interval(of_rule)).strip() or 'one seed'}, worst under {readable(of_rule.attack)}"
    words = f"<b>{value:.0f}</b>" if best else f"{value:.0f}"
    link = f"{_file(track, arena, panel, rule)}".removeprefix("arena/")
    return (
        f'<td class="score" data-value="{value:.2f}" style="--score:{min(value, 100):.0f}%">'
        f'<a href="{link}" title="{about}">{words}</a></td>'
    )


# --- the runs ---------------------------------------------------------------------------------------------------------


def _file(track: str, arena: Arena, panel: ArenaPanel, rule: str) -> str:
    """The file of the runs of a rule in a panel."""
    return f"arena/runs/{track}-{panel.partition}-{panel.number}/{rule}.csv"


def _runs(track: str, arena: Arena, panel: ArenaPanel) -> Iterator[tuple[str, str]]:
    """The runs of each rule in a panel, as CSV."""
    ids = arena.table["run_id"]
    for rule, runs in groupby(
        sorted(arena.runs_of(panel), key=lambda run: (run.rule, run.attack, run.seed)), lambda run: run.rule
    ):
        if rule in panel.standings:
            lines = [
                (run.rule, run.partition, run.num_byzantine, run.attack, run.seed, f"{run.lr:g}", run.state,
                 f"{run.accuracy:.6g}", ids.iloc[run.row])
                for run in runs
            ]  # fmt: skip
            yield _file(track, arena, panel, rule), csv_text([RUNS, *lines])


# --- rules and attacks ------------------------------------------------------------------------------------------------


def described(entry: CatalogueEntry) -> Iterator[str]:
    """What an option does, its source, needs and cost, and its keys."""
    about, place = facts(entry), f"[{readable(entry.same_as)}]({entry.same_as}.md)"
    yield f"# {entry.title}\n"
    if not entry.same_as:
        yield f"{entry.summary.replace('``', '`')}\n"
    elif entry.differs:
        changed = ", ".join(f"`{key}: {written(value)}`" for key, value in entry.differs.items())
        yield f"{place} with {changed}{f' ({entry.remark})' if entry.remark else ''}.\n"
    else:
        yield f"Another word for {place}, `{entry.same_as}`.\n"
    yield f"`robustfl-bench {entry.group}={entry.name}`\n"
    facts_of = {"source": entry.citation, "needs": ", ".join(about.needs) or "nothing", "does": ", ".join(about.does),
                "cost": about.cost}  # fmt: skip
    known = {name: fact.replace("|", BAR) for name, fact in facts_of.items() if fact}
    yield f"| {' | '.join(known)} |\n|{' --- |' * len(known)}\n| {' | '.join(known.values())} |\n"
    paragraphs = _paragraphs(entry.doc)
    begin = paragraphs[0].removesuffix(".") == entry.summary.replace("``", "`").removesuffix(".")
    if paragraphs[begin:]:
        yield "\n\n".join(["## What it computes", *paragraphs[begin:]]) + "\n"
    if rows := key_rows(entry):
        yield "## Keys\n\n| key | default | range | meaning |\n| --- | --- | --- | --- |"
        yield "\n".join(rows) + "\n"


def _paragraphs(doc: str) -> list[str]:
    return [part.replace("``", "`").replace("::\n", ":\n") for part in inspect.cleandoc(doc).split("\n\n")]


def code(entry: CatalogueEntry) -> Iterator[str]:
    """The YAML of an option, and the module of its class."""
    yield f"## YAML\n\n```yaml\n{entry.file.read_text(encoding='utf-8').strip()}\n```\n"
    if entry.target:
        module = inspect.getmodule(targets.found_part(entry.group, entry.target))
        assert module is not None
        file, text = module.__name__.replace(".", "/"), inspect.getsource(module).strip()
        yield f"## Code\n\n`{file}.py`\n\n```python\n{text}\n```\n"


def standing(rule: str) -> Iterator[str]:
    """How a rule stands in each panel, and when not to use it."""
    rows, weak = [], []
    for track, arena in arenas().items():
        for panel in arena.panels.values():
            of_rule = panel.standings.get(rule)
            if of_rule is None or not panel.is_whole(rule):
                continue
            broken = panel.fails(of_rule)
            file = f"../../{_file(track, arena, panel, rule)}"
            score = f"[{of_rule.score.value:.0f}{bounds(panel.interval(of_rule))}]({file})"
            cells = (TRACKS[track], readable(arena.titled(panel)), score, number(of_rule.worst),
                     _attack_link(of_rule.attack), number(of_rule.clean),
                     listed(map(_attack_link, broken), 6))  # fmt: skip
            rows.append(f"| {' | '.join(cells)} |")
            if of_rule.score.value < HALF:
                weak.append(f"{TRACKS[track]}, {readable(arena.titled(panel))}")
    if not rows:
        yield "## In the arena\n\nIt is not in [the arena](../board.md), or is there under another name.\n"
        return
    yield "## In the arena\n\n| track | case | score | worst case | under | no attack | fails against |"
    yield "| --- | --- | ---: | ---: | --- | ---: | --- |"
    yield "\n".join(rows)
    yield f"\nScore: see [the board](../board.md). Fails against: attacks under which the score is below {HALF:g}.\n"
    known = _known(rule)
    check = known.check(rule)
    dependences = [] if isinstance(check, str) else check.flags
    limits = [f"- Its score is below {HALF:g} in {len(weak)} of {len(rows)} cases: {'; '.join(weak)}."] if weak else []
    limits += [f"- It {flag}." if flag.startswith("depends") else f"- It is {flag}." for flag in dependences]
    needs = known.of(rule)
    limits += [f"- It cannot work without {need}." for need in needs if need == SERVER_DATA]
    limits += ["- It needs f, the number of attackers to expect; [a wrong f has a price]"
               "(../../results/arena/views.md)."] if "f" in needs else []  # fmt: skip
    if limits:
        yield "\n".join(["## When not to use it", "", *limits, ""])


def _attack_link(attack: str) -> str:
    return f"[{readable(attack)}](../attacks/{attack}.md)"


def attacked(attack: str) -> Iterator[str]:
    """Which rules an attack breaks in each panel, and for which it is the worst."""
    rows = []
    for track, arena in arenas().items():
        for panel in arena.panels.values():
            all_attacks = {of.rule: {**of.accuracies, **of.beyond} for of in panel.standings.values()}
            met = {rule: panel.scaled(of[attack]) for rule, of in all_attacks.items()
                   if attack in of and rule != SERVER}  # fmt: skip
            broken = [rule for rule, score in met.items() if score < HALF]
            worst = [rule for rule in met if panel.standings[rule].attack == attack]
            if met:
                cells = (TRACKS[track], readable(arena.titled(panel)), f"{len(broken)} of {len(met)}",
                         listed(map(_rule_link, worst), 8), listed(map(_rule_link, broken), 8))  # fmt: skip
                rows.append(f"| {' | '.join(cells)} |")
    if not rows:
        yield "## In the arena\n\nIt is not one of the attacks of [the arena](../board.md).\n"
        return
    yield "## In the arena\n\n| track | case | rules that fail | it is the worst for | fail |"
    yield "| --- | --- | ---: | --- | --- |"
    yield "\n".join(rows)
    yield f"\nA rule fails if its score under this attack is below {HALF:g}; see [the board](../board.md).\n"


def _rule_link(rule: str) -> str:
    return f"[{readable(rule)}](../rules/{rule}.md)"
