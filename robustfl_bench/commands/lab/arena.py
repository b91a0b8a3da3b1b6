"""``robustfl-bench arena``: ``enter RULE`` makes a rule's runs in a protocol, ``attack ATTACK`` an attack's, and says
what it adds to the list; both write the folder that one submits."""

from __future__ import annotations

import contextlib
import io
import math
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

from robustfl_bench.base import trusted
from robustfl_bench.base.children import temporary
from robustfl_bench.base.console import counted, say
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import scale_of
from robustfl_bench.base.grouping import grouped
from robustfl_bench.base.late import pd
from robustfl_bench.commands.making import Making, check_overrides, made_all, runs_of
from robustfl_bench.commands.verb import Allow, Argument, again, obeyed, parser_of
from robustfl_bench.lab.arena import additions
from robustfl_bench.lab.arena.answers import entries
from robustfl_bench.lab.arena.order import TOP, contenders
from robustfl_bench.lab.arena.panels import Arena, ArenaPanel
from robustfl_bench.lab.arena.track import NONE, Track, tracks
from robustfl_bench.lab.arena.tuned import BOOKS, TunedTrack
from robustfl_bench.lab.studies.inputs import median_length
from robustfl_bench.read.runs import archive, records
from robustfl_bench.read.runs.records import MEASURED
from robustfl_bench.read.runs.where import check_name
from robustfl_bench.read.tables import sheets
from robustfl_bench.runner.config import compose, options, targets
from robustfl_bench.runner.experiment.execute import execute
from robustfl_bench.runner.experiment.plan import Request
from robustfl_bench.runner.store import lines

Protocol = Annotated[str, Argument("the arena's track (%(default)s)", "TRACK")]
Partitions = Annotated[str | None, Argument("only these, such as iid,fang", "NAMES")]
Book = Annotated[
    str,
    Argument(
        "the rule book: plain, rules as they come at a rate chosen without attack, or tuned under attack in each panel "
        "(%(default)s)",
        choices=tuple(BOOKS),
    ),
]
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
    book: Book = "plain"
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
    book: Book = "plain"
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
    arena = Arena(archive.kept(arena=True), asked.protocol, BOOKS[asked.book])  # takes seconds
    chosen = {panel: _rules(panel, asked) for panel in _panels(arena, asked)}
    runs = {panel: _made_panel(arena, panel, rules, asked, name) for panel, rules in chosen.items()}
    found = [
        of
        for panel, table in runs.items()
        for of in additions.additions(panel, arena.runs_of(panel), name, _column(arena, panel, table))
    ]
    result = additions.sheet(arena, name, found)
    words = ["arena", "attack", asked.attack, *asked.overrides, "--protocol", asked.protocol, "--book", asked.book]
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
        f"num_byzantine={panel.number}", f"partition={panel.partition}",
        f"seed={asked.seeds or ','.join(arena.track.swept['seed'])}",
    ]  # fmt: skip
    own = grouped(((*arena.track.chosen(arena.table, rule, panel.partition, panel.number),), rule) for rule in rules)
    made = [_made([*words, f"aggregator={','.join(alike)}", *chosen], asked.making, f"{name}: {arena.titled(panel)}")
            for chosen, alike in own.items()]  # fmt: skip
    return archive.join(made)


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


ORIGIN = ("code", "data", "versions", "processor")
"""What must be the same for a run to have the same numbers to the bit; of this package the code, not its version."""
PASSING = (*ORIGIN, "run", "folder", "seconds", "commit", "command", "device", "num_threads", "experiment", "scale")
COMPARED = [name for name in records.FACTS if name not in (*PASSING, "last")]
"""The columns with a run's numbers. Its settings are those of its id."""
KINDS = {"aggregator": "rule", "attack": "attack"}
"""The config groups of what is entered, and what it is called."""

Run = Mapping[str, Any]
"""A row of a table of runs."""


def verify(
    folder: Annotated[Path, Argument("of an entry, with its entry.yaml and runs.csv", "FOLDER")],
    *,
    sample: Annotated[int, Argument("runs that are made again (%(default)s)", "N")] = 5,
    seed: Annotated[int, Argument("chooses them (%(default)s)")] = 0,
    tolerance: Annotated[
        float,
        Argument(
            "mean difference of the test accuracies of runs of other code, data, libraries or processors, whose "
            "rounding differs (%(default)s)",
            "SHARE",
        ),
    ] = 0.02,
    allow: Allow = (),
) -> int:
    """Make random runs of an entry again and compare their numbers to the bit.

    Exit code 1, with a line for each difference, if the entry does not stand.
    """
    entry = options.read(folder / entries.FACTS, absent=f"no entry in {folder}")
    group = next((group for group in KINDS if isinstance(entry, Mapping) and group in entry), None)
    if group is None or not {"name", "protocol"} <= set(entry):
        raise ConfigError(f"{folder / entries.FACTS} is no entry: it has no rule or attack, name and protocol")
    check_name(str(entry["protocol"]), tracks(), "protocol")
    for package in targets.packages_of({group: entry[group]}):
        trusted.check(package)
    if allow:  # last, so that a json.py there hides no other module
        sys.path.append(str(folder.resolve()))
    differences, apart, equal = list[str](), list[float](), 0
    for run, now in _pairs(folder, entry, group, sample, seed):
        fault, distance = _difference(run, now, KINDS[group], group)
        apart += [] if distance is None else [distance]
        differences += [f"{run['run']}: {fault}"] if fault else []
        equal += fault is None and distance is None
    if apart and (mean := fmean(apart)) > tolerance:
        differences.append(
            f"{counted(len(apart), 'run')} of another origin: accuracies differ by {mean:.3f} in the mean"
        )
    for line in differences:
        print(line)
    say(f"{counted(equal, 'run')} equal, {len(apart)} of another origin, {counted(len(differences), 'difference')}")
    return 1 if differences else 0


def _pairs(folder: Path, entry: Run, group: str, sample: int, seed: int) -> Iterator[tuple[Run, Run]]:
    """Random runs of what was entered, and each of them made again."""
    runs = archive.read(str(folder / entries.RUNS))
    own = runs[(runs[group] == entry["name"]) & (runs["validation_share"] == "null")].to_dict("records")
    if not own:
        raise ConfigError(f"{folder} has no runs of {entry['name']}")
    with temporary() as folder_of_runs:
        for number, run in enumerate(random.Random(seed).sample(own, min(max(1, sample), len(own)))):
            yield dict(run), _again(dict(run), entry, group, f"{folder_of_runs}/{number}")


def _again(run: Run, entry: Run, group: str, results_dir: str) -> Run:
    """A run of the entry's protocol made again, at its rate, with what was entered, as a file has it."""
    axes = ("partition", *KINDS, "num_byzantine", "num_byzantine_declared", "lr", "seed")
    words = [f"{key}={records.text(run[key])}" for key in axes if key != group]
    asked = [f"+experiment=arena/{entry['protocol']}", *words, "use_kept=false", f"results_dir={results_dir}"]
    content = entry[group]
    if group == "aggregator" and (scale := scale_of(targets.found_part(group, content["_target_"]))) is not None:
        content = content | {scale: run[f"{group}.{scale}"]}  # the tuned book chooses it in each panel
    with contextlib.redirect_stdout(io.StringIO()):
        execute(Request(compose.resolve(asked, parts={group: content}).config), note=lambda _: None)
    archive.write(records.load(results_dir), f"{results_dir}/again.csv")
    return {str(key): value for key, value in archive.read(f"{results_dir}/again.csv").to_dict("records")[0].items()}


def _difference(run: Run, now: Run, kind: str, group: str) -> tuple[str | None, float | None]:
    """Why a run of an entry is not what was made here, and how far apart both are if their origins differ."""
    if now["run_id"] != run["run_id"]:
        return f"the protocol makes another run, {now['run']}", None
    sources = [lines.code_of_line(each["code"])["parts"].get(group) for each in (run, now)]
    if sources[0] != sources[1]:
        return f"made by another source of the {kind} than that in the folder", None
    if _origin(run) != _origin(now):
        return None, abs(run["final_accuracy"] - now["final_accuracy"]) if run["state"] == now["state"] else 1.0
    was, found = _numbers(run), _numbers(now)
    unlike = [
        f"{key} {was.get(key)}, now {found.get(key)}" for key in {**was, **found} if was.get(key) != found.get(key)
    ]
    return "; ".join(unlike) or None, None


def _origin(run: Run) -> list[object]:
    libraries = {name: number for name, number in lines.versions(run["versions"]).items() if name != "robustfl-bench"}
    return [libraries if key == "versions" else run[key] for key in ORIGIN]


def _numbers(run: Run) -> dict[str, str]:
    """The numbers of a run as a file has them, by column."""
    last = run["last"] if isinstance(run["last"], dict) else {}
    return {key: records.written(value) for key, value in ({key: run[key] for key in COMPARED} | last).items()}


VERBS = (enter, attack, verify)
