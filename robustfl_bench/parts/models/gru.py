"""A gated recurrent unit over the words of a text, pooled over time, then a linear layer (BOBA, appendix C.1)."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional

from robustfl_bench.base.fields import at_least, one_of
from robustfl_bench.numerics.network.losses import mean_losses
from robustfl_bench.parts.models.base import Model
from robustfl_bench.parts.models.recurrence import Steps, backwards, forwards
from robustfl_bench.parts.models.stepwise import gru_states

PADDING = 0  # the token id that pads texts, as documented in Data
PIECES = 16  # of a product over the words of a client, at most


@dataclass(frozen=True)
class Gru(Model):
    """One unidirectional GRU layer of ``hidden`` units, with ``pooling`` over the words of a text without padding.

    BOBA's text leaves ``pooling`` and ``embedding`` open. Only pretrained vectors reach its accuracies, its timings
    show that they are frozen, and mean pooling matches its "server only" number, while max pooling is two points below.
    With frozen vectors of 100 dimensions and 4 classes, there are 12,996 parameters.
    """

    hidden: Annotated[int, at_least(1)] = 32
    """hidden units"""
    pooling: Annotated[str, one_of("mean", "max")] = "mean"
    """pooling over the words of a text"""
    embedding: Annotated[
        str,
        one_of(
            frozen="those of the data set, unchanged",
            trained="from those of the data set on",
            random="trained from N(0, 1)",
        ),
    ] = "frozen"
    """word vectors"""

    reads = "words"

    def __call__(self, input_shape: tuple[int, ...], num_classes: int, vectors: Tensor) -> nn.Module:
        table = vectors
        if self.embedding == "random":
            table = torch.randn(vectors.shape)
            table[PADDING] = 0
        return TextClassifier(table, self.embedding != "frozen", self.hidden, self.pooling, num_classes)


class TextClassifier(nn.Module):
    """Network from token ids (N, length), padded with 0 after the text, to logits (N, c).

    ``table`` (V, e) holds the words' vectors, which are constant unless ``trained``.
    """

    table: Tensor

    def __init__(self, table: Tensor, trained: bool, hidden: int, pooling: str, num_classes: int) -> None:
        super().__init__()
        if trained:
            self.table = nn.Parameter(table)
        else:
            self.register_buffer("table", table, persistent=False)
        self.gru = nn.GRU(table.shape[1], hidden)  # for shapes and initialisation; the steps are computed below
        self.output = nn.Linear(hidden, num_classes)
        self.pooling = pooling

    def forward(self, tokens: Tensor) -> Tensor:
        without_gradient = tokens.device.type == "cpu" and not torch.is_grad_enabled()
        logits: Tensor = self.output(self._packed(tokens) if without_gradient else self._padded(tokens))
        return logits

    def _padded(self, tokens: Tensor) -> Tensor:
        """Pooled states (N, h), in operations that a GPU can run for many clients at once, with shapes that do not
        depend on the texts; padding is computed but not pooled."""
        weights: dict[str, Tensor] = dict(self.gru.named_parameters())
        present = (tokens != PADDING)[..., None]
        present = torch.cat([torch.ones_like(present[:, :1]), present[:, 1:]], dim=1)  # an empty text becomes one word
        vectors = functional.embedding(tokens, self.table, padding_idx=PADDING)
        inputs = functional.linear(vectors, weights["weight_ih_l0"], weights["bias_ih_l0"])
        every = gru_states(inputs, weights["weight_hh_l0"], weights["bias_hh_l0"])
        if self.pooling == "mean":
            return (every * present).sum(dim=1) / present.sum(dim=1)
        return every.masked_fill(~present, -math.inf).amax(dim=1)

    def _packed(self, tokens: Tensor) -> Tensor:
        """Pooled states (N, h) on a CPU, without computing the padding; no gradient is known to autograd."""
        packed = pack(tokens)
        return self._pooled(self._steps(packed)[0].states, packed)[packed.order.argsort()]

    @torch.no_grad()
    def client_gradients(self, tokens: Tensor, y: Tensor, sizes: Sequence[int], out: Mapping[str, Tensor]) -> Tensor:
        """Write each client's gradient of its mean loss into its entries of ``out``, a stack (n, ...) for each
        parameter; returns the mean losses (n,) float64. Client i has ``sizes[i]`` texts, on a CPU.

        The texts of all clients are read together. The gradients at the words are then sorted by client and word, so
        that a client's weight gradients are three products, the largest of them over its distinct words only.
        """
        packed = pack(tokens)
        steps, kinds, which, vectors = self._steps(packed)
        pooled, weights = self._pooled(steps.states, packed), dict(self.gru.named_parameters())
        by_client = pooled[packed.order.argsort()]
        losses, delta = mean_losses(self.output(by_client), y, sizes)
        at_pooled = self._at_states(steps.states, packed, pooled, (delta @ self.output.weight)[packed.order])
        deltas = backwards(steps, weights["weight_hh_l0"], packed.sizes, at_pooled)

        clients = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))[packed.order]
        key, order = (packed.spread(clients) * len(kinds) + which).sort()
        key, counts = key.unique_consecutive(return_counts=True)
        client, kind = key // len(kinds), key % len(kinds)
        deltas, before = deltas.index_select(0, order), steps.states.index_select(0, packed.previous()[order])
        of_words = functional.embedding_bag(torch.arange(len(deltas)), deltas, counts.cumsum(0) - counts, mode="sum")
        words, vectors = kinds.index_select(0, kind), vectors.index_select(0, kind)
        num_words = torch.bincount(client, minlength=len(sizes)).tolist()
        num_places = torch.zeros(len(sizes), dtype=torch.int64).index_add_(0, client, counts).tolist()
        parts = (
            delta.split(sizes), by_client.split(sizes), deltas.split(num_places), before.split(num_places),
            of_words.split(num_words), vectors.split(num_words), words.split(num_words),
        )  # fmt: skip
        width = 3 * self.gru.hidden_size  # of reset gate, update gate and memory, before the candidate
        for i, (at_output, state, own, earlier, summed, vector, word) in enumerate(zip(*parts, strict=True)):
            torch.mm(at_output.T, state, out=out["output.weight"][i])
            torch.sum(at_output, dim=0, out=out["output.bias"][i])
            torch.mm(own[:, :width].T, earlier, out=out["gru.weight_hh_l0"][i])
            at_input = torch.cat([summed[:, : 2 * self.gru.hidden_size], summed[:, width:]], dim=1)
            torch.mm(at_input.T, vector, out=out["gru.weight_ih_l0"][i])
            torch.sum(at_input, dim=0, out=out["gru.bias_ih_l0"][i])
            torch.sum(summed[:, :width], dim=0, out=out["gru.bias_hh_l0"][i])
            if "table" in out:
                out["table"][i].zero_()[word] = at_input @ weights["weight_ih_l0"]
                out["table"][i, PADDING] = 0
        return losses

    def has_kernels(self, device: torch.device) -> bool:
        """Whether ``gradients_by_kernels`` can be asked on this device."""
        if device.type != "cuda" or self.pooling != "mean" or isinstance(self.table, nn.Parameter):
            return False
        try:
            from robustfl_bench.parts.models.kernels import UNITS, work_on
        except ImportError:
            return False
        return self.gru.hidden_size in UNITS and work_on(device, self.gru.hidden_size)

    @torch.no_grad()
    def gradients_by_kernels(
        self, weights: Mapping[str, Tensor], tokens: Tensor, y: Tensor, shares: Tensor
    ) -> tuple[dict[str, Tensor], Tensor]:
        """Each client's gradient of its mean loss at the common ``weights``, a stack (n, ...) for each of these, and
        the mean losses (n,). Client i has the texts ``tokens[i]`` (m, length), which count with ``shares[i]`` (m,).

        The words' contributions to the gates are computed once for each word of the vocabulary, and those of the state
        by kernels that go through a text at once.
        """
        from robustfl_bench.parts.models.kernels import backwards as backwards_by_kernel
        from robustfl_bench.parts.models.kernels import forwards as forwards_by_kernel

        (clients, texts, length), hidden = tokens.shape, self.gru.hidden_size
        flat, bias = tokens.reshape(-1, length), weights["gru.bias_hh_l0"]
        of_gates = weights["gru.bias_ih_l0"] + functional.pad(bias[: 2 * hidden], (0, hidden))
        state = (functional.linear(self.table, weights["gru.weight_ih_l0"], of_gates), weights["gru.weight_hh_l0"],
                 bias[2 * hidden :], flat)  # fmt: skip
        before, pooled = forwards_by_kernel(*state)
        logits = functional.linear(pooled, weights["output.weight"], weights["output.bias"])
        losses = functional.cross_entropy(logits, y.flatten(), reduction="none").view(clients, texts)
        wrong = logits.softmax(dim=1) - functional.one_hot(y.flatten(), logits.shape[1])
        delta = wrong * shares.reshape(-1, 1)
        lengths = (flat != PADDING).sum(dim=1, keepdim=True).clamp(min=1)
        deltas = backwards_by_kernel(*state, before, delta @ weights["output.weight"] / lengths)

        at_gates, states = deltas.view(clients, texts, -1, 4 * hidden), before.view(clients, texts, -1, hidden)
        of_state = _products(at_gates[..., : 3 * hidden], states).roll(-hidden, dims=1)  # the memory comes first
        of_words = _products(at_gates[..., hidden:], functional.embedding(tokens, self.table))
        totals, by_client = deltas.view(clients, -1, 4 * hidden).sum(dim=1), delta.view(clients, texts, -1)
        return {
            "gru.weight_ih_l0": of_words,
            "gru.weight_hh_l0": of_state,
            "gru.bias_ih_l0": totals[:, hidden:],
            "gru.bias_hh_l0": totals[:, : 3 * hidden].roll(-hidden, dims=1),
            "output.weight": by_client.mT @ pooled.view(clients, texts, -1),
            "output.bias": by_client.sum(dim=1),
        }, (losses * shares).sum(dim=1)

    def _steps(self, packed: "Packed") -> tuple[Steps, Tensor, Tensor, Tensor]:
        """The recurrence over packed texts, their distinct words, the distinct word at every place, and these words'
        vectors."""
        weights: dict[str, Tensor] = dict(self.gru.named_parameters())
        hidden, bias = self.gru.hidden_size, weights["bias_hh_l0"]
        words = packed.words.long()
        occurs = torch.zeros(len(self.table), dtype=torch.bool).index_fill_(0, words, True)
        kinds, which = occurs.nonzero()[:, 0], (occurs.cumsum(0) - 1).index_select(0, words)
        vectors = self.table.index_select(0, kinds)
        inputs = functional.linear(vectors, weights["weight_ih_l0"], weights["bias_ih_l0"])
        inputs[:, : 2 * hidden] += bias[: 2 * hidden]
        gates = inputs.view(len(kinds), 3, hidden).transpose(0, 1).contiguous().index_select(1, which)
        return forwards(gates, weights["weight_hh_l0"], bias[2 * hidden :], packed.sizes), kinds, which, vectors

    def _pooled(self, states: Tensor, packed: "Packed") -> Tensor:
        """The pooled states (N, h) of packed texts."""
        first, *others = states[:-1].split(packed.sizes)
        pooled: Tensor = first.clone()
        for state in others:
            some = pooled[: len(state)]
            torch.add(some, state, out=some) if self.pooling == "mean" else torch.maximum(some, state, out=some)
        return pooled / packed.lengths[:, None] if self.pooling == "mean" else pooled

    def _at_states(
        self, states: Tensor, packed: "Packed", pooled: Tensor, at_pooled: Tensor
    ) -> Callable[[slice], Tensor]:
        """The gradient at the states of a step, from that at the ``pooled`` states; equal maxima share it."""
        if self.pooling == "mean":
            at_each = at_pooled / packed.lengths[:, None]
            return lambda step: at_each[: step.stop - step.start].clone()
        ties = torch.zeros_like(pooled)
        for state in states[:-1].split(packed.sizes):
            ties[: len(state)] += state == pooled[: len(state)]
        at_each = at_pooled / ties
        return lambda step: at_each[: (n := step.stop - step.start)] * (states[step] == pooled[:n])


def _products(left: Tensor, right: Tensor) -> Tensor:
    """``left[i].T @ right[i]`` (n, a, b) for the words of the texts (n, m, length, a) and (n, m, length, b) of each
    client. Each product is the sum of some over fewer words, as a GPU leaves one so small to few of its units."""
    clients, texts = left.shape[:2]
    pieces = next(number for number in range(PIECES, 0, -1) if texts % number == 0)
    parts = (each.reshape(clients * pieces, -1, each.shape[-1]) for each in (left, right))
    products = torch.bmm(next(parts).mT, next(parts))
    return products.view(clients, pieces, *products.shape[1:]).sum(dim=1)


@dataclass(frozen=True)
class Packed:
    """Texts in the ``order`` (N,) of falling ``lengths`` (N,), packed step by step: first the first words (T,) of all
    texts, then the second of those that have one, and so on, ``sizes[t]`` in step t. An empty text is one word long."""

    order: Tensor
    lengths: Tensor
    sizes: list[int]
    present: Tensor
    words: Tensor

    def spread(self, values: Tensor) -> Tensor:
        """The value (N,) of its text at every word, (T,)."""
        return values.expand(len(self.present), -1)[self.present]

    def previous(self) -> Tensor:
        """The place of the word before every word of a text, (T,); T for a first word."""
        before = torch.tensor([0, *self.sizes[:-1]]).repeat_interleave(torch.tensor(self.sizes))
        places = torch.arange(len(self.words)) - before
        places[: self.sizes[0]] = len(self.words)
        return places


def pack(tokens: Tensor) -> Packed:
    """The texts (N, length), padded with 0 after the text, packed."""
    lengths, order = (tokens != PADDING).sum(dim=1).clamp(min=1).sort(descending=True, stable=True)
    present = torch.arange(int(lengths[0]))[:, None] < lengths  # (time, N)
    return Packed(order, lengths, present.sum(dim=1).tolist(), present, tokens[order].T[: len(present)][present])
