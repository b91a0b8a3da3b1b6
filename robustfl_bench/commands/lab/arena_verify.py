"""``robustfl-bench arena verify FOLDER``: are the runs of an entry what its rule, or its attack, makes here?"""

import contextlib
import io
import random
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

from robustfl_bench.base import trusted
from robustfl_bench.base.children import temporary
from robustfl_bench.base.console import counted, say
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import scale_of
from robustfl_bench.commands.verb import Allow, Argument
from robustfl_bench.lab.arena.answers import entries
from robustfl_bench.lab.arena.track import tracks
from robustfl_bench.read.runs import archive, records
from robustfl_bench.read.runs.where import check_name
from robustfl_bench.runner.config import compose, options, targets
from robustfl_bench.runner.experiment.execute import execute
from robustfl_bench.runner.experiment.plan import Request

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
    sources = [records.code_of_line(each["code"])["parts"].get(group) for each in (run, now)]
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
    libraries = {name: number for name, number in records.versions(run["versions"]).items() if name != "robustfl-bench"}
    return [libraries if key == "versions" else run[key] for key in ORIGIN]


def _numbers(run: Run) -> dict[str, str]:
    """The numbers of a run as a file has them, by column."""
    last = run["last"] if isinstance(run["last"], dict) else {}
    return {key: records.written(value) for key, value in ({key: run[key] for key in COMPARED} | last).items()}
