"""The numbers that a table can show of a run: name, unit, and how each is computed. One of them is how well a rule's
suspicion of each client tells attackers from honest clients. With whether models have learned: single runs without
attackers, and runs that stand in for those of a paper."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.late import np, pd
from robustfl_bench.read.runs import records
from robustfl_bench.read.runs.records import Damaged, last_metrics, text
from robustfl_bench.read.runs.where import check_name
from robustfl_bench.runner.store.folders import LAST, OWN_METRICS
from robustfl_bench.train.metric import Metric
from robustfl_bench.train.metrics import METRICS

BYZANTINE = "byzantine_"
"""Begins the names of attackers in ``weights.csv``."""


def suspicion(folder: str | Path) -> pd.Series[float]:
    """The suspicion of every client that took part in a recorded round, by its name.

    It is the mean over the client's rounds of -n w, where w is its weight among the n clients of the round: -1 for a
    client that counts as in the mean of all, 0 for one that is always dropped, more for a negative weight. Raises
    Damaged where the run has no weights, and where it has no attackers or no honest clients.
    """
    weights = records.weights(folder).set_index("round")
    found = weights.mul(-weights.notna().sum(axis=1), axis=0).mean().dropna()
    attackers = found.index.str.startswith(BYZANTINE)
    if attackers.all() or not attackers.any():
        raise Damaged(f"no ROC without {'honest clients' if attackers.any() else 'attackers'}")
    return found


def suspicion_area(found: pd.Series[float]) -> float:
    """The area under the ROC curve of ``suspicion``: the share of pairs of an attacker and an honest client in which
    the attacker is the more suspicious one, ties counted by half (Mann and Whitney, 1947)."""
    from scipy.stats import mannwhitneyu

    attackers, honest = _two(found)
    return float(mannwhitneyu(attackers, honest, method="asymptotic").statistic) / (len(attackers) * len(honest))


def suspicion_curve(found: pd.Series[float], places: Sequence[float]) -> pd.Series[float]:
    """The ROC curve of ``suspicion``: the share of attackers found, true positives, when a share of ``places`` of the
    honest clients are taken for attackers, false positives. Between two thresholds the curve is straight."""
    attackers, honest = _two(found)
    thresholds = np.unique(found)[::-1]
    true, false = ([0.0, *(np.mean(side >= at) for at in thresholds)] for side in (attackers, honest))
    return pd.Series(np.interp(places, false, true), index=list(places))  # of a vertical step its top


def _two(found: pd.Series[float]) -> tuple[pd.Series[float], pd.Series[float]]:
    """The suspicion of attackers and of honest clients."""
    attackers = found.index.str.startswith(BYZANTINE)
    return found[attackers], found[~attackers]


_LAST = "last evaluated round"
_BOUNDS = {"%": (0.0, 100.0), "points": (0.0, 100.0), "fraction": (0.0, 1.0)}
"""The least and the largest number by unit."""
_LAST_K = f"mean of the last {LAST} evaluated rounds"


@dataclass(frozen=True)
class Value:
    """One number per run. ``better`` is 1 when higher is better, -1 when lower is, 0 when neither.

    The stored number times ``factor`` is in ``unit``, printed with ``digits`` decimals. An ``exact`` value follows from
    the settings and is the same for all seeds.
    """

    name: str
    title: str
    unit: str = ""
    factor: float = 1
    digits: int = 3
    better: int = 0
    exact: bool = False

    @property
    def heading(self) -> str:
        """The unit in brackets, or nothing."""
        return f"[{self.unit}]" if self.unit else ""

    @property
    def with_unit(self) -> str:
        """The title with the unit, as an axis says."""
        return f"{self.title} {self.heading}".strip()

    @property
    def worst(self) -> float:
        """The worst number that a run can have, which counts as that of a model that diverged: an accuracy of 0, an
        error of 1; infinite where there is no bound."""
        low, high = _BOUNDS.get(self.unit, (-math.inf, math.inf))
        return high if self.better < 0 else low

    def accuracy(self, number: float) -> float:
        """The accuracy, a fraction, that a number of an accuracy or of an error is; nan for other values."""
        if self.name in _ERRORS:
            return 1 - number
        return number / self.factor if self.name in ACCURACIES else math.nan

    def of_accuracy(self, accuracy: float) -> float:
        """The other way round: the number that an accuracy, a fraction, is."""
        if self.name in _ERRORS:
            return 1 - accuracy
        return accuracy * self.factor if self.name in ACCURACIES else math.nan

    @property
    def of_a_round(self) -> str:
        """What it is of any round, with its unit."""
        return " ".join(filter(None, (self.title.partition(", last ")[0], self.heading)))


_FROM_SUMMARY = {
    value.name: value
    for value in (
        Value("final_accuracy", "Test accuracy, last round", "%", 100, 1, better=1),
        Value("best_accuracy", "Test accuracy, best evaluated round (chosen on the test set)", "%", 100, 1, better=1),
        Value("last_accuracy", f"Test accuracy, {_LAST_K}", "%", 100, 1, better=1),
        Value("tuned_accuracy", "Test accuracy, round of the best validation accuracy", "%", 100, 1, better=1),
        Value("validation_accuracy", "Validation accuracy, best evaluated round", "%", 100, 1, better=1),
        Value("test_loss", "Test loss, last round", better=-1),
        Value("seconds", "Run time", "s", digits=1),
    )
}
_BY_VALIDATION = ("tuned_accuracy", "validation_accuracy")
_ERRORS = {  # and the accuracy that each is one minus
    "test_error": (Value("test_error", "Test error, last round", "fraction", better=-1), "final_accuracy"),
    "last_error": (Value("last_error", f"Test error, {_LAST_K}", "fraction", better=-1), "last_accuracy"),
}
_AREA = Value("roc_auc", "Area under the ROC curve of the weights, all rounds", better=1)
_DROPS = {
    name: Value(name, f"{words} against Average without attack, last round", "points", 100, 1, better=-1)
    for name, words in (("mrd", "Max recall drop"), ("mrd_absolute", "Max recall drop or gain"))
}


_ROUNDS_TO = re.compile(r"rounds_to_(\d+(?:\.\d+)?)")
"""The first evaluated round in which the test accuracy is so many percent."""


def _of_metric(metric: Metric, member: str = "") -> Value:
    """The value of a metric's column, or of a member of its family, in the last evaluated round."""
    heading = metric.heading.format(member)
    title = heading if metric.exact else f"{heading}, {_LAST}"
    name = metric.name.format(member)
    return Value(name, title, metric.unit, metric.factor, metric.digits, metric.better, metric.exact)


ACCURACIES = ("test_accuracy", "final_accuracy", "best_accuracy", "last_accuracy", "tuned_accuracy")
"""The values that are accuracies on the test set, in percent."""

_OF_RUNS = _FROM_SUMMARY | {name: value for name, (value, _) in _ERRORS.items()} | _DROPS | {_AREA.name: _AREA}
KNOWN = _OF_RUNS | {
    metric.name: _of_metric(metric) for metric in METRICS if metric.family is None and metric.name not in _OF_RUNS
}
"""The values by name, without columns of a ``metrics.csv`` that no metric of this package records."""
_MEANS = {"last_accuracy", "last_error"}
OF_ROUNDS = {"best_accuracy", *_MEANS}
"""The values that depend on the frequency of evaluation."""
_FAMILIES = (("final_accuracy", "best_accuracy", "last_accuracy", "tuned_accuracy"), ("test_error", "last_error"))


@dataclass(frozen=True)
class Measured:
    """A run's number in the value's unit (nan is a result: the model diverged), or why there is none.

    ``reference`` is the id of a missing run that the number needs.
    """

    number: float = math.nan
    reason: str = ""
    reference: str = ""


def describe(name: str, runs: pd.DataFrame) -> Value:
    """The value of this name: a known one, or any column of the runs' ``metrics.csv``. Raises ConfigError."""
    if name not in KNOWN and not _ROUNDS_TO.fullmatch(name):
        try:
            check_name(name, [*KNOWN, *_metrics_columns(runs)], "value")
        except ConfigError as error:
            if not any((Path(folder) / OWN_METRICS).is_file() for folder in runs["folder"]):
                raise
            raise ConfigError(f"{error} Metrics of yours are in {OWN_METRICS} of each run, for pandas") from None
    return of_column(name)


def of_column(name: str) -> Value:
    """The value of this name: a known one, or a column of a ``metrics.csv``."""
    if name in KNOWN:
        return KNOWN[name]
    if reached := _ROUNDS_TO.fullmatch(name):
        return Value(name, f"Rounds to a test accuracy of {reached[1]}%", digits=0, better=-1)
    families = (_of_metric(metric, member.group(1)) for metric in METRICS
                if metric.family is not None and (member := metric.family.fullmatch(name)))  # fmt: skip
    return next(families, Value(name, f"{name}, {_LAST}"))


def of_other_rounds(shown: Mapping[str, str], name: str) -> dict[str, str]:
    """The values ``shown`` for each metric of a table, with ``name`` in place of the same value of other rounds.

    Raises ConfigError where none of them is the same value.
    """
    family = next((names for names in _FAMILIES if name in names), ())
    changed = {metric: name for metric, value in shown.items() if value in family}
    if not changed:
        takes = [alternative for names in _FAMILIES if set(names) & set(shown.values()) for alternative in names]
        raise ConfigError(f"the table shows {', '.join(dict.fromkeys(shown.values()))}; "
                          f"--value takes {', '.join(takes) or 'nothing'} instead, got {name!r}")  # fmt: skip
    return {**shown, **changed}


def evaluated(names: Iterable[str], runs: pd.DataFrame) -> list[str]:
    """How often the ``runs`` were evaluated, where a mean over evaluated rounds is among the values."""
    if not _MEANS & set(names) or not len(runs):
        return []
    pairs = dict.fromkeys(zip(runs["eval_every"].map(text), runs["rounds"].map(text), strict=True))
    return [f"evaluated every {' or '.join(f'{every} of {rounds}' for every, rounds in pairs)} rounds"]


def measurable(runs: pd.DataFrame) -> pd.DataFrame:
    """The columns of runs that ``measure`` reads: rows of these few are chosen fifty times as fast."""
    names = {"folder", "state", "run_id", "reference_id", "recall", "last", *_FROM_SUMMARY}
    return runs[[name for name in runs.columns if name in names | {accuracy for _, accuracy in _ERRORS.values()}]]


def measure(value: Value, runs: pd.DataFrame, everything: pd.DataFrame) -> dict[str, Measured]:
    """The number of each of the finished ``runs``, by folder; MRD looks for its references in ``everything``."""
    if value.name in _FROM_SUMMARY:
        numbers = zip(runs["folder"], map(float, runs[value.name]), strict=True)
        lacking = Measured(reason="nothing was held out for validation: set validation_share")
        needs_validation = value.name in _BY_VALIDATION
        return {
            folder: lacking if needs_validation and math.isnan(number) else Measured(number * value.factor)
            for folder, number in numbers
        }
    if value.name in _ERRORS:
        accuracies = zip(runs["folder"], runs[_ERRORS[value.name][1]], strict=True)
        return {folder: Measured(1 - float(accuracy)) for folder, accuracy in accuracies}
    if value.name in _DROPS:
        return _max_recall_drops(value, runs, everything)
    if value.name == _AREA.name:
        return {folder: _area(folder) for folder in runs["folder"]}
    if reached := _ROUNDS_TO.fullmatch(value.name):
        return {folder: _first_round(folder, reached[1]) for folder in runs["folder"]}
    last_rounds = zip(runs["folder"], runs["last"], strict=True)
    return {folder: _from_metrics(value, folder, last) for folder, last in last_rounds}


def _first_round(folder: str, percent: str) -> Measured:
    try:
        accuracies = records.column(folder, "test_accuracy")
    except Damaged as error:
        return Measured(reason=str(error))
    if accuracies is None:
        return Measured(reason="the run has no test accuracy")
    there = accuracies.index[accuracies >= float(percent) / 100]
    return Measured(float(there[0])) if len(there) else Measured(reason=f"no evaluated round reached {percent}%")


def _area(folder: str) -> Measured:
    try:
        return Measured(suspicion_area(suspicion(folder)))
    except Damaged as error:
        return Measured(reason=str(error))


def _max_recall_drops(value: Value, runs: pd.DataFrame, everything: pd.DataFrame) -> dict[str, Measured]:
    from robustfl_bench.numerics.metrics import max_recall_drop

    finished = everything.loc[everything["state"] == "finished", ["run_id", "recall"]]
    references = dict(zip(finished["run_id"], finished["recall"], strict=True))
    diverged = set(everything.loc[everything["state"] == "diverged", "run_id"])
    measured = {}
    for run in runs[["folder", "reference_id", "recall"]].to_dict("records"):
        reference = references.get(run["reference_id"])
        if not isinstance(run["recall"], list):
            drop = Measured(reason="the run records no recall per class")
        elif isinstance(reference, list) and len(reference) == len(run["recall"]):
            is_absolute = value.name == "mrd_absolute"
            drop = Measured(value.factor * max_recall_drop(reference, run["recall"], is_absolute))
        elif run["reference_id"] in diverged:
            drop = Measured(reason="the reference run diverged")
        elif isinstance(run["reference_id"], str):
            drop = Measured(reason="no reference run yet", reference=run["reference_id"])
        else:
            drop = Measured(reason="no reference run is defined")
        measured[run["folder"]] = drop
    return measured


def _from_metrics(value: Value, folder: str, stored: object) -> Measured:
    try:
        last = stored if isinstance(stored, dict) else last_metrics(folder)
    except Damaged as error:
        return Measured(reason=str(error))
    if value.name not in last:
        return Measured(reason=f"metrics.csv has no {value.name}: it does not apply")
    return Measured(last[value.name] * value.factor)


def _metrics_columns(runs: pd.DataFrame) -> list[str]:
    columns: dict[str, None] = {}
    finished = runs[runs["state"] == "finished"]
    for folder, last in zip(finished["folder"], finished["last"], strict=True):
        try:
            columns |= dict.fromkeys(last if isinstance(last, dict) else last_metrics(folder))
        except Damaged:
            continue
    return list(columns)


SHARE = 0.05
"""An accuracy is at chance if it is below this share of the way from that of guessing, 1 / classes, to 1."""

UNLEARNED = "not learned (at chance without attack)"

LEARNED = 0.8
"""The share of the printed accuracy of Average without attack that runs must reach to stand in for a paper's."""

TOO_SMALL = "too small a scale to say"
"""What runs are that do not reach it: they count in no sum, and decide no claim."""

TEST_SAMPLES: Mapping[str, tuple[int, ...]] = {
    "Mnist": (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
    "FashionMnist": (1000,) * 10,
    "Cifar10": (1000,) * 10,
    "Cifar100": (100,) * 100,
    "AgNews": (1900,) * 4,
}
"""The test samples of each class, by the class of a data set."""


def has_learned(clean: float, printed: float | None) -> bool:
    """Whether runs may stand in for a paper's: the accuracy of their Average without attack, a fraction, reaches
    LEARNED of the ``printed`` one. Where none is printed it must reach LEARNED of 1, which is more than any printed one
    asks; nan, an unknown accuracy, reaches nothing."""
    return clean >= LEARNED * (1 if printed is None else printed)


def constant_accuracies(dataset: str) -> list[float]:
    """The accuracies, fractions, of models that answer one class for every test sample of a data set, by the name of
    its class; empty where the sizes of the classes are not known."""
    samples = TEST_SAMPLES.get(dataset, ())
    return [count / sum(samples) for count in samples]


def at_chance(accuracy: float, classes: float) -> bool:
    """Whether an accuracy, a fraction, is that of a model that has not learned to tell ``classes`` classes apart."""
    guessing = 1 / classes
    return accuracy < guessing + SHARE * (1 - guessing)


def unlearned(runs: pd.DataFrame) -> list[bool]:
    """For each of the ``runs`` of ``records.load``, whether it finished without attackers and its accuracy is at
    chance, even in its best evaluated round."""
    if "num_byzantine" not in runs:
        return [False] * len(runs)
    columns = (runs[name] for name in ("state", "num_byzantine", "recall", "best_accuracy"))
    return [state == "finished" and attackers == 0 and isinstance(recall, list) and at_chance(accuracy, len(recall))
            for state, attackers, recall, accuracy in zip(*columns, strict=True)]  # fmt: skip
