"""A run as it is asked for: from a composed config to checked parts, the folder and the identity of the run."""

import json
import math
import time
from collections.abc import Mapping
from copy import copy
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from robustfl_bench.base.abilities import overrides
from robustfl_bench.base.code_digest import Closure
from robustfl_bench.base.contained import no_exit
from robustfl_bench.base.errors import ConfigError, DataError
from robustfl_bench.base.read_only import called
from robustfl_bench.parts.datasets.base import Dataset
from robustfl_bench.parts.protocols.base import Setup
from robustfl_bench.runner.config import identity, request
from robustfl_bench.runner.config.identity import Identified
from robustfl_bench.runner.config.request import Call
from robustfl_bench.runner.experiment import networks
from robustfl_bench.runner.experiment.outside_code import OutsideCode
from robustfl_bench.runner.store.folders import RunFolder, summary_in
from robustfl_bench.runner.store.writing import Damaged
from robustfl_bench.train.code_digest import closure_of, code_digest
from robustfl_bench.train.parts import Parts
from robustfl_bench.train.settings import SCALARS, Settings, at_share, check

MOMENT = 0.02
"""Seconds for which a run that has no folder is taken to have none."""


class Request(Identified):
    """A run that is asked for: its config and settings, how it was asked for, and its folder.

    It is built once, from a ``composed`` config, of which only the scalars are checked: enough to find its stored
    result. Its parts, which import torch, and the code behind them are looked up when they are first needed.
    """

    def __init__(self, config: Mapping[str, Any], call: Call | None = None) -> None:
        """Raises ConfigError."""
        self.settings = Settings(**{name: config[name] for name in SCALARS})
        self.config: Mapping[str, Any] = identity.defining(config)
        self.call = call or Call()
        self.composed = config
        self._folder: RunFolder | None = None
        self._looked = -math.inf  # when that was looked for
        check(self.settings)
        if self.settings.secure_aggregation and self.settings.weighting != "none":
            raise ConfigError(
                "with secure_aggregation=true the server learns no client's number of samples: set weighting=none "
                "(aggregator=fedavg counts samples within the sum)"
            )
        self.settings.num_byzantine = self.config["num_byzantine"]

    @cached_property
    def parts(self) -> Parts:
        """Its parts, which are built and checked. Raises one ConfigError with all that is wrong."""
        with no_exit(lambda: "a part of the run"):
            parts = request.parts(self.config, self.composed)
            networks.check(parts.model, parts.dataset)
            if self.settings.num_byzantine and self.settings.byzantine_placement == "add":
                _check_added(parts, self.settings)
            try:
                _check_feasible(parts, self.settings)
            except ConfigError as error:
                raise InfeasibleError(str(error), self) from None
        return parts

    def check(self) -> None:
        """Build and check its parts, if that is not done yet. Raises one ConfigError with all that is wrong."""
        _ = self.parts

    def planned(self) -> "Request":
        """The same request with its parts, which are let go with what is returned. Raises as ``check`` does."""
        planned = copy(self)
        planned.check()
        return planned

    @property
    def dataset(self) -> Dataset:
        """The data set among its parts, or, before they are built, one like it."""
        if "parts" in vars(self):
            return self.parts.dataset
        return _dataset(json.dumps(self.config["dataset"], sort_keys=True))

    @property
    def folder(self) -> RunFolder:
        """Its run folder, whose name says what was chosen; as long as it does not exist, looked for again and again."""
        is_new = time.monotonic() - self._looked < MOMENT
        if self._folder is None or not (is_new or self._folder.path.exists()):
            s, chosen = self.settings, self.call.choices
            attack = f"{chosen.get('attack', 'attack')}{s.num_byzantine}" if s.num_byzantine else "none"
            groups = [chosen.get("partition", ""), attack, chosen.get("aggregator", "")]
            if self.config["clustering"]:
                groups.append(chosen.get("clustering", ""))
            self._folder = RunFolder(s.results_dir, [self.dataset.name, *groups, f"s{s.seed}"], self.run_id)
            self._looked = time.monotonic()
        return self._folder

    @cached_property
    def dim(self) -> int:
        """d: the number of the model's parameters."""
        return networks.num_params(self.parts.model, self.parts.dataset)

    @cached_property
    def reference_id(self) -> str:
        """The id of the run that recalls are compared with."""
        return identity.run_id(identity.reference(self.config))

    @cached_property
    def outside(self) -> OutsideCode:
        """The parts from outside this package, and their sources."""
        return OutsideCode(self.config)

    @cached_property
    def code(self) -> dict[str, Any]:
        """Digests of the code that computes it: of this package, and for each group with parts from outside, of their
        sources.

        A process reads each file once: later edits do not change the code that it has imported.
        """
        return {"package": code_digest(self.config, self.outside.sources), "parts": self.outside.digests}

    @cached_property
    def computing(self) -> Closure:
        """The code of this package that computes it."""
        return closure_of(self.config, self.outside.sources)


@cache
def _dataset(content: str) -> Dataset:
    built: Dataset = request.made("dataset", json.loads(content))
    return built


class InfeasibleError(ConfigError):
    """The rule cannot work with this many clients, or without a server. Tables record it; it is no mistake."""

    def __init__(self, reason: str, request: Request) -> None:
        super().__init__(reason)
        self.request = request


def plan(config: Mapping[str, Any], call: Call | None = None) -> Request:
    """The request of a composed config, with every part built and checked before any data are loaded.

    Raises one ConfigError with all that is wrong.
    """
    return Request(config, call).planned()


def _check_feasible(parts: Parts, s: Settings) -> None:
    """Raise ConfigError when the rule cannot work with these clients, or in this protocol."""
    clients = s.clients_per_round
    if parts.attack.plans and parts.clustering is not None:
        raise ConfigError(f"{called(parts.attack)} plans for one model: set clustering=none")
    _check_sum(parts)
    _check_augmented(parts)
    _check_started(parts)
    if s.participation_by is not None and overrides(parts.course, "step"):
        raise ConfigError("participation_by=kind is for rounds with a server: set protocol=synchronous")
    if s.participation_by is not None and at_share(s.participation, s.num_byzantine) == 0 < s.num_byzantine:
        raise ConfigError(
            f"participation={s.participation:g} of {s.num_byzantine} attackers rounds to none, and with "
            "participation_by=kind no round has one: raise participation, or set participation_by=null"
        )
    parts.course.check(Setup(parts.aggregator, parts.local_update, parts.optional, clients, s.num_byzantine))
    if parts.availability is not None:
        parts.availability.check(parts.local_update)
    parts.check_clients(parts.course.updates_per_round(clients))


def _check_sum(parts: Parts) -> None:
    """Raise ConfigError if a server that learns only a sum over the clients cannot make rounds with these parts."""
    from robustfl_bench.parts.aggregators.secure_sum import SecureSum  # here, as it imports torch

    if not isinstance(parts.aggregator, SecureSum):
        return
    for group, reason in (
        ("protocol", "a server gets one sum a round, of messages whose bits are not counted"),
        ("clustering", "a server learns one sum over all clients"),
    ):
        if getattr(parts, group) is not None:
            usual = "synchronous" if group == "protocol" else "none"
            raise ConfigError(f"with secure aggregation {reason}: set {group}={usual}")


def _check_augmented(parts: Parts) -> None:
    """Raise ConfigError for changed samples beside a local update that remembers gradients of samples as they are."""
    from robustfl_bench.parts.local_updates.saga import Saga  # here, as it imports torch

    innermost = parts.local_update
    while (inner := getattr(innermost, "inner", None)) is not None:
        innermost = inner
    if parts.augmentation is not None and isinstance(innermost, Saga):
        raise ConfigError("local_update Saga remembers the gradients of samples as they are: set augmentation=none")


def _check_started(parts: Parts) -> None:
    """Raise ConfigError for given weights where every cluster must start from weights of its own, and DataError for
    those of a run that are not what it wrote."""
    from robustfl_bench.parts.models.started import Started  # here, as it imports torch

    if not isinstance(model := parts.model, Started):
        return
    if getattr(parts.clustering, "init", None) == "model":
        raise ConfigError("init has the weights of one model, and clustering.init=model draws those of every cluster: "
                          "set init=null")  # fmt: skip
    try:
        written = (summary_in(Path(model.path).parent) or {}).get("files", {}).get(Path(model.path).name, {})
    except Damaged as error:
        raise DataError(f"init: {error}  {Path(model.path).parent}") from None
    if written.get("sha256", model.digest) != model.digest:
        raise DataError(f"init: {model.path} is not what its run wrote: its SHA-256 differs")


def _check_added(parts: Parts, s: Settings) -> None:
    """Raise ConfigError for attacks that need data if Byzantine clients are added, since these hold none: in all
    rounds, or in those without honest clients."""
    attack = parts.attack
    if s.knowledge == "own":
        raise ConfigError(
            "knowledge=own leaves attackers what they compute on their own data, but added clients hold none: "
            "set byzantine_placement=replace"
        )
    if not attack.crafts or attack.poisons:
        raise ConfigError(
            f"{called(attack)} trains on the Byzantine clients' own data, but added clients hold none: "
            "set byzantine_placement=replace"
        )
    if attack.needs_honest and parts.availability is None and s.clients_per_round <= s.num_byzantine:
        from robustfl_bench.train.participation import taking_part  # late: it imports numpy

        for round in range(s.rounds):
            if taking_part(s, round, range(s.num_clients, s.total_clients)).min() >= s.num_clients:
                raise ConfigError(
                    f"{called(attack)} needs the updates of honest clients, and in round {round + 1} "
                    f"participation={s.participation:g} draws attackers alone: set participation_by=kind, a larger "
                    "participation, or byzantine_placement=replace"
                )
