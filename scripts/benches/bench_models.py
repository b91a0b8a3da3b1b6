"""Time of a round's client gradients with every model, beside plain autograd, client by client.

    python scripts/benches/bench_models.py [--models NAME ...] [--clients 16] [--samples 16] [--threads 1 2]
        [--repeats 3] [--csv FILE] [--png FOLDER]

A model gets random inputs with the shapes of the data set that the command in its file of ``conf/model`` names (MNIST
where it names none). The loop is that of ``bench_rounds.py``: one module, one client after the other, on as many
threads of PyTorch. Both give the same gradients, which is checked before anything is timed. All figures are medians of
one run, taken in turn; compare ratios, not seconds.
"""

import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from benches import conditions, measured, medians, parser, report  # first: sets how idle threads wait

# isort: split
import pandas as pd
import torch
from bench_rounds import by_torch, plain_loop
from torch import Tensor

from robustfl_bench.config import compose, options, targets
from robustfl_bench.config.options import CONF
from robustfl_bench.interfaces import Dataset
from robustfl_bench.network.network import Network
from robustfl_bench.network.samples import Batch
from robustfl_bench.pages.pictures import bars
from robustfl_bench.pages.pictures.canvas import save

WORDS = 10_000  # of a vocabulary
LIMIT = 2e-3  # by which the gradients may differ, as a share of their length
ENGINE, LOOP = "robustfl_bench", "plain loop"


def dataset_of(model: str) -> str:
    """The data set in the command of a model's file."""
    named = re.search(r"dataset=(\w+)", (CONF / "model" / f"{model}.yaml").read_text())
    return named[1] if named else "mnist"


def draw(network: Network, dataset: Dataset, number: int) -> tuple[Tensor, Tensor]:
    """Random samples (x, y) like those of a data set."""
    shape, outputs = (number, *dataset.input_shape), dataset.num_classes
    known = {"words": WORDS, "characters": outputs}
    x = torch.randint(known[dataset.content], shape) if dataset.content in known else torch.randn(shape)
    y = torch.randn(number, outputs).squeeze(1) if network.regression else torch.randint(outputs, (number,))
    return x, y


def made(model: str) -> tuple[Network, Dataset]:
    """The network of a model for its data set."""
    config = compose.resolve([f"model={model}", f"dataset={dataset_of(model)}"]).config
    dataset: Dataset = targets.build(config["dataset"])
    vectors = torch.randn(WORDS, dataset.embedding_dim) if dataset.content == "words" else None
    regression = dataset.source is not None and dataset.source.is_drawn
    part = targets.build(config["model"])
    return Network(part, dataset.input_shape, dataset.num_classes, 0, vectors, regression), dataset


def works(network: Network, batch: Batch, threads: int) -> dict[str, Callable[[], object]]:
    """What is timed for a model: the engine and the loop, which were found to give the same."""
    out, expected = (torch.empty(len(batch.sizes), network.dim) for _ in range(2))
    loop = by_torch(plain_loop(network, batch, expected), threads)

    def trained(work: Callable[[], object]) -> Callable[[], None]:
        def run() -> None:
            with network.noise(0) if network.stochastic else nullcontext():
                work()

        return run

    jobs = {ENGINE: trained(lambda: network.gradients(network.initial, batch, out)), LOOP: trained(loop)}
    for job in jobs.values():
        job()
    difference = float((out - expected).norm() / expected.norm())
    assert difference <= LIMIT, f"the gradients differ by {difference:.1g} of their length"
    return jobs


def main() -> None:
    """Print the table."""
    every = options.names("model")
    arguments = parser(__doc__)
    arguments.set_defaults(repeats=3)
    arguments.add_argument("--models", nargs="+", choices=every, default=every, metavar="NAME", help="(all)")
    arguments.add_argument("--clients", type=int, default=16, help="honest clients (16)")
    arguments.add_argument("--samples", type=int, default=16, help="of a client in a round (16)")
    arguments.add_argument("--png", type=Path, help="a folder for the picture")
    args = arguments.parse_args()
    print(conditions())
    print(f"{args.clients} clients with batches of {args.samples}, medians of {args.repeats}")
    rows = []
    for model in args.models:
        network, dataset = made(model)
        torch.manual_seed(0)
        batch = Batch(*draw(network, dataset, args.clients * args.samples), (args.samples,) * args.clients)
        for threads in args.threads:
            with measured(threads):
                seconds = medians(works(network, batch, threads), args.repeats)
            rows.append(
                {"model": model, "data": dataset.name, "d": network.dim, "threads": threads}
                | {f"{what}, ms": 1e3 * value for what, value in seconds.items()}
                | {"x loop": seconds[LOOP] / seconds[ENGINE]}
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
    save(bars.draw(pd.DataFrame(points), "ms", "", title, log=True), path, "--png")
    print(f"written: {path}")


if __name__ == "__main__":
    main()
