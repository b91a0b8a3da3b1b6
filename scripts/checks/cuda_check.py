"""Everything to ask of a machine with a GPU, in one command; fill_device.sh then makes runs on it.

    python scripts/checks/cuda_check.py [--device cuda] [--output results/cuda] [--sections NAME ...] [--seconds 600]

It asks, section by section: does every part compute on the device what it does on a CPU (``LIMITS``: as a share
of how far the model moves, or of the largest number), are products as exact as ``precision`` says and two runs equal
bit by bit, are the cells of a sweep that are trained together those that are trained alone, how do the rules' times
compare with their bounds, how many operations does a step call, how many rounds a second are there beside a CPU, and
how much memory do they take. A section is a CSV file in ``--output``. What is in a file is not asked again, so the same
command goes on after ``--seconds`` or an interruption; remove a file to ask anew. It exits with 1 if an answer is
wrong. ``--tiny`` is a check of this script.
"""

import argparse
import csv
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.append(str(Path(__file__).resolve().parents[1] / "benches"))
from benches import conditions, medians  # first: sets how idle threads wait

# isort: split
import numpy as np
import torch
from bench_models import draw, made
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from robustfl_bench.doors.testing import example_round, example_server
from robustfl_bench.interfaces import Aggregator, ConfigError, ServerView
from robustfl_bench.numerics.network import side_by_side
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.recorded import KINDS
from robustfl_bench.numerics.network.samples import Batch, Population, Samples
from robustfl_bench.numerics.network.side_by_side import SideBySide
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts import datasets
from robustfl_bench.parts.local_updates.fedsgd import FedSgd
from robustfl_bench.parts.local_updates.local_sgd import LocalSgd
from robustfl_bench.runner.config import compose, options, targets
from robustfl_bench.runner.experiment.machine import choose_device
from robustfl_bench.runner.experiment.plan import plan
from robustfl_bench.train import loop
from robustfl_bench.train.federation import federation_of
from robustfl_bench.train.metrics import METRICS
from robustfl_bench.train.precision import set_precision
from robustfl_bench.train.rounds import initial_state
from robustfl_bench.train.stack import Stack

LIMITS = {
    "runs": 1e-3,  # the model after two rounds, as a share of how far it moved: float32, added up in another order
    "gradients": 2e-3,  # of their length; float32 alone makes 6e-4 of it with resnet20
    "aggregates": 1e-4,  # of their length
    "products": 1e-5,  # of float32; TF32 is wrong by 3e-4 and more
    "loss": 1e-2,  # after the rounds of a golden run, relative
}
BASE = ("model.hidden=[16]", "num_clients=12", "num_byzantine=3", "eval_every=2", "batch_size=64")
ALONE = ("aggregator=average", "attack=none", "num_byzantine=0")
GOLDEN = {
    "average": ("aggregator=average", "attack=none"),
    "boba, ipm": ("aggregator=boba", "attack=ipm"),
    "trmean, lie, fedavg": ("aggregator=trmean", "attack=lie", "local_update=fedavg", "batch_size=16"),
    "krum, nnm, momentum": ("aggregator=krum", "attack=gauss", "pre_aggregation=nnm", "local_update=momentum"),
}
STACKED = ("krum", "trmean", "boba")  # rules of cells that are trained together
STEPWISE = ("gru", "lstm", "resnet20")  # models of many small operations
CLASSES, VOCABULARY = 10, 40


@dataclass(frozen=True)
class Setup:
    """The device that is asked, and the sizes."""

    device: torch.device
    tiny: bool

    def of(self, size: int, tiny: int) -> int:
        """A size, or the one for a check of this script."""
        return tiny if self.tiny else size

    def wait(self) -> None:
        """Let the device finish."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


Answer = dict[str, object]
Question = tuple[str, Callable[[], Answer]]


def judged(value: float, limit: float, unit: str = "") -> Answer:
    """An answer with a limit; nan is not within any."""
    return {"value": value, "unit": unit, "limit": limit, "verdict": "ok" if value <= limit else "WRONG"}


def measure(value: float, unit: str) -> Answer:
    """An answer that is a measurement."""
    return {"value": value, "unit": unit, "limit": "", "verdict": ""}


def rule_of(name: str, f: int) -> Aggregator:
    """A rule as its YAML makes it for ``f`` attackers."""
    made: Aggregator = targets.build(
        compose.resolve([f"aggregator={name}", f"num_byzantine_declared={f}"]).config["aggregator"]
    )
    return made


def server_on(device: torch.device, clients: int, d: int) -> ServerView:
    """A server on a device, as the engine would make it."""
    classes = torch.randn(4, d, generator=torch.Generator().manual_seed(0))
    return replace(
        example_server(classes.to(device), clients=clients),
        counts=torch.ones(clients, dtype=torch.float64, device=device),
        losses_of=lambda params, chosen: torch.zeros(clients, dtype=torch.float64, device=device),
    )


# --- parts: the same as on a CPU -------------------------------------------------------------------------------------


def trained(device: torch.device, *overrides: str) -> tuple[Tensor, Tensor, float]:
    """The model after a run on the digits, how far it is from the first one, both on the CPU, and its test loss."""
    planned = plan(compose.resolve(overrides).config)
    federation = federation_of(planned.settings, planned.parts, datasets.load(planned.parts.dataset, None, device))
    set_precision(planned.settings.precision, device)
    start = initial_state(federation)
    *_, (state, record) = loop.run(federation, start, metrics=METRICS)
    assert record is not None
    return state.params.cpu(), (state.params - start.params).cpu(), record["test_loss"]


def trained_together(device: torch.device, cells: Sequence[Sequence[str]]) -> tuple[list[Tensor], bool]:
    """The models after runs on the digits that go in step, as a sweep trains them, on the CPU, and whether their
    gradients were computed together."""
    plans = [plan(compose.resolve(overrides).config) for overrides in cells]
    data = datasets.load(plans[0].parts.dataset, None, device)
    set_precision(plans[0].settings.precision, device)
    federations = [federation_of(planned.settings, planned.parts, data) for planned in plans]
    states, stack = [initial_state(federation) for federation in federations], Stack()
    runs = [loop.run(*begun, metrics=METRICS) for begun in zip(federations, states, strict=True)]
    for _ in range(plans[0].settings.rounds):
        stack.prepare(list(zip(federations, states, strict=True)))
        states = [next(run)[0] for run in runs]
    return [state.params.cpu() for state in states], bool(federations[0].prepared.gradients)


def compared(setup: Setup, *overrides: str) -> Answer:
    """How far the model after a short run is from that of a CPU."""
    overrides = (*BASE, *overrides)
    try:
        expected, moved, _ = trained(torch.device("cpu"), *overrides)
    except ConfigError as error:
        return {"value": "", "unit": "", "limit": "", "verdict": f"refused on a CPU: {error}"}
    found, _, _ = trained(setup.device, *overrides)
    return judged(float((found - expected).abs().max() / moved.abs().max()), LIMITS["runs"], "of the step")


def every(group: str, *overrides: str) -> Callable[[Setup], Iterator[Question]]:
    """Runs with every option of a group."""

    def section(setup: Setup) -> Iterator[Question]:
        for name in options.names(group):
            yield name, partial(compared, setup, *overrides, f"rounds={setup.of(2, 1)}", f"{group}={name}")

    return section


def rules(setup: Setup) -> Iterator[Question]:
    """The aggregate of every rule of updates under label skew, with IPM attackers."""
    updates, _ = example_round(0, d=setup.of(10_000, 50))

    def ask(name: str) -> Answer:
        rule, found = rule_of(name, 3), []
        for device in (torch.device("cpu"), setup.device):
            given = Updates(updates.matrix.to(device), updates.counts.to(device))
            found.append(rule(given, server_on(device, updates.n, updates.d)).vector.cpu())
        return judged(float((found[1] - found[0]).norm() / found[0].norm()), LIMITS["aggregates"], "relative")

    for name in options.names("aggregator"):
        yield name, partial(ask, name)


def local_updates(setup: Setup) -> Iterator[Question]:
    """Runs with every local update, and with clients that differ in samples and steps."""
    few = ("participation=0.25",) if setup.tiny else ()  # of clients who remember nothing

    def passes(name: str) -> tuple[str, ...]:
        epochs = ("local_update.epochs=2",) if options.load(f"local_update/{name}").get("epochs") else ()
        return (*epochs, *few) if epochs or name in ("fedavg_clipped", "fedprox", "private") else ()

    whole = [(name, (f"local_update={name}", *passes(name))) for name in options.names("local_update")]
    more = [
        ("fedavg, unequal clients", ("local_update=fedavg", *passes("fedavg"), "partition=dirichlet")),
        ("fedsgd, unequal clients", ("local_update=fedsgd", "partition=dirichlet", "batch_size=null")),
        ("local_sgd, stragglers", ("local_update=local_sgd", "availability=unreliable")),
        ("local_sgd in epochs", ("local_update=local_sgd", "local_update.steps=null", "local_update.epochs=2", *few)),
        ("ifca", ("clustering=ifca",)),
    ]
    for name, overrides in whole + more:
        yield name, partial(compared, setup, "rounds=2", *ALONE, *overrides)


def models(setup: Setup) -> Iterator[Question]:
    """The gradients of three clients with models of their own and at a common model, for every model."""

    draw = torch.Generator().manual_seed(0)
    images, labels = torch.randn(8, 3, 32, 32, generator=draw), torch.randint(CLASSES, (8,), generator=draw)
    texts, vectors = torch.randint(1, VOCABULARY, (8, 12), generator=draw), torch.randn(VOCABULARY, 6, generator=draw)
    vectors[0] = 0  # of the padding
    points = torch.randn(8, 6, generator=draw)
    by_content = {"numbers": (images, labels, CLASSES), "words": (texts, labels, CLASSES)}
    by_content["characters"] = (texts, labels, VOCABULARY)
    by_name = {"linear_regression": (points, points[:, 0], 1), "mean": (points, points, 6)}

    def ask(name: str) -> Answer:
        model = targets.build(compose.resolve([f"model={name}"]).config["model"])
        x, y, outputs = by_name.get(name) or by_content[model.reads]
        words = vectors if model.reads == "words" else None
        found = []
        for device in (torch.device("cpu"), setup.device):
            network = Network(model, tuple(x.shape[1:]), outputs, 0, words, name in by_name).to(device)
            stack = network.initial.expand(3, -1) * torch.tensor([[1.0], [1.01], [1.02]], device=device)
            out, batch = torch.empty(2, 3, network.dim, device=device), Batch(x.to(device), y.to(device), (3, 2, 3))
            network.own_gradients(stack, batch, out[0])
            network.gradients(network.initial, batch, out[1])
            found.append(out.cpu())
        return judged(float((found[1] - found[0]).norm() / found[0].norm()), LIMITS["gradients"], "relative")

    for name in options.names("model"):
        if not (setup.tiny and name == "vgg16"):
            yield name, partial(ask, name)


def golden(setup: Setup) -> Iterator[Question]:
    """Runs of many rounds: they end as on a CPU, and twice with the same bits."""

    def ends(overrides: tuple[str, ...]) -> Answer:
        losses = [trained(device, *overrides)[2] for device in (torch.device("cpu"), setup.device)]
        return judged(abs(losses[1] / losses[0] - 1), LIMITS["loss"], "of the test loss")

    def differing(overrides: tuple[str, ...]) -> Answer:
        first, second = (trained(setup.device, *overrides)[0] for _ in range(2))
        return judged(float((first != second).sum()), 0, "parameters that differ")

    rounds = f"rounds={setup.of(50, 3)}"
    for name, overrides in GOLDEN.items():
        yield name, partial(ends, (*overrides, rounds))
        yield f"{name}, twice", partial(differing, (*overrides, rounds))


def stacks(setup: Setup) -> Iterator[Question]:
    """Cells of a sweep: trained in step they have the bits of each alone, whether or not they share gradients."""

    def differing(cells: Sequence[Sequence[str]]) -> Answer:
        together, shared = trained_together(setup.device, cells)
        alone = [trained(setup.device, *cell)[0] for cell in cells]
        number = sum(int((first != second).sum()) for first, second in zip(together, alone, strict=True))
        return judged(number, 0, f"parameters that differ, gradients {'shared' if shared else 'apart'}")

    common = (*BASE, f"rounds={setup.of(10, 2)}")
    for attack in ("ipm", "lie"):
        cells = [(*common, f"aggregator={rule}", f"attack={attack}") for rule in STACKED]
        yield f"rules, {attack}", partial(differing, cells)
    rates = [(*common, "aggregator=krum", "attack=ipm", f"lr={lr}") for lr in (0.1, 1)]
    yield "rates, krum", partial(differing, rates)


# --- the machine -----------------------------------------------------------------------------------------------------


def exactness(setup: Setup) -> Iterator[Question]:
    """How exact products are under precision=highest, which must rule out TF32; under the others for the record."""

    def error(precision: str, convolution: bool) -> float:
        set_precision(precision, setup.device)
        draw, size = torch.Generator().manual_seed(0), setup.of(1024, 64)
        a, b = torch.randn(size, size, generator=draw), torch.randn(size, size, generator=draw)
        if convolution:
            images, filters = a.view(-1, 4, 8, 8), b.flatten()[: 16 * 4 * 9].view(16, 4, 3, 3)
            exact = torch.conv2d(images.double(), filters.double())
            found = torch.conv2d(images.to(setup.device), filters.to(setup.device)).cpu()
        else:
            exact, found = a.double() @ b.double(), (a.to(setup.device) @ b.to(setup.device)).cpu()
        set_precision("highest", setup.device)
        return float((found - exact).abs().max() / exact.abs().max())

    def ask(precision: str, convolution: bool) -> Answer:
        value = error(precision, convolution)
        return judged(value, LIMITS["products"], "relative") if precision == "highest" else measure(value, "relative")

    for kind, convolution in (("products", False), ("convolutions", True)):
        for precision in ("highest", "high", "medium"):
            yield f"{kind}, {precision}", partial(ask, precision, convolution)


# --- times -----------------------------------------------------------------------------------------------------------


def bounds(setup: Setup) -> Iterator[Question]:
    """Times of the rules on updates of BOBA's MLP beside what they cannot do without, which is measured first."""
    n, d, repeats = setup.of(115, 12), setup.of(199_210, 300), setup.of(5, 1)
    matrix, server = torch.randn(n, d, device=setup.device), server_on(setup.device, n, d)

    def timed(work: Callable[[], object]) -> Answer:
        def whole() -> None:
            work()
            setup.wait()

        return measure(1e3 * medians({"it": whole}, repeats)["it"], "ms")

    yield "reading", lambda: timed(matrix.sum)
    yield "Gram", lambda: timed(lambda: Updates(matrix).gram)
    yield "Gram float32", lambda: timed(lambda: matrix @ matrix.T)
    yield "sort", lambda: timed(lambda: matrix.sort(dim=0))
    for name in options.names("aggregator"):
        rule = rule_of(name, n // 8)
        try:
            rule.check(n)
        except ConfigError:
            continue
        yield name, lambda rule=rule: timed(lambda: rule(Updates(matrix), server))  # type: ignore[misc]


class Calls(TorchDispatchMode):
    """While it is entered, ``number`` counts the operations that are called, without views."""

    number = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.number += not func.is_view
        return func(*args, **(kwargs or {}))


def operations(setup: Setup) -> Iterator[Question]:
    """How many operations the gradients of four clients call, with inputs of the models' data sets."""

    def ask(name: str) -> Answer:
        network, dataset = made(name)
        x, y = draw(network, dataset, 8)
        network.to(setup.device)
        batch = Batch(x.to(setup.device), y.to(setup.device), (2,) * 4)
        out = torch.empty(4, network.dim, device=setup.device)
        network.gradients(network.initial, batch, out)
        with Calls() as calls:  # type: ignore[no-untyped-call]
            network.gradients(network.initial, batch, out)
        return measure(calls.number, "operations")

    for name in STEPWISE:
        yield name, partial(ask, name)


def rounds(setup: Setup) -> Iterator[Question]:
    """Local training of many clients, the milliseconds of a round: on the device as it comes, with its operations
    called one by one, without kernels, and on the CPU; and the device's peak of memory."""
    clients = setup.of(100, 3)
    ways: dict[str, tuple[torch.device, bool, bool]] = {
        "": (setup.device, True, True),
        ", one by one": (setup.device, False, True),
        ", by autograd": (setup.device, False, False),
        ", CPU": (torch.device("cpu"), False, False),
    }

    def rate(name: str, held: int, batch: int | None, steps: int, way: str) -> Answer:
        device, are_recorded, have_kernels = ways[way]
        network, dataset = made(name)
        x, y = draw(network, dataset, clients * held)
        network.to(device)
        population = Population(x.to(device), y.to(device), np.split(np.arange(len(y)), clients))
        out, everyone = torch.empty(clients, network.dim, device=device), range(clients)
        local = FedSgd() if steps == 1 else LocalSgd(steps=steps)

        def work() -> None:
            local(network, network.initial, Samples(population, everyone, everyone, 0, "batches", 0, batch), 0.1, out)
            setup.wait()

        with (
            patch.object(side_by_side, "KINDS", KINDS if are_recorded else set()),
            patch.object(SideBySide, "_is_by_kernels", SideBySide._is_by_kernels if have_kernels else lambda *_: False),
        ):
            work()  # the second time records
            return measure(1e3 * medians({"it": work}, setup.of(3, 1))["it"], "ms")

    cases: dict[str, tuple[str, int, int | None, int]] = {
        "mlp, all samples": ("mlp", 600, None, 1),
        "mlp, batches": ("mlp", 600, 64, 1),
        "lenet, 3 steps": ("lenet", 600, 32, 3),
        "gru, all texts": ("gru", 750, None, 1),
        "resnet20, batches": ("resnet20", 64, 16, 1),
    }
    for what, (name, held, batch, steps) in cases.items():
        if setup.tiny and name == "resnet20":
            continue
        for way in ways:
            if way != ", by autograd" or name == "gru":
                yield what + way, partial(rate, name, setup.of(held, 8), batch and setup.of(batch, 4), steps, way)
        if setup.device.type == "cuda":
            yield f"{what}, memory", lambda: measure(torch.cuda.max_memory_allocated(setup.device) / 2**30, "GiB, peak")


SECTIONS: dict[str, Callable[[Setup], Iterator[Question]]] = {
    "exactness": exactness,
    "models": models,
    "rules": rules,
    "pre_aggregations": every("pre_aggregation", "attack=ipm", "aggregator=krum"),
    "attacks": every("attack", "aggregator=trmean", "byzantine_placement=replace"),
    "local_updates": local_updates,
    "server_optimizers": every("server_optimizer", *ALONE),
    "golden": golden,
    "stacks": stacks,
    "bounds": bounds,
    "operations": operations,
    "rounds": rounds,
}
COLUMNS = ("case", "value", "unit", "limit", "verdict")


def check(setup: Setup, output: Path, sections: list[str], seconds: float) -> int:
    """Ask what is not answered yet; the exit code."""
    end = time.monotonic() + seconds
    wrong: list[str] = []
    output.mkdir(parents=True, exist_ok=True)
    for section in sections:
        path, known = output / f"{section}.csv", {}
        if path.is_file():
            with path.open(newline="") as file:
                known = {row["case"]: row for row in csv.DictReader(file)}
        with path.open("a", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            if not known:
                writer.writeheader()
            for case, work in SECTIONS[section](setup):
                if case not in known:
                    if time.monotonic() >= end:
                        print(f"time is up in section {section}: the same command goes on")
                        return 1 if wrong else 0
                    known[case] = {"case": case} | _answer(work)
                    writer.writerow(known[case])
                    file.flush()
        bad = [row for row in known.values() if str(row["verdict"]).startswith(("WRONG", "ERROR"))]
        wrong += [f"{section}, {row['case']}: {row['verdict']} {row['value']}" for row in bad]
        print(f"{section}: {len(known)} asked, {len(bad)} wrong, in {path}")
    print(*wrong, sep="\n")
    return 1 if wrong else 0


def _answer(work: Callable[[], Answer]) -> Answer:
    try:
        return work()
    except Exception as error:
        line = " ".join(str(error).split())[:300]
        return {"value": "", "unit": "", "limit": "", "verdict": f"ERROR {type(error).__name__}: {line}"}


def main() -> None:
    """Ask."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument(
        "--output", type=Path, default=Path("results/cuda"), help="folder of the answers (%(default)s)"
    )
    arguments.add_argument("--sections", nargs="+", choices=SECTIONS, default=list(SECTIONS), help="(all)")
    arguments.add_argument("--tiny", action="store_true", help="sizes for a check of this script")
    arguments.add_argument("--device", default="cuda", help="cuda, cuda:N or cpu (%(default)s)")
    arguments.add_argument("--seconds", type=float, default=600, help="then it stops, to be gone on with (%(default)s)")
    asked = arguments.parse_args()
    try:
        setup = Setup(choose_device(asked.device), asked.tiny)
    except ConfigError as error:
        arguments.exit(2, f"{error}\n")
    print(conditions())
    sys.exit(check(setup, asked.output, asked.sections, asked.seconds))


if __name__ == "__main__":
    main()
