"""Rules as aggregators of NVFlare (https://nvflare.readthedocs.io), and attacks as filters of its clients: ``pip
install "robustfl-bench[nvflare]"``.

For its FedAvg recipes and for ScatterAndGather, by NVFlare's ``ModelAggregator``; tried with 2.9. Importing this
module imports NVFlare and PyTorch.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base.errors import ConfigError, check_package
from robustfl_bench.doors.liar import Liar
from robustfl_bench.numerics.named_arrays import Arrays, NamedArrays, Vector
from robustfl_bench.numerics.updates import Aggregate
from robustfl_bench.parts.aggregators.base import Aggregator
from robustfl_bench.parts.attacks.base import Attack
from robustfl_bench.parts.pre_aggregations.base import PreAggregation
from robustfl_bench.train.alone import FrameworkServer, RuleAlone

check_package("nvflare")

from nvflare.apis.dxo import DXO, DataKind  # noqa: E402
from nvflare.apis.dxo_filter import DXOFilter  # noqa: E402
from nvflare.apis.fl_constant import FLMetaKey  # noqa: E402
from nvflare.apis.fl_context import FLContext  # noqa: E402
from nvflare.apis.shareable import Shareable  # noqa: E402
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType  # noqa: E402
from nvflare.app_common.aggregators.model_aggregator import ModelAggregator  # noqa: E402
from nvflare.app_common.utils.fl_model_utils import FLModelUtils  # noqa: E402

NEEDED = {
    "params": "the model, which NVFlare does not show to an aggregator: take another rule",
    "losses_of": "losses that clients report when asked, which NVFlare does not do: take another rule",
}


class RobustAggregator(ModelAggregator):  # type: ignore[misc]
    """A rule for NVFlare: ``FedAvgRecipe(aggregator=RobustAggregator(Krum(num_byzantine=2)), ...)``.

    Clients send differences, ``FLModel(params_type=ParamsType.DIFF)``; set ``aggregator_data_kind=WEIGHT_DIFF`` in the
    recipe. An update is the negative difference, over all floating-point arrays; other arrays do not change. The model
    moves by ``server_lr`` times the aggregate. ``pre_aggregation`` transforms the updates. Sample counts are the
    numbers of steps that clients report as NUM_STEPS_CURRENT_ROUND, by default 1, as in NVFlare. ``seed`` fixes the
    draws of the rule. The rule's memory is kept from round to round. Metrics of clients are not aggregated.

    A model that is no difference, or whose arrays have other names, shapes or types than those of most clients, is left
    out; of two models of a client the last counts; a non-finite update is replaced by zeros. If there are too few
    models for the rule, the global model does not change. Raises ConfigError if no model is a difference, and where the
    rule needs what NVFlare does not give it, such as samples of the server.
    """

    expected_data_kind = DataKind.WEIGHT_DIFF  # which recipes compare with theirs

    def __init__(
        self,
        rule: Aggregator,
        pre_aggregation: PreAggregation | None = None,
        server_lr: float = 1.0,
        seed: int = 0,
    ) -> None:
        if not 0 < server_lr < math.inf:
            raise ConfigError(f"server_lr must be > 0, got {server_lr!r}")
        super().__init__()
        self.rule, self.pre_aggregation, self.server_lr, self.seed = rule, pre_aggregation, server_lr, seed
        self._asked = RuleAlone(rule, pre_aggregation, seed, lambda name: NEEDED.get(name, "samples of the server"))
        self._server, self._round = FrameworkServer(self._asked, server_lr), 0
        self._sent: dict[str, FLModel] = {}

    @property
    def last(self) -> Aggregate | None:
        """The last aggregate, with the weights of the clients if the rule gives them."""
        return self._asked.last

    def accept(self, shareable: Shareable, fl_ctx: FLContext) -> bool:
        """Keep the model that a client has sent; NVFlare's ScatterAndGather calls this."""
        self.fl_ctx = fl_ctx
        model = FLModelUtils.from_shareable(shareable, fl_ctx)
        model.meta["client_name"] = fl_ctx.get_peer_context().get_identity_name()  # whatever the client says
        self.accept_model(model)
        return True

    def accept_model(self, model: FLModel) -> None:
        """Keep the model of the client ``client_name`` of its ``meta``, which NVFlare sets."""
        self._sent[model.meta["client_name"]] = model

    def reset_stats(self) -> None:
        """Forget the models of the round; what the rule remembers stays."""
        self._sent = {}

    def aggregate_model(self) -> FLModel:
        """The difference of the next global model from this one, of the type of array that the clients have sent."""
        sent, self._sent = self._sent, {}
        arrays = {name: _arrays(sent[name]) for name in sorted(sent)}  # models arrive in any order
        models = {name: arrays for name, arrays in arrays.items() if arrays}
        if not models:
            raise ConfigError(
                f"RobustAggregator needs differences, but none of {len(sent)} clients has sent one: send "
                "FLModel(params_type=ParamsType.DIFF), and set aggregator_data_kind=DataKind.WEIGHT_DIFF in the recipe"
            )
        kind = NamedArrays(_most_common(list(models.values())))
        fitting = [name for name, model in models.items() if kind.fit(model)]
        if left := len(sent) - len(fitting):
            self.warning(f"left out {left} models that do not fit")
        moved = np.zeros(sum(kind.sizes))
        try:
            self._asked.check(len(fitting))
        except ConfigError as error:
            self.warning(f"the model stays as it is: {error}")
        else:

            def updates() -> Iterator[tuple[Vector, float]]:
                for name in fitting:
                    yield -kind.vector(models[name]), _count(sent[name])

            moved = self._server.step(self._round, fitting, updates(), kind.sizes)
        self._round += 1
        as_tensors = isinstance(next(iter(sent[fitting[0]].params.values())), Tensor)
        params = {name: torch.from_numpy(array) if as_tensors else array for name, array in kind.named(moved).items()}
        return FLModel(params=params, params_type=ParamsType.DIFF)


class LyingFilter(DXOFilter):  # type: ignore[misc]
    """A filter of an NVFlare client that lies: ``recipe.add_client_output_filter(LyingFilter(attack, 10))``.

    It turns the difference that the client sends into what the attack makes of it, see ``Liar``; ``num_clients`` take
    part in a round, ``sites`` are the names of those that lie, None: all with this filter. As an input filter as well
    it knows the model; without, an attack that reads the model takes zeros for it. What the attack remembers is here.
    """

    def __init__(self, attack: Attack, num_clients: int, sites: Sequence[str] | None = None, seed: int = 0) -> None:
        super().__init__([DataKind.WEIGHTS, DataKind.WEIGHT_DIFF], None)
        self._liar, self._sites = Liar(attack, num_clients, seed), sites
        self._model: Vector | None = None
        self._before: Vector | None = None
        self._memory: dict[str, Tensor] = {}
        self._round = 0

    def process_dxo(self, dxo: DXO, shareable: Shareable, fl_ctx: FLContext) -> DXO | None:
        """The lie in place of a difference; a model that comes in is kept."""
        arrays = {name: np.asarray(value) for name, value in dxo.data.items()}
        kind = NamedArrays(arrays)
        if dxo.data_kind == DataKind.WEIGHTS:
            self._model = kind.vector()
            return None
        if self._sites is not None and fl_ctx.get_identity_name() not in self._sites:
            return None
        number = shareable.get_header(FLMetaKey.CURRENT_ROUND)
        self._round = self._round if number is None else int(number)
        start = np.zeros(sum(kind.sizes)) if self._model is None else self._model
        end, self._memory = self._liar.sent(self._round, start, start + kind.vector(), self._before, self._memory)
        self._before, self._round = self._model, self._round + 1
        dxo.data = kind.named(end - start)
        return dxo


def _arrays(model: FLModel) -> Arrays:
    """The arrays of a difference; empty if the model is none."""
    if model.params_type != ParamsType.DIFF or not isinstance(model.params, dict):
        return {}
    try:
        return {name: np.asarray(value) for name, value in model.params.items()}
    except Exception:  # what is no array
        return {}


def _most_common(models: list[Arrays]) -> dict[str, np.ndarray]:
    """Zeros with the names, shapes and types that most models have."""
    kinds = [tuple((name, model[name].shape, model[name].dtype) for name in sorted(model)) for model in models]
    ((kind, _),) = Counter(kinds).most_common(1)
    return {name: np.zeros(shape, dtype) for name, shape, dtype in kind}


def _count(model: FLModel) -> float:
    """The number of steps that a client reports; 1 unless that is a positive number, as in NVFlare."""
    steps: Any = model.meta.get(FLMetaKey.NUM_STEPS_CURRENT_ROUND)
    return float(steps) if isinstance(steps, int | float) and 0 < steps < math.inf else 1.0
