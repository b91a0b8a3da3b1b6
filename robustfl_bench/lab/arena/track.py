"""The runs of a track of the arena, by rule, partition, attack and seed."""

from __future__ import annotations

import math
import weakref
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

from robustfl_bench.base.grouping import grouped
from robustfl_bench.base.late import pd
from robustfl_bench.read.runs import matching
from robustfl_bench.read.runs.matching import Content
from robustfl_bench.read.runs.records import MEASURED, last_metrics
from robustfl_bench.runner.config import compose, options
from robustfl_bench.runner.experiment.rates import best
from robustfl_bench.runner.store.folders import LAST

PAPER = "arena"
HONEST = "honest clients' mean"
"""The name of the row of reference: the plain mean under the attack that sends the honest mean."""

SERVER = "server"
"""The rule that steps along the server's own samples: another row of reference."""

NONE = "none"
LOOKS = (5, 10, 20)
"""The numbers of seeds of a rule after which a raced track looks at its results."""

_SUFFIXES = ("_rates", "_declared", "_honest", "_double", "_server", "_trials", "_claims")
_FREE = ("aggregator", "partition", "attack")
_COUNTS = ("num_byzantine", "lr", "validation_share")
_READ = ("aggregator", "code", "state", "seed", "final_accuracy", "last_accuracy", "best_accuracy",
         "validation_accuracy", "last_validation_accuracy", "recall", "seconds", "last", "folder")  # fmt: skip


@dataclass(frozen=True)
class ArenaRun:
    """One run of a track.

    ``declared`` is the number of attackers that the rule assumes, None for a rule that assumes none or follows the
    round. ``accuracy`` is that of ``Track.judged``: a fraction; 0 where the model diverged, nan where the rule cannot
    be run. ``recall`` and the other metrics in ``last`` are of the last round; ``best`` is the accuracy of the best
    evaluated round. ``seconds`` is the time that the run took. ``row`` is its index in the table of runs. ``options``
    are the changed options of the rule, ``key=value``. ``validated`` says whether validation chose its rate.
    """

    rule: str
    partition: str
    attack: str
    num_byzantine: int
    declared: int | None
    seed: str
    lr: float
    state: str
    accuracy: float
    recall: Sequence[float] | None
    row: int
    best: float = math.nan
    seconds: float = math.nan
    last: Mapping[str, float] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    validated: bool = False


def tracks() -> list[str]:
    """The names of the tracks."""
    names = (name.partition("/")[2] for name in options.names("experiment") if name.startswith(f"{PAPER}/"))
    return [name for name in names if not name.endswith(_SUFFIXES)]


@dataclass(frozen=True, slots=True)
class _Settings:
    """The settings that define a run, split as in ``matching.contents``."""

    aggregator: Content
    partition: Content
    attack: Content
    others: Content

    @property
    def rule(self) -> Content:
        """The settings that define the rule, see ``_rule``."""
        return _rule(self.aggregator, self.others)


class Track:
    """A protocol: the experiment ``arena/NAME``, and those beside it that choose rates and make the reference.

    ``rules`` says in words what its rules are.
    """

    rules = "rules with the options of their papers"

    def __init__(self, name: str) -> None:
        self.experiment = f"{PAPER}/{name}"
        self.swept = compose.swept([f"+experiment={self.experiment}"])
        self._fixed_by_seed: dict[tuple[str, str], Content] = {}

    @property
    def cells(self) -> int:
        """Number of cells of a rule (partition, attack and seed) for each number of attackers."""
        return math.prod(len(self.swept[key]) for key in ("seed", "partition", "attack"))

    @property
    def attacked(self) -> int:
        """Number of these cells with an attack."""
        return self.cells - self.cells // len(self.swept["attack"])

    @property
    def attacks(self) -> list[str]:
        """The attacks of the runs that are read."""
        return self.swept["attack"]

    @property
    def numbers(self) -> list[int]:
        """The numbers of attackers."""
        return sorted(map(int, self.swept["num_byzantine"]))

    @property
    def looks(self) -> tuple[int, ...]:
        """The numbers of seeds at which results are looked at: more than one if the seeds are raced. All rules have
        those of the experiment, the first look; ``race`` says which get more."""
        first = len(self.swept["seed"])
        return tuple(look for look in LOOKS if look >= first) if first in LOOKS else (first,)

    @property
    def is_raced(self) -> bool:
        """Whether some rules get more seeds than others."""
        return len(self.looks) > 1

    @cached_property
    def draws(self) -> int:
        """How often the track draws the server's samples for the line of the server alone; 0 if it has no experiment
        for it, and the line is that of its cells."""
        if not options.exists("experiment", server := f"{self.experiment}_server"):
            return 0
        return len(compose.swept([f"+experiment={server}"])["seed"])

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """The configuration of one of its runs; its rate, whose choice needs other runs, is not meant."""
        return compose.resolve([f"+experiment={self.experiment}", "lr=1"]).config

    @property
    def clients(self) -> int:
        """Number of clients, attackers included."""
        return int(self.config["num_clients"])

    @property
    def name(self) -> str:
        """Its name without the folder of its experiment."""
        return self.experiment.partition("/")[2]

    def title(self, number: int) -> str:
        """The title of its results with this number of attackers."""
        return f"Arena {self.name}: {number} of {self.clients} clients are attackers"

    def command(self, rules: Iterable[str], overrides: Sequence[str]) -> str:
        """What makes the runs of these rules, with these overrides."""
        names = ",".join(dict.fromkeys(rules))
        return " ".join([f"robustfl-bench -m +experiment={self.experiment} aggregator={names}", *overrides])

    @cached_property
    def judged(self) -> str:
        """The accuracy that counts: the mean of the last LAST evaluated rounds if there are more, else that of the last
        round."""
        return "last_accuracy" if self.config["rounds"] // self.config["eval_every"] > LAST else "final_accuracy"

    @cached_property
    def _weighs(self) -> bool:
        """Whether clients count by their samples, which is a part of the rule."""
        return bool(self.config["weighting"] != "none")

    def _fixed(self, experiment: str, seed: str) -> Content:
        """The settings that all runs of an experiment with this seed share: the seed may draw the split of the data."""
        place = experiment, seed
        if place not in self._fixed_by_seed:
            self._fixed_by_seed[place] = _without(_settings(experiment, f"seed={seed}").others, _COUNTS)
        return self._fixed_by_seed[place]

    @cached_property
    def _partitions(self) -> Mapping[Content, str]:
        """Their names by their content."""
        return {_settings(self.experiment, f"partition={name}").partition: name for name in self.swept["partition"]}

    @cached_property
    def _attacks(self) -> Mapping[Content, str]:
        """Their names by their content."""
        return {_settings(self.experiment, f"attack={name}").attack: name for name in self.attacks}

    @cached_property
    def _reference(self) -> str | None:
        """The experiment of the honest clients' mean. Its settings may be others than those of the rules: what mixes
        updates before a rule does not mix the honest clients' mean."""
        return honest if options.exists("experiment", honest := f"{self.experiment}_honest") else None

    @cached_property
    def _honest(self) -> tuple[Content, Content] | None:
        """Rule and attack of the honest clients' mean."""
        if self._reference is None:
            return None
        settings = _settings(self._reference)
        return settings.rule, settings.attack

    @cached_property
    def _tried(self) -> tuple[str, set[tuple[float, str]]] | None:
        """The share of validation of the runs that choose rates, and their rates and seeds."""
        if not options.exists("experiment", rates := f"{self.experiment}_rates"):
            return None
        swept = compose.swept([f"+experiment={rates}"])
        return validation_share(rates), {(float(rate), str(seed)) for rate in swept["lr"] for seed in swept["seed"]}

    def runs(self, table: pd.DataFrame) -> list[ArenaRun]:
        """The runs of ``records.load`` that belong to this protocol, at the rate that validation chose.

        If runs that choose a rate are missing, runs at all rates are included, unless there are trials of the tuned
        book: then the runs are its own.
        """
        tried = defaultdict[tuple[str, str], dict[tuple[float, str], float]](dict)
        measured, tuned = list[ArenaRun](), set[tuple[str, str]]()
        for run, share in self.read(table, "validation_accuracy"):
            if share is None:
                measured.append(run)
            elif self._tries(run, share):
                tried[run.rule, run.partition][run.lr, run.seed] = 0 if math.isnan(run.accuracy) else run.accuracy
            elif run.num_byzantine:
                tuned.add((run.rule, run.partition))
        chosen = dict.fromkeys(tuned, math.nan) | {
            place: best(grouped((rate, number) for (rate, _), number in numbers.items()))
            for place, numbers in tried.items()
            if self._tried is not None and len(numbers) == len(self._tried[1])
        }  # fmt: skip
        return [replace(run, validated=True) if (run.rule, run.partition) in chosen else run for run in measured
                if chosen.get((run.rule, run.partition), run.lr) == run.lr]  # fmt: skip

    def chosen(self, table: pd.DataFrame, rule: str, partition: str, number: int) -> list[str]:
        """The overrides of a rule in a panel that the experiment lacks: none, as it chooses the rate itself."""
        return []

    def under(self, table: pd.DataFrame, runs: Iterable[ArenaRun], attacks: Iterable[str]) -> list[ArenaRun]:
        """The runs of ``records.load`` under attacks that the list lacks, at the rates of its own ``runs``."""
        rates = {(run.rule, run.partition): run.lr for run in runs if run.validated}
        read = Beside(self.name, attacks).read(table, "validation_accuracy")
        return [run for run, share in read if share is None and rates.get((run.rule, run.partition), run.lr) == run.lr]

    def read(self, table: pd.DataFrame, validated_by: str) -> Sequence[tuple[ArenaRun, str | None]]:
        """The runs of ``records.load`` that belong to this protocol at any rate, each with its share of validation
        data, or None. The accuracy of a run with one is its column ``validated_by``.

        A rule is named by its option and its changed settings. If a rule from outside was run with several values of
        its options, or in several versions of its code, its name has them too.
        """
        held = _held(table)
        key = type(self), self.experiment, (*self.attacks,), validated_by
        if key not in held.read:
            held.read[key] = list(self._read(held, validated_by))
        return held.read[key]

    def _read(self, held: _Held, validated_by: str) -> Iterator[tuple[ArenaRun, str | None]]:
        own, reference = (self._alike(experiment, held) for experiment in (self.experiment, self._reference))
        honest = {place for place in reference if (held.parts[place].rule, held.parts[place].attack) == self._honest}
        rows = [(place, held.row(place), held.parts[place]) for place in sorted({*own, *honest})]
        names = _RuleNames(self.experiment, rows)
        for place, row, of in rows:
            partition = self._partitions.get(of.partition)
            attack = HONEST if place in honest else self._attacks.get(of.attack)
            if partition is None or attack is None or row["state"] not in (*MEASURED, "infeasible"):
                continue
            if attack != HONEST and self._weighs != _is_weighted(of.aggregator):
                continue  # a rule's run of a track that differs in this alone
            share = _values(of.others).get("validation_share")
            judged = self.judged if share is None else validated_by
            yield _run(row, place, of, partition, attack, names, judged), share

    def _alike(self, experiment: str | None, held: _Held) -> list[int]:
        """The places of the runs whose settings are an experiment's but for what its runs may vary."""
        if experiment is None:
            return []
        return [place for (others, seed), places in held.places.items()
                if _without(others, _COUNTS) == self._fixed(experiment, seed) for place in places]  # fmt: skip

    def _tries(self, run: ArenaRun, share: str) -> bool:
        """Whether this is one of the runs that choose rates."""
        if self._tried is None:
            return False
        validated, pairs = self._tried
        return share == validated and run.num_byzantine == 0 and run.attack == NONE and (run.lr, run.seed) in pairs


class Beside(Track):
    """A track under attacks that its list lacks, without the line of the honest clients' mean."""

    def __init__(self, name: str, attacks: Iterable[str]) -> None:
        super().__init__(name)
        self.swept = {**self.swept, "attack": [*attacks]}

    _reference = None


class _Held:
    """What all tracks read of a table: the settings of its runs, and the places of those that differ in parts alone.
    ``read`` are the runs of each track that was read."""

    def __init__(self, table: pd.DataFrame) -> None:
        self.parts = [_Settings(*of) for of in matching.contents(table, _FREE)]
        self._columns = {name: table[name].tolist() for name in _READ if name in table}
        self._rows: dict[int, Mapping[str, Any]] = {}
        of_runs = enumerate(zip(self.parts, self._columns["seed"], strict=True))
        self.places = grouped(((of.others, str(seed)), place) for place, (of, seed) in of_runs)
        self.read: dict[tuple[type[Track], str, tuple[str, ...], str], list[tuple[ArenaRun, str | None]]] = {}

    def row(self, place: int) -> Mapping[str, Any]:
        """What is read of a run."""
        if place not in self._rows:
            self._rows[place] = {name: column[place] for name, column in self._columns.items()}
        return self._rows[place]


_known: dict[int, _Held] = {}


def _held(table: pd.DataFrame) -> _Held:
    """What is read of a table, once for all tracks: nobody changes it."""
    if (key := id(table)) not in _known:
        _known[key] = _Held(table)
        weakref.finalize(table, _known.pop, key)
    return _known[key]


def validation_share(experiment: str) -> str:
    """The share of validation data of an experiment's runs, as ``Track.read`` gives it."""
    return _values(_settings(experiment).others)["validation_share"]


class _RuleNames:
    """What the rules of some runs are called."""

    def __init__(self, experiment: str, rows: Iterable[tuple[int, Mapping[str, Any], _Settings]]) -> None:
        self._usual: dict[str, Content] = {}
        self._versions: dict[str, set[str]] = defaultdict(set)
        contents: dict[str, set[Content]] = defaultdict(set)
        for rule, code, aggregator, others in {(row["aggregator"], row["code"], of.aggregator, of.others)
                                               for _, row, of in rows}:  # fmt: skip
            contents[str(rule)].add(_rule(aggregator, others))
            self._versions[str(rule)].add(_version(code))
        for name, versions in contents.items():
            if options.exists("aggregator", name):
                self._usual[name] = _settings(experiment, f"aggregator={name}").rule
            else:
                self._usual[name] = frozenset.intersection(*versions)

    def of(self, row: Mapping[str, Any], settings: _Settings) -> tuple[str, tuple[str, ...]]:
        """The name of a run's rule, and its changed options."""
        name = str(row["aggregator"])
        usual, own = self._usual[name], settings.rule
        changed = {key for key, _ in usual ^ own} if usual != own else ()
        other = tuple(f"{key}={dict(own).get(key, 'null')}" for key in sorted(changed))
        version = f"[code {_version(row['code'])}]" if len(self._versions[name]) > 1 else ""
        return " ".join(filter(None, [name, *other, version])), other


@cache
def _is_weighted(aggregator: Content) -> bool:
    """Whether the clients of a rule's run count by their samples."""
    return any(key == "aggregator._target_" and value.endswith(".Weighted") for key, value in aggregator)


@cache
def _version(code: str | None) -> str:
    """The digest of the source of a rule from outside, from the codes of its run; empty for one of this package."""
    words = str(code or "").split(" ")
    return next((word.partition("=")[2] for word in words if word.startswith("aggregator=")), "")


def _run(
    row: Mapping[str, Any], place: int, settings: _Settings, partition: str, attack: str, names: _RuleNames,
    judged: str,
) -> ArenaRun:  # fmt: skip
    rule, other = names.of(row, settings)
    state = str(row["state"])
    return ArenaRun(
        rule=HONEST if attack == HONEST else rule,
        partition=partition,
        attack=attack,
        num_byzantine=int(_values(settings.others)["num_byzantine"]),
        declared=_declared(settings.aggregator) if float(_values(settings.others)["participation"]) == 1 else None,
        seed=str(row["seed"]),
        lr=float(_values(settings.others)["lr"]),
        state=state,
        accuracy=0.0 if state == "diverged" else float(row[judged]),
        recall=row["recall"] if isinstance(row["recall"], list) else None,
        row=place,
        best=float(row["best_accuracy"]),
        seconds=float(row["seconds"]),
        last=_last(row) if state == "finished" else {},
        options=other,
    )


def _last(row: Mapping[str, Any]) -> Mapping[str, float]:
    return row["last"] if isinstance(row["last"], dict) else last_metrics(row["folder"])


def _settings(experiment: str, *overrides: str) -> _Settings:
    """The settings of one run of an experiment; its rate, whose choice needs other runs, is ignored."""
    config = matching.config(matching.resolved([f"+experiment={experiment}", "lr=1", *overrides]).identity)
    return _Settings(*matching.content(config, _FREE))


@cache
def _rule(aggregator: Content, others: Content) -> Content:
    """The settings that define a rule: without the number of attackers that it assumes, and without those that repeat a
    setting of the run, such as the rate."""
    run = _values(others)
    return frozenset((key, value) for key, value in aggregator
                     if not _is_declared(key) and run.get(key.rpartition(".")[2]) != value)  # fmt: skip


@cache
def _declared(aggregator: Content) -> int | None:
    """The number of attackers that a rule assumes."""
    return next((int(value) for key, value in aggregator if _is_declared(key)), None)


def _is_declared(key: str) -> bool:
    return key.endswith(".num_byzantine")


@cache
def _values(others: Content) -> matching.Config:
    return dict(others)


@cache
def _without(others: Content, keys: Sequence[str]) -> Content:
    return frozenset((key, value) for key, value in others if key not in keys)


def settle(runs: Sequence[ArenaRun], num_byzantine: int) -> Iterator[ArenaRun]:
    """The runs with this number of attackers, correctly assumed by the server, and those without attack."""
    for run in runs:
        if run.declared in (None, num_byzantine) and run.num_byzantine in (0, num_byzantine):
            yield run


def by_number(track: Track, runs: Sequence[ArenaRun]) -> dict[int, list[ArenaRun]]:
    """The runs by number of attackers, for each number with attacked runs; for all numbers if no run was attacked."""
    settled = {number: list(settle(runs, number)) for number in track.numbers}
    attacked = {number for number, of in settled.items() if any(run.attack not in (NONE, HONEST) for run in of)}
    return {number: of for number, of in settled.items() if number in attacked or not attacked}
