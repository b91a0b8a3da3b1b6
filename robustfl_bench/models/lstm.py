"""Next character of a text from the characters before: two LSTM layers (ARFL, Li et al., arXiv 2101.05880)."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from robustfl_bench.interfaces import ConfigError, Model, check_fields

EMBEDDING_SD = 0.05


@dataclass(frozen=True)
class Lstm(Model):
    """Embedding of the characters, LSTM layers, each with ``dropout`` after it, and a linear layer on the last state.

    Every text is read from zero states and has one prediction. Parameters as in Keras: one bias per gate, of the forget
    gate 1 at first, Glorot uniform and orthogonal weights; embeddings are N(0, 0.05^2) at first. With the defaults and
    80 characters 817,872 parameters (PyTorch's own LSTM has a second, redundant bias, which would make them 819,920).
    """

    embedding: int = 8
    hidden: int = 256
    layers: int = 2
    dropout: float = 0.2

    reads = "characters"

    def __post_init__(self) -> None:
        check_fields(self, embedding=(1, math.inf), hidden=(1, math.inf), layers=(1, math.inf), dropout=(0, 0.99))

    def __call__(self, input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
        if len(input_shape) != 1:
            raise ConfigError(f"model lstm needs texts by character, got inputs of shape {input_shape}")
        embedding = nn.Embedding(num_classes, self.embedding)
        nn.init.normal_(embedding.weight, std=EMBEDDING_SD)
        parts: list[nn.Module] = [embedding]
        for number in range(self.layers):
            parts += [LstmLayer(self.hidden if number else self.embedding, self.hidden), nn.Dropout(self.dropout)]
        output = nn.Linear(self.hidden, num_classes)
        nn.init.xavier_uniform_(output.weight)
        nn.init.zeros_(output.bias)
        return nn.Sequential(*parts, LastStep(), output)


class LastStep(nn.Module):
    """Of states (N, length, h) the last, (N, h)."""

    def forward(self, states: Tensor) -> Tensor:
        return states[:, -1]


class LstmLayer(nn.Module):
    """Vectors (N, length, e) to the states (N, length, h) of an LSTM that starts from zeros; gates as in PyTorch."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.weight_ih = nn.Parameter(torch.empty(4 * hidden, width))
        self.weight_hh = nn.Parameter(torch.empty(4 * hidden, hidden))
        self.bias = nn.Parameter(torch.zeros(4 * hidden))
        nn.init.xavier_uniform_(self.weight_ih)
        with torch.no_grad():
            nn.init.orthogonal_(self.weight_hh)
            self.bias[hidden : 2 * hidden] = 1  # the forget gate

    def forward(self, x: Tensor) -> Tensor:
        if x.device.type != "cpu":
            return self._stepwise(x)
        start = x.new_zeros(1, len(x), self.weight_hh.shape[1])
        weights = [self.weight_ih, self.weight_hh, self.bias, torch.zeros_like(self.bias)]
        # the numbers: has biases, one layer, no dropout; training kernels, whose gradient cuDNN can take; one direction
        states, *_ = torch.lstm(x, (start, start), weights, True, 1, 0.0, True, False, True)
        return states

    def _stepwise(self, x: Tensor) -> Tensor:
        """The same in operations that a GPU can do for many clients at once, which cuDNN's LSTM is not."""
        inputs = functional.linear(x, self.weight_ih, self.bias)
        state = memory = torch.zeros_like(inputs[:, 0, : self.weight_hh.shape[1]])
        states = []
        for step in inputs.unbind(dim=1):
            take, keep, new, show = functional.linear(state, self.weight_hh).add(step).chunk(4, dim=1)
            memory = keep.sigmoid() * memory + take.sigmoid() * new.tanh()
            state = show.sigmoid() * memory.tanh()
            states.append(state)
        return torch.stack(states, dim=1)
