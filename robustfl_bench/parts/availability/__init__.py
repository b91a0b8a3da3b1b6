"""Availability: which clients of a round deliver, and how much of their local work they do; one idea per file."""

from robustfl_bench.base.public import facade

__getattr__, __dir__ = facade(__name__)
