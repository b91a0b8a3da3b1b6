"""A round with 100 clients of many: its time and memory against the number of registered clients.

    python scripts/benches/bench_clients.py [--registered 100 1000 10000 34000] [--a-round 100] [--share 0.01]
        [--rules trmean krum] [--dataset mnist] [--rounds 100] [--csv FILE]

Each line is a run of ``--rounds`` rounds in a process of its own. ``--a-round`` of the registered clients take part in
a round, each with one of its samples, so that the work of a round is the same; the ``--share`` of all clients are
attackers (IPM). f is the default, which follows the round. ``begin`` is the time until the first round: reading the
data, dealing them out, building the clients. Times are seconds of a processor. ``before`` and ``peak`` are the memory
of the process before the data are read, and the most that it had.
"""

from time import process_time

from benches import alone, conditions, federation, highest, in_memory, measured, parser, report

from robustfl_bench.runner.config import options
from robustfl_bench.train.rounds import initial_state, step

RULES = ("trmean", "krum")
MB = 1e6


def run(
    rule: str, registered: int, a_round: int, attackers: int, rounds: int, dataset: str, threads: int
) -> dict[str, object]:
    """The line of a run. For a process of its own."""
    before, began = in_memory("VmRSS:"), process_time()
    overrides = (
        f"aggregator={rule}", f"dataset={dataset}", f"num_clients={registered}", f"num_byzantine={attackers}",
        "attack=ipm", "byzantine_placement=replace", "partition=iid", f"participation={a_round / registered!r}",
        f"rounds={rounds}", "num_byzantine_declared=null", "batch_size=1", "model.hidden=[32]", "lr=0.1",
    )  # fmt: skip
    of_run, times, met = federation(*overrides), list[float](), list[int]()
    state = initial_state(of_run)
    begin = process_time() - began
    with measured(threads):
        for _ in range(rounds):
            began = process_time()
            state, happened = step(of_run, state)
            times.append(process_time() - began)
            met.append(len(happened.cohorts[0].byzantine))
    return {
        "rule": rule, "registered": registered, "a round": a_round, "attackers": attackers,
        "f": of_run.settings.num_byzantine_declared, "rounds": rounds, "begin s": begin, "first round s": times[0],
        "ms a round": 1000 * sum(times[1:]) / max(1, rounds - 1), "before MB": before / MB,
        "peak MB": highest() / MB, "attackers met": f"{min(met)}-{max(met)}", "mean met": sum(met) / rounds,
    }  # fmt: skip


def main() -> None:
    """Print the table."""
    arguments = parser(__doc__)
    arguments.set_defaults(threads=[1])
    rules, many = options.names("aggregator"), (100, 1000, 10_000, 34_000)
    arguments.add_argument("--rules", nargs="+", choices=rules, default=RULES, metavar="RULE", help="(two)")
    arguments.add_argument("--registered", type=int, nargs="+", default=many, help="clients")
    arguments.add_argument("--a-round", type=int, default=100, help="clients in a round (100)")
    arguments.add_argument("--share", type=float, default=0.01, help="of attackers among all clients (0.01)")
    arguments.add_argument("--dataset", default="mnist", help="(mnist)")
    arguments.add_argument("--rounds", type=int, default=100, help="(100)")
    args = arguments.parse_args()
    print(conditions())
    found = []
    for rule in args.rules:
        for registered in args.registered:
            sizes = (registered, args.a_round, round(args.share * registered), args.rounds)
            found.append(alone(run, rule, *sizes, args.dataset, args.threads[0]))
    report(found, args.csv)


if __name__ == "__main__":
    main()
