"""Rules of other packages, used as they are: functions of a matrix, objects that are called with one, strategies."""

from robustfl_bench.base.public import facade

__getattr__, __dir__ = facade(__name__)
