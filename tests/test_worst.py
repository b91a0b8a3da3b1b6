"""The strongest adversary: what it asks, what it sends, and what is recorded of it."""

import csv
import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from robustfl_bench.doors.testing import example_view
from robustfl_bench.interfaces import AttackView, ConfigError, Crafted
from robustfl_bench.numerics.network.samples import Population
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.attacks import candidates
from robustfl_bench.parts.attacks.candidates import ENTRIES, Entry, Scene
from robustfl_bench.parts.attacks.harm import HARMS, Harm, harms
from robustfl_bench.parts.attacks.held import Held
from robustfl_bench.parts.attacks.tailored import Tailored
from robustfl_bench.parts.attacks.worst import NOTHING, Worst
from robustfl_bench.runner.config import compose
from robustfl_bench.train import rounds
from robustfl_bench.train.foresight import Foresight
from tests import presets

QUESTIONS = sum(len(entry.strengths) for entry in ENTRIES)
SMALL = ["dataset=digits", "byzantine_placement=replace", "rounds=2", "attack=worst"]
DIGITS = ["partition=dirichlet", "partition.alpha=0.5", "model.hidden=[8]"]


def judged(view: AttackView, target: Tensor) -> AttackView:
    """The view with a loss that is the squared distance of the model from ``target``."""
    return replace(view, assess=lambda params: ((params - target).double().square().sum(dim=1), None))


federation = partial(presets.federation, *SMALL)


def records(*overrides: str) -> list[dict[str, float]]:
    return presets.trained(federation(*overrides))[1]


@pytest.mark.parametrize("kind", HARMS)
def test_what_is_sent_does_at_least_the_harm_of_every_entry_at_every_strength(kind: str) -> None:
    view = judged(example_view(), torch.full((23,), 0.3))
    calm = view.aggregate(view.mean).vector

    def done(rows: Tensor) -> float:
        return harms(view, kind, [view.aggregate(rows).vector], calm)[0][0]

    crafted = Worst(kind).craft(view)
    scene = Scene(view)
    scene.__dict__["noise"] = Scene(example_view()).noise  # the first draw of the stream, as in the attack
    each = [done(entry.rows(scene, strength)) for entry in ENTRIES for strength in entry.strengths]
    assert done(crafted.rows) == crafted.notes["harm"] >= max(each) > min(each)


def test_the_rule_is_asked_about_every_candidate_and_four_more_at_most() -> None:
    asked: list[Tensor] = []
    view = example_view()
    counting = replace(view, aggregate=lambda rows: asked.append(rows) or view.aggregate(rows))  # type: ignore[func-returns-value]
    Worst().craft(counting)
    assert QUESTIONS <= len(asked) <= QUESTIONS + 4
    assert f"{QUESTIONS} questions" in str(Worst.__doc__) and f"at most {QUESTIONS + 4} rule calls" in str(
        Worst.__doc__
    )


def test_answers_are_judged_together_as_they_would_be_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    view, judged_at_once = judged(example_view(), torch.full((23,), 0.3)), []

    def assess(params: Tensor) -> tuple[Tensor, Tensor | None]:
        judged_at_once.append(len(params))
        return view.assess(params)

    together = Worst().craft(replace(view, assess=assess))
    assert judged_at_once[0] == QUESTIONS and len(judged_at_once) <= 3
    monkeypatch.setattr("robustfl_bench.attacks.worst.TOGETHER", 23)
    view = judged(example_view(), torch.full((23,), 0.3))
    alone = Worst().craft(replace(view, assess=assess))
    assert judged_at_once[-1] == 1
    assert together.notes == alone.notes and torch.equal(together.rows, alone.rows)


def test_the_server_trains_once_for_all_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    made, trained = federation(*DIGITS, "aggregator=fltrust", "rounds=1"), []
    train = made.train

    def counted(population: Population, *given: Any) -> Updates:
        trained.append(population)
        return train(population, *given)

    monkeypatch.setitem(vars(made), "train", counted)
    rounds.step(made, rounds.initial_state(made))
    assert sum(population is made.clients.server_together for population in trained) == 1


def test_the_line_search_goes_between_the_strengths_of_the_ladder(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Entry("line", lambda scene, strength: torch.full((1,), float(strength)), (1, 4, 16))
    monkeypatch.setattr("robustfl_bench.attacks.worst.ENTRIES", (line,))
    view = replace(example_view(d=1), aggregate=lambda rows: Aggregate(rows), after=lambda vector: vector)
    view = replace(view, params=torch.zeros(1), assess=lambda params: (-((params[:, 0] - 6.5) ** 2), None))
    crafted = Worst().craft(view)
    assert crafted.notes["strength"] == pytest.approx(4 * 2**0.5)  # of 2, 8 and then 4 * sqrt(2), 8 * sqrt(2)... 6.5


def test_what_is_not_finite_or_refused_by_the_rule_is_left_out() -> None:
    view = example_view()

    def picky(rows: Tensor) -> Aggregate:
        if float(rows.abs().max()) > 0:
            raise ConfigError("only zeros are welcome")
        return view.aggregate(rows)

    crafted = Worst().craft(replace(view, aggregate=picky))
    assert ENTRIES[int(crafted.notes["choice"])].name == "zero" and not crafted.rows.any()
    nothing = Worst().craft(replace(view, aggregate=lambda rows: Aggregate(torch.full((23,), torch.nan))))
    assert nothing.notes["choice"] == NOTHING and torch.equal(nothing.rows, view.mean)


def test_a_model_that_overflows_is_the_greatest_harm() -> None:
    view = replace(example_view(), assess=lambda params: (torch.tensor([math.nan, 2]), torch.tensor([0.1, 0.3])))
    assert harms(view, "error", [view.mean, view.mean]) == [(math.inf, 0), (pytest.approx(0.3), 2)]
    assert harms(view, "loss", [view.mean, view.mean]) == [(math.inf, 0), (2, 0)]


def test_error_comes_before_loss_and_loss_decides_between_equals() -> None:
    view, far = example_view(), torch.full((23,), 9.0)

    def judged(error: float, factor: float) -> list[Harm]:
        equal = replace(view, assess=lambda params: (factor * params.norm(dim=1), torch.full((len(params),), error)))
        return harms(equal, "error", [far, far / 2])

    assert judged(0.5, 1)[0] > judged(0.5, 1)[1]
    assert judged(0.6, 0)[0] > judged(0.5, 1)[0]


def test_looking_ahead_repeats_the_step() -> None:
    view = replace(example_view(), params=torch.ones(23), after=lambda vector: 1 - 0.1 * vector)
    view = replace(view, assess=lambda params: (params.sum(dim=1), None))
    assert harms(view, "loss", [torch.ones(23)], ahead=3)[0][0] == pytest.approx(23 * 0.7, rel=1e-5)


def test_entries_have_a_name_and_rising_strengths_each_and_memory_makes_drift_and_rewind() -> None:
    names = [entry.name for entry in ENTRIES]
    assert len(set(names)) == len(names) >= 25
    assert all(list(entry.strengths) == sorted(set(entry.strengths)) for entry in ENTRIES)
    first = example_view()
    crafted = Worst().craft(first)
    second = replace(example_view(seed=1), params=torch.ones(23), memory=crafted.memory)
    scene, by_name = Scene(second), {entry.name: entry.rows for entry in ENTRIES}
    torch.testing.assert_close(scene.trend, candidates.DECAY * first.mean + second.mean)
    back = by_name["rewind"](scene, 1)
    torch.testing.assert_close(back, torch.full((23,), float(second.mean.norm()) / 23**0.5))  # from ones to zeros
    assert float(by_name["drift"](scene, 1) @ scene.trend) < 0


def test_half_of_the_attackers_go_each_way() -> None:
    view = example_view(num_byzantine=3)
    rows = next(entry for entry in ENTRIES if entry.name == "split_ipm").rows(Scene(view), 10)
    torch.testing.assert_close(rows, torch.stack([-10 * view.mean, -10 * view.mean, view.mean]))


def test_where_clients_send_models_the_entries_still_work_on_updates() -> None:
    start = torch.linspace(-1, 1, 23)

    def upload(rows: Tensor) -> Tensor:
        return start - rows

    for kind in HARMS:
        updates, given = example_view(), example_view()
        models = replace(
            given,
            honest=Updates(upload(given.honest.matrix)),
            upload=upload,
            aggregate=lambda rows, given=given: given.aggregate(upload(rows)),
        )
        sent, expected = Worst(kind).craft(models), Worst(kind).craft(updates)
        assert sent.notes["choice"] == expected.notes["choice"]
        torch.testing.assert_close(upload(sent.rows), expected.rows.expand_as(sent.rows), rtol=1e-4, atol=1e-5)


def test_tailored_with_another_harm_does_more_of_it_and_without_one_keeps_its_identity() -> None:
    view = judged(example_view(), torch.full((23,), 0.05))
    done = {kind: harms(view, "loss", [view.aggregate(Tailored(harm=kind).craft(view)).vector])[0] for kind in HARMS}
    assert done["loss"] == max(done.values())
    assert torch.equal(Tailored().craft(view), Tailored(harm="distance").craft(view))
    assert "harm" not in compose.resolve(["attack=tailored"]).identity["attack"]
    with pytest.raises(ConfigError, match="harm"):
        Tailored(harm="pain")


def test_a_run_notes_choice_strength_and_harm_and_asking_leaves_no_trace() -> None:
    rows = records(*DIGITS, "aggregator=median", "pre_aggregation=bucketing")
    assert rows == records(*DIGITS, "aggregator=median", "pre_aggregation=bucketing")
    for row in rows:
        entry = ENTRIES[int(row["attack_choice"])]
        assert entry.strengths[0] <= row["attack_strength"] <= entry.strengths[-1] and 0 <= row["attack_harm"] <= 1
    assert not any(name.startswith("attack_") for name in records(*DIGITS, "attack=ipm", "aggregator=median")[0])


def test_with_several_models_each_has_columns_of_its_own() -> None:
    few = ["dataset=linear_mixture", "partition=natural", "model=linear_regression", "clustering=ifca"]
    row = records(*few, "num_clients=8", "num_byzantine=2", "aggregator=trmean", "num_byzantine_declared=1")[-1]
    choices = [row[f"attack_choice_model_{i}"] for i in range(5)]
    attacked = [int(choice) for choice in choices if choice == choice]  # nan: no attacker chose the model
    assert 0 < len(attacked) <= 2 and "attack_choice" not in row
    assert all(0 <= choice < len(ENTRIES) for choice in attacked)


def test_attackers_judge_a_model_on_evenly_spaced_samples_of_their_clients() -> None:
    x = torch.arange(40.0)[:, None]
    population = Population(x, torch.arange(40), [torch.arange(0, 30).numpy(), torch.arange(30, 40).numpy()])
    assert population.thinned([0, 1], 8)[1].tolist() == [0, 5, 10, 15, 20, 25, 30, 35]
    assert population.thinned([1], 100)[1].tolist() == list(range(30, 40))


def test_the_gram_matrix_behind_appended_rows_is_that_of_all_rows() -> None:
    rows = torch.randn(7, 23, generator=torch.Generator().manual_seed(0))
    for known in (False, True):
        storage = torch.empty(10, 23)
        storage[:7] = rows
        honest = Updates(storage[:7])
        if known:
            honest.gram  # noqa: B018 (computes it)
        joined = honest.append(rows[:3] + 1, torch.ones(3).double(), storage)
        torch.testing.assert_close(joined.gram, joined.matrix.double() @ joined.matrix.double().T)
        assert joined.joint_gram(rows[:1]).shape == (11, 11)


def test_worst_harms_a_rule_more_than_the_attack_that_moves_it_farthest() -> None:
    overrides = [*DIGITS, "aggregator=trmean", "rounds=10", "eval_every=10"]
    assert records(*overrides)[0]["test_accuracy"] < records(*overrides, "attack=tailored")[0]["test_accuracy"]


def test_all_classes_count_alike_for_worst_classes() -> None:
    """On the samples of all clients, the attackers' own included; the search is that of ``worst``."""
    f = federation("attack=worst_classes", "partition=pathological", "num_clients=10", "model.hidden=[8]")
    view = Foresight(f, rounds.initial_state(f), rounds.step)
    _, errors = view.assess_by_class(view.state.params)
    x, y = f.clients.unpoisoned(np.arange(10)).thinned(range(10), 2048)
    wrong = (f.network.logits(view.state.params[0], x).argmax(dim=1) != y).double()
    by_class = float(torch.stack([wrong[y == label].mean() for label in range(10)]).mean())
    assert errors is not None and float(errors[0]) == pytest.approx(by_class) and by_class != float(wrong.mean())
    last = records(*("attack=worst_classes", "partition=pathological", "num_clients=10", "model.hidden=[8]"))[-1]
    assert 0 < last["attack_harm"] <= 1 and last["attack_choice"] >= 0


def test_the_script_prints_what_was_measured(tmp_path: Path, capsys: Any) -> None:
    from scripts.generators import worst_adversary

    path = tmp_path / "few.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, worst_adversary.COLUMNS, restval="0")
        writer.writeheader()
        for name, strength, accuracy in (("none", "", 0.6), ("worst", "", 0.2), ("ipm", "1", 0.1), ("zero", "1", 0.7)):
            known = {"rule": "median", "seed": 0, "attack": name, "strength": strength, "test_accuracy": accuracy}
            writer.writerow(known | {"sent": "ipm:2" if name == "worst" else ""})
    worst_adversary.main(["table", "--csv", str(path)])
    line = capsys.readouterr().out.splitlines()[-1]
    assert "| median | 1 | 60.0% | 20.0% |  | ipm 1 | 10.0% | 1 of 2 | 1 | ipm 2 |" in line


def test_held_sends_its_entry() -> None:
    view = example_view()
    crafted = Held("ipm", 2).craft(view)
    assert isinstance(crafted, Crafted) and torch.equal(crafted.rows, -2 * view.mean)
