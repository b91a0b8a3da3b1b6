"""Communication: bits by Table 1, and the real ring, whose processes end where the simulation ends, to the bit."""

import json
import os
import signal
import time
from math import ceil, log2
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from robustfl_bench.interfaces import Aggregator, ConfigError
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.aggregators.average import Average
from robustfl_bench.parts.aggregators.brace import Brace
from robustfl_bench.parts.aggregators.krum import Krum
from robustfl_bench.parts.aggregators.rlr import Rlr
from robustfl_bench.parts.aggregators.signsgd import SignSgd
from robustfl_bench.parts.protocols.chunks import chunks, ring_sum
from robustfl_bench.parts.protocols.ring import Ring
from robustfl_bench.parts.protocols.star import Star
from robustfl_bench.read.runs import records
from robustfl_bench.read.tables.compare import compare
from robustfl_bench.read.tables.described import tables
from robustfl_bench.runner.config import compose, request
from robustfl_bench.runner.experiment.plan import plan
from robustfl_bench.runner.processes import launch as ring
from robustfl_bench.runner.processes.member import check
from robustfl_bench.runner.processes.peers import Link, joined
from robustfl_bench.runner.processes.steps import Floats, Packed, RingStep, reduced
from robustfl_bench.runner.store.folders import RunFolder
from robustfl_bench.runner.store.results import of_rows
from robustfl_bench.train.rounds import initial_state
from tests import processes
from tests.conftest import Bench, contents, run_folders
from tests.presets import federation
from tests.reference_ring import bits_by_ring, by_ring

pytestmark = pytest.mark.slow

FIGURE_1 = [[5, 2, -10], [8, -4, 7], [9, 3, 8]]
POISONED = [[5, 2, -200], [8, -4, 7], [9, 3, 8]]
SIGNS: list[Aggregator] = [Brace(2), Brace(1, symmetric=True), SignSgd(), Rlr(2)]

# --- formulas and order ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "d"), [(1, 7), (2, 5), (3, 3), (3, 10), (8, 1000), (5, 3), (100, 1234)])
def test_bits_are_those_of_table_1(n: int, d: int) -> None:
    m = 32
    assert Star(m).total_bits(Krum(1), n, d) == Star(m).total_bits(Average(), n, d) == m * n * d
    assert Ring(m).total_bits(Average(), n, d) / n == pytest.approx(2 * m * d * (n - 1) / n)
    assert Ring(m).total_bits(Average(), n, d) == bits_by_ring(n, d, m, m)
    for rule in SIGNS:
        assert Star(m).total_bits(rule, n, d) == n * d
        assert Ring(m).total_bits(rule, n, d) / n == pytest.approx(d * (n - 1) * (m + 1) / n)
        outcomes = 1 if rule == Brace(2) else 2
        needed = bits_by_ring(n, d, ceil(log2(2 * n + 1)), outcomes)
        assert Ring(m, "needed").total_bits(rule, n, d) == needed
    assert Star(m).total_bits(Rlr(2, "mean"), n, d) == m * n * d


@pytest.mark.parametrize(("n", "d"), [(1, 4), (2, 7), (3, 3), (5, 3), (7, 40)])
def test_the_ring_sums_in_the_order_of_its_messages(n: int, d: int) -> None:
    rows = torch.randn(n, d, generator=torch.Generator().manual_seed(n * d))
    parts = chunks(d, n)
    assert [i for part in parts for i in range(d)[part]] == list(range(d))
    assert max(len(range(d)[p]) for p in parts) - min(len(range(d)[p]) for p in parts) <= 1
    np.testing.assert_array_equal(ring_sum(rows).numpy(), by_ring(rows.tolist()))
    torch.testing.assert_close(ring_sum(rows), rows.sum(dim=0))


def test_the_order_matters_and_is_that_of_figure_1() -> None:
    rows = torch.tensor([[1e8], [1.0], [-1e8]]).expand(3, 3).contiguous()
    assert ring_sum(rows).tolist() == [0.0, 0.0, 1.0]  # chunk 3 starts at client 3 and meets client 1 first


@pytest.mark.parametrize("rule", [Average(), *SIGNS], ids=repr)
def test_a_ring_makes_what_the_server_makes(rule: Any) -> None:
    updates = Updates(torch.randn(6, 50, generator=torch.Generator().manual_seed(3)).round(decimals=1))
    here = Ring().aggregate(rule, updates, None).vector  # type: ignore[arg-type]
    torch.testing.assert_close(here, rule(updates, None).vector)


@pytest.mark.parametrize(("low", "step", "count"), [(-1, 2, 2), (-1, 1, 3), (-100, 1, 201), (-7, 1, 15)])
@pytest.mark.parametrize("d", [0, 1, 8, 13])
def test_numbers_come_out_of_the_bytes_as_they_went_in(low: int, step: int, count: int, d: int) -> None:
    bits = (count - 1).bit_length()
    numbers = torch.from_numpy(low + step * np.random.default_rng(d).integers(0, count, d)).float()
    for code in (Packed(low, step, bits), Packed(low, step, 32), Floats()):
        encoded = code.encode(numbers)
        assert encoded.dtype == torch.uint8 and len(encoded) == code.num_bytes(d)
        assert torch.equal(code.decode(encoded, d), numbers)
    assert Packed(low, step, bits).num_bytes(d) == ceil(d * bits / 8)


def test_table_1_is_printed_with_its_formulas(tmp_path: Path) -> None:
    base = ("+experiment=brace/table1", "+threat=brace/none")
    on_ring = compose.resolve([*base, "+method=brace/signsgd", "protocol=ring"])
    at_server = compose.resolve([*base, "+method=brace/krum", "protocol=star"])
    for run, bits in ((on_ring, {"bits_per_client": 4572493.2}), (at_server, {"bits_total": 447872000})):
        folder = RunFolder(tmp_path, ["any"], run.run_id)
        folder.open()
        folder.begin(run.identity)
        row = {"round": run.config["rounds"], "test_accuracy": 0.1, "test_loss": 2.0} | bits
        folder.append("metrics.csv", row)
        folder.finish({"status": "finished", "scale": "paper", "choices": {}} | of_rows([row]))
        folder.close()
    found = compare(tables()["brace/table1"], records.load(tmp_path))
    assert {row: cell.inside for (_, row, _), cell in found.judged.items()} == {"signsgd": True, "krum": True}
    assert len(found.cells) == 9


def test_a_rule_that_needs_a_server_is_an_infeasible_cell_of_a_sweep(bench: Bench, tmp_path: Path) -> None:
    run = ("-m", "rounds=1", "attack=none", "model.hidden=[8]", "protocol=star,ring", "aggregator=krum")
    assert bench(*run).code == 0
    summaries = [json.loads(path.read_text()) for path in tmp_path.glob("results/runs/*/summary.json")]
    assert sorted(summary["status"] for summary in summaries) == ["finished", "infeasible"]


# --- real processes ----------------------------------------------------------------------------------------------


def _worked_examples(rank: int, meeting_point: str, folder: Path) -> None:
    with joined(rank, 3, meeting_point, timeout=60) as link:
        found = []
        for gradients, rule in (
            (FIGURE_1, Average()),
            (POISONED, Average()),
            (FIGURE_1, Brace(2)),
            (POISONED, Brace(2)),
        ):
            before, form = link.payload, rule.ring
            assert form is not None
            own = torch.tensor(gradients[rank], dtype=torch.float32)
            found.append([*reduced(link, own, form, "printed").tolist(), link.payload - before])
        (folder / f"{rank}.json").write_text(json.dumps(found))


def test_the_papers_examples_on_three_processes(tmp_path: Path) -> None:
    context = ring.local().context
    clients = [
        context.Process(target=_worked_examples, args=(i, f"file://{tmp_path}/meet", tmp_path)) for i in range(3)
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join(120)
        assert client.exitcode == 0
    found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(3)]
    assert found[0] == found[1] == found[2]
    mean, poisoned, brace, brace_poisoned = found[0]
    np.testing.assert_allclose(3 * np.array(mean[:3]), [22, 1, 5], rtol=1e-6)
    np.testing.assert_allclose(3 * np.array(poisoned[:3]), [22, 1, -185], rtol=1e-6)
    assert brace[:3] == brace_poisoned[:3] == [1, -1, -1]  # sums of signs 3, 1, 1 against lambda = 2
    assert mean[3] * 8 == 2 * 32 * 3 * 2 / 3
    assert brace[3] == 2 * 4 + 2 * 1  # two sums of 32 bits; two outcomes of one bit, each in a byte of its own


SMALL = ("partition=iid", "model.hidden=[16]", "batch_size=16", "attack=none", "protocol=ring", "device=cpu")
RUNS = {
    "rar": ("num_clients=2", "aggregator=rar", "local_update=fedavg", "eval_every=2"),
    "brace": ("num_clients=3", "aggregator=brace", "aggregator.threshold=1", "lr=0.01", "attack=scheduled",
              "attack@attack.attack=label_flip", "attack.first=2", "attack.pause=1", "num_byzantine=1",
              "byzantine_placement=replace"),
    "signsgd": ("num_clients=3", "aggregator=signsgd", "lr=0.01", "protocol.counting=needed"),
}  # fmt: skip


def _summary(folder: Path) -> Any:
    (path,) = run_folders(folder).values()
    return json.loads((path / "summary.json").read_text())


@pytest.mark.parametrize("rule", RUNS)
def test_processes_and_simulation_end_with_the_same_bits(bench: Bench, tmp_path: Path, rule: str) -> None:
    run = [*SMALL, "rounds=5", *RUNS[rule]]
    assert ring.launch(60, 1, [*run, f"results_dir={tmp_path}/real"]) == 0
    assert bench(*run, "results_dir=simulated").code == 0
    assert contents(tmp_path / "real") == contents(tmp_path / "simulated")
    real, simulated = _summary(tmp_path / "real"), _summary(tmp_path / "simulated")
    assert real["model_sha256"] == simulated["model_sha256"]
    n, sent = real["ring"]["processes"], real["ring"]
    assert len(sent["payload_bytes"]) == n == int(RUNS[rule][0][-1])
    padding = 8 * sum(sent["payload_bytes"]) - sent["formula_bits"]
    assert padding == sent["bits_above"] and 0 <= padding <= 7 * 2 * n * (n - 1)
    assert rule != "rar" or padding == 0
    (path,) = run_folders(tmp_path / "real").values()
    assert {p.name for p in path.iterdir()} == {"config.yaml", "metrics.csv", "timings.csv", "summary.json"}


def _lose_a_client(folder: Path, how: signal.Signals, *arguments: str) -> tuple[float, int, str]:
    """Start a ring, take away client 1 some rounds later: seconds until all have ended, exit code, standard error."""
    before = processes.lines_of_metrics(folder / "results")
    command = processes.start(folder, *arguments, module="robustfl_bench.commands.ring")
    pids = [int(line.rsplit(" ", 1)[1]) for line in command.lines(3)]
    processes.wait_for(lambda: processes.lines_of_metrics(folder / "results") > before + 4, command)
    os.kill(pids[1], how)
    began = time.monotonic()
    _, errors = command.communicate(timeout=120)
    assert command.returncode is not None
    return time.monotonic() - began, command.returncode, errors


def test_a_lost_client_ends_the_others_and_the_run_goes_on_later(bench: Bench, tmp_path: Path) -> None:
    run = [*SMALL, "rounds=100", *RUNS["brace"]]
    seconds, code, errors = _lose_a_client(tmp_path, signal.SIGKILL, *run)
    assert code == 1 and seconds < 30
    assert "client 0 stops in round" in errors and "client 2 stops in round" in errors and "has gone" in errors
    assert "client 1 was ended by signal 9" in errors and "goes on from the last checkpoint" in errors
    assert "Traceback" not in errors
    seconds, code, errors = _lose_a_client(tmp_path, signal.SIGSTOP, *run, "--timeout", "3", "--checkpoint-every", "2")
    assert code == 1 and seconds < 30
    assert "client 1 is silent for 3 s" in errors and "client 1 neither answered nor ended" in errors
    (path,) = run_folders(tmp_path / "results").values()
    assert len(list((path / "ring").glob("client_*.pt"))) == 6
    (path / "ring" / sorted(p.name for p in (path / "ring").glob("client_2_*"))[0]).write_bytes(b"damaged")
    assert ring.launch(60, 1, [*run, f"results_dir={tmp_path}/results"]) == 0
    assert bench(*run, "results_dir=simulated").code == 0
    assert contents(tmp_path / "results") == contents(tmp_path / "simulated")
    assert _summary(tmp_path / "results")["model_sha256"] == _summary(tmp_path / "simulated")["model_sha256"]
    assert ring.launch(60, 1, [*run, f"results_dir={tmp_path}/results"]) == 0  # nothing to do


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["aggregator=krum"], "a ring cannot compute Krum"),
        (["aggregator=fedavg"], "a ring cannot compute Average"),
        (["aggregator=rlr", "aggregator.direction=mean"], "a ring cannot compute Rlr"),
        (["pre_aggregation=bucketing"], "set pre_aggregation=none"),
        (["protocol=star"], "needs protocol=ring"),
        (["protocol.bits=16"], "32 bits"),
        (["protocol.counting=guessed"], "must be one of printed, needed"),
        (["participation=0.5"], "participation=0.5"),
        (["device=cuda"], "device=cuda"),
        (["attack=ipm", "byzantine_placement=replace"], "no client sees the updates of others"),
        (["dry_run=true"], "dry_run=true starts no clients"),
        (["no_such=1"], "no setting 'no_such'"),
    ],
)
def test_mistakes_are_told_in_one_line_before_anything_starts(
    capsys: pytest.CaptureFixture[str], overrides: list[str], told: str
) -> None:
    assert ring.launch(20, 1, [*SMALL, "num_clients=8", *overrides]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and told in line


class Heavy(Link):
    """A link on which a client sends 3 GiB in each round."""

    sent = 0

    @property
    def payload(self) -> int:
        self.sent += 3 << 30
        return self.sent

    @payload.setter
    def payload(self, value: int) -> None:
        pass


def test_bytes_are_counted_beyond_two_gigabytes() -> None:
    f = federation(*SMALL, "num_clients=1", "num_byzantine=0", "rounds=1", "aggregator=rar")
    step = RingStep(Heavy(0, 1, 1.0), f)
    step(f, initial_state(f))
    assert step.payload == [3 << 30]


def test_every_client_is_a_process() -> None:
    with pytest.raises(ConfigError, match="3 clients, but 2 processes"):
        check(plan(request.composed([*SMALL, "num_clients=3"])[0]), 2)
