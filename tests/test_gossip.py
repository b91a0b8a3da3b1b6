"""Gossip: against rounds with a server, by its messages one by one, and over graphs from files."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from robustfl_bench.base.abilities import overrides
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.commands.data import main
from robustfl_bench.numerics.neighbourhoods import Neighbourhoods
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.aggregators.average import Average
from robustfl_bench.parts.attacks.base import Attack, AttackView, GossipView
from robustfl_bench.parts.protocols import topology as graphs
from robustfl_bench.parts.protocols.state import State
from robustfl_bench.runner.processes.launch import launch
from robustfl_bench.train.federation import Federation
from robustfl_bench.train.loop import run
from robustfl_bench.train.metrics import METRICS
from robustfl_bench.train.rounds import initial_state, step
from tests.conftest import Bench, contents, run_folders
from tests.presets import small as federation
from tests.presets import trained
from tests.rounds import build, make_server, names

SMALL = ("num_clients=8", "num_byzantine=2", "rounds=3", "lr=0.5", "protocol=gossip")


# --- graphs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("joined", "degrees"),
    [
        (graphs.ring(7), {2}),
        (graphs.ring(2), {1}),
        (graphs.torus(12), {4}),
        (graphs.complete(5), {4}),
        (graphs.two_cliques(9, 2), {3, 4, 5}),
        (graphs.erdos_renyi(0.5, range(30)), set(range(5, 25))),
    ],
)
def test_graphs_have_symmetric_weights_that_sum_to_one_at_every_node(joined: np.ndarray, degrees: set[int]) -> None:
    assert set(joined.sum(axis=0).tolist()) <= degrees and (joined == joined.T).all()
    graph = graphs.attached(joined, 3, 2).checked("")
    inside, attackers = graph.weights
    np.testing.assert_allclose(inside.sum(axis=1) + attackers.sum(axis=1), 1)
    np.testing.assert_array_equal(inside, inside.T)
    assert (inside.diagonal() > 0).all() and (graph.byzantine.sum(axis=1) == 2).all()


# --- rounds --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attack", ["ipm", "label_flip", "sign_flip"])
def test_on_the_complete_graph_the_mean_makes_rounds_with_a_server(attack: str) -> None:
    asked = ("num_clients=8", "byzantine_placement=replace", "num_byzantine=2", "rounds=3", f"attack={attack}")
    here, _ = trained(federation(*asked, "protocol=gossip", "topology=complete"))
    there, _ = trained(federation(*asked))
    torch.testing.assert_close(here.params, there.params, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(here.protocol["nodes"], there.params.expand(6, -1), rtol=1e-4, atol=1e-6)


@dataclass(frozen=True)
class OneByOne(Average):
    """The mean, asked node by node."""

    def aggregate_nodes(self, nodes: Neighbourhoods) -> None:
        return None


@pytest.mark.parametrize(("weighted", "topology"), [(False, "erdos_renyi"), (True, "two_cliques")])
def test_mixing_at_all_nodes_at_once_is_a_round_of_the_rule_at_every_node(weighted: bool, topology: str) -> None:
    asked = (*SMALL, f"topology={topology}", "attack=ipm", "protocol.byzantine_neighbours=1")
    together, alone = (trained(federation(*asked, aggregator=rule(weighted)))[0] for rule in (Average, OneByOne))
    torch.testing.assert_close(alone.params, together.params)
    models = together.protocol["nodes"]
    assert float((models - models.mean(dim=0)).abs().max()) > 1e-4


def all_nodes() -> Neighbourhoods:
    """Five nodes in 3000 dimensions, one of them without neighbours, with seven messages of different lengths."""
    rng = torch.Generator().manual_seed(0)
    own, messages = torch.randn(5, 3000, generator=rng), torch.randn(7, 3000, generator=rng)
    messages *= torch.arange(1, 8)[:, None]
    receiver, source = torch.tensor([0, 0, 0, 2, 2, 3, 4, 4]), torch.tensor([1, 5, 6, 0, 3, 2, 1, 6])
    weights = torch.rand(8, generator=rng).double() / 4
    degrees = torch.zeros(5, dtype=torch.float64).index_add_(0, receiver, weights)
    return Neighbourhoods(own, messages, receiver, source, weights, 1 - degrees)


def test_rules_that_answer_for_all_nodes_at_once_answer_as_node_by_node() -> None:
    rules = [Average(weighted=True), *(build("aggregator", name, num_byzantine=1) for name in names("aggregator"))]
    together = [rule for rule in rules if overrides(rule, "aggregate_nodes")]
    assert Average() in together
    nodes = all_nodes()
    for rule in together:
        found = rule.aggregate_nodes(nodes)
        for node in range(5):
            updates = nodes.at(node)
            alone = rule(updates, make_server(updates.matrix)).vector
            torch.testing.assert_close(
                found[node], alone, rtol=1e-4, atol=1e-5, msg=lambda told, rule=rule: f"{rule}: {told}"
            )


def test_what_a_node_computes_depends_on_its_own_links_to_the_bit() -> None:
    whole = all_nodes()
    own, messages, receiver, source, weights = (
        getattr(whole, name) for name in ("own", "messages", "receiver", "source", "weights")
    )
    for node in (0, 1, 3, 4):
        here = receiver == node
        few = (messages[source[here]], torch.zeros(int(here.sum()), dtype=torch.int64), torch.arange(int(here.sum())))
        alone = Neighbourhoods(own[node, None], *few, weights[here], torch.ones(1).double())
        assert torch.equal(alone.combine(weights[here])[0], whole.combine(weights)[node])
        assert torch.equal(alone.sq_dists, whole.sq_dists[here])
        rows = whole.at(node).matrix
        assert torch.equal(rows, alone.at(0).matrix) and not rows[0].any()
        torch.testing.assert_close(whole.combine(weights)[node], weights[here].float() @ rows[1:])
        torch.testing.assert_close(rows[1:].double().square().sum(dim=1), alone.sq_dists)


@pytest.mark.parametrize("overrides", [("aggregator=foolsgold", "attack=mimic", "server_optimizer=adam")])
def test_what_rules_attackers_and_optimizers_remember_is_part_of_the_state(overrides: Sequence[str]) -> None:
    f = federation(*SMALL, *overrides, "protocol.byzantine_neighbours=1")
    first, _ = step(f, initial_state(f))
    restored = State.restored(first.stored(), first.params.device)
    second, _ = step(f, first)
    again, _ = step(federation(*SMALL, *overrides, "protocol.byzantine_neighbours=1"), restored)
    assert len([name for name in first.protocol if name != "nodes"]) == 8  # of every node
    for name, value in second.protocol.items():
        assert torch.equal(again.protocol[name], value)
    assert torch.equal(again.params, second.params) and not torch.equal(first.params, second.params)


@dataclass(frozen=True)
class Telling(Attack):
    """Sends the sum of the weights that a receiver gives to honest models, in every coordinate, to that receiver."""

    exempt = MappingProxyType({"memory": "takes notes"})

    seen: Any

    def craft_messages(self, view: GossipView) -> Tensor:
        self.seen.append(view)
        trusted = view.weights.sum(dim=1)[view.links[:, 1]]
        return (trusted + view.links[:, 0]).float()[:, None].expand(-1, view.models.shape[1])


@dataclass(frozen=True)
class Seeing(Average):
    """The mean; keeps what it receives."""

    exempt = MappingProxyType({"memory": "takes notes"})

    seen: Any = None

    def aggregate(self, updates: Updates, server: object) -> Any:
        self.seen.append((updates.matrix.clone(), updates.counts.clone()))
        return updates.mean


def test_every_neighbour_can_get_a_message_of_its_own() -> None:
    views: list[GossipView] = []
    received: list[tuple[Tensor, Tensor]] = []
    asked = (*SMALL, "topology=two_cliques", "attack=ipm", "protocol.byzantine_neighbours=1", "rounds=1")
    trained(federation(*asked, attack=Telling(views), aggregator=Seeing(seen=received)))
    (view,) = views
    assert len(view.links) == 8 and view.num_byzantine == 2 and len(received) == 8
    assert view.links.tolist() == [[node % 2, node] for node in range(8)]
    assert torch.equal(view.adjacency, torch.from_numpy(graphs.two_cliques(8, 1)))
    for node, (rows, counts) in enumerate(received):
        neighbours = view.adjacency[node].nonzero()[:, 0]
        assert torch.equal(rows[0], torch.zeros_like(rows[0]))
        assert torch.equal(rows[1:-1], view.models[neighbours] - view.models[node])
        told = float(view.weights[node].sum()) + node % 2
        torch.testing.assert_close(rows[-1] + view.models[node], torch.full_like(rows[0], told))
        expected = [view.weights[node, node], *view.weights[node, neighbours], view.byzantine_weights[node, node % 2]]
        assert counts.tolist() == pytest.approx([float(weight) for weight in expected])


@dataclass(frozen=True)
class Watching(Attack):
    """Sends zeros, and notes which clients' updates it sees, and from which model."""

    exempt = MappingProxyType({"memory": "takes notes"})

    seen: Any

    def craft(self, view: AttackView) -> Tensor:
        self.seen.append((view.clients.tolist(), view.num_byzantine, view.params.clone(), view.honest.matrix.clone()))
        return torch.zeros_like(view.params)


@pytest.mark.parametrize("crafting", ["once", "per_neighbourhood"])
def test_attacks_that_do_not_know_gossip_see_all_nodes_or_those_around_the_receiver(crafting: str) -> None:
    seen: list[Any] = []
    f = federation(*SMALL, "attack=ipm", f"protocol.crafting={crafting}", "rounds=1", attack=Watching(seen))
    trained(f)
    if crafting == "once":
        ((clients, attackers, params, honest),) = seen
        assert clients == list(range(8)) and attackers == 2 and torch.equal(params, f.network.initial)
        gradients, _ = _gradients(f)
        torch.testing.assert_close(honest, gradients, rtol=1e-4, atol=1e-6)
    else:
        assert [clients for clients, *_ in seen] == [[i, *sorted([(i - 1) % 8, (i + 1) % 8])] for i in range(8)]
        _, models = _gradients(f)
        for node, (clients, _, params, honest) in enumerate(seen):
            torch.testing.assert_close(params, models[node])
            torch.testing.assert_close(params - 0.5 * honest, models[clients])


def _gradients(f: Federation) -> tuple[Tensor, Tensor]:
    """The honest clients' gradients at the initial model, and their models after a step."""
    rows = f.storage.rows(8)
    f.network.gradients(f.network.initial, f.honest.batch(range(8)), rows)
    return rows, f.network.initial - 0.5 * rows


# --- what is recorded ----------------------------------------------------------------------------------------------


def test_accuracies_of_the_nodes_their_distance_and_the_bits_of_the_links_are_recorded() -> None:
    f = federation(*SMALL, "attack=ipm", "eval_every=3", "protocol.byzantine_neighbours=1")
    ((state, row),) = [(state, row) for state, row in run(f, initial_state(f), metrics=METRICS) if row is not None]
    models, d = state.protocol["nodes"].double(), state.params.shape[1]
    apart = float((models - models.mean(dim=0)).square().sum() / 8)
    assert row["consensus_distance"] == pytest.approx(apart) and apart > 0
    x, y = f.clients.data.test_x, f.clients.data.test_y
    counts = [f.network.evaluate(model, x, y)[1] for model in state.protocol["nodes"]]
    found = [float(each.trace() / each.sum()) for each in counts if each is not None]
    assert row["node_accuracy_worst"] == min(found) and row["node_accuracy_best"] == max(found)
    assert row["node_accuracy_mean"] == pytest.approx(np.mean(found))
    links = 8 * 2 + 8 * 2  # among honest nodes, and to and from one attacker for each
    assert row["protocol_links"] == links and row["protocol_bits_per_link"] == 32 * d
    assert row["bits_total"] == 3 * links * 32 * d and row["bits_per_client"] == links * 32 * d / 10


# --- links from a file ---------------------------------------------------------------------------------------------


def written(folder: Path, links: Sequence[tuple[object, object]], head: str = "node,neighbour") -> str:
    file = folder / "links.csv"
    file.write_text("\n".join([head, *(f"{one},{other}" for one, other in links), ""]))
    return f"protocol.path={file}"


def test_links_from_a_file_in_any_order_make_the_same_bytes(tmp_path: Path) -> None:
    links = [((i + 1) % 8, i) if i % 3 else (i, (i + 1) % 8) for i in range(8)][::-1]
    links += [(8 + a, i) for i in range(8) for a in range(2)]
    asked = (*SMALL, "attack=ipm", "aggregator=coomed")
    drawn, _ = trained(federation(*asked))
    read, _ = trained(federation(*asked, "topology=from_file", written(tmp_path, links)))
    assert torch.equal(drawn.protocol["nodes"], read.protocol["nodes"])


@pytest.mark.parametrize(
    ("links", "head", "message"),
    [
        ([(0, 1), (1, 1)], "node,neighbour", "line 3: node 1 is linked with itself"),
        ([(0, 10)], "node,neighbour", "line 2: no node 10; the clients are 0 to 9"),
        ([(0, "x")], "node,neighbour", "lists no links (a CSV with the columns node,neighbour): invalid literal"),
        ([(0, 1)], "a,b", "no column 'node'"),
        ([(0, 1), (1, 2), (3, 4)], "node,neighbour", "3 of 8 reach each other; add links to"),
    ],
)
def test_a_file_that_is_no_graph_is_one_line(
    links: Sequence[tuple[object, object]], head: str, message: str, bench: Bench, tmp_path: Path
) -> None:
    asked = (*SMALL, "model.hidden=[4]", "attack=ipm", "topology=from_file", written(tmp_path, links, head))
    done = bench(*asked)
    lines = done.err.strip().splitlines()
    assert done.code in (2, 3) and len(lines) == 1 and message in lines[0]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("topology=hexagon",), "topology"),
        (("topology=torus", "num_clients=7"), "a torus needs a x b honest nodes"),
        (("aggregator=krum", "attack=ipm"), "at a node with 4 neighbours: Krum needs n > 2f \\+ 2, got n=5, f=2"),
        (("protocol.path=links.csv",), "give both, or neither"),
        (("participation=0.5",), "set participation=1"),
        (("local_update=rsa",), "gossip has none"),
        (("aggregator=fltrust",), "FLTrust needs a server, which gossip does not have"),
        (("topology=erdos_renyi", "protocol.edge_probability=0"), "1 of 8 reach each other; raise protocol.edge_pro"),
    ],
)
def test_what_gossip_cannot_do_is_said(overrides: Sequence[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        trained(federation(*SMALL, *overrides))


# --- real processes ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_processes_and_simulation_end_with_the_same_bytes(bench: Bench, tmp_path: Path) -> None:
    run = ["protocol=gossip", "num_clients=6", "num_byzantine=1", "byzantine_placement=replace", "attack=label_flip"]
    run += ["aggregator=foolsgold", "rounds=3", "model.hidden=[16]", "batch_size=16", "partition=iid", "device=cpu"]
    assert launch(60, 1, [*run, f"results_dir={tmp_path}/real"]) == 0
    assert bench(*run, "results_dir=simulated").code == 0
    assert contents(tmp_path / "real") == contents(tmp_path / "simulated")
    summaries = [
        json.loads((folder / "summary.json").read_text())
        for where in ("real", "simulated")
        for folder in run_folders(tmp_path / where).values()
    ]
    assert len({summary["model_sha256"] for summary in summaries}) == 1
    sent = summaries[0]["gossip"]
    assert 8 * sum(sent["payload_bytes"]) == sent["formula_bits"] > 0


def test_graphs_in_numbers_and_as_a_picture(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    asked = ["topology", "topology=ring,complete", "num_clients=6", "num_byzantine=2", "attack=ipm"]
    picture = tmp_path / "graphs.png"
    assert main([*asked, "protocol.byzantine_neighbours=1", "--picture", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    ring, complete = capsys.readouterr().out.split("\n\n")
    assert "6 honest nodes, 2 attackers, 24 messages in a round" in ring  # 6 x 2 and 6 x 2
    assert "2 honest neighbours and 1 of the attackers" in ring and "connectivity of the honest nodes: 1\n" in ring
    assert "5 honest neighbours" in complete and "connectivity of the honest nodes: 6\n" in complete
    assert main([*asked, "--format", "json"]) == 0
    known = json.loads(capsys.readouterr().out)
    assert [len(graph["links"]) for graph in known] == [6 + 12, 15 + 12]
    assert main(["topology", "protocol=star"]) == 2
