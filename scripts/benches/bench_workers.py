"""The memory of the workers of a sweep, with samples that they share and with their own.

    python scripts/benches/bench_workers.py [--settings boba/cifar10 ...] [--own 2 8] [--shared 2 8 64] [--csv FILE]

So many processes, started as workers are, each have the data and the clients of a run and have read all samples once.
While all wait, each reports what the system says (``smaps_rollup``): "PSS" counts a page that k processes use as a k-th
part, so that its sum is the memory of all of them together; "private" is what a process alone has. Numbers are sums in
GB. No rounds are made: what these need (the clients' updates above all) is each worker's own in either case, see
``bench_memory.py``.
"""

import gc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benches import conditions, parser, report  # first: sets how idle threads wait

# isort: split
from robustfl_bench.base.children import forkserver
from robustfl_bench.runner.config import compose
from robustfl_bench.runner.experiment import samples
from robustfl_bench.runner.experiment.execute import _federation, _load
from robustfl_bench.runner.experiment.plan import plan

KB, GB = 1024, 1e9


def work(setting: str, takers: int, everyone: Any, answers: Any) -> None:
    """A worker: it loads and deals out the data, and reports its memory when all have."""
    gc.freeze()
    with samples.among(takers):
        planned = plan(compose.resolve((f"+setting={setting}", "scale=paper", "attack=ipm", "device=cpu")).config)
        data = _load(planned)
        federation = _federation(planned, data)
        divided = federation.clients.data
        read = [each.aminmax() for each in (federation.honest.x, divided.train_x, divided.test_x)]
        assert len(read) == 3
        gc.collect()  # as after each run
        everyone.wait()
        answers.put(_memory())
        everyone.wait()


def _memory() -> Mapping[str, int]:
    """Bytes of this process by kind."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]
    found = {words[0].rstrip(":"): KB * int(words[1]) for words in map(str.split, lines)}
    return {"PSS": found["Pss"], "private": found["Private_Clean"] + found["Private_Dirty"]}


def row(setting: str, number: int, shared: bool) -> dict[str, object]:
    """The sums over ``number`` workers."""
    context = forkserver("robustfl_bench.runner.sweeps.workers", "robustfl_bench.train.loop")
    everyone, answers = context.Barrier(number), context.Queue()
    arguments = (setting, number if shared else 1, everyone, answers)
    processes = [context.Process(target=work, args=arguments) for _ in range(number)]
    for process in processes:
        process.start()
    found = [answers.get() for _ in processes]
    for process in processes:
        process.join()
    sums = {name: sum(each[name] for each in found) / GB for name in found[0]}
    whose = "shared" if shared else "own"
    return {"setting": setting, "samples": whose, "workers": number, **sums, "PSS a worker": sums["PSS"] / number}


def main() -> None:
    """Print the table."""
    arguments = parser(__doc__)
    arguments.add_argument("--own", type=int, nargs="*", default=(2, 8), help="workers with samples of their own")
    arguments.add_argument("--shared", type=int, nargs="*", default=(2, 8, 64), help="workers that share samples")
    arguments.add_argument("--settings", nargs="+", default=["boba/cifar10"], help="data and clients (boba/cifar10)")
    args = arguments.parse_args()
    print(conditions())
    wanted = [(number, shared) for shared in (False, True) for number in (args.shared if shared else args.own)]
    report([row(setting, *each) for setting in args.settings for each in wanted], args.csv)


if __name__ == "__main__":
    main()
