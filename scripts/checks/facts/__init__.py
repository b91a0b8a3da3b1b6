"""Recomputes the numbers in the sentences of pages from the runs that are kept in results/. Run: make facts

A fact is a sentence of a page with ``{}`` in the place of each number, and a function that computes these numbers. The
sentence with the computed numbers must stand on the page. What `make agreement`, `make arena`, `make catalogue` or a
command writes is no fact, and neither are the checks of results/forensics.md: tests/forensics.txt has them.

Each study has a module here, with its page in ``PAGE`` and its facts in ``FACTS``; a new one is found by itself.
"""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from scripts.checks.facts.fact import Fact


def facts() -> Iterator[tuple[str, Fact]]:
    """Every page with each of its facts."""
    for found in iter_modules(__path__):
        module = import_module(f"{__name__}.{found.name}")
        if (page := getattr(module, "PAGE", None)) is not None:
            yield from ((page, fact) for fact in module.FACTS)
