"""Random vectors of zeros and equal entries: the true parameters of BRIFCA's experiments, and initial guesses."""

import numpy as np


def bernoulli_vectors(count: int, dim: int, norm: float, rng: np.random.Generator) -> np.ndarray:
    """Nonzero vectors (count, dim), float64, with Bernoulli(0.5) coordinates scaled to the Euclidean norm ``norm``.

    BRIFCA (Tao, Yang, Kulkarni, arXiv 2306.00638, section 6). In few dimensions some vectors may be equal.
    """
    vectors = rng.integers(2, size=(count, dim)).astype(np.float64)
    while (empty := ~vectors.any(axis=1)).any():
        vectors[empty] = rng.integers(2, size=(int(empty.sum()), dim))
    scaled: np.ndarray = vectors * (norm / np.linalg.norm(vectors, axis=1, keepdims=True))
    return scaled
