"""The facts of results/gossip/README.md."""

from functools import partial

from scripts.checks.facts.fact import Fact
from scripts.checks.facts.kept import ends, percent, runs


def at_nodes(attack: str, *rules: str) -> list[float]:
    """The mean accuracy over seeds of rules at the nodes of two cliques, in percent."""
    means = runs("gossip/digits_runs.csv").groupby(["attack", "aggregator"])["final_accuracy"].mean()
    return [100 * float(means[attack, rule]) for rule in rules]


def worst_node(attack: str) -> list[float]:
    """The least and the largest accuracy of the worst node over the rules but Krum, means over seeds, in percent."""
    table = runs("gossip/digits_runs.csv").query("attack == @attack and aggregator != 'krum'")
    return ends(100 * table.groupby("aggregator")["last.node_accuracy_worst"].mean())


def monna(rule: str, attack: str, beta: float = 0.99, declared: int = 5, topology: str = "complete") -> float:
    """The accuracy after 600 rounds of MoNNA's setting on MNIST, in percent."""
    same = f"aggregator == '{rule}' and attack == '{attack}' and `local_update.beta` == {beta} and rounds == 600"
    where = f"num_byzantine_declared == {declared} and `protocol.topology` == '{topology}'"
    return percent("gossip/monna_runs.csv", f"{same} and {where}")[0]


def round_by_round(local_update: str) -> list[float]:
    """The accuracies of a run on a ring, in percent."""
    chosen = runs("gossip/ring_rounds.csv").query("local_update == @local_update")
    return (100 * chosen["test_accuracy"]).tolist()


_LIE = "attack == 'lie' and rounds == 90"
PAGE = "results/gossip/README.md"

FACTS = (
    Fact(
        "five seeds do not decide: {:.1f}% and {:.1f}% on two cliques.",
        lambda: at_nodes("spectral_heterogeneity", "cs_plus", "monna"),
    ),
    Fact(
        "under every rule but Krum: the worst node keeps {:.0f} to {:.0f}%",
        lambda: worst_node("spectral_heterogeneity"),
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
        Fact(f"| `{rule}` | {{:.2f}} |", partial(percent, "gossip/ring_runs.csv", f"aggregator == '{rule}' and {_LIE}"))
        for rule in ("clipped_gossip", "trmean", "rfa")
    ),
    Fact(
        "| mean, momentum 0.99 (without attackers: D-SGD) | {:.2f} | {:.2f} | {:.2f} |",
        lambda: [monna("average", attack) for attack in ("none", "lie", "label_flip")],
    ),
    Fact(
        "| MoNNA: the nearest 21 of 26, momentum 0.99 | not run | {:.2f} | {:.2f} |",
        lambda: [monna("monna", attack) for attack in ("lie", "label_flip")],
    ),
    Fact(
        "| MoNNA: the nearest 16 of 26, momentum 0.99 | not run | {:.2f} | not run |",
        lambda: [monna("monna", "lie", declared=10)],
    ),
    Fact(
        "| NNA: the nearest 21 of 26, no momentum | not run | {:.2f} | not run |",
        lambda: [monna("monna", "lie", beta=0)],
    ),
    Fact(
        "with 15 honest neighbours drawn once, MoNNA has {:.2f}%.",
        lambda: [monna("monna", "lie", topology="from_file")],
    ),
    *(
        Fact(f"| {words} |{' {:.2f} |' * 4}", partial(round_by_round, kind))
        for kind, words in (
            ("momentum", "here, one run"),
            ("momentum_from_zero", "here with a momentum that begins at 0, one run"),
        )
    ),
)
