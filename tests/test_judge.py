"""``robustfl-bench judge``: the promises, the cost and the paired comparisons of a rule, on one page."""

import csv
import importlib.util
import io
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

import robustfl_bench as rb
from robustfl_bench.base.errors import BrokenContract
from robustfl_bench.doors.testing import PROMISES, check_aggregator, example_round
from robustfl_bench.lab.studies import judge
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import ServerView
from robustfl_bench.read.tables import sheets
from scripts.generators import verdict as kept_verdict
from tests.conftest import Bench, run_folders

ROOT = Path(__file__).resolve().parent.parent
RNG = np.random.default_rng(0)


def fed_scs() -> Any:
    """The class of the worked example."""
    spec = importlib.util.spec_from_file_location("fedscs", ROOT / "scripts" / "examples" / "fedscs.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.FedScs


def accuracies(**means: float) -> judge.Accuracies:
    """Ten seeds for each rule under two attacks; the seeds of all rules share their noise."""
    noise = {str(seed): float(RNG.normal()) / 50 for seed in range(10)}
    return {
        (rule, "iid", attack): {seed: mean + shared + float(RNG.normal()) / 500 for seed, shared in noise.items()}
        for rule, mean in means.items()
        for attack in ("none", "ipm")
    }


def test_differences_are_paired_and_all_intervals_hold_together() -> None:
    found = accuracies(mine=0.80, average=0.78, coomed=0.80, mkrum=0.83)
    compared = judge.compared(found, "mine", ("average", "coomed", "mkrum"))
    assert len(compared) == 6
    assert [each.verdict for each in compared if each.attack == "ipm"] == ["better", "open", "worse"]
    first = compared[0]
    own, other = found["mine", "iid", "none"], found["average", "iid", "none"]
    numbers = [100 * (own[seed] - other[seed]) for seed in own]
    low, high = stats.t.interval(1 - 0.05 / 6, 9, np.mean(numbers), stats.sem(numbers))
    assert (first.difference.low, first.difference.high) == pytest.approx((low, high))
    assert judge.level(1) == pytest.approx(0.95)
    fewer = {key: {"0": value["0"]} for key, value in found.items()}
    assert judge.compared(fewer, "mine", ("average",)) == [], "one seed gives no interval"


@dataclass(frozen=True)
class Counting(rb.CooMed):
    """The median, which counts its calls on itself; what it says of promises is a property."""

    calls: list[int] = field(default_factory=list)

    @property
    def exempt(self) -> dict[str, str]:  # type: ignore[override]
        return {"memory": "it counts"}

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        self.calls.append(1)
        return super().aggregate(updates, server)


def test_each_promise_is_tried_by_itself() -> None:
    assert judge.promises(rb.CooMed(), 3, 20) == dict.fromkeys({judge.BASICS, *PROMISES}, "")
    broken = {name for name, case in judge.promises(rb.Average(), 3, 20).items() if case}
    assert broken == {"robust"}
    broken = {name for name, case in judge.promises(Counting(), 3, 20).items() if case}
    assert broken == {"memory"}, "a list on the rule grows with its calls"
    broken = {name for name, case in judge.promises(fed_scs()(), 3, 20).items() if case}
    assert broken == {"unanimous", "scale", "translation"} == set(fed_scs().exempt)


def test_the_cost_is_a_multiple_of_the_mean() -> None:
    milliseconds, times = judge.cost(rb.Average(), 25, 10_000)
    assert milliseconds > 0 and 0.2 < times < 5
    assert judge.cost(rb.Bulyan(3), 25, 10_000)[1] > times


def verdict(**changes: Any) -> judge.Judgement:
    found = accuracies(mine=0.80, average=0.78, coomed=0.80, mkrum=0.83)
    content: dict[str, Any] = {
        "rule": "mine", "rivals": ("average", "coomed", "mkrum"), "trial": judge.Trial(("iid",), ("none", "ipm"), 10),
        "promises": dict.fromkeys({judge.BASICS, *PROMISES}, "") | {"robust": "n=9", "scale": "times 2"},
        "exempt": {"scale": "it clips"}, "cost": (2.0, 3.0), "clients": 25, "num_byzantine": 5, "accuracies": found,
        "command": "robustfl-bench judge mine:rule",
    }  # fmt: skip
    return judge.Judgement(**(content | changes))


def test_the_page_says_the_verdict_first_and_what_it_cannot_say() -> None:
    page = sheets.FORMATS["markdown"](judge.page(verdict()))
    lines = page.splitlines()
    assert lines[0].startswith("Verdict on mine")
    assert "it breaks robust, of 6 promises that it makes (below); it does not promise scale." in lines[1]
    assert "Against FedAvg: better in 2 of 2 cases: none (IID), IPM (IID)." in page
    assert "Against the median: not told apart in any of 2 cases." in page
    assert "Against Multi-Krum: worse in 2 of 2 cases" in page
    assert "Each interval has confidence 99.17%, so that all 6 hold together with 95% (Bonferroni)" in page
    assert page.count("What this cannot say: ") == 4 and "Not told apart: 2 of 6 comparisons" in page
    assert "| it clips |" in page and "| robust | f attackers, whatever" in page
    kept = verdict(promises=dict.fromkeys({judge.BASICS, *PROMISES}, ""), exempt={})
    assert "it keeps all 7 promises that it makes." in sheets.FORMATS["text"](judge.page(kept))
    rows = list(csv.DictReader(io.StringIO(judge.numbers(verdict()))))
    assert len(rows) == 80 and rows[0].keys() == {"aggregator", "partition", "attack", "seed", "test_accuracy"}


RULE = """
import numpy as np


def trimmed(matrix, f):
    rows = np.sort(matrix, axis=0).astype(np.float64)
    return rows[f : len(rows) - f].mean(axis=0)
"""


@pytest.mark.slow
def test_a_function_is_judged_and_its_runs_are_made_once(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    Path("judged_rule.py").write_text(RULE)
    monkeypatch.setattr(judge, "QUICK", judge.Trial(("iid",), ("none", "ipm"), 2))
    words = ("judged_rule:trimmed", "--quick", "--against", "trmean", "--output", "page.html", "--output", "page.csv")
    first = bench("judge", *words)
    assert first.code == 0, first.err
    assert "Contract: it keeps all 7 promises" in first.out
    assert "Against trmean: not told apart in any of 2 cases" in first.out
    assert "<table" in Path("page.html").read_text() and " nan" not in first.out
    lines = csv.DictReader(io.StringIO(Path("page.csv").read_text()))
    rows = {tuple(row.values())[:4]: float(row["test_accuracy"]) for row in lines}
    assert len(rows) == 16
    for (rule, *place), value in list(rows.items()):
        if rule == "trimmed":
            assert value == pytest.approx(rows["trmean", place[0], place[1], place[2]], abs=0.02)
    made = {name: path.stat().st_mtime_ns for name, path in run_folders(Path("results")).items()}
    again = bench("judge", *words)
    assert again.code == 0 and again.out.split("Cost")[0] == first.out.split("Cost")[0]
    assert {name: path.stat().st_mtime_ns for name, path in run_folders(Path("results")).items()} == made


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["no_such_rule"], "unknown aggregator 'no_such_rule'"),
        (["average"], "average would be compared with itself"),
        (["mine:Mine", "--against", "mine:Mine"], "mine would be compared with itself"),
        (["krum", "--results-dir", ""], "--results-dir must name a folder, got ''"),
        (["krum", "--seeds", "1"], "--seeds must be >= 2, or no interval can be given; got 1"),
        (["krum", "--output", "page.pdf"], "--output must end in .md, .html, .txt, .tex, .json, .csv, got page.pdf"),
        (["bulyan", "aggregator.num_byzantine=7"], "Bulyan needs"),
        (["krum", "aggregator.selected=2"], "no setting 'aggregator.selected'"),
        (["krum", "rounds=3"], "rounds=3 is no option of the aggregator, aggregator.KEY=VALUE"),
        (["krum", "--against", "no_such_rule"], "unknown aggregator 'no_such_rule'"),
        (["krum", "--jobs", "x"], "--jobs: must be >= 1, or -1: one for each core; got x"),
    ],
)
def test_a_mistake_is_one_line(bench: Bench, tmp_path: Path, words: list[str], message: str) -> None:
    bench("judge", *words).refused(2, message)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("rule", "given"), [(rb.Krum(2), "a Krum"), (3, "3"), (None, "None")])
def test_what_is_no_rule_is_one_line(rule: Any, given: str) -> None:
    with pytest.raises(rb.ConfigError, match=f"^judge takes the name of an option, .*, got {given}; fields are set.*$"):
        rb.judge(rule)


BROKEN = """
from dataclasses import dataclass

from robustfl_bench import Aggregator


def matrix(updates):
    return updates


@dataclass(frozen=True)
class Raises(Aggregator):
    def aggregate(self, updates, server):
        raise KeyError("first\\nsecond")
"""


@pytest.mark.parametrize(
    ("rule", "message"),
    [("matrix", "must return a vector (8,), got shape (25, 8)"), ("Raises", r"KeyError: 'first\nsecond' (HYDRA_FULL")],
)
def test_a_rule_that_fails_is_one_line(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str, message: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    Path("judged_broken.py").write_text(BROKEN)
    outcome = bench("judge", f"judged_broken:{rule}", "--quick")
    last = outcome.err.splitlines()[-1]
    assert outcome.code == 1 and last.startswith("error: ") and message in last and not outcome.out
    assert "Traceback" not in outcome.err
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    with pytest.raises((BrokenContract, KeyError)):
        bench("judge", f"judged_broken:{rule}", "--quick")


# --- the worked example ----------------------------------------------------------------------------------------------


def by_the_definition(
    rows: np.ndarray, before: dict[int, float], clients: list[int], longest: float
) -> tuple[np.ndarray, dict[int, float]]:
    """FedSCS step by step: the aggregate and the clients' scores."""
    clipped = [row * min(1.0, longest / np.linalg.norm(row)) for row in rows]
    scores = {}
    for place, client in enumerate(clients):
        own = clipped[place]
        peers = sum(other for at, other in enumerate(clipped) if at != place)
        now = max(float(own @ peers / np.linalg.norm(own) / np.linalg.norm(peers)), 0.0)
        last = before.get(client, now)
        steady = 1.0 if max(now, last) <= 1e-12 else 1 - abs(now - last) / max(now, last)
        scores[client] = now * steady
    total = sum(scores.values())
    shares = [scores[client] / total if total > 1e-12 else 1 / len(rows) for client in clients]
    return sum(share * own for share, own in zip(shares, clipped, strict=True)), scores  # type: ignore[return-value]


def test_the_example_is_the_rule_of_its_definition() -> None:
    rule, memory, scores = fed_scs()(max_update_norm=8.0), {}, dict[int, float]()
    for round, absent in enumerate((None, None, 3, None)):
        updates, server = example_round(round)
        clients = [client for client in range(updates.n) if absent is None or client % absent]
        server.memory, server.clients = memory, torch.tensor(clients)
        aggregate = rule(Updates(updates.matrix[clients]), server)
        wanted, scores = by_the_definition(updates.matrix[clients].double().numpy(), scores, clients, 8.0)
        assert aggregate.vector.numpy() == pytest.approx(wanted, abs=1e-5)
        memory = aggregate.memory
    check_aggregator(fed_scs()())


def test_what_the_page_says_of_the_example_is_the_verdict_on_its_kept_runs() -> None:
    page = kept_verdict.page()
    assert "it keeps all 4 promises that it makes; it does not promise unanimous, scale, translation." in page
    words = (ROOT / "results" / "judge" / "README.md").read_text().partition("**The verdict**")[2].partition("\n## ")[0]
    numbers = re.findall(r"[-+]?\d+\.\d", words)
    assert len(numbers) == 7 and [number for number in numbers if number not in page] == []
    assert all(len(by_seed) == judge.FULL.seeds for by_seed in kept_verdict.judgement().accuracies.values())
