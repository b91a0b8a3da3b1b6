"""Runs as Parquet with Croissant 1.1 metadata and its responsible-AI fields, for a repository of data sets."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from robustfl_bench.base.errors import ConfigError, check_package
from robustfl_bench.base.late import pd
from robustfl_bench.read.runs import archive
from robustfl_bench.read.runs.records import NoRuns, mapped, written
from robustfl_bench.runner.store.writing import write_output

RUNS, METADATA = "runs.parquet", "croissant.json"
_CROISSANT = "http://mlcommons.org/croissant/"
_TERMS = (
    "citeAs", "column", "equivalentProperty", "extract", "field", "fileObject", "fileProperty", "fileSet", "format",
    "includes", "isLiveDataset", "jsonPath", "key", "md5", "parentField", "path", "recordSet", "references", "regex",
    "repeated", "replace", "samplingRate", "separator", "source", "subField", "transform",
)  # fmt: skip
_CONTEXT = {
    "@language": "en", "@vocab": "https://schema.org/", "sc": "https://schema.org/", "cr": _CROISSANT,
    "rai": f"{_CROISSANT}RAI/", "dct": "http://purl.org/dc/terms/", "conformsTo": "dct:conformsTo",
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"}, **{term: f"cr:{term}" for term in _TERMS},
    **{term: {"@id": f"cr:{term}", "@type": "@json"} for term in ("data", "examples")},
}  # fmt: skip
_RESPONSIBLE = {
    "rai:dataCollection": "Simulated federated trainings; a line for each run. The command robustfl-bench made them.",
    "rai:dataCollectionType": "Experiments",
    "rai:dataUseCases": "To compare aggregation rules under attacks, and to repeat runs by their configuration.",
    "rai:dataLimitations": "Small models, mostly on images of digits and clothes, and one to twenty seeds. What holds "
    "under these attacks need not hold under others. A diverged run has no accuracy.",
    "rai:dataBiases": "Rules and attacks of papers are over-represented; learning rates were chosen for the digits.",
    "rai:personalSensitiveInformation": "None: lines hold settings and numbers of runs on public data sets.",
    "rai:dataReleaseMaintenancePlan": "Runs are added by later versions; none is changed, and each names its code.",
}
_ABOUT = {
    "run": "name of the run", "run_id": "hash of its configuration", "state": "finished, diverged or infeasible",
    "final_accuracy": "test accuracy after the last round, a fraction", "best_accuracy": "the best of all rounds",
    "last_accuracy": "the mean of the last ten evaluated rounds", "recall": "test accuracy within each class",
    "code": "digest of the code that computed it", "data": "the data set and its digest", "seconds": "of the run",
}  # fmt: skip


def publish(runs: pd.DataFrame, folder: Path, url: str, citation: str) -> int:
    """Write the runs that have a result, and what a repository asks about them, into a folder; their number.

    ``citation`` is the text of CITATION.cff. Raises NoRuns, and ConfigError without pyarrow, for a ``url`` that is none
    and for a folder that cannot be written.
    """
    check_package("pyarrow", "parquet")
    if not url.startswith(("https://", "http://")):
        raise ConfigError(f"--url must be the address of the data set, such as https://..., got {url!r}")
    table = columns(runs[runs["state"].isin(archive.KEPT)].sort_values(["run", "run_id"], ignore_index=True))
    if not len(table):
        raise NoRuns("none of these runs is finished")
    content = io.BytesIO()
    table.to_parquet(content, engine="pyarrow", index=False)
    parquet = content.getvalue()
    write_output(folder / RUNS, parquet)
    about = metadata(table, parquet, url, yaml.safe_load(citation))
    write_output(folder / METADATA, json.dumps(about, indent=2) + "\n")
    return len(table)


def columns(runs: pd.DataFrame) -> pd.DataFrame:
    """Numbers as numbers, all else as a run's config writes it; no place on this machine."""
    from pandas.api.types import is_numeric_dtype

    kept = runs.drop(columns=["folder", "last", "command"], errors="ignore").assign(recall=runs["recall"].map(_text))
    words: dict[str, Any] = {
        str(name): mapped(column, _text) for name, column in kept.items() if not is_numeric_dtype(column)
    }
    return kept.assign(**words).dropna(axis="columns", how="all")


def _text(value: Any) -> str | None:
    if isinstance(value, list):
        return " ".join(map(str, value))
    return None if value is None or value != value else written(value)


def metadata(table: pd.DataFrame, parquet: bytes, url: str, citation: Mapping[str, Any]) -> dict[str, Any]:
    """The Croissant description, in JSON-LD."""
    authors = [{"@type": "sc:Organization", "name": author["name"]} for author in citation["authors"]]
    title, version, date = citation["title"], citation["version"], str(citation["date-released"])
    names = ", ".join(author["name"] for author in citation["authors"])
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": [f"{_CROISSANT}1.1", f"{_CROISSANT}RAI/1.0"],
        "name": "robustfl_bench_runs",
        "description": f"{len(table)} runs of Byzantine-robust federated learning: every aggregation rule under every "
        "attack, with all settings, accuracies, and digests of code and data.",
        "license": f"https://spdx.org/licenses/{citation['license']}.html",
        "url": url,
        "creator": authors,
        "datePublished": date,
        "version": str(version),
        "keywords": citation["keywords"],
        "citeAs": f"@misc{{robustfl_bench, title={{{title}}}, author={{{names}}}, version={{{version}}}, "
        f"year={{{date[:4]}}}}}",
        **_RESPONSIBLE,
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": RUNS,
                "name": RUNS,
                "contentUrl": RUNS,
                "contentSize": f"{len(parquet)} B",
                "encodingFormat": "application/x-parquet",
                "sha256": hashlib.sha256(parquet).hexdigest(),
            }
        ],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": "runs",
                "name": "runs",
                "description": "A line for each run.",
                "key": {"@id": "runs/run_id"},
                "field": [_field(str(name), table[name]) for name in table.columns],
            }
        ],
    }


def _field(name: str, column: pd.Series[Any]) -> dict[str, Any]:
    kinds = {"b": "sc:Boolean", "i": "sc:Integer", "f": "sc:Float"}
    return {
        "@type": "cr:Field",
        "@id": f"runs/{name}",
        "name": name,
        "description": _ABOUT.get(name, f"the setting or number {name}"),
        "dataType": kinds.get(column.dtype.kind, "sc:Text"),
        "source": {"fileObject": {"@id": RUNS}, "extract": {"column": name}},
    }
