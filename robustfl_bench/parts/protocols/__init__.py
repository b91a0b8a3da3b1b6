"""Protocols: who trains from which model in a round, what the clients send, and when the server steps."""

from robustfl_bench.base.public import facade

__getattr__, __dir__ = facade(__name__)
