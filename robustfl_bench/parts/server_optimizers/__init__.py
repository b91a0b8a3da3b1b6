"""Server optimizers: the server's step along an aggregate, for each model."""

from robustfl_bench.base.public import facade

__getattr__, __dir__ = facade(__name__)
