"""A network: its outputs, losses and gradients as functions of one flat parameter vector."""

import copy
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from robustfl_bench.base import seeding
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.parallel import each
from robustfl_bench.numerics.network import dense, least_squares
from robustfl_bench.numerics.network.dropout import draws_by_stream, has_dropout
from robustfl_bench.numerics.network.flat import CHUNK, FlatModule, flat_parameters
from robustfl_bench.numerics.network.gradients import OneByOne, chunks, gradients_of
from robustfl_bench.numerics.network.samples import Batch
from robustfl_bench.numerics.network.side_by_side import SideBySide

MODELS = 16  # small models evaluated together on a CPU
MODELS_NUMBERS = 1 << 20  # larger models: numbers of parameters together, so that they stay in the cache

Task = TypeVar("Task")
Result = TypeVar("Result")


def squared_error(outputs: Tensor, targets: Tensor, reduction: str = "mean") -> Tensor:
    """Squared Euclidean distances of outputs (N, t) from targets (N, t), or (N,) for t = 1; reduced as in PyTorch."""
    losses = (outputs - targets.view_as(outputs)).square().sum(dim=1)
    return losses if reduction == "none" else losses.sum() if reduction == "sum" else losses.mean()


class Network(FlatModule):
    """The network of a model for a given input shape, with initial parameters drawn by ``seed``.

    It has ``num_classes`` outputs under cross-entropy, or with ``regression`` as many numbers under squared error. The
    module must process every sample independently. A model of words also gets the word ``vectors`` (V, e).
    """

    def __init__(
        self,
        model: Callable[..., nn.Module],
        input_shape: tuple[int, ...],
        num_classes: int,
        seed: int,
        vectors: Tensor | None = None,
        regression: bool = False,
    ) -> None:
        words = [] if vectors is None else [vectors.cpu()]
        self._make, self._seed = partial(model, input_shape, num_classes, *words), seed
        self._name = type(model).__name__
        super().__init__(self._made("initial model"))
        self.stochastic, self._by_stream = has_dropout(self.module), draws_by_stream(self.module)
        self._noise = threading.local()  # with the random stream of the client that a thread trains
        self.num_classes, self.regression = num_classes, regression
        self.criterion: Callable[..., Tensor] = squared_error if regression else functional.cross_entropy
        self._linear = regression and least_squares.is_linear_regression(self.module)
        self._idle: list[OneByOne] = []
        self.side_by_side: SideBySide | None = None  # the clients' gradients on a GPU

    def _made(self, *name: str | int) -> nn.Module:
        # Modules initialise themselves from the global generator, so it is seeded by name here and restored afterwards.
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seeding.integer(self._seed, *name))
            return self._make()

    def check(self, x: Tensor) -> None:
        """Raise ConfigError unless the network accepts samples like ``x`` (N, ...) and returns N rows of outputs."""
        try:
            with torch.no_grad():
                found = self.module(x)
        except Exception as error:  # a user's module can raise any exception
            raise ConfigError(
                f"model {self._name} cannot take samples of shape {tuple(x.shape[1:])}: {' '.join(str(error).split())}"
            ) from error
        wanted = [(len(x), self.num_classes), *([(len(x),)] if self.regression else [])]
        if not isinstance(found, Tensor) or tuple(found.shape) not in wanted:
            got = f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
            raise ConfigError(f"model {self._name} must give {self.num_classes} outputs for each sample, shape "
                              f"{wanted[0]}, got {got}")  # fmt: skip

    @contextmanager
    def noise(self, seed: int) -> Iterator[None]:
        """Within this context the module is stochastic on a CPU (dropout), with its own random stream in each thread.

        On a GPU the noise comes with a batch, so that clients need not take turns.
        """
        if self._by_stream:
            self._noise.stream = torch.Generator().manual_seed(seed)
            try:
                yield
            finally:
                self._noise.stream = None
            return
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            self.module.train()
            try:
                yield
            finally:
                self.module.eval()

    @property
    def _stream(self) -> torch.Generator | None:
        """The random stream of the dropout in this thread; None where dropout is off."""
        stream: torch.Generator | None = getattr(self._noise, "stream", None)
        return stream

    def another_initial(self, number: int) -> Tensor:
        """Initial parameters (d,), drawn independently for every ``number``; number 0 gives ``initial``."""
        return flat_parameters(self._made("initial model", number)).to(self.initial.device) if number else self.initial

    @property
    def together(self) -> int:
        """How many clients with a model each are best computed together: all on a GPU; on a CPU as many as fit into the
        cache if the network is a single layer, else one, because a product over clients would read every client's
        weights for each of its samples."""
        if self.side_by_side is not None:
            return sys.maxsize
        one_layer = self._linear or (not self.regression and dense.is_dense(self.module) and len(self.slots) == 2)
        return max(1, dense.CACHED // self.dim) if one_layer else 1

    def to(self, device: torch.device) -> "Network":
        """Move buffers and the initial vector to ``device``; returns self."""
        self.move(device)
        self._idle.clear()
        self.side_by_side = None if device.type == "cpu" else SideBySide(self, self.criterion)
        return self

    @contextmanager
    def _copied(self) -> Iterator[OneByOne]:
        """A copy of the module with its gradient method, for one thread at a time."""
        try:
            way = self._idle.pop()
        except IndexError:
            way = gradients_of(FlatModule(copy.deepcopy(self.module)), self.criterion, self.regression)
        if not self._by_stream:
            way.flat.module.train(self.module.training)
        way.dropout.stream = self._stream
        try:
            yield way
        finally:
            self._idle.append(way)

    def each(self, work: Callable[[Task], Result], tasks: Iterable[Task]) -> list[Result]:
        """The results of ``work`` with this network on every task, in order, shared by the threads of the run.

        Serial on a GPU, which has one queue, and where dropout takes its draws from one random stream.
        """
        serial = not self._by_stream or self._stream is not None or self.side_by_side is not None
        return [work(task) for task in tasks] if serial else each(work, tasks)

    def _each(self, work: Callable[[OneByOne, Task], Result], tasks: Iterable[Task]) -> list[Result]:
        """As ``each``, with a separate copy of the module for every task."""

        def run(task: Task) -> Result:
            with self._copied() as way:
                return work(way, task)

        return self.each(run, tasks)

    def _in_parts(self, params: Tensor, x: Tensor) -> Tensor:
        """The outputs, computed part by part."""
        parts = x.split(self.chunk(x))
        if self.side_by_side is not None:
            return torch.cat([self.logits(params, part) for part in parts])
        return torch.cat(self._each(lambda way, part: way.flat.logits(params, part), parts))

    @torch.no_grad()
    def outputs_for(self, params: Tensor, x: Tensor) -> Tensor:
        """The outputs (N, c) of the model ``params`` (d,) for inputs (N, ...)."""
        together = max(CHUNK, self.chunk(x))
        return torch.cat([self._in_parts(params, part) for part in x.split(together)])

    @torch.no_grad()
    def evaluate(self, params: Tensor, x: Tensor, y: Tensor) -> tuple[float, np.ndarray | None]:
        """Mean loss of the model ``params`` (d,), and confusion counts (c, c) with true classes in rows, None for
        regression."""
        total = torch.zeros((), dtype=torch.float64, device=x.device)
        cells = []
        together = max(CHUNK, self.chunk(x))
        for xs, ys in zip(x.split(together), y.split(together), strict=True):
            outputs = self._in_parts(params, xs)
            total += self.criterion(outputs, ys, reduction="sum").double()
            if not self.regression:
                cells.append(ys * self.num_classes + outputs.argmax(dim=1))
        if self.regression:
            return float(total) / len(y), None
        counts = torch.bincount(torch.cat(cells), minlength=self.num_classes**2)
        return float(total) / len(y), counts.view(self.num_classes, self.num_classes).cpu().numpy()

    @torch.no_grad()
    def assess(self, params: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor | None]:
        """Mean losses (k,) float64 and error rates (k,) float64 of k models ``params`` (k, d) on the same samples; for
        regression, None instead of the error rates."""
        losses, errors = (self._totals(params, x, y) / len(y)).unbind(dim=1)
        return losses, None if self.regression else errors

    def _totals(self, params: Tensor, x: Tensor, y: Tensor) -> Tensor:
        if self.side_by_side is not None:
            return self.side_by_side.totals(params, x, y)
        chunk = self.chunk(x)
        parts = list(zip(x.split(chunk), y.split(chunk), strict=True))
        groups = params.split(max(1, min(MODELS, MODELS_NUMBERS // self.dim)))
        tasks = [(models, *part) for models in groups for part in parts]
        found = self._each(lambda way, task: way.totals(*task), tasks)
        return torch.cat([torch.stack(found[i : i + len(parts)]).sum(dim=0) for i in range(0, len(found), len(parts))])

    def losses(self, params: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Mean losses (k,) float64 of k models ``params`` (k, d) on the same samples."""
        return self.assess(params, x, y)[0]

    @torch.no_grad()
    def client_losses(self, params: Tensor, batch: Batch) -> Tensor:
        """Mean losses (n, k) float64 of k models ``params`` (k, d) on the samples of each of n clients."""
        if self._linear:
            return least_squares.client_losses(params, batch)
        chunk = max(CHUNK, self.chunk(batch.all_x))
        chunks = list(zip(batch.x.split(chunk), batch.y.split(chunk), strict=True))
        sizes = torch.tensor(batch.sizes, device=batch.x.device)
        columns = []
        for one in params:
            losses = torch.cat([self.criterion(self._in_parts(one, x), y, reduction="none") for x, y in chunks])
            columns.append(torch.segment_reduce(losses.double(), "mean", lengths=sizes))
        return torch.stack(columns, dim=1)

    def slopes(self, batch: Batch) -> Tensor | None:
        """The largest change of each client's root mean squared error when a model moves by 1, (n,) float64; None if no
        such bound is known for the network."""
        return least_squares.slopes(batch) if self._linear else None

    def gradients(self, params: Tensor, batch: Batch, out: Tensor) -> Tensor:
        """Write each client's gradient of its mean loss at ``params`` (d,) into its row of ``out`` (n, d).

        Returns the clients' mean losses (n,) float64.
        """
        if self.side_by_side is not None:
            return self.side_by_side(params, batch, out)
        if self._linear:
            return least_squares.gradients(params, batch, out)
        parts = chunks(batch, out, self.chunk(batch.all_x))
        return torch.cat(self._each(lambda way, part: way.together(params, *part), parts))

    def gradient(self, params: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Gradient (d,) of the mean loss on the samples at ``params`` (d,)."""
        out = torch.empty(1, self.dim, device=x.device)
        self.gradients(params, Batch(x, y, (len(y),)), out)
        return out[0]

    def own_gradients(self, stack: Tensor, batch: Batch, out: Tensor) -> Tensor:
        """Write each client's gradient at its own parameters, its row of ``stack`` (n, d), into its row of ``out``.

        Returns the clients' mean losses (n,) float64.
        """
        if self.side_by_side is not None:
            return self.side_by_side(stack, batch, out)
        if self._linear:
            return least_squares.gradients(stack, batch, out)
        some = [range(first, min(first + self.together, len(out))) for first in range(0, len(out), self.together)]
        parts = zip(stack.split(self.together), map(batch.part, some), out.split(self.together), strict=True)
        return torch.cat(self._each(lambda way, part: way.each(*part), parts))

    def gradients_along(self, models: Tensor, batches: Iterable[Batch], out: Tensor) -> Iterator[Tensor]:
        """As ``own_gradients`` at each of the ``batches``, between which the ``models`` (n, d) may change in place.

        Yields the clients' mean losses (n,), after the first batch perhaps nothing.
        """
        if len(models) == 1 and not self._linear and self.side_by_side is None:
            with self._copied() as way:
                yield from way.gradients_along(models[0], batches, out)
        else:
            for batch in batches:
                yield self.own_gradients(models, batch, out)
