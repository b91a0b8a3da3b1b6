"""The facts of results/gossip/README.md."""

from functools import partial

from scripts.checks.facts.fact import Fact
from scripts.checks.facts.kept import percent, runs


def at_nodes(attack: str, *rules: str) -> list[float]:
    """The mean accuracy over seeds of rules at the nodes of two cliques, in percent."""
    means = runs("gossip/digits_runs.csv").groupby(["attack", "aggregator"])["final_accuracy"].mean()
    return [100 * float(means[attack, rule]) for rule in rules]


PAGE = "results/gossip/README.md"

FACTS = (
    Fact(
        "five seeds do not decide: {:.1f}% and {:.1f}% on two cliques.",
        lambda: at_nodes("spectral_heterogeneity", "cs_plus", "monna"),
    ),
    Fact(
        "ClippedGossip with the adaptive radius falls to {:.1f}%.",
        lambda: at_nodes("spectral_heterogeneity", "clipped_gossip"),
    ),
    Fact(
        "Dissensus takes plain gossip to {:.1f}%; every robust rule but Krum keeps {:.1f}% or more**, NNA the most "
        "({:.1f}%).",
        lambda: at_nodes("dissensus", "average", "trmean", "monna"),
    ),
    *(
        Fact(
            f"| `{rule}` | {{:.2f}} |",
            partial(
                lambda rule: percent(
                    "gossip/ring_runs.csv",
                    f"aggregator == '{rule}' and attack == 'lie' and rounds == 90",
                    column="final_accuracy",
                ),
                rule,
            ),
        )
        for rule in ("clipped_gossip", "trmean", "rfa")
    ),
    *(
        Fact(
            sentence,
            partial(
                lambda rule, beta, attacks: percent(
                    "gossip/monna_runs.csv",
                    *(
                        f"model == 'byzfl_cnn' and aggregator == '{rule}' and `local_update.beta` == {beta} "
                        f"and attack == '{attack}'"
                        for attack in attacks
                    ),
                    column="final_accuracy",
                ),
                *run,
            ),
        )
        for sentence, *run in (
            (
                "| mean, momentum 0.99 (without attackers: D-SGD) | {:.2f} | {:.2f} | {:.2f} |",
                "average",
                0.99,
                ("none", "lie", "label_flip"),
            ),
            (
                "| MoNNA: nearest neighbours, momentum 0.99 | not run | {:.2f} | {:.2f} |",
                "monna",
                0.99,
                ("lie", "label_flip"),
            ),
            ("| NNA: nearest neighbours, no momentum | not run | {:.2f} | not run |", "monna", 0, ("lie",)),
        )
    ),
    *(
        Fact(
            f"| {words} | {{:.2f}} | {{:.2f}} | {{:.2f}} | {{:.2f}} |",
            partial(
                lambda kind: (
                    100 * runs("gossip/ring_rounds.csv").query("local_update == @kind").test_accuracy
                ).tolist(),
                kind,
            ),
        )
        for kind, words in (
            ("momentum", "here, one run"),
            ("momentum_from_zero", "here with a momentum that begins at 0, one run"),
        )
    ),
)
