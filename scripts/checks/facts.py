"""Recomputes the numbers in the sentences of pages from the runs that are kept in results/. Run: make facts

A fact is a sentence of a page with ``{}`` in the place of each number, and a function that computes these numbers. The
sentence with the computed numbers must stand on the page. What `make agreement`, `make arena`, `make catalogue` or a
command writes is no fact, and neither are the checks of results/forensics.md, which are doctests.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results"
PAPERS = ("arfl", "boba", "brace", "brifca", "raga")


@dataclass(frozen=True)
class Fact:
    """A sentence of a page, with a format such as ``{:.1f}`` for each number, and what computes the numbers.

    ``slow``: computing takes more than a few seconds.
    """

    page: str
    sentence: str
    numbers: Callable[[], Sequence[object]]
    slow: bool = False

    def problem(self) -> str | None:
        """What is wrong with the sentence, in one line; None if it stands on the page with the computed numbers."""
        text = _plain((ROOT / self.page).read_text(encoding="utf-8"))
        sentence = _plain(self.sentence.format(*self.numbers()))
        if sentence in text:
            return None
        parts = re.split(r"\{[^}]*\}", _plain(self.sentence))
        written = re.search(r"(?:[\d.,-]*\d(?:st|nd|rd|th)?|[a-z]+)".join(map(re.escape, parts)), text)
        if written is None:
            return f"{self.page}: no such sentence: {_plain(self.sentence)}"
        return f"{self.page}: {written[0]!r}; the runs give {sentence!r}"


def _plain(text: str) -> str:
    """A text without line breaks and other spacing."""
    return " ".join(text.split())


@cache
def runs(path: str) -> pd.DataFrame:
    """The kept runs of a CSV file in results/."""
    return pd.read_csv(RESULTS / path, low_memory=False)


def percent(path: str, *conditions: str, column: str = "best_accuracy") -> list[float]:
    """The number of the only run that meets each condition, in percent."""
    return [100 * float(runs(path).query(condition)[column].item()) for condition in conditions]


def extremes(path: str, condition: str, column: str = "best_accuracy", factor: float = 100) -> list[float]:
    """The least and the largest number of the runs that meet a condition, in percent."""
    values = factor * runs(path).query(condition)[column]
    return [float(values.min()), float(values.max())]


def _times(threads: int, *names: str) -> list[float]:
    """The milliseconds of rules today and before, from bench/before.csv."""
    table = runs("bench/before.csv").query("threads == @threads").set_index("what")
    return [float(table.loc[name, column]) for name in names for column in ("before_ms", "after_ms")]


# --- papers -----------------------------------------------------------------------------------------------------------


@cache
def reproduced() -> tuple[int, ...]:
    """Of the five papers' numbers: how many need runs, follow from formulas, are measured, measured with one seed,
    inside, and within two points."""
    from robustfl_bench.runs import archive
    from robustfl_bench.tables import scorecard
    from robustfl_bench.tables.described import papers

    scores = scorecard.scored({name: papers()[name] for name in PAPERS}, archive.kept())
    whole = [(table, cell) for score in scores for table in score.tables.values() for cell in table.cells.values()]
    published = [(table, cell) for table, cell in whole if cell.against is not None]
    formulas = [cell for table, cell in published if "Mbit" in {column.value.unit for column in table.columns}]
    kept = [(table, cell) for table, cell in published if cell not in formulas and not table.stand_in]
    measured = [(table, cell) for table, cell in kept if cell.inside is not None]
    near = [cell for table, cell in measured if abs(cell.difference or 0) <= _two_points(table)]
    return (
        len(kept),
        len(formulas),
        len(measured),
        sum(cell.seeds == 1 for _, cell in measured),
        sum(bool(cell.inside) for _, cell in measured),
        len(near),
    )


def _two_points(table: Any) -> float:
    return 0.02 if "fraction" in {column.value.unit for column in table.columns} else 2.0


def _raga(phi: float) -> str:
    return f"`partition.alpha` == {phi} and model == 'mlp'"


def raga_first(phi: float) -> list[object]:
    """In how many columns of Table III RAGA is first, and the number of columns."""
    table = runs("raga/runs.csv").query(_raga(phi)).pivot(
        index="aggregator", columns=["attack", "num_byzantine"], values="best_accuracy"
    )  # fmt: skip
    return [int((table.idxmax() == "raga").sum()), table.shape[1]]


def points(path: str, line: str, **places: object) -> list[float]:
    """The means of a line of a figure's points that meet the conditions, in their order."""
    table = pd.read_csv(RESULTS / path, comment="#")
    chosen = table[(table["line"] == line) & (table[list(places)] == pd.Series(places)).all(axis=1)]
    return [float(value) for value in chosen["mean"]]


def spread(path: str, lines: Iterable[str], factor: float = 1, **places: object) -> list[float]:
    """The least and the largest of the points of several lines of a figure."""
    values = [factor * value for line in lines for value in points(path, line, **places)]
    return [min(values), max(values)]


def fig4_of_raga(network: str, lines: Iterable[str], attacks: Sequence[str] = ("gaussian", "lie")) -> list[float]:
    """The least and the largest accuracy of methods in Fig. 4 at quick scale."""
    both = [spread("raga/fig4_quick.csv", lines, panel=f"mnist {network}, {attack}") for attack in attacks]
    return [min(low for low, _ in both), max(high for _, high in both)]


@cache
def brace() -> pd.DataFrame:
    """BRACE's Table 2(a): the test error of each rule under each attack."""
    return 1 - runs("brace/runs.csv").pivot(index="aggregator", columns="attack", values="final_accuracy")


def brace_harm() -> list[float]:
    """By how much the error of BRACE grows under noise, and under the Krum attack, the backdoor and Trim at least and
    at most."""
    harm = brace().loc["brace"] - brace().loc["brace", "none"]
    others = harm[["krum_attack", "backdoor", "trim_attack"]]
    return [float(harm["gaussian"]), float(others.min()), float(others.max())]


def brace_worst() -> list[float]:
    """The largest error of BRACE, Krum and RAR under an attack, and the least and largest of the other rules."""
    worst = brace().max(axis=1)
    others = worst.drop(["brace", "krum", "rar"])
    return [*(float(worst[rule]) for rule in ("brace", "krum", "rar")), float(others.min()), float(others.max())]


def brace_first() -> list[object]:
    """In how many columns BRACE has the least error, of how many, and by how much it misses it elsewhere."""
    gap = brace().loc["brace"] - brace().min()
    missed = gap[gap > 0]
    return [int((gap == 0).sum()), len(gap), float(missed.min()), float(missed.max())]


def weightless() -> list[int]:
    """The first round of Fig. 6 on MNIST from which no bad client has any weight."""
    table = pd.read_csv(RESULTS / "arfl/fig6_mnist.csv", comment="#")
    weights = table[table["line"].str.startswith("byzantine")].groupby("x")["mean"].max()
    return [int(weights[weights > 0].index.max()) + 1]


def demo() -> list[str]:
    """The rows of the table that `make run` prints."""
    from robustfl_bench.runs import archive
    from robustfl_bench.tables.layout import render
    from robustfl_bench.tables.pivot import pivot

    table = pivot(archive.read(str(RESULTS / "demo.csv")), "aggregator", "attack", "final_accuracy")
    lines = render([table], "markdown").splitlines()
    return [
        " ".join(line for line in lines if line.startswith("| ") and "---" not in line and "aggregator" not in line)
    ]


# --- the facts --------------------------------------------------------------------------------------------------------

_TABLE_III = "raga/runs.csv"
OTHERS = ("median", "mca", "byrd_saga")
FACTS = (
    Fact("README.md", "| --- | ---: | ---: | ---: | ---: | {} Rules:", demo),
    Fact(
        "results/README.md",
        "Of the five papers' {} published numbers that need runs ({} more follow from formulas), {} are measured, {} "
        "of them with one seed: {} are inside, {} within two points.",
        reproduced,
        slow=True,
    ),
    Fact(
        "README.md",
        "of the {} numbers in their tables that need runs, {} are measured so far, {} of them with one seed, and {} "
        "agree",
        lambda: [reproduced()[0], *reproduced()[2:5]],
        slow=True,
    ),
    Fact(
        "results/raga/README.md",
        "RAGA without attack: {:.2f} (published 95.23); under noise of variance 90 at 10 to 40%: {:.2f}, {:.2f}, "
        "{:.2f}, {:.2f} (95.10, 95.06, 95.01, 94.98); under LIE: {:.2f}, {:.2f}, {:.2f}, {:.2f}",
        lambda: percent(
            _TABLE_III,
            *(
                f"aggregator == 'raga' and {_raga(0.6)} and {attack}"
                for attack in (
                    "attack == 'none'",
                    *(
                        f"attack == '{name}' and num_byzantine == {number}"
                        for name in ("gaussian", "lie")
                        for number in (5, 10, 15, 20)
                    ),
                )
            ),
        ),
    ),
    Fact(
        "results/raga/README.md",
        "It is first in {} of {} columns; under sign flipping at 40% RFA has {:.1f}.",
        lambda: [
            *raga_first(0.6),
            *percent(
                _TABLE_III, f"aggregator == 'rfa' and {_raga(0.6)} and attack == 'sign_flip' and num_byzantine == 20"
            ),
        ],
    ),
    Fact("results/raga/README.md", "RAGA is first in {} of {} columns; without attack", lambda: raga_first(0.2)),
    Fact(
        "results/raga/README.md",
        "All four runs end between {:.2f} and {:.2f}",
        lambda: extremes(
            _TABLE_III, f"aggregator == 'fedavg' and {_raga(0.6)} and attack == 'gaussian'", "final_accuracy"
        ),
    ),
    Fact(
        "results/raga/README.md",
        "with the MLP, RAGA is first everywhere, {:.1f} to {:.1f}",
        lambda: fig4_of_raga("mlp", ["raga"]),
    ),
    Fact(
        "results/raga/README.md",
        "Median, MCA and Byrd-SAGA reach {:.0f} to {:.0f}, RFA {:.0f} to {:.0f}, FedAvg {:.1f} without attackers",
        lambda: [*fig4_of_raga("mlp", OTHERS), *fig4_of_raga("mlp", ["rfa"]), fig4_of_raga("mlp", ["fedavg"])[1]],
    ),
    Fact(
        "results/raga/README.md",
        "({:.2f} to {:.2f} in their best round; RAGA {:.2f})",
        lambda: [
            *spread("raga/fig4_quick.csv", [*OTHERS, "rfa", "fedavg"], panel="mnist lenet, gaussian", x=0),
            *points("raga/fig4_quick.csv", "raga", panel="mnist lenet, gaussian", x=0),
        ],
    ),
    Fact(
        "results/raga/README.md",
        "(FedAvg {:.1f}, Median {:.1f}, RFA {:.1f} without attack",
        lambda: percent(
            _TABLE_III,
            *(f"aggregator == '{rule}' and {_raga(0.6)} and attack == 'none'" for rule in ("fedavg", "median", "rfa")),
        ),
    ),
    Fact(
        "results/brace/README.md",
        "# Fashion-MNIST, {} runs of {:.0f} to {:.0f} minutes of one core each",
        lambda: [len(runs("brace/runs.csv")), *extremes("brace/runs.csv", "seconds > 0", "seconds", 1 / 60)],
    ),
    Fact(
        "results/brace/README.md",
        "noise costs {:.2f}, the Krum attack, the backdoor and Trim {:.2f} to {:.2f}.",
        brace_harm,
    ),
    Fact(
        "results/brace/README.md",
        "Its worst column ({:.2f}) is the best of all rules: Krum {:.2f}, RAR {:.2f}, the others {:.2f} to {:.2f}",
        brace_worst,
    ),
    Fact(
        "results/brace/README.md",
        "| in {} of {}: Min-Max, Min-Sum and adaptive; elsewhere RAR (none, label flip, Krum, "
        "backdoor), RLR (Gaussian) or Krum (Trim) by {:.3f} to {:.2f} |",
        brace_first,
    ),
    Fact(
        "results/brace/README.md",
        "with 20% Krum has {:.2f}, signSGD {:.2f}, RLR {:.2f}, BRACE {:.2f}, RAR and the median {:.2f} and {:.2f}.",
        lambda: [
            points("brace/fig3a_quick.csv", rule, x=20)[0]
            for rule in ("krum", "signsgd", "rlr", "brace", "rar", "median")
        ],
    ),
    Fact(
        "results/brace/README.md",
        "BRACE goes from {:.2f} to {:.2f}, Krum from {:.2f} to {:.2f}. RAR learns",
        lambda: [points("brace/fig3b_quick.csv", rule, x=x)[0] for rule in ("brace", "krum") for x in (0.1, 0.9)],
    ),
    Fact("results/brace/README.md", "BRACE has {:.2f} to {:.2f}.", lambda: spread("brace/fig3c_quick.csv", ["brace"])),
    Fact("results/arfl/README.md", "all three do from round {} on", weightless),
    Fact(
        "results/arfl/README.md",
        "at 0.1 M two clients are left and accuracy falls from {:.0f} to {:.0f}",
        lambda: percent(
            "arfl/ten_clients.csv",
            "`aggregator.regularization` == 1 and eval_every == 5",
            "`aggregator.regularization` == 0.1",
            column="final_accuracy",
        ),
    ),
    Fact(
        "results/arfl/README.md",
        "{:.1f} to {:.1f} in all six columns, {:.1f} on clean data",
        lambda: [
            *extremes("arfl/writers.csv", "aggregator == 'arfl' and attack != 'none'", "final_accuracy"),
            *percent("arfl/writers.csv", "aggregator == 'arfl' and attack == 'none'", column="final_accuracy"),
        ],
    ),
    Fact(
        "results/arfl/README.md",
        "{:.1f} with half of the clients, against FedAvg's {:.1f}, and {:.1f} with 30%, against {:.1f}.",
        lambda: percent(
            "arfl/options.csv",
            *(
                f"attack == 'fake_loss' and aggregator == '{rule}' and num_byzantine == {number}"
                for number in (269, 161)
                for rule in ("arfl", "fedavg")
            ),
            column="final_accuracy",
        ),
    ),
    Fact(
        "results/bench/README.md",
        "the Gram matrix takes {1:.0f} ms for {0:.0f}, boba {3:.0f} for {2:.0f}, krum {5:.0f} for "
        "{4:.0f}, b_krum {7:.0f} for {6:.0f}, fltrust {9:.0f} for {8:.0f}, zeno {11:.0f} for {10:.0f}.",
        lambda: _times(2, "Gram", "boba", "krum", "b_krum", "fltrust", "zeno"),
    ),
    Fact(
        "results/bench/README.md",
        "trmean takes {1:.0f} for {0:.0f} and coomed {3:.0f} for {2:.0f}, with one thread "
        "{5:.0f} for {4:.0f} and {7:.0f} for {6:.0f}.",
        lambda: [*_times(2, "trmean", "coomed"), *_times(1, "trmean", "coomed")],
    ),
    Fact(
        "results/bench/README.md",
        "from one matrix: {:.1f} ms at n = 25, f = 3, d = 10,000",
        lambda: list(
            runs("bench/rules.csv").query("rule == 'smea' and n == 25 and d == 10_000 and threads == 1")["ms"]
        ),
    ),
    Fact(
        "results/brace/README.md",
        "RAR ends at {:.2f} (batches of 8, 100 rounds, rate 0.2",
        lambda: [
            1
            - float(
                runs("brace/options.csv").query("attack == 'gaussian' and aggregator == 'rar'")["final_accuracy"].item()
            )
        ],
    ),
    Fact(
        "results/boba/README.md",
        "Average {:.1f} without attack, diverged under IPM, BOBA {:.1f} and {:.1f}",
        lambda: percent(
            "boba/cifar10.csv",
            *(
                f"aggregator == '{rule}' and attack == '{attack}'"
                for rule, attack in (("average", "none"), ("boba", "none"), ("boba", "ipm"))
            ),
            column="final_accuracy",
        ),
    ),
    Fact(
        "results/byzfl/README.md",
        "{:.2f} here, 97.33 published",
        lambda: percent("byzfl/runs.csv", "aggregator == aggregator", column="final_accuracy"),
    ),
    Fact(
        "results/karimireddy/README.md",
        "{:.2f} here, 97.87 published",
        lambda: percent("karimireddy/runs.csv", "aggregator == aggregator", column="final_accuracy"),
    ),
    Fact(
        "results/bench/README.md",
        "{:.0f} runs of 200 rounds, takes {:.1f} hours of both cores",
        lambda: [
            float(runs("bench/tables.csv").query("rule == 'all'")[column].sum()) / share
            for column, share in (("runs", 1), ("hours of a core", 2))
        ],
    ),
)


def problems(facts: Iterable[Fact] = FACTS) -> Iterator[str]:
    """What is wrong with the sentences, one line for each."""
    return filter(None, (fact.problem() for fact in facts))


if __name__ == "__main__":
    wrong = list(problems())
    print(
        "\n".join(wrong)
        if wrong
        else f"{len(FACTS)} sentences on {len({f.page for f in FACTS})} pages are as the runs say"
    )
    sys.exit(bool(wrong))
