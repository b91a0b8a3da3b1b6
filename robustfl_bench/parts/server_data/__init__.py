"""The server's own labelled samples."""

from robustfl_bench.base.public import facade

__getattr__, __dir__ = facade(__name__)
