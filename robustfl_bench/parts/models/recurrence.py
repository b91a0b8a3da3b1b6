"""The recurrence of a GRU (Cho et al., EMNLP 2014) over packed sequences, forwards and backwards, without autograd.

On a CPU, PyTorch's own GRU records some fifteen operations per step and computes the padding. The sequences of many
clients are packed together: step t has the first ``sizes[t]`` sequences, ``sizes`` falling, so that it takes the first
rows of the states before it. The three gates are apart in memory, because operations on a part of a row are slow.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Steps:
    """The recurrence after its forward pass over T packed words, all (T, h).

    The gates are ``reset``, ``update`` and ``candidate``; ``memory`` is the state's contribution to the candidate,
    before the reset gate scales it. ``states`` (T + 1, h) has a last row of zeros, the state before the first step.
    """

    reset: Tensor
    update: Tensor
    candidate: Tensor
    memory: Tensor
    states: Tensor


def forwards(inputs: Tensor, weight: Tensor, bias: Tensor, sizes: Sequence[int]) -> Steps:
    """The steps of a GRU that starts from zeros.

    ``inputs`` (3, T, h), which are overwritten, are the contributions of the words to reset gate, update gate and
    candidate, including all biases of the gates. ``weight`` (3h, h) acts on the state, as PyTorch's ``weight_hh``;
    ``bias`` (h,) is added to the memory.
    """
    reset, update, candidate = inputs
    to_reset, to_update, to_memory = (part.T for part in weight.chunk(3))
    memory, states = torch.empty_like(reset), inputs.new_zeros(len(reset) + 1, len(bias))
    start, before = 0, inputs.new_zeros(sizes[0], len(bias))
    for size in sizes:
        step, before = slice(start, start + size), before[:size]
        gate = reset[step].addmm_(before, to_reset).sigmoid_()
        keep = update[step].addmm_(before, to_update).sigmoid_()
        new = candidate[step].addcmul_(gate, torch.addmm(bias, before, to_memory, out=memory[step]))
        np.tanh(new.numpy(), out=new.numpy())  # a sixth of the time of PyTorch's
        before = torch.lerp(new, before, keep, out=states[step])
        start += size
    return Steps(reset, update, candidate, memory, states)


def backwards(steps: Steps, weight: Tensor, sizes: Sequence[int], wanted: Callable[[slice], Tensor]) -> Tensor:
    """The gradients (T, 4h) at the contributions to reset gate, update gate, memory and candidate.

    ``wanted`` returns the gradient at the states of a step from what is computed of them, as a new tensor.
    """
    from_reset, from_update, from_memory = weight.chunk(3)
    width = weight.shape[1]
    deltas, later = weight.new_empty(len(steps.reset), 4 * width), weight.new_zeros(0, width)
    ends = list(accumulate(sizes))
    for t in reversed(range(len(sizes))):
        step = slice(ends[t] - sizes[t], ends[t])
        before = steps.states[ends[t - 1] - sizes[t - 1] :][: sizes[t]] if t else weight.new_zeros(sizes[0], width)
        gate, keep, new = steps.reset[step], steps.update[step], steps.candidate[step]
        at_state = wanted(step)
        at_state[: len(later)] += later
        # x - x y stands for x (1 - y), in place, as new memory of this size costs more than the arithmetic.
        at_candidate = new.square().neg_().add_(1).mul_(at_state)
        at_candidate.addcmul_(at_candidate, keep, value=-1)
        at_memory = at_candidate * gate
        at_reset = at_memory * steps.memory[step]
        at_reset.addcmul_(at_reset, gate, value=-1)
        at_update = torch.sub(before, new).mul_(at_state).mul_(keep)
        at_update.addcmul_(at_update, keep, value=-1)
        torch.cat([at_reset, at_update, at_memory, at_candidate], dim=1, out=deltas[step])
        later = at_state.mul_(keep).addmm_(at_reset, from_reset).addmm_(at_update, from_update)
        later.addmm_(at_memory, from_memory)
    return deltas
