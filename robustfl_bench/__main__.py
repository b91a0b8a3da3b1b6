"""``python -m robustfl_bench`` is the command ``robustfl-bench``."""

from robustfl_bench.cli import main

if __name__ == "__main__":
    main()
