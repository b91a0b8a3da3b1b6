"""The base class of local updates."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from robustfl_bench.base.abilities import Ability, Part, Table

if TYPE_CHECKING:
    from torch import Tensor

    from robustfl_bench.numerics.network.network import Network
    from robustfl_bench.numerics.network.samples import Samples
    from robustfl_bench.numerics.privacy import GaussianNoise


class LocalUpdate(Part):
    """The computation of a client between receiving a model and sending its update.

    With ``sends_models`` clients send models: rules still get updates, the received model minus the sent one, but
    attackers see and send models.

    ``repeats`` is the number of local steps or passes in a round, 1 if a straggler cannot make fewer. A local update
    with several repeats reads from ``samples.repeats`` how many each client makes; ``samples.epochs`` counts its passes
    itself. ``remembered`` is the number of vectors (d,) that are stored for each client. ``sends_a_gradient`` says that
    clients compute one gradient, whatever is then made of it, so that those of many models can be computed at once.
    ``sends_less`` says that an update travels in fewer bits than its d numbers have.
    """

    abilities: ClassVar[Table] = {
        "privacy": Ability(counts="never"),
        "sends_a_gradient": Ability(counts="never"),
        "sends_less": Ability(counts="never"),
        "remembered": Ability(wrapper="combine"),
    }

    if TYPE_CHECKING:

        @property
        def sends_models(self) -> bool:
            """Whether attackers see and send models."""

        @property
        def repeats(self) -> int:
            """Number of local steps or passes in a round, of which a straggler may leave out all but the first."""

        @property
        def remembered(self) -> int:
            """Number of vectors (d,) stored for each client."""

        @property
        def sends_a_gradient(self) -> bool:
            """Whether clients compute one gradient."""

        @property
        def sends_less(self) -> bool:
            """Whether an update travels in fewer bits than its numbers have."""
    else:
        sends_models, repeats, remembered = False, 1, 0
        sends_a_gradient, sends_less = False, False

    @property
    def privacy(self) -> GaussianNoise | None:
        """The noise that makes updates private; None if they are not."""
        return None

    @abstractmethod
    def __call__(self, network: Network, params: Tensor, samples: Samples, lr: float, out: Tensor) -> Tensor:
        """Fill the rows of ``out`` (n, d) with the updates of the clients of ``samples``, which start from ``params``
        (d,); returns their mean training losses (n,) float64 at ``params``."""

    def step_size(self, lr: float) -> float:
        """The factor of the aggregate in the server's step: ``lr`` if clients send gradients."""
        return lr
