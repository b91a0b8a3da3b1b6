"""``robustfl-bench arena``; ``enter RULE`` makes a rule's runs in a protocol, and the folder that one submits."""

import math
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from robustfl_bench.base.console import Parser, add_jobs, say
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import scale_of
from robustfl_bench.commands import verb
from robustfl_bench.commands.lab.arena_attack import ATTACK
from robustfl_bench.commands.making import check_overrides, made_all, runs_of
from robustfl_bench.commands.verb import Verb, again
from robustfl_bench.lab.arena import entries
from robustfl_bench.lab.arena.track import NONE, Track, tracks
from robustfl_bench.lab.arena.tuned import BOOKS, TunedTrack
from robustfl_bench.lab.studies.inputs import median_length
from robustfl_bench.read.runs import archive
from robustfl_bench.read.runs.where import check_name
from robustfl_bench.runner.config import compose, options, targets

if TYPE_CHECKING:
    import pandas as pd


def main() -> int:
    """Console entry point; returns its exit code."""
    about = "Enter a rule into the arena, or try an attack against its list."
    parser = verb.parser_of("robustfl-bench arena", about, [ENTER, ATTACK])
    arguments = parser.parse_args(sys.argv[1:])
    return verb.obeyed(arguments.run, arguments)


def _add(parser: Parser) -> None:
    parser.add_argument("rule", metavar="RULE", help="an option, or my_module:MyRule")
    parser.add_argument("overrides", nargs="*", metavar="OVERRIDE", help="of the rule, such as aggregator.stretch=2")
    parser.add_argument("--protocol", default="silos", metavar="TRACK", help="the arena's track (%(default)s)")
    parser.add_argument(
        "--book", choices=BOOKS, default="plain",
        help="the rule book: plain, the rule as it comes at a rate chosen without attack, or tuned under attack in "
        "each panel (%(default)s)",
    )  # fmt: skip
    parser.add_argument("--partitions", metavar="NAMES", help="only these, such as iid,fang")
    parser.add_argument("--attackers", metavar="NUMBERS", help="only these numbers of attackers, such as 5")
    parser.add_argument("--attacks", metavar="NAMES", help="only these; none is always among them")
    parser.add_argument("--seeds", metavar="NUMBERS", help="only these, such as 0,1")
    parser.add_argument("--output", default="entries", metavar="FOLDER", help="the entries' folder (%(default)s)")
    parser.add_argument("--results-dir", default="results", metavar="FOLDER", help="of the runs (%(default)s)")
    add_jobs(parser)


def _enter(asked: Namespace) -> None:
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
        _made(average, asked, "average: its learning rates"),
        _made([f"{experiment}_honest", partitions, attackers, seeds], asked, "honest clients' mean"),
    ]
    if isinstance(track, TunedTrack):
        scale = scale_of(targets.found_part("aggregator", rule["_target_"]))
        trials = [
            _made([*words, *own, f"partition={partition}", attackers], asked, f"{name}: its trials, {partition}")
            for partition in chosen["partition"]
            for words in track.sweeps(scale, _length(track, partition, asked.results_dir) if scale else math.nan)
        ]
        tables += trials
        for (_, partition, number), choice in track.choices(archive.join(trials)).items():
            words = [experiment, *own, *choice.trial.words, f"partition={partition}", f"num_byzantine={number}"]
            tables.append(_made([*words, attacks, seeds], asked, f"{name}: its cells, {' '.join(words[-4:])}"))
    else:
        tables.append(_made([f"{experiment}_rates", *own, partitions], asked, f"{name}: its learning rates"))
        tables.append(_made([experiment, *own, partitions, *others], asked, f"{name}: its cells"))
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


def _made(words: Sequence[str], asked: Namespace, what: str) -> "pd.DataFrame":
    """The runs of a sweep, from their folders or as the package keeps them, after making what is missing."""
    words = [*words, f"results_dir={asked.results_dir}"]
    made_all(words, asked, what)
    return runs_of(words, asked.results_dir)


ENTER = Verb("enter", "run a rule in a protocol of the arena and write the folder of its entry", _add, _enter)
