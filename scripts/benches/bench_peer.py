"""Times another library's rules in a process of its own, for bench_aggregators.py.

    python scripts/benches/bench_peer.py byzfl|byzpy THREADS

It needs nothing of this package, so that the library can live in a virtual environment of its own. The first line it
prints names its rules by our names, and its pre-aggregations and attacks, on the rows before the last F, as
``pre_aggregation=NAME`` and ``attack=NAME``. Then ``load FILE F`` reads a matrix (n, d) that NumPy saved, for F
attackers, and the name of a rule applies it as often as ``timed`` says and prints the seconds of a call.
"""

import importlib
import importlib.util
import math
import sys
import time
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

Rules = dict[str, Callable[[int], Callable[[torch.Tensor], object]]]

LONG = 0.003  # seconds for which calls are repeated, as a single short one is timed badly
SETS = 10_000  # subsets of clients, at most, for rules that try all of them


def timed(work: Callable[[], object]) -> float:
    """Processor seconds of a call, in all threads: the mean of as many calls as fit in a few milliseconds."""
    began, calls = time.process_time(), 0
    while calls == 0 or time.process_time() - began < LONG:
        work()
        calls += 1
    return (time.process_time() - began) / calls


def byzfl() -> Rules:
    """ByzFL's. The package itself imports torchvision; a package of the same name without its content does not."""
    spec = importlib.util.find_spec("byzfl")
    if spec is None:
        raise ImportError("byzfl")
    package = types.ModuleType("byzfl")
    package.__path__ = list(spec.submodule_search_locations or [])
    sys.modules["byzfl"] = package
    rules: Any = importlib.import_module("byzfl.aggregators.aggregators")
    before: Any = importlib.import_module("byzfl.aggregators.preaggregators")
    attacks: Any = importlib.import_module("byzfl.attacks.attacks")
    return {
        "average": lambda f: rules.Average(),
        "coomed": lambda f: rules.Median(),
        "trmean": lambda f: rules.TrMean(f),
        "meamed": lambda f: rules.Meamed(f),
        "krum": lambda f: rules.Krum(f),
        "mkrum": lambda f: rules.MultiKrum(f),
        "b_krum": lambda f: _after(before.Bucketing(2), rules.Krum(f)),
        "rfa": lambda f: rules.GeometricMedian(),
        "centered_clipping": lambda f: rules.CenteredClipping(),
        "caf": lambda f: rules.CAF(f),
        "monna": lambda f: rules.MoNNA(f),
        "mda": lambda f: _over_sets(rules.MDA(f), f),
        "smea": lambda f: _over_sets(rules.SMEA(f), f),
        "pre_aggregation=nnm": lambda f: before.NNM(f),
        "pre_aggregation=arc": lambda f: _of_a_copy(before.ARC(f)),
        "pre_aggregation=clipping": lambda f: _of_a_copy(before.Clipping()),
        "pre_aggregation=bucketing": lambda f: before.Bucketing(2),
        "attack=ipm": lambda f: _of_honest(attacks.InnerProductManipulation(10.0), f),
        "attack=lie": lambda f: _of_honest(attacks.ALittleIsEnough(1.5), f),
        "attack=sign_flip": lambda f: _of_honest(attacks.SignFlipping(), f),
        "attack=gauss": lambda f: _for_each_attacker(attacks.Gaussian(), f),
        "attack=mimic": lambda f: _of_honest(attacks.Mimic(), f),
    }


def byzpy() -> Rules:
    """byzpy's, which takes a list of vectors."""
    by_coordinate: Any = importlib.import_module("byzpy.aggregators.coordinate_wise")
    by_distance: Any = importlib.import_module("byzpy.aggregators.geometric_wise")
    by_norm: Any = importlib.import_module("byzpy.aggregators.norm_wise")
    before: Any = importlib.import_module("byzpy.pre_aggregators")

    def listed(rule: Any) -> Callable[[torch.Tensor], object]:
        return lambda matrix: rule.aggregate(list(matrix))

    def bucketed(f: int) -> Callable[[torch.Tensor], object]:
        rule, buckets = by_distance.Krum(f), before.Bucketing(2)
        return lambda matrix: rule.aggregate(buckets.pre_aggregate(list(matrix)))

    return {
        "coomed": lambda f: listed(by_coordinate.CoordinateWiseMedian()),
        "trmean": lambda f: listed(by_coordinate.CoordinateWiseTrimmedMean(f)),
        "meamed": lambda f: listed(by_coordinate.MeanOfMedians(f)),
        "krum": lambda f: listed(by_distance.Krum(f)),
        "mkrum": lambda f: lambda matrix: by_distance.MultiKrum(f, len(matrix) - f).aggregate(list(matrix)),
        "b_krum": bucketed,
        "geomed": lambda f: listed(by_distance.GeometricMedian()),
        "caf": lambda f: listed(by_norm.CAF(f)),
        "cge": lambda f: listed(by_norm.ComparativeGradientElimination(f)),
    }


def _after(first: Callable[[Any], Any], second: Callable[[Any], Any]) -> Callable[[torch.Tensor], object]:
    return lambda matrix: second(first(matrix))


def _of_a_copy(first: Any) -> Callable[[torch.Tensor], object]:
    """What writes into the matrix that it is given; on the second call nothing would be left to do."""
    return lambda matrix: first(matrix.clone())


def _of_honest(attack: Any, f: int) -> Callable[[torch.Tensor], object]:
    return lambda matrix: attack(matrix[: len(matrix) - f])


def _for_each_attacker(attack: Any, f: int) -> Callable[[torch.Tensor], object]:
    """An attack in which every attacker draws for itself, as with ours; the library copies one draw."""
    return lambda matrix: [attack(matrix[: len(matrix) - f]) for _ in range(f)]


def _over_sets(rule: Any, f: int) -> Callable[[torch.Tensor], object]:
    def work(matrix: torch.Tensor) -> object:
        if (sets := math.comb(len(matrix), f)) > SETS:
            raise ValueError(f"it tries all {sets:.0e} sets of clients")
        return rule(matrix)

    return work


def main() -> None:
    """Answer the lines of standard input."""
    rules = {"byzfl": byzfl, "byzpy": byzpy}[sys.argv[1]]()
    torch.set_num_threads(int(sys.argv[2]))
    print(*rules, flush=True)
    matrix, f = torch.empty(0, 0), 0
    for line in sys.stdin:
        word, *more = line.split()
        if word == "load":
            matrix, f = torch.from_numpy(np.load(more[0])), int(more[1])
            continue
        rule = rules[word](f)
        try:
            seconds = timed(lambda: rule(matrix))  # noqa: B023 # it is called at once
        except Exception as error:
            print("failed:", " ".join(str(error).split())[:200], flush=True)
        else:
            print(seconds, flush=True)


if __name__ == "__main__":
    main()
