"""The facts of results/arena/README.md."""

from functools import partial
from typing import Any

from robustfl_bench.lab.arena.additions import SEARCHING
from robustfl_bench.lab.arena.answers.findings import CONDITIONS
from robustfl_bench.lab.arena.panels import Arena
from robustfl_bench.lab.arena.track import SERVER
from robustfl_bench.lab.arena.views.targeted import targeted
from robustfl_bench.lab.arena.words import listed
from robustfl_bench.runner.config.names import readable
from robustfl_bench.runner.store.evidence import is_part
from scripts.checks.facts.blindspot import fallen
from scripts.checks.facts.fact import RESULTS, Fact
from scripts.checks.facts.kept import arena_of, runs, tuned_arena_of


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


MILD = (5, "mild_dirichlet")
"""The panel with 5 attackers of 25 clients and mild label skew."""


def searched(arena: Arena, place: tuple[int, str] = MILD) -> tuple[dict[str, float], dict[str, float], list[str]]:
    """Of a panel: the scores of its rules and of the server alone, those of its rules under the list, and the rules
    that met attackers who search, the best first."""
    panel = arena.panels[place]
    scores, listed = ({rule: of.score.value for rule, of in held.standings.items()}
                      for held in (panel, arena.by_list[place]))  # fmt: skip
    del listed[SERVER]
    return scores, listed, sorted((rule for rule in listed if rule in panel.met), key=lambda rule: -scores[rule])


def tuned_under_search() -> list[object]:
    """What the best tuned rules keep if some attackers search, over three seeds or more: with 20% in IID, Fang and step
    with the rule's name, and elsewhere at most; the server alone at least; with 40% at most; then the most that FLTrust
    keeps with 40% under the list."""
    arena = tuned_arena_of("silos")
    best = {place: max((of.score.value, rule) for rule, of in panel.standings.items()
                       if rule not in {SERVER, *panel.unmet} and of.score.n > 2)
            for place, panel in arena.panels.items()}  # fmt: skip
    named = [best[5, partition] for partition in ("iid", "fang", "step")]
    return [*(of for score, rule in named for of in (score, readable(rule))),
            max(best[5, partition][0] for partition in ("mild_dirichlet", "pathological")),
            min(panel.standings[SERVER].score.value for panel in arena.panels.values()),
            max(score for (number, _), (score, _) in best.items() if number == 10),
            max(panel.standings["fltrust"].score.value for (number, _), panel in arena.by_list.items()
                if number == 10)]  # fmt: skip


def of_fltrust() -> list[object]:
    """What FLTrust keeps under other conditions: under the list, then with attackers who search.

    Raises ValueError where a rule that met these keeps more than the server alone.
    """
    found = {name: searched(arena_of(name)) for name in CONDITIONS}
    for name, (scores, _, met) in found.items():
        if scores[met[0]] >= scores[SERVER]:
            raise ValueError(f"{name}: {met[0]} keeps more than the server alone")
    return [*(of["fltrust"] for _, of, _ in found.values()), *(scores["fltrust"] for scores, *_ in found.values())]


def with_like_data() -> list[object]:
    """On images, where clients have like data: by how much FLDetector is below the own samples; the score of SignSGD,
    that of RLR, of ByGARS, of the own samples, of Fed-NGA on digits and there, of SignGuard under the list and in all.

    Raises ValueError unless these votes and ByGARS alone keep as much as the server alone, by the means.
    """
    scores, listed, met = searched(arena_of("fashion"), (5, "iid"))
    if {rule for rule in met if scores[rule] >= scores[SERVER]} != {"rlr", "signsgd", "bygars"}:
        raise ValueError(f"the best rules in IID: {[(rule, scores[rule]) for rule in met[:4]]}")
    digits, _, _ = searched(arena_of("silos"), (5, "iid"))
    return [scores[SERVER] - scores["fldetector"],
            *(scores[rule] for rule in ("signsgd", "rlr", "bygars", SERVER)), digits["fed_nga"], scores["fed_nga"],
            listed["signguard"], scores["signguard"]]  # fmt: skip


def with_momentum() -> list[object]:
    """On images, where clients have like data and 20% attack: how many of the rules that met attackers who search keep
    more than the server alone with momentum, the best of them and its score; then how many without momentum."""
    found = [searched(arena_of(track), (5, "iid")) for track in ("fashion_momentum", "fashion")]
    with_it, without = ([rule for rule in met if scores[rule] > scores[SERVER]] for scores, _, met in found)
    return [len(with_it), readable(with_it[0]), found[0][0][with_it[0]], len(without)]


def with_many_attackers() -> list[object]:
    """On images, 40% attackers, where rules met those who search: the least that the server alone keeps, the number of
    panels, the rule that keeps most, what, and where.

    Raises ValueError where a rule keeps more than the server alone.
    """
    arena = arena_of("fashion")
    found = {}
    for place in arena.panels:
        scores, _, met = searched(arena, place)
        if place[0] == 10 and met:
            found[place] = scores[met[0]], met[0], scores[SERVER]
            if scores[met[0]] >= scores[SERVER]:
                raise ValueError(f"{place}: {met[0]} keeps more than the server alone")
    place = max(found, key=lambda place: found[place][0])
    most, rule, _ = found[place]
    return [min(alone for *_, alone in found.values()), len(found), readable(rule), most, readable(place[1])]


def with_goals() -> list[object]:
    """Of the attacks with a goal on Fashion-MNIST: the rules that withstand, how many others do not; the success of a
    backdoor under average, and of one that is not scaled under three rules."""
    ((_, found),) = targeted(arena_of("fashion")).items()
    rules = {of.rule: of for of in found if of.rule != SERVER}
    stand = [readable(rule) for rule, of in rules.items() if of.withstands]
    quiet = [rules[rule].successes["backdoor_1"] for rule in ("mkrum", "caf", "signguard")]
    return [listed(stand), len(rules) - len(stand), rules["average"].successes["backdoor"], *quiet]


def on_phones() -> list[object]:
    """Of arena devices: how many rules met attackers who search, the best of them, its score and the least one; of how
    many rules, which three keep least under the list, and what; the score of the server alone."""
    arena = arena_of("devices")
    scores, listed, met = searched(arena, (27, "natural"))
    return [len(met), readable(met[0]), scores[met[0]], scores[met[-1]], scores[SERVER],
            *_least(listed, 3), len(listed)]  # fmt: skip


def _least(listed: dict[str, float], number: int) -> list[object]:
    """So many rules that keep least, each followed by what it keeps, the least first."""
    last = sorted(listed, key=lambda rule: listed[rule])[:number]
    return [of for rule in last for of in (readable(rule), listed[rule])]


def on_phones_with_few() -> list[object]:
    """Of arena devices with 5 attackers, under the list: how many of how many rules keep 95 or more, and the four that
    keep least, the least first."""
    _, listed, met = searched(arena_of("devices"), (5, "natural"))
    if met:
        raise ValueError(f"{met} met attackers who search")
    return [sum(of >= 95 for of in listed.values()), len(listed), *_least(listed, 4)]


def on_more_phones() -> list[object]:
    """Of arena devices_halves, under the list: with 1, 11 and 54 attackers, how many rules keep 95 or more; of how many
    rules; and what average keeps.

    Raises ValueError if some have met attackers who search.
    """
    places = [(number, "natural_parts") for number in (1, 11, 54)]
    found = [searched(arena_of("devices_halves"), place) for place in places]
    if any(met for *_, met in found):
        raise ValueError("some rules met attackers who search")
    (rules,) = {len(listed) for _, listed, _ in found}
    return [*(sum(of >= 95 for of in listed.values()) for _, listed, _ in found), rules,
            *(listed["average"] for _, listed, _ in found)]  # fmt: skip


def goals_on_phones() -> list[object]:
    """Of the attacks with a goal among phones: their success under Fed-NGA, the most under the rules that withstand
    them, and these."""
    ((_, found),) = targeted(arena_of("devices")).items()
    stand = [of for of in found if of.withstands and of.rule != SERVER]
    (other,) = (of for of in found if of.rule == "fed_nga")
    return [other.success, max(of.success for of in stand), listed(readable(of.rule) for of in stand)]


def foretold() -> list[float]:
    """How well digits foretell the order on images under the list: of all rules, and of their best eight."""
    of = _beside("fashion", "silos")
    assert of.leading is not None
    return [number for one in (of.correlation, of.leading) for number in (one.mean, one.low, one.high)]


def _beside(track: str, other: str) -> Any:
    """How alike the orders of rules in two tracks are, under the list, in mild Dirichlet."""
    from robustfl_bench.lab.arena.views.tracks import orders

    (of,) = (of for of in orders(arena_of(track)) if (of.track, of.attacks, of.panel.number, of.panel.partition)
             == (other, "the list", *MILD))  # fmt: skip
    return of


def _beside_fashion(track: str) -> list[float]:
    """How alike the orders of rules in a track and on images are."""
    of = _beside(track, "fashion").correlation
    return [of.mean, of.low, of.high]


def with_a_lenet() -> list[object]:
    """How many of how many rules guess with LeNet on images, the worst cases of the others and of the server alone in
    percent, the honest mean by seed, and how alike the order is to the MLP's."""
    panel = arena_of("fashion_lenet").panels[MILD]
    left = dict(panel.standings)
    alone, *others = (left.pop(rule).worst for rule in (SERVER, "bygars", "signguard", "fltrust"))
    assert max(standing.score.value for standing in left.values()) < 1, "the others guess"
    honest = runs("arena/tracks/fashion_lenet.csv.gz").query("attack == 'ipm'").set_index("seed")["last_accuracy"]
    order = _beside_fashion("fashion_lenet")
    return [len(left), len(left) + len(others), *others, alone, *(100 * honest[[0, 1]]), *order]


def advised() -> list[int]:
    """How many of a survey's best four score above the server alone in every panel with label skew and 20% attackers,
    under the list and with attackers who search."""
    arena, four = arena_of("silos"), ("coomed", "fltrust", "dnc", "flame")
    skewed = [place for place in arena.panels if place[0] == 5 and place[1] != "iid"]
    return [sum(all(panels[place].standings[rule].score.value > arena.panels[place].standings[SERVER].score.value
                    for place in skewed) for rule in four)
            for panels in (arena.by_list, arena.panels)]  # fmt: skip


def min_max_and_lie() -> list[float]:
    """Of the cases (rule, partition, number of attackers) in silos that met both: in how many Min-Max leaves less than
    LIE, how many there are, of how many rules, and by how many points it leaves less on average."""
    kept = runs("arena/silos/claims.csv.gz").fillna({"last_accuracy": 0})
    case = ["aggregator", "partition", "num_byzantine"]
    found = kept.pivot_table(index=case, columns="attack", values="last_accuracy")[["lie", "minmax"]].dropna()
    less = 100 * (found["lie"] - found["minmax"])
    return [int((less > 0).sum()), len(less), less.index.get_level_values(0).nunique(), float(less.mean())]


PAGE = "results/arena/README.md"

FACTS = (
    Fact(
        "FLTrust keeps {:.0f}, {:.0f}, {:.0f} and {:.0f} under the list on images, on text, with momentum and where "
        "clients drop out, and {:.0f}, {:.0f}, {:.0f} and {:.0f} under those who search.",
        of_fltrust,
        slow=True,
    ),
    Fact(
        "FLDetector {:.1f} less; all intervals overlap.** SignSGD keeps {:.0f}, RLR {:.0f}, ByGARS by wide intervals "
        "{:.0f}, own samples {:.0f}. Fed-NGA keeps {:.0f} on digits and {:.0f} here. SignGuard, first under the list, "
        "falls from {:.0f} to {:.0f}.",
        with_like_data,
        slow=True,
    ),
    Fact(
        "With 40% attackers no rule that met these keeps what own samples keep, {:.0f} or more, in {} partitions: the "
        "most is {} with {:.0f}, in {}.",
        with_many_attackers,
        slow=True,
    ),
    Fact(
        "With 20% attackers who search the best keep {:.0f} in IID ({}), {:.0f} in Fang ({}), {:.0f} in step ({}) and "
        "at most {:.0f} elsewhere, own samples {:.0f} or more. With 40% none keeps more than {:.0f}, FLTrust up to "
        "{:.0f} under the list.",
        tuned_under_search,
        slow=True,
    ),
    Fact(
        "Momentum moves the order on images as much: {:.2f} ({:.2f} to {:.2f}).",
        partial(_beside_fashion, "fashion_momentum"),
        slow=True,
    ),
    Fact(
        "With momentum and like data {} rules that met attackers who search keep more than own samples, {} the most, "
        "{:.0f}; without momentum {} do.",
        with_momentum,
        slow=True,
    ),
    Fact(
        "**With a LeNet for the MLP {} of {} rules guess**; ByGARS keeps {:.0f}% accuracy, SignGuard {:.0f}%, FLTrust "
        "{:.0f}%, own samples {:.0f}% (mild Dirichlet, 20%, five attacks without search, two seeds). The honest mean "
        "has {:.0f}% with one seed and {:.0f}% with the other: 200 rounds are too few to score it. Rank correlation "
        "with the MLP: {:.2f} ({:.2f} to {:.2f}).",
        with_a_lenet,
        slow=True,
    ),
    Fact(
        "rank correlation of {:.2f} ({:.2f} to {:.2f}), and that of the best eight of digits with {:.2f} ({:.2f} to "
        "{:.2f}).",
        foretold,
        slow=True,
    ),
    Fact(
        "**On Fashion-MNIST {}, which read server data, withstand five attacks that plant a backdoor or aim at edge "
        "cases, and of the {} other rules none does.**",
        lambda: with_goals()[:2],
        slow=True,
    ),
    Fact(
        "Under average a backdoor reaches its goal in {:.0f}% of the samples.",
        lambda: with_goals()[2:3],
        slow=True,
    ),
    Fact("Multi-Krum {:.0f}%, CAF {:.0f}% and SignGuard {:.0f}%", lambda: with_goals()[3:], slow=True),
    Fact(
        "Of the {} rules that met attackers who search {} keeps {:.0f} and the last of them {:.0f}; a model of the "
        "server's own 50 samples keeps {:.0f}. Under the list {} keeps {:.0f}, {} {:.0f} and {} {:.0f}, of {} rules.",
        on_phones,
        slow=True,
    ),
    Fact(
        "{} of {} rules keep 95 or more under the list, and {} {:.0f}, {} {:.0f}, {} {:.0f} and {} {:.0f}.",
        on_phones_with_few,
        slow=True,
    ),
    Fact(
        "1, 11 or 54 attack: {}, {} and {} of {} rules keep 95 or more under three attacks, average {:.0f}, "
        "{:.0f} and {:.0f} (one seed).",
        on_more_phones,
        slow=True,
    ),
    Fact(
        "they reach it in {:.0f}% of the samples under Fed-NGA, and in at most {:.0f}% under {} (`--view",
        goals_on_phones,
        slow=True,
    ),
    Fact(
        "Under the list {} of the four, FLTrust, is more accurate in every partition with label skew than a model of "
        "the server's own samples; under attackers who search {} is",
        lambda: [{0: "none", 1: "one"}[number] for number in advised()],
        slow=True,
    ),
    Fact(
        "Here Min-Max leaves less in {} of {} cases of {} rules, by {:.0f} points on average.",
        min_max_and_lie,
        slow=True,
    ),
    Fact(
        "**Attackers who ask the rule (`blindspot`) bring {} of {} scores of 50 and more below 50, {} with one seed.**",
        fallen,
        slow=True,
    ),
    Fact("{} rules so far, of whose {} scores tuning raises {} beyond the seeds and lowers {}.", tuned, slow=True),
    Fact(
        "The kept runs took {:.1f} hours of one core: {:.1f} for the rules as they come, {:.1f} for those "
        "tuned, {:.1f} in other tracks, {:.1f} beside nudged models, and {:.1f} against attackers",
        lambda: [hours_of_version_2()[-1], *hours_of_version_2()[:-1]],
    ),
)
