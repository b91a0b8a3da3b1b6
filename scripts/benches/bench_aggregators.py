"""Time of every aggregation rule beside what it cannot do without, and beside other libraries' rules.

    python scripts/benches/bench_aggregators.py [--n 25 115 500] [--d 10000 199210 1200000] [--shapes N,D ...]
        [--rules RULE ...] [--peers VENV ...] [--threads 2] [--repeats 7] [--csv FILE] [--png FOLDER] [--raced]

Times are processor seconds of a call, in all threads. ``--raced`` takes what another library has, and no more:
rules, pre-aggregations and attacks.
The bounds are measured in the same run: reading the matrix once (its sum), one Gram matrix in float64 and one in
float32 (bare products, without the blocks), and one numpy.sort of the rows of the transposed matrix. Aims: rules
computed from the Gram matrix at most 1.3 times that in float32; coordinate-wise rules at most 2 times the sort; rules
that need neither at most 3 times the reading. ByzFL and byzpy are measured where they are installed: in this Python or
in the virtual environments of ``--peers``, in processes of their own that take their turns among the rules.

What counts follows Fig. 3 of BOBA (Bao et al., AISTATS 2024): the server's own updates are there before BOBA and
FLTrust begin, but evaluating models (200 samples, an MLP) is part of SelfRej, AvgRej, Zeno and ByGARS. All take turns
and medians are printed, so that a passing load on the machine hits all alike.
"""

import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bench_peer import timed
from benches import conditions, measured, medians, n_and_d, parser, picture, report  # first: sets how idle threads wait

# isort: split
import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import pad

from robustfl_bench.doors.catalogue.entries import option
from robustfl_bench.doors.catalogue.measures import facts
from robustfl_bench.interfaces import ConfigError, ServerView
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.aggregators.average import Average
from robustfl_bench.parts.attacks.base import AttackView
from robustfl_bench.parts.models.mlp import Mlp
from robustfl_bench.read.pages.pictures.points import draw_bars
from robustfl_bench.read.pages.pictures.styles import GREY, RED, SKY
from robustfl_bench.runner.config import compose, targets
from robustfl_bench.runner.config.options import names, original

BY_LOSS = {"selfrej", "avgrej", "zeno", "bygars"}
BOUNDS = ("reading", "Gram", "Gram float32", "sort")
AIMS = {"sort": 2.0, "Gram float32": 1.3, "reading": 3.0}
LIBRARIES = ("byzfl", "byzpy")
CLASSES, INPUTS, SAMPLES = 10, 784, 200


def make_round(n: int, num_byzantine: int, d: int) -> tuple[Updates, ServerView]:
    """Updates as under label skew with two classes a client, the last ``num_byzantine`` being IPM attackers.

    Their lengths differ by up to two, as those of gradients do: of clients with the same classes none is like another.
    """
    rng = np.random.default_rng(0)
    corners = rng.standard_normal((CLASSES, d), dtype=np.float32)
    honest = rng.standard_normal((n - num_byzantine, d), dtype=np.float32) * 0.1
    honest += (
        corners[rng.integers(CLASSES, size=len(honest))] / 2 + corners[rng.integers(CLASSES, size=len(honest))] / 2
    )
    honest *= rng.uniform(1, 2, size=(len(honest), 1)).astype(np.float32)
    attack = np.repeat(-10 * honest.mean(axis=0, keepdims=True), num_byzantine, axis=0)
    return Updates(torch.from_numpy(np.concatenate([honest, attack]))), make_server(torch.from_numpy(corners), n, d)


def make_server(class_updates: Tensor, n: int, d: int) -> ServerView:
    """A server that evaluates an MLP with two equal hidden layers, the widest of at most ``d`` parameters: the first of
    each model."""
    width = max(h for h in range(1, 2000) if (INPUTS + 1) * h + (h + 1) * h + (h + 1) * CLASSES <= d)
    network = Network(Mlp((width, width)), (INPUTS,), CLASSES, seed=0)
    draws = torch.Generator().manual_seed(0)
    x = torch.randn(SAMPLES, INPUTS, generator=draws)
    y = torch.randint(CLASSES, (SAMPLES,), generator=draws)

    server = ServerView(
        params=0.05 * torch.randn(d, generator=draws),
        step_size=0.1,
        round=0,
        rng=np.random.default_rng(0),
        previous=None,
        clients=torch.arange(n),
        counts=torch.full((n,), 600.0, dtype=torch.float64),
        memory={},
        after=lambda vector: -0.1 * vector,
        losses_of=lambda params, clients: torch.zeros(len(clients)),
        train_per_class=lambda: class_updates,
        train_together=lambda: class_updates.mean(dim=0),
        loss=lambda models: network.losses(models[:, : network.dim], x, y),
        gradient=lambda model: pad(network.gradient(model[: network.dim], x, y), (0, d - network.dim)),
    )
    _ = server.class_updates, server.update  # what Fig. 3 leaves out
    return server


def attackers(share: float, n: int) -> int:
    """How many of ``n`` clients are attackers."""
    return max(1, int(share * n))


def build(name: str, f: int) -> Any:
    """The rule of this name, or what ``group=name`` names in another group."""
    group, _, option = name.rpartition("=")
    part = compose.resolve([f"{group or 'aggregator'}={option}", f"num_byzantine_declared={f}"]).config
    return targets.build(part[group][option] if group == "pre_aggregation" else part[group or "aggregator"])


def call(name: str, part: Any, matrix: Tensor, f: int, server: ServerView) -> Callable[[], object]:
    """The work of a rule, a pre-aggregation or an attack that meets the updates for the first time."""
    if name.startswith("pre_aggregation="):
        return lambda: part(Updates(matrix), server.rng).columns
    if not name.startswith("attack="):
        return lambda: part(Updates(matrix), server)
    honest = matrix[: len(matrix) - f]
    clients, label_counts = torch.arange(len(honest)), torch.arange(len(honest) * CLASSES).view(-1, CLASSES)

    def view() -> AttackView:
        return AttackView(
            honest=Updates(honest),
            clients=clients,
            n=len(matrix),
            num_byzantine=f,
            round=0,
            lr=0.1,
            params=server.params,
            previous=None,
            label_counts=label_counts,
            rng=server.rng,
            memory={},
            train_own=lambda params: matrix[len(honest) :],
            aggregate=lambda crafted: Average()(Updates(matrix), server),
            upload=lambda rows: rows,
            after=lambda vector: vector,
            assess=lambda models: (models.sum(dim=1).double(), None),
        )

    return lambda: part.craft(view())


@contextmanager
def peers(pythons: list[str], threads: int) -> Iterator[dict[str, tuple[set[str], Callable[[str], str]]]]:
    """Other libraries by name: our names of their rules, and a function that sends a line and returns the answer."""
    found: dict[str, tuple[set[str], Callable[[str], str]]] = {}
    with ExitStack() as stack:
        for library in LIBRARIES:
            for python in pythons:
                command = [python, str(Path(__file__).with_name("bench_peer.py")), library, str(threads)]
                pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
                child = stack.enter_context(subprocess.Popen(command, text=True, **pipes))  # type: ignore[call-overload]
                if rules := child.stdout.readline().split():
                    found[library] = set(rules), _asker(child)
                    break
            else:
                print(f"{library} left out: it is not installed in {', '.join(pythons)}", file=sys.stderr)
        yield found


def _asker(child: "subprocess.Popen[str]") -> Callable[[str], str]:
    def ask(line: str) -> str:
        assert child.stdin is not None and child.stdout is not None
        print(line, file=child.stdin, flush=True)
        return "" if line.startswith("load") else child.stdout.readline()

    return ask


def works(
    n: int, d: int, f: int, names: list[str], others: dict[str, tuple[set[str], Callable[[str], str]]], folder: Path
) -> dict[str, Callable[[], object]]:
    """What is timed for one shape: the bounds, the rules, and other libraries' as ``rule, library``."""
    updates, server = make_round(n, f, d)
    matrix = updates.matrix
    transposed = np.ascontiguousarray(matrix.numpy().T)
    jobs: dict[str, Callable[[], object]] = {
        "reading": partial(timed, matrix.sum),
        "Gram": partial(timed, lambda: Updates(matrix).gram),
        "Gram float32": partial(timed, lambda: matrix.numpy() @ matrix.numpy().T),
        "sort": partial(timed, lambda: np.sort(transposed, axis=1)),
    }
    if others:
        np.save(folder / "matrix.npy", matrix.numpy())
    for _, ask in others.values():
        ask(f"load {folder / 'matrix.npy'} {f}")
    for name in names:
        rule = build(name, f)
        try:
            if hasattr(rule, "check"):
                rule.check(n)
        except ConfigError as error:
            print(f"{name} left out: {error}", file=sys.stderr)
            continue
        jobs[name] = partial(timed, call(name, rule, matrix, f, server))
        for library, (rules, ask) in others.items():
            if name not in rules:
                continue
            if (answer := ask(name)).startswith("failed"):
                print(f"{name} of {library} left out: {answer.strip()}", file=sys.stderr)
            else:
                jobs[f"{name}, {library}"] = lambda ask=ask, name=name: float(ask(name))  # type: ignore[misc]
    return jobs


def rows_of(seconds: dict[str, float], shape: dict[str, object]) -> list[dict[str, object]]:
    """A line for every bound and rule: how it compares with the bounds, with the aim and with the fastest peer."""
    rows = []
    for name, value in sorted(seconds.items(), key=lambda item: item[1]):
        if ", " in name:
            continue
        ratios = {f"/ {bound}": value / seconds[bound] for bound in BOUNDS}
        theirs = {key.split(", ")[1]: other for key, other in seconds.items() if key.startswith(f"{name}, ")}
        row = shape | {"rule": name, "ms": 1e3 * value} | ratios | {"aim": _aim(name, value, seconds)}
        fastest = min(theirs, key=lambda library: theirs[library]) if theirs else ""
        row |= {library: 1e3 * theirs[library] if library in theirs else "" for library in LIBRARIES}
        rows.append(row | {"x fastest peer": theirs[fastest] / value if fastest else ""})
    return rows


def _aim(name: str, value: float, seconds: dict[str, float]) -> str:
    """Whether a rule is as close to its bound as it should be."""
    if name in BOUNDS or "=" in name:
        return ""
    if name in BY_LOSS:
        return "evaluates models"
    costs = " ".join(facts(option("aggregator", name)).words)
    bound = "Gram float32" if "Gram" in costs else "sort" if "sort" in costs else "reading"
    limit, ratio = AIMS[bound], value / (seconds[bound] + (seconds["sort"] if "Gram + 1 sort" in costs else 0))
    return f"{'met' if ratio <= limit else 'MISSED'}: <= {limit:g} {bound}"


def main() -> None:
    """Print the tables."""
    every = sorted({original("aggregator", name) for name in names("aggregator")})
    arguments = parser(__doc__)
    arguments.add_argument("--n", type=int, nargs="+", default=[115], help="clients, Byzantine included (115)")
    arguments.add_argument("--d", type=int, nargs="+", default=[199_210], help="parameters of the model (199210)")
    arguments.add_argument("--shapes", type=n_and_d, nargs="+", metavar="N,D", help="instead of all pairs of these")
    arguments.add_argument("--raced", action="store_true", help="what other libraries have")
    arguments.add_argument("--share", type=float, default=0.13, help="attackers among the clients (0.13)")
    arguments.add_argument("--rules", nargs="+", choices=every, default=every, metavar="RULE", help="(all but aliases)")
    arguments.add_argument("--peers", nargs="+", default=[], metavar="VENV", help="where other libraries are installed")
    arguments.add_argument("--png", type=Path, help="a folder for pictures, as in Fig. 3 of BOBA")
    options = arguments.parse_args()
    shapes = options.shapes or [(n, d) for n in options.n for d in options.d]
    if min(d for _, d in shapes) < INPUTS + CLASSES * 2 + 3:
        arguments.error(f"--d must be at least {INPUTS + CLASSES * 2 + 3}, the smallest MLP's size")
    print(conditions())
    pythons, rows = [sys.executable, *(str(Path(venv) / "bin" / "python") for venv in options.peers)], []
    with tempfile.TemporaryDirectory() as folder:
        for threads in options.threads:
            with peers(pythons, threads) as others, measured(threads):
                theirs = dict.fromkeys(name for rules, _ in others.values() for name in rules)
                for n, d in shapes:
                    f = attackers(options.share, n)
                    rules = sorted(theirs) if options.raced else options.rules
                    seconds = medians(works(n, d, f, rules, others, Path(folder)), options.repeats)
                    shape: dict[str, object] = {"n": n, "d": d, "f": f, "threads": threads}
                    rows += rows_of(seconds, shape)
                    if options.png:
                        draw(seconds, options.png / f"rules_n{n}_d{d}_threads{threads}.png", f"{n=}, {d=}, {threads=}")
    report(rows, options.csv)
    print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


def draw(seconds: dict[str, float], path: Path, title: str) -> None:
    """A bar for every bound and peer (grey) and rule (blue; those that evaluate models sky blue; BOBA red)."""
    ordered = sorted(seconds.items(), key=lambda item: item[1])
    points = pd.DataFrame([{"line": "", "x": name, "mean": 1e3 * value} for name, value in ordered])
    greys = [name for name in seconds if name in BOUNDS or ", " in name]
    colours = dict.fromkeys(BY_LOSS, SKY) | dict.fromkeys(greys, GREY) | {"boba": RED}
    label = "Time [ms] (sky blue: evaluates models)"
    picture(draw_bars(points, label, f"One aggregation: {title}", log=True, colours=colours), path)


if __name__ == "__main__":
    main()
