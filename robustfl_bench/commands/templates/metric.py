"""A metric: the accuracy of the client that the model serves worst (ours)."""

from collections.abc import Callable, Sequence

import numpy as np


def template(
    clients: Sequence[tuple[np.ndarray, np.ndarray]], predict: Callable[[np.ndarray], np.ndarray]
) -> dict[str, float]:
    """The least and the mean accuracy of the model on the honest clients' samples (x, y).

    A metric gets by name what it asks for: round, accuracy, loss, recall, confusion, x, y, clients, params, predict,
    weights. It returns a number, or numbers by name.
    """
    accuracies = [float((predict(x).argmax(axis=1) == y).mean()) for x, y in clients]
    return {"least": min(accuracies), "mean": float(np.mean(accuracies))}
