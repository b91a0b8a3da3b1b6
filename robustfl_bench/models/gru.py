"""A gated recurrent unit over the words of a text, pooled over time, then a linear layer (BOBA, appendix C.1)."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from robustfl_bench.interfaces import Model, check_choice, check_fields
from robustfl_bench.models.recurrence import recur

POOLINGS = ("mean", "max")
EMBEDDINGS = ("frozen", "trained", "random")
PADDING = 0  # the token id behind a text, by the promise of Data


@dataclass(frozen=True)
class Gru(Model):
    """A GRU of one layer and direction, ``hidden`` units, ``pooling`` over the words of a text, padding left out.

    ``embedding``: the data set's word vectors as they are (``frozen``), as a start (``trained``), or trained from
    N(0, 1) (``random``). BOBA's text leaves both open. Only pretrained vectors reach its accuracies, its timings tell
    that they are frozen, and mean pooling meets its "server only" number where max pooling is two points below.
    Frozen vectors of 100 dimensions and 4 classes make 12,996 parameters.
    """

    hidden: int = 32
    pooling: str = "mean"
    embedding: str = "frozen"

    reads = "words"

    def __post_init__(self) -> None:
        check_fields(self, hidden=(1, math.inf))
        check_choice("pooling", self.pooling, POOLINGS)
        check_choice("embedding", self.embedding, EMBEDDINGS)

    def __call__(self, input_shape: tuple[int, ...], num_classes: int, vectors: Tensor) -> nn.Module:
        table = vectors
        if self.embedding == "random":
            table = torch.randn(vectors.shape)
            table[PADDING] = 0
        return TextClassifier(table, self.embedding != "frozen", self.hidden, self.pooling, num_classes)


class TextClassifier(nn.Module):
    """Token ids (N, length), 0 for padding behind the text, to logits (N, c).

    ``table`` (V, e) holds the words' vectors, a constant unless ``trained``.
    """

    table: Tensor

    def __init__(self, table: Tensor, trained: bool, hidden: int, pooling: str, num_classes: int) -> None:
        super().__init__()
        if trained:
            self.table = nn.Parameter(table)
        else:
            self.register_buffer("table", table, persistent=False)
        self.gru = nn.GRU(table.shape[1], hidden)  # PyTorch's shapes and initialisation; the steps are our own
        self.output = nn.Linear(hidden, num_classes)
        self.pooling = pooling

    def forward(self, tokens: Tensor) -> Tensor:
        pooled: Tensor = self._packed(tokens) if tokens.device.type == "cpu" else self._padded(tokens)
        logits: Tensor = self.output(pooled)
        return logits

    def _padded(self, tokens: Tensor) -> Tensor:
        """Pooled states (N, h), padding computed and left out: in operations that a GPU can do for many clients at
        once, of shapes that do not depend on the texts."""
        weights: dict[str, Tensor] = dict(self.gru.named_parameters())
        present = (tokens != PADDING)[..., None]
        present = torch.cat([torch.ones_like(present[:, :1]), present[:, 1:]], dim=1)  # an empty text has one word
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
        """Pooled states (N, h) without the padding."""
        # Longest texts first, word by word: a step of the recurrence takes the first rows, and none of the padding.
        lengths, order = (tokens != PADDING).sum(dim=1).clamp(min=1).sort(descending=True, stable=True)
        present = torch.arange(int(lengths[0]), device=tokens.device)[:, None] < lengths  # (time, N)
        words = tokens[order].T[: len(present)][present]
        weights: dict[str, Tensor] = dict(self.gru.named_parameters())
        words, positions = words.unique(
            return_inverse=True
        )  # a word's part in the gates is the same wherever it stands
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
