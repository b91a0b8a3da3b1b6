"""Uploads in bfloat16: who rounds what, and that it is a run of its own."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from robustfl_bench.interfaces import ConfigError
from robustfl_bench.numerics import in_bfloat16
from robustfl_bench.numerics.network import flat
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.protocols.star import Star
from robustfl_bench.runner.config import compose, request
from robustfl_bench.runner.experiment import memory
from robustfl_bench.runner.experiment.plan import plan
from robustfl_bench.train.storage import InBfloat16
from tests.conftest import Bench
from tests.presets import Recording, small, trained

BASE = ("rounds=3", "batch_size=8", "attack=lie", "num_byzantine=4", "protocol=star")
BFLOAT16 = ("protocol.bits=16", "protocol.update_dtype=bfloat16")


def received(*overrides: str) -> tuple[list[Tensor], Tensor, float]:
    """The updates (n, d) of each round as the rule sees them, the last model (d,), and the bits of a round."""
    rule = Recording()
    state, records = trained(small(*BASE, *overrides, aggregator=rule))
    return rule.given, state.params[0], float(records[-1]["bits_total"])


def test_all_uploads_are_rounded_also_those_of_attackers() -> None:
    (plain, model, bits), (rounded, other, fewer) = received(), received(*BFLOAT16)
    assert len(plain[0]) == 24
    assert not torch.equal(plain[0], plain[0].bfloat16().float())
    for matrix in rounded:
        assert matrix.dtype == torch.float32 and torch.equal(matrix, matrix.bfloat16().float())
    assert torch.equal(rounded[0][:20], plain[0][:20].bfloat16().float())  # in the first round from the same model
    assert not torch.equal(model, other)
    moved = (model - received("rounds=1", "lr=1e-30")[1]).norm()
    assert (model - other).norm() < 2**-8 * math.sqrt(3) * moved
    assert fewer == bits / 2


def test_an_upload_that_overflows_bfloat16_counts_as_not_finite() -> None:
    largest = torch.finfo(torch.float32).max
    uploads = torch.tensor([[largest, 1.0], [1 + 2**-8, -(2.0**-130)]])
    Star(16, "bfloat16").deliver(uploads)
    assert uploads.tolist() == [[math.inf, 1.0], [1.0, -(2.0**-130)]]


def test_it_is_a_run_of_its_own_and_the_default_none() -> None:
    plain, sixteen = compose.resolve(["protocol=star"]), compose.resolve(["protocol=star", BFLOAT16[0]])
    assert plain.run_id == "8b9faec817d8" and "update_dtype" not in plain.identity["protocol"]
    assert compose.resolve(["protocol=star", *BFLOAT16]).run_id not in (plain.run_id, sixteen.run_id)


def test_large_runs_store_them_in_bfloat16_unless_attackers_ask_the_rule(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = (*BASE[:1], *BASE[2:], *BFLOAT16, "num_clients=24", "partition=iid", "aggregator=trmean")
    monkeypatch.setattr(flat, "CHUNK", 100)
    usual = bench(*run)
    stored: list[Tensor] = []

    def trained(storage: InBfloat16, *given: Any) -> Updates:
        stored.append(given[0])
        return of_all(storage, *given)

    of_all = InBfloat16.train
    monkeypatch.setattr(InBfloat16, "train", trained)
    monkeypatch.setattr(memory, "SMALL", 0)
    again = bench(*run, "results_dir=other")
    assert again.code == 0 and again.out.split("  ")[0] == usual.out.split("  ")[0]
    assert len(stored) == 3 and all(isinstance(rows, in_bfloat16.Bfloat16Matrix) for rows in stored)
    planned = plan(request.composed(run)[0])
    updates = memory.needs(planned, torch.device("cpu"))["the updates of n=28 clients by d=55210 parameters"]
    assert updates == 55_210 * (2 * 28 + 4 * 3), "the honest clients train in eight turns"
    for other in ("attack=worst", "batch_size=8"):
        assert memory.check(plan(request.composed([*run, other])[0])) == "float32"


def test_other_types_and_other_bits_are_refused(bench: Bench) -> None:
    with pytest.raises(ConfigError, match="update_dtype must be one of bfloat16, got 'float16'"):
        Star(16, "float16")
    with pytest.raises(ConfigError, match="set bits=16, got 32"):
        Star(update_dtype="bfloat16")
    bench("protocol=star", BFLOAT16[1]).refused(2, "error: protocol: update_dtype=bfloat16 sends 16 bits")
    assert bench("protocol=ring", "aggregator=rar", BFLOAT16[1]).code == 2
