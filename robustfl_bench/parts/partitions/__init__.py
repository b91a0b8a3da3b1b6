"""Partitions of samples over clients, one idea per file."""

from robustfl_bench.base.public import facade

__getattr__, __dir__ = facade(__name__)
