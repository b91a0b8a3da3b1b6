"""Parts as Python objects make the runs that words make; data come as arrays; results show themselves."""

import shlex
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import robustfl_bench as rb
from robustfl_bench.base.abilities import Part
from robustfl_bench.doors.api import objects
from robustfl_bench.parts.aggregators import Krum
from robustfl_bench.runner.config import compose, identity, options
from robustfl_bench.runner.config.request import made
from robustfl_bench.train.parts import FOLLOWING, GROUPS
from tests.conftest import Bench

SMALL: dict[str, Any] = {"rounds": 2, "model.hidden": [8], "num_clients": 8, "num_byzantine": 2}
SWEPT = SMALL | {"model.hidden": [[8]]}
WORDS = ("rounds=2", "model.hidden=[8]", "num_clients=8", "num_byzantine=2")


@dataclass(frozen=True)
class Stretched(rb.Aggregator):
    """The mean, times a factor."""

    stretch: float = 1.0
    device: object = torch.device("cpu")  # no config can hold it

    def aggregate(self, updates: rb.Updates, server: rb.ServerView) -> rb.Aggregate:
        return updates.combine(torch.full_like(updates.counts, self.stretch / updates.n))


class Unwritten(rb.Aggregator):
    """A rule whose options cannot be known."""

    def __init__(self, stretch: float) -> None:
        self.stretch = stretch

    def aggregate(self, updates: rb.Updates, server: rb.ServerView) -> rb.Aggregate:
        return updates.combine(updates.counts / updates.counts.sum())


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


OPTIONS = [(group, name) for group in GROUPS if group not in FOLLOWING for name in options.names(group)]


def test_every_part_of_every_option_is_written_as_words_that_make_it_again() -> None:
    seen = 0
    for group, name in OPTIONS:
        try:
            resolved = compose.resolve([f"{group}={name}", "num_byzantine_declared=3"])
            content = identity.defining(resolved.config)[group]
            part = made(group, content)
        except (rb.ConfigError, rb.DataError):  # of another data set, or of the user's own
            continue
        if isinstance(part, Part):
            again = compose.resolve(objects.overrides({group: part}))
            assert identity.canonical(identity.defining(again.config)[group]) == identity.canonical(content), name
            seen += 1
    assert seen > 150


def test_a_run_of_objects_is_the_run_of_the_words_and_says_them(bench: Bench) -> None:
    first = rb.run(aggregator=Krum(2), attack="ipm", pre_aggregation=[rb.Nnm(2), "clipping"], **SMALL)
    words = ("aggregator=krum", "attack=ipm", "pre_aggregation=[nnm,clipping]", *WORDS)
    assert rb.run(*words).path == first.path
    assert bench(*shlex.split(first.summary["command"])[1:]).out.startswith("stored result")
    assert (
        rb.run("aggregator=krum", aggregator=Krum(2), attack="ipm", pre_aggregation=["nnm", "clipping"], **SMALL).path
        == first.path
    )
    assert rb.run(aggregator=Krum(2, num_selected=3), attack="ipm", **SMALL).path != first.path


def test_the_option_that_a_part_is_nearest_to_names_it() -> None:
    assert objects.overrides({"aggregator": Krum(2)}) == ["aggregator=krum", "aggregator.num_byzantine=2"]
    many = objects.overrides({"aggregator": Krum(2, num_selected=None)})
    assert many == ["aggregator=mkrum", "aggregator.num_byzantine=2"]
    assert objects.overrides({"aggregator": rb.CooMed()}) == ["aggregator=coomed"]
    nested = objects.overrides({"attack": rb.Scheduled(attack=rb.SignFlip())})
    assert compose.resolve(nested).config["attack"]["attack"]["_target_"] == "robustfl_bench.attacks.SignFlip"
    assert objects.overrides({"lr": np.float32(0.5), "data_dir": Path("a b"), "batch_size": None, "seed": 3}) == [
        "lr=0.5", "data_dir=a b", "batch_size=null", "seed=3",
    ]  # fmt: skip


def test_a_rule_of_ones_own_is_an_object_or_its_class() -> None:
    module = Stretched.__module__
    assert objects.overrides({"aggregator": Stretched(2.0)}) == [
        f"aggregator={module}:Stretched",
        "aggregator.stretch=2.0",
    ]
    runs = rb.sweep(aggregator=[Stretched(0.5), Stretched, "average"], attack=["none"], seed=range(2), **SWEPT)
    assert list(runs["aggregator"]) == ["stretched"] * 4 + ["average"] * 2
    numbers = runs["final_accuracy"].to_numpy()
    assert (numbers[2:4] == numbers[4:]).all() and (runs["state"] == "finished").all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"aggregator": Unwritten(1.0)}, "Unwritten must be a dataclass"),
        ({"aggregator": 3}, "aggregator takes the name of an option, a part or its class, got 3"),
        ({"aggregator": Stretched(1.0, device=torch.device("meta"))}, "Stretched.device is a device; a config holds"),
        ({"lr": object()}, "lr is a object; a config holds numbers"),
        ({"attack": Krum(2)}, "attack must be a subclass of robustfl_bench.interfaces.Attack"),
        ({"aggregatr": "krum"}, "no setting 'aggregatr' (did you mean aggregator"),
    ],
)
def test_what_cannot_be_written_is_refused_in_a_line(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(rb.ConfigError) as caught:
        rb.run(**settings, **SMALL)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(rb.ConfigError):
        rb.sweep(**{**settings, **SWEPT})
    assert not Path("results").exists()


def test_a_local_class_is_refused() -> None:
    class Local(Stretched):
        pass

    with pytest.raises(rb.ConfigError, match="must be defined at the top level of a module, or in a cell"):
        rb.run(aggregator=Local())


def test_a_sweep_is_a_table_of_its_runs_and_is_not_made_twice(capfd: pytest.CaptureFixture[str]) -> None:
    asked: dict[str, Any] = {
        "aggregator": ["krum", rb.Average()],
        "attack": ["none", "ipm"],
        **SMALL,
        "model.hidden": [[8]],
    }
    runs = rb.sweep(**asked)
    printed = capfd.readouterr()
    assert printed.out == ""
    assert list(zip(runs["aggregator"], runs["attack"], strict=True)) == [
        ("krum", "none"), ("krum", "ipm"), ("average", "none"), ("average", "ipm"),
    ]  # fmt: skip
    times = {path: path.stat().st_mtime_ns for path in Path("results").rglob("summary.json")}
    again = rb.sweep("attack=none,ipm", **{name: value for name, value in asked.items() if name != "attack"})
    pd.testing.assert_frame_equal(*(table.sort_values("run", ignore_index=True) for table in (again, runs)))
    assert {path: path.stat().st_mtime_ns for path in times} == times
    rb.run("rounds=1", **{key: value for key, value in SMALL.items() if key != "rounds"})
    assert len(rb.sweep(**asked)) == 4, "only the runs of the sweep, whatever else is in the folder"


def test_a_sweep_shows_what_cannot_work_and_warns_of_failures() -> None:
    runs = rb.sweep(aggregator=[Krum(4), "average"], **SWEPT)
    assert list(runs["state"]) == ["infeasible", "finished"] and "n > 2f + 2" in runs["error"][0]
    with pytest.warns(UserWarning, match="1 of 1 runs failed: .*partition.csv"):
        runs = rb.sweep(partition="from_file", **SWEPT)
    assert list(runs["state"]) == ["failed"]


def test_processes_share_a_sweep_but_know_no_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = rb.sweep(seed=range(3), n_jobs=2, **SWEPT)
    assert list(runs["state"]) == ["finished"] * 3
    monkeypatch.setattr(sys.modules["__main__"], "MyRule", Stretched, raising=False)
    with pytest.raises(rb.ConfigError, match="put it in a module, or n_jobs=1"):
        rb.sweep("aggregator=__main__:MyRule", n_jobs=2)


def test_a_result_shows_itself() -> None:
    import matplotlib.pyplot as plt

    result = rb.run(aggregator=Krum(2), attack="ipm", **SMALL)
    assert result.accuracy == result.summary["final"]["test_accuracy"]
    assert repr(result).startswith(f"<Result {result.path.name}: accuracy ") and len(repr(result)) < 160
    page = result._repr_html_()
    assert page.count("<svg") == 1 and "robustfl-bench aggregator=krum" in page and f"{result.accuracy:.2%}" in page
    axis = plt.figure().subplots()
    assert result.plot(axis, label="mine") is axis
    (line,) = axis.get_lines()
    assert list(line.get_ydata()) == pytest.approx(list(100 * result.metrics["test_accuracy"]))
    assert line.get_label() == "mine" and axis.get_ylabel() == "Test accuracy [%]"
    with pytest.raises(rb.ConfigError, match="has no loss; it has round, "):
        result.plot(axis, "loss")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        diverged = rb.run(lr=1e30, **SMALL)
    assert np.isnan(diverged.accuracy) and "<svg" not in diverged._repr_html_() and "diverged" in repr(diverged)
    plt.close("all")


def test_pictures_are_drawn_on_given_axes() -> None:
    import matplotlib.pyplot as plt

    runs = rb.sweep(aggregator=["krum", "average"], attack=["none", "ipm"], seed=range(2), **SWEPT)
    figure, axes = plt.subplots(1, 3)
    assert rb.plot.accuracy(runs, axes[0], where="attack=ipm", band="sd") is axes[0]
    chosen = runs[(runs["attack"] == "ipm") & (runs["aggregator"] == "krum")]
    last = next(line for line in axes[0].get_lines() if line.get_label() == "krum").get_ydata()[-1]
    assert last == pytest.approx(100 * chosen["final_accuracy"].mean())
    assert len(rb.plot.accuracy(runs).get_lines()) == 4, "a line for each rule and attack"
    rb.plot.heat(runs, axes[1])
    shown = axes[1].get_images()[0].get_array()
    assert shown.shape == (2, 2) and float(shown.max()) == pytest.approx(
        100 * runs.groupby(["aggregator", "attack"])["final_accuracy"].mean().max()
    )
    rb.plot.recall(runs, axes[2], where=["attack=ipm"])
    assert axes[2].get_images()[0].get_array().shape == (2, 10)
    with pytest.raises(rb.ConfigError, match="attack"):
        rb.plot.accuracy(runs, axes[0], lines="aggregator")
    with pytest.raises(rb.ConfigError, match="band must be one of minmax, sd, se"):
        rb.plot.accuracy(runs, band="all")
    draws: list[Any] = [rb.plot.accuracy, rb.plot.heat, rb.plot.recall]
    for draw in draws:
        with pytest.raises(rb.ConfigError, match="this draws a table of runs, got a tuple"):
            draw(("no", "table"))
    assert figure.axes[:3] == list(axes)
    plt.close("all")


def test_the_parts_of_the_package_have_names_at_the_top() -> None:
    assert rb.Krum is Krum and "Krum" in dir(rb) and "Rsa" not in dir(rb)
    matrix = np.random.default_rng(0).normal(size=(9, 5))
    assert np.array_equal(rb.Krum(2)(matrix), Krum(2)(matrix))
    with pytest.raises(AttributeError, match=r"several parts: import it from robustfl_bench.aggregators or robustfl"):
        _ = rb.Rsa
    with pytest.raises(AttributeError, match="no attribute 'NoSuchRule'"):
        _ = rb.NoSuchRule


def test_a_class_defined_again_has_its_new_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    (name,) = objects.overrides({"aggregator": Stretched})
    before = compose.resolve([name]).config["aggregator"]

    @dataclass(frozen=True)
    class Again(Stretched):
        power: int = 2

    monkeypatch.setitem(globals(), "Stretched", Again)
    after = compose.resolve([name]).config["aggregator"]
    assert "power" not in before and after["power"] == 2
