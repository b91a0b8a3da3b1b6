"""The facts of results/successors/README.md, on ByzFL and Karimireddy et al. too."""

from functools import partial

from scripts.checks.facts.fact import Fact
from scripts.checks.facts.kept import percent, runs


def _removed(attack: str) -> list[str]:
    """The mean numbers of attackers and of honest clients that FLDetector has removed, in the columns of its table."""
    table = runs("successors/fldetector.csv").query("attack == @attack")
    cells = []
    for partition in ("iid", "pathological"):
        for part in (table.batch_size == 32, table.batch_size.isna()):
            here = table[part & (table.partition == partition)]
            honest = f"{here['last.honest_dropped'].mean():.1f}"
            cells.append(honest if attack == "none" else f"{5 - here['last.byzantine_accepted'].mean():.1f} / {honest}")
    return cells


def _removals() -> list[object]:
    """The counts in the first paragraph on FLDetector."""
    table = runs("successors/fldetector.csv")
    attackers, honest = 5 - table["last.byzantine_accepted"], table["last.honest_dropped"]
    unlike, like = table.attack.isin(["gauss", "ipm", "trim_attack"]), table.attack.isin(["lie", "minmax"])
    in_iid, alone = (table.attack == "lie") & (table.partition == "iid"), table.attack == "none"
    words = {0: "no", 1: "one"}
    return [
        attackers[unlike].min(), words[int(honest[unlike].sum())], int(unlike.sum()), words[int(attackers[like].max())],
        int((honest[like] > 0).sum()), int(like.sum()), honest[in_iid].min(), int((honest[alone] > 0).sum()),
        int(alone.sum()),
    ]  # fmt: skip


PAGE = "results/successors/README.md"

FACTS = (
    Fact("{:.2f} here, 97.33 published", lambda: percent("byzfl/runs.csv", "aggregator == aggregator")),
    Fact("{:.2f} here, 97.87 published", lambda: percent("karimireddy/runs.csv", "aggregator == aggregator")),
    *(
        Fact(
            f"| `{attack}`{words} | {{:.2f}} | {{:.2f}} |",
            partial(
                percent,
                "successors/fed_nga.csv",
                *(f"attack == '{attack}' and eval_every == 10 and num_byzantine == {f}" for f in attackers),
            ),
        )
        for attack, words, attackers in (
            ("none", "", (0, 0)),
            *((attack, "", (10, 20)) for attack in ("gauss", "ipm", "lie")),
            ("sign_flip", ", each its own update", (10, 20)),
        )
    ),
    *(
        Fact(f"| {words} |" + " {} |" * 4, partial(_removed, attack))
        for attack, words in (
            ("none", "none"),
            ("gauss", "Gauss"),
            ("ipm", "IPM"),
            ("trim_attack", "trim attack"),
            ("label_flip", "label flips"),
            ("lie", "LIE"),
            ("minmax", "Min-Max"),
        )
    ),
    Fact(
        "it removes all {:.0f} attackers, and {} honest client in {} runs. Under LIE and Min-Max it removes {} "
        "attacker in any run, and in {} of {} runs it removes honest clients instead, in IID under LIE all {:.0f}. "
        "Without attack it removes honest clients in {} of {} runs.",
        _removals,
    ),
)
