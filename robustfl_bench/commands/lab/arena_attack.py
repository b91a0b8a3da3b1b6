"""``robustfl-bench arena attack ATTACK``: an attack's runs in a protocol of the arena, what it adds to the list, and
the folder that one submits."""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from robustfl_bench.base.console import Parser, add_jobs, say
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.commands.making import check_overrides, made_all, runs_of
from robustfl_bench.commands.verb import Verb, again
from robustfl_bench.lab.arena import additions, entries
from robustfl_bench.lab.arena.pairs import TOP, contenders
from robustfl_bench.lab.arena.panels import Arena, ArenaPanel
from robustfl_bench.lab.arena.track import Track, tracks
from robustfl_bench.read.runs import archive
from robustfl_bench.read.runs.records import MEASURED
from robustfl_bench.read.runs.where import check_name
from robustfl_bench.read.tables import sheets
from robustfl_bench.runner.config import compose, options

if TYPE_CHECKING:
    import pandas as pd

_NARROWING = ("partitions", "attackers", "rules", "seeds")


def _add(parser: Parser) -> None:
    parser.add_argument("attack", metavar="ATTACK", help="an option, or my_module:MyAttack")
    parser.add_argument("overrides", nargs="*", metavar="OVERRIDE", help="of the attack, such as attack.factor=2")
    parser.add_argument("--protocol", default="silos", metavar="TRACK", help="the arena's track (%(default)s)")
    parser.add_argument("--partitions", metavar="NAMES", help="only these, such as iid,fang")
    parser.add_argument("--attackers", metavar="NUMBERS", help="only these numbers of attackers, such as 5")
    parser.add_argument("--rules", metavar="NAMES", help=f"only these (the best {TOP} of each panel)")
    parser.add_argument("--seeds", metavar="NUMBERS", help="only these, such as 0,1 (those of all rules)")
    parser.add_argument("--output", default="entries", metavar="FOLDER", help="the entries' folder (%(default)s)")
    parser.add_argument("--results-dir", default="results", metavar="FOLDER", help="of the runs (%(default)s)")
    add_jobs(parser)
    parser.add_argument("--format", choices=sheets.FORMATS, default="text")


def _run(asked: Namespace) -> None:
    check_name(asked.protocol, tracks(), "protocol")
    check_overrides("attack", asked.overrides)
    name, experiment = options.label("attack", asked.attack), f"+experiment={Track(asked.protocol).experiment}"
    folder = Path(asked.output) / name
    entries.check_folder(folder)
    content = compose.shown([experiment, "lr=1", f"attack={asked.attack}", *asked.overrides])["attack"]
    arena = Arena(archive.kept(arena=True), asked.protocol)  # takes seconds
    chosen = {panel: _rules(panel, asked) for panel in _panels(arena, asked)}
    runs = {panel: _made(arena, panel, rules, asked, name) for panel, rules in chosen.items()}
    found = [
        of
        for panel, table in runs.items()
        for of in additions.additions(panel, arena.runs_of(panel), _column(arena, panel, table))
    ]
    result = additions.sheet(arena, name, found)
    words = ["arena", "attack", asked.attack, *asked.overrides, "--protocol", asked.protocol]
    command = again(words, asked, _NARROWING)
    entry = entries.ArenaEntry(name, asked.protocol, "attack", content, command, archive.join(list(runs.values())))
    entry.write(folder, result)
    say(f"wrote {folder}: submit it as it is")
    print(sheets.FORMATS[asked.format]([result]), end="")


def _panels(arena: Arena, asked: Namespace) -> Sequence[ArenaPanel]:
    """The panels that are asked for. Raises ConfigError for a word that names none, and if no panel has both."""
    partitions, numbers = _words(asked.partitions), _words(asked.attackers)
    for partition in partitions:
        check_name(partition, {panel.partition for panel in arena.panels.values()}, "partition")
    for number in numbers:
        check_name(number, {str(panel.number) for panel in arena.panels.values()}, "number of attackers")
    found = [panel for panel in arena.panels.values()
             if (not partitions or panel.partition in partitions)
             and (not numbers or str(panel.number) in numbers)]  # fmt: skip
    if not found:
        known = ", ".join(f"{panel.partition} with {panel.number}" for panel in arena.panels.values())
        raise ConfigError(f"no kept panel of {asked.protocol} is asked for; known: {known}")
    return found


def _words(asked: str | None) -> list[str]:
    return [word.strip() for word in asked.split(",")] if asked else []


def _rules(panel: ArenaPanel, asked: Namespace) -> Sequence[str]:
    """The rules of a panel that are asked for. Raises ConfigError for one that it lacks, and for a seed of none."""
    rules = _words(asked.rules) or contenders(panel)[:TOP]
    for rule in rules:
        check_name(rule, contenders(panel), "rule of the panel")
    for seed in _words(asked.seeds):
        check_name(seed, {known for rule in rules for known in panel.standings[rule].by_seed}, "seed of these rules")
    return rules


def _made(arena: Arena, panel: ArenaPanel, rules: Sequence[str], asked: Namespace, name: str) -> "pd.DataFrame":
    """The runs of the rules of a panel under the attack, after making what is missing."""
    words = [
        f"+experiment={arena.track.experiment}", f"attack={asked.attack}", *asked.overrides,
        f"num_byzantine={panel.number}", f"partition={panel.partition}", f"aggregator={','.join(rules)}",
        f"seed={asked.seeds or ','.join(arena.track.swept['seed'])}", f"results_dir={asked.results_dir}",
    ]  # fmt: skip
    made_all(words, asked, f"{name}: {arena.titled(panel)}")
    return runs_of(words, asked.results_dir)


def _column(arena: Arena, panel: ArenaPanel, runs: "pd.DataFrame") -> additions.Column:
    """The accuracies of the rules of a panel in some runs, the best rules first."""
    column: dict[str, dict[str, float]] = {}
    for row in runs[runs["state"].isin(MEASURED)].to_dict("records"):
        reached = 0.0 if row["state"] == "diverged" else 100 * float(row[arena.track.judged])
        column.setdefault(str(row["aggregator"]), {})[str(row["seed"])] = reached
    return {rule: column[rule] for rule in contenders(panel) if rule in column}


ATTACK = Verb("attack", "run an attack in a protocol of the arena and say what it adds to the list", _add, _run)
