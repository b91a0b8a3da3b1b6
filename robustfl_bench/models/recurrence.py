"""The recurrence of a GRU (Cho et al., EMNLP 2014) over packed sequences, with its gradient written out.

On a CPU, PyTorch's own GRU records some fifteen operations per step and differentiates each of them. For clients with
750 texts of AG News it takes 1.9 times as long as this one with the padding, and 2.6 times without, packed.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

Results = tuple[Tensor, Tensor, Tensor, Tensor]  # states, then gates, memory and candidates for the gradient


class Recurrence(Function):
    """``apply(inputs, weight, bias, sizes)[0]`` are the states after every step of a GRU that starts from zeros.

    ``inputs`` (T, 3h) are the inputs' contributions to reset gate, update gate and candidate, packed step by step:
    step t has the first ``sizes[t]`` sequences, ``sizes`` falling. ``weight`` (3h, h) and ``bias`` (3h,) act on the
    state, as PyTorch's ``weight_hh`` and ``bias_hh``. The states (T, h) are packed alike. The other results are for the
    gradient.
    """

    @staticmethod
    def forward(inputs: Tensor, weight: Tensor, bias: Tensor, sizes: list[int]) -> Results:
        width = weight.shape[1]
        gates, memory = inputs.new_empty(len(inputs), 2 * width), inputs.new_empty(len(inputs), width)
        candidates, states = torch.empty_like(memory), torch.empty_like(memory)
        gate_weight, gate_bias = weight[: 2 * width].T, bias[: 2 * width]
        memory_weight, memory_bias = weight[2 * width :].T, bias[2 * width :]
        start, before = 0, inputs.new_zeros(sizes[0], width)
        for size in sizes:
            step, before = slice(start, start + size), before[:size]
            gate = torch.addmm(inputs[step, : 2 * width], before, gate_weight, out=gates[step])
            gate.add_(gate_bias).sigmoid_()
            torch.addmm(memory_bias, before, memory_weight, out=memory[step])
            torch.addcmul(inputs[step, 2 * width :], gate[:, :width], memory[step], out=candidates[step]).tanh_()
            before = torch.lerp(candidates[step], before, gate[:, width:], out=states[step])
            start += size
        return states, gates, memory, candidates

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        _, weight, _, ctx.sizes = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(weight, *output)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, wanted: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor, None]:
        weight, states, gates, memory, candidates = ctx.saved_tensors
        width, sizes = weight.shape[1], ctx.sizes
        reset, update = gates[:, :width], gates[:, width:]
        blocks = zip(torch.split(states, sizes), sizes[1:], strict=False)
        before = torch.cat([states.new_zeros(sizes[0], width), *(block[:size] for block, size in blocks)])
        # Factors from the gradient at a state to the gradients at the three contributions. The last factor, the
        # candidate's, differs between the contribution of the input (``to_candidate``) and that of the previous state.
        # x - x y stands for x (1 - y), in place, as new memory of this size costs more than the arithmetic.
        to_candidate = candidates.square().neg_().add_(1)
        to_candidate.addcmul_(to_candidate, update, value=-1)
        factors = states.new_empty(len(states), 3, width)
        torch.mul(to_candidate, reset, out=factors[:, 2])
        at_reset = torch.mul(factors[:, 2], memory, out=factors[:, 0])
        at_reset.addcmul_(at_reset, reset, value=-1)
        at_update = torch.sub(before, candidates, out=factors[:, 1]).mul_(update)
        at_update.addcmul_(at_update, update, value=-1)
        deltas = factors.flatten(1)
        at_states = wanted.clone()
        later = states.new_zeros(0, width)
        end = len(states)
        for size in reversed(sizes):
            step = slice(end - size, end)
            at_state = at_states[step]
            at_state[: len(later)] += later
            factors[step] *= at_state[:, None]
            later = torch.addmm(at_state * update[step], deltas[step], weight)
            end -= size
        weight_grad, bias_grad = deltas.T @ before, deltas.sum(dim=0)
        torch.mul(at_states, to_candidate, out=factors[:, 2])
        return deltas, weight_grad, bias_grad, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        """The stacked models one after the other, as the steps of a single model keep the machine busy."""
        *tensors, sizes = args
        outputs = []
        for i in range(info.batch_size):
            inputs, weight, bias = (
                x if dim is None else x.select(dim, i) for x, dim in zip(tensors, in_dims[:3], strict=True)
            )
            outputs.append(recur(inputs, weight, bias, sizes))
        return tuple(map(torch.stack, zip(*outputs, strict=True))), (0, 0, 0, 0)


def recur(inputs: Tensor, weight: Tensor, bias: Tensor, sizes: list[int]) -> Results:
    """``Recurrence.apply``, typed."""
    results: Results = Recurrence.apply(inputs, weight, bias, sizes)  # type: ignore[no-untyped-call]
    return results
