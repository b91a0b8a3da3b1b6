"""Prints the site's tables of kappas, from the files that `robustfl-bench resilience` wrote into results/resilience.

python scripts/generators/kappas.py
"""

import csv
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path

from robustfl_bench.commands.lab.resilience import Row, written
from robustfl_bench.lab.studies.measure import Resilience

ROOT = Path(__file__).parents[2]
NAMES = ("normal", "mixed", "digits")
TITLE = """# Kappa of rules, {}

`python scripts/generators/kappas.py` prints this page;
[Attackers who search](../blindspot/README.md#resilience-without-training) says what follows from it.

"""
WHOLE, WORDS = ("f", "n", "breakdown", "calls"), ("attack", "reason")


def pages() -> dict[str, Callable[[], str]]:
    """What makes the page of each file, by the path that it has on the site."""
    return {f"results/resilience/{name}.md": partial(_page, name) for name in NAMES}


def _page(name: str) -> str:
    with (ROOT / "results" / "resilience" / f"{name}.csv").open() as file:
        lines = list(csv.DictReader(file))
    rows = [Row(line["aggregator"], line["pre_aggregation"], _result(line)) for line in lines]
    return TITLE.format(name) + written(lines[0]["inputs"], rows, "markdown")


def _result(line: dict[str, str]) -> Resilience:
    values = {field.name: _value(field.name, line[field.name]) for field in fields(Resilience)}
    return Resilience(**values)


def _value(name: str, text: str) -> str | float | None:
    if name in WORDS:
        return text
    return None if text == "" else int(text) if name in WHOLE else float(text)


if __name__ == "__main__":
    for name in NAMES:
        print(_page(name))
