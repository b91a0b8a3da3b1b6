"""Which kept runs were made with other code than today's, by file: an edit of what a round runs makes them so.

    python scripts/checks/outdated.py

A bridge keeps those whose numbers did not change (``python -m scripts.generators.bridge``), ``robustfl-bench remake``
makes the others again.
"""

import sys
from pathlib import Path

from robustfl_bench.read.runs import archive, origins
from robustfl_bench.runner.store import kept


def main() -> int:
    """Print the number of such runs in each file, and in all."""
    rows = total = 0
    for runs in (archive.kept(), archive.kept(arena=True)):
        is_old = origins.outdated(runs)
        rows, total = rows + len(runs), total + int(is_old.sum())
        files = runs.loc[is_old, "folder"].map(lambda folder: Path(folder).parent.relative_to(kept.FOLDER))
        for file, number in files.value_counts().sort_index().items():
            print(f"{number:6}  {file}")
    print(f"{total:6}  of {rows} kept runs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
