"""The facts of results/successors/README.md on Peng et al."""

from functools import partial

from scripts.checks.facts.fact import Fact
from scripts.checks.facts.kept import measured_in, runs

BESIDE_THE_MEAN = ("faba", "lfighter", "trmean", "average")


def by_labels(setting: str, rule: str, attack: str, rounds: int = 500, file: str = "runs.csv") -> float:
    """The mean accuracy [%] of a rule in a file of results/mean_labels after so many rounds."""
    table = runs(f"mean_labels/{file}").query("rounds == @rounds and aggregator == @rule and attack == @attack")
    partition = {"iid": "iid", "mild": "dirichlet", "by_class": "pathological"}[setting]
    return 100 * float(table.loc[table["partition"] == partition, "final_accuracy"].mean())


PAGE = "results/successors/README.md"

FACTS = (
    Fact(
        "{:.1f}, {:.1f}, {:.1f}, {:.1f} and {:.1f}% under static flipping, {:.1f}, {:.1f}, {:.1f}, {:.1f} and {:.1f}% "
        "under dynamic flipping.",
        lambda: [
            by_labels("by_class", rule, attack)
            for attack in ("label_flip", "dynamic_label_flip")
            for rule in ("average", "lfighter", "centered_clipping", "faba", "trmean")
        ],
    ),
    Fact(
        "LFighter has {:.1f}%, FABA {:.1f}% and the trimmed mean {:.1f}%, the mean {:.1f}%",
        lambda: [by_labels("by_class", rule, "none") for rule in ("lfighter", "faba", "trmean", "average")],
    ),
    Fact(
        "and the mean have {:.1f}, {:.1f}, {:.1f} and {:.1f}% under static flipping.",
        lambda: [by_labels("iid", rule, "label_flip") for rule in BESIDE_THE_MEAN],
    ),
    Fact(
        "{:.1f}, {:.1f}, {:.1f}, {:.1f} and {:.1f}% under static flipping, {:.1f}, {:.1f}, {:.1f}, {:.1f} and {:.1f}% "
        "under dynamic flipping (two hidden",
        lambda: [
            by_labels("by_class", rule, attack, file="mlp_runs.csv")
            for attack in ("label_flip", "dynamic_label_flip")
            for rule in ("average", "lfighter", "centered_clipping", "faba", "trmean")
        ],
    ),
    *(
        Fact(
            f"| {words} | {{:.1f}} | {{:.1f}} | {{:.1f}} | {{:.1f}} | {{:.1f}} |",
            partial(
                lambda file: [
                    by_labels("by_class", rule, "label_flip", 2000, file)
                    for rule in ("average", "centered_clipping", "lfighter", "faba", "trmean")
                ],
                file,
            ),
        )
        for words, file in (("softmax regression", "runs.csv"), ("network", "mlp_runs.csv"))
    ),
    Fact(
        "At round 400 LFighter is ahead of the mean, with {:.1f} and {:.1f}%",
        lambda: (
            measured_in("mean_labels/mlp.csv")
            .query("panel == 'label flip, mlp by class' and x == 400")
            .set_index("line")["mean"][["lfighter", "average"]]
            .tolist()
        ),
    ),
)
