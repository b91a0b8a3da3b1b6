"""What an arena's runs answer: views, recommendations, findings, and the pages that are made of them."""

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from robustfl_bench.base.console import as_json
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.commands import results, shared
from robustfl_bench.lab.arena import conditions, page
from robustfl_bench.lab.arena.answers import findings
from robustfl_bench.lab.arena.answers.recommend import recommend, sheet
from robustfl_bench.lab.arena.order import BELOW, UNSHOWN, mark
from robustfl_bench.lab.arena.panels import Arena
from robustfl_bench.lab.arena.track import HONEST, ArenaRun, Track
from robustfl_bench.lab.arena.views import VIEWS, attacks, clients, needs, numbers, rounds
from robustfl_bench.read.pages.pictures.canvas import PLAIN
from robustfl_bench.read.runs import origins
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.read.tables import sheets
from scripts.generators import arena as generator
from scripts.generators import board, decisions
from tests.arenas import arena_of, every_run, honest_runs, run, shipped_runs

LEVELS = {"krum": 0.5, "geomed": 0.8, "server": 0.6, "fltrust": 0.85, "trmean": 0.7, "average": 0.3, "caf": 0.79}


def made(track: Track) -> list[ArenaRun]:
    """All cells of some rules: in the worst case, under ipm, 20 points lower than under the others, with a spread."""
    shift = {"0": 0.02, "1": 0.0, "2": -0.02}
    runs = [*every_run(track, LEVELS), *honest_runs(track, 0.9)]
    return [replace(one, accuracy=max(0.0, one.accuracy + shift[one.seed] - 0.2 * (one.attack == "ipm")))
            for one in runs]  # fmt: skip


@pytest.fixture
def arena(monkeypatch: pytest.MonkeyPatch) -> Arena:
    track = Track("digits")
    runs = [replace(one, last={"byzantine_accepted": one.num_byzantine if one.rule == "caf" else 1.0,
                               "honest_dropped": 3.0 * list(LEVELS).index(one.rule)} if one.rule in LEVELS else {})
            for one in made(track)]  # fmt: skip
    return arena_of(monkeypatch, runs)


@pytest.fixture(scope="module")
def shipped() -> Arena:
    return generator.shipped("digits")


@pytest.mark.parametrize("name", [name for name in VIEWS if name not in ("books", "race", "searched")])
def test_every_view_of_the_shipped_runs_has_a_table_a_sentence_and_a_picture(shipped: Arena, name: str) -> None:
    view = VIEWS[name]
    first, *_ = view.sheets(shipped)
    assert first.above[0].startswith("Arena digits") and first.above[1].endswith(".") and first.rows
    assert all(len(row) == len(first.heading) for row in first.rows)
    assert view.picture(shipped, PLAIN).axes


def test_a_short_list_of_attacks_is_chosen_by_what_it_adds() -> None:
    cases = {("a", "iid"): {"x": 10.0, "y": 50.0, "z": 12.0}, ("b", "iid"): {"x": 90.0, "y": 20.0, "z": 80.0}}
    assert attacks.first_attacks(cases, 2) == ["y", "x"]
    assert attacks.missed(cases, ["y"]) == 20 and attacks.missed(cases, ["y", "x"]) == 0
    assert attacks.missed(cases, ["z"]) == 31
    runs = [run("a", "x", 0.1 + 0.8 * (seed == "0"), seed=seed) for seed in "01"]
    runs += [run("a", "y", 0.5, seed=seed) for seed in "01"]
    assert attacks.held_out(runs, 1) == [pytest.approx(40)], "each seed alone would have chosen the other attack"
    assert attacks.held_out([one for one in runs if one.seed == "0"]) == []
    drawn = run("server", "none", 0.5, seed="7")
    assert attacks.held_out([*runs, drawn], 1) == [pytest.approx(40)], "a draw of the server alone is no seed of rules"


def test_detection_counts_who_is_dropped_in_the_last_round(arena: Arena) -> None:
    found = clients.detections(arena, 5)
    assert found["krum"].attackers == pytest.approx(80) and found["krum"].honest == 0
    assert found["geomed"].honest == pytest.approx(15) and found["geomed"].honest_by_partition["fang"] == pytest.approx(
        15
    )
    assert found["caf"].attackers == 0 and found["caf"].chooses
    assert HONEST not in found and "the 6 rules" in clients.answer(arena, 5)
    weighs = [replace(one, last={"byzantine_accepted": 5.0, "honest_dropped": 0.0}) for one in arena.settled[5]]
    arena.settled[5] = weighs
    assert not any(of.chooses for of in clients.detections(arena, 5).values())
    assert "fewer than three rules" in clients.answer(arena, 5)


def test_stability_compares_the_best_and_the_last_round(arena: Arena) -> None:
    assert rounds.evaluated_rounds(arena) == [20, 40, 60]
    fallen = [replace(one, best=one.accuracy + 0.3 * (one.rule == "krum")) for one in arena.settled[5]]
    arena.settled.update({5: fallen, 10: fallen})
    assert rounds.falls(one for one in fallen if one.rule == "krum")[0] == pytest.approx(30)
    assert "17% of the attacked runs" in rounds.answer(arena, 5) and "krum" in rounds.answer(arena, 5)
    assert rounds.falls([run("r", "ipm", 0.0, state="diverged", best=float("nan"))]) == []


def test_classes_lose_recall_in_the_worst_case(monkeypatch: pytest.MonkeyPatch) -> None:
    track = Track("digits")
    runs = [replace(one, recall=[0.0] * 5 + [0.5] * 5 if one.attack == "ipm" else [1.0] * 10) for one in made(track)]
    lost, held = clients.losses(arena_of(monkeypatch, runs), 5)
    assert list(lost["krum"]) == [100] * 5 + [50] * 5 and list(held["krum"]["iid"][:6]) == [0] * 5 + [50]
    with pytest.raises(NoRuns, match="recall by class"):
        clients.losses(arena_of(monkeypatch, [replace(one, recall=None) for one in runs]), 5)


def test_the_front_has_rules_that_no_better_one_spares(arena: Arena) -> None:
    scores = {"fltrust": 90.0, "caf": 85.0, "geomed": 80.0, "trmean": 70.0, "average": 50.0, "krum": 0.0}
    assert needs.front(arena, scores) == ["fltrust", "caf", "geomed", "trmean", "average"]
    assert needs.front(arena, {"fltrust": 90.0, "geomed": 86.0, "caf": 85.0}) == ["fltrust", "geomed"]
    assert needs.work(arena, "average") == 1 and needs.work(arena, "geomed") == 26


def test_a_collapse_lies_between_shares_that_were_run() -> None:
    assert numbers.bracket({0.0: 90.0, 20.0: 60.0, 40.0: 10.0}) == "20 to 40%"
    assert numbers.bracket({0.0: 90.0, 20.0: 40.0, 40.0: 60.0}) == "< 20%"
    assert numbers.bracket({0.0: 90.0, 20.0: 80.0, 40.0: 50.0}) == "> 40%"
    assert numbers.bracket({0.0: 10.0, 20.0: 80.0}) == "without attack"


def test_the_price_of_a_wrong_f_compares_the_same_attacks() -> None:
    runs = [run("r", "ipm", 0.5, declared=f, num_byzantine=b) for b in (5, 10) for f in (5, 10)]
    runs += [run("r", "lie", 0.1, declared=5), run("s", "ipm", 0.2), run("r", "ipm", 0.3, "fang", declared=10)]
    five, ten = numbers.wrong_assumptions(runs)
    assert (five.number, five.attacks, five.assumed) == (5, ("ipm",), [5, 10])
    assert five.worst == {"r": {5: pytest.approx(50), 10: pytest.approx(40)}}, "lie has no run with a wrong f"
    assert ten.worst == {"r": {5: pytest.approx(50), 10: pytest.approx(50)}}
    assert not numbers.wrong_assumptions([run("r", "ipm", 0.5, declared=5)])


def test_kappas_are_those_of_a_partition_and_number_of_attackers(shipped: Arena) -> None:
    known = {partition: needs.searched("digits", partition) for partition in shipped.track.swept["partition"]}
    assert all({f for f, _ in of.values()} == {5} and len(of) > 40 for of in known.values() if of) and any(
        known.values()
    )
    assert " over all rules, and " in needs.answer_of_kappa(shipped)
    assert needs.searched("digits", "nowhere") == {}
    dirichlet = shipped.panels[5, "mild_dirichlet"]
    of = needs.kappas(dirichlet, "digits")
    assert "server" not in of and needs.correlation(dirichlet, of) < -0.5
    assert needs.kappas(shipped.panels[10, "mild_dirichlet"], "digits") == {}, "it was searched with 5 attackers"


def test_a_recommendation_is_the_group_of_the_best_and_their_limits(arena: Arena) -> None:
    found = recommend(arena, "dirichlet", "0.2", server_data=False)
    assert found.panel.partition == "mild_dirichlet" and [of.rule for of in found.group] == ["geomed", "caf"]
    assert (
        found.answer
        == "geomed has the highest score of 5 rules, each the lowest known so far; 1 cannot be told from it: caf"
    )
    assert [of.rule for of in recommend(arena, "iid", "5", True).group] == ["fltrust", "geomed", "caf"]
    limits = found.limits()
    assert limits[0].startswith("The seeds show of no rule of the group that it keeps more than ")
    assert any(
        "samples alone score" in line and "geomed and caf are above that beyond the seeds" in line for line in limits
    )
    assert any(line.startswith("26 attacks were run") for line in limits) and any("3 seeds" in line for line in limits)
    krum, fltrust = (found.panel.fails(found.panel.standings[rule]) for rule in ("krum", "fltrust"))
    assert krum[0] == "ipm" and not fltrust
    printed = sheets.text([sheet(found.facts)])
    assert "geomed" in printed and printed.index("What nobody can promise") < printed.index("26 attacks")
    answer = json.loads(as_json(found.facts))
    assert answer["group"][0]["rule"] == "geomed" and answer["group"][0]["needs"] == [] and answer["attackers"] == 5


def test_a_recommendation_says_that_no_rule_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [replace(one, accuracy=one.accuracy * (0.4 if one.rule != HONEST else 1)) for one in made(Track("digits"))]
    assert recommend(arena_of(monkeypatch, runs), "iid", "0.4", True).answer.startswith("no rule keeps half")
    with pytest.raises(ConfigError, match="arena/digits_honest"):
        recommend(arena_of(monkeypatch, [one for one in runs if one.rule != HONEST]), "iid", "0.4", True)
    found = recommend(arena_of(monkeypatch, [one for one in runs if one.seed == "0"]), "iid", "0.4", True)
    assert not found.group and found.answer.startswith("too little was run to name a best rule: 5 rules with 3 seeds")
    assert found.answer.endswith("and 0 have them") and json.loads(as_json(found.facts))["group"] == []
    assert len(sheet(found.facts).rows) == len(found.rules), "their scores so far"


def test_no_best_is_named_of_four_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [one for one in made(Track("digits")) if one.rule in ("krum", "geomed", "trmean", "caf", HONEST)]
    found = recommend(arena_of(monkeypatch, runs), "iid", "0.4", True)
    assert not found.group and found.answer.endswith("under all attacks are needed, and 4 have them")
    assert findings.correlation(found.panel, found.panel) is None, "nor is their order compared"


@pytest.mark.parametrize(
    ("share", "words"),
    [(1.0, "too little was run to name a best rule: none of 5 rules met the strongest attack"),
     (0.5, "train on the server's own 20 samples alone, which scores 25; geomed, the best of 5 rules, scores 19")],
)  # fmt: skip
def test_rules_that_met_no_search_lead_nowhere_and_may_all_be_below_the_server(
    monkeypatch: pytest.MonkeyPatch, share: float, words: str
) -> None:
    runs = [replace(one, accuracy=one.accuracy * (1 if one.rule in (HONEST, "server") else share))
            for one in made(Track("digits"))]  # fmt: skip
    planned = [run("fltrust", "planned", 0.3, seed=seed) for seed in ("0", "1", "2")]
    monkeypatch.setattr(Arena, "under", lambda self, *attacks: planned if "planned" in attacks else [])
    arena = arena_of(monkeypatch, runs)
    found = recommend(arena, "iid", "5", server_data=False)
    assert found.answer == words
    assert (found.facts["use"] or {"rule": ""})["rule"] == ("server" if share < 1 else "")


@pytest.mark.parametrize(
    ("partition", "attackers", "words"),
    [("dirchlet", "0.2", "unknown partition 'dirchlet'; did you mean dirichlet or mild_dirichlet"),
     ("", "0.2", "unknown partition"), ("iid", "0.3", "--attackers 0.3 was not run; known: 0.2, 0.4"),
     ("iid", "few", "--attackers takes a share of the clients, such as 0.2 or 20%, or a number, got 'few'")],
)  # fmt: skip
def test_unknown_panels_are_one_line(arena: Arena, partition: str, attackers: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        recommend(arena, partition, attackers, server_data=False)


def test_findings_are_sentences_of_computed_numbers(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "_MANY", 3)
    lines = findings.findings(arena)
    assert "with 20% attackers, of 6: none in any partition" in lines[0]
    assert "iid 4, " in lines[0].partition("better than")[2], "all but krum and average"
    known = {view.question: tables[0].above[1] for view, tables in findings.answered(arena).items()}
    assert "the price of a wrong f" not in known and known["which attacks to try first"].startswith(
        "with 20% attackers"
    )
    assert any(line.startswith("Accuracy without attack") and "+1.00" in line for line in lines)
    best = findings.best_rules(arena)
    assert [cell.text for cell in best.rows[0][:2]] == ["iid", "20%"] and best.rows[0][2].text.startswith("geomed ")
    near = [replace(one, accuracy=0.88) if one.rule == "krum" else one for one in arena.settled[5]]
    for cached in ("panels", "by_list", "searched", "additions"):
        arena.__dict__.pop(cached, None)
    arena.settled[5] = near
    assert "iid 1, mild_dirichlet 1" in findings.heterogeneity(arena)


def test_rules_that_do_nothing_without_attack_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [replace(one, recall=[0.5] * 10 if one.rule in ("average", "krum") else one.recall)
            for one in made(Track("digits"))]  # fmt: skip
    arena = arena_of(monkeypatch, runs)
    assert findings.alike(arena)["krum"] == 1 and findings.alike(arena)["caf"] == 0
    assert "krum (100% of its runs)" in findings.idle(arena) and "caf" not in findings.idle(arena)


def test_the_protocol_is_that_of_the_configuration(arena: Arena) -> None:
    facts = {row[0].text: row[1].text for row in findings.protocol(arena).rows}
    assert facts["clients, attackers among them"] == "25, 5 and 10" and facts["seeds"] == "0, 1, 2"
    assert facts["rates tried"] == "0.003, 0.01, 0.03, 0.1, 0.3, 1, 3" and facts["attacks"] == "26"


def test_a_table_at_the_head_of_a_page_without_its_conditions_is_refused(
    shipped: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = conditions.conditions(shipped).words
    assert (
        "Data: digits, 8 x 8. Model: MLP of 2,410 weights. Clients: 25. Attackers: 5 or 10 of them. Attacks: 26."
        in words
    )
    assert "own 20 samples alone 72 to 78" in words and words in generator._headline(findings.best_rules(shipped))
    monkeypatch.setattr(findings, "conditioned", lambda sheet, arena: sheet)
    with pytest.raises(ValueError, match="lacks its conditions: data, model, clients"):
        generator._headline(findings.best_rules(shipped))
    with pytest.raises(ValueError, match="a headline table needs its model, baseline"):
        conditions.Conditions("digits", "", "25", "5", "7", "last", "")


def test_a_rule_that_does_not_beat_the_servers_own_samples_is_marked(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("robustfl_bench.lab.arena.answers.recommend.ENOUGH", 1)
    panel = arena.panels[5, "iid"]
    assert [mark(panel, rule) for rule in ("fltrust", "geomed", "trmean", "krum")] == ["", "", "", BELOW]
    weak = replace(panel, standings={rule: of for rule, of in panel.standings.items() if rule in ("krum", "server")})
    arena.panels = {(5, "iid"): weak}
    (row,) = (line for line in decisions.table([*decisions.cases({"digits": arena})], {"silos": arena}).splitlines()
              if line.startswith("| clients have like data, 20% attack"))  # fmt: skip
    assert "| **label 20 samples and train on them alone**: the best of 1 rule, " in row
    assert "[Krum](conf/aggregator/krum.yaml), keeps 12 |" in row
    assert "krum 13 (3 to 22), below the server alone" in findings.best_rules(arena).rows[0][2].text
    found = recommend(arena, "iid", "5", False)
    assert (
        found.answer
        == "train on the server's own 20 samples alone, which scores 25; krum, the best of 1 rule, scores 13"
    )
    assert [cell.text for cell in sheet(found.facts).rows[0]].count(BELOW) == 1
    assert json.loads(as_json(found.facts))["group"][0]["does_not_beat_server"] == BELOW
    assert [text.get_text() for text in page.answer(arena).axes[0].texts] == ["Krum †"]
    few = {rule: replace(of, score=replace(of.score, error=20.0)) for rule, of in panel.standings.items()}
    assert mark(replace(panel, standings=few), "geomed") == UNSHOWN, "its seeds differ too much"


def test_the_pages_are_those_that_the_runs_make(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the number of runs that are of other code, which any edit changes: no digest is computed."""
    monkeypatch.setattr(origins, "outdated", lambda runs: pd.Series(True, index=runs.index))

    def lines(text: str) -> list[str]:
        return [line.rstrip() for line in text.splitlines() if "with other code than today's" not in line]

    held = generator.kept()
    for path, text in generator.pages(held).items():
        assert lines(path.read_text(encoding="utf-8")) == lines(text), f"{path.name}: make arena"
    tables = generator.of_site(held)
    assert {path.stem for path in tables} == {*generator.OF_SITE}
    assert all(len(lines(text)) > 20 and text.startswith("# ") for text in tables.values())
    assert "## The race" in tables[generator.FOLDER / "silos.md"]


def test_the_board_has_every_score_and_the_runs_behind_it(shipped: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board, "arenas", lambda: {"digits": shipped})
    panel = shipped.panels[5, "fang"]
    pages = dict(board.arena_pages())
    rows = [line for line in pages["arena/board.md"].splitlines() if line.startswith("<tr")]
    assert len(rows) == len(panel.standings), "all rules, and the server alone"
    assert all(row.count('class="score"') in (5, 10) for row in rows), "some rules cannot be run with 10 attackers"
    (bulyan,) = (row for row in rows if 'href="rules/bulyan.html"' in row)
    assert bulyan.count('class="cannot">cannot run<') == 5 and "<td></td>" not in bulyan, "what cannot run is no gap"
    assert ["class=reference" in row for row in rows] == ["rules/server.html" in row for row in rows], (
        "no rule, no rank"
    )
    (krum,) = (row for row in rows if 'href="rules/krum.html"' in row)
    score = panel.standings["krum"].score.value
    assert f'data-value="{score:.2f}"' in krum and 'href="runs/digits-fang-5/krum.csv"' in krum
    runs = pages["arena/runs/digits-fang-5/krum.csv"].splitlines()
    worst = [float(line.split(",")[7]) for line in runs[1:] if line.split(",")[3] == panel.standings["krum"].attack]
    assert 100 * sum(worst) / len(worst) == pytest.approx(panel.standings["krum"].worst, abs=1e-3)
    met = [of for of in panel.standings.values() if of.rule != "server"]
    broken = sum("ipm" in panel.fails(of) for of in met)
    assert f"| version 1, digits | Fang, 20% attackers | {broken} of {len(met)} |" in "\n".join(board.attacked("ipm"))
    assert "below 50 in" in "\n".join(board.standing("krum"))


def test_the_commands_answer_in_every_format(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(shared.RunSource, "load_any", lambda runs, of_arena, folders=(): shipped_runs())
    asked = ["recommend", "--partition", "dirichlet", "--attackers", "0.2"]
    for form, words in (("json", '"partition": "mild_dirichlet"'), ("csv", "rule,score"), ("md", "| rule | score |")):
        assert results.main([*asked, "--format", form]) == 0
        assert words in capsys.readouterr().out
    assert results.main(["recommend", "--partition", "hospitals", "--attackers", "1"]) == 0  # of README.md
    assert "quantity_skew, 12.5% attackers (1 of 8 clients)" in capsys.readouterr().out
    assert results.main([*asked, "--book", "tuned", "--why"]) == 0
    tuned = capsys.readouterr().out
    assert "without server data, rules tuned in each panel" in tuned and "Arena silos" in tuned
    assert results.main([*asked, "--book", "tuned", "--why", "--own-runs"]) == 0
    assert capsys.readouterr().out == tuned, "the file holds what the runs say"
    assert results.main(["arena", "--view", "collapse", "--plot", str(tmp_path / "view.png")]) == 0
    assert capsys.readouterr().out.endswith("view.png\n") and (tmp_path / "view.png").exists()
    assert results.main(["arena", "--view", "collapse", "--format", "csv"]) == 0
    assert capsys.readouterr().out.startswith("rule,iid")
    for wrong, words in (
        ([*asked[:-1], "0.3"], "--attackers 0.3 was not run"),
        (["recommend", "--partition", "x", "--attackers", "0.2"], "unknown partition 'x'; known: fang, iid"),
        (["recommend", "--partition", "quantity_skew", "--attackers", "2"], "known: 0.125 of 8 clients, or 1"),
        ([*asked, "--arena", "audio"], "unknown track 'audio'"),
        (["arena", "silos", "--book", "tuned", "--claims"], "--book tuned goes with scores, --entries and pictures"),
        (["arena", "--heat", "a.png", "--plot", "b.png"], "leave out --claims, --heat, --best and --entries"),
        (["arena", "--view", "collapse", "--attackers", "5"], "--attackers needs"),
        (["arena", "--labels", "boba=Ours"], "--labels needs --plot, --heat or --best"),
    ):
        assert results.main(wrong) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert words in line
