"""Rounds of gossip whose nodes compute their gradients at once, against the same rounds node by node.

    python scripts/benches/bench_gossip.py [--nodes 100 1000] [--rules average trmean] [--repeats 7] [--csv FILE]

Digits, a network with one hidden layer of 32, batches of 32, every node with four neighbours: CPU milliseconds of one
thread for the training of all nodes alone and for whole rounds, both in turn, and whether both end with the same bytes.
Compare ratios.
"""

import time
from collections.abc import Callable
from functools import partial

from benches import conditions, federation, measured, medians, parser, report  # first: sets how idle threads wait

# isort: split
import torch

from robustfl_bench.parts.protocols.exchange import Exchange
from robustfl_bench.parts.protocols.gossip import Gossip
from robustfl_bench.parts.protocols.state import State
from robustfl_bench.train.federation import Federation
from robustfl_bench.train.prepared import CHECKED, OwnModels
from robustfl_bench.train.rounds import Rounds, initial_state, step

SETTING = ("protocol=gossip", "topology=torus", "model=mlp", "model.hidden=[32]", "batch_size=32", "attack=none",
           "num_byzantine=0", "num_byzantine_declared=1", "lr=0.1")  # fmt: skip


class InTurn(OwnModels):
    """No gradients at once, so that nodes take turns."""

    def gradients(self, *_: object) -> None:
        """None."""


def nodes(number: int, partition: str, rule: str, at_once: bool) -> Federation:
    """A federation of nodes that compute their gradients at once or in turn."""
    made = federation(*SETTING, f"num_clients={number}", f"partition={partition}", f"aggregator={rule}")
    if not at_once:
        vars(made)["own_models"] = InTurn()
    return made


def training(federation: Federation, state: State) -> Callable[[], float]:
    """The local updates of all nodes in the round after a state; returns their CPU seconds."""
    protocol = federation.parts.protocol
    assert isinstance(protocol, Gossip)
    rounds = Rounds(federation)
    exchange = Exchange(rounds, state, protocol.graph(rounds))

    def work() -> float:
        began = time.process_time()
        exchange.context.train_nodes(exchange.models)
        return time.process_time() - began

    return work


def rounds(number: int, partition: str, rule: str, repeats: int) -> dict[str, object]:
    """A row of the table."""
    ways = {"in turn": nodes(number, partition, rule, False), "at once": nodes(number, partition, rule, True)}
    states = {name: initial_state(federation) for name, federation in ways.items()}

    def go_on(name: str) -> float:
        began = time.process_time()
        states[name], _ = step(ways[name], states[name])
        return time.process_time() - began

    for _ in range(CHECKED):
        for name in ways:
            go_on(name)
    whole = medians({name: partial(go_on, name) for name in ways}, repeats)
    trained = medians({name: training(ways[name], states[name]) for name in ways}, repeats)
    return {
        "nodes": number,
        "partition": partition,
        "rule": rule,
        **{f"training {name}_ms": 1e3 * seconds for name, seconds in trained.items()},
        "ratio": trained["in turn"] / trained["at once"],
        **{f"round {name}_ms": 1e3 * seconds for name, seconds in whole.items()},
        "ratio of rounds": whole["in turn"] / whole["at once"],
        "same bytes": torch.equal(*(state.protocol["nodes"] for state in states.values())),
    }


def main() -> None:
    """Measure, and print the table."""
    arguments = parser(__doc__)
    arguments.add_argument("--nodes", type=int, nargs="+", default=[100, 1000], help="honest nodes")
    arguments.add_argument("--partitions", nargs="+", default=["iid", "dirichlet"], help="of up to 100 nodes")
    arguments.add_argument("--rules", nargs="+", default=["average", "trmean"], help="rules at the nodes")
    args = arguments.parse_args()
    print(conditions())
    with measured(1):
        rows = [
            rounds(number, partition, rule, args.repeats)
            for number in args.nodes
            for partition in (args.partitions if number <= 100 else args.partitions[:1])
            for rule in args.rules
        ]
    report(rows, args.csv)


if __name__ == "__main__":
    main()
