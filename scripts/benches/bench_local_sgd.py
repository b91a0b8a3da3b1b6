"""Rounds of local training against the same work as a plain PyTorch loop with one optimiser per client.

    python scripts/benches/bench_local_sgd.py [--clients 50] [--batch 32] [--steps 3] [--repeats 7] [--threads 1 2]
        [--device cpu] [--csv FILE]

MNIST's shapes under the MLP and the LeNet of RAGA, the loop's LeNet with feature maps in PyTorch's own layout. A
round: every client draws its batches, takes the steps from the server's model and writes the mean of its gradients
into its row of the round's matrix. The small MLP is that of the arena's phones: two passes over 100 samples, and the
difference of the models is sent. The loop has a module and an SGD optimiser for every client, loads the server's
model into it and sums the gradients beside the steps. Both use the same batches; the results are compared before
anything is timed. All figures are medians of one run, taken in turn; compare ratios, not seconds.
"""

import argparse
from collections.abc import Callable

import numpy as np
from benches import conditions, measured, medians, parser, report  # first: sets how idle threads wait

# isort: split
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from robustfl_bench.interfaces import Model
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Population, Samples
from robustfl_bench.parts.local_updates.fedavg import FedAvg
from robustfl_bench.parts.local_updates.local_sgd import LocalSgd
from robustfl_bench.parts.models.lenet import LeNet
from robustfl_bench.parts.models.mlp import Mlp

SHAPE, CLASSES, LR = (1, 28, 28), 10, 0.1
HELD, FEW = 600, 100  # samples of a client, and of one of the phones


def plain_loop(
    modules: list[nn.Module], start: Tensor, batches: list[list[tuple[Tensor, Tensor]]], out: Tensor, mean: bool
) -> None:
    """Fill the rows of ``out`` with the mean gradients that clients meet on their way through their ``batches``, one
    client after the other; without ``mean`` with the start minus the end."""
    for module, own, row in zip(modules, batches, out, strict=True):
        vector_to_parameters(start.clone(), module.parameters())
        optimizer = torch.optim.SGD(module.parameters(), lr=LR)
        row.zero_()
        for x, y in own:
            optimizer.zero_grad()
            functional.cross_entropy(module(x), y).backward()
            optimizer.step()
            if mean:
                row += parameters_to_vector([parameter.grad for parameter in module.parameters()])  # type: ignore[misc]
        if mean:
            row /= len(own)
        else:
            torch.sub(start, parameters_to_vector(module.parameters()).detach(), out=row)


def works(
    model: Model, plain: Model, passes: int, args: argparse.Namespace, device: torch.device
) -> dict[str, Callable[[], object]]:
    """The engine's round with ``model`` and the loop's with ``plain``, which were found to give the same; with
    ``passes`` that of local epochs."""
    network = Network(model, SHAPE, CLASSES, seed=0).to(device)
    draw = torch.Generator().manual_seed(0)
    held = FEW if passes else HELD
    x = torch.randn(args.clients * held, *SHAPE, generator=draw).to(device)
    y = torch.randint(CLASSES, (len(x),), generator=draw).to(device)
    population = Population(x, y, np.split(np.arange(len(y)), args.clients))
    everyone = range(args.clients)
    local = FedAvg(epochs=passes) if passes else LocalSgd(steps=args.steps)
    modules = [plain(SHAPE, CLASSES).to(device) for _ in everyone]
    out, expected = (torch.empty(args.clients, network.dim, device=device) for _ in range(2))

    def samples() -> Samples:
        return Samples(population, everyone, everyone, 0, "batches", 0, args.batch)

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    def engine() -> None:
        local(network, network.initial, samples(), LR, out)
        wait()

    def loop() -> None:
        drawn = samples()
        if passes:
            batches = [list(drawn.epochs(client, passes)) for client in everyone]
        else:
            steps = [drawn.batch(step).clients() for step in range(args.steps)]
            batches = [list(own) for own in zip(*steps, strict=True)]
        plain_loop(modules, network.initial, batches, expected, not passes)
        wait()

    engine()
    loop()
    torch.testing.assert_close(out, expected, rtol=1e-3, atol=1e-5)
    return {"robustfl_bench": engine, "plain loop": loop}


def main() -> None:
    """Print the table."""
    arguments = parser(__doc__)
    arguments.add_argument("--clients", type=int, default=50)
    arguments.add_argument("--batch", type=int, default=32)
    arguments.add_argument("--steps", type=int, default=3)
    arguments.add_argument("--device", default="cpu")
    args = arguments.parse_args()
    device = torch.device(args.device)
    print(conditions())
    print(f"{args.clients} clients, batches of {args.batch}, {args.steps} steps, {args.device}")
    models: dict[str, tuple[Model, Model, int]] = {
        "MLP": (Mlp((200, 100)), Mlp((200, 100)), 0),
        "LeNet": (LeNet(), LeNet(channels_last=False), 0),
        "small MLP, 2 epochs": (Mlp((32,)), Mlp((32,)), 2),
    }
    rows = []
    for threads in args.threads:
        for name, (model, plain, passes) in models.items():
            with measured(threads):
                seconds = medians(works(model, plain, passes, args, device), args.repeats)
            rows += [
                {"threads": threads, "model": name, "what": what, "rounds / s": 1 / value}
                | {"x loop": seconds["plain loop"] / value}
                for what, value in seconds.items()
            ]
    report(rows, args.csv)


if __name__ == "__main__":
    main()
