"""Which rules of a panel can be told apart, and the race that gives some of them more seeds: on made-up panels."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from robustfl_bench.lab.arena import additions
from robustfl_bench.lab.arena.answers import findings, recommend
from robustfl_bench.lab.arena.order import USED, error_sheet, errors, pairs, simulated
from robustfl_bench.lab.arena.panels import Arena, ArenaPanel, Standing
from robustfl_bench.lab.arena.track import HONEST, LOOKS, NONE, SERVER, Track
from robustfl_bench.lab.arena.views import VIEWS
from robustfl_bench.lab.arena.views import rounds as race
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.read.runs.statistics import Estimate, level_at_each
from tests.arenas import arena_of, run, shipped_runs


def panel_of(scores: Mapping[str, Estimate]) -> ArenaPanel:
    """A panel in which these rules have these scores."""
    standings = {
        rule: Standing(rule, score.value, "ipm", {"ipm": score.value}, score) for rule, score in scores.items()
    }
    return ArenaPanel("iid", 5, 0, 100, 1, standings, level=level_at_each(LOOKS))


def measured(accuracies: np.ndarray, seeds: int) -> ArenaPanel:
    """A panel of rules with these accuracies (rules, attacks, seeds), of which the first seeds are known."""
    scale = panel_of({})
    return panel_of({str(rule): scale.score(of[:, :seeds]) for rule, of in enumerate(accuracies)})


def drawn(levels: Sequence[float], rng: np.random.Generator) -> np.ndarray:
    """The accuracies of rules of these levels under three attacks, the last of which does no harm."""
    mean = np.array(levels)[:, None, None] + np.array([0, 3, 20])[None, :, None]
    return mean + rng.normal(0, 8, (len(levels), 3, LOOKS[-1]))


def test_looks_share_the_level() -> None:
    assert level_at_each((3,)) == 0.95
    draws = np.random.default_rng(0).normal(size=(100_000, LOOKS[-1]))
    z = np.stack([draws[:, :look].sum(axis=1) / look**0.5 for look in LOOKS])
    bound = 2.312  # of |z| at this level
    assert level_at_each(LOOKS) == pytest.approx(0.9792, abs=2e-4)
    assert (abs(z) > bound).any(axis=0).mean() == pytest.approx(0.05, abs=0.003)


def test_equal_rules_are_seldom_told_apart_in_spite_of_three_looks() -> None:
    rng, false, races = np.random.default_rng(1), 0, 60
    for _ in range(races):
        accuracies = drawn([60] * 8, rng)
        false += any(pairs(measured(accuracies, look)).apart for look in LOOKS)
    assert false <= 0.1 * races, "5% are allowed, in the long run"


def test_few_of_the_pairs_told_apart_are_equal() -> None:
    rng, levels, apart, false = np.random.default_rng(2), [80, 80, 60, 60, 40, 40, 40, 20], 0, 0
    for _ in range(20):
        accuracies = drawn(levels, rng)
        called = set().union(*(pairs(measured(accuracies, look)).apart for look in LOOKS))
        apart += len(called)
        false += sum(levels[int(first)] == levels[int(second)] for first, second in called)
    assert apart > 0.7 * 20 * 23, "of the 23 pairs that differ in each"
    assert false < 0.05 * apart


def test_rules_are_equal_only_where_the_seeds_show_it() -> None:
    close = {"a": Estimate(90, 0.4, 20), "b": Estimate(89.5, 0.4, 20), "c": Estimate(86.6, 0.4, 20)}
    found = pairs(panel_of(close))
    assert found.equal == {("a", "b")} and found.apart == {("a", "c"), ("b", "c")}, "told apart although near"
    vague = {rule: Estimate(score.value, 4, 20) for rule, score in close.items()}
    assert not pairs(panel_of(vague)).equal and len(pairs(panel_of(vague)).open) == 3
    assert not pairs(panel_of({rule: Estimate(80, float("nan"), 1) for rule in "ab"})).equal, "one seed"
    rng, called, level = np.random.default_rng(3), 0, {"a": 80.0, "b": 77.0}
    for _ in range(200):
        values = {rule: Estimate(rng.normal(mean, 0.5), 0.5, 20) for rule, mean in level.items()}
        called += bool(pairs(panel_of(values)).equal)
    assert called <= 0.08 * 200, "three points apart is not equal"


def test_a_panel_stops_when_enough_of_its_pairs_are_settled() -> None:
    apart = {rule: Estimate(90 - 10 * place, 1, 5) for place, rule in enumerate("abcdefgh")}
    found = race.look(panel_of(apart), LOOKS)
    assert not found.more and found.why.startswith("settled: 100%")
    wide = {rule: Estimate(score.value, 20, score.n) for rule, score in apart.items()}
    far = {"near": Estimate(15, 2, 5), "far": Estimate(0, 0.5, 5)}
    narrow = {"h": Estimate(20, 2, 5)}
    found = race.look(panel_of(wide | narrow | far), LOOKS)
    assert found.more == dict.fromkeys([*"abcdefg", "near", "h"], 10) | {"h": 10} and not found.why
    later = {rule: Estimate(score.value, score.error, 10 if rule in "ab" else 5) for rule, score in wide.items()}
    assert {rule: seeds for rule, seeds in race.look(panel_of(later), LOOKS).more.items() if seeds == 20} == {
        "a": 20, "b": 20
    }  # fmt: skip
    last = {rule: Estimate(score.value, score.error, 20) for rule, score in wide.items()}
    assert race.look(panel_of(last), LOOKS).why == "not settled at the last look, 20 seeds"
    assert race.look(panel_of({"a": apart["a"]}), LOOKS).why.startswith("fewer than two")


@pytest.fixture
def raced(monkeypatch: pytest.MonkeyPatch) -> Arena:
    """Three rules of five seeds, two of them alike, and the server's own samples, drawn by themselves."""
    attacks, noise = [name for name in Track("silos").swept["attack"] if name != NONE], (-0.1, -0.05, 0.0, 0.05, 0.1)
    made = [run(rule, attack, level + shift * (1 - 2 * (rule == "caf")), seed=str(seed))
            for rule, level in (("krum", 0.5), ("caf", 0.52), ("average", 0.1)) for attack in (NONE, *attacks)
            for seed, shift in enumerate(noise)]  # fmt: skip
    made += [run(HONEST, HONEST, 0.9, seed=str(seed)) for seed in range(5)]
    made += [run(SERVER, NONE, 0.6 + 0.001 * seed, "fang", seed=str(seed)) for seed in range(30)]
    return arena_of(monkeypatch, made, "silos")


def test_the_race_prints_the_commands_of_the_next_look(raced: Arena) -> None:
    (panel,) = raced.panels.values()
    assert race.look(panel, raced.track.looks).more == {}, "two of three pairs are settled"
    standings = {rule: of for rule, of in panel.standings.items() if rule != "average"}
    raced.panels[5, "iid"] = panel_of({rule: of.score for rule, of in standings.items() if rule != SERVER})
    (shown,) = VIEWS["race"].sheets(raced)
    assert shown.above[1] == "0 of 1 panels are settled; more seeds are needed in iid, 20% attackers 2 rules."
    assert [todo.command for todo in shown.todos] == [
        "robustfl-bench -m +experiment=arena/silos num_byzantine=5 partition=iid seed=5,6,7,8,9 aggregator=caf,krum",
        "robustfl-bench -m +experiment=arena/silos_honest num_byzantine=5 partition=iid seed=5,6,7,8,9",
    ]
    with pytest.raises(NoRuns, match="not raced: all of its rules have 3 seeds"):
        VIEWS["race"].sheets(Arena(shipped_runs(), "digits"))


def test_the_server_alone_has_its_own_draws_in_every_panel(raced: Arena) -> None:
    (panel,) = raced.panels.values()
    assert panel.server is not None and panel.server.score.n == 30 and panel.server.worst == pytest.approx(61.45)
    assert SERVER not in pairs(panel).rules and panel.is_whole(SERVER)


def test_the_panels_at_a_glance_and_in_sentences(raced: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "ENOUGH", 3)
    table = findings.at_a_glance(raced, raced)
    (row,) = table.rows
    shown = dict(zip(table.heading, (cell.text for cell in row), strict=True))
    panel = raced.panels[5, "iid"]
    above, below = findings.beside_server(panel, [rule for rule in panel.standings if rule != SERVER])
    assert shown["rules"] == str(len(panel.standings) - 1) and shown["below the server"] == str(len(below))
    assert int(shown["above the server"]) == len(above) and shown["above it, with its data"] == "none"
    scores = [of.score.value for rule, of in panel.standings.items() if rule != SERVER]
    assert shown["50 or more"] == str(sum(score >= 50 for score in scores))
    assert shown["order of silos"] == "1.00"
    lines = findings.conclusions(raced, raced)
    assert lines[0].startswith("In iid no rule without server data is above the server's")
    assert lines[1].endswith(f"{shown['50 or more']} (iid) of {shown['rules']} with 20% attackers.")


def test_an_attack_adds_if_it_is_surely_worse_than_the_whole_list(raced: Arena) -> None:
    panel = raced.panels[5, "iid"]
    column = {
        "caf": {str(seed): 30.0 + seed for seed in range(5)},
        "krum": {str(seed): 70.0 for seed in range(5)},
        "average": {str(seed): 9.0 - 10 * (-1) ** seed for seed in range(5)},
    }
    found = {of.rule: of for of in additions.additions(panel, raced.runs_of(panel), "mine", column)}
    assert found["caf"].harm.value == pytest.approx(20) and found["krum"].harm.value == pytest.approx(-20)
    assert found["caf"].attack == "rewind_4" and found["average"].harm.value > 0
    assert [of.rule for of in additions.sure(list(found.values()))] == ["caf"], (
        "the mean is lower for average by chance"
    )
    assert "adds to the list" in additions.verdict("mine", list(found.values()))
    shown = additions.sheet(raced, "mine", [found[rule] for rule in ("krum", "average")])
    assert "adds nothing that the seeds show: it is below the list's worst case in 1 of 2 cases" in shown.above[1]
    assert shown.report[0].endswith("rewind_1, drift_4, sign_4, opt_ipm_grid, trim_attack and label_flip.")


def planning_in(raced: Arena, spread: float) -> ArenaPanel:
    """The panel with attackers who plan against two rules, the first of which has this spread over seeds."""
    levels = {"caf": (0.3, spread), "krum": (0.7, 0.01)}
    plans = [run(rule, "planned", level + by * (seed - 1), seed=str(seed), last={"attack_policy": 3.0} if seed else {})
             for rule, (level, by) in levels.items() for seed in range(3)]  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Arena, "under", lambda self, attacks: plans if attacks == "planned" else [])
        assert raced.searched == {"planned": plans}
    return raced.panels[5, "iid"]


def test_attackers_who_plan_count_by_their_mean_as_every_attack_does(
    raced: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recommend, "ENOUGH", 3)
    panel = planning_in(raced, spread=0.2)  # so large that no test finds a difference
    (shown,) = VIEWS["searched"].sheets(raced)
    assert "below the list's worst case in 1 of 2 cases (rule and panel), and surely in none" in shown.above[1]
    assert "By its mean it is the worst case in 1 of these cases" in shown.above[1]
    assert [row[-1].text for row in shown.rows] == ["ipm 2"] * 2 and len(shown.rows[0]) == len(shown.heading)
    by_list, caf = raced.by_list[5, "iid"], panel.standings["caf"]
    assert [*by_list.standings][:2] == ["caf", "krum"] and by_list.standings["caf"].attack == "rewind_4"
    assert caf.attack == "planned" and caf.worst == pytest.approx(30) and caf.score.n == 3
    assert caf.score.value == pytest.approx(100 * (30 - 10) / (90 - 10)), "their score, not the list's"
    assert "planned" in panel.fails(caf) and panel.is_whole("caf") and "caf" not in race.look(panel, LOOKS).more
    krum = panel.standings["krum"]
    assert krum == replace(by_list.standings["krum"], beyond={"planned": pytest.approx(70)}), "the list leaves less"
    assert "planned" not in panel.fails(krum) and "average" in panel.unmet
    assert [*panel.standings][:2] == ["krum", "caf"], "in the order of the lowest known scores"
    found = recommend.recommend(raced, "iid", "5", False)
    assert [of.rule for of in found.group] == ["krum", "caf"] and [*found.searched] == ["caf", "krum"]
    (of_group,) = (line for line in found.limits() if line.startswith("Attackers who search"))
    assert of_group.endswith("(attack=planned, 3 seeds or more) leave krum 75 (70 to 80) and caf 25 (0 to 112).")


def test_a_rule_that_only_attackers_who_plan_bring_down_is_named(raced: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recommend, "ENOUGH", 3)
    planning_in(raced, spread=0.01)
    found = recommend.recommend(raced, "iid", "5", False)
    assert [of.rule for of in found.group] == ["krum"]
    assert "Without them caf would be ahead with 52; they leave 25 (20 to 30)." in found.limits()


def test_other_tracks_show_the_best_that_met_attackers_who_search(
    raced: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(findings, "ENOUGH", 3)
    panel = planning_in(raced, spread=0.01)
    table = findings.elsewhere(raced, {"text": raced, "silos": raced})
    (row,) = table.rows
    shown = dict(zip(table.heading, (cell.text for cell in row), strict=True))
    assert shown["rules"] == str(len(panel.standings) - 1) and shown["searched"] == "2", "krum and caf"
    assert shown["own samples"].startswith(f"{panel.standings['server'].score.value:.1f} (")
    assert (
        shown["best rule"].startswith(f"krum {panel.standings['krum'].score.value:.1f} (")
        and shown["with server data"] == ""
    ), "none of them met it"
    assert shown["order of silos"] == "1.00"


def test_each_panel_says_how_often_its_tests_err(raced: Arena) -> None:
    panel = raced.panels[5, "iid"]
    words = errors(raced, panel)
    assert words.startswith("simulated, all rules made equal, 5 seeds each: a pair is told apart at 5% in ")
    elsewhere = errors(raced, replace(panel, partition="natural"))
    assert " to " in elsewhere and elsewhere != words, "those of all panels"
    assert errors(raced, replace(panel, standings={})) == "", "no seeds are no test"
    lines = simulated()
    used, former = ([float(line["any_pair"]) for line in lines if (line["test"], line["seeds"]) == (name, "5")]
                    for name in (USED, "bootstrap"))  # fmt: skip
    assert np.mean(used) < 0.05 < np.mean(former) and len(error_sheet(raced).rows) >= len(used)
