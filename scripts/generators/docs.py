"""API pages from the docstrings, as HTML in a folder: make docs."""

import sys
import warnings
from pathlib import Path

import pdoc

ROOMS = (
    "aggregators", "attacks", "partitions", "pre_aggregations", "local_updates", "server_optimizers", "schedules",
    "models", "protocols", "adapters",
)  # fmt: skip
PUBLIC = ("robustfl_bench", *(f"robustfl_bench.{name}" for name in ("api.plot", "testing", *ROOMS)))


def build(folder: Path) -> None:
    """Write the pages of PUBLIC and of the modules within them."""
    # The attributes of Dataset are declared twice, for type checkers and at run time; pdoc finds neither.
    warnings.filterwarnings("ignore", r"Cannot determine where robustfl_bench\.Dataset\.")
    pdoc.render.configure(docformat="restructuredtext", show_source=False)
    pdoc.pdoc(*PUBLIC, output_directory=folder)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
    print(f"written: {sys.argv[1]}/index.html")
