"""Time of rounds in which attackers ask the rule many questions, in rounds without attack: at once, and one by one.

    python scripts/benches/bench_questions.py [--rules trmean krum coomed geomed boba]
        [--attacks worst opt_alie tailored] [--setting arena=digits] [--threads 1] [--repeats 7] [--csv FILE]

The setting is the arena's: 25 clients, 5 of them attackers, an MLP of 2,410 parameters on scikit-learn's digits. One by
one, every question is a matrix of its own that shares nothing with others, as before ``aggregate_many``. All figures
are medians of seconds of the processor, taken in turn in one process; compare ratios, not seconds.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from unittest.mock import patch

from benches import conditions, federation, measured, medians, parser, report  # first: sets how idle threads wait

# isort: split
import torch
from torch import Tensor

from robustfl_bench.numerics.questions import Questions
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.protocols.base import Rule
from robustfl_bench.train import rounds, sight
from robustfl_bench.train.context import Context

FIRST = 3  # rounds before the one that is timed
OPTIONS = ("num_byzantine=5", "partition=mild_dirichlet", "lr=0.1", "seed=0")


@contextmanager
def one_by_one() -> Iterator[None]:
    """Within this context every question is asked alone and shares nothing."""

    def alone(questions: Questions, number: int) -> Updates:
        return Updates(questions.matrix(number), questions.counts)

    def answers(context: Context, rule: Rule, questions: Questions) -> Tensor:
        return torch.stack([rule(alone(questions, number)).vector for number in range(len(questions))])

    with patch.object(Questions, "__getitem__", alone), patch.object(sight, "answers", answers):
        yield


def a_round(setting: str, rule: str, attack: str) -> Callable[[], float]:
    """A function that makes one round, always the same, and returns its seconds."""
    of_run = federation(f"+setting/{setting}", *OPTIONS, f"aggregator={rule}", f"attack={attack}")
    state = rounds.initial_state(of_run)
    for _ in range(FIRST):
        state, _ = rounds.step(of_run, state)

    def work() -> float:
        began = time.process_time()
        rounds.step(of_run, state)
        return time.process_time() - began

    return work


def alone(work: Callable[[], float]) -> float:
    """The seconds of the work, with questions asked one by one."""
    with one_by_one():
        return work()


def main() -> None:
    """Print the table, and write it with --csv."""
    arguments = parser(__doc__)
    arguments.set_defaults(threads=[1])
    arguments.add_argument("--rules", nargs="+", default=["trmean", "krum", "coomed", "geomed", "boba"])
    arguments.add_argument("--attacks", nargs="+", default=["worst", "opt_alie", "tailored"])
    arguments.add_argument("--setting", default="arena=digits", help="group and name of a setting (arena=digits)")
    args = arguments.parse_args()
    print(conditions())
    rows = []
    for threads in args.threads:
        for rule in args.rules:
            with measured(threads):
                works: dict[str, Callable[[], object]] = {"none": a_round(args.setting, rule, "none")}
                for attack in args.attacks:
                    works[attack] = at_once = a_round(args.setting, rule, attack)
                    works[f"{attack}, one by one"] = partial(alone, at_once)
                seconds = medians(works, args.repeats)
            for attack in args.attacks:
                clean, now, before = seconds["none"], seconds[attack], seconds[f"{attack}, one by one"]
                row = {"threads": threads, "rule": rule, "attack": attack, "none ms": 1e3 * clean}
                row |= {"at once ms": 1e3 * now, "one by one ms": 1e3 * before, "at once / none": now / clean}
                rows.append(row | {"one by one / none": before / clean, "one by one / at once": before / now})
    print(f"rounds of {args.setting}, {', '.join(OPTIONS)}, medians of {args.repeats}")
    report(rows, args.csv)


if __name__ == "__main__":
    main()
