"""The base class of learning-rate schedules."""

from __future__ import annotations

from abc import abstractmethod

from robustfl_bench.base.abilities import Part


class Schedule(Part):
    """The learning rate as a function of the round."""

    @abstractmethod
    def __call__(self, lr: float, round: int) -> float:
        """The learning rate of ``round`` (from 0), given the initial rate ``lr``."""
