"""The arena's tuned rule book: trials, choices, and the runs that they select."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated

import pandas as pd
import pytest

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import SCALE, at_least, scale_of
from robustfl_bench.base.public import modules_of
from robustfl_bench.lab.arena.answers import claims
from robustfl_bench.lab.arena.panels import Arena
from robustfl_bench.lab.arena.track import HONEST, ArenaRun, Track
from robustfl_bench.lab.arena.tuned import SCALES, TunedTrack, TunedTrial
from robustfl_bench.lab.arena.views import VIEWS, books
from robustfl_bench.parts import aggregators
from robustfl_bench.read.pages.pictures.canvas import PLAIN
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.runner.config import compose
from tests.arenas import honest_runs, run, shipped_runs

WHOLE, SHARE = None, "0.1"
Read = tuple[ArenaRun, str | None]


@pytest.fixture(scope="module")
def track() -> TunedTrack:
    return TunedTrack("silos")


def trials(track: TunedTrack, rule: str, accuracy: dict[float, float], options: tuple[str, ...] = ()) -> Iterator[Read]:
    """The trials of a rule at these rates, on iid data with 5 attackers; under ipm, 10 points less."""
    for rate, level in accuracy.items():
        for attack in track.tuning["attack"]:
            for seed in track.seeds:
                name = " ".join([rule, *options])
                yield run(name, attack, level - 0.1 * (attack == "ipm"), seed=seed, lr=rate, options=options), SHARE


def cells(track: TunedTrack, rule: str, rate: float, accuracy: float, options: tuple[str, ...] = ()) -> Iterator[Read]:
    """All cells of a rule on iid data with 5 attackers, at a rate."""
    for attack in track.swept["attack"]:
        for seed in track.swept["seed"]:
            level = accuracy + 0.01 * int(seed)
            yield run(" ".join([rule, *options]), attack, level, seed=seed, lr=rate, options=options), WHOLE


def arena_of(patch: pytest.MonkeyPatch, read: list[Read], book: type[Track] = Track) -> Arena:
    table = shipped_runs().drop_duplicates("aggregator").reset_index(drop=True)
    place = {name: row for row, name in enumerate(table["aggregator"])}
    placed = [(replace(one, row=place.get(one.rule.partition(" ")[0], 0)), share) for one, share in read]
    patch.setattr(Track, "read", lambda self, table, validated_by: placed)
    return Arena(table, "silos", book=book)


def chosen(patch: pytest.MonkeyPatch, track: TunedTrack, read: list[Read]) -> dict[str, TunedTrial]:
    patch.setattr(Track, "read", lambda self, table, validated_by: read)
    return {rule: choice.trial for (rule, *_), choice in track.choices(pd.DataFrame()).items()}


def test_every_rule_has_as_many_trials_and_those_with_a_scale_try_their_default_too(track: TunedTrack) -> None:
    place = ["aggregator=centered_clipping", "partition=iid"]
    plain, scaled = ([compose.sweep([*words, *place]) for words in sweeps]
                     for sweeps in (track.sweeps(), track.sweeps("radius", 0.67)))  # fmt: skip
    assert sum(map(len, plain)) == sum(map(len, scaled))
    radii = [[word for word in cell if word.startswith("aggregator.radius=")] for sweep in scaled for cell in sweep]
    assert {*map(tuple, radii)} == {(), *((f"aggregator.radius={0.67 * each:.2g}",) for each in SCALES)}
    assert len(track.seeds) * len(track.tuning["attack"]) * len(track.rates) * 2 == sum(map(len, plain)), "20 and 40%"
    assert not {*track.seeds} & {*track.swept["seed"]}, "no table shows the seeds of the trials"


def test_a_rule_marks_at_most_one_scale() -> None:
    @dataclass(frozen=True)
    class Two:
        first: Annotated[float, at_least(0), SCALE] = 1.0
        second: Annotated[float, at_least(0), SCALE] = 1.0

    names = [name for name in modules_of("robustfl_bench.aggregators") if not name.startswith("_")]
    scales = {name: scale for name in names if (scale := scale_of(getattr(aggregators, name)))}
    assert scales["CenteredClipping"] == "radius" and "Krum" not in scales
    with pytest.raises(ConfigError, match="Two: at most one option can be a SCALE, got first and second"):
        scale_of(Two)


def test_the_choice_is_the_best_under_the_worst_attack_on_whole_trials(
    monkeypatch: pytest.MonkeyPatch, track: TunedTrack
) -> None:
    level = dict.fromkeys(track.rates, 0.5)
    best = [*trials(track, "a", level | {0.3: 0.7, 2.0: 0.7})]
    misled = [(replace(one, accuracy=0.99 if one.lr == 0.8 and one.attack != "ipm" else one.accuracy), share)
              for one, share in trials(track, "b", level | {0.12: 0.55})]  # fmt: skip
    lacking = [*trials(track, "c", level)][1:]
    older = [(replace(one, accuracy=math.nan), share) for one, share in trials(track, "d", level)]
    impossible = [(replace(one, state="infeasible"), share) for one, share in older if share]
    impossible = [(replace(one, rule="e"), share) for one, share in impossible]
    mixed = [*trials(track, "f", level), *trials(track, "f", level, ("aggregator.even=lower",))]
    found = chosen(monkeypatch, track, [*best, *misled, *lacking, *older, *impossible, *mixed])
    assert found == {"a": TunedTrial(0.3), "b": TunedTrial(0.12), "e": TunedTrial(track.rates[0])}


def test_the_two_books_show_a_rule_at_its_own_rate_and_options(
    monkeypatch: pytest.MonkeyPatch, track: TunedTrack
) -> None:
    level, radius = dict.fromkeys(track.rates, 0.5), ("aggregator.radius=0.2",)
    some = dict.fromkeys(track.rates[:4], 0.5)
    lengths = [("aggregator.radius=0.067",), ("aggregator.radius=0.67",), ()]
    tuned = [*trials(track, "centered_clipping", some | {track.rates[0]: 0.9}, radius)]
    tuned += [each for options in lengths for each in trials(track, "centered_clipping", some, options)]
    tuned += [*cells(track, "centered_clipping", track.rates[0], 0.8, radius)]
    tuned += [*cells(track, "krum", 0.3, 0.4), *trials(track, "krum", level | {0.3: 0.6})]
    tuned += [*cells(track, "geomed", 1.0, 0.6), *trials(track, "geomed", level | {0.3: 0.6})]
    rates = [(run(rule, "none", 0.9 + 0.01 * (rate == 1), seed=seed, lr=rate), SHARE)
             for rule in ("centered_clipping", "krum", "geomed") for rate in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
             for seed in ("0", "1")]  # fmt: skip
    plain = [*cells(track, "centered_clipping", 1.0, 0.2), *cells(track, "krum", 1.0, 0.4)]
    honest = [(one, WHOLE) for one in honest_runs(track, 0.9)]
    arena = arena_of(monkeypatch, [*tuned, *rates, *plain, *honest])
    assert {(one.rule, one.lr) for one in arena.runs if one.rule != HONEST} == {
        ("centered_clipping", 1.0), ("krum", 1.0), ("geomed", 1.0)
    }, "not the runs of the tuned book"  # fmt: skip
    (of,) = books.books(arena)
    assert [rule.rule for rule in of.rules] == ["krum", "centered_clipping"], "geomed has no tuned cells"
    krum, clipping = of.rules
    assert clipping.choice.trial == TunedTrial(track.rates[0], radius) and clipping.choice.accuracy == pytest.approx(
        0.8
    )
    assert clipping.gain == pytest.approx(100 * 0.6 / 0.8) and krum.gain == 0
    assert of.moving == {"centered_clipping"}
    assert books.answer(arena, [of]) == (
        "of 2 scores (rule and panel) tuning, beyond the seeds, raises 1: centered_clipping in iid, 20% attackers (15 "
        "to 90); it lowers 0"
    )
    overview, only = VIEWS["books"].sheets(arena)
    assert [cell.text for cell in overview.rows[0]] == ["iid", "5", "2", "1", "0", "", "krum", "centered_clipping"]
    row = [cell.text for cell in only.rows[1]]
    assert row[0] == "centered_clipping" and row[6:9] == ["1", f"{track.rates[0]:g}", "radius=0.2"]
    assert VIEWS["books"].picture(arena, PLAIN).axes
    assert not track.draws, "the server is tuned, too"
    assert track.command(["krum"], []) == "robustfl-bench arena enter RULE --protocol silos --book tuned"


def test_attackers_who_search_count_at_the_choice_of_each_panel(
    monkeypatch: pytest.MonkeyPatch, track: TunedTrack
) -> None:
    level = dict.fromkeys(track.rates, 0.5)
    read = [*cells(track, "krum", 0.3, 0.8), *trials(track, "krum", level | {0.3: 0.6})]
    read += [*cells(track, "caf", 0.5, 0.7), *trials(track, "caf", level | {0.5: 0.6})]
    read += [(one, WHOLE) for one in honest_runs(track, 0.9)]
    read += [(run("krum", "blindspot", at, seed="0", lr=rate), WHOLE) for rate, at in ((0.3, 0.2), (1.0, 0.1))]
    arena = arena_of(monkeypatch, read, TunedTrack)
    placed = arena.track.read(arena.table, "")
    monkeypatch.setattr(Track, "read", lambda self, table, validated_by:
                        [each for each in placed if each[0].attack in (*self.attacks, HONEST)])  # fmt: skip
    panel = arena.panels[5, "iid"]
    krum, caf = panel.standings["krum"], panel.standings["caf"]
    assert (krum.worst, krum.attack, krum.beyond) == (pytest.approx(20), "blindspot", {"blindspot": pytest.approx(20)})
    assert caf.worst > 70 and not caf.beyond and panel.unmet == {"caf"}, "it did not meet the attack"
    assert arena.track.chosen(arena.table, "krum", "iid", 5) == ["lr=0.3"]
    assert Track("silos").chosen(arena.table, "krum", "iid", 5) == []


def test_trials_do_not_hide_the_runs_under_the_attacks_of_papers(
    monkeypatch: pytest.MonkeyPatch, track: TunedTrack
) -> None:
    """Both have ipm, and only the trials are at rates that no validation without attack chose."""
    made = [(run("average", attack, level + 0.01 * seed, "fang", str(seed)), WHOLE)
            for attack, level in (("none", 0.9), ("gauss", 0.3), ("sign_flip", 0.3)) for seed in range(3)]  # fmt: skip
    made += [(run("average", "none", 0.9 + 0.01 * (rate == 0.1), "fang", seed, lr=rate), SHARE)
             for rate in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0) for seed in ("0", "1")]  # fmt: skip
    tried = [(replace(one, partition="fang"), share)
             for one, share in trials(track, "average", dict.fromkeys(track.rates[1:], 0.5))]  # fmt: skip
    pages = claims.sheets([arena_of(monkeypatch, [*made, *tried])])
    judged = {row[0].text: row[2].text for sheet in pages for row in sheet.rows if len(row) > 2}
    assert judged["fedavg_fails"] == "holds"


def test_a_track_without_trials_has_no_tuned_book(monkeypatch: pytest.MonkeyPatch, track: TunedTrack) -> None:
    with pytest.raises(ConfigError, match="no experiment arena/digits_trials"):
        TunedTrack("digits")
    arena = arena_of(monkeypatch, [*cells(track, "krum", 1.0, 0.4)])
    with pytest.raises(NoRuns, match="robustfl-bench arena enter RULE --protocol silos --book tuned"):
        VIEWS["books"].sheets(arena)
