"""The arena's panels: scores with their intervals, groups of the best, the rules' order, flags, pages and pictures."""

import math
from dataclasses import replace

import numpy as np
import pytest

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.lab.arena import conditions, page
from robustfl_bench.lab.arena.answers import findings
from robustfl_bench.lab.arena.order import likeness, stability, strongest
from robustfl_bench.lab.arena.panels import Arena, ArenaPanel, Standing, panel_of
from robustfl_bench.lab.arena.track import HONEST, Track
from robustfl_bench.read.runs.statistics import Estimate
from tests.arenas import arena_of, every_run, honest_runs, run, shipped_runs


def track_of(*attacks: str) -> Track:
    track = Track("digits")
    track.swept = {**track.swept, "attack": ["none", *attacks]}
    return track


def test_the_worst_case_is_the_least_over_attacks_of_the_means_over_seeds() -> None:
    runs = [
        run("r", "none", 0.9), run("r", "none", 0.7, seed="1"),
        run("r", "ipm", 0.5), run("r", "ipm", 0.3, seed="1"),
        run("r", "lie", 0.2), run("r", "lie", 0.8, seed="1"),
        run("r", "ipm", 0.0, seed="2", state="diverged", recall=None),
        run("average", "none", 0.95), run(HONEST, HONEST, 0.9), run(HONEST, HONEST, 0.7, seed="1"),
        run("bulyan", "ipm", math.nan, state="infeasible", recall=None),
    ]  # fmt: skip
    found = panel_of(track_of("ipm", "lie"), "iid", 5, runs)
    standing = found.standings["r"]
    assert standing.worst == pytest.approx(40) and standing.attack == "ipm", "lie does more harm only in one seed"
    assert standing.by_seed == pytest.approx({"0": 20, "1": 30}), "seed 2 has one attack of two"
    assert standing.under == pytest.approx({"0": 50, "1": 30}) and found.collapsed(standing) == "0 of 2"
    assert standing.clean == pytest.approx(80) and standing.diverged == 1 and standing.cells == 7
    assert standing.recall_drop == pytest.approx(75), "of seed 0, where the reference is"
    assert (found.chance, found.honest) == pytest.approx((10, 80))
    assert standing.score.value == pytest.approx(100 * 30 / 70) and standing.score.n == 2
    assert found.infeasible == ("bulyan",) and found.scaled(5) == 0 and found.scaled(80) == 100
    bounds = found.interval(standing)
    assert bounds is not None and (bounds.low, bounds.high) == (0, pytest.approx(found.scaled(100)))


def test_the_error_of_a_score_is_that_of_its_worst_attack() -> None:
    levels = (0.5, 0.6, 0.4, 0.7)
    runs = [run("r", "ipm", level, seed=str(seed)) for seed, level in enumerate(levels)]
    runs += [run("r", "lie", 0.9, seed=str(seed)) for seed in range(len(levels))]
    standing = panel_of(track_of("ipm", "lie"), "iid", 5, [*runs, run(HONEST, HONEST, 0.9)]).standings["r"]
    expected = 100 * np.std(levels, ddof=1) / math.sqrt(len(levels)) / 0.8
    assert standing.score.error == pytest.approx(1.5 * expected), "four seeds do not show how skewed they are"


@pytest.mark.parametrize(("server", "words"), [(0.45, "3 of 4"), (0.3, "2 of 4"), (None, "1 of 4")])
def test_seeds_collapse_below_the_server_alone_and_at_chance(server: float | None, words: str) -> None:
    runs = [run("r", "ipm", level, seed=str(seed)) for seed, level in enumerate((0.5, 0.4, 0.2, 0.14))]
    runs += [run("r", "lie", 0.6, seed=str(seed)) for seed in range(3)] + [run("r", "lie", 0.01, seed="3")]
    runs += [run("server", "ipm", server), run("server", "lie", server)] if server else []
    found = panel_of(track_of("ipm", "lie"), "iid", 5, [*runs, run(HONEST, HONEST, 0.9)])
    assert found.standings["r"].attack == "ipm" and found.collapsed(found.standings["r"]) == words
    unknown = panel_of(track_of("ipm"), "iid", 5, [run("r", "ipm", level, recall=None) for level in (0.04,)])
    assert not unknown.chance and unknown.collapsed(unknown.standings["r"]) == "1 of 1", "no run has recalls"


def test_rules_with_all_attacks_come_first_and_only_they_are_among_the_best() -> None:
    runs = [run(rule, attack, level, seed=seed) for rule, level in (("a", 0.5), ("b", 0.6))
            for attack in ("none", "ipm", "lie") for seed in ("0", "1")]  # fmt: skip
    runs += [run("c", "ipm", 0.8), run("c", "none", 0.8, seed="1"), run(HONEST, HONEST, 0.9)]
    found = panel_of(track_of("ipm", "lie"), "iid", 5, runs)
    assert list(found.standings) == ["b", "a", "c"], "c has been under one attack of two"
    assert not found.is_whole("c") and found.standings["c"].clean == pytest.approx(80), "it has no other"
    assert found.best("abc") == ["b"], "without spread, any difference counts"


def test_few_seeds_earn_no_bold() -> None:
    """Nobody can tell a score of one seed from the best. That others have more seeds takes no bold from the best."""
    runs = [run("best", "ipm", 0.8 + 0.01 * seed, seed=str(seed)) for seed in range(5)]
    runs += [run("alike", "ipm", 0.8 + 0.001 * seed, seed=str(seed)) for seed in range(20)]
    runs += [run("once", "ipm", 0.2), run(HONEST, HONEST, 0.9)]
    found = panel_of(track_of("ipm"), "iid", 5, runs)
    top = found.best(found.standings)
    assert {"best", "once"} <= {*top}
    assert "best" in found.comparable_best(top) and found.comparable_best(top) == {*top} - {"once"}
    assert found.comparable_best(["once"]) == set() == found.comparable_best([])


def with_scores(partition: str, **worst: float) -> ArenaPanel:
    standings = {rule: Standing(rule, value, "ipm", {"ipm": value}, Estimate(value, 1, 3), by_seed={"0": value})
                 for rule, value in worst.items()}  # fmt: skip
    return ArenaPanel(partition, 5, 10, 90, 1, standings)


def test_stability_compares_seeds_of_all_rules_and_of_the_best() -> None:
    def row(**by_seed: tuple[float, ...]) -> list[ArenaPanel]:
        found = with_scores("iid", **{rule: sum(values) for rule, values in by_seed.items()})
        standings = {rule: replace(found.standings[rule], by_seed=dict(zip("0123", values, strict=False)))
                     for rule, values in by_seed.items()}  # fmt: skip
        return [replace(found, standings=standings)]

    assert stability(row(a=(1, 3), b=(2, 2), c=(3, 1))) == (pytest.approx(-1), 3, 2)
    assert stability(row(a=(1, 3), b=(2, 2), c=(3, 1, 9))) == (pytest.approx(-1), 3, 2), "one rule has seed 2"
    both = row(a=(7, 9), b=(8, 8), c=(9, 7), d=(1, 1), e=(0, 0))
    whole, top = stability(both), stability(both, 3)
    assert whole is not None and top is not None and top == (pytest.approx(-1), 3, 2) and whole[0] > 0.5
    assert stability(row(a=(1,), b=(2,), c=(3,))) is None and stability([]) is None


def test_the_order_at_twice_the_size_is_compared_on_the_same_cells() -> None:
    levels = {"a": 0.9, "b": 0.8, "c": 0.5, "d": 0.4}
    here = [run(rule, attack, level - 0.3 * (attack == "lie") * (rule == "a"))
            for rule, level in levels.items() for attack in ("ipm", "lie")]  # fmt: skip
    double = [run(rule, "ipm", level / 2, num_byzantine=10) for rule, level in levels.items()]
    assert likeness(here, double) == (pytest.approx(1), 4), "lie was not run at twice the size"
    assert likeness(here, double[:2]) is None
    assert likeness(here, [*double, run("a", "ipm", 0.1, seed="1")]) == (pytest.approx(1), 4)


def test_how_often_the_adaptive_attack_is_the_strongest() -> None:
    runs = [run("krum", "worst", level, seed=str(seed)) for seed, level in enumerate((0.5, 0.51, 0.6))]
    runs += [run("krum", "ipm", 0.5, seed=str(seed)) for seed in range(3)]
    runs += [run("krum", "none", 0.9), run("mda", "worst", 0.1), run("krum", "ipm", 0.1, seed="3")]
    assert strongest(runs) == (1, 2, 3)
    assert strongest(runs[-2:]) is None


def test_attacks_that_help_and_attacks_beyond_worst_are_told_from_noise() -> None:
    cells = [("iid", "0"), ("iid", "1"), ("fang", "0"), ("fang", "1")]
    noise = (0.0, 0.01, -0.01, 0.02)
    runs = [run("r", name, level + noise[place], partition, seed)
            for place, (partition, seed) in enumerate(cells)
            for name, level in (("none", 0.6), ("ipm", 0.7), ("lie", 0.3), ("worst", 0.5))]  # fmt: skip
    runs += [run("r", "rop", 0.6 + (-1) ** place * 0.2, *cell) for place, cell in enumerate(cells)]
    found = conditions.remarks(runs)["r"]
    assert list(found.helping) == ["ipm"] and found.helping["ipm"].mean == pytest.approx(10)
    assert list(found.stronger) == ["lie"] and found.stronger["lie"].mean == pytest.approx(20)
    lost = [replace(one, accuracy=one.accuracy - 0.3, recall=[0.5] * 4) for one in runs]
    assert not conditions.remarks(lost)["r"].stronger, "worst left no more than guessing"
    assert not conditions.remarks([run(HONEST, HONEST, 0.9)])


def test_a_page_has_the_numbers_of_attackers_that_were_run_and_one_command_for_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rules = ["krum", "trmean"]
    clean = [run(rule, "none", 0.9) for rule in rules]
    attacked = [run(rule, "ipm", 0.5) for rule in rules]
    for made, numbers in ((clean, [5, 10]), (clean + attacked, [5])):
        first, *standing, last = page.sheets(arena_of(monkeypatch, made))
        assert first.above[0].startswith("Which pairs")
        titles = [f"{Track('digits').title(number)}{end}" for number in numbers
                  for end in (", scores in all partitions", ", iid")]  # fmt: skip
        assert [sheet.above[0] for sheet in standing] == titles
        assert last.above[0].startswith("Flags")
        (todo,) = standing[0].todos
        assert todo.what == f"runs of {', '.join(rules)}" and todo.command.endswith(f"aggregator={','.join(rules)}")


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> Arena:
    track = Track("digits")
    made = every_run(track, {"krum": 0.7, "geomed": 0.8, "server": 0.6, "fltrust": 0.75, "trmean": 0.9, "average": 0.5})
    shift = {"0": 0.02, "1": 0.0, "2": -0.02}
    made = [replace(one, accuracy=one.accuracy + shift[one.seed] * (one.rule == "geomed")) for one in made]
    made = [one for one in made if one.rule != "trmean" or one.attack in ("none", "ipm")]
    return arena_of(monkeypatch, [*made, *honest_runs(track, 0.9)])


def test_rules_stand_in_divisions_beside_the_servers_own_samples(whole: Arena) -> None:
    told, overview, first, *_ = page.sheets(whole)
    names = [row[0].text for row in first.rows]
    assert names == [HONEST, "server", "rules without server data", "geomed", "krum", "average", "trmean",
                     "rules that read server data", "fltrust"]  # fmt: skip
    assert {row[0].text for row in first.rows if any(cell.best for cell in row)} == {"geomed", "fltrust"}
    assert first.rows[3][2].text == "75.0 (66 to 84)" and first.rows[8][2].text == "68.8 (69 to 69)"
    assert any("not under all attacks" in line and "trmean" in line for line in first.above)
    assert [row[1].text for row in first.rows] == ["", "", "", "1", "2", "3", "", "", "1"], "their groups"
    assert [row[0].text for row in overview.rows] == names, "trmean is not under all attacks"
    assert any("processors: one kind" in line for line in told.above)
    assert len(told.rows) == 10 and told.rows[0][3].text == "4", "rules, without trmean and the server alone"


def test_a_rule_that_cannot_be_tried_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [run("trmean x", "ipm", 0.5, options=("aggregator.nonsense=1",))]
    *_, last = page.sheets(arena_of(monkeypatch, made))
    assert last.rows[0][1].text.startswith("not tried: ") and "nonsense" in last.rows[0][1].text


def test_pictures_show_rules_by_score_and_attacks_by_their_harm(whole: Arena) -> None:
    axis, _ = page.standing(whole).axes
    names = [label.get_text() for label in axis.get_yticklabels()]
    assert names == ["server", "geometric median", "FLTrust", "Krum", "average", "trimmed mean"]
    assert axis.images[0].get_array().shape == (6, 5) and len(axis.patches) == 2 * 5
    heat, _ = page.attacks(whole, 10).axes
    assert heat.get_xticklabels()[0].get_text() == "none" and heat.images[0].get_array().shape == (6, 27)
    with pytest.raises(ConfigError, match="7"):
        page.attacks(whole, 7)


def test_version_one_has_all_its_cells() -> None:
    arena = Arena(shipped_runs(), "digits")
    rules = set(arena.track.swept["aggregator"])
    for (number, _), found in arena.panels.items():
        assert {*found.standings, *found.infeasible} == rules, number
        assert all(standing.cells == 81 for standing in found.standings.values()), "27 attacks, 3 seeds"


def test_a_rule_that_surely_fails_is_not_among_the_best() -> None:
    found = with_scores("fang", wide=62, fails=2, none=0)
    standings = found.standings | {"wide": replace(found.standings["wide"], score=Estimate(62, 50, 3))}
    assert replace(found, standings=standings).best(standings) == ["wide"], (
        "its seeds differ so much that all are alike"
    )
    single = {rule: replace(of, score=Estimate(of.worst, math.nan, 1)) for rule, of in standings.items()}
    assert replace(found, standings=single).best(single) == ["wide", "fails", "none"], "nothing is sure of one seed"


def test_tracks_stand_beside_each_other_in_the_panels_that_they_share(monkeypatch: pytest.MonkeyPatch) -> None:
    def arena(name: str, levels: dict[str, float]) -> Arena:
        track = Track(name)
        noise = {seed: 0.01 * place for place, seed in enumerate(track.swept["seed"])}
        runs = [replace(one, accuracy=one.accuracy + noise[one.seed]) for one in every_run(track, levels)]
        return arena_of(monkeypatch, [*runs, *honest_runs(track, 0.9)], name)

    base = arena("silos", {"krum": 0.3, "coomed": 0.5, "trmean": 0.7, "average": 0.2})
    mixed = arena("silos_nnm", {"krum": 0.7, "coomed": 0.5, "trmean": 0.3})
    (few,) = findings.compared(base, [mixed])
    assert few.above[1].endswith("lower trmean") and not any(cell.best for row in few.rows for cell in row), (
        "of 3 rules"
    )
    monkeypatch.setattr(findings, "ENOUGH", 3)
    (only,) = findings.compared(base, [mixed])
    assert only.above == [
        "Arena silos and silos_nnm: mild_dirichlet, 20% attackers",
        "silos_nnm against silos: of 3 rules, beyond the seeds higher krum; lower trmean; order -1.00",
    ]
    assert [row[0].text for row in only.rows] == ["trmean", "coomed", "krum"]
    assert [cell.best for cell in only.rows[0]] == [False, True, False]
    orders = findings.orders(base, [mixed])
    assert [cell.text for cell in orders.rows[0][2:5]] == ["3", "-1.00", "-1.00"]
