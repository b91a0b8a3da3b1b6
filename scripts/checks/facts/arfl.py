"""The facts of results/arfl/README.md on ARFL."""

from functools import partial

import pandas as pd

from scripts.checks.facts.fact import Fact
from scripts.checks.facts.kept import column, ends, extremes, measured_in, percent, runs, word


def weightless() -> list[int]:
    """The first round of Fig. 6 on MNIST from which no bad client has any weight."""
    table = measured_in("arfl/fig6_mnist.csv")
    weights = table[table["line"].str.startswith("byzantine")].groupby("x")["mean"].max()
    return [int(weights[weights > 0].index.max()) + 1]


def writers(rule: str, *attacks: tuple[str, int]) -> list[float]:
    """The accuracies of a rule on MNIST by writer under corruptions by a number of clients, in percent."""
    conditions = (f"aggregator == '{rule}' and attack == '{attack}' and num_byzantine == {n}" for attack, n in attacks)
    return percent("arfl/writers.csv", *conditions)


def over_seeds(rule: str, attack: str, number: int) -> float:
    """The mean accuracy over all seeds of a rule on MNIST by writer under a corruption, in percent."""
    made = pd.concat(map(runs, ("arfl/writers.csv", "arfl/seeds.csv")))
    chosen = made.query("aggregator == @rule and attack == @attack and num_byzantine == @number")
    return 100 * float(chosen["final_accuracy"].mean())


def lost(rule: str) -> list[float]:
    """The least and largest loss of a rule by half of bad clients on MNIST by writer, and its accuracy without them."""
    clean = writers(rule, ("none", 0))[0]
    least, most = extremes("arfl/writers.csv", f"aggregator == '{rule}' and num_byzantine == 269")
    return [clean - most, clean - least, clean]


def cifar10_of_arfl(rule: str) -> list[float]:
    """The accuracy in percent, the loss, and the weight of the bad half of a rule."""
    run = runs("arfl/cifar10.csv").query("aggregator == @rule and attack != 'none'")
    return [100 * run["final_accuracy"].item(), run["test_loss"].item(), run["last.byzantine_weight"].item()]


def shakespeare(attack: str, *rules: str) -> list[float]:
    """The accuracies of rules after ten rounds on Shakespeare, in percent."""
    conditions = (f"aggregator == '{rule}' and attack == '{attack}'" for rule in rules)
    return percent("arfl/shakespeare_quick.csv", *conditions)


def on_bad_data() -> list[float]:
    """ARFL's least and largest mean accuracy on MNIST by writer over the columns of bad data, that on clean data, in
    how many columns it is the best, and how many there are."""
    found = [column("arfl/writers", f"{attack} {share}") for attack in BAD for share in (0.3, 0.5)]
    own = [of["arfl"] for of in found]
    best = sum(of["arfl"] == max(of.values()) for of in found)
    return [*ends(own), column("arfl/writers", "none")["arfl"], best, len(found)]


def from_honest_fedavg() -> list[object]:
    """How many honest clients Fig. 7 has on MNIST, and the most by which the weight of one by ARFL differs from that by
    FedAvg with the honest clients alone."""
    table = measured_in("arfl/fig7_mnist.csv").pivot(index="x", columns="line", values="mean")
    far = (table["arfl"] - table["fedavg, honest clients alone"]).dropna().abs()
    return [word(len(far)), float(far.max())]


PAGE = "results/arfl/README.md"
FIVE = ("fedavg", "rfa", "mkrum", "cfl", "arfl")
"""The rules of Table 2."""
BAD = ("label_shuffle", "label_flip_one", "noisy")
"""Its kinds of bad data."""

FACTS = (
    Fact(
        "it does withstand them: means of {:.1f} to {:.1f} in six columns of bad data, {:.1f} without. It is the best "
        "in {} of {} of these.",
        on_bad_data,
        slow=True,
    ),
    Fact(
        "with the labels of half of the clients shuffled all five rules have {:.1f}, as they",
        lambda: sorted({round(number, 1) for number in shakespeare("label_shuffle", *FIVE)}),
    ),
    Fact("(Fig. 7): of {} honest clients none differs by more than {:.3f}.", from_honest_fedavg),
    Fact(
        "{:.1f} with half of the clients flipped to one label, {:.1f} shuffled, {:.1f} noisy",
        lambda: writers("fedavg", ("label_flip_one", 269), ("label_shuffle", 269), ("noisy", 269)),
    ),
    Fact(
        "RFA loses {:.1f} to {:.1f} points against its own clean {:.1f}; Multi-Krum at most {:.1f} against its own "
        "clean {:.1f}",
        lambda: [*lost("rfa"), *lost("mkrum")[1:]],
    ),
    Fact(
        "| {:.1f} shuffled, {:.1f} flipped; the means of five seeds are {:.1f} and {:.1f} |",
        lambda: [
            *writers("cfl", ("label_shuffle", 269), ("label_flip_one", 269)),
            *(over_seeds("cfl", attack, 269) for attack in ("label_shuffle", "label_flip_one")),
        ],
    ),
    Fact(
        "with 30% shuffled CFL has {:.1f} against {:.1f} |",
        lambda: [writers(r, ("label_shuffle", 161))[0] for r in ("cfl", "arfl")],
    ),
    Fact(
        "| with 30% shuffled, the mean of five seeds | CFL has {:.1f}, ARFL {:.1f} |",
        lambda: [over_seeds(rule, "label_shuffle", 161) for rule in ("cfl", "arfl")],
    ),
    Fact(
        "the authors' code: {:.1f} | `received`, Algorithm 1 | {:.1f}: none |",
        lambda: [
            *writers("arfl", ("label_shuffle", 269)),
            *percent("arfl/options.csv", "`aggregator.loss_at` == 'received'"),
        ],
    ),
    Fact(
        "| 1: {:.1f} | 0.1; 10 | {:.1f}; {:.1f} |",
        lambda: [
            *writers("arfl", ("label_shuffle", 269)),
            *percent("arfl/options.csv", *(f"`aggregator.regularization` == {lam}" for lam in (0.1, 10))),
        ],
    ),
    Fact(
        "the authors' code: {:.1f} | squared, others alone (Blanchard et al.) | {:.1f}: none |",
        lambda: [*writers("mkrum", ("label_shuffle", 269)), *percent("arfl/options.csv", "aggregator == 'mkrum'")],
    ),
    Fact(
        "the authors' code: {:.1f} | `heavier`; `smaller` | {:.1f}; {:.1f},",
        lambda: [
            *writers("cfl", ("label_shuffle", 269)),
            *percent("arfl/options.csv", *(f"`aggregator.group` == '{group}'" for group in ("heavier", "smaller"))),
        ],
    ),
    Fact(
        "the authors' code: {:.1f} | `image` | {:.1f} |",
        lambda: [*writers("fedavg", ("noisy", 269)), *percent("arfl/options.csv", "`attack.rescale` == 'image'")],
    ),
    Fact("FedAvg on clean data has {:.1f} there", lambda: percent("arfl/cifar10.csv", "attack == 'none'")),
    *(
        Fact(f"| {words} | {{:.2f}} | {{:.2f}} |", partial(cifar10_of_arfl, rule))
        for rule, words in (
            ("arfl", "ARFL | **{:.1f}** | **69.7**"),
            ("cfl", "CFL | {:.1f} | 50.3"),
            ("fedavg", "FedAvg | {:.1f} | 47.0"),
            ("rfa", "RFA | {:.1f} | 40.3"),
            ("mkrum", "Multi-Krum | {:.1f} | 52.3 (14.9)"),
        )
    ),
    Fact("all three do from round {} on", weightless),
    Fact(
        "at 0.1 M two clients are left and accuracy falls from {:.0f} to {:.0f}",
        lambda: percent(
            "arfl/ten_clients.csv",
            "`aggregator.regularization` == 1 and eval_every == 5",
            "`aggregator.regularization` == 0.1",
        ),
    ),
    Fact(
        "{:.1f} to {:.1f} in all six columns, {:.1f} on clean data",
        lambda: [
            *extremes("arfl/writers.csv", "aggregator == 'arfl' and attack != 'none'"),
            *percent("arfl/writers.csv", "aggregator == 'arfl' and attack == 'none'"),
        ],
    ),
    Fact(
        "{:.1f} with half of the clients, against FedAvg's {:.1f}, and {:.1f} with 30%, against {:.1f}.",
        lambda: percent(
            "arfl/options.csv",
            *(
                f"attack == 'fake_loss' and aggregator == '{rule}' and num_byzantine == {number}"
                for number in (269, 161)
                for rule in ("arfl", "fedavg")
            ),
        ),
    ),
)
