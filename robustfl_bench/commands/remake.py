"""``robustfl-bench remake FILE.csv``: kept runs of older code are made again with today's."""

import shlex
import sys
from argparse import Namespace
from collections.abc import Sequence

from robustfl_bench.base.console import Parser, add_jobs, counted, say
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.commands.making import made_cells
from robustfl_bench.commands.verb import add_allow, obeyed
from robustfl_bench.read.runs import archive, asking, origins, records
from robustfl_bench.read.runs.where import where
from robustfl_bench.runner.store.folders import INFEASIBLE, MEASURED
from robustfl_bench.runner.sweeps.cells import Sweep


def main() -> int:
    """Console entry point; returns its exit code."""
    parser = Parser(
        prog="robustfl-bench remake",
        description="Make the runs of a file of robustfl-results export --summary again that other code than today's "
        "made. The new lines take the place of the old ones, in a part beside a file that is kept in results/. Ctrl-C "
        "keeps what is finished; the same command goes on.",
    )
    parser.add_argument("file", metavar="FILE.csv", help="such as results/boba/quick.csv; may end in .gz")
    parser.add_argument("--where", action="append", default=[], metavar="KEY=VALUE",
                        help="only these runs, repeatable: dataset=mnist, attack=none,ipm")  # fmt: skip
    add_allow(parser)
    parser.add_argument("--dry-run", action="store_true", help="print their commands; make nothing")
    parser.add_argument("--results-dir", default="results", metavar="FOLDER", help="of the runs (%(default)s)")
    add_jobs(parser)
    return obeyed(_remake, parser.parse_args(sys.argv[1:]))


def _remake(asked: Namespace) -> int:
    kept = archive.read(asked.file)
    asked_for = where(kept, asked.where)
    old = asked_for[origins.outdated(asked_for)].to_dict("records")
    asked_words, lost = list[Sequence[str]](), list[str]()
    for run in old:
        try:
            asked_words.append(asking.words(run))
        except ConfigError as error:
            lost.append(f"{run['run']}: {error}")
    if lost:
        say(f"{len(lost)} of {len(old)} cannot be asked for with today's options, such as {lost[0]}")
    seconds = sum(float(run["seconds"]) for run in old)
    say(f"{asked.file}: {len(old)} of {len(asked_for)} runs by other code than today's; they took {seconds:.0f} s")
    if asked.dry_run:
        for own in asked_words:
            print(shlex.join(["robustfl-bench", *own]))
        return 1 if lost else 0
    if not asked_words:
        return 1 if lost else 0
    cells = tuple((*own, f"results_dir={asked.results_dir}") for own in asked_words)
    try:
        made_cells(cells, asked, asked.file, (*MEASURED, INFEASIBLE))
    finally:
        folders = [cell.folder().path for cell in Sweep(cells, results_dir=asked.results_dir).listed]
        done = [folder for folder in folders if (folder / "summary.json").exists()]
        if done:
            new = records.of_folders(done)
            new = new[new["state"].isin(archive.KEPT) & ~origins.outdated(new)]
            if len(new):
                archive.put(new, asked.file)
            say(f"{asked.file}: {counted(len(new), 'run')} of today's code now")
    return 1 if lost else 0
