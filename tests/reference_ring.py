"""The ring as BRACE draws it (sections 2.2 and 3, figures 1 and 2), message by message; slow and obvious."""

import numpy as np


def by_ring(gradients: list[list[float]]) -> np.ndarray:
    """The sum that the clients end up with, float32: in every step all send at once, then all add what has come."""
    n, d = len(gradients), len(gradients[0])
    cuts = [i * d // n for i in range(n + 1)]
    held = [
        [[np.float32(x) for x in gradient[cuts[k] : cuts[k + 1]]] for k in range(n)] for gradient in gradients
    ]  # by client and sub-vector
    for step in range(n - 1):
        sent = {(i + 1) % n: ((i - step) % n, list(held[i][(i - step) % n])) for i in range(n)}
        for receiver, (k, values) in sent.items():
            held[receiver][k] = [a + b for a, b in zip(held[receiver][k], values, strict=True)]
    for step in range(n - 1):
        sent = {(i + 1) % n: ((i + 1 - step) % n, list(held[i][(i + 1 - step) % n])) for i in range(n)}
        for receiver, (k, values) in sent.items():
            held[receiver][k] = values
    (result,) = {tuple(np.concatenate(parts).tolist()) for parts in held}
    return np.array(result, dtype=np.float32)


def bits_by_ring(n: int, d: int, first: int, second: int) -> int:
    """Bits that all clients send, counted chunk by chunk, with so many for a coordinate in each phase."""
    cuts = [i * d // n for i in range(n + 1)]
    sizes = [cuts[k + 1] - cuts[k] for k in range(n)]
    total = 0
    for step in range(n - 1):
        for i in range(n):
            total += first * sizes[(i - step) % n] + second * sizes[(i + 1 - step) % n]
    return total
