"""A gated recurrent unit over the words of a text, pooled over time, then a linear layer (BOBA, appendix C.1)."""

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional

from robustfl_bench.base.fields import at_least, one_of
from robustfl_bench.models.base import Model
from robustfl_bench.models.recurrence import recur

PADDING = 0  # the token id that pads texts, as documented in Data


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
        pooled: Tensor = self._packed(tokens) if tokens.device.type == "cpu" else self._padded(tokens)
        logits: Tensor = self.output(pooled)
        return logits

    def _padded(self, tokens: Tensor) -> Tensor:
        """Pooled states (N, h), in operations that a GPU can run for many clients at once, with shapes that do not
        depend on the texts; padding is computed but not pooled."""
        weights: dict[str, Tensor] = dict(self.gru.named_parameters())
        present = (tokens != PADDING)[..., None]
        present = torch.cat([torch.ones_like(present[:, :1]), present[:, 1:]], dim=1)  # an empty text becomes one word
        vectors = functional.embedding(tokens, self.table, padding_idx=PADDING)
        inputs = functional.linear(vectors, weights["weight_ih_l0"], weights["bias_ih_l0"])
        state = torch.zeros_like(inputs[:, 0, : self.gru.hidden_size])
        states = []
        for step in inputs.unbind(dim=1):
            reset, update, candidate = step.chunk(3, dim=1)
            own = functional.linear(state, weights["weight_hh_l0"], weights["bias_hh_l0"]).chunk(3, dim=1)
            candidate = ((reset + own[0]).sigmoid() * own[2] + candidate).tanh()
            state = torch.lerp(candidate, state, (update + own[1]).sigmoid())
            states.append(state)
        every = torch.stack(states, dim=1)
        if self.pooling == "mean":
            return (every * present).sum(dim=1) / present.sum(dim=1)
        return every.masked_fill(~present, -math.inf).amax(dim=1)

    def _packed(self, tokens: Tensor) -> Tensor:
        """Pooled states (N, h), without computing the padding."""
        # Longest texts first, packed word by word: a step of the recurrence takes the first rows, and no padding.
        lengths, order = (tokens != PADDING).sum(dim=1).clamp(min=1).sort(descending=True, stable=True)
        present = torch.arange(int(lengths[0]), device=tokens.device)[:, None] < lengths  # (time, N)
        words = tokens[order].T[: len(present)][present]
        weights: dict[str, Tensor] = dict(self.gru.named_parameters())
        words, positions = words.unique(
            return_inverse=True
        )  # a word's contribution to the gates is the same at every position
        vectors = functional.embedding(words, self.table, padding_idx=PADDING)
        inputs = functional.linear(vectors, weights["weight_ih_l0"], weights["bias_ih_l0"])
        inputs = functional.embedding(positions, inputs)
        sizes = present.sum(dim=1).tolist()
        states, *_ = recur(inputs, weights["weight_hh_l0"], weights["bias_hh_l0"], sizes)
        filler = 0.0 if self.pooling == "mean" else -math.inf
        padded = states.new_full((present.numel(), self.gru.hidden_size), filler)
        padded = padded.index_copy(0, present.flatten().nonzero()[:, 0], states).view(*present.shape, -1)
        pooled = padded.sum(dim=0) / lengths[:, None] if self.pooling == "mean" else padded.amax(dim=0)
        return pooled[order.argsort()]
