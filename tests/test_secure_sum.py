"""A server that learns only a sum over the clients: the same aggregates, and one line for rules that need more."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.doors.testing import check_aggregator, example_server
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView, SumForm
from robustfl_bench.parts.aggregators.secure_sum import SecureSum
from robustfl_bench.read.runs import commands, records
from robustfl_bench.runner.config import compose
from robustfl_bench.train.code_digest import closure_of
from tests.conftest import Bench, run_folders
from tests.rounds import build, names

FORMS = [
    ("average", {}), ("average", {"weighted": True}), ("norm_bound", {}), ("norm_bound", {"bound": 0.0}),
    ("signsgd", {}), ("brace", {}), ("brace", {"symmetric": True, "threshold": 2}), ("rlr", {}),
    ("rlr", {"direction": "mean"}), ("rsa", {}), ("fed_nga", {}), ("fed_nga", {"weighted": False}),
]  # fmt: skip
ALIASES = {"fedavg", "mean", "rar"}
N, D = 11, 37


def a_rule(name: str, **options: object) -> Aggregator:
    built: Aggregator = build("aggregator", name, num_byzantine=2)
    return type(built)(**{**vars(built), **options})


def a_round(seed: int) -> tuple[Updates, ServerView]:
    """Updates shorter and longer than a bound of 3, with zeros among their entries and one that is all zero."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(N, D)) * rng.uniform(0.1, 2, size=(N, 1)) * (rng.random((N, D)) < 0.8)
    rows[4] = 0
    counts = torch.from_numpy(rng.integers(1, 50, size=N)).double()
    return Updates(torch.from_numpy(rows).float(), counts), example_server(torch.ones(2, D), clients=N)


def test_the_rules_for_which_a_sum_is_enough() -> None:
    found = {name for name in names("aggregator") if a_rule(name).from_sum() is not None}
    assert found == {name for name, _ in FORMS} | ALIASES


@pytest.mark.parametrize(("name", "options"), FORMS)
def test_the_sum_of_messages_gives_the_aggregate_in_any_order(name: str, options: dict[str, object]) -> None:
    rule = a_rule(name, **options)
    for seed in range(3):
        updates, server = a_round(seed)
        wanted = rule(updates, server).vector
        found = SecureSum(rule)(updates, server)
        assert torch.allclose(found.vector, wanted, rtol=1e-5, atol=1e-6)
        assert found.weights is None and found.memory is None
        order = torch.from_numpy(np.random.default_rng(seed).permutation(N))
        other = SecureSum(rule)(Updates(updates.matrix[order], updates.counts[order]), server).vector
        assert torch.allclose(other, found.vector, rtol=1e-6, atol=1e-7)


@dataclass(frozen=True)
class OnlyTheSum(Aggregator):
    """The mean, for a server that must never see the matrix."""

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        raise AssertionError("the server saw single updates")

    def from_sum(self) -> SumForm:
        def sent(update: Updates) -> torch.Tensor:
            assert update.n == 1 and update.losses is None
            return update.matrix[0]

        return SumForm(sent, lambda total, n: total / n)


def test_the_rule_is_called_with_the_sum_and_a_client_sees_itself() -> None:
    updates, server = a_round(0)
    assert torch.allclose(SecureSum(OnlyTheSum())(updates, server).vector, updates.mean, atol=1e-6)


def test_a_rule_that_looks_at_single_updates_cannot_claim_the_form() -> None:
    class Claimed(type(a_rule("coomed"))):  # type: ignore[misc]
        def from_sum(self) -> SumForm:
            return OnlyTheSum().from_sum()

    with pytest.raises(AssertionError, match="Claimed: sum: from_sum and aggregate differ"):
        check_aggregator(Claimed())

    class Other(type(a_rule("signsgd"))):  # type: ignore[misc]
        def aggregate(self, updates: Updates, server: ServerView) -> torch.Tensor:
            return updates.matrix[0]

    assert Other().from_sum() is None


def test_what_needs_more_is_refused_in_one_line(bench: Bench) -> None:
    with pytest.raises(ConfigError, match="NormBound with these options has no form that needs only a sum"):
        SecureSum(a_rule("norm_bound", bound=None))
    for words, reason in (
        (("aggregator=krum",), "Krum with these options has no form that needs only a sum over the clients"),
        (("pre_aggregation=nnm",), "a pre-aggregation needs more than a sum over the clients"),
        (("weighting=samples",), "the server learns no client's number of samples: set weighting=none"),
        (("clustering=ifca",), "a server learns one sum over all clients: set clustering=none"),
        (("protocol=ring",), "a server gets one sum a round, of messages whose bits are not counted"),
    ):
        bench("secure_aggregation=true", *words).refused(2, reason)


def test_a_run_gives_the_same_model_and_records_no_weight_of_a_client(bench: Bench, tmp_path: Path) -> None:
    run = ("aggregator=norm_bound", "aggregator.bound=0.1", "attack=opt_ipm", "rounds=2", "num_clients=6",
           "num_byzantine=2", "model.hidden=[8]")  # fmt: skip
    found = []
    for secure in ("false", "true"):
        made = bench(*run, f"secure_aggregation={secure}", f"results_dir=secure_{secure}")
        assert made.code == 0, made.err
        (folder,) = run_folders(tmp_path / f"secure_{secure}").values()
        found.append(pd.read_csv(folder / "metrics.csv"))
    usual, summed = found
    assert np.allclose(usual["test_loss"], summed["test_loss"], rtol=1e-4)
    assert "byzantine_weight" in usual and "byzantine_weight" not in summed
    (row,) = records.of_folders([folder]).to_dict("records")
    assert {"secure_aggregation=true", "aggregator=norm_bound"} <= set(commands.overrides_of(row))


def test_other_runs_keep_their_id_and_their_code() -> None:
    usual = compose.resolve(("aggregator=norm_bound",))
    said = compose.resolve(("aggregator=norm_bound", "secure_aggregation=false"))
    secure = compose.resolve(("aggregator=norm_bound", "secure_aggregation=true"))
    assert usual.run_id == said.run_id != secure.run_id and "secure_aggregation" not in secure.identity
    used = [{unit.name for unit in closure_of(run.identity).units} for run in (usual, secure)]
    assert not any("from_sum" in name for name in used[0])
    assert any("NormBound" in name and "from_sum" in name for name in used[1])
