"""The runs that a verb of ``robustfl-results`` reads, and the formats of its sheets; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from robustfl_bench.commands.verb import Argument
from robustfl_bench.read.runs import archive, records
from robustfl_bench.read.tables import sheets

if TYPE_CHECKING:
    import pandas as pd

RESULTS = "results"
"""The usual results folder."""

SheetFormat = Annotated[str, Argument(choices=tuple(sheets.FORMATS))]
ResultsFolder = Annotated[str | None, Argument(f"the results folder, which contains runs/ ({RESULTS})", "DIR")]


@dataclass(frozen=True, kw_only=True)
class RunSource:
    """The runs that a verb reads."""

    archives: Annotated[
        Sequence[str],
        Argument(
            "read runs from a file of export --summary, repeatable; --results-dir adds the runs of a folder",
            "FILE.csv",
            flags=("--from",),
        ),
    ] = ()
    unsealed: Annotated[
        bool, Argument("read also files without seals, or with older ones that leave the names of columns open")
    ] = False
    results_dir: ResultsFolder = None

    @property
    def folder(self) -> str:
        """The results folder."""
        return self.results_dir or RESULTS

    def load(self) -> pd.DataFrame:
        """The runs of the named folder and files, by default those of the usual folder."""
        kept = [archive.read(path, self.unsealed) for path in self.archives]
        if kept and self.results_dir is None:
            return archive.join(kept)
        folder = records.load(self.folder)
        return archive.join([folder, *kept]) if kept else folder

    def load_any(self, of_arena: bool = False, folders: Collection[str] = ()) -> pd.DataFrame:
        """As ``load``; by default the runs of the usual folder, if there is one, and the runs that come with the
        package: those of papers, or those of the arena; see ``archive.with_kept``.
        """
        if self.results_dir is not None or self.archives:
            return self.load()
        return archive.with_kept(RESULTS, of_arena, folders)
