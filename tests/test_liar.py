"""An attack as a client of another framework: what it sends, what it cannot know."""

import numpy as np
import pytest
import torch

import robustfl_bench as rb
from robustfl_bench.doors.liar import Liar, kept, remembered
from robustfl_bench.parts.attacks.ipm import InnerProductManipulation
from tests.rounds import build, names

START, END = np.linspace(0, 1, 12), np.linspace(1, 0, 12)
ALONE = ("sign_flip", "ipm", "gauss", "zero", "infinity", "rewind_1", "sign_4", "free_rider")


def test_it_sends_what_the_attack_makes_of_its_own_update() -> None:
    sent, memory = Liar(InnerProductManipulation(scale=2), 10).sent(0, START, END)
    assert sent == pytest.approx(START + 2 * (START - END), abs=1e-6) and memory == {}
    vector, _ = Liar(build("attack", "gauss"), 10, seed=1).sent(3, START, END)
    same, _ = Liar(build("attack", "gauss"), 10, seed=1).sent(3, START, END)
    other, _ = Liar(build("attack", "gauss"), 10, seed=1).sent(4, START, END)
    assert np.array_equal(vector, same) and not np.array_equal(vector, other)


def lie(name: str) -> str:
    """What a client lacks for an attack of ``conf/``; empty if it can lie by it over three rounds."""
    before, memory = None, dict[str, torch.Tensor]()
    try:
        liar = Liar(build("attack", name), 10)
        for number in range(3):
            sent, memory = liar.sent(number, START + number, END, before, memory)
            before, memory = remembered(kept(memory, START + number))
    except rb.ConfigError as error:
        return str(error)
    assert sent.shape == START.shape
    return ""


def test_every_attack_lies_or_says_what_it_lacks() -> None:
    lacking = {name: lie(name) for name in names("attack")}
    assert {*ALONE} <= {name for name, reason in lacking.items() if not reason}
    told = {reason.partition(" ")[2] for reason in lacking.values() if reason}
    needs = {"the updates of several clients", "the server's rule"}
    assert told == {f"needs {what}, which a client alone does not know: take another attack" for what in needs} | {
        "changes data, by attack.poison(Shard(...)) where a client loads them, or plans whole trainings: take an "
        "attack that crafts updates"
    }
