"""What the papers' theory assumes, measured: fits of BOBA's subspace, BRACE's votes, BRIFCA's rates."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from robustfl_bench.commands import bench
from robustfl_bench.commands.lab import probe as command
from robustfl_bench.lab.studies import probe
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.aggregators.base import ServerAlone
from robustfl_bench.parts.aggregators.boba import Boba
from robustfl_bench.parts.aggregators.brace import Brace
from robustfl_bench.read.tables.described import figures

assert bench  # registers the typed settings with hydra


def probed(name: str, *overrides: str) -> list[probe.Point]:
    figure = figures()[name]
    return list(probe.KINDS[figure.draw](probe.runs(figure.preset, (*figure.changes, *overrides))))


@pytest.mark.parametrize(
    ("heights", "most", "fits"),
    [
        ((0.1, -0.1, 9.0, 0.1), 10, 1),  # the server's line already has the three nearest
        ((0.0, 3.0, 4.0, 3.5), 10, 2),  # the second client is farthest from the fit to the first, second and fourth
        ((0.0, 3.0, 4.0, 3.5), 1, 1),
    ],
)
def test_fits_of_four_clients_beside_a_line(heights: Sequence[float], most: int, fits: int) -> None:
    """Two classes on the x-axis, four clients above it, three of which are kept: the line is one-dimensional."""
    rule = Boba(num_byzantine=1, max_iter=most)
    clients = torch.tensor([(float(x), y) for x, y in zip((0, 1, 2, 3), heights, strict=True)])
    server = ServerAlone(rule, str, class_updates=torch.tensor([(0.0, 0.0), (1.0, 0.0)]))
    assert probe.num_fits(rule, Updates(clients), server) == fits
    assert probe.num_fits(replace(rule, fit="server"), Updates(clients), server) == 0


def test_shares_of_the_votes_of_three_honest_clients_and_an_attacker() -> None:
    columns = [  # of the honest ones, then of the attacker; above the threshold, as the honest mean, settled
        (1, 1, 1, -1),  # yes, yes, yes
        (1, 1, -1, -1),  # no, no, no: the attacker decides
        (-1, -1, -1, 1),  # no, yes, yes
        (1, 1, -5, 1),  # yes, no, no: the mean has another sign than most
        (0, 0, 0, 1),  # no, no, yes: one vote is not more than the threshold
        (-1, -1, -1, -1),  # no, yes, yes
    ]
    updates, honest = Updates(torch.tensor(columns).T.float()), torch.tensor([True, True, True, False])
    shares = probe.vote_shares(Brace(threshold=1), updates, honest)
    assert list(shares.values()) == pytest.approx([2 / 6, 3 / 6, 4 / 6])


def test_votes_by_round_and_attack() -> None:
    small = ("dataset=digits", "model=mlp", "model.hidden=[8]", "rounds=3", "+threat=brace/none,brace/adaptive")
    found = probed("brace/votes", *small, "num_clients=20", "batch_size=8")
    assert [point["x"] for point in found] == [1, 1, 1, 2, 2, 2] * 2
    settled = {point["line"]: point["mean"] for point in found if point["panel"] == "settled by honest votes"}
    assert settled["none"] == 1 > settled["adaptive"] > 0.5


def test_an_exhaustive_search_takes_longer() -> None:
    small = ("scale=quick", "dataset=digits", "model=mlp", "model.hidden=[8]", "rounds=3", "attack=none")
    found = probed("boba/search", *small, "server_data.samples_per_class=5", "num_clients=14")
    lines = ("BOBA, none", "BOBA-ES, none")
    seconds = [[point["mean"] for point in found if point["line"] == line] for line in lines]
    assert [len(own) for own in seconds] == [3, 3]
    assert min(seconds[1]) > 3 * min(seconds[0]) > 0  # it fits 120 subspaces


def test_the_slope_of_a_power() -> None:
    places = (25.0, 100.0, 1600.0)
    assert probe.slope_of({x: 3 * x**-0.5 for x in places}) == pytest.approx(-0.5)


def test_more_points_bring_the_error_of_brifca_down_as_their_root(capsys: pytest.CaptureFixture[str]) -> None:
    small = ("num_clients=50", "lr=0.05", "rounds=60", "aggregator=coomed")
    found = probed("brifca/error_points", "dataset.points=25,400", "seed=range(3)", *small)
    (line,) = {point["line"] for point in found}
    (low, high) = (point["mean"] for point in found)
    slope = float(line.split()[1])
    assert slope == pytest.approx(np.log(high / low) / np.log(16), abs=0.1) == pytest.approx(-0.5, abs=0.15)
    assert all(point["low"] < point["mean"] < point["high"] for point in found)
    assert command.main(["brifca/error_points", "dataset.points=25", "seed=0", *small]) == 2
    assert "varies the seed, the aggregator and one other setting, got nothing" in capsys.readouterr().err
    assert command.main(["brace/votes", "+method=brace/krum", "dataset=digits", "model=mlp", "+threat=brace/none"]) == 2
    assert "this figure is of aggregator=brace, got Krum" in capsys.readouterr().err
