"""A rule in place of all_reduce: processor time and bytes of each process, beside torch.distributed.all_reduce.

    python scripts/benches/bench_all_reduce.py [--processes 4 8] [--sizes 1000000 10000000] [--rules trmean geomed]
        [--share 1000,100000] [--repeats 9] [--csv FILE]

Every number of processes is a job of gloo over the loopback interface, each process with one thread. Both take turns in
the job, on vectors of the same size; the time is that of the processor, all threads of a process, the mean of the
processes and the median of the turns. Bytes are what the kernel has counted on the sockets of a process. The lines at
the end are the rules alone on N clients and D columns, a node's share of a large job (``--share N,D``).
"""

import json
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benches import conditions, measured, medians, n_and_d, parser, report  # first: sets how idle threads wait

# isort: split
import torch
import torch.distributed as dist

from robustfl_bench.base.children import forkserver
from robustfl_bench.doors.distributed import RobustAllReduce
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.aggregators.base import Aggregator
from robustfl_bench.runner.config import options
from robustfl_bench.runner.config.compose import resolve
from robustfl_bench.runner.experiment.plan import plan
from robustfl_bench.train.alone import RuleAlone

RESULT = "rows.json"
TCP_INFO, LENGTH, ACKED = 11, 232, slice(120, 128)  # of Linux: the bytes that the other side has acknowledged


def rule_of(name: str) -> Aggregator:
    """A rule that assumes one attacker."""
    words = (f"aggregator={name}", "num_byzantine_declared=1", "num_byzantine=1", "byzantine_placement=replace")
    return plan(resolve(words).config).parts.aggregator


def sent_bytes() -> int:
    """The bytes that this process has sent on the TCP sockets that it has open."""
    total = 0
    for name in os.listdir("/proc/self/fd"):
        if not os.path.realpath(f"/proc/self/fd/{name}").rpartition("/")[2].startswith("socket:"):
            continue
        with socket.socket(fileno=os.dup(int(name))) as one:
            if one.family in (socket.AF_INET, socket.AF_INET6):
                info = one.getsockopt(socket.IPPROTO_TCP, TCP_INFO, LENGTH)
                total += int.from_bytes(info[ACKED], "little")
    return total


def turns(works: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, tuple[list[float], int]]:
    """Seconds of the processor in each turn, and the bytes of the last, of every work in this process."""
    found: dict[str, tuple[list[float], int]] = {name: ([], 0) for name in works}
    for turn in range(repeats + 1):
        for name, work in works.items():
            dist.barrier()
            before, began = sent_bytes(), time.process_time()
            work()
            seconds = time.process_time() - began
            if turn:
                dist.barrier()  # all that was sent has been acknowledged
                found[name] = ([*found[name][0], seconds], sent_bytes() - before)
    return found


def job(rank: int, size: int, folder: Path, sizes: list[int], rules: list[str], repeats: int) -> None:
    """A process of a job; the first writes the rows of the table."""
    dist.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=size)
    rows = list[dict[str, object]]()
    for d in sizes:
        update = torch.randn(d, generator=torch.Generator().manual_seed(rank))
        flat = torch.empty(d)
        reduces = {name: RobustAllReduce(rule_of(name)) for name in rules}

        def plain(flat: torch.Tensor = flat, update: torch.Tensor = update) -> None:
            dist.all_reduce(flat.copy_(update))

        def robust(
            reduce: RobustAllReduce, flat: torch.Tensor = flat, update: torch.Tensor = update
        ) -> Callable[[], object]:
            return lambda: reduce(flat.copy_(update))

        works = {"all_reduce": plain, **{name: robust(reduce) for name, reduce in reduces.items()}}
        with measured(1):
            found = turns(works, repeats)
        everywhere: list[Any] = [None] * size
        dist.all_gather_object(everywhere, found)
        mean = {
            name: [statistics.mean(each[name][0][turn] for each in everywhere) for turn in range(repeats)]
            for name in works
        }
        bytes_of = {name: statistics.mean(each[name][1] for each in everywhere) for name in works}
        for name in works:
            ratios = [one / base for one, base in zip(mean[name], mean["all_reduce"], strict=True)]
            rows.append(
                {
                    "processes": size, "d": d, "n": size, "what": name, "cpu ms": 1000 * statistics.median(mean[name]),
                    "x all_reduce": statistics.median(ratios), "MB sent": bytes_of[name] / 1e6,
                    "x bytes": bytes_of[name] / bytes_of["all_reduce"],
                }
            )  # fmt: skip
    if rank == 0:
        (folder / RESULT).write_text(json.dumps(rows))
    dist.barrier()
    dist.destroy_process_group()


def share(rules: list[str], n: int, columns: int) -> list[dict[str, object]]:
    """The lines of rules on the updates of n clients in the columns of one process."""
    rows = torch.randn(n, columns, generator=torch.Generator().manual_seed(0))
    asked = {name: RuleAlone(rule_of(name), None, 0, str) for name in rules}
    known = {"counts": torch.ones(n, dtype=torch.float64), "step_size": 1.0, "layers": ()}
    works = {name: lambda one=one: one(Updates(rows), 0, torch.arange(n), **known) for name, one in asked.items()}
    with measured(1):
        times = medians(works, 1, cpu=True)
    return [{"processes": 1, "d": columns, "n": n, "what": name, "cpu ms": 1000 * times[name]} for name in rules]


def main() -> None:
    """Print the table."""
    arguments = parser(__doc__)
    arguments.set_defaults(threads=[1], repeats=9)
    arguments.add_argument("--processes", type=int, nargs="+", default=[4, 8], help="of a job (4 8)")
    arguments.add_argument("--sizes", type=int, nargs="+", default=[1_000_000, 10_000_000], help="of a vector")
    arguments.add_argument(
        "--rules", nargs="+", choices=options.names("aggregator"), default=["trmean", "coomed", "geomed"],
        metavar="RULE", help="(three)",
    )  # fmt: skip
    arguments.add_argument("--share", type=n_and_d, default=(1000, 100_000), metavar="N,D", help="(1000,100000)")
    args = arguments.parse_args()
    print(conditions())
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    context, found = forkserver("robustfl_bench.distributed"), list[dict[str, object]]()
    for size in args.processes:
        with tempfile.TemporaryDirectory() as folder:
            common = (size, Path(folder), args.sizes, args.rules, args.repeats)
            started = [context.Process(target=job, args=(rank, *common)) for rank in range(size)]
            for process in started:
                process.start()
            for process in started:
                process.join()
                if process.exitcode:
                    raise SystemExit(process.exitcode)
            found += json.loads((Path(folder) / RESULT).read_text())
    report([*found, *share(args.rules, *args.share)], args.csv)


if __name__ == "__main__":
    main()
