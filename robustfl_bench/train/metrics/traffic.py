"""Bits that the clients send, if the protocol counts them. Updates that do not arrive are not counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robustfl_bench.train.metric import Metric

if TYPE_CHECKING:
    from robustfl_bench.train.evaluation import Evaluation
    from robustfl_bench.train.federation import Federation


def bits_of_rounds(federation: Federation, rounds: int) -> list[tuple[int, int]] | None:
    """The number of updates that arrive in each of the first ``rounds`` rounds and the bits that all clients send in
    it; None if the protocol counts no bits."""
    parts, dim, arrivals = federation.parts, federation.network.dim, federation.cohorts.arrivals(rounds)
    bits = {0: 0}
    for n in {federation.storage.number, *arrivals} - {0}:
        total = parts.course.total_bits(parts.aggregator, n, dim)
        if total is None:
            return None
        bits[n] = total
    return [(n, bits[n]) for n in arrivals]


def _rounds(evaluation: Evaluation) -> list[tuple[int, int]] | None:
    """As ``bits_of_rounds``, for the rounds so far; a protocol with links between clients reports how many there are,
    and what each carries in a round."""
    notes, number = evaluation.round.notes, evaluation.round.number
    if "bits_per_link" in notes:
        clients = sum(map(len, evaluation.round.cohorts))
        return [(clients, int(notes["links"] * notes["bits_per_link"]))] * number
    return bits_of_rounds(evaluation.federation, number)


def _per_client(evaluation: Evaluation) -> float | None:
    rounds = _rounds(evaluation)
    if rounds is None:
        return None
    n, bits = rounds[-1]
    return bits / n if n and bits % n else bits // max(n, 1)


def _total(evaluation: Evaluation) -> int | None:
    rounds = _rounds(evaluation)
    return None if rounds is None else sum(bits for _, bits in rounds)


METRICS = (
    Metric("bits_per_client", "Bits that a client sends in a round", _per_client, "Mbit", -1, factor=1e-6, exact=True),
    Metric(
        "bits_total",
        "Bits that all clients have sent in all rounds",
        _total,
        "Mbit",
        -1,
        factor=1e-6,
        exact=True,
    ),
)
