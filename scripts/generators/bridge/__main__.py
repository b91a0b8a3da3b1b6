"""Proves that an edit of computing code changed no number, so that the runs of before still count.

    python -m scripts.generators.bridge NAME REVISION [--runs 180] [--seconds 3] [--rounds 10] [--seed 0]

REVISION is the code of before, as git names it. The code of after is that of this folder, which must be committed.

1. The functions that take part in all kept runs, and in random other ones, are listed with both codes. From that
   follows which functions of after stand for which of before.
2. A random sample of kept runs is made again with both codes. Every option that kept runs have is in it. Runs of at
   most ``--seconds`` are made whole, longer ones with ``--rounds`` rounds. Every other option has a small run of its
   own, and a sweep trains several runs together.
3. If all runs end with the same bytes of metrics, weights and model, and if every kept run that the code of before
   answers is answered by the code of after, the command writes ``results/bridges/NUMBER_NAME.csv`` and its
   sample. They replace a bridge of this name.

A bridge holds for the code at hand. After another edit of what takes part in runs it has to be made again.
"""

import argparse
import os
import pickle
import random
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from robustfl_bench.base.errors import ConfigError, DataError
from robustfl_bench.base.public import PACKAGE
from robustfl_bench.read.runs import archive
from robustfl_bench.read.runs.records import settings
from robustfl_bench.read.tables.sheets import csv_text
from robustfl_bench.runner.config import options
from robustfl_bench.runner.store import bridges, kept
from robustfl_bench.runner.store.folders import MEASURED
from robustfl_bench.runner.store.writing import write_atomically
from robustfl_bench.train.parts import GROUPS
from scripts.generators.bridge import sample, side
from scripts.generators.bridge.steps import NoBridge, steps

ROOT = PACKAGE.parent

RANDOM = 4000
"""Random configs beside those of kept runs. The last quarter of them is not used to find the steps, but to try them."""

TRIED = RANDOM // 4

_NAME = re.compile(r"robustfl_bench\.\w+\.[A-Z]\w*")


class Side:
    """The code of before or of after, which answers in a process of its own."""

    def __init__(self, package: Path, folder: Path) -> None:
        self._package, self._folder = package, folder

    def has(self, group: str, name: str) -> bool:
        """Whether this code has an option; no run of before can have named one that it has not."""
        return (self._package.parent / "conf" / group / f"{name}.yaml").is_file()

    def ask(self, task: str, given: Any) -> Any:
        """What a function of ``side.py`` returns for this code."""
        question, answer = self._folder / "given", self._folder / "answer"
        question.write_bytes(pickle.dumps(given))
        words = map(str, (side.__file__, self._package, task, question, answer))
        others = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment = others | {"OMP_NUM_THREADS": "1"}
        subprocess.run([sys.executable, "-P", *words], check=True, cwd=self._folder, env=environment)
        return pickle.loads(answer.read_bytes())


def main() -> None:
    """Prove and write a bridge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("revision", help="the code of before")
    parser.add_argument("--runs", type=int, default=180, help="kept runs of the sample, at least (%(default)s)")
    parser.add_argument("--datasets", default="digits", help="of these kept runs: NAME,NAME (%(default)s)")
    parser.add_argument("--protocols", help="of these kept runs, where the edit is of a protocol: NAME,NAME (all)")
    parser.add_argument("--seconds", type=float, default=3, help="the longest run that is made whole (%(default)s)")
    parser.add_argument("--rounds", type=int, default=10, help="of longer runs (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="chooses the sample (%(default)s)")
    try:
        with tempfile.TemporaryDirectory() as folder:
            _prove(parser.parse_args(), Path(folder))
    except (NoBridge, ConfigError, DataError) as error:
        sys.exit(f"bridge: nothing is written: {error}")


def _prove(asked: argparse.Namespace, folder: Path) -> None:
    path = bridges.file_of(bridges.FOLDER, asked.name)
    revisions = _revisions(asked.revision)
    before, after = Side(_extracted(revisions[0], folder / "before"), folder), Side(PACKAGE, folder)
    rows = archive.join([archive.kept(), archive.kept(arena=True)])
    found = _steps(before, after, texts_of(rows), random.Random(asked.seed))
    paths = [str(file) for file in kept.files()]
    answered: set[tuple[str, str]] = before.ask("answered", paths)
    rows = rows[
        rows["run_id"].isin({run_id for _, run_id in answered}) & rows["dataset"].isin(asked.datasets.split(","))
    ]
    if asked.protocols:
        rows = rows[rows["protocol"].isin(asked.protocols.split(","))]
    runs = sample.chosen(rows, asked.runs, asked.seconds, asked.rounds, asked.seed, before.has)
    ends = [code.ask("runs", ([list(run.overrides) for run in runs], str(folder / f"runs_{place}")))
            for place, code in enumerate((before, after))]  # fmt: skip
    lines = list(sample.lines(runs, ends[0], ends[1], revisions))
    said = [line[sample.COLUMNS.index("kept")] for line in lines]
    print(f"{len(lines)} of {len(runs)} runs could be made, all to the same bytes with both codes; not:")
    print(*(f"  {shlex.join(run.overrides)}: {end['status']}" for run, end in zip(runs, ends[1], strict=True)
            if end["status"] not in MEASURED), sep="\n")  # fmt: skip
    print(f"whole kept runs of such a processor and libraries: {said.count('equal')} with the kept accuracy, "
          f"{said.count('other')} with another")  # fmt: skip
    content = csv_text([sample.COLUMNS, *lines]).encode()
    path.parent.mkdir(exist_ok=True)
    write_atomically(bridges.sample_of(path), content)
    write_atomically(path, csv_text([bridges.COLUMNS, *bridges.rows(found, bridges.proof_of(content))]))
    if lost := answered - after.ask("answered", paths):
        path.unlink()
        bridges.sample_of(path).unlink()
        raise NoBridge(f"{len(lost)} of {len(answered)} lines of kept runs would not be answered, such as {min(lost)}")
    print(f"{path}: {len(answered)} lines of kept runs are answered, as before")


def _revisions(before: str) -> tuple[str, str]:
    """The revisions of before and of after. Raises NoBridge if this folder holds edits of the package."""
    if edits := _git("status", "--porcelain", "--", PACKAGE.name, "conf").split():
        raise NoBridge(f"commit first, as the sample names a revision; edited: {' '.join(edits[1::2])}")
    return _git("rev-parse", "--verify", f"{before}^{{commit}}").strip(), _git("rev-parse", "HEAD").strip()


def _extracted(revision: str, folder: Path) -> Path:
    """The package of a revision, with what it reads beside it."""
    folder.mkdir()
    wanted = (PACKAGE.name, "conf", bridges.FOLDER.relative_to(ROOT).as_posix())
    present = [name for name in wanted if _git("ls-tree", revision, "--", name)]
    archived = subprocess.run(["git", "-C", ROOT, "archive", revision, *present], stdout=subprocess.PIPE, check=True)
    subprocess.run(["tar", "-x", "-C", folder], input=archived.stdout, check=True)
    return folder / PACKAGE.name


def _git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoBridge(done.stderr.strip().splitlines()[-1])
    return done.stdout


def texts_of(rows: pd.DataFrame) -> list[dict[str, str]]:
    """The names in the configs of runs that tell which code takes part, by config group; each combination once."""
    named = [
        name for name in settings(rows) if "." in name and rows[name].astype(str).str.contains("robustfl_bench.").any()
    ]
    combinations = rows[[*named, "precision"]].drop_duplicates()
    texts: dict[tuple[str, ...], dict[str, str]] = {}
    for row in combinations.to_dict("records"):
        names: dict[str, set[str]] = {group: set() for group in (*GROUPS, "precision")}
        for setting, value in row.items():
            names[str(setting).partition(".")[0]].update(_NAME.findall(str(value)))
        names["precision"] = {str(row["precision"])} & {"medium"}
        text_of = {group: " ".join(sorted(own)) for group, own in names.items()}
        texts[tuple(text_of.values())] = text_of
    return list(texts.values())


def _steps(before: Side, after: Side, known: Sequence[Mapping[str, str]], rng: random.Random) -> bridges.Bridge:
    """The steps from the code of after to that of before, found with the configs of kept runs and with random ones."""
    choices = {group: {text_of[group] for text_of in known} for group in (*GROUPS, "precision")}
    for group in sample.COMPUTING:
        choices[group] |= {
            " ".join(_NAME.findall(str(options.option(group, name))))
            for name in options.names(group)
            if before.has(group, name)
        }
    drawn = [" ".join(rng.choice(sorted(of_group)) for of_group in choices.values()) for _ in range(RANDOM)]
    texts = [*(" ".join(text_of.values()) for text_of in known), *drawn]
    units_before, _ = before.ask("units", texts)
    units_after, in_wholes = after.ask("units", texts)
    wholes = {bridges.whole(name): places for name, places in in_wholes.items()}
    learnt = len(texts) - TRIED
    found = steps(*(_masks(places, learnt) for places in (units_before, units_after, wholes)))
    led = (bridges.crossed(found, _at(units_after, place), _at(wholes, place)) for place in range(len(texts)))
    wrong = [place for place, units in enumerate(led) if units != _at(units_before, place)]
    if missed := [texts[place] for place in wrong if place < learnt]:
        raise NoBridge(f"the steps do not lead to the code of before in {len(missed)} configs, such as {missed[0]}")
    gone, new = units_before.keys() - units_after.keys(), units_after.keys() - units_before.keys()
    print(
        f"{len(known)} configs of kept runs, {RANDOM} random ones: {len(gone)} functions are gone, {len(new)} are new"
    )
    print(
        f"{len(found)} steps; they are right in {TRIED - len(wrong)} of {TRIED} random configs that had no part in them"
    )
    return found


def _masks(places: Mapping[bytes, bytes], count: int) -> dict[bytes, int]:
    digits = bytes.maketrans(b"\0\1", b"01")
    return {unit: int(present[:count].translate(digits), 2) for unit, present in places.items() if any(present[:count])}


def _at(places: Mapping[bytes, bytes], place: int) -> frozenset[bytes]:
    return frozenset(unit for unit, present in places.items() if present[place])


if __name__ == "__main__":
    main()
