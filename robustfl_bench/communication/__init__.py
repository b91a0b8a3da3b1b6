"""Communication of updates: bits per client and round, by the formulas of Table 1 of BRACE (Fang et al., 2025)."""

from robustfl_bench.base.public import facade

__getattr__, __dir__ = facade(__name__)
