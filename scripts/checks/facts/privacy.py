"""The facts of results/privacy/README.md."""

from functools import cache

import pandas as pd

from scripts.checks.facts.fact import Fact
from scripts.checks.facts.kept import interval, runs

SUMS = ("average", "norm_bound", "signsgd", "brace", "fed_nga")
"""Rules for which a sum over the clients is enough."""


@cache
def private(data: str) -> pd.DataFrame:
    """The accuracies with noise at the clients, in percent, by noise, rule and attack, a column for each seed.

    Attacks that search for the largest loss have ``_loss`` behind their name.
    """
    table = runs(f"privacy/{data}.csv")
    table = pd.concat([table, runs("privacy/sums.csv")]) if data == "digits" else table
    mixed = table["pre_aggregation"].where(table["pre_aggregation"] != "none", "")
    searched = table["attack.objective"].eq("loss").map({True: "_loss", False: ""})
    return table.assign(
        rule=(mixed + "_" + table["aggregator"]).str.strip("_"),
        attack=table["attack"] + searched,
        accuracy=100 * table["final_accuracy"].fillna(0),
    ).pivot(index=["local_update.inner.noise", "rule", "attack"], columns="seed", values="accuracy")


def private_means(data: str, *cells: tuple[float, str, str]) -> list[float]:
    """The mean accuracies of cells, each a noise, a rule and an attack, in percent."""
    return [float(private(data).loc[cell].mean()) for cell in cells]


def above(data: str, noise: float, attack: str, rule: str, other: str) -> list[float]:
    """How many points a rule is above another, with the ends of the paired interval."""
    return interval(*(private(data).loc[(noise, name, attack)] for name in (rule, other)))


def more_harm(attack: str) -> list[float]:
    """How many points more an attack costs trmean on digits with noise 1 than without, with the ends of the paired
    interval."""
    table = private("digits")
    return interval(*(table.loc[(noise, "trmean", "none")] - table.loc[(noise, "trmean", attack)] for noise in (1, 0)))


def epsilons(data: str) -> dict[float, float]:
    """The epsilon of the runs with each noise."""
    table = runs(f"privacy/{data}.csv").dropna(subset="last.epsilon")
    by_noise = table.groupby("local_update.inner.noise")["last.epsilon"]
    assert (by_noise.nunique() == 1).all()
    return {float(noise): float(number) for noise, number in by_noise.first().items()}


def private_table() -> str:
    """The table of accuracies on digits: a row for each noise and rule, a column for each attack."""
    table, known = private("digits").mean(axis=1).unstack("attack"), epsilons("digits")
    words = {noise: f"{epsilon:.{1 if epsilon > 1 else 2}f}" for noise, epsilon in known.items()}
    return " ".join(
        f"| {noise:g} | {words.get(noise, 'infinite')} | {rule} | "
        + " | ".join(f"{float(table.loc[(noise, rule), attack]):.1f}" for attack in ("none", "opt_alie", "opt_ipm"))
        + " |"
        for noise in (0, 1, 2)
        for rule in ("average", "trmean", "nnm_trmean", "smea")
    )


PAGE = "results/privacy/README.md"

FACTS = (
    Fact(
        "IPM that searches (Opt-IPM) leaves the trimmed mean {:.1f}%. With noise 1, epsilon {:.1f}, the trimmed mean "
        "has {:.1f}% without attack and {:.1f}% under it: the attack costs {:.1f} points [{:.1f}, {:.1f}] more than "
        "without noise. NNM before the trimmed mean does not change that ({:.1f} points [{:.1f}, {:.1f}]).",
        lambda: [
            *private_means("digits", (0, "trmean", "opt_ipm")),
            epsilons("digits")[1],
            *private_means("digits", (1, "trmean", "none"), (1, "trmean", "opt_ipm")),
            *more_harm("opt_ipm"),
            *above("digits", 1, "opt_ipm", "nnm_trmean", "trmean"),
        ],
    ),
    Fact(
        "has {:.1f}% there, {:.1f} points [{:.1f}, {:.1f}] above the trimmed mean, and with noise 2, epsilon {:.1f}, "
        "{:.1f} points [{:.1f}, {:.1f}] above it. Without noise no difference between the three robust rules shows "
        "({:.1f} points [{:.1f}, {:.1f}] for SMEA).",
        lambda: [
            *private_means("digits", (1, "smea", "opt_ipm")),
            *above("digits", 1, "opt_ipm", "smea", "trmean"),
            epsilons("digits")[2],
            *above("digits", 2, "opt_ipm", "smea", "trmean"),
            *above("digits", 0, "opt_ipm", "smea", "trmean"),
        ],
    ),
    Fact(
        "With noise 0.5, epsilon {:.1f}, the trimmed mean has {:.1f}% without attack and {:.1f}% under Opt-IPM, SMEA "
        "{:.1f}%, which is {:.1f} points [{:.1f}, {:.1f}] more. Without noise they have {:.1f}% and {:.1f}% under it.",
        lambda: [
            epsilons("mnist")[0.5],
            *private_means("mnist", (0.5, "trmean", "none"), (0.5, "trmean", "opt_ipm"), (0.5, "smea", "opt_ipm")),
            *above("mnist", 0.5, "opt_ipm", "smea", "trmean"),
            *private_means("mnist", (0, "trmean", "opt_ipm"), (0, "smea", "opt_ipm")),
        ],
    ),
    Fact(
        "With noise 1 epsilon is {:.2f}: SMEA has {:.1f}% without attack and {:.1f}% under Opt-IPM, the trimmed mean "
        "{:.1f}%. NNM before the trimmed mean helps with noise 0.5 ({:.1f} points [{:.1f}, {:.1f}]) and does harm with "
        "noise 1 ({:.1f} points [{:.1f}, {:.1f}]).",
        lambda: [
            epsilons("mnist")[1],
            *private_means("mnist", (1, "smea", "none"), (1, "smea", "opt_ipm"), (1, "trmean", "opt_ipm")),
            *above("mnist", 0.5, "opt_ipm", "nnm_trmean", "trmean"),
            *above("mnist", 1, "opt_ipm", "nnm_trmean", "trmean"),
        ],
    ),
    Fact(
        "**Without attack robust rules cost little** on digits: {:.1f} points at most in the means.",
        lambda: [
            max(
                -above("digits", noise, "none", rule, "average")[0]
                for noise in (0, 1, 2)
                for rule in ("trmean", "nnm_trmean", "smea")
            )
        ],
    ),
    Fact(
        "with noise 1 it costs the trimmed mean {:.1f} points [{:.1f}, {:.1f}] more than without noise.",
        lambda: more_harm("opt_alie"),
    ),
    Fact(
        "| noise | epsilon | rule | no attack | Opt-ALIE | Opt-IPM | | ---: | ---: | --- | ---: | ---: | ---: | {}",
        lambda: [private_table()],
    ),
    Fact(
        "Without noise Opt-IPM leaves Fed-NGA {:.1f}% and signSGD {:.1f}%, SMEA {:.1f}%. With noise 1 it leaves them "
        "{:.1f}% and {:.1f}%, SMEA {:.1f}%, which is {:.1f} points [{:.1f}, {:.1f}] above signSGD. The mean, norm "
        "bounding and BRACE fall under it without noise as well. Opt-ALIE with noise 1 leaves every rule but the "
        "mean at least {:.1f}%.",
        lambda: [
            *private_means("digits", *((0, rule, "opt_ipm_loss") for rule in ("fed_nga", "signsgd", "smea"))),
            *private_means("digits", *((1, rule, "opt_ipm_loss") for rule in ("fed_nga", "signsgd", "smea"))),
            *above("digits", 1, "opt_ipm_loss", "smea", "signsgd"),
            min(private_means("digits", *((1, rule, "opt_alie_loss") for rule in (*SUMS[1:], "trmean", "smea")))),
        ],
    ),
    Fact(
        "with noise 1 no rate tried gives it more than {:.1f}% of the validation data.",
        lambda: [
            100
            * runs("privacy/rates.csv")
            .query("aggregator == 'rlr' and `local_update.inner.noise` == 1")["validation_accuracy"]
            .max()
        ],
    ),
)
