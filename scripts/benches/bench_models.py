"""Time of a round's client gradients with every model, beside plain autograd, client by client.

    python scripts/benches/bench_models.py [--models NAME ...] [--clients 16] [--samples 16] [--threads 1 2]
        [--repeats 3] [--before COMMIT] [--cpu] [--csv FILE] [--png FOLDER]

A model gets random inputs with the shapes of the data set that the command in its file of ``conf/model`` names (MNIST
where it names none). The loop is that of ``bench_rounds.py``: one module, one client after the other, on as many
threads of PyTorch. ``vmap`` is ``vmap(grad)`` of PyTorch over the clients at once, where it can batch a network.
``--before`` adds the engine as of another commit, in this process, and a processor with units for bfloat16 the engine
with ``precision=medium``, for the networks that use them. All give the same gradients, within ``LIMITS``, which is
checked before anything is timed. All figures are medians of one run, taken in turn; compare ratios, not seconds.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

# first: sets how idle threads wait
from benches import as_of, conditions, measured, medians, parser, part_of, picture, report

# isort: split
import pandas as pd
import torch
from bench_rounds import by_torch, plain_loop
from torch import Tensor
from torch.func import functional_call, grad, vmap

from robustfl_bench.interfaces import Dataset
from robustfl_bench.numerics.network.bfloat16 import rounded
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Batch
from robustfl_bench.read.pages.pictures.points import draw_bars
from robustfl_bench.runner.config import options
from robustfl_bench.runner.config.options import CONF

WORDS = 10_000  # of a vocabulary
ENGINE, LOOP, VMAP, BEFORE, ROUNDED = "robustfl_bench", "plain loop", "vmap", "engine before", "bfloat16"
LIMITS = {LOOP: 1e-2, VMAP: 1e-2, BEFORE: 1e-2, ROUNDED: 0.15}
"""By which the gradients may differ, as a share of their length: masks and winners of poolings flip."""


def dataset_of(model: str) -> str:
    """The data set in the command of a model's file."""
    named = re.search(r"dataset=(\w+)", (CONF / "model" / f"{model}.yaml").read_text())
    return named[1] if named else "mnist"


def draw(network: Network, dataset: Dataset, number: int) -> tuple[Tensor, Tensor]:
    """Random samples (x, y) like those of a data set."""
    shape, outputs = (number, *dataset.input_shape), dataset.num_classes
    known = {"words": WORDS, "characters": outputs}
    first = int(dataset.content == "words")  # 0 is padding, which stands behind texts alone
    x = torch.randint(first, known[dataset.content], shape) if dataset.content in known else torch.randn(shape)
    y = torch.randn(number, outputs).squeeze(1) if network.regression else torch.randint(outputs, (number,))
    return x, y


def made(model: str, package: str = "robustfl_bench") -> tuple[Any, Any]:
    """The network of a model for its data set, by a version of this package."""
    resolve = part_of(package, "config.compose:resolve", "config.presets:resolve")
    build = part_of(package, "config.targets:build")
    config = resolve([f"model={model}", f"dataset={dataset_of(model)}"]).config
    dataset = build(config["dataset"])
    draw = torch.Generator().manual_seed(0)
    vectors = torch.randn(WORDS, dataset.embedding_dim, generator=draw) if dataset.content == "words" else None
    regression = dataset.source is not None and dataset.source.is_drawn
    network = part_of(package, "network.network:Network", "engine.network:Network")
    return network(build(config["model"]), dataset.input_shape, dataset.num_classes, 0, vectors, regression), dataset


@contextmanager
def in_training(network: Network) -> Iterator[None]:
    """The module of a network with the draws of PyTorch's generator for seed 0, if it has dropout."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network.module.train(network.stochastic)
        try:
            yield
        finally:
            network.module.eval()


def by_vmap(network: Network, batch: Batch, out: Tensor) -> Callable[[], object] | None:
    """The gradients of all clients at once by ``vmap(grad)``; None for a network that it cannot batch, and with
    dropout, whose draws are each client's own."""
    if network.stochastic:
        return None
    module, clients = network.module, len(batch.sizes)
    params = {name: parameter.detach() for name, parameter in module.named_parameters()}

    def loss(params: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        value: Tensor = network.criterion(functional_call(module, params, (x,)), y)
        return value

    def work() -> None:
        found = vmap(grad(loss), (None, 0, 0))(
            params, *(part.unflatten(0, (clients, -1)) for part in (batch.x, batch.y))
        )
        torch.cat([each.flatten(1) for each in found.values()], dim=1, out=out)

    try:
        work()
    except RuntimeError:
        return None
    return work


def works(
    model: str, network: Network, batch: Batch, threads: int, before: str | None
) -> dict[str, Callable[[], object]]:
    """What is timed for a model: the engine, the loop and the engine of before, which were found to give the same.

    With dropout, every client has its own random stream, here all with the same seed.
    """
    results = {what: torch.empty(len(batch.sizes), network.dim) for what in (ENGINE, LOOP, VMAP, BEFORE, ROUNDED)}

    def clients(what: str) -> list[tuple[Batch, Tensor]]:
        parts = zip(batch.clients(), results[what].split(1), strict=True)
        return [(Batch(x, y, (len(y),)), row) for (x, y), row in parts]

    def by(network: Any, what: str, kind: Any) -> Callable[[], object]:
        def train(client: tuple[Batch, Tensor]) -> None:
            (own, row), sizes = client, client[0].sizes
            with network.noise(0):
                network.gradients(network.initial, kind(own.x, own.y, sizes), row)

        everyone, whole = clients(what), kind(batch.x, batch.y, batch.sizes)
        if network.stochastic:
            return lambda: network.each(train, everyone)
        return lambda: network.gradients(network.initial, whole, results[what])

    def plainly() -> None:
        for loop in loops:
            with in_training(network):
                loop()

    parts = clients(LOOP) if network.stochastic else [(batch, results[LOOP])]
    loops = [by_torch(plain_loop(network, *part), threads) for part in parts]
    jobs = {ENGINE: by(network, ENGINE, Batch), LOOP: plainly}
    if (at_once := by_vmap(network, batch, results[VMAP])) is not None:
        jobs[VMAP] = by_torch(at_once, threads)
    if before is not None:
        old, _ = made(model, before)
        jobs[BEFORE] = by(old, BEFORE, part_of(before, "network.samples:Batch", "engine.samples:Batch"))
    if (low := rounded(network)) is not None:
        jobs[ROUNDED] = by(low, ROUNDED, Batch)
    for job in jobs.values():
        job()
    for what in set(jobs) - {ENGINE}:
        difference = float((results[ENGINE] - results[what]).norm() / results[what].norm())
        assert difference <= LIMITS[what], (
            f"gradients differ from those of the {what} by {difference:.1g} of their length"
        )
    return jobs


def main() -> None:
    """Print the table."""
    every = options.names("model")
    arguments = parser(__doc__)
    arguments.set_defaults(repeats=3)
    arguments.add_argument("--models", nargs="+", choices=every, default=every, metavar="NAME", help="(all)")
    arguments.add_argument("--clients", type=int, default=16, help="honest clients (16)")
    arguments.add_argument("--samples", type=int, default=16, help="of a client in a round (16)")
    arguments.add_argument(
        "--cpu", action="store_true", help="seconds of the processor, for a machine that is not idle"
    )
    arguments.add_argument("--before", metavar="COMMIT", help="also time the engine as of this commit")
    arguments.add_argument("--png", type=Path, help="a folder for the picture")
    args = arguments.parse_args()
    before = as_of(args.before) if args.before else None
    in_threads = part_of(before, "base.parallel:workers", "parallel:workers") if before else lambda _: nullcontext()
    print(conditions())
    print(f"{args.clients} clients with batches of {args.samples}, medians of {args.repeats}{', CPU time' * args.cpu}")
    rows = []
    for model in args.models:
        network, dataset = made(model)
        torch.manual_seed(0)
        batch = Batch(*draw(network, dataset, args.clients * args.samples), (args.samples,) * args.clients)
        for threads in args.threads:
            with measured(threads), in_threads(threads):
                seconds = medians(works(model, network, batch, threads, before), args.repeats, args.cpu)
            rows.append(
                {"model": model, "data": dataset.name, "d": network.dim, "threads": threads}
                | {f"{what}, ms": 1e3 * value for what, value in seconds.items()}
                | {
                    f"x {what.split()[-1]}": seconds[what] / seconds[ENGINE]
                    for what in (LOOP, VMAP, BEFORE)
                    if what in seconds
                }
                | {f"x in {what}": seconds[ENGINE] / seconds[what] for what in (ROUNDED,) if what in seconds}
            )
    report(rows, args.csv)
    if args.png:
        draw_times(rows, args.png / "models.png", f"Gradients of {args.clients} clients, batches of {args.samples}")


def draw_times(rows: list[dict[str, object]], path: Path, title: str) -> None:
    """Bars of the engine and of the loop for every model, on each number of threads."""
    points = [
        {"line": f"{what}, threads={row['threads']}", "x": row["model"], "mean": row[f"{what}, ms"]}
        for row in rows
        for what in (ENGINE, LOOP)
    ]
    picture(draw_bars(pd.DataFrame(points), "Time [ms]", title, log=True), path)


if __name__ == "__main__":
    main()
