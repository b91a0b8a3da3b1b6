"""The steps of a GRU over texts as two kernels of a GPU, which keep states and weights in registers for all words of a
text. They need Triton, which comes with PyTorch for CUDA on Linux; without it nothing here can be imported.

One operation a step would read and write what a step needs some ten times. Padding is computed and counts nowhere.
"""

from functools import cache

import torch
import triton
from torch import Tensor
from triton import language as tl

UNITS = (16, 32)
"""Numbers of hidden units that the kernels can have: more do not fit into the registers."""

TEXTS = 32
"""Texts of a block: more leave too few registers for a second block."""


@cache
def work_on(device: torch.device, units: int) -> bool:
    """Whether the kernels can be compiled and started on a device: that takes a C compiler and memory within its
    multiprocessors."""
    projected, weight = (torch.zeros(*shape, device=device) for shape in ((1, 3 * units), (3 * units, units)))
    bias, tokens = weight[0], torch.zeros(1, 1, dtype=torch.int32, device=device)
    try:
        backwards(projected, weight, bias, tokens, *forwards(projected, weight, bias, tokens))
    except Exception:  # of Triton, of the compiler, or of the driver
        return False
    return True


def forwards(projected: Tensor, weight: Tensor, bias: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """The state before each word (N, length, h), and the mean state at the words of each text (N, h).

    ``projected`` (V, 3h) are the contributions of each word to reset gate, update gate and candidate, with the gates'
    biases; ``weight`` (3h, h) those of the state, ``bias`` (h,) is added to the memory, which the reset gate scales.
    ``tokens`` (N, length) end with 0s; the first is a word in any case.
    """
    (number, length), units = tokens.shape, weight.shape[1]
    before, pooled = (weight.new_empty(*shape) for shape in ((number, length, units), (number, units)))
    grid = (triton.cdiv(number, TEXTS),)
    _forwards[grid](projected, weight, bias, tokens, before, pooled, number, length, units, TEXTS, num_warps=4)
    return before, pooled


def backwards(
    projected: Tensor, weight: Tensor, bias: Tensor, tokens: Tensor, before: Tensor, at_words: Tensor
) -> Tensor:
    """The gradients (N, length, 4h) at memory, reset gate, update gate and candidate, before their functions, from
    those ``at_words`` (N, h), the same at the state of every word of a text."""
    (number, length), units = tokens.shape, weight.shape[1]
    deltas = weight.new_empty(number, length, 4 * units)
    grid = (triton.cdiv(number, TEXTS),)
    _backwards[grid](
        projected, weight, bias, tokens, before, at_words, deltas, number, length, units, TEXTS, num_warps=8
    )
    return deltas


@triton.jit
def _from_state(weight, bias, units, UNITS: tl.constexpr):
    """The weights (h, h) from the state to reset gate, update gate and memory, and the memory's bias (h,)."""
    to_gates = weight + units[None, :] * UNITS + units[:, None]
    to_reset, to_update = tl.load(to_gates), tl.load(to_gates + UNITS * UNITS)
    return to_reset, to_update, tl.load(to_gates + 2 * UNITS * UNITS), tl.load(bias + units)


@triton.jit
def _gates(words, state, projected, units, to_reset, to_update, to_memory, bias, UNITS: tl.constexpr):
    """Reset gate, update gate, memory and candidate at words (n,) after states (n, h)."""
    own = projected + words[:, None] * (3 * UNITS) + units[None, :]
    reset = tl.sigmoid(tl.load(own) + tl.dot(state, to_reset, input_precision="ieee"))
    update = tl.sigmoid(tl.load(own + UNITS) + tl.dot(state, to_update, input_precision="ieee"))
    memory = tl.dot(state, to_memory, input_precision="ieee") + bias[None, :]
    candidate = 2 * tl.sigmoid(2 * (tl.load(own + 2 * UNITS) + reset * memory)) - 1  # tanh
    return reset, update, memory, candidate


@triton.jit
def _forwards(
    projected, weight, bias, tokens, before, pooled, number,
    LENGTH: tl.constexpr, UNITS: tl.constexpr, TEXTS: tl.constexpr,
):  # fmt: skip
    texts = tl.program_id(0).to(tl.int64) * TEXTS + tl.arange(0, TEXTS)
    here, units = texts < number, tl.arange(0, UNITS)
    to_reset, to_update, to_memory, own_bias = _from_state(weight, bias, units, UNITS)
    state = tl.zeros((TEXTS, UNITS), tl.float32)
    total, words_read = tl.zeros((TEXTS, UNITS), tl.float32), tl.zeros((TEXTS,), tl.float32)
    for step in range(LENGTH):
        words = tl.load(tokens + texts * LENGTH + step, mask=here, other=0)
        tl.store(before + (texts[:, None] * LENGTH + step) * UNITS + units[None, :], state, mask=here[:, None])
        _, update, _, candidate = _gates(
            words, state, projected, units, to_reset, to_update, to_memory, own_bias, UNITS
        )
        state = candidate + update * (state - candidate)
        is_word = tl.where((words != 0) | (step == 0), 1.0, 0.0)
        total += is_word[:, None] * state
        words_read += is_word
    tl.store(pooled + texts[:, None] * UNITS + units[None, :], total / words_read[:, None], mask=here[:, None])


@triton.jit
def _backwards(
    projected, weight, bias, tokens, before, at_words, deltas, number,
    LENGTH: tl.constexpr, UNITS: tl.constexpr, TEXTS: tl.constexpr,
):  # fmt: skip
    texts = tl.program_id(0).to(tl.int64) * TEXTS + tl.arange(0, TEXTS)
    here, units = texts < number, tl.arange(0, UNITS)
    to_reset, to_update, to_memory, own_bias = _from_state(weight, bias, units, UNITS)
    straight = weight + units[:, None] * UNITS + units[None, :]
    of_reset, of_update = tl.load(straight), tl.load(straight + UNITS * UNITS)
    of_memory = tl.load(straight + 2 * UNITS * UNITS)
    at_word = tl.load(at_words + texts[:, None] * UNITS + units[None, :], mask=here[:, None], other=0.0)
    at_state = tl.zeros((TEXTS, UNITS), tl.float32)
    for back in range(LENGTH):
        step = LENGTH - 1 - back
        words = tl.load(tokens + texts * LENGTH + step, mask=here, other=0)
        state = tl.load(
            before + (texts[:, None] * LENGTH + step) * UNITS + units[None, :], mask=here[:, None], other=0.0
        )
        reset, update, memory, candidate = _gates(
            words, state, projected, units, to_reset, to_update, to_memory, own_bias, UNITS
        )
        at_each = at_state + tl.where((words != 0) | (step == 0), 1.0, 0.0)[:, None] * at_word
        at_candidate = at_each * (1 - update) * (1 - candidate * candidate)
        at_update = at_each * (state - candidate) * update * (1 - update)
        at_memory = at_candidate * reset
        at_reset = at_memory * memory * (1 - reset)
        at_state = at_each * update + tl.dot(at_reset, of_reset, input_precision="ieee")
        at_state += tl.dot(at_update, of_update, input_precision="ieee")
        at_state += tl.dot(at_memory, of_memory, input_precision="ieee")
        own = deltas + (texts[:, None] * LENGTH + step) * (4 * UNITS) + units[None, :]
        tl.store(own, at_memory, mask=here[:, None])
        tl.store(own + UNITS, at_reset, mask=here[:, None])
        tl.store(own + 2 * UNITS, at_update, mask=here[:, None])
        tl.store(own + 3 * UNITS, at_candidate, mask=here[:, None])
