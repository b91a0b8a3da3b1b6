"""Random numbers of the clients, from the settings alone: known before any data are loaded, and without PyTorch."""

from collections.abc import Callable, Sequence

import numpy as np

from robustfl_bench.base import seeding
from robustfl_bench.train.settings import Settings, at_share


def draw(
    settings: Settings, name: str, round: int, numbers: Callable[[int, np.random.Generator], np.ndarray]
) -> np.ndarray:
    """One number per client, (N,), from ``numbers`` (how many, generator), for a round.

    Clients added by the attack have another random stream, so that the honest clients' numbers do not depend on the
    attack or the rule.
    """
    s = settings
    streams = {name: s.num_clients, f"{name} of added clients": s.total_clients - s.num_clients}
    drawn = [numbers(n, seeding.generator(s.seed, stream, round)) for stream, n in streams.items()]
    return np.concatenate(drawn)


def taking_part(settings: Settings, round: int, byzantine: Sequence[int] | np.ndarray = ()) -> np.ndarray:
    """The numbers of the clients that take part in a round (from 0), (n,), some of which are ``byzantine``.

    Every client draws a number, and the clients with the smallest numbers take part, of all or of each kind, so that
    the choice among the honest clients does not depend on the attack or the rule.
    """
    draws = draw(settings, "participation", round, lambda n, rng: rng.random(n))
    order, number = np.argsort(draws, kind="stable"), settings.clients_per_round
    if settings.participation_by is None:
        return order[:number]
    attackers, few = np.isin(order, byzantine), at_share(settings.participation, len(byzantine))
    return np.concatenate([order[~attackers][: number - few], order[attackers][:few]])
