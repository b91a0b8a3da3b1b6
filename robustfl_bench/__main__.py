"""``python -m robustfl_bench`` is the command ``robustfl-bench``."""

from robustfl_bench.commands.entry import bench

if __name__ == "__main__":
    bench()
