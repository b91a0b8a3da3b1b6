"""``python -m robustfl_bench.ring`` is the command ``robustfl-ring``, also under ``torchrun --nproc-per-node N``."""

from robustfl_bench.entry import ring

if __name__ == "__main__":
    ring()
