"""One process of a run over several, such as a client of the ring: its own share, its own checkpoints."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from robustfl_bench.base.console import say
from robustfl_bench.base.errors import ConfigError, Diverged
from robustfl_bench.parts.protocols.gossip import Gossip
from robustfl_bench.parts.protocols.ring import Ring
from robustfl_bench.parts.protocols.state import Round, State
from robustfl_bench.runner.experiment import own_metrics, trained
from robustfl_bench.runner.experiment.answers import stamp
from robustfl_bench.runner.experiment.plan import Request
from robustfl_bench.runner.experiment.trained import Trackers, check_trackers, written
from robustfl_bench.runner.processes.columns import SpreadStep
from robustfl_bench.runner.processes.peers import Link, told
from robustfl_bench.runner.processes.steps import GossipStep, RingStep
from robustfl_bench.runner.store import sealed
from robustfl_bench.runner.store.folders import RING, RunFolder
from robustfl_bench.runner.store.writing import Damaged, named, remove_leftovers
from robustfl_bench.train.federation import Federation
from robustfl_bench.train.loop import run
from robustfl_bench.train.metrics import METRICS
from robustfl_bench.train.rounds import initial_state


class Checkpoints:
    """The checkpoints of client ``rank`` in ``folder``, all with one ``stamp``; the folder is created when needed."""

    def __init__(self, folder: Path, rank: int, stamp: sealed.Stamp) -> None:
        self._folder, self._prefix, self._stamp = folder, f"client_{rank}_round_", stamp

    def saved(self) -> dict[int, dict[str, Any]]:
        """The states by round; files that are damaged or have another stamp are reported and removed."""
        found = {}
        for round, path in self._paths().items():
            remove_leftovers(self._folder, [path.name])
            try:
                state = sealed.load(path, self._stamp)
            except Damaged as error:
                say(f"not used: {error}  {self._folder}")
                path.unlink(missing_ok=True)
                continue
            if state is not None:
                found[round] = state
        return found

    def save(self, round: int, state: dict[str, Any]) -> None:
        """Add the state after ``round`` and drop all but the last two; raises CannotWrite."""
        with named(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
        sealed.save(self._folder / f"{self._prefix}{round}.pt", state, self._stamp)
        for old in sorted(self._paths().items())[:-2]:
            old[1].unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove all checkpoints; the last client also removes the folder, and the run folder if it is then empty."""
        for path in self._paths().values():
            path.unlink(missing_ok=True)
        with suppress(OSError):  # not empty
            for folder in (self._folder, self._folder.parent):
                folder.rmdir()

    def _paths(self) -> dict[int, Path]:
        return {int(p.stem.removeprefix(self._prefix)): p for p in self._folder.glob(f"{self._prefix}*.pt")}


NOTHING_TO_DO = -2.0  # sent by the first client if the result already exists


def num_processes(request: Request) -> int:
    """The number of processes of a plan: the clients, but with gossip one for all attackers. Raises ConfigError."""
    s, protocol = request.settings, request.parts.protocol
    if isinstance(protocol, Gossip):
        return s.total_clients - s.num_byzantine + (s.num_byzantine > 0)
    if not isinstance(protocol, Ring):
        raise ConfigError("robustfl-ring needs protocol=ring or protocol=gossip")
    return s.total_clients


def check(request: Request, size: int) -> None:
    """Raise ConfigError unless ``size`` processes can carry out the plan as a ring, or by gossip."""
    s, protocol, needed = request.settings, request.parts.protocol, num_processes(request)
    assert isinstance(protocol, Ring | Gossip)
    if s.dry_run:
        raise ConfigError("dry_run=true starts no clients; robustfl-bench itself says what would be made")
    if protocol.bits != 32:
        raise ConfigError(f"numbers travel in 32 bits, got protocol.bits={protocol.bits}")
    if size != needed and isinstance(protocol, Gossip):
        raise ConfigError(f"every honest node is one process, all attackers another: {needed}, but {size} processes")
    if size != needed:
        raise ConfigError(f"every client is one process: {needed} clients, but {size} processes")
    if isinstance(protocol, Gossip):
        if s.byzantine_share_by != "clients" or request.parts.attack.plans:
            raise ConfigError("gossip over processes needs byzantine_share_by=clients and an attack without a plan")
    elif s.num_byzantine and (request.parts.attack.crafts or request.parts.attack.plans):
        raise ConfigError("no client sees the updates of others to craft its own: take attack=label_flip, or none")
    if s.participation != 1:
        raise ConfigError(f"on a ring all clients take part, got participation={s.participation}")
    if s.device != "cpu":
        raise ConfigError(f"the ring passes on what is in the memory of the CPU, got device={s.device}")
    check_trackers(request.parts.tracker)


MemberStep = RingStep | GossipStep | SpreadStep
"""The step of a member: the state after the next round, and, for the first member in an evaluated round, its results.
Its ``outcome`` is what the summary of the run says of the processes."""


class Member:
    """Process ``link.rank`` of a run over several processes, such as a client of the ring.

    ``step_of`` makes its step. The first member tests the model and writes the rows; all members write checkpoints in
    the rounds in which ``is_due``.
    """

    def __init__(self, link: Link, step_of: Callable[[Link, Federation], MemberStep]) -> None:
        self.link, self.step_of = link, step_of
        self.checkpoints: Checkpoints | None = None

    def is_due(self, state: State) -> bool:
        """Whether checkpoints are written after this round, which all members answer alike."""
        return True

    def train(
        self, request: Request, federation: Federation, folder: RunFolder, trackers: Trackers | None
    ) -> Mapping[str, Any]:
        """Resume from the last round for which all clients have a checkpoint; raises RingBroken."""
        first, rounds = self.link.rank == 0, request.settings.rounds
        self.checkpoints = Checkpoints(
            folder.path / RING,
            self.link.rank,
            stamp(request, federation.clients.data) | {"processes": str(self.link.size)},
        )
        state = self._start(federation, self.checkpoints.saved(), folder if first else None)
        if state is None:
            return {}
        own_step = self.step_of(self.link, federation)

        def step(federation: Federation, state: State) -> tuple[State, Round | None]:
            with told(self.link, state.round + 1):
                return own_step(federation, state)

        records = run(federation, state, step, (*METRICS, *own_metrics.metrics(request.settings.metrics)))
        states = written(records, folder, federation, state.round, trackers, silent=not first)
        try:
            for state in states:
                if request.settings.is_evaluated(state.round):
                    with told(self.link, state.round):
                        if self.link.gather([0]).any():
                            return {}  # only the first client tests the model, and it has diverged
                if state.round < rounds and self.is_due(state):
                    self.checkpoints.save(state.round, state.stored())
        except Diverged as end:
            with told(self.link, end.round):
                self.link.gather([1])
            raise
        own = trained.outcome(request, federation, folder, state.params) if first else {}
        return {**own, **own_step.outcome(request)}

    def end(self) -> None:
        """Wait until the first client has written the result, then remove the checkpoints."""
        if self.checkpoints is None:
            self.link.gather([NOTHING_TO_DO, NOTHING_TO_DO], forming=True)
        self.link.gather([], forming=True)
        if self.checkpoints is not None:
            self.checkpoints.clear()

    def _start(
        self, federation: Federation, saved: Mapping[int, dict[str, Any]], folder: RunFolder | None
    ) -> State | None:
        """The state to resume from, or None if the result exists; removes the rows of later rounds from ``folder``."""
        if folder is not None:
            every, there = federation.settings.eval_every, _rounds(folder)
            saved = {round: one for round, one in saved.items() if there.issuperset(range(every, round + 1, every))}
        mine = [-1.0, -1.0, *map(float, sorted(saved))][-2:]
        offers = self.link.gather(mine, forming=True)
        if offers[0, 0] == NOTHING_TO_DO:
            return None
        round = int(max(set.intersection(*map(set, offers.tolist())), default=-1))
        if folder is not None:
            folder.cut(round)
        start = initial_state(federation)
        return start if round < 0 else trained.restored(saved[round], start, federation)


class Client(Member):
    """Client ``link.rank`` of the ring, or of gossip, with checkpoints every ``interval`` rounds."""

    def __init__(self, link: Link, interval: int) -> None:
        super().__init__(link, _step_of)
        self.interval = interval

    def is_due(self, state: State) -> bool:
        return state.round % self.interval == 0


def _step_of(link: Link, federation: Federation) -> MemberStep:
    gossips = isinstance(federation.parts.protocol, Gossip)
    return GossipStep(link, federation) if gossips else RingStep(link, federation)


def _rounds(folder: RunFolder) -> set[int]:
    """The rounds that have a row; if the rows are damaged, they are removed and no rounds are returned."""
    if not (folder.path / "metrics.csv").exists():
        return set()
    try:
        return {int(row["round"]) for row in folder.rows()}
    except (Damaged, KeyError):
        folder.forget_rows()
        return set()
