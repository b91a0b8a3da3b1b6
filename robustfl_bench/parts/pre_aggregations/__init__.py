"""Transformations of the updates before the rule, one idea per file; ``conf/pre_aggregation`` holds a YAML for each."""

from robustfl_bench.base.public import facade

__getattr__, __dir__ = facade(__name__)
