"""Write results/index.sha256, which seals the kept runs, the points of figures and the other measurements.

    python scripts/generators/index.py               # adds the files that are new
    python scripts/generators/index.py FILE ...      # also files that were measured again, or removed

A file of kept runs is never written again: ``robustfl-results export --summary FILE`` and ``robustfl-bench remake
FILE`` add a part to it and put that into the index.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from robustfl_bench.read.runs import archive
from robustfl_bench.runner.store import evidence, kept
from robustfl_bench.runner.store.writing import Damaged, read_regular

KINDS = (".csv", ".csv.gz", ".txt")


def measurements() -> set[Path]:
    """The files of measurements in results/ that git does not ignore."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=kept.FOLDER, check=True, capture_output=True, text=True).stdout.splitlines()
    return {kept.FOLDER / name for name in names if name.endswith(KINDS) and (kept.FOLDER / name).exists()}


def problems(index: evidence.EvidenceIndex, again: set[Path]) -> Iterator[str]:
    """What keeps the index from being written: files that changed or are gone, unless they were measured ``again``."""
    for path in (kept.FOLDER / name for name in index.digests):
        if not path.exists() and path not in again:
            yield f"{path} is gone: restore it, or name it"
        elif path.exists():
            content = read_regular(path)
            try:
                index.seals(path, content)
            except Damaged as error:
                if path in again and index.name_of(path) in index.runs:
                    yield f"{path} holds kept runs, which are never written again: git checkout, then add a part"
                elif path not in again:
                    yield f"{error}, or name it"


def main() -> int:
    """Check what is in the index, and add to it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="measured again, or removed")
    again = {path.resolve() for path in parser.parse_args().files}
    with evidence.lock(kept.FOLDER):
        index = evidence.index_of(kept.FOLDER)
        if found := list(problems(index, again)):
            print(*found, sep="\n", file=sys.stderr)
            return 1
        new = {path for path in measurements() if path in again or not index.lists(path)}
        for path in new.intersection(kept.files()):
            archive.read(str(path), unsealed=True)  # whether each line fits its seal
        evidence.add(kept.FOLDER, new, {path for path in again if not path.exists()})
    print(f"{kept.FOLDER / evidence.INDEX}: {len(index.digests)} files before, {len(new)} new or measured again")
    return 0


if __name__ == "__main__":
    sys.exit(main())
