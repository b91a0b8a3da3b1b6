"""``robustfl-bench arena``: ``enter RULE`` makes a rule's runs in a protocol, ``attack ATTACK`` an attack's, and says
what it adds to the list; both write the folder that one submits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated

from robustfl_bench.base.console import say
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import scale_of
from robustfl_bench.commands.lab.arena_verify import verify
from robustfl_bench.commands.making import Making, check_overrides, made_all, runs_of
from robustfl_bench.commands.verb import Argument, again, obeyed, parser_of
from robustfl_bench.lab.arena import additions
from robustfl_bench.lab.arena.answers import entries
from robustfl_bench.lab.arena.pairs import TOP, contenders
from robustfl_bench.lab.arena.panels import Arena, ArenaPanel
from robustfl_bench.lab.arena.track import NONE, Track, tracks
from robustfl_bench.lab.arena.tuned import BOOKS, TunedTrack
from robustfl_bench.lab.studies.inputs import median_length
from robustfl_bench.read.runs import archive
from robustfl_bench.read.runs.records import MEASURED
from robustfl_bench.read.runs.where import check_name
from robustfl_bench.read.tables import sheets
from robustfl_bench.runner.config import compose, options, targets

if TYPE_CHECKING:
    import pandas as pd

Protocol = Annotated[str, Argument("the arena's track (%(default)s)", "TRACK")]
Partitions = Annotated[str | None, Argument("only these, such as iid,fang", "NAMES")]
Attackers = Annotated[str | None, Argument("only these numbers of attackers, such as 5", "NUMBERS")]
Output = Annotated[str, Argument("the entries' folder (%(default)s)", "FOLDER")]


def main(argv: Sequence[str] | None = None) -> int:
    """Console entry point; returns its exit code."""
    about = "Enter a rule into the arena, try an attack against its list, or verify an entry."
    asked = parser_of("robustfl-bench arena", about, VERBS).parse_args(argv)
    return obeyed(asked.verb, asked)


@dataclass(frozen=True)
class EnteredRule:
    """A rule, and the part of a protocol in which it runs."""

    rule: Annotated[str, Argument("an option, or my_module:MyRule", "RULE")]
    overrides: Annotated[Sequence[str], Argument("of the rule, such as aggregator.stretch=2", "OVERRIDE")] = ()
    _: KW_ONLY
    protocol: Protocol = "silos"
    book: Annotated[
        str,
        Argument(
            "the rule book: plain, the rule as it comes at a rate chosen without attack, or tuned under attack in each "
            "panel (%(default)s)",
            choices=tuple(BOOKS),
        ),
    ] = "plain"
    partitions: Partitions = None
    attackers: Attackers = None
    attacks: Annotated[str | None, Argument("only these; none is always among them", "NAMES")] = None
    seeds: Annotated[str | None, Argument("only these, such as 0,1", "NUMBERS")] = None
    output: Output = "entries"
    making: Making


def enter(asked: EnteredRule) -> None:
    """Run a rule in a protocol of the arena and write the folder of its entry."""
    check_name(asked.protocol, tracks(), "protocol")
    check_overrides("aggregator", asked.overrides)
    track, name = BOOKS[asked.book](asked.protocol), options.label("aggregator", asked.rule)
    folder = Path(asked.output) / name
    entries.check_folder(folder)
    chosen = {key: _narrowed(track, key, getattr(asked, option)) for key, option in _NARROWED.items()}
    own = [f"aggregator={asked.rule}", *asked.overrides]
    partitions, *others = (f"{key}={','.join(values)}" for key, values in chosen.items())
    attackers, attacks, seeds = others
    experiment = f"+experiment={track.experiment}"
    rule = compose.shown([experiment, "lr=1", *own])["aggregator"]
    average = [f"{experiment}_rates", "aggregator=average", partitions]
    tables = [
        _made(average, asked.making, "average: its learning rates"),
        _made([f"{experiment}_honest", partitions, attackers, seeds], asked.making, "honest clients' mean"),
    ]
    if isinstance(track, TunedTrack):
        scale = scale_of(targets.found_part("aggregator", rule["_target_"]))
        trials = [
            _made([*words, *own, f"partition={partition}", attackers], asked.making, f"{name}: its trials, {partition}")
            for partition in chosen["partition"]
            for words in track.sweeps(scale, _length(track, partition, asked.making.results_dir) if scale else math.nan)
        ]
        tables += trials
        for (_, partition, number), choice in track.choices(archive.join(trials)).items():
            words = [experiment, *own, *choice.trial.words, f"partition={partition}", f"num_byzantine={number}"]
            tables.append(_made([*words, attacks, seeds], asked.making, f"{name}: its cells, {' '.join(words[-4:])}"))
    else:
        tables.append(_made([f"{experiment}_rates", *own, partitions], asked.making, f"{name}: its learning rates"))
        tables.append(_made([experiment, *own, partitions, *others], asked.making, f"{name}: its cells"))
    asks = ["arena", "enter", asked.rule, *asked.overrides, "--protocol", asked.protocol, "--book", asked.book]
    command = again(asks, asked, list(_NARROWED.values()))
    entry = entries.ArenaEntry(name, asked.protocol, "aggregator", rule, command, archive.join(tables))
    entry.write(folder, entries.result(entry, BOOKS[asked.book]))
    say(f"wrote {folder}: submit it as it is")
    print((folder / "README.md").read_text(encoding="utf-8"), end="")


def _length(track: TunedTrack, partition: str, results_dir: str) -> float:
    """The clean median length of an honest update in a partition, with two digits: the mean over the trials' seeds."""
    asked = [f"+experiment={track.experiment}", "aggregator=average", "attack=none", f"partition={partition}"]
    runs = [compose.resolve([*asked, f"seed={seed}", f"results_dir={results_dir}"]) for seed in track.seeds]
    return float(f"{fmean(median_length(run.config) for run in runs):.2g}")


_NARROWED = {"partition": "partitions", "num_byzantine": "attackers", "attack": "attacks", "seed": "seeds"}
"""The axes of a protocol that an option of the command narrows."""


def _narrowed(track: Track, key: str, asked: str | None) -> Sequence[str]:
    """The values of an axis of the protocol, or those among them that are asked for. Raises ConfigError."""
    known = track.swept[key]
    if asked is None:
        return known
    values = [value.strip() for value in asked.split(",")]
    if strange := [value for value in values if value not in known]:
        raise ConfigError(f"--{_NARROWED[key]}: {strange[0]!r} is not in {track.name}, which has {', '.join(known)}")
    if key != "attack":
        return values
    if not (others := [value for value in values if value != NONE]):
        raise ConfigError(f"--attacks needs one besides {NONE}, which is always among them")
    return [NONE, *others]


@dataclass(frozen=True)
class TriedAttack:
    """An attack, and the part of a protocol in which it runs."""

    attack: Annotated[str, Argument("an option, or my_module:MyAttack", "ATTACK")]
    overrides: Annotated[Sequence[str], Argument("of the attack, such as attack.factor=2", "OVERRIDE")] = ()
    _: KW_ONLY
    protocol: Protocol = "silos"
    partitions: Partitions = None
    attackers: Attackers = None
    rules: Annotated[str | None, Argument(f"only these (the best {TOP} of each panel)", "NAMES")] = None
    seeds: Annotated[str | None, Argument("only these, such as 0,1 (those of all rules)", "NUMBERS")] = None
    output: Output = "entries"
    making: Making
    format: Annotated[str, Argument(choices=tuple(sheets.FORMATS))] = "text"


def attack(asked: TriedAttack) -> None:
    """Run an attack in a protocol of the arena and say what it adds to the list."""
    check_name(asked.protocol, tracks(), "protocol")
    check_overrides("attack", asked.overrides)
    name, experiment = options.label("attack", asked.attack), f"+experiment={Track(asked.protocol).experiment}"
    folder = Path(asked.output) / name
    entries.check_folder(folder)
    content = compose.shown([experiment, "lr=1", f"attack={asked.attack}", *asked.overrides])["attack"]
    arena = Arena(archive.kept(arena=True), asked.protocol)  # takes seconds
    chosen = {panel: _rules(panel, asked) for panel in _panels(arena, asked)}
    runs = {panel: _made_panel(arena, panel, rules, asked, name) for panel, rules in chosen.items()}
    found = [
        of
        for panel, table in runs.items()
        for of in additions.additions(panel, arena.runs_of(panel), name, _column(arena, panel, table))
    ]
    result = additions.sheet(arena, name, found)
    words = ["arena", "attack", asked.attack, *asked.overrides, "--protocol", asked.protocol]
    command = again(words, asked, ("partitions", "attackers", "rules", "seeds"))
    entry = entries.ArenaEntry(name, asked.protocol, "attack", content, command, archive.join(list(runs.values())))
    entry.write(folder, result)
    say(f"wrote {folder}: submit it as it is")
    print(sheets.FORMATS[asked.format]([result]), end="")


def _panels(arena: Arena, asked: TriedAttack) -> Sequence[ArenaPanel]:
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


def _rules(panel: ArenaPanel, asked: TriedAttack) -> Sequence[str]:
    """The rules of a panel that are asked for. Raises ConfigError for one that it lacks, and for a seed of none."""
    rules = _words(asked.rules) or contenders(panel)[:TOP]
    for rule in rules:
        check_name(rule, contenders(panel), "rule of the panel")
    for seed in _words(asked.seeds):
        check_name(seed, {known for rule in rules for known in panel.standings[rule].by_seed}, "seed of these rules")
    return rules


def _made_panel(arena: Arena, panel: ArenaPanel, rules: Sequence[str], asked: TriedAttack, name: str) -> pd.DataFrame:
    """The runs of the rules of a panel under the attack, after making what is missing."""
    words = [
        f"+experiment={arena.track.experiment}", f"attack={asked.attack}", *asked.overrides,
        f"num_byzantine={panel.number}", f"partition={panel.partition}", f"aggregator={','.join(rules)}",
        f"seed={asked.seeds or ','.join(arena.track.swept['seed'])}",
    ]  # fmt: skip
    return _made(words, asked.making, f"{name}: {arena.titled(panel)}")


def _column(arena: Arena, panel: ArenaPanel, runs: pd.DataFrame) -> additions.Column:
    """The accuracies of the rules of a panel in some runs, the best rules first."""
    column: dict[str, dict[str, float]] = {}
    for row in runs[runs["state"].isin(MEASURED)].to_dict("records"):
        reached = 0.0 if row["state"] == "diverged" else 100 * float(row[arena.track.judged])
        column.setdefault(str(row["aggregator"]), {})[str(row["seed"])] = reached
    return {rule: column[rule] for rule in contenders(panel) if rule in column}


def _made(words: Sequence[str], making: Making, what: str) -> pd.DataFrame:
    """The runs of a sweep, from their folders or as the package keeps them, after making what is missing."""
    words = [*words, f"results_dir={making.results_dir}"]
    made_all(words, making, what)
    return runs_of(words, making.results_dir)


VERBS = (enter, attack, verify)
