"""The examples give what they say: those in the docstrings of the main public names, and trainings over processes."""

import doctest
import importlib
import os
import runpy
import sys
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest
import torch

import robustfl_bench
from robustfl_bench.doors.testing import check_attack
from robustfl_bench.runner.processes.launch import local
from tests.test_attacks import make_view


def test_the_examples_of_public_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    failed, count = dict[str, int](), 0
    for name in dir(robustfl_bench):
        public = getattr(robustfl_bench, name)
        if not name.startswith("_") and callable(public):
            for example in doctest.DocTestFinder(recurse=False).find(public, name, globs={}):
                count += bool(example.examples)
                failed[name] = doctest.DocTestRunner().run(example).failed
    assert [name for name, number in failed.items() if number] == [] and count > 16


FOLDER = Path(__file__).parents[1] / "scripts" / "examples"
TRAININGS = ("all_reduce", "ddp", "diloco")


def _train(rank: int, ports: list[int], printed: Path) -> None:
    """One of four processes of each example of a training, with what torchrun tells it."""
    sys.path.insert(0, str(FOLDER))
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1",
                   "TORCHELASTIC_USE_AGENT_STORE": "True", "GLOO_SOCKET_IFNAME": "lo"}  # fmt: skip
    for name, port in zip(TRAININGS, ports, strict=True):
        os.environ["MASTER_PORT"] = str(port)
        with (printed / f"{name}_{rank}").open("w") as file, redirect_stdout(file):
            runpy.run_path(str(FOLDER / f"{name}.py"))


@pytest.mark.skipif(sys.platform != "linux", reason="names the loopback interface as Linux does")
def test_four_processes_train_with_a_rule_although_one_lies(tmp_path: Path) -> None:
    import torch.distributed as dist

    stores = [dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False) for _ in TRAININGS]
    common = ([store.port for store in stores], tmp_path)
    started = [local().context.Process(target=_train, args=(rank, *common), daemon=True) for rank in range(4)]
    for process in started:
        process.start()
    for process in started:
        process.join(120)
        assert process.exitcode == 0
    for name in TRAININGS:
        lines = (tmp_path / f"{name}_0").read_text().splitlines()
        honest, attacked, robust = (float(line.rpartition(" ")[2]) for line in lines)
        assert honest > 0.85 and attacked < 0.3 and robust > honest - 0.05, lines
        assert not (tmp_path / f"{name}_3").read_text()


@pytest.mark.parametrize("name", ["Elected", "NearTheMedian", "Outvote", "UnitBack"])
def test_an_attack_written_by_hand_keeps_the_promises_of_attacks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    check_attack(getattr(importlib.import_module("by_hand"), name)())


def test_all_who_stand_near_the_median_are_averaged_by_meamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven honest values and two attackers: the value sent is among the 7 of 9 that are nearest to the median."""
    monkeypatch.syspath_prepend(str(FOLDER))
    attack = importlib.import_module("by_hand").NearTheMedian()
    honest = np.arange(7, dtype=np.float32)[:, None] ** 2
    sent = attack.craft(make_view(honest, num_byzantine=2)).rows
    everybody = torch.cat([torch.from_numpy(honest), sent.expand(2, 1)])
    middle = everybody.median()
    kept = (everybody - middle).abs().flatten().sort().values[6]
    assert (sent - middle).abs() <= kept
