"""Entries: a folder for each rule or attack that somebody runs in a protocol, and a table that compares the rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.grouping import grouped
from robustfl_bench.base.late import pd
from robustfl_bench.lab.arena.panels import Arena, ArenaPanel, Standing
from robustfl_bench.lab.arena.track import HONEST, Track
from robustfl_bench.lab.arena.words import tabled
from robustfl_bench.read.runs import archive
from robustfl_bench.read.tables import sheets
from robustfl_bench.read.tables.sheets import Sheet
from robustfl_bench.runner.config import options
from robustfl_bench.runner.experiment.outside_code import OutsideCode
from robustfl_bench.runner.store.writing import Damaged, check_plain, write_atomically

RUNS, FACTS = "runs.csv", "entry.yaml"


@dataclass(frozen=True, eq=False)
class ArenaEntry:
    """A rule or an attack in a protocol: its name, its config group and its content there, the command that makes its
    runs, and these."""

    name: str
    protocol: str
    group: str
    content: Mapping[str, Any]
    command: str
    runs: pd.DataFrame

    def write(self, folder: Path, result: Sheet) -> None:
        """Write the folder of the entry: its content with the source, its runs and its ``result``. Raises ConfigError
        as ``check_folder`` does."""
        check_folder(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / RUNS).unlink(missing_ok=True)
        archive.write(self.runs, str(folder / RUNS))
        facts = {"name": self.name, "protocol": self.protocol, "command": self.command, self.group: dict(self.content)}
        write_atomically(folder / FACTS, options.written(facts))
        for origin in OutsideCode({self.group: self.content}).sources:
            name, source = ("cells.py", origin) if isinstance(origin, bytes) else (origin.name, origin.read_bytes())
            write_atomically(folder / name, source)
        made = [f"{title}: {'; '.join(sorted(set(self.runs[key].dropna().astype(str))))}"
                for title, key in (("versions", "versions"), ("processors", "processor"))]  # fmt: skip
        whole = replace(result, report=[*result.report, f"Made by: {self.command}", *made])
        write_atomically(folder / "README.md", sheets.FORMATS["markdown"]([whole]))


def check_folder(folder: Path) -> None:
    """Raise ConfigError if an entry cannot be written there: a link, or a folder that holds one, leads elsewhere."""
    try:
        if folder.is_symlink() or folder.exists():
            check_plain(folder)
    except (Damaged, OSError) as error:
        raise ConfigError(f"cannot write {folder}: {error}") from None


def result(entry: ArenaEntry, book: Callable[[str], Track] = Track) -> Sheet:
    """The result of a rule's entry in a rule book, see ``tuned.BOOKS``."""
    arena = Arena(entry.runs, entry.protocol, book)
    own = [(panel, panel.standings[rule]) for panel in arena.panels.values() for rule in panel.standings
           if rule not in (HONEST, "average") or rule == entry.name]  # fmt: skip
    score, panel, by = _lowest(own)
    records = [{"panel": panel, "of": of} for panel, of in own]
    return tabled("tables.entry", records, entry=entry, score=score, panel=panel, by=by)


def _lowest(own: Sequence[tuple[ArenaPanel, Standing]]) -> tuple[float, ArenaPanel, Standing]:
    """The lowest score that is known of a rule, and where. Raises ConfigError if none is."""
    known = [(of.score.value, panel, of) for panel, of in own if not math.isnan(of.score.value)]
    if not known:
        raise ConfigError("no score is known: an entry needs an attack besides none, and the honest clients' mean")
    return min(known, key=lambda each: each[0])


def load(folder: str, unsealed: bool = False) -> pd.DataFrame:
    """The runs of all entries in a folder, or of the one that it is, see ``archive.read``. Raises ConfigError if it has
    none."""
    files = sorted([*Path(folder).glob(RUNS), *Path(folder).glob(f"*/{RUNS}")])
    if not files:
        raise ConfigError(f"no entry in {folder}: robustfl-bench arena enter RULE --output {folder} writes one")
    return archive.join([archive.read(str(path), unsealed) for path in files])


def sheet(arena: Arena) -> Sheet:
    """All rules of an arena by the lowest score that is known of them, the highest first."""
    held = grouped((rule, (panel, standing)) for panel in arena.panels.values()
                   for rule, standing in panel.standings.items() if not math.isnan(standing.score.value))  # fmt: skip
    records = []
    for rule in sorted(held, key=lambda rule: (-_lowest(held[rule])[0], rule)):
        lowest, panel, by = _lowest(held[rule])
        mean = sum(of.score.value for _, of in held[rule]) / len(held[rule])
        records.append({"rule": rule, "lowest": lowest, "panel": panel, "by": by, "mean": mean,
                        "panels": len(held[rule]), "runs": sum(of.cells for _, of in held[rule])})  # fmt: skip
    return tabled("tables.entries", records, arena=arena)
