"""The facts of results/arena/README.md."""

from robustfl_bench.lab.arena.additions import SEARCHING
from robustfl_bench.runner.store.evidence import is_part
from scripts.checks.facts.blindspot import fallen
from scripts.checks.facts.fact import RESULTS, Fact
from scripts.checks.facts.kept import arena_of, runs


def hours_of_version_2() -> list[float]:
    """The hours of one core that the kept runs of the arena's version 2 took: rules as they come, tuned, in other
    tracks, from nudged models, and against attackers who search; then those of all."""
    searched = [f"arena/silos/{attack}.csv.gz" for attack in SEARCHING]
    kinds = ("arena/silos/*", "arena/silos_tuned/*", "arena/tracks/*", "arena/rounding.csv.gz", "planned/[!c]*.csv*")
    found = [sorted(path for path in RESULTS.glob(kind) if not is_part(path)) for kind in kinds]
    files = [[path.relative_to(RESULTS).as_posix() for path in of] for of in found]
    files = [[path for path in of if path not in searched] for of in files[:-1]] + [[*searched, *files[-1]]]
    hours = [sum(float(runs(path)["seconds"].sum()) for path in of) / 3600 for of in files]
    return [*hours, sum(hours)]


def tuned() -> list[int]:
    """Of arena silos: the rules in both books, their scores, and those that tuning raises and lowers."""
    from robustfl_bench.lab.arena.views.books import books

    found = books(arena_of("silos"))
    moved = [sum(len(of.moved(sign)) for of in found) for sign in (1, -1)]
    return [max(len(of.rules) for of in found), sum(len(of.rules) for of in found), *moved]


PAGE = "results/arena/README.md"

FACTS = (
    Fact(
        "**Attackers who look for a rule's weakness bring {} of {} scores of 50 and more below 50.**",
        lambda: fallen()[:2],
        slow=True,
    ),
    Fact(
        "{} rules so far, of whose {} scores tuning raises {} beyond the seeds and lowers {}.",
        tuned,
        slow=True,
    ),
    Fact(
        "The kept runs took {:.1f} hours of one core: {:.1f} for the rules as they come, {:.1f} for those "
        "tuned, {:.1f} in other tracks, {:.1f} beside nudged models, and {:.1f} against attackers",
        lambda: [hours_of_version_2()[-1], *hours_of_version_2()[:-1]],
    ),
)
