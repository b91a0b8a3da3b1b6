"""Pictures: styles, widths, fonts, heat maps, weights; and the figures of papers by name."""

import os
import re
import shlex
import shutil
import subprocess
import zlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.commands import shared
from robustfl_bench.read.pages import figures, plots
from robustfl_bench.read.pages.pictures import curves, heat
from robustfl_bench.read.pages.pictures.canvas import HIGHEST, SHOWN, WIDTHS, Frame, drawable, save, spaced
from robustfl_bench.read.pages.pictures.curves import COLUMNS, Curves
from robustfl_bench.read.pages.pictures.styles import BLACK, BLUE, COMPARED, Style, ramp, series, styles
from robustfl_bench.read.runs import archive, records
from robustfl_bench.read.tables import described as papers
from robustfl_bench.runner.config import identity, names, options
from tests.conftest import run_cli
from tests.test_results import make_run, reseal

FIGURES_OF_RAGA = str(Path(__file__).parents[1] / "results" / "raga" / "figures_quick.csv")

IN_ONE_FIGURE = (  # of a paper
    "raga fedavg median byrd_saga rfa mca", "fedavg rfa mkrum cfl arfl",
    "rar krum median trimmed_mean signsgd rlr brace", "trmean mkrum geomed fltrust boba", "geomed krum coomed boba",
    "server selfrej avgrej zeno fltrust bygars boba", "median trimmed_mean ifca three_stage",
    "average coomed mkrum boba",
)  # fmt: skip


# --- styles --------------------------------------------------------------------------------------------------------


def test_in_a_figure_of_all_rules_each_has_a_colour_and_a_marker_of_its_own() -> None:
    rules = options.names("aggregator")
    drawn, by_rule = styles(rules), dict[str, set[Any]]()
    for name in rules:
        content = str(identity.canonical(options.option("aggregator", name)))
        by_rule.setdefault(content, set()).add(drawn[name])
    assert all(len(found) == 1 for found in by_rule.values()), "names of one rule have one style"
    assert 20 < len({style[:2] for found in by_rule.values() for style in found}) == len(by_rule) < len(rules)


@pytest.mark.parametrize("names", IN_ONE_FIGURE)
def test_methods_that_are_compared_differ_in_colour_and_in_marker(names: str) -> None:
    chosen = styles(names.split()).values()
    assert len({colour for colour, *_ in chosen}) == len({marker for _, marker, _ in chosen}) == len(names.split())
    assert all(style == COMPARED[options.original("aggregator", name)] for name, style in styles(names.split()).items())
    assert_told_apart_in_grey(list(chosen))


def assert_told_apart_in_grey(drawn: Sequence[Style]) -> None:
    """No two lines of about one lightness have the same dashes."""
    for (first, _, dash), (second, _, other) in combinations(drawn, 2):
        assert dash != other or abs(lightness(first) - lightness(second)) > 0.06, (first, second, dash)


@pytest.mark.parametrize("names", ["krum rule_of_mine", "krum mca trmean coomed fltrust cfl", "boba geomed rage zeno"])
def test_no_two_lines_of_any_figure_look_alike_in_grey(names: str) -> None:
    assert_told_apart_in_grey(list(styles(names.split()).values()))
    assert_told_apart_in_grey(list(series(names.split()).values()))
    assert_told_apart_in_grey(list(series([str(value) for value in range(len(names.split()) + 1)]).values()))


def test_only_methods_that_a_paper_compares_have_a_style_by_hand() -> None:
    names = {options.original("aggregator", name) for figure in IN_ONE_FIGURE for name in figure.split()}
    assert names == set(COMPARED)


def test_styles_of_other_rules_follow_from_their_names() -> None:
    own, rules = [f"rule{i}" for i in range(60)], options.names("aggregator")
    together = styles([*rules, *own])
    assert styles(["krum"])["krum"] == together["krum"] == COMPARED["krum"]
    assert styles(["coomed", "norm_median", "krum"])["norm_median"] == styles(["norm_median"])["norm_median"]
    assert styles(["average", "norm_median"])["norm_median"][1] != COMPARED["average"][1], "told apart in grey"
    assert styles(["norm_median"]) == {"norm_median": (BLUE, "o", "--")}, "in every process"
    assert len({together[name] for name in own}) == 60
    assert not {together[name] for name in own} & {together[name] for name in rules}
    assert {name for name, style in together.items() if style[0] == BLACK} == {"average", "mean", "rar", "fedavg"}


def test_of_two_rules_with_one_hash_the_second_by_name_moves() -> None:
    assert zlib.crc32(b"plumless") == zlib.crc32(b"buckeroo")
    alone = styles(["plumless"])["plumless"]
    assert styles(["buckeroo"])["buckeroo"] == styles(["plumless", "buckeroo"])["buckeroo"] == alone
    assert styles(["plumless", "buckeroo"])["plumless"][:2] != alone[:2]


def lightness(colour: str) -> float:
    return float(np.dot(to_rgb(colour), (0.2126, 0.7152, 0.0722)))


def test_ordered_settings_are_a_ramp_and_others_have_a_colour_each() -> None:
    light = [lightness(colour) for colour in ramp(6)]
    assert light == sorted(light) and min(np.diff(light)) > 0.05
    chosen = series(["0.1", "0.5", "0.9", "inf"])
    assert [style[0] for style in chosen.values()] == ramp(4) and len({style[1] for style in chosen.values()}) == 4
    words = series(["none", "gauss", "ipm", "lie", "mimic", "minmax", "minsum"])
    assert len({style[0] for style in words.values()}) == 7 and BLACK not in {style[0] for style in words.values()}


# --- for print -----------------------------------------------------------------------------------------------------


@pytest.fixture
def results(tmp_path: Path) -> Path:
    for rule, harm in (("average", 0.6), ("boba", 0.1)):
        for attack in ("none", "ipm", "lie"):
            for seed in (0, 1):
                accuracy = 0.9 - harm * (("none", "lie", "ipm").index(attack) / 2) + 0.02 * seed
                make_run(tmp_path, rule, attack, seed, accuracy)
    return tmp_path


@pytest.mark.parametrize("width", WIDTHS)
def test_widths_are_those_of_paper_and_letters_are_legible(results: Path, width: str) -> None:
    runs = records.load(results)
    drawings = [
        plots.rounds(runs, shown=plots.ShownRuns(frame=Frame(width))),
        plots.matrix(runs, shown=plots.ShownRuns(panels="", frame=Frame(width))),
    ]
    drawings += [
        plots.sweep(
            runs, "num_byzantine", shown=plots.ShownRuns(panels="", conditions=["attack=ipm"], frame=Frame(width))
        )
    ]
    for figure in drawings:
        assert figure.get_figwidth() == WIDTHS[width]
        texts = [text for text in figure.findobj(lambda artist: hasattr(artist, "get_fontsize")) if text.get_text()]
        assert texts and min(text.get_fontsize() for text in texts) >= 6.5


def panelled(values: int, names: int) -> Curves:
    """Lines of so many values in so many panels each, against a setting with close and long numbers."""
    rows = [(f"v{value}", f"panel {name}", "krum", x, 10.0 * value + x, x, x) for value in range(values)
            for name in range(names) for x in (20, 50, 100, 200, 400, 100000)]  # fmt: skip
    labels = {f"v{value}": f"Value {value} [%]" for value in range(values)}
    return Curves(pd.DataFrame(rows, columns=list(COLUMNS)), "num_clients", labels, log="x")


@pytest.mark.parametrize(
    ("values", "names", "across", "width"),
    [(1, 1, 1, "column"), (1, 8, 2, "column"), (1, 12, 2, "column"), (1, 20, 5, "page"), (2, 4, 2, "column"),
     (2, 3, 3, "column"), (2, 10, 5, "page")],
)  # fmt: skip
def test_a_picture_is_as_wide_as_a_column_unless_it_would_be_higher_than_a_page(
    values: int, names: int, across: int, width: str
) -> None:
    figure = curves.draw(panelled(values, names))
    assert figure.get_figwidth() == WIDTHS[width] and figure.axes[0].get_gridspec().ncols == across
    assert figure.get_figheight() < HIGHEST
    if values > 1:  # a value keeps its scale, also in the second of its rows, and its name is at each of them
        first, second = (figure.axes[value * names : (value + 1) * names] for value in range(2))
        assert len({axis.get_ylim() for axis in first}) == 1 and {axis.get_ylabel() for axis in second[::across]} == {
            "Value 1 [%]"
        }


def test_numbers_below_an_axis_do_not_touch() -> None:
    axis = curves.draw(panelled(1, 8)).axes[-1]
    words = [label.get_text() for label in axis.get_xticklabels()]
    assert words[0] == "20" and 2 <= len(words) < 6 and spaced([1, 1.1, 5], ["100", "200", "300"], 2) == [0, 2]
    plain = curves.draw(replace(panelled(1, 1), log="xy"))
    plain.draw_without_rendering()
    assert "100" in (words := [label.get_text() for label in plain.axes[0].get_yticklabels()])
    assert not any("$" in word for word in words), "exponents are too small to read"


@pytest.mark.skipif(shutil.which("pdffonts") is None, reason="pdffonts (poppler-utils) is not installed")
def test_fonts_in_pdf_are_truetype(results: Path) -> None:
    path = save(plots.rounds(records.load(results)), results / "a.pdf")
    lines = subprocess.run(["pdffonts", path], capture_output=True, text=True, check=True).stdout.splitlines()[2:]
    assert lines and all("TrueType" in line and "Type 3" not in line for line in lines)


def test_title_labels_and_limits(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = Frame("column", "My title", {"boba": "Ours", "attack: ipm": "IPM", "x": "t", "y": "acc"}, (20, 80))
    figure = plots.rounds(records.load(results), shown=plots.ShownRuns(conditions=["attack=ipm"], frame=frame))
    (axis,) = figure.axes
    assert (figure.get_suptitle(), axis.get_title(), axis.get_xlabel()) == ("My title", "IPM", "t")
    assert axis.get_ylabel() == "acc" and axis.get_ylim() == (20, 80)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["average", "Ours"]
    assert plots.rounds(records.load(results), shown=plots.ShownRuns(frame=Frame(title=""))).get_suptitle() == ""
    shown = ("plot", "accuracy", "--results-dir", results, "--output", results / "a.png")
    for wrong, told in (
        (("--ylim", "1"), "--ylim takes two numbers, LOW,HIGH, got '1'"),
        (("--ylim", "2,1"), "--ylim takes two numbers"),
        (("--labels", "boba"), "--labels takes NAME=WORDS or a YAML file, got 'boba'"),
        (("--width", "poster"), "invalid choice"),
    ):
        code, _, err = run_cli(capsys, *shown, *wrong)
        assert code == 2 and told in err
    assert run_cli(capsys, *shown, "--ylim", "0,50", "--labels", "boba=a=b", "--title", "", "--width", "page")[0] == 0


def test_counts_have_whole_ticks(tmp_path: Path) -> None:
    for f, accepted in ((1, 0.0), (2, 1.0), (4, 2.0)):
        make_run(tmp_path, num_byzantine=f, metrics={"byzantine_accepted": accepted})
    figure = plots.sweep(records.load(tmp_path), "num_byzantine", "byzantine_accepted")
    assert figure.axes[0].get_xticks().tolist() == [1, 2, 4]
    assert all(float(tick).is_integer() for tick in figure.axes[0].get_yticks())


# --- kinds of pictures ---------------------------------------------------------------------------------------------


def test_the_worst_attack_of_every_row_has_a_frame(results: Path) -> None:
    figure = plots.matrix(records.load(results))
    axis, _ = figure.axes
    assert axis.images[0].get_array().ravel().tolist() == pytest.approx([91, 31, 61, 91, 81, 86])
    assert [label.get_text() for label in axis.get_xticklabels()] == ["none", "IPM", "LIE"]
    frames = sorted((round(patch.get_y() + 0.44), round(patch.get_x() + 0.46)) for patch in axis.patches)
    assert frames == [(0, 1), (1, 1)] and "framed" in figure.get_suptitle().replace("\n", " ")
    other = plots.matrix(
        records.load(results), columns="num_byzantine", shown=plots.ShownRuns(panels="", conditions=["attack=ipm"])
    )
    assert not other.axes[0].patches


def test_a_heat_map_of_two_settings_and_its_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for f in (1, 2):
        for alpha in (0.1, 1.0, 10.0):
            make_run(tmp_path, num_byzantine=f, alpha=alpha, accuracy=0.1 * f + 0.01 * alpha)
    figure = plots.matrix(
        records.load(tmp_path), columns="alpha", shown=plots.ShownRuns(panels="", lines="num_byzantine")
    )
    assert figure.axes[0].images[0].get_array().ravel().tolist() == pytest.approx([10.1, 11, 20, 20.1, 21, 30])
    shown = ("plot", "heat", "--lines", "num_byzantine", "--x", "alpha", "--results-dir", tmp_path)
    assert run_cli(capsys, *shown, "--output", tmp_path / "a.svg")[0] == 0
    code, _, err = run_cli(capsys, "plot", "heat", "--results-dir", tmp_path, "--output", tmp_path / "a.svg")
    assert code == 2 and "these runs also differ in alpha" in err


@pytest.mark.parametrize(("letters", "words"), [(4, ["91.2"] * 7), (14, ["91"] * 7), (60, [])])
def test_percentages_lose_their_decimals_before_they_leave_narrow_cells(letters: int, words: list[str]) -> None:
    panel = heat.HeatPanel("", ["r" * letters], [*"abcdefg"], np.full((1, 7), 91.2))
    percents = heat.Scale("accuracy", 0, 100, "{:.1f}".format)
    figure = heat.draw([panel], percents, "x", "y", "", Frame(width="column"))
    assert [text.get_text() for text in figure.axes[0].texts] == words


def test_recall_of_every_class_against_the_round(tmp_path: Path) -> None:
    for seed in (0, 1):
        make_run(tmp_path, seed=seed, metrics={"recall_0": 0.5 + 0.1 * seed, "recall_1": 0.2})
    figure = plots.trajectory(records.load(tmp_path))
    axis = figure.axes[0]
    np.testing.assert_allclose(axis.images[0].get_array(), [[55] * 4, [20] * 4])
    assert axis.get_title() == "Krum, attack: IPM" and axis.get_xlabel() == "Round"
    assert [label.get_text() for label in axis.get_xticklabels()] == ["1", "2", "3", "4"]


def test_weights_are_bands_of_honest_and_lines_of_byzantine_clients(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    honest = {f"client_{i}": [0.01 * i, 0.02 * i] for i in range(2, 9)}
    table = pd.DataFrame({"round": [1, 2], "byzantine_0": [0.5, 0.0], "byzantine_1": [0.1, 0.2], **honest})
    table.to_csv(folder / "weights.csv", index=False)
    reseal(folder)
    figure = plots.weights(records.load(tmp_path))
    (axis,) = figure.axes
    everyone, middle = (band.get_paths()[0].vertices for band in axis.collections)
    assert everyone[:, 1].min() == pytest.approx(0.02) and everyone[:, 1].max() == pytest.approx(0.16)
    assert middle[:, 1].min() == pytest.approx(0.035) and middle[:, 1].max() == pytest.approx(0.13)
    lines = {line.get_label(): list(line.get_ydata()) for line in axis.get_lines()}
    assert lines["honest: median"] == pytest.approx([0.05, 0.1]) and lines["attacker"] == [0.1, 0.2]
    assert len(axis.get_lines()) == 4  # two attackers, the honest median, equal weights
    assert lines["equal weights"] == pytest.approx([1 / 9] * 2)


def test_the_roc_of_weights_is_drawn_and_its_area_tabled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_run(tmp_path)
    table = {
        "round": [1, 2],
        "byzantine_0": [0.1, 0.2],
        "byzantine_1": [0.4, 0.5],
        "client_2": [0.3, 0.2],
        "client_3": 0,
    }
    pd.DataFrame(table).to_csv(folder / "weights.csv", index=False)
    reseal(folder)
    (axis,) = plots.roc(records.load(tmp_path)).axes
    (line,) = axis.get_lines()
    assert [line.get_ydata()[at] for at in (25, 50, 75, 100)] == [0, 50, 50, 100]
    assert axis.get_ylabel() == "Attackers found [%]"
    code, out, _ = run_cli(capsys, "table", "--value", "roc_auc", "--results-dir", tmp_path)
    assert code == 0 and "0.250" in out
    pd.DataFrame(table).drop(columns=["byzantine_0", "byzantine_1"]).to_csv(folder / "weights.csv", index=False)
    reseal(folder)
    with pytest.raises(records.NoRuns, match="no run with a ROC curve: no ROC without attackers"):
        plots.roc(records.load(tmp_path))


def test_the_advice_to_choose_one_run_leaves_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for attack, seed, lr in (("ipm", 0, 0.1), ("ipm", 1, 0.1), ("lie", 0, 0.1), ("ipm", 0, 0.2)):
        folder = make_run(tmp_path, "krum", attack, seed, lr=lr)
        (folder / "weights.csv").write_text("round,client_0,client_1\n1,0.5,0.5\n")
        reseal(folder)
    asked = ("plot", "weights", "--results-dir", tmp_path, "--output", tmp_path / "a.png", "--where", "seed=0")
    code, _, err = run_cli(capsys, *asked)
    assert code == 2 and "krum has 3 runs; choose one, for example by --where attack=ipm --where lr=0.1" in err
    _, _, advice = err.partition("for example by ")
    assert run_cli(capsys, *asked, *shlex.split(advice))[0] == 0


def test_a_dollar_sign_is_a_formula_or_a_dollar_sign(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path, "krum", "cost$x_$")
    make_run(tmp_path, "boba", "ipm")
    labels = [f"--labels={words}" for words in ("krum=$\\undefined{$", "boba=$\\alpha$", "x=5 $ a round", "y=$")]
    for kind in ("accuracy", "heat", "recall"):
        output = tmp_path / f"{kind}.svg"
        asked = ("plot", kind, "--results-dir", tmp_path, "--output", output, "--title", "$a$ for $5 and $b", *labels)
        assert run_cli(capsys, *asked) == (0, f"{output}\n", "")
    assert drawable("$x_1$") == "$x_1$" and drawable("$x_1") == drawable("\\$x_1") == "\\$x_1"


def test_what_has_not_learned_without_attack_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tenth = [0.1] * 10
    for seed in (0, 1):
        make_run(tmp_path, "fedavg", "none", seed, 0.11, recall=tenth)
        make_run(tmp_path, "fedavg", "ipm", seed, 0.2, recall=tenth)
        make_run(tmp_path, "krum", "none", seed, 0.2, recall=tenth)
    caution = "not learned (at chance without attack)"
    for kind in (plots.rounds, plots.recall):
        heading = " ".join(kind(records.load(tmp_path)).get_suptitle().split())
        assert heading.endswith(f"; {caution}: FedAvg / none (2)")
    _, out, _ = run_cli(capsys, "table", "--results-dir", tmp_path)
    assert f"[1] {caution}" in out and re.search(r"^fedavg +11\.0 \(0\.0\) \[1\] +20\.0", out, re.M)
    assert out.count("[1]") == 2 and "20.0 (0.0) [1]" not in out
    figure = papers.figures()["raga/fig4"]
    points = figures.points(figure, archive.read(FIGURES_OF_RAGA), ["scale=quick"], ())
    lenet = {"fedavg", "median", "byrd_saga", "rfa", "mca"}
    assert {panel: set(lines) for panel, lines in points.unlearned.items()} == {
        "mnist lenet, gaussian": lenet, "mnist lenet, lie": lenet,
    }  # fmt: skip
    title = " ".join(figures.draw(figure, points).get_suptitle().split())
    assert f"{caution}: " in title and title.endswith("(MNIST LeNet, Gaussian and MNIST LeNet, LIE)")


def test_a_figure_takes_a_compressed_file_of_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path)
    archive.write(records.load(tmp_path), str(tmp_path / "runs.csv.gz"))
    asked = ("figure", "boba/fig12", "--from", tmp_path / "runs.csv.gz", "--output", tmp_path / "a.png")
    code, _, err = run_cli(capsys, *asked)
    assert code == 3 and "boba/fig12 has no finished run" in err


def test_only_what_is_drawn_is_read(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "metrics", lambda folder: pytest.fail(f"read all of {folder}"))
    read = []
    column = records.column
    monkeypatch.setattr(records, "column", lambda folder, name: read.append((folder, name)) or column(folder, name))
    plots.rounds(records.load(results), shown=plots.ShownRuns(conditions=["attack=ipm"]))
    assert len(set(read)) == len(read) == 4 and {name for _, name in read} == {"test_accuracy"}
    folder = read[0][0]
    assert column(folder, "test_loss").to_dict() == {1: 0.5, 2: 0.5, 3: 0.5, 4: 0.5}
    assert column(folder, "distance") is None
    Path(folder, "metrics.csv").write_text("round,test_loss\n1,0.1\n2\n")
    with pytest.raises(records.Damaged, match=r"metrics\.csv is damaged"):
        column(folder, "test_loss")


def test_steps_that_are_words_have_their_order_on_the_axis() -> None:
    rows = [
        ("v", "", line, x, 1.0, 1.0, 1.0) for line, ticks in (("a", ("10", "inf")), ("b", ("2", "10"))) for x in ticks
    ]
    figure = curves.draw(Curves(pd.DataFrame(rows, columns=list(COLUMNS)), "x", {"v": "y"}))
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["2", "10", "inf"]


# --- figures by name -----------------------------------------------------------------------------------------------


def test_figures_of_all_papers_have_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    known = papers.figures()
    assert {name.split("/")[0] for name in known} == {"arfl", "boba", "brace", "brifca", "mean_labels", "raga"}
    code, out, _ = run_cli(capsys, "figure")
    lines = {line.split()[0]: line for line in out.splitlines()[1:]}
    assert code == 0 and list(lines) == list(known)
    assert "points kept: scale=quick" in lines["raga/fig2"] and "points kept: as published" in lines["boba/fig1"]


def test_whoever_names_a_folder_gets_no_kept_points(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("figure", "raga/fig2", "scale=quick", "--output", str(tmp_path / "fig2.csv"))
    assert run_cli(capsys, *asked)[0] == 0
    make_run(tmp_path)
    code, _, err = run_cli(capsys, *asked, "--results-dir", str(tmp_path))
    assert code == 3 and "raga/fig2 has no finished run; missing: 24 of 24 runs; this makes them: " in err


def test_a_home_folder_is_understood_behind_an_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "mine")
    words = ("export", "--results-dir=~/mine", "--summary=~/runs.csv")
    assert run_cli(capsys, *words)[0] == 0 and (tmp_path / "runs.csv").is_file()
    assert run_cli(capsys, "table", "--from=~/runs.csv")[0] == 0
    assert run_cli(capsys, "report", "--results-dir=~/mine", "--output=~/page.html")[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "page.html", "runs.csv"]


@pytest.mark.parametrize("path", archive.kept_points(), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_kept_points_are_drawn(path: Path) -> None:
    found = figures.shown_by(path)
    assert found is not None and found[0] in papers.figures(), path
    figure = papers.figures()[found[0]]
    shown = figures.points(figure, records.nothing(), sorted(found[1]), [path])
    assert len(shown.table) and shown.table["mean"].notna().all() and not shown.missing
    drawing = figures.draw(figure, shown, Frame("column"))
    assert drawing.get_figwidth() == WIDTHS["column"] and figure.title in drawing.get_suptitle().replace("\n", " ")


def test_a_figure_of_kept_runs_is_drawn_without_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run_cli(capsys, "figure", "brifca/fig1a", "seed=range(2)", "--output", "made.png")
    assert (code, out, err) == (0, "made.png\n", "")


def test_every_figure_of_runs_finds_its_runs(tmp_path: Path) -> None:
    """A finished run for each that a figure asks for, at quick scale, is drawn without a line of missing ones."""
    for name in ("boba/fig11", "boba/fig14", "brace/fig3b"):
        figure = papers.figures()[name]
        asked = list(figures.wanted(figure.preset, *figure.changes, "scale=quick"))
        rows = []
        for number, run in enumerate(asked):
            config = dict(run.settings) | {"seed": run.seed, "state": "finished", "final_accuracy": 0.01 * number}
            rows.append(config | {"folder": f"{number}", "run_id": f"{number}", "run": f"{number}"})
        runs = records.arrange(pd.DataFrame(rows))
        shown = figures.points(figure, runs, ["scale=quick"], [])
        assert len(shown.table) == len(asked) and not shown.missing
        figures.draw(figure, shown)
        part = figures.points(figure, runs.iloc[1:], ["scale=quick"], [])
        (line,) = part.missing
        assert line.startswith(
            f"missing: 1 of {len(asked)} runs; this makes them: robustfl-bench -m +experiment={name}"
        )
        with pytest.raises(records.NoRuns, match=f"missing: {len(asked)} of {len(asked)} runs"):
            figures.points(figure, records.nothing(), ["scale=quick"], [])


@pytest.mark.parametrize(("asked", "drawn"), [("", 10), ("eval_every=5", 10), ("eval_every=1", 1)])
def test_a_figure_has_the_runs_that_were_evaluated_as_often_as_an_override_says(asked: str, drawn: int) -> None:
    """Of one run, with lambda = M, both are kept."""
    own = ["dataset=mnist", "dataset.scaling=unit", "model=mlp", "augmentation=none", "rounds=30", "lr=0.05"]
    figure = replace(papers.figures()["arfl/fig5"], draw="sweep", values=("final_accuracy",))
    runs = archive.read(str(Path(__file__).parents[1] / "results/arfl/ten_clients.csv"))
    shown = figures.points(figure, runs, [*own, *filter(None, [asked])], [])
    assert len(shown.table) == drawn


def test_a_picture_is_written_again_only_where_it_changes(results: Path, tmp_path: Path) -> None:
    runs, path = records.load(results), tmp_path / "a.png"
    fewer = runs[runs["aggregator"] != "boba"]
    save(plots.rounds(runs), path)
    first = path.read_bytes()
    os.utime(path, (0, 0))
    save(plots.rounds(runs), path)
    assert path.stat().st_mtime == 0 and path.read_bytes() == first
    save(plots.rounds(fewer), path)
    assert path.stat().st_mtime > 0 and (other := path.read_bytes()) != first
    path.write_bytes(b"no picture")
    save(plots.rounds(fewer), path)
    assert path.read_bytes() == other
    save(plots.rounds(fewer), path, dpi=SHOWN)
    assert path.stat().st_size < 0.65 * len(other)
    with Image.open(path) as drawn:
        assert drawn.mode == "P" and len(drawn.getcolors() or ()) <= 128


def test_points_that_are_written_are_read_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept, picture = tmp_path / "kept.csv", tmp_path / "fig12.png"
    asked = ("figure", "boba/fig12", "scale=quick", "--output")
    code, out, _ = run_cli(capsys, *asked, kept, "--output", picture)
    assert (code, out) == (0, f"{kept}\n{picture}\n")
    table = pd.read_csv(kept, comment="#")
    assert len(table) == 7 * 5 * 5 and set(table["line"]) == {"trmean", "mkrum", "geomed", "fltrust", "boba"}
    again = tmp_path / "again.csv"
    assert run_cli(capsys, *asked, again, "--from", kept)[0] == 0
    assert again.read_text() == kept.read_text()
    kept.write_text(kept.read_text().replace("boba,1,", "boba,1,x"))
    code, _, err = run_cli(capsys, *asked, again, "--from", kept)
    assert code == 3 and f"{kept} is not what was written: it does not fit its seal" in err
    kept.write_text("".join(line for line in kept.read_text().splitlines(True) if not line.startswith("# seal ")))
    code, _, err = run_cli(capsys, *asked, again, "--from", kept, "--unsealed")
    assert code == 2 and f"{kept} is damaged" in err


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["boba/fig99", "--output", "a.png"], 2, "unknown figure 'boba/fig99'; did you mean boba/fig9"),
        (["boba/fig12"], 2, "boba/fig12 needs --output FILE, such as boba_fig12.png"),
        (["boba/fig12", "--output", "a.gif"], 2, "--output must end in .png, .pdf, .svg, .csv, got 'a.gif'"),
        (["boba/fig12", "--output", "a.png", "--format", "json"], 2, "a figure's format is that of its --output"),
        (["boba/fig12", "scal=quick", "--output", "a.png"], 2, "scal"),
        (["raga/fig3", "--output", "a.png"], 3, "missing: 24 of 24 runs; this makes them: robustfl-bench -m "
                                               "+experiment=raga/fig3"),
        (["boba/fig2", "seed=0", "--output", "a.png"], 3, "this measures it: robustfl-bench probe boba/fig2 seed=0"),
        (["boba/fig1", "--from", "absent.csv", "--output", "a.png"], 2, "cannot read absent.csv"),
    ],
)  # fmt: skip
def test_bad_arguments(capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, told: str) -> None:
    found, out, err = run_cli(capsys, "figure", *arguments)
    assert (found, out) == (code, "") and told in err and len(err.splitlines()) == 1


@pytest.mark.parametrize("words", ["arena silos --plot", "arena silos --heat", "arena silos --best",
                                   "plot accuracy --output", "figure boba/fig12 --output"])  # fmt: skip
def test_a_picture_of_no_format_is_refused_before_runs_are_read(
    words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for reading in ("load", "load_any"):
        monkeypatch.setattr(shared.RunSource, reading, lambda *_, **__: pytest.fail("runs are read"))
    code, _, err = run_cli(capsys, *words.split(), "a.gif")
    assert code == 2 and f"{words.split()[-1]} must end in .png, .pdf, .svg" in err, err


def test_a_description_needs_its_kind(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("figures:\n  one: {title: One}\n")
    with pytest.raises(ConfigError, match="figure one needs draw"):
        papers.read(tmp_path / "mine.yaml")


# --- names ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("mkrum", "Multi-Krum"), ("krum, ipm", "Krum, IPM"), ("mkrum nnm", "Multi-Krum NNM"),
        ("mnist_lenet", "MNIST LeNet"),
        ("attack: lie", "attack: LIE"), ("mnist mlp, num byzantine 4", "MNIST MLP, 4 attackers"),
        ("num_byzantine: 4", "4 attackers"), ("lr: 0.1", "learning rate: 0.1"), ("phi=0.6 / ipm", "phi=0.6 / IPM"),
        ("norm_median", "norm median"), ("believe, cut_krumhorn", "believe, cut krumhorn"),
        ("partition.alpha", "partition.alpha"), ("$x_krum$", "$x_krum$"),
    ],
)  # fmt: skip
def test_a_label_is_what_readers_call_it(label: str, name: str) -> None:
    assert names.readable(label) == name and names.readable(label, {label: "Ours"}) == "Ours"


def test_a_sentence_has_names_but_for_code() -> None:
    words = names.in_words("scale=quick, dataset=mnist, num_byzantine=1, caf 96; `lr=1 krum`; robustfl-bench lr=1 krum")
    assert words == "scale quick, dataset MNIST, 1 attacker, CAF 96; `lr=1 krum`; robustfl-bench lr=1 krum"
    given = "+setting=boba/mnist rounds=1 (lr=0.1)", "phi=0.6 / opt_ipm", "protocol._target_=robustfl_bench.Ring"
    assert [*map(names.in_words, given)] == [
        given[0].replace("lr=0.1", "learning rate 0.1"),
        "phi=0.6 / Opt-IPM",
        given[2],
    ]


def test_axes_begin_with_the_name_of_a_setting() -> None:
    keys = ("aggregator", "aggregator,attack", "partition.alpha", "+method", "n", "time [ms]")
    assert [names.of_axis(key) for key in keys] == ["Rule", "Rule, attack", "Alpha", "Method", "n", "time [ms]"]


def test_an_option_has_one_name_and_names_of_a_group_differ() -> None:
    everywhere = [pair for group in names.named().values() for pair in group.items()]
    assert len(everywhere) > 100 and len(dict(everywhere)) == len(set(everywhere))
    for group, named in names.named().items():
        originals = {(name.lower(), options.original(group, option)) for option, name in named.items()}
        assert len({name for name, _ in originals}) == len(originals), group
        assert {*named} <= {*options.names(group)}


def test_names_can_be_given_in_a_file(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (results / "names.yaml").write_text("boba: Ours\nipm: Inner products\n")
    asked = ("table", "--results-dir", results, "--format", "latex", "--labels", results / "names.yaml", "--bare")
    code, table, _ = run_cli(capsys, *asked, "--labels", "boba=Theirs")
    assert code == 0 and "Theirs & " in table and "& Inner products & " in table and "Ours" not in table
    assert r"\par\footnotesize" not in table and "% bold: " in table
    assert run_cli(capsys, *asked, "--labels", "absent.yaml")[2] == "robustfl-results: --labels: no file absent.yaml\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        *((("--format", form), "--labels is for markdown, html, latex and") for form in ("text", "csv", "json")),
        (("--format", "html", "--labels", "krum="), "--labels krum=: krum needs words, got ''"),
        (("--format", "html", "--labels", "list.yaml"), "--labels list.yaml: krum needs words, got ['a', 'b']"),
        (("--format", "html", "--labels", "none.yaml"), "--labels none.yaml: krum needs words, got None"),
    ],
)
def test_names_that_nothing_shows_are_refused(
    results: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...],
    message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(results)
    Path("list.yaml").write_text("krum: [a, b]\n")
    Path("none.yaml").write_text("krum:\n")
    code, out, err = run_cli(capsys, "table", "--results-dir", results, "--labels", "boba=Ours", *words)
    assert (code, out) == (2, "") and message in err and err.count("\n") == 1


def test_an_axis_shows_a_narrow_band_alone(tmp_path: Path) -> None:
    for accuracy in (0.84, 0.9):
        make_run(tmp_path, accuracy=accuracy, seed=int(100 * accuracy))
    drawn = plots.sweep(records.load(tmp_path), "num_byzantine")
    assert drawn.axes[0].get_ylim() == pytest.approx((83, 91))
    make_run(tmp_path, "average", accuracy=0.1)
    assert plots.sweep(records.load(tmp_path), "num_byzantine").axes[0].get_ylim() == (0, 100)
