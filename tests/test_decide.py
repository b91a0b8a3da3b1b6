"""``robustfl-bench decide``: what an open claim lacks, how long it takes, and looks until it is decided."""

import math
import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from robustfl_bench.commands.lab import decide
from robustfl_bench.lab import queue
from robustfl_bench.lab.agreement import claim_sheets
from robustfl_bench.lab.agreement.measured import EXHAUSTED, Open, Step, scored
from robustfl_bench.read.runs import archive, records
from robustfl_bench.read.runs.cost import Cost, Costs
from robustfl_bench.read.runs.matching import Index
from robustfl_bench.read.tables import described
from robustfl_bench.read.tables.described import Paper
from tests.test_paper_tables import ATTACKS, ONE, TWO, make_run

SECONDS, ROUNDS = 12.5, 3  # of a run of make_run


def paper(formula: str, table: described.PaperTable = TWO, looks: tuple[int, ...] = (2, 3)) -> Paper:
    table = replace(table, looks=looks, stand_ins=())
    claims = tuple(described.about("good", "w", "p", (formula,), table.name, table.keys, "here"))
    return Paper("B", {table.name: table}, {}, claims)


def still_open(results: Path, about: Paper) -> Open:
    (measured,) = scored({"boba": about}, records.load(results))
    (claim,) = measured.open_claims
    return claim


def lacking(claim: Open) -> list[tuple[str, str, int]]:
    """Rule, attack and seed of the runs of the next look."""
    assert claim.next is not None
    words = [({one.split("=")[0]: one.split("=")[1] for one in run.overrides}, run.seed) for run in claim.next.runs]
    return [(one["aggregator"], one["attack"], seed) for one, seed in words]


def test_a_look_lacks_the_seeds_of_the_cells_that_are_not_proven(tmp_path: Path) -> None:
    for seed in (0, 1):
        make_run(tmp_path, "boba", "ipm", seed, 0.9 + 0.001 * seed)
        make_run(tmp_path, "average", "ipm", seed, 0.1 + 0.001 * seed)
    make_run(tmp_path, "krum", "ipm", 0, 0.5)
    about = paper("boba / ipm > average | krum / ipm")
    claim = still_open(tmp_path, about)
    assert lacking(claim) == [("krum", "ipm", 1)], "that of Average is proven, by two pairs that differ by 80 points"
    assert claim.next and claim.last and (claim.next.look, claim.last.look) == (2, 3)
    per_round = SECONDS / ROUNDS
    assert claim.next.cost.seconds == pytest.approx(200 * per_round)
    assert claim.next.cost.source == "other seeds of the same cells"
    assert len(claim.last.runs) == 3, "BOBA's third seed as well"
    assert claim_sheets.command(claim, "boba") == "robustfl-bench decide boba good --table table2_mnist"
    (measured,) = scored({"boba": about}, records.load(tmp_path))
    wanted = queue.queue([measured], [], Costs(runs := records.load(tmp_path), Index(runs)), "")
    assert [(stack.cells[0][-1], stack.value) for stack in wanted if stack.value == queue.CLAIM] == [("seed=1", 5)]


def test_the_comparison_that_is_most_false_gets_seeds_first_alone(tmp_path: Path) -> None:
    for rule, accuracy in (("boba", 0.90), ("average", 0.93), ("krum", 0.99), ("coomed", 0.5)):
        make_run(tmp_path, rule, "ipm", 0, accuracy)
    about = paper("boba / ipm > average | krum | coomed / ipm", looks=(2, 3))
    claim = still_open(tmp_path, about)
    assert lacking(claim) == [("boba", "ipm", 1), ("krum", "ipm", 1)], "one refuted comparison decides the claim"
    assert claim.last and len(claim.last.runs) == 4 * 2, "at most two more seeds of all"
    make_run(tmp_path, "boba", "ipm", 1, 0.97)
    make_run(tmp_path, "krum", "ipm", 1, 0.8)
    others = [("average", "ipm", 1), ("coomed", "ipm", 1)]
    assert lacking(still_open(tmp_path, about)) == others, "none is false on average any more"


def test_a_worst_case_lacks_all_attacks_and_a_drop_its_reference(tmp_path: Path) -> None:
    make_run(tmp_path, "boba", "ipm")
    claim = still_open(tmp_path, paper("boba / worst > 50", looks=(2,)))
    assert [(attack, seed) for _, attack, seed in lacking(claim)] == [
        (attack, seed) for attack in ATTACKS for seed in (0, 1) if (attack, seed) != ("ipm", 0)
    ]
    drop = still_open(tmp_path, paper("boba / none mrd < 5", ONE, looks=(2,)))
    assert {(rule, seed) for rule, _, seed in lacking(drop)} == {
        ("average", 0),
        ("average", 1),
        ("boba", 0),
        ("boba", 1),
    }


def test_the_worst_case_that_is_to_be_worse_needs_seeds_under_one_attack(tmp_path: Path) -> None:
    """An attack that brings Average below BOBA's worst case proves that its own worst case is below it."""
    for place, attack in enumerate(ATTACKS):
        make_run(tmp_path, "boba", attack, 0, 0.8 + 0.01 * place)
        make_run(tmp_path, "average", attack, 0, 0.5 + 0.01 * place)
    about = paper("boba / worst > average / worst", looks=(2,))
    assert lacking(still_open(tmp_path, about)) == [
        *(("boba", attack, 1) for attack in ATTACKS),
        ("average", ATTACKS[0], 1),
    ]
    for place, attack in enumerate(ATTACKS):
        make_run(tmp_path, "boba", attack, 1, 0.8 + 0.01 * place)
    make_run(tmp_path, "average", ATTACKS[0], 1, 0.501)
    (measured,) = scored({"boba": about}, records.load(tmp_path))
    assert [verdict.word for verdict in measured.verdicts] == ["holds"]
    wrong = paper("boba / worst < average / worst", looks=(2,))
    (measured,) = scored({"boba": wrong}, records.load(tmp_path))
    assert [verdict.word for verdict in measured.verdicts] == ["too few seeds"], "other attacks could be worse"
    assert len(lacking(measured.open_claims[0])) == len(ATTACKS) - 1


def test_a_claim_that_no_run_can_decide_says_why(tmp_path: Path) -> None:
    make_run(tmp_path, "krum", "ipm", status="infeasible", error="too few clients")
    claim = still_open(tmp_path, paper("boba / ipm > krum / ipm"))
    assert claim.next is None and claim.stands == "the rule cannot be run in krum / ipm"
    for rule, accuracies in (("boba", (0.90, 0.91, 0.90)), ("average", (0.90, 0.90, 0.91))):
        for seed, accuracy in enumerate(accuracies):
            make_run(tmp_path, rule, "ipm", seed, accuracy)
    assert still_open(tmp_path, paper("boba / ipm > average / ipm")).stands == EXHAUSTED


def test_no_seeds_for_a_claim_that_cannot_hold_any_more(tmp_path: Path) -> None:
    """Krum is level with BOBA at the last look. Only CooMed, which is better on average, may still refute the claim."""
    for seed, accuracy in enumerate((0.90, 0.91, 0.90)):
        make_run(tmp_path, "boba", "ipm", seed, accuracy)
        make_run(tmp_path, "krum", "ipm", seed, 1.80 - accuracy)
    make_run(tmp_path, "average", "ipm", 0, 0.5)
    make_run(tmp_path, "coomed", "ipm", 0, 0.95)
    claim = still_open(tmp_path, paper("boba / ipm > average | krum / ipm", looks=(2, 3)))
    assert claim.next is None and claim.exhausted
    claim = still_open(tmp_path, paper("boba / ipm > coomed | average | krum / ipm", looks=(2, 3)))
    assert lacking(claim) == [("coomed", "ipm", 1)]


def test_hours_come_from_the_most_similar_runs(tmp_path: Path) -> None:
    make_run(tmp_path, "boba", "ipm", batch_size=50)
    runs = records.load(tmp_path).assign(data="mnist: 60000 + 10000 samples")
    costs = Costs(runs, index := Index(runs))
    (held,) = index.configs
    per_round = SECONDS / ROUNDS
    other_rule = {**held, "aggregator._target_": "robustfl_bench.aggregators.Krum"}
    larger = {**held, "batch_size": "100", "num_clients": "200"}
    unknown = {**held, "dataset._target_": "robustfl_bench.datasets.Cifar10"}
    found = [costs.of([config]) for config in (held, other_rule, larger)]
    assert [cost.seconds / 200 for cost in found] == pytest.approx([per_round, per_round, 4 * per_round])
    assert [cost.source for cost in found] == [
        "other seeds of the same cells", "other rules in the same setting", "the same network and data, by samples"
    ]  # fmt: skip
    local = {**larger, "local_update._target_": "robustfl_bench.local_updates.LocalSgd", "local_update.steps": "3"}
    assert costs.of([local]).seconds / 200 == pytest.approx(12 * per_round)
    assert costs.of([local]).source == "the same network and data with other local updates, by samples"
    local = {**larger, "local_update._target_": "robustfl_bench.local_updates.FedAvg", "local_update.epochs": "2"}
    assert costs.of([local]).seconds / 200 == pytest.approx(2 * 60_000 / 5_000 * per_round), "passes over all samples"
    more = {**larger, "dataset.num_clients": "200"}
    assert costs.of([more]).seconds / 200 == pytest.approx(2 * per_round), "the samples of other clients are not known"
    assert costs.of([more]).source == "the same network on data of another number of clients, by clients"
    gpu = Costs(runs.assign(device="cuda:0"), index)
    assert gpu.of([held]).hours != gpu.of([held]).hours, "a GPU says nothing about the time of a core"
    assert costs.of([held, unknown]).hours != costs.of([held, unknown]).hours, "not a number"


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the command about one claim; its runs, with made-up accuracies, are noted in ``command.made``."""
    about = paper("boba / ipm > krum / ipm", looks=(2, 3))
    monkeypatch.setattr(decide, "papers", lambda: {"boba": about})
    monkeypatch.setattr(archive, "kept", lambda *_: records.nothing())

    def make(cells: Sequence[tuple[str, ...]], *_: object) -> None:
        run.made.append(len(cells))
        for cell in cells:
            words = dict(word.split("=", 1) for word in cell)
            seed = int(words["seed"])
            accuracy = 0.9 if words["aggregator"] == "boba" else 0.8 + (0.05 if seed == 0 else -0.001 * seed)
            make_run(tmp_path, words["aggregator"], "ipm", seed, accuracy)

    monkeypatch.setattr(decide, "made_cells", make)

    def run(*words: str) -> int:
        monkeypatch.setattr(sys, "argv", ["robustfl-bench decide", "boba", *words, "--results-dir", str(tmp_path)])
        return decide.main()

    run.made = []
    return run


def test_a_claim_gets_seeds_until_the_last_look(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("--dry-run", "-v") == 0 and not command.made
    out = capsys.readouterr().out
    assert "good / table2_mnist: the look at 2 seeds lacks 4 runs, ? h of one core" in out
    assert "robustfl-bench -m +setting=boba/mnist aggregator=krum attack=ipm results_dir=" in out
    assert command("good") == 0 and command.made == [4, 2]
    out = capsys.readouterr().out
    assert "undecided" in out and EXHAUSTED in out
    assert command("good") == 0 and command.made == [4, 2], "the same command finds nothing to do"
    capsys.readouterr()
    assert command("good", "--dry-run") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "open claims: 1; none has a next look"


def test_a_dry_run_by_its_setting_makes_nothing(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("good", "dry_run=true") == 0 and not command.made
    assert "the look at 2 seeds lacks 4 runs" in capsys.readouterr().out
    assert command("good", "dry_run=false") == 0 and command.made == [4, 2]
    assert "good / table2_mnist, look at 2 seeds: 4 runs, ? h of one core" in capsys.readouterr().err


def test_without_hours_a_look_of_more_than_one_is_not_begun(
    command: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decide, "HOUR", 300)  # the second look takes half an hour
    assert command("good") == 0 and command.made == [4]
    assert "--hours gives more" in capsys.readouterr().err


def test_a_budget_ends_before_a_look_that_is_too_long(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("--hours", "0.4") == 0 and command.made == [4], (
        "the first look of unknown length, the second of 0.5 h"
    )
    assert "the look at 3 seeds takes 0.5 h, the budget has 0.4 h left" in capsys.readouterr().err


def test_the_cheapest_look_comes_first() -> None:
    seconds = {"long": 900.0, "unknown": math.nan, "short": 60.0, "none": None}
    named = {}
    for name, cost in seconds.items():
        claim = named[name] = Open.__new__(Open)
        claim.next = None if cost is None else Step(3, (), Cost(cost))
    assert decide._cheapest_first([*named.values()]) == [named[name] for name in ("none", "short", "long", "unknown")]


@pytest.mark.parametrize(("words", "message"), [
    (["bad"], "unknown claim 'bad'"), (["--table", "table9"], "unknown table 'table9'"),
    (["--hours", "0"], "--hours must be > 0, got 0"),
])  # fmt: skip
def test_errors_are_one_line(command: Any, words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(*words) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_a_block_of_a_table_is_asked_for_as_the_lists_name_it() -> None:
    asked = Namespace(paper="raga", words=["mca_fails"], table="table4 / mlp")
    (claim,) = decide._asked(described.papers()["raga"], asked).claims
    assert (claim.name, claim.about) == ("mca_fails", "table4 / mlp")
    (measured,) = scored({"raga": replace(described.papers()["raga"], claims=(claim,))}, records.nothing())
    assert claim_sheets.command(measured.open_claims[0], "raga").endswith(
        "decide raga mca_fails --table 'table4 / mlp'"
    )
