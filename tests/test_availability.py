"""Clients that drop out and stragglers: who they are, what they do, and what a round with few updates does."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from robustfl_bench.base import seeding
from robustfl_bench.base.errors import BrokenContract, ConfigError
from robustfl_bench.interfaces import Availability
from robustfl_bench.numerics.network.samples import Population, Samples
from robustfl_bench.parts.availability.unreliable import Unreliable
from robustfl_bench.parts.local_updates.compressed import Compressed
from robustfl_bench.parts.local_updates.fedavg import FedAvg
from robustfl_bench.parts.local_updates.local_sgd import LocalSgd
from robustfl_bench.parts.local_updates.momentum import Momentum
from robustfl_bench.parts.protocols.state import State
from robustfl_bench.runner.config import compose
from robustfl_bench.runner.experiment.plan import InfeasibleError, plan
from robustfl_bench.train.federation import Federation
from robustfl_bench.train.loop import run
from robustfl_bench.train.metrics import METRICS
from robustfl_bench.train.rounds import initial_state
from tests import presets
from tests.conftest import Bench, contents, run_folders

FEW = ("rounds=5", "num_clients=10", "num_byzantine=3", "batch_size=32")
SMALL = (*FEW, "model.hidden=[8]")
DROPPING = ("availability=unreliable", "availability.dropout=0.4")


def federation(*overrides: str, base: tuple[str, ...] = SMALL, **parts: Any) -> Federation:
    return presets.federation(*base, *overrides, **parts)


def records(f: Federation, start: State | None = None) -> tuple[list[dict[str, float]], list[State]]:
    """The records of all rounds from ``start`` on, and the states after them."""
    states, rows = zip(*run(f, start or initial_state(f), metrics=METRICS), strict=True)
    assert all(row is not None for row in rows)
    return list(rows), list(states)


def arriving(f: Federation, round: int) -> set[int]:
    """The numbers of the honest clients whose updates arrive."""
    return set(f.clients.honest_ids[f.cohorts.present(round).honest].tolist())


# --- who drops out ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("placement", ["add", "replace"])
def test_honest_clients_drop_out_as_often_as_asked_and_attackers_never(placement: str) -> None:
    f = federation(*DROPPING, "attack=ipm", f"byzantine_placement={placement}")
    honest, rounds = len(f.clients.honest_ids), 600
    cohorts = [f.cohorts.present(number) for number in range(rounds)]
    arrived = np.array([np.isin(range(honest), cohort.honest) for cohort in cohorts])
    spread = math.sqrt(0.4 * 0.6 / rounds)
    assert np.abs(arrived.mean(axis=0) - 0.6).max() < 4 * spread  # every client alike
    assert abs(arrived.mean() - 0.6) < 4 * spread / math.sqrt(honest)
    assert np.abs(np.corrcoef(arrived.T) - np.eye(honest)).max() < 0.2  # and each by itself
    after = arrived[1:][~arrived[:-1]].mean()  # neither does a round depend on the one before
    assert abs(after - 0.6) < 0.05
    assert all(len(cohort.byzantine) == 3 for cohort in cohorts if cohort.honest)


def test_attackers_drop_out_too_when_asked() -> None:
    f = federation(*DROPPING, "attack=ipm", "availability.byzantine=true")
    share = np.mean([len(f.cohorts.present(number).byzantine) / 3 for number in range(400)])
    assert abs(share - 0.6) < 0.05


@pytest.mark.parametrize("placement", ["add", "replace"])
def test_who_drops_out_depends_on_no_attack_no_rule_and_no_straggler(placement: str) -> None:
    shared = (*DROPPING, f"byzantine_placement={placement}", "participation=0.8", "local_update=fedavg")
    clean = federation(*shared, "attack=none", "num_byzantine=0")
    full = federation(*shared, "attack=none", "num_byzantine=0", "participation=1")
    for other in (("attack=ipm", "aggregator=coomed"), ("attack=lie", "num_byzantine=2"),
                  ("attack=ipm", "availability.stragglers=0.9")):  # fmt: skip
        f, everybody = federation(*shared, *other), federation(*shared, *other, "participation=1")
        for number in range(30):
            honest = set(everybody.clients.honest_ids.tolist())
            assert arriving(everybody, number) == arriving(full, number) & honest
            assert arriving(f, number) <= arriving(everybody, number)
            if placement == "replace":
                assert arriving(f, number) == arriving(clean, number) & honest


def test_without_dropout_and_stragglers_nothing_changes() -> None:
    shared = ("attack=ipm", "aggregator=coomed", "local_update=local_sgd", "protocol=star")
    plain, _ = records(federation(*shared))
    same, _ = records(federation(*shared, "availability=unreliable", "availability.dropout=0"))
    for before, after in zip(plain, same, strict=True):
        assert before == {name: after[name] for name in before}
        assert (after["clients"], after["skipped"]) == (13, 0)


def test_the_default_is_no_part_of_the_identity() -> None:
    asked = compose.resolve(["attack=ipm"])
    assert "availability" not in asked.identity
    assert compose.resolve([*DROPPING, "attack=ipm"]).run_id != asked.run_id


# --- stragglers ------------------------------------------------------------------------------------------------------


def test_a_straggler_makes_a_uniform_number_of_passes() -> None:
    f = federation("availability=unreliable", "availability.dropout=0", "availability.stragglers=0.5",
                   "local_update=fedavg", "local_update.epochs=4", "attack=none")  # fmt: skip
    passes = []
    for number in range(400):
        work = f.cohorts.work(number)
        everyone = list(range(10))
        drawn = Samples(f.honest, everyone, everyone, 0, "batches", number, work=work)
        passes += [drawn.repeats(client, 4) for client in everyone]
    shares = np.bincount(passes, minlength=5) / len(passes)
    np.testing.assert_allclose(shares, [0, 1 / 8, 1 / 8, 1 / 8, 5 / 8], atol=0.03)


@pytest.mark.parametrize(
    ("make", "batch_size"),
    [
        (lambda number: FedAvg(epochs=number), 4),
        (lambda number: LocalSgd(steps=number), 4),
        (lambda number: LocalSgd(steps=None, epochs=number, upload="difference"), None),
    ],
    ids=["fedavg", "steps", "passes"],
)
def test_a_straggler_sends_what_a_client_with_less_work_sends(make: Any, batch_size: int | None) -> None:
    f = federation("attack=none")
    population = Population(f.honest.x, f.honest.y, [np.arange(0, 9), np.arange(9, 23), np.arange(23, 40)])
    drawn = Samples(population, [0, 2], [0, 2], 0, "batches", 1, batch_size)
    work = np.array([1.0, 0.1, 0.45])  # of 4: all, one (not asked here), two
    sent = f.storage.rows(2)
    make(4)(f.network, f.network.initial, replace(drawn, work=work), 0.1, sent)
    for row, (client, number) in zip(sent, [(0, 4), (2, 2)], strict=True):
        alone = f.storage.rows(1)
        make(number)(f.network, f.network.initial, replace(drawn, clients=[client], ids=[client]), 0.1, alone)
        torch.testing.assert_close(row, alone[0], rtol=1e-5, atol=1e-6)
    assert make(4).repeats == Momentum(make(4)).repeats == Compressed(make(4)).repeats == 4


def test_attackers_who_train_do_all_of_their_work() -> None:
    f = federation("availability=unreliable", "availability.stragglers=1", "local_update=fedavg", "attack=label_flip",
                   "byzantine_placement=replace")  # fmt: skip
    for number in range(20):
        work = f.cohorts.work(number)
        assert (
            work is not None and (work[f.clients.byzantine_ids] == 1).all() and (work[f.clients.honest_ids] < 1).all()
        )


# --- rounds with few updates -----------------------------------------------------------------------------------------


def test_what_is_counted_is_what_arrives() -> None:
    f = federation(*DROPPING, "attack=ipm", "aggregator=coomed", "protocol=star", "rounds=30", "eval_every=4")
    states, rows = zip(*run(f, initial_state(f), metrics=METRICS), strict=True)
    arrived = [len(f.cohorts.present(number)) for number in range(30)]
    assert len(set(arrived)) > 3
    for state, row in zip(states, rows, strict=True):
        if row is not None:
            assert row["clients"] == arrived[state.round - 1]
            assert row["bits_per_client"] == 32 * f.network.dim
            assert row["bits_total"] == 32 * f.network.dim * sum(arrived[: state.round])


@pytest.mark.parametrize(
    ("aggregator", "least"),
    [
        (("aggregator=krum",), 9),  # n > 2 f + 2 with f = 3
        (("aggregator=trmean", "aggregator.num_byzantine=1", "pre_aggregation=bucketing"), 5),  # more than 2 f pairs
        (("aggregator=average", "pre_aggregation=nnm"), 4),
        (("aggregator=coomed",), 4),  # no honest update: not even the attackers are aggregated
    ],
)
def test_a_round_with_too_few_updates_leaves_the_model_as_it_is(aggregator: tuple[str, ...], least: int) -> None:
    f = federation("availability=unreliable", "availability.dropout=0.75", "attack=ipm", *aggregator, "rounds=40")
    rows, states = records(f)
    before = initial_state(f)
    for row, state in zip(rows, states, strict=True):
        arrived = len(f.cohorts.present(row["round"] - 1))
        assert (row["clients"], row["skipped"]) == (arrived, int(arrived < least))
        assert torch.equal(state.params, before.params) == (arrived < least)
        if arrived < least:
            assert math.isnan(row["byzantine_weight"]) and state.weights is None
        before = state
    assert {row["skipped"] for row in rows} == {0, 1}
    assert len({tuple(row) for row in rows}) == 1  # every row has the same columns
    assert math.isnan(rows[0]["train_loss"]) == (rows[0]["clients"] == 0)


def test_a_planned_number_that_a_rule_refuses_is_still_an_error() -> None:
    with pytest.raises(InfeasibleError, match=r"needs n > 2f \+ 2"):
        plan(compose.resolve([*SMALL, *DROPPING, "attack=ipm", "aggregator=krum", "num_byzantine=9"]).config)


def test_clusters_are_trained_by_those_who_are_there() -> None:
    clustered = ("dataset=linear_mixture", "model=linear_regression", "partition=natural", "clustering=ifca",
                 "dataset.num_clients=10", "dataset.points=20", "dataset.dim=5", "aggregator=coomed",
                 "byzantine_placement=replace", "attack=brifca_outlier", "num_byzantine=1")  # fmt: skip
    f = federation(*clustered, "availability=unreliable", "availability.dropout=0.85", "rounds=20", base=FEW)
    rows, states = records(f)
    assert {row["clients"] for row in rows} >= {0, 2} and {row["skipped"] for row in rows} == {0, 1}
    for row in rows:
        assert math.isnan(row["cluster_recovery"]) == (row["clients"] == 0)
        assert row["skipped"] == int(row["untrained_clusters"] == 5) and (row["clients"] or row["skipped"])
    assert states[-1].params.isfinite().all()


def test_a_run_goes_on_from_any_round_as_if_nothing_had_happened() -> None:
    asked = (*DROPPING, "availability.stragglers=0.5", "local_update=fedavg", "attack=ipm", "aggregator=foolsgold",
             "protocol=star")  # fmt: skip
    whole, states = records(federation(*asked))
    rest, _ = records(federation(*asked), State.restored(states[2].stored(), torch.device("cpu")))
    assert rest == whole[3:]


# --- the command -----------------------------------------------------------------------------------------------------


def test_weights_of_absent_clients_are_nan_and_the_bytes_are_the_same_again(bench: Bench, tmp_path: Path) -> None:
    asked = (*SMALL, *DROPPING, "availability.stragglers=0.3", "local_update=fedavg", "attack=ipm", "aggregator=krum")
    for name in ("one", "two"):
        outcome = bench(*asked, f"results_dir={name}")
        assert outcome.code == 0, outcome.err
    assert contents(tmp_path / "one", "metrics.csv", "weights.csv") == contents(
        tmp_path / "two", "metrics.csv", "weights.csv"
    )
    (folder,) = run_folders(tmp_path / "one").values()
    metrics, weights = (pd.read_csv(folder / name).set_index("round") for name in ("metrics.csv", "weights.csv"))
    assert list(weights.index) == list(metrics.index[metrics["skipped"] == 0])
    present = weights.notna().sum(axis=1)
    assert (present == metrics.loc[weights.index, "clients"]).all() and present.min() < 13
    assert weights.filter(like="byzantine").notna().all(axis=None)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["availability.dropout=1"], "dropout must be < 1, got 1"),
        (["availability.dropout=1.5"], "dropout must be in [0, 1], got 1.5"),
        (["availability.byzantine=3"], "availability.byzantine must be true or false, got 3"),
        (["availability.stragglers=0.5"], "stragglers make fewer local steps, but local_update FedSgd has one"),
        (["availability.stragglers=1", "local_update=broadcast"], "but local_update Compressed has one in a round"),
        (["protocol=star", "local_update=broadcast"], "protocol=star counts the bits of whole updates"),
        (["participation=0.4", "participation_by=kind", "attack=ipm", "num_byzantine=1"], "of 1 attackers rounds"),
        (["protocol=ring", "aggregator=rar"], "on a ring a client that drops out stops the round"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(bench: Bench, overrides: list[str], message: str) -> None:
    outcome = bench("availability=unreliable", *overrides)
    assert outcome.code == 2 and message in outcome.err and outcome.err.count("\n") == 1


class Odd(Availability):
    """Returns no shares."""

    def __call__(self, num_clients: int, rng: np.random.Generator) -> np.ndarray:
        return np.full(num_clients, 2.0)


def test_shares_outside_their_range_name_the_part() -> None:
    f = federation(availability=Odd())
    with pytest.raises(BrokenContract, match=r"availability Odd must return an array \(10,\) of shares in \[0, 1\]"):
        f.cohorts.present(0)


def test_direct_use_gives_shares() -> None:
    shares = Unreliable(0.3, 0.5)(10_000, seeding.generator(0, "availability", 0))
    assert abs((shares == 0).mean() - 0.3) < 0.02 and abs((shares == 1).mean() - 0.35) < 0.02
    between = shares[(shares > 0) & (shares < 1)]
    assert abs(between.mean() - 0.5) < 0.02
    with pytest.raises(ConfigError, match="stragglers must be in"):
        Unreliable(stragglers=-0.1)


@pytest.mark.parametrize("local_update", ["saga", "broadcast"])
def test_gradients_that_are_remembered_are_those_of_samples_as_they_are(local_update: str) -> None:
    words = [f"local_update={local_update}", "dataset=mnist", "augmentation=shift_flip"]
    with pytest.raises(InfeasibleError, match="Saga remembers the gradients of samples as they are: set augmentation="):
        plan(compose.resolve(words).config)
