"""robustfl_bench: experiments in Byzantine-robust federated learning, from a composed config to a paper's table."""

import os

# Idle OpenMP threads that spin steal the cores from the BLAS of NumPy and from neighbouring runs: one Gram matrix
# took five times as long. The libraries read this once, when they are loaded, so it has to be here.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

__version__ = "0.1.0"
