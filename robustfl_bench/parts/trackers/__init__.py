"""Experiment trackers, one per file; ``conf/tracker`` holds a YAML for each."""

from robustfl_bench.base.public import facade

__getattr__, __dir__ = facade(__name__)
