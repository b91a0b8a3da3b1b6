"""A run that cannot fit is refused before anything is loaded, in one line with n and d."""

import pytest

from robustfl_bench.experiment import memory
from tests.conftest import Bench

SMALL = ("rounds=1", "num_clients=20", "partition=iid", "model.hidden=[10]")
MATRIX = 4 * 20 * 760  # bytes: 20 clients by 64 * 10 + 10 + 10 * 10 + 10 parameters


@pytest.mark.parametrize(
    ("overrides", "matrices", "what"),
    [
        (("local_update=fedsgd",), 1, "the updates of n=20 clients by d=760 parameters take 60.8 kB"),
        (("local_update=momentum",), 2, "the updates of n=20 clients"),
        (
            ("local_update=momentum", "local_update.inner._target_=robustfl_bench.local_updates.rsa.Rsa"),
            3,
            "remembers of 20",
        ),
        (
            ("local_update=momentum", "attack=ipm", "num_byzantine=5", "byzantine_placement=replace"),
            1.75,
            "the updates of n=20 clients",
        ),
    ],
)
def test_what_a_run_needs(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, overrides: tuple[str, ...], matrices: float, what: str
) -> None:
    monkeypatch.setattr(memory, "_free_here", lambda: int(matrices * MATRIX))  # the models are not in it
    refused = bench(*SMALL, *overrides)
    assert refused.code == 2 and len(refused.err.splitlines()) == 1
    assert what in refused.err and "n=20, d=760" in refused.err and "lower num_clients (now 20)" in refused.err
    monkeypatch.setattr(memory, "_free_here", lambda: int(matrices * MATRIX) + 20_000)
    assert bench(*SMALL, *overrides).code == 0
