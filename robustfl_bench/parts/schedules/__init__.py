"""Schedules: the learning rate as a function of the round."""

from robustfl_bench.base.public import facade

__getattr__, __dir__ = facade(__name__)
