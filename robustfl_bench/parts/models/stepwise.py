"""The steps of recurrent layers for many clients at once, in few operations, each of which a GPU must be asked for.

Autograd would record twice as many. Here the derivatives of all steps are computed at once, and only their products go
step by step.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def gru_states(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The states (N, length, h) of a GRU from zeros, with gates as in PyTorch.

    ``inputs`` (N, length, 3h) are the contributions of the inputs to the gates, ``weight`` (3h, h) and ``bias`` (3h,)
    those of the state.
    """
    states: Tensor = _Gru.apply(inputs, weight, bias)[0]  # type: ignore[no-untyped-call]
    return states


def lstm_states(inputs: Tensor, weight: Tensor) -> Tensor:
    """The states (N, length, h) of an LSTM from zeros, with gates as in PyTorch.

    ``inputs`` (N, length, 4h) are the contributions of the inputs to the gates, ``weight`` (4h, h) that of the state.
    """
    states: Tensor = _Lstm.apply(inputs, weight)[0]  # type: ignore[no-untyped-call]
    return states


class _Steps(torch.autograd.Function):
    """The states of a layer, of which alone there are gradients, and what these need. The second input is the
    weight."""

    generate_vmap_rule = True

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(inputs[1], *output)


class _Gru(_Steps):
    """The states, and what their gradient needs, (N, length, ...): the reset and update gates (2h), the state's
    contribution to the candidate (h) and the candidate (h)."""

    @staticmethod
    def forward(inputs: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        width = weight.shape[1]
        state = torch.zeros_like(inputs[:, 0, :width])
        steps = []
        for step in inputs.unbind(dim=1):
            own = functional.linear(state, weight, bias)
            gates, memory = (step + own)[:, : 2 * width].sigmoid(), own[:, 2 * width :]
            reset, update = gates.chunk(2, dim=1)
            candidate = torch.addcmul(step[:, 2 * width :], reset, memory).tanh()
            state = torch.lerp(candidate, state, update)
            steps.append((state, gates, memory, candidate))
        return tuple(torch.stack(kind, dim=1) for kind in zip(*steps, strict=True))

    @staticmethod
    def backward(ctx: Any, at_states: Tensor, *_: Tensor) -> tuple[Tensor, ...]:
        weight, states, gates, memory, candidate = ctx.saved_tensors
        before, (reset, update) = _before(states), gates.chunk(2, dim=2)
        of_candidate = (1 - update) * (1 - candidate.square())
        of_memory = of_candidate * reset
        of_reset, of_update = of_memory * (1 - reset) * memory, (before - candidate) * update * (1 - update)
        of_gates = torch.stack([of_reset, of_update, of_memory], dim=2)
        at_state = torch.zeros_like(at_states[:, 0])
        steps = []
        for wanted, factors, kept in _backwards(at_states, of_gates, update):
            at_each = at_state + wanted
            at_state = torch.addcmul((at_each[:, None] * factors).flatten(1) @ weight, at_each, kept)
            steps.append(at_each)
        at_each = torch.stack(steps[::-1], dim=1)
        at_gates = (at_each[:, :, None] * of_gates).flatten(2)
        at_inputs = torch.cat([at_gates[:, :, : 2 * weight.shape[1]], at_each * of_candidate], dim=2)
        return at_inputs, at_gates.flatten(0, 1).T @ before.flatten(0, 1), at_gates.sum(dim=(0, 1))


class _Lstm(_Steps):
    """The states, and what their gradient needs, (N, length, ...): all gates as if they had a sigmoid (4h), the new
    content (h), the memory (h) and its tanh (h)."""

    @staticmethod
    def forward(inputs: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
        state = memory = torch.zeros_like(inputs[:, 0, : weight.shape[1]])
        steps = []
        for step in inputs.unbind(dim=1):
            gates = functional.linear(state, weight) + step
            new, gates = gates.chunk(4, dim=1)[2].tanh(), gates.sigmoid()
            take, keep, _, show = gates.chunk(4, dim=1)
            memory = torch.addcmul(keep * memory, take, new)
            shown = memory.tanh()
            state = show * shown
            steps.append((state, gates, new, memory, shown))
        return tuple(torch.stack(kind, dim=1) for kind in zip(*steps, strict=True))

    @staticmethod
    def backward(ctx: Any, at_states: Tensor, *_: Tensor) -> tuple[Tensor, ...]:
        weight, states, gates, new, memory, shown = ctx.saved_tensors
        take, keep, _, show = gates.chunk(4, dim=2)
        of_take, of_keep, _, of_show = (gates * (1 - gates)).chunk(4, dim=2)
        of_memory = torch.stack([new * of_take, _before(memory) * of_keep, take * (1 - new.square())], dim=2)
        of_shown, of_show = show * (1 - shown.square()), shown * of_show
        at_state = at_memory = torch.zeros_like(at_states[:, 0])
        steps = []
        for wanted, by_shown, by_memory, by_show, kept in _backwards(at_states, of_shown, of_memory, of_show, keep):
            at_state = at_state + wanted
            at_memory = torch.addcmul(at_memory, at_state, by_shown)
            at_gates = torch.cat([(at_memory[:, None] * by_memory).flatten(1), at_state * by_show], dim=1)
            at_state, at_memory = at_gates @ weight, at_memory * kept
            steps.append(at_gates)
        at_inputs = torch.stack(steps[::-1], dim=1)
        return at_inputs, at_inputs.flatten(0, 1).T @ _before(states).flatten(0, 1)


def _before(steps: Tensor) -> Tensor:
    """The values before each step, zeros before the first."""
    return torch.cat([torch.zeros_like(steps[:, :1]), steps[:, :-1]], dim=1)


def _backwards(*kinds: Tensor) -> list[tuple[Tensor, ...]]:
    """The entries of each step, the last step first."""
    return [*zip(*(kind.unbind(dim=1) for kind in kinds), strict=True)][::-1]
