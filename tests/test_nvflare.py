"""Rules as aggregators of NVFlare's real package: rounds of its FedAvg controller, against its own average."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("nvflare", reason='needs the real package: pip install "robustfl-bench[nvflare]"')

from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.fl_constant import FLMetaKey, ReservedKey
from nvflare.apis.fl_context import FLContext
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.utils.fl_model_utils import FLModelUtils
from nvflare.app_common.workflows.fedavg import FedAvg

from robustfl_bench.doors.nvflare import LyingFilter, RobustAggregator
from robustfl_bench.interfaces import ConfigError
from robustfl_bench.parts.aggregators.average import Average
from robustfl_bench.parts.aggregators.centered_clipping import CenteredClipping
from robustfl_bench.parts.aggregators.coomed import CooMed
from robustfl_bench.parts.aggregators.fltrust import FLTrust
from robustfl_bench.parts.aggregators.krum import Krum
from robustfl_bench.parts.attacks.held import Held
from robustfl_bench.parts.attacks.ipm import InnerProductManipulation
from robustfl_bench.parts.pre_aggregations.nnm import Nnm

SITES = [f"site-{i}" for i in range(9)]
START = {"w": np.zeros((3, 4), np.float32), "steps": np.array(5), "b": np.ones(2, np.float64)}


def honest(site: str, model: FLModel) -> FLModel:
    """A client that moves half-way to a point of its own."""
    rng = np.random.default_rng([int(site[-1]), model.current_round])
    params = {
        name: (0.5 * (rng.normal(size=value.shape) - value)).astype(value.dtype) for name, value in model.params.items()
    }
    params["steps"] = np.array(1)
    meta = {FLMetaKey.NUM_STEPS_CURRENT_ROUND: 5 + int(site[-1])}
    return FLModel(params_type=ParamsType.DIFF, params=params, meta=meta)


class InProcess(FedAvg):  # type: ignore[misc]
    """The controller with clients in this process: each is a function of its name and the model."""

    def __init__(self, aggregator: RobustAggregator | None, clients: Any = None, rounds: int = 3) -> None:
        start = {name: value.copy() for name, value in START.items()}
        super().__init__(num_clients=len(SITES), num_rounds=rounds, model=start, aggregator=aggregator)
        self.clients: dict[str, Callable[[str, FLModel], FLModel]] = dict.fromkeys(SITES, honest) | (clients or {})
        self.fl_ctx, self.saved = FLContext(), FLModel(params={})

    def sample_clients(self, num_clients: int | None = None) -> list[str]:
        return SITES

    def send_model(self, task_name: str, targets: Any, data: FLModel, callback: Any, **_: Any) -> None:  # type: ignore[override]
        for site in reversed(targets):
            sent = FLModelUtils.from_shareable(FLModelUtils.to_shareable(self.clients[site](site, data)))
            sent.meta["client_name"] = site  # as the controller does
            callback(sent)

    def get_num_standing_tasks(self) -> int:
        return 0

    def event(self, event_type: str) -> None: ...

    def fire_event_with_data(self, *_: Any) -> None: ...

    def save_model(self, model: FLModel) -> None:
        self.saved = model


def trained(aggregator: RobustAggregator | None, clients: Any = None, rounds: int = 3) -> dict[str, np.ndarray]:
    controller = InProcess(aggregator, clients, rounds)
    if aggregator is not None:
        aggregator.handle_event("_start_run", controller.fl_ctx)
    controller.run()
    params: dict[str, np.ndarray] = controller.saved.params
    return params


def test_the_weighted_mean_is_nvflares_own() -> None:
    made, expected = trained(RobustAggregator(Average(weighted=True))), trained(None)
    assert not np.allclose(expected["w"], START["w"], atol=0.01)
    for name in ("w", "b"):
        np.testing.assert_allclose(made[name], expected[name], rtol=1e-4, atol=1e-5)
        assert (made[name].shape, made[name].dtype) == (START[name].shape, START[name].dtype)
    assert made["steps"] == 5, "what is no floating-point number stays"


def test_models_that_do_not_fit_are_left_out_and_attackers_do_not_win() -> None:
    def whole(site: str, model: FLModel) -> FLModel:
        return FLModel(params=dict(model.params))

    def other_shape(site: str, model: FLModel) -> FLModel:
        return FLModel(params_type=ParamsType.DIFF, params={"w": np.zeros(7, np.float32)})

    def huge(site: str, model: FLModel) -> FLModel:
        sent = honest(site, model)
        return FLModel(params_type=ParamsType.DIFF, params=sent.params | {"w": np.full((3, 4), np.inf, np.float32)})

    clients = {SITES[0]: whole, SITES[1]: other_shape, SITES[2]: huge}
    aggregator = RobustAggregator(Average())
    made = trained(aggregator, clients, 1)
    start = FLModel(params=START, current_round=0)
    moved = [honest(site, start).params["w"] for site in SITES[3:]]
    np.testing.assert_allclose(made["w"], np.sum(moved, axis=0) / 7, atol=1e-6)
    assert aggregator.last is not None and aggregator.last.weights is not None and len(aggregator.last.weights) == 7


def test_krum_selects_a_client_and_the_state_goes_from_round_to_round() -> None:
    chosen = trained(RobustAggregator(Krum(num_byzantine=2)), rounds=1)
    start = FLModel(params=START, current_round=0)
    assert any(np.allclose(chosen["w"], honest(site, start).params["w"], atol=1e-6) for site in SITES)
    seen = []

    class Spy(CenteredClipping):
        def aggregate(self, updates: Any, server: Any) -> Any:
            seen.append((server.round, server.previous is None, server.counts.tolist()))
            return super().aggregate(updates, server)

    trained(RobustAggregator(Spy()))
    counts = [5.0 + i for i in range(9)]
    assert seen == [(0, True, counts), (1, False, counts), (2, False, counts)]


def test_a_pre_aggregation_a_server_rate_and_tensors() -> None:
    whole = trained(RobustAggregator(Average(), Nnm(2)), rounds=1)
    half = trained(RobustAggregator(Average(), Nnm(2), server_lr=0.5), rounds=1)
    np.testing.assert_allclose(half["w"], whole["w"] / 2, atol=1e-6)
    aggregator = RobustAggregator(CooMed())
    for number in range(3):
        params = {"w": torch.full((2,), float(number))}
        model = FLModel(params_type=ParamsType.DIFF, params=params, meta={"client_name": SITES[number]})
        aggregator.accept_model(model)
    result = aggregator.aggregate_model()
    assert result.params_type == ParamsType.DIFF and torch.equal(result.params["w"], torch.ones(2))


def test_scatter_and_gather_hands_over_shareables_of_the_client_that_has_sent_them() -> None:
    aggregator = RobustAggregator(CooMed())
    for site, value in ((SITES[0], 7.0), (SITES[0], 1.0), (SITES[1], 3.0)):  # the first sends twice
        context, peer = FLContext(), FLContext()
        peer.set_prop(ReservedKey.IDENTITY_NAME, site, private=False, sticky=False)
        context.set_peer_context(peer)
        dxo = DXO(DataKind.WEIGHT_DIFF, data={"w": np.array([value])}, meta={"client_name": "someone else"})
        assert aggregator.accept(dxo.to_shareable(), context)
    shareable = aggregator.aggregate(FLContext())
    assert FLModelUtils.from_shareable(shareable).params["w"] == [2.0]


def test_what_nvflare_cannot_give_is_one_line() -> None:
    with pytest.raises(ConfigError, match=r"^FLTrust needs samples of the server"):
        trained(RobustAggregator(FLTrust()))
    with pytest.raises(ConfigError, match="needs differences, but none of 9 clients has sent one: send "):
        trained(RobustAggregator(CooMed()), dict.fromkeys(SITES, lambda site, model: FLModel(params=model.params)))
    with pytest.raises(ConfigError, match="server_lr must be > 0"):
        RobustAggregator(CooMed(), server_lr=0)
    stays = trained(RobustAggregator(Krum(num_byzantine=4)), rounds=1)  # too few clients for the rule
    assert np.array_equal(stays["w"], START["w"])


def _sent(filter: LyingFilter, site: str, kind: str, params: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What goes through the filter of a site."""
    context = FLContext()
    context.set_prop(ReservedKey.IDENTITY_NAME, site, private=False)
    shareable = filter.process(DXO(kind, data=dict(params)).to_shareable(), context)
    data: dict[str, np.ndarray] = from_shareable(shareable).data
    return data


def test_a_client_lies_by_a_filter() -> None:
    move = {"w": np.full((3, 4), 0.5, np.float32), "steps": np.array(1), "b": np.full(2, -1.0)}
    liar = LyingFilter(InnerProductManipulation(scale=3), 9, sites=["site-1"])
    made = _sent(liar, "site-1", DataKind.WEIGHT_DIFF, move)
    np.testing.assert_allclose(made["w"], -1.5)
    np.testing.assert_allclose(made["b"], 3)
    assert made["steps"] == 1 and made["w"].dtype == np.float32
    assert _sent(liar, "site-2", DataKind.WEIGHT_DIFF, move)["w"][0, 0] == 0.5
    back = LyingFilter(Held(entry="rewind", strength=1), 9)
    for number in range(2):
        assert _sent(back, "site-1", DataKind.WEIGHTS, {"w": START["w"] + number})["w"][0, 0] == number
        made = _sent(back, "site-1", DataKind.WEIGHT_DIFF, {"w": np.ones((3, 4), np.float32)})
    assert made["w"].max() < 0, "back to the first model"
