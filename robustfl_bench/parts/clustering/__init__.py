"""Clustering: several models trained at once, each by the clients it suits; one idea per file."""

from robustfl_bench.base.public import facade

__getattr__, __dir__ = facade(__name__)
