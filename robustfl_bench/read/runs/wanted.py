"""The runs of a preset, by their settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from robustfl_bench.read.runs import matching
from robustfl_bench.read.runs.matching import Config
from robustfl_bench.read.runs.records import text
from robustfl_bench.runner.config import compose, options


@dataclass(frozen=True)
class Wanted:
    """A run of a preset: its overrides by key (``words``), its ``settings`` (``matching.config``) and its ``seed``."""

    words: Mapping[str, str]
    settings: frozenset[tuple[str, str]]
    seed: str


def wanted(preset: str, *overrides: str) -> Iterator[Wanted]:
    """Every run of a preset with these overrides, one after the other; ``KEY=a,b`` makes a run for each value."""
    resolved: dict[tuple[str, ...], frozenset[tuple[str, str]]] = {}
    default = text(options.defaults()[1]["seed"])
    for run in compose.sweep([f"+experiment={preset}", *overrides]):
        others = tuple(word for word in run if not word.startswith("seed="))
        if others not in resolved:
            resolved[others] = _settings(others)
        words = dict(word.split("=", 1) for word in run)
        yield Wanted(words, resolved[others], words.get("seed", default))


def sweep(preset: str, *overrides: str) -> dict[frozenset[tuple[str, str]], set[str]]:
    """The seeds of the runs of a preset, by their other settings."""
    seeds_by_settings: dict[frozenset[tuple[str, str]], set[str]] = {}
    for run in wanted(preset, *overrides):
        seeds_by_settings.setdefault(run.settings, set()).add(run.seed)
    return seeds_by_settings


def _settings(overrides: tuple[str, ...]) -> frozenset[tuple[str, str]]:
    config: Config = matching.config(compose.resolve(overrides).identity)
    return frozenset(config.items())
