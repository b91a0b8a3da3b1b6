"""The facts of results/gossip/README.md on FedBuff."""

from functools import cache, partial

import pandas as pd

from scripts.checks.facts.fact import Fact
from scripts.checks.facts.kept import NUMBERS, interval, runs


@cache
def fedbuff() -> pd.DataFrame:
    """The runs of FedBuff and of synchronous rounds, by protocol, rule, attack and seed."""
    table = runs("fedbuff/runs.csv").query("`protocol.attackers` == 'like_honest'")
    protocol = table["protocol.buffer"].map(lambda buffer: "sync" if pd.isna(buffer) else "fedbuff")
    protocol += " " + table["rounds"].astype(str)
    return table.assign(protocol=protocol).set_index(["protocol", "aggregator", "attack", "seed"]).sort_index()


def last(protocol: str, rule: str, attack: str) -> float:
    """The mean over seeds of the last accuracy, in percent."""
    return 100 * float(fedbuff().loc[(protocol, rule, attack), "last_accuracy"].mean())


def sooner() -> list[int]:
    """In how many comparisons FedBuff is above synchronous rounds after as long, by paired intervals; the seeds.

    The plain average under IPM, which diverges, is left out.
    """
    cells = [(rule, attack) for rule in ("average", "coomed", "mkrum") for attack in ("none", "label_flip", "ipm")]
    cells.remove(("average", "ipm"))
    table = fedbuff()["last_accuracy"]
    between = [interval(*(table[(name, *cell)] for name in ("fedbuff 500", "sync 25"))) for cell in cells]
    return [sum(low > 0 for _, low, _ in between), len(cells), table.index.get_level_values(3).nunique()]


def milder_if_fresh() -> list[int]:
    """In how many comparisons of means attackers with fresh updates do less harm to a robust rule, of how many."""
    table = runs("fedbuff/runs.csv").query("`protocol.buffer` == 12 and aggregator != 'average' and attack != 'none'")
    means = table.groupby(["aggregator", "attack", "protocol.attackers"])["last_accuracy"].mean().unstack()
    return [int((means["fresh"] > means["like_honest"]).sum()), len(means)]


def gains(rule: str, *attacks: str) -> list[float]:
    """How many points FedBuff is above synchronous rounds after 500 steps, with the ends of the paired intervals."""
    found = []
    for attack in attacks:
        both = (fedbuff().loc[(f"{name} 500", rule, attack), "last_accuracy"] for name in ("fedbuff", "sync"))
        found += interval(*(100 * accuracies for accuracies in both))
    return found


@cache
def attacked() -> pd.DataFrame:
    """The accuracies of rules by what arrives at the server, rule and attack, in percent, a column for each seed."""
    table = runs("fedbuff/attacked_runs.csv")
    late = table["protocol.attackers"].fillna("all")
    return table.assign(
        arrives=table["availability"].where(table["availability"] != "none", late),
        accuracy=100 * table["last_accuracy"].fillna(0),
    ).pivot(index=["arrives", "aggregator", "attack"], columns="seed", values="accuracy")


def more_lost(arrives: str, rule: str, attack: str) -> list[float]:
    """How many points a rule loses by what does not arrive, with the ends of the paired interval."""
    return interval(*(attacked().loc[(name, rule, attack)] for name in ("all", arrives)))


def late_under_attack() -> list[int]:
    """In how many of how many cells of robust rules under attack FedBuff's mean is below that of synchronous rounds."""
    cells = [(rule, attack) for rule in ("coomed", "mkrum", "geomed") for attack in ("ipm", "lie")]
    between = [more_lost("like_honest", *cell) for cell in cells]
    assert all(low <= 0 <= high for _, low, high in between)
    return [sum(mean > 0 for mean, _, _ in between), len(between)]


def roc_table() -> str:
    """The areas under the ROC curve: a row for each rule and attack, a column for each way to arrive."""
    table = runs("fedbuff/roc_auc.csv").set_index(["aggregator,availability,protocol.attackers", "attack"])["mean"]
    arrives = ("none", "unreliable", "none like_honest", "none fresh")
    return " ".join(
        f"| {rule} | {attack} | " + " | ".join(f"{table[(f'{rule} {way}', attack)]:.2f}" for way in arrives) + " |"
        for rule in ("mkrum", "geomed")
        for attack in ("ipm", "lie")
    )


PAGE = "results/gossip/README.md"

FACTS = (
    Fact(
        "where honest clients drop out**, by {:.1f} points [{:.1f}, {:.1f}].",
        lambda: more_lost("unreliable", "coomed", "ipm"),
    ),
    Fact(
        "the loss is {:.1f} points [{:.1f}, {:.1f}], for Multi-Krum none shows (a gain of {:.1f} points "
        "[{:.1f}, {:.1f}]).",
        lambda: [
            *more_lost("unreliable", "geomed", "ipm"),
            *(-more_lost("unreliable", "mkrum", "ipm")[place] for place in (0, 2, 1)),
        ],
    ),
    Fact("{} of {} means are below those of synchronous rounds", late_under_attack),
    Fact("| --- | --- | ---: | ---: | ---: | ---: | {}", lambda: [roc_table()]),
    Fact("({} of {} comparisons hold, {} seeds)", sooner),
    Fact("in {} of {} comparisons of means they do less.", milder_if_fresh),
    Fact(
        "Multi-Krum reaches {:.1f}% without attack where synchronous rounds have {:.1f}% after as long, and {:.1f}% "
        "against {:.1f}% under IPM.",
        lambda: [
            last(protocol, "mkrum", attack) for attack in ("none", "ipm") for protocol in ("fedbuff 500", "sync 25")
        ],
    ),
    Fact(
        "under IPM, synchronous with all {} seeds, FedBuff with {}. After",
        lambda: [
            NUMBERS[(fedbuff().loc[(protocol, "average", "ipm"), "state"] == "diverged").sum()]
            for protocol in ("sync 500", "fedbuff 500")
        ],
    ),
    Fact(
        "| average | {:+.1f} [{:.1f}, {:.1f}] | diverged | {:+.1f} [{:.1f}, {:.1f}] |",
        lambda: gains("average", "none", "label_flip"),
    ),
    *(
        Fact(f"| {rule} |{' {:+.1f} [{:.1f}, {:.1f}] |' * 3}", partial(gains, rule, "none", "ipm", "label_flip"))
        for rule in ("coomed", "mkrum")
    ),
    Fact(
        "a step of FedBuff takes {:.2f} units, a synchronous round {:.0f}. That is why 25 rounds ({:.0f} units) are "
        "compared with 500 steps ({:.0f}).",
        lambda: [
            float(fedbuff().loc[(protocol, "mkrum", "none"), "last.simulated_time"].mean()) / steps
            for protocol, steps in (("fedbuff 500", 500), ("sync 25", 25), ("sync 25", 1), ("fedbuff 500", 1))
        ],
    ),
)
