"""Are the runs of an entry of the arena what their command makes here?

    python scripts/checks/check_entry.py FOLDER [--cells 20] [--seed 0] [--tolerance 0.02]

The folder is that of ``robustfl-bench arena enter`` or ``arena attack``. Random cells of it are run again with the
source of the rule, or of the attack, from the folder. A cell of the same code, data, libraries and kind of processor
must be equal. For another cell the numerical errors of the protocol are allowed: test accuracies may differ by
``--tolerance`` in the mean over the cells, as single cells can be far apart (an initial model moved by one unit in the
last place changes a quarter of the cells). Exit code 1, with a line for each difference, if the entry does not stand.
"""

import argparse
import contextlib
import io
import random
import sys
import tempfile
from pathlib import Path
from statistics import fmean
from typing import Any

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import scale_of
from robustfl_bench.lab.arena import entries
from robustfl_bench.read.runs import archive, records
from robustfl_bench.runner.config import compose, options, targets
from robustfl_bench.runner.experiment.execute import execute

COMPARED = ("state", "final_accuracy", "last_accuracy", "best_accuracy", "test_loss")
GROUPS = {"aggregator": "rule", "attack": "attack"}
"""The config groups of what is entered, and what it is called."""


def cell(run: dict[str, Any], entry: dict[str, Any]) -> list[str]:
    """The overrides that make a cell of the protocol again, at its rate, but for what was entered."""
    axes = ("partition", *GROUPS, "num_byzantine", "num_byzantine_declared", "lr", "seed")
    words = [f"{key}={records.text(run[key])}" for key in axes if key not in entry]
    return [f"+experiment=arena/{entry['protocol']}", *words, "use_kept=false"]


def group_of(entry: dict[str, Any]) -> str:
    """The config group of what was entered."""
    return next(group for group in GROUPS if group in entry)


def chosen(folder: Path, entry: dict[str, Any], count: int, seed: int) -> list[dict[str, Any]]:
    """Random cells of the entry's own rule or attack."""
    runs = archive.read(str(folder / entries.RUNS))
    own = runs[(runs[group_of(entry)] == entry["name"]) & (runs["validation_share"] == "null")].to_dict("records")
    return random.Random(seed).sample(own, min(count, len(own)))


def tuned(run: dict[str, Any], rule: dict[str, Any]) -> dict[str, Any]:
    """The scale of a rule that has one, as the run has it: the tuned book chooses it in each panel."""
    scale = scale_of(targets.found_part("aggregator", rule["_target_"]))
    return {scale: run[f"aggregator.{scale}"]} if scale is not None else {}


def again(run: dict[str, Any], entry: dict[str, Any], results_dir: str) -> dict[str, Any]:
    """The result of a cell that is run again, as a table of runs has it."""
    group = group_of(entry)
    content = entry[group] | tuned(run, entry[group]) if group == "aggregator" else entry[group]
    resolved = compose.resolve([*cell(run, entry), f"results_dir={results_dir}"], parts={group: content})
    with contextlib.redirect_stdout(io.StringIO()):
        execute(resolved.config, note=lambda _: None)
    runs = records.load(results_dir)
    return dict(runs[runs["run_id"] == resolved.run_id].to_dict("records")[0])


def is_same_origin(run: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether code, data, libraries and the kind of processor are those of the entry."""
    return all(run[key] == now[key] for key in ("code", "data", "versions", "processor"))


def source_of(run: dict[str, Any], group: str) -> Any:
    """The digest of the source of a part from outside that made a run."""
    return records.code_of_line(run["code"])["parts"].get(group)


def main() -> int:
    """Run the cells again; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cells", type=int, default=20, help="cells to run again (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="chooses the cells (%(default)s)")
    parser.add_argument("--tolerance", type=float, default=0.02, help="mean difference of accuracy (%(default)s)")
    asked = parser.parse_args()
    entry = options.read(asked.folder / entries.FACTS, absent=f"no entry in {asked.folder}")
    sys.path.insert(0, str(asked.folder.resolve()))
    differences, apart, equal, group = [], [], 0, group_of(entry)
    with tempfile.TemporaryDirectory() as results_dir:
        for run in chosen(asked.folder, entry, asked.cells, asked.seed):
            now = again(run, entry, results_dir)
            if now["run_id"] != run["run_id"]:
                differences.append(f"{run['run']}: the protocol makes another run, {now['run']}")
                continue
            if source_of(run, group) != source_of(now, group):
                differences.append(
                    f"{run['run']}: made by another source of the {GROUPS[group]} than that in the folder"
                )
                continue
            pairs = {key: (records.text(run[key]), records.text(now[key])) for key in COMPARED}
            unlike = [f"{key} {was}, now {found}" for key, (was, found) in pairs.items() if was != found]
            equal += not unlike
            if unlike and is_same_origin(run, now):
                differences.append(f"{run['run']}: {'; '.join(unlike)}")
            elif not is_same_origin(run, now):
                apart.append(
                    abs(run["final_accuracy"] - now["final_accuracy"]) if run["state"] == now["state"] else 1.0
                )
    if apart and (mean := fmean(apart)) > asked.tolerance:
        differences.append(f"{len(apart)} cells of another origin: accuracies differ by {mean:.3f} in the mean")
    for line in differences:
        print(line)
    print(f"{equal} cells equal, {len(apart)} of another origin, {len(differences)} differences", file=sys.stderr)
    return 1 if differences else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ConfigError as error:
        sys.exit(f"check_entry.py: {error}")
