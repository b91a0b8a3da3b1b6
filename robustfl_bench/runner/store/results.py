"""The result of a run as its rows have it, and what no run can have written, whatever seals say.

Seals show accidents: whoever forges a result seals it again. So the runner that answers with a result, and the tables
that show it, refuse one that contradicts itself.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any

from robustfl_bench.runner.config import identity, options
from robustfl_bench.runner.config.outside import label_of
from robustfl_bench.runner.store import folders, lines
from robustfl_bench.runner.store.folders import plain
from robustfl_bench.runner.store.writing import Damaged, read_text
from robustfl_bench.train.parts import GROUPS

CLUSTERED = ("distance", "distance_nearest", "cluster_recovery")  # columns of metrics.csv that are also in the summary
_SHARES = re.compile(r"(\w+_)?accuracy(_\w+)?|recall(_\w+)?|cluster_recovery|attack_success_rate")
_AT_LEAST_0 = re.compile(
    r"(\w+_)?(loss|clients|clusters|links)|(\w+_)?bits_\w+|rounds?(_done)?|lr|seconds|num_threads|distance\w*|skipped|"
    r"honest_dropped|byzantine_accepted|non_finite_updates|consensus_distance|epsilon|simulated_time|mean_staleness"
)


def score_name(record: Mapping[str, Any]) -> str:
    """The score of a run: accuracy; without classes, the distance from the true parameters, else the loss."""
    return next(key for key in ("test_accuracy", "distance", "test_loss") if key in record)


def validation_name(record: Mapping[str, Any]) -> str | None:
    """The validation score by which a round is chosen; None if nothing was held out for validation."""
    return next((key for key in ("validation_accuracy", "validation_loss") if key in record), None)


def _best(rows: Sequence[Mapping[str, float]], key: str) -> Mapping[str, float]:
    """The first row with the highest accuracy, or the least of anything else; nan is never the best."""
    sign = 1 if key.endswith("_accuracy") else -1
    return max(rows, key=lambda row: -math.inf if math.isnan(row[key]) else sign * row[key])


def of_rows(rows: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Scores of the last evaluated round, of the best one, of the last few (mean), and of the one that validation
    chooses."""
    last, score = rows[-1], score_name(rows[-1])
    best, validated = _best(rows, score), validation_name(last)
    clustered = [key for key in last if key in CLUSTERED or key.startswith("accuracy_cluster_")]
    final: dict[str, Any] = {key: last[key] for key in dict.fromkeys([score, "test_loss", *clustered])}
    if recall := [last[key] for key in last if key.startswith("recall_")]:
        final |= {"recall": recall}
    chosen: dict[str, Any] = {}
    if validated is not None:
        tuned = _best(rows, validated)
        chosen = {"tuned": {"round": int(tuned["round"]), score: tuned[score], validated: tuned[validated]}}
    averaged = [key for key in (score, validated) if key is not None]
    return {
        "final": {"round": int(last["round"])} | final,
        "best": {"round": int(best["round"]), score: best[score]},
        f"last_{folders.LAST}": {key: fmean(row[key] for row in rows[-folders.LAST :]) for key in averaged},
    } | chosen


def fault_of_folder(
    path: Path, summary: Mapping[str, Any], config: Mapping[str, Any], rows: Sequence[Mapping[str, float]] | None = None
) -> str | None:
    """Why a run with this config, that of its config.yaml, did not leave a folder with this name, summary and
    metrics.csv, in one line; None if it can have. ``rows`` are those of metrics.csv, if they have been read."""
    if (run_id := identity.stored_id(config)) != folders.id_of(path):
        return f"its config.yaml is that of run {run_id}"
    if fault := _of_choices(summary.get("choices"), config):
        return f"summary.json: {fault}"
    return _of_rows(path, summary, config, rows) if summary["status"] == folders.FINISHED else None


def _of_rows(
    path: Path, summary: Mapping[str, Any], config: Mapping[str, Any], rows: Sequence[Mapping[str, float]] | None
) -> str | None:
    """Why metrics.csv and summary.json cannot be those of one finished run; None if they can."""
    try:
        rows = _scored(read_text(path / "metrics.csv")) if rows is None else rows
        result = plain(of_rows(rows))
    except Damaged as error:
        return str(error)
    except (IndexError, KeyError, StopIteration, TypeError, ValueError) as error:
        return f"metrics.csv cannot be read: {error}"
    if rows[-1]["round"] != config.get("rounds"):
        return f"metrics.csv ends in round {rows[-1]['round']:g} of {config.get('rounds')}"
    if any(summary.get(name) != value for name, value in result.items()):
        return "summary.json does not say what metrics.csv says"
    columns = {name: [row[name] for row in rows if name in row] for name in rows[-1]}
    faults = (fault_of_number(name, value) for name, values in columns.items() for value in (min(values), max(values)))
    return next((f"metrics.csv: {fault}" for fault in faults if fault), None)


def _scored(table: str) -> list[dict[str, float]]:
    """The rows of a metrics.csv: of the last one all numbers, of the others the scores by which rounds are chosen."""
    header, *rows = table.splitlines()
    names = header.split(",")
    scores = {"round", score_name(dict.fromkeys(names)), validation_name(dict.fromkeys(names))}
    places = [(name, place) for place, name in enumerate(names) if name in scores]
    *others, last = (row.split(",") for row in rows)
    scored = [{name: float(row[place]) for name, place in places} for row in others]
    return [*scored, {name: float(value) for name, value in zip(names, last, strict=True)}]


def fault_of_number(name: str, value: float) -> str | None:
    """Why no run has this number in a column of metrics.csv or of a table of runs; None if one can."""
    if _SHARES.fullmatch(name):
        return None if 0 <= value <= 1 or math.isnan(value) else f"{name} must be in 0..1, got {value:g}"
    return f"{name} must be at least 0, got {value:g}" if value < 0 and _AT_LEAST_0.fullmatch(name) else None


def _of_choices(choices: object, config: Mapping[str, Any]) -> str | None:
    """The first group whose named option builds another part than the config."""
    for group, option in choices.items() if isinstance(choices, Mapping) else ():
        if group in GROUPS and (fault := _other_part(group, str(option), built(config.get(group)))):
            return fault
    return None


def built(content: Any) -> list[str]:
    """The classes that the content of a group builds, without those that settings put around them; one for each
    step."""
    if not isinstance(content, Mapping):
        return []
    target = str(content.get("_target_", identity.CHAIN))
    if target == identity.CHAIN:  # in a config of words, named steps
        steps = content.get("steps", list(content.values()))
        return [target for step in (steps if isinstance(steps, list) else ()) for target in built(step)]
    around = identity.AROUND.get(target)
    return [target] if around is None else built(content.get(around.within))


def _other_part(group: str, option: str, targets: Sequence[str]) -> str | None:
    """Why an option of ``conf/`` of this name does not build these classes; None if it does, or is none of ``conf/``.

    Without attackers, a run with any attack has none.
    """
    named = options.listed(option)
    if not targets or len(named) != len(targets) or targets == [_NO_ATTACK]:
        return None
    for name, target in zip(named, targets, strict=True):
        known = options.option(group, name).get("_target_") if options.exists(group, name) else None
        if known not in (None, target) and name != label_of(target):
            return f"{group}={name} is {known}, but its config builds {target}"
    return None


_NO_ATTACK = str(options.option("attack", "none")["_target_"])


def fault_of_lines(columns: Mapping[str, Sequence[str]]) -> str | None:
    """Why the lines of a table of runs, as text by column, cannot all be those of runs, in words about the first that
    cannot; None if they can."""
    for name, texts in columns.items():
        for text in set(texts):
            if fault := _of_text(name.removeprefix("last."), text):
                return f"the line of {columns['run'][list(texts).index(text)]}: {fault}"
    for run, final, best in zip(*(columns[name] for name in ("run", "final_accuracy", "best_accuracy")), strict=True):
        if final and best and float(best) < float(final):
            return f"the line of {run}: its best accuracy, {best}, is below its last one, {final}"
    for run, run_id, (config_id, fault) in zip(columns["run"], columns["run_id"], _identified(columns), strict=True):
        if fault or (config_id != run_id and run_id not in _ids_with_a_word(columns, run)):
            return f"the line of {run}: {fault or f'its settings are those of run {config_id}'}"
    return None


def _ids_with_a_word(columns: Mapping[str, Sequence[str]], run: str) -> Iterator[str]:
    """The ids of the settings of a line if one of those that look like numbers is a word, such as the name of a
    column."""
    place = list(columns["run"]).index(run)
    words = {lines.unguarded(name): texts[place] for name, texts in columns.items()}
    settings = [(name, word) for name, word in words.items() if lines.is_setting(name)]
    for name, word in settings:
        if "." in name and word[:1].isdecimal():
            *places, last = name.split(".")
            below = tree = lines.tree(settings)
            for key in places:
                below = below[key]
            below[last] = word
            yield identity.stored_id(tree)


def _of_text(name: str, text: str) -> str | None:
    if not text or not (name == "recall" or _SHARES.fullmatch(name) or _AT_LEAST_0.fullmatch(name)):
        return None
    try:
        return next(filter(None, (fault_of_number(name, float(part)) for part in text.split())), None)
    except ValueError:
        return f"{name} must be a number, got {text[:40]!r}"


def _identified(columns: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str | None]]:
    """Of every line the id of its settings, and what of them its named options contradict."""
    roots: dict[str, list[tuple[str, Sequence[str]]]] = {}
    for name, texts in columns.items():
        if lines.is_setting(name := lines.unguarded(name)):
            roots.setdefault(name.partition(".")[0], []).append((name, texts))
    parts = [_parts(root, roots[root], columns.get(root)) for root in sorted(roots)]
    for row in zip(*parts, strict=True):
        text = ", ".join(part for part, _ in row if part)
        yield identity.digest_of(f"{{{text}}}"), next((fault for _, fault in row if fault), None)


def _parts(
    root: str, settings: Sequence[tuple[str, Sequence[str]]], choices: Sequence[str] | None
) -> Iterator[tuple[str, str | None]]:
    """Of every line, ``_part`` below a root."""
    names, columns = tuple(name for name, _ in settings), [texts for _, texts in settings]
    if choices is None or root not in GROUPS:
        return (_part(root, names, row, None) for row in zip(*columns, strict=True))
    return (_part(root, names, row[:-1], row[-1]) for row in zip(*columns, choices, strict=True))


@lru_cache(10_000)
def _part(root: str, names: tuple[str, ...], row: tuple[str, ...], option: str | None) -> tuple[str, str | None]:
    """The settings below a root as the JSON of an identity has them, and what an option contradicts."""
    tree = lines.tree(zip(names, row, strict=True))
    part = json.dumps(identity.canonical(tree), sort_keys=True)[1:-1]
    return part, _other_part(root, option, built(tree.get(root))) if option is not None else None
