"""Networks, one idea per file; PyTorch's default initialisation unless stated."""

from robustfl_bench.base.public import facade

__getattr__, __dir__ = facade(__name__)
