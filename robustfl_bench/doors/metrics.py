"""Metrics that a run computes only where it is asked: ``metrics=robustfl_bench.metrics:client_accuracy``."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from robustfl_bench.base.errors import ConfigError

Pairs = Sequence[tuple[np.ndarray, np.ndarray]]


def client_accuracy(
    recall: Sequence[float],
    clients: Pairs,
    ids: Sequence[int],
    held_out: Pairs | None,
    predict: Callable[[np.ndarray], np.ndarray],
) -> Mapping[str, float]:
    """The accuracy (fraction) of the model for every honest client, by its number, on samples that nobody trained on;
    with the ``worst``, the mean of the worst tenth and that of all clients (q-FFL, Li et al., ICLR 2020, section 4).

    Where the data set has clients of its own and ``validation_share`` holds samples of them out, it is the accuracy on
    these, nan for a client without any. Elsewhere it is the accuracy on the test set with the classes in the client's
    own shares: the ``recall`` (c,) of each class, times its share. Raises ConfigError for data without classes.
    """
    if not recall:
        raise ConfigError("client_accuracy needs a data set with classes, and this one has numbers to predict")
    if held_out is None:
        shares = [np.bincount(y, minlength=len(recall)) / len(y) for _, y in clients]
        found = [float(share[held] @ np.asarray(recall)[held]) for share in shares for held in [share > 0]]
    else:
        found = [float((predict(x).argmax(axis=1) == y).mean()) if len(y) else math.nan for x, y in held_out]
    known = sorted(accuracy for accuracy in found if not math.isnan(accuracy))
    tenth = known[: max(1, round(len(known) / 10))]
    of_all = {"worst": tenth[0], "worst_tenth": float(np.mean(tenth)), "mean": float(np.mean(known))}
    return of_all | {str(i): accuracy for i, accuracy in zip(ids, found, strict=True)}
