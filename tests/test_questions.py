"""Questions of attackers asked at once: the answers are those of asking one by one, and asking leaves no trace."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.doors.testing import check_aggregator, example_round
from robustfl_bench.interfaces import Aggregator, AttackView, ServerView
from robustfl_bench.numerics import gram_space, gram_stacks, questions
from robustfl_bench.numerics import updates as updates_module
from robustfl_bench.numerics.questions import Questions
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.coomed import CooMed
from robustfl_bench.parts.aggregators.geomed import GeoMed
from robustfl_bench.parts.aggregators.krum import Krum
from robustfl_bench.parts.aggregators.trmean import TrMean
from robustfl_bench.runner.config import compose
from robustfl_bench.runner.experiment.plan import InfeasibleError, plan
from robustfl_bench.train import rounds
from tests import presets
from tests.rounds import names

ASKING = ("worst", "opt_alie", "opt_ipm", "tailored", "minmax", "minsum")
SMALL = ("dataset=digits", "partition=dirichlet", "partition.alpha=0.5", "model.hidden=[8]", "num_clients=15",
         "num_byzantine=3", "byzantine_placement=replace", "batch_size=8", "rounds=2", "eval_every=2")  # fmt: skip
TOLERANCE = 1e-6  # of the size of the updates


def asked(kind: str, k: int = 9, honest: int = 17, b: int = 3, d: int = 50, seed: int = 0) -> tuple[Questions, Any]:
    """Questions beside an example round: candidates of all sizes, ``alike`` for all attackers, in ``halves``, or
    ``different`` for each; ``ties`` are copies of honest updates, equal in some coordinates to all of them."""
    updates, server = example_round(seed, honest, 0, d=d)
    matrix, generator = updates.matrix.clone(), torch.Generator().manual_seed(seed)
    if kind == "ties":
        matrix = torch.round(matrix)
        rows = matrix[torch.arange(k) % honest][:, None]
        rows[:, :, ::3] = 0
    else:
        rows = matrix.mean(dim=0) + torch.randn(k, 1 if kind == "alike" else b, d, generator=generator)
        rows *= torch.tensor([0, 1e-30, 1e-3, 0.5, 1, 3, 30, 1e10, 1e30])[torch.arange(k) % 9, None, None]
    if kind == "halves":
        rows[:, 1:] = rows[:, 1:2]
    counts = torch.arange(1.0, honest + b + 1).double()
    server.counts, server.clients = counts, torch.arange(honest + b)
    server.previous = matrix[0]
    return Questions(Updates(matrix, counts[:honest]), rows, counts), server


def answers(rule: Aggregator, these: Questions, server: ServerView) -> Tensor:
    return rule.aggregate_many(these, lambda: replace(server, rng=np.random.default_rng(3)))


def one_by_one(rule: Aggregator, these: Questions, server: ServerView) -> Tensor:
    """The answers to whole matrices that share nothing."""
    honest = these.honest.matrix
    matrices = [torch.cat([honest, rows.expand(these.attackers, -1)]) for rows in these.rows]
    views = [replace(server, rng=np.random.default_rng(3)) for _ in matrices]
    pairs = zip(matrices, views, strict=True)
    return torch.stack([rule(Updates(matrix, these.counts), view).vector for matrix, view in pairs])


def require_equal(got: Tensor, wanted: Tensor, these: Questions) -> None:
    """Both within TOLERANCE of the largest honest update, or of the answer itself where it is larger."""
    size = torch.maximum(wanted.double().norm(dim=1), these.honest.matrix.double().norm(dim=1).max())
    assert ((got.double() - wanted.double()).norm(dim=1) <= TOLERANCE * size).all()


def rule_of(name: str, f: int = 3) -> Aggregator:
    overrides = [*SMALL, f"aggregator={name}", f"num_byzantine_declared={f}"]
    return plan(compose.resolve(overrides).config).parts.aggregator


@pytest.mark.parametrize("name", names("aggregator"))
def test_every_rule_answers_at_once_as_one_by_one(name: str) -> None:
    for f in (3, 0):
        try:
            rule = rule_of(name, f)
        except (ConfigError, InfeasibleError):
            assert f == 0
            continue
        for kind in ("alike", "halves", "different", "ties"):
            these, server = asked(kind, honest=10 if name == "boba_es" else 17)  # which tries all subsets of clients
            require_equal(answers(rule, these, server), one_by_one(rule, these, server), these)


@pytest.mark.parametrize("rule", [TrMean(3), TrMean(0), TrMean(9), CooMed(), CooMed("lower")])
def test_coordinate_wise_rules_answer_with_the_same_bytes(rule: Aggregator) -> None:
    for kind in ("alike", "halves", "different", "ties"):
        for honest, d in ((17, 50), (1, 3), (18, 1), (21, 40_000)):
            if isinstance(rule, TrMean) and honest + 3 <= 2 * rule.num_byzantine:
                continue
            these, server = asked(kind, honest=honest, d=d)
            assert torch.equal(answers(rule, these, server), one_by_one(rule, these, server))


@pytest.mark.parametrize("rule", [TrMean(3), CooMed(), Krum(3), GeoMed()], ids=lambda rule: type(rule).__name__)
def test_updates_that_overflow_and_many_columns_are_answered_alike(rule: Aggregator) -> None:
    these, server = asked("alike", honest=9, b=4, d=20_000)
    huge = Questions(Updates(torch.full((9, 20_000), 3e38)), 3e38 * torch.ones(2, 1, 20_000), these.counts)
    for some in (these, huge):
        require_equal(answers(rule, some, server), one_by_one(rule, some, server), some)


def test_without_memory_for_sorted_values_the_answers_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    these, server = asked("alike")
    kept = answers(TrMean(3), these, server)
    monkeypatch.setattr("robustfl_bench.numerics.updates.KEPT", 1)
    these, server = asked("alike")
    assert these.honest.ordered is None
    assert torch.equal(answers(TrMean(3), these, server), kept)


def test_candidates_that_are_not_finite_share_nothing() -> None:
    these, server = asked("alike", k=3)
    these.rows[1, 0, 4] = torch.nan
    these.rows[2, 0, 5] = torch.inf
    assert these.finite == [True, False, False]
    for i, updates in enumerate(these):
        alone = Updates(torch.cat([these.honest.matrix, these.rows[i].expand(3, -1)]), these.counts)
        for rule in (TrMean(3), CooMed(), Krum(3)):
            got, wanted = rule(updates, server).vector, rule(alone, server).vector
            torch.testing.assert_close(got, wanted, equal_nan=True)


def test_the_honest_updates_are_sorted_and_multiplied_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def count(name: str) -> None:
        work = getattr(updates_module, name)

        def counted(rows: Any) -> Any:
            seen.append(len(rows))
            return work(rows)

        monkeypatch.setattr(updates_module, name, counted)

    count("sorted_rows")
    count("gram_matrix")
    these, server = asked("alike")
    for rule in (TrMean(3), CooMed(), Krum(3), rule_of("rfa"), rule_of("meamed")):
        answers(rule, these, server)
        Questions(these.honest, these.rows[:1], these.counts)[0].by_sorted_row(lambda rows: rows[0])
    assert seen == [17, 17]


def test_large_gram_matrices_are_asked_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    these, server = asked("alike", k=5)
    whole = answers(Krum(3), these, server)
    monkeypatch.setattr(questions, "TOGETHER", 2 * 20**2)
    parts = these.split()
    assert [len(some) for some in parts] == [2, 2, 1]
    assert torch.equal(torch.cat([answers(Krum(3), some, server) for some in parts]), whole)


def test_stacks_of_gram_matrices_are_worked_on_as_each_alone() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(7, 12, 30)) * np.array([1, 1e-3, 1e5, 1, 1, 1, 1])[:, None, None]
    points[3, 4:] = points[3, 4]  # most points are one
    points[4] = points[4, :1]  # all are
    points[5] = np.arange(12)[:, None] * points[5, :1]  # on a line
    points[6, ::2] *= 1e8
    grams = points @ points.transpose(0, 2, 1)
    weights = gram_stacks.weiszfeld(grams, np.ones(12), 1e-8, 1000)
    for gram, own in zip(grams, weights, strict=True):
        alone = gram_space.weiszfeld(gram, np.ones(12), 1e-8, 1000)
        np.testing.assert_allclose(own, alone, atol=1e-7)
    members = np.sort([rng.permutation(12)[:8] for _ in grams], axis=1)
    fitted = gram_stacks.fit_subspaces(grams, members, 3)
    for i, gram in enumerate(grams):
        alone_fit = gram_space.fit_subspace(gram, members[i], 3)
        wanted = alone_fit.sq_residuals(gram)
        np.testing.assert_allclose(fitted.sq_residuals(grams)[i], wanted, rtol=1e-6, atol=1e-9 * gram.diagonal().max())


class Halved(Krum):
    """Krum with another result: what its base class answers at once is not its answer."""

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        return Aggregate(super().aggregate(updates, server).vector / 2)


def test_a_rule_that_overrides_only_aggregate_is_asked_one_by_one() -> None:
    these, server = asked("alike")
    rule = Halved(3)
    assert torch.equal(answers(rule, these, server), one_by_one(rule, these, server))


class Forgetful(TrMean):
    """A rule whose answers at once are wrong in one question."""

    def aggregate_many(self, questions: Questions, server: Callable[[], ServerView]) -> Tensor:
        found = super().aggregate_many(questions, server)
        found[-1] = 0
        return found


def test_the_contract_compares_answers_at_once_with_those_one_by_one() -> None:
    with pytest.raises(AssertionError, match="Forgetful: questions: "):
        check_aggregator(Forgetful(3), num_byzantine=3)


federation = partial(presets.federation, *SMALL)


def watch(monkeypatch: pytest.MonkeyPatch, check: Callable[[AttackView], None], *overrides: str) -> int:
    """Call ``check`` with the attackers' view in each of two rounds, whose updates are overwritten later; returns the
    number of calls."""
    made, seen = federation("attack=opt_alie", *overrides), []
    kind = type(made.parts.attack)
    craft = kind.craft

    def watched(self: Any, view: AttackView) -> Any:
        check(view)
        seen.append(view)
        return craft(self, view)

    monkeypatch.setattr(kind, "craft", watched)
    state = rounds.initial_state(made)
    for _ in range(2):
        state, _ = rounds.step(made, state)
    return len(seen)


@pytest.mark.parametrize("mixing", ["none", "nnm", "bucketing", "arc", "[clipping,nnm]"])
@pytest.mark.parametrize("name", ["trmean", "coomed", "krum", "geomed", "boba", "history_trmean", "foolsgold", "cfl"])
@pytest.mark.parametrize("knowledge", ["all", "own"])
def test_a_view_answers_at_once_as_one_by_one(
    monkeypatch: pytest.MonkeyPatch, name: str, mixing: str, knowledge: str
) -> None:
    """Up to rounding, unless the rule's own answer jumps when the candidate changes by its last digit."""
    overrides = [f"aggregator={name}", f"pre_aggregation={mixing}", f"knowledge={knowledge}"]
    if name == "foolsgold":
        overrides.append("aggregator.history=false")

    def check(view: AttackView) -> None:
        size = float(view.honest.matrix.norm(dim=1).max())

        def alone(sent: Tensor) -> Tensor:
            return view.aggregate(sent if len(sent) > 1 else sent[0]).vector

        for rows in (3, 1):
            candidates = view.mean + torch.tensor([-3, -1.4, 0.3, 1.1, 3])[:, None, None] * view.std
            candidates = candidates.expand(5, rows, -1) * torch.linspace(1, 2, rows)[:, None]
            for sent, at_once in zip(candidates, view.aggregate_many(candidates), strict=True):
                expected = alone(sent)
                tolerance = TOLERANCE * max(size, float(expected.norm()))
                jumps = name == "boba" and float((alone(sent * (1 + 1e-7)) - expected).norm()) > tolerance
                assert float((at_once - expected).norm()) <= tolerance or jumps

    assert watch(monkeypatch, check, *overrides) == 2


@pytest.mark.parametrize("attack", ASKING)
@pytest.mark.parametrize("name", ["trmean", "krum", "foolsgold", "clipped_clustering", "flame"])
def test_asking_at_once_or_one_by_one_sends_the_same_and_leaves_no_trace(
    monkeypatch: pytest.MonkeyPatch, name: str, attack: str
) -> None:
    overrides = [f"attack={attack}", f"aggregator={name}"]
    if attack in ("minmax", "minsum"):
        overrides.append("attack.evaluations=5")

    def models() -> tuple[Tensor, dict[str, Tensor]]:
        made = federation(*overrides)
        state = rounds.initial_state(made)
        for _ in range(2):
            state, _ = rounds.step(made, state)
        return state.params, dict(state.model(0).memory.rule)

    params, memory = models()
    monkeypatch.setattr(AttackView, "ask", property(lambda view: None, lambda view, ask: None))
    again, remembered = models()
    torch.testing.assert_close(params, again, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(memory, remembered, rtol=1e-5, atol=1e-6)
