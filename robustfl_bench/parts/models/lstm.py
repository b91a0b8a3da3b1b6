"""Prediction of the next character of a text: two LSTM layers (ARFL, Li et al., arXiv 2101.05880)."""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import at_least, between
from robustfl_bench.parts.models.base import Model
from robustfl_bench.parts.models.stepwise import lstm_states

EMBEDDING_SD = 0.05


@dataclass(frozen=True)
class Lstm(Model):
    """Embedding of the characters, LSTM layers, each followed by ``dropout``, and a linear layer on the last state.

    Every text is read from zero states and has one prediction. Parameters are as in Keras: one bias per gate, initially
    1 for the forget gate, and Glorot uniform and orthogonal weights. Embeddings are initially N(0, 0.05^2). With the
    defaults and 80 characters, there are 817,872 parameters (819,920 with the redundant second bias of PyTorch's).
    """

    embedding: Annotated[int, at_least(1)] = 8
    """length of a character's vector"""
    hidden: Annotated[int, at_least(1)] = 256
    """hidden units per layer"""
    layers: Annotated[int, at_least(1)] = 2
    """number of LSTM layers"""
    dropout: Annotated[float, between(0, 0.99)] = 0.2
    """dropout after each layer in training"""

    reads = "characters"

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
    """The last state (N, h) of the states (N, length, h)."""

    def forward(self, states: Tensor) -> Tensor:
        return states[:, -1]


class LstmLayer(nn.Module):
    """LSTM layer from vectors (N, length, e) to states (N, length, h), starting from zeros; gates as in PyTorch."""

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
        # the last arguments: biases, one layer, no dropout, training (for cuDNN's gradient), one direction, batch first
        states, *_ = torch.lstm(x, (start, start), weights, True, 1, 0.0, True, False, True)
        return states

    def _stepwise(self, x: Tensor) -> Tensor:
        """The same states, in operations that a GPU can run for many clients at once, unlike cuDNN's LSTM."""
        return lstm_states(functional.linear(x, self.weight_ih, self.bias), self.weight_hh)
