"""Computations of a client between receiving a model and sending an update."""

from robustfl_bench.base.public import facade

__getattr__, __dir__ = facade(__name__)
