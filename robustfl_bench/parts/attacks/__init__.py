"""Attacks, one idea per file; ``conf/attack`` holds a YAML of the same name for each."""

from robustfl_bench.base.public import facade

__getattr__, __dir__ = facade(__name__)
