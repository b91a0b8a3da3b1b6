"""The decision: which rule to use, from a file that is read in a moment."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import robustfl_bench as rb
from robustfl_bench.base.errors import ConfigError, DataError
from robustfl_bench.commands import results
from robustfl_bench.lab.arena import decision
from robustfl_bench.lab.arena.answers import findings
from robustfl_bench.lab.arena.answers.recommend import recommend
from robustfl_bench.lab.arena.decision import decide, lines, number_meant, partition_meant
from robustfl_bench.lab.arena.order import UNSHOWN
from robustfl_bench.lab.arena.panels import Arena
from robustfl_bench.lab.arena.track import Track, tracks
from robustfl_bench.runner.config import compose
from scripts.generators import decisions
from tests.arenas import arena_of, every_run, honest_runs
from tests.conftest import Bench

ROOT = Path(__file__).parents[1]

LEVELS = {"krum": 0.5, "geomed": 0.8, "server": 0.6, "fltrust": 0.85, "trmean": 0.7, "average": 0.3, "caf": 0.79}
PARTITIONS = ("iid", "mild_dirichlet", "step", "fang", "pathological", "quantity_skew")


@pytest.fixture
def arena(monkeypatch: pytest.MonkeyPatch) -> Arena:
    """Made-up runs: in fang all rules are worse than the server's own samples, in step all is bad."""
    track = Track("digits")
    runs = [replace(one, accuracy=0.4 * one.accuracy)
            if one.partition == "step" or (one.partition, one.rule == "server") == ("fang", False) else one
            for one in every_run(track, LEVELS)]  # fmt: skip
    runs = [replace(one, last={"attack_success_rate": 0.1 if one.rule == "geomed" else 0.3}) for one in runs]
    monkeypatch.setattr(Arena, "under", lambda self, *attacks: [one for one in runs if one.attack in attacks])
    return arena_of(monkeypatch, [*runs, *honest_runs(track, 0.9)])


@pytest.fixture
def cases(arena: Arena) -> Sequence[decision.Facts]:
    return json.loads(json.dumps([*decisions.cases({"digits": arena})]))  # type: ignore[no-any-return]


def printed(cases: Sequence[decision.Facts], partition: str, server_data: bool = False) -> list[str]:
    case = decide(cases, partition, "0.2", server_data, "plain")
    assert case is not None
    return list(lines(case))


def test_the_answer_is_a_rule_a_score_a_line_and_a_paper_in_ten_lines(cases: Sequence[decision.Facts]) -> None:
    first, use, keeps, alone, line, paper, about, untried = printed(cases, "iid", server_data=True)
    assert first.startswith("iid, 20% attackers (5 of 25 clients), with server data")
    assert use.startswith("Use fltrust: it keeps more than any other of 6 rules.")
    assert keeps.startswith("Keeps 81 (81 to 81) under its worst known attack, ")
    assert alone.startswith("The server's own 20 samples alone keep 50") and paper == "Paper: Cao et al., NDSS 2021"
    assert about == "About it: robustfl-bench --list aggregator fltrust" and untried.startswith("Not tried: ")
    words = line.removeprefix("Type: robustfl-bench ").split()
    config = compose.resolve(words).config
    assert config["aggregator"]["_target_"].endswith("FLTrust") and config["num_clients"] == 25
    assert config["num_byzantine"] == 5 and config["lr"] == 0.1 and config["partition"]["_target_"].endswith("IID")


def test_where_no_rule_is_worth_its_clients_the_answer_says_so(cases: Sequence[decision.Facts]) -> None:
    _, use, alone, line, *_ = printed(cases, "fang")
    assert use.startswith("Label 20 samples and train on them alone: the best of 5 rules, geomed, keeps ")
    assert alone.startswith("The server's own 20 samples alone keep 5") and "aggregator=server " in line
    assert printed(cases, "step", server_data=True)[1].startswith(
        "Nothing is safe: the best of 6 rules, fltrust, keeps "
    )
    unsafe = next(case for case in cases if case["partition"] == "step")
    nothing = dict(unsafe, use=None, group=[], answer="too little was run")
    assert list(lines(nothing))[1] == "Too little was run."
    doubtful = next(case for case in cases if case["partition"] == "iid" and not case["server_data"])
    doubtful = dict(doubtful, use=dict(doubtful["use"], doubt=UNSHOWN))
    best = doubtful["use"]["rule"]
    assert list(lines(doubtful))[1].startswith(
        f"Use {best}, or label 20 samples and train on them alone: the seeds do not tell the two apart. {best} keeps"
    )


@pytest.mark.parametrize(
    ("asked", "meant"),
    [("step", "step"), ("Dirichlet", "mild_dirichlet"), ("hospitals", "quantity_skew"), ("quantity", "quantity_skew"),
     ("unequal sites", "quantity_skew"), ("like-data", "iid"), ("IID", "iid"), ("patho", "pathological")],
)  # fmt: skip
def test_partitions_have_the_names_that_users_give_them(asked: str, meant: str) -> None:
    assert partition_meant(PARTITIONS, asked) == meant


@pytest.mark.parametrize("asked", ["label_skew", "label skew", "non-iid"])
def test_of_several_kinds_of_label_skew_one_is_asked_for(asked: str) -> None:
    with pytest.raises(ConfigError, match=rf"{asked}' can mean mild_dirichlet \(.*fang \(.*step \(.*pathological \("):
        partition_meant(PARTITIONS, asked)
    assert partition_meant(["iid", "step"], asked) == "step"


@pytest.mark.parametrize("asked", [*decision.OTHERWISE])
def test_what_is_no_partition_has_a_line_that_answers_it(asked: str) -> None:
    with pytest.raises(ConfigError, match=f"'{asked}' is no partition, which says what clients hold; ask robustfl-res"):
        partition_meant(PARTITIONS, asked)
    words = decision.OTHERWISE[asked].split()
    named = words[words.index("--track") + 1] if "--track" in words else words[2]
    assert named in tracks() and "mild_dirichlet" in Track(named).swept["partition"]


def test_a_share_that_was_not_run_names_the_nearest_and_the_line_for_it() -> None:
    for asked, number in (("0.2", 5), ("5", 5), ("20%", 5), ("10", 10), (".4", 10)):
        assert number_meant(asked, 25, [5, 10], "step", False) == number
    assert number_meant("0.05", 539, [5, 27], "natural", False) == 27, "27 of 539 are 0.0500928"
    for asked, nearest in (("0.05", "0.2"), ("0.3", "0.4"), ("0.25", "0.2"), ("12", "0.4"), ("90%", "0.4")):
        again = (
            f"nearest: {nearest}, robustfl-results recommend --partition step --attackers {nearest} --server-data yes$"
        )
        with pytest.raises(ConfigError, match=f"--attackers {asked} was not run; known: 0.2, 0.4 of 25.*; {again}"):
            number_meant(asked, 25, [5, 10], "step", True)


def test_the_lines_to_type_of_the_readmes_table_make_runs(bench: Bench) -> None:
    table = (ROOT / "README.md").read_text(encoding="utf-8").partition("<!-- end -->")[0]
    lines = re.findall("`robustfl-bench (aggregator=[^`]*)`", table)
    assert len(lines) > 4
    assert [done for line in lines if (done := bench(*line.split(), "dry_run=true")).code] == []


def test_the_table_of_the_readme_has_every_case_and_says_where_nothing_was_run(
    arena: Arena, cases: Sequence[decision.Facts]
) -> None:
    text = decisions.table(cases, {"silos": arena, decisions.IMAGES: arena})
    like, _, with_data, *_, phones, hospitals, backdoor, others = text.splitlines()[2:11]
    assert like.startswith("| clients have like data, 20% attack | [geometric median](conf/aggregator/geomed.yaml)")
    of_case = "aggregator=geomed +setting=arena/digits partition=iid num_byzantine=5 attack=worst"
    assert f"| `robustfl-bench {of_case} lr=" in like and "` | 75 (75 to 75) under worst | " in like
    assert "and you own 20 samples" in with_data and "aggregator=fltrust" in with_data
    assert with_data.endswith("| the same |") and not like.endswith("| the same |")
    assert phones.startswith("| many phones, few in a round | not run |") and "| not run |" in hospitals
    assert "| attackers plant a backdoor, IID, 20% attack | [geometric median]" in backdoor
    assert "in 10% of the samples they reach their goal (plain mean: 30%)" in backdoor
    assert "aggregator=geomed,fltrust,server,average" in others and "Data: digits, 8 x 8. Model: MLP of " in text
    for line in re.findall("`robustfl-bench ([^-][^`]*)`", text):
        compose.resolve(line.split())
    untried = dict(cases[0], use=None, group=[], more="robustfl-bench -m +experiment=a")
    nothing = decisions.table([untried], {"silos": arena})
    assert "| too little was run to say | `robustfl-bench -m +experiment=a` |" in nothing
    assert "| attackers plant a backdoor | not run |" in nothing


def test_beside_the_answer_stands_what_the_rule_keeps_elsewhere(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only where enough rules met attackers who search."""
    given = dict.fromkeys(("digits", *findings.CONDITIONS), arena)
    unsearched = next(case for case in decisions.cases(given) if case["arena"] == "digits")
    assert unsearched["elsewhere"] == [] and "momentum" in unsearched["not_tried"]
    monkeypatch.setattr(decisions, "ENOUGH", 0)
    both = [*decisions.cases(given)]
    _, _, keeps, others, *_, left = printed(both, "iid")
    assert keeps.startswith("Keeps 75 (75 to 75) under")
    assert others == (
        "On digits it keeps 75 (75 to 75) under worst; on digits it keeps 75 (75 to 75) under worst; on digits with "
        "momentum it keeps 75 (75 to 75) under worst; where clients drop out it keeps 75 (75 to 75) under worst."
    )
    assert "digits, digits and digits" in left and "momentum" not in left and "absent" not in left
    like, *_ = decisions.table(both, {"silos": arena}).splitlines()[2:]
    assert (
        "| 75 (75 to 75) under worst; elsewhere 75 (digits), 75 (digits), 75 (digits with momentum), 75 (where" in like
    )
    assert decisions.elsewhere(both[0] | {"attackers": 3}, "fashion", arena) is None, "no panel has this share"
    like_data = next(case for case in both if case["partition"] == "iid")
    beaten = decisions.elsewhere(like_data | {"partition": "fang"}, "fashion", arena)
    assert beaten and 0 < beaten["score"] < beaten["better_alone"]
    alone = f"less than own 20 samples alone ({beaten['better_alone']:.0f})"
    assert any(alone in line for line in lines(like_data | {"elsewhere": [beaten]}))
    first, *_ = decisions.table([like_data | {"elsewhere": [beaten]}], {"silos": arena}).splitlines()[2:]
    assert f"(digits, where own 20 samples keep {beaten['better_alone']:.0f})" in first


def test_the_steadiest_rule_is_used_where_the_best_one_falls_elsewhere(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    track = Track("digits")

    def other(levels: Mapping[str, float]) -> Arena:
        return arena_of(monkeypatch, [*every_run(track, levels), *honest_runs(track, 0.9)])

    monkeypatch.setattr(decisions, "ENOUGH", 0)
    of = recommend(arena, "iid", "5", False)
    assert of.facts["use"]["rule"] == "geomed"
    case = decisions.with_others(of, {"fashion": other({**LEVELS, "geomed": 0.2})})
    assert case["use"]["rule"] == "caf"
    assert list(lines(case))[1] == (
        "Use caf: of 5 rules that met the strongest attack on digits and on digits, its least score is the highest. "
        "geomed keeps 75 on digits, and 0 on digits."
    )
    first, *_ = decisions.table([case], {"silos": arena}).splitlines()[2:]
    assert ": the highest least score of 5 rules; " in first and "keeps 75, and 0 on digits |" in first
    case = decisions.with_others(of, {"fashion": other(dict.fromkeys(LEVELS, 0.2) | {"server": 0.6})})
    assert case["use"]["rule"] == "server"
    assert list(lines(case))[1] == (
        "Label 20 samples and train on them alone: the best of 5 rules, geomed, keeps 75 under its worst known attack, "
        "and 0 on digits."
    )
    same = decisions.with_others(of, {"fashion": other({**LEVELS, "caf": 0.2})})
    assert same["use"] == of.facts["use"] and "steady" not in same


def test_the_readme_decides_on_its_first_screen_in_few_words() -> None:
    readme = (ROOT / "README.md").read_text()
    begin, table = readme.partition("<!-- decisions of silos")[::2]
    assert len(begin.splitlines()) < 8 and table.partition("<!-- end -->")[2].lstrip().startswith("![")
    prose = re.sub(r"^```.*?^```|<!--.*?-->|^[|!].*?$|\]\([^)]*\)", "", readme, flags=re.DOTALL | re.MULTILINE)
    assert len(re.findall(r"\S*\w\S*", prose)) <= 500 and "ersion 2" not in readme


def test_a_track_that_others_answer_for_is_computed(cases: Sequence[decision.Facts]) -> None:
    assert decide(cases, "iid", "5", False, "tuned") is None
    assert decide(cases, "iid", "5", False, "plain", "silos") is None
    assert decide(cases, "iid", "5", False, "plain", "digits") is not None
    others = [dict(case, arena="silos") for case in cases if case["partition"] == "iid"]
    assert decide([*cases, *others], "iid", "5", False, "plain", "digits") is None


def test_the_shipped_cases_have_answers_of_ten_lines_whose_lines_compose() -> None:
    held = decision.read()
    assert {case["arena"] for case in held} >= {"silos", "hospitals"}
    assert {case["book"] for case in held} == {*decision.BOOKS}
    for case in held:
        assert 4 <= len([*lines(case)]) <= 9 and all(line == line.strip() for line in lines(case))
    for case in held[:: len(held) // 6]:
        if case["use"]:
            compose.resolve(case["use"]["command"].split()[1:])
    with pytest.raises(DataError, match="`make arena` writes it"):
        decision.read(Path("nothing.json"))


def test_it_answers_without_pytorch_or_pandas_and_as_python_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = """import sys; from robustfl_bench.commands import entry
sys.argv = ['robustfl-results', 'recommend', '--partition', 'iid', '--attackers', '0.2']
try: entry.results()
finally: print(*{'torch', 'pandas', 'numpy', 'matplotlib'} & {*sys.modules}, file=sys.stderr)"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert ran.stderr == "\n" and len(ran.stdout.splitlines()) <= 10
    monkeypatch.chdir(tmp_path)
    asked = ["recommend", "--partition", "iid", "--attackers", "0.2"]
    assert results.main(asked) == 0
    assert capsys.readouterr().out == ran.stdout and "--own-runs" not in ran.stdout
    (tmp_path / "results" / "runs").mkdir(parents=True)
    assert results.main(asked) == 0
    assert capsys.readouterr().out.endswith("; --own-runs counts your runs in results/ too.\n")
    assert results.main([*asked, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == rb.recommend("iid", 0.2)
