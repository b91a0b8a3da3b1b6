"""Epsilon of a client whose gradients are noisy, counted by dp-accounting (Google's differential privacy library)."""

from dataclasses import dataclass
from functools import lru_cache

from robustfl_bench.base.errors import check_package


@dataclass(frozen=True)
class GaussianNoise:
    """The noise in a client's update, by which its samples are private: (epsilon, ``delta``)-differential privacy.

    ``multiplier`` is the standard deviation of the noise divided by the distance by which one sample of the client can
    move what the noise is added to.
    """

    multiplier: float
    delta: float

    def check(self) -> None:
        """Raise ConfigError unless dp-accounting is installed."""
        check_package("dp_accounting", "privacy")

    def epsilon(self, rounds: int, size: int, batch: int) -> float:
        """Epsilon after a client with ``size`` samples has sent ``rounds`` updates, each of ``batch`` of its samples
        drawn without replacement.

        Neighbours are data sets of the same size that differ in one sample of one client. What others see is all
        updates of the client. The accountant bounds Renyi divergences (sampling without replacement: Wang, Balle,
        Kasiviswanathan, AISTATS 2019, theorem 27). This bound can exceed that without sampling, which then counts.
        """
        return min(_epsilon(self, rounds, size, width) for width in {batch, size})


@lru_cache(maxsize=4096)  # 0.15 s a time; runs of a sweep ask the same
def _epsilon(noise: GaussianNoise, rounds: int, size: int, batch: int) -> float:
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    step: dp_accounting.DpEvent = dp_accounting.GaussianDpEvent(noise.multiplier)
    if batch < size:
        step = dp_accounting.SampledWithoutReplacementDpEvent(size, batch, step)
    accountant = RdpAccountant(neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE)
    accountant.compose(step, rounds)
    return float(accountant.get_epsilon(noise.delta))
