"""The step of one of the processes of a run."""

from collections.abc import Mapping
from typing import Any

from robustfl_bench.parts.protocols.state import Round, State
from robustfl_bench.runner.experiment.plan import Plan
from robustfl_bench.runner.processes.peers import Peers
from robustfl_bench.runner.processes.ring.link import Link
from robustfl_bench.runner.processes.ring.step import told
from robustfl_bench.runner.processes.shards.context import SpreadRounds
from robustfl_bench.runner.processes.shards.share import Share
from robustfl_bench.train.federation import Federation


class SpreadStep:
    """The step of process ``link.rank``: it trains its clients and aggregates its columns.

    All processes end a round with the same model; the first returns the results of the round.
    """

    def __init__(self, link: Link, federation: Federation, timeout: float) -> None:
        self._link, self._share = link, Share(Peers(timeout=timeout), federation.network.dim)
        place = self._share.place
        buffer = federation.network.initial.new_empty(federation.updates_per_round, place.stop - place.start)
        vars(federation)["buffer"] = buffer  # in place of one for whole updates

    def outcome(self, planned: Plan) -> Mapping[str, Any]:
        """What the summary of the run says: the number of processes, and the bytes of updates that the first sent."""
        return {"processes": {"number": self._link.size, "sent_bytes": self._share.peers.sent}}

    def __call__(self, federation: Federation, state: State) -> tuple[State, Round | None]:
        """Carry out the next round; raises RingBroken when a process is lost."""
        with told(self._link, state.round + 1):
            after, happened = federation.parts.course.step(SpreadRounds(federation, self._share), state)
        return after, None if self._link.rank else happened
