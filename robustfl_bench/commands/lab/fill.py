"""``robustfl-bench fill``: the runs of most value that a device can make in so many minutes."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from argparse import ArgumentTypeError
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import KW_ONLY, asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

from robustfl_bench.base import remembered
from robustfl_bench.base.children import terminable
from robustfl_bench.base.console import counted, say
from robustfl_bench.base.errors import ConfigError, DataError, Terminated
from robustfl_bench.commands.answered import state
from robustfl_bench.commands.making import Making, keep, made_cells
from robustfl_bench.commands.verb import Argument, command
from robustfl_bench.lab import queue
from robustfl_bench.lab.agreement.measured import Evidence, scored
from robustfl_bench.lab.arena.track import PAPER, tracks
from robustfl_bench.lab.queue import VALUES, WantedStack, Words
from robustfl_bench.read.runs import archive
from robustfl_bench.read.runs.where import check_name
from robustfl_bench.read.tables.described import YAML, Paper, papers, read
from robustfl_bench.runner.experiment import speed
from robustfl_bench.runner.experiment.machine import cores
from robustfl_bench.runner.experiment.speed import Speed
from robustfl_bench.runner.store.folders import DIVERGED, FINISHED, INFEASIBLE, runs_folder
from robustfl_bench.runner.sweeps.cells import Sweep
from robustfl_bench.runner.sweeps.progress import duration
from robustfl_bench.runner.sweeps.take import require_data
from robustfl_bench.train.settings import DEVICES

_EVERY = 60.0
"""Seconds after which rows are kept."""


def _minutes(text: str) -> float:
    with suppress(ValueError):
        if 0 < float(text) < float("inf"):
            return float(text)
    raise ArgumentTypeError(f"must be a number of minutes > 0; got {text}")


@dataclass(frozen=True)
class FilledTime:
    """The time of a device, and what may be made in it."""

    words: Annotated[
        Sequence[str],
        Argument(
            "only for these: a paper or its table such as raga/table2, a track such as arena/fashion, a FILE.yaml of "
            "tables (all papers and the tracks that are not begun)",
            "NAME",
        ),
    ] = ()
    _: KW_ONLY
    minutes: Annotated[float, Argument("the time that there is", "M", read=_minutes)]
    device: Annotated[str, Argument(f"{', '.join(DEVICES)}, or cuda:N (%(default)s)", "DEVICE")] = "auto"
    output: Annotated[str, Argument("the rows of all results (%(default)s)", "FILE.csv")] = "filled.csv.gz"
    dry_run: Annotated[bool, Argument("say what would be made, and make nothing")] = False
    making: Making

    @property
    def jobs(self) -> int:
        """The processes that make runs."""
        return cores() if self.making.jobs < 0 else self.making.jobs

    def seconds(self, known: Speed, seconds: float) -> float:
        """The seconds of runs that fit into so many: those of all processes; a GPU has only its own."""
        return seconds if known.is_gpu else self.jobs * seconds

    def of_device(self, cells: Iterable[Words]) -> list[Words]:
        """Runs on the device, in the folder of the results."""
        return [(*cell, f"device={self.device}", f"results_dir={self.making.results_dir}") for cell in cells]


def fill(asked: FilledTime) -> None:
    """Make the runs of most value that a device can make in so many minutes, the shortest first, and keep a row of each
    in one small file. A cut loses nothing: the same command goes on. It needs no network; runs whose data are not on
    this machine are left out.
    """
    end, named = time.monotonic() + 60 * asked.minutes, _named(asked.words)
    known = speed.known(asked.device, not asked.dry_run).among(asked.jobs)
    say(VALUES)
    say(f"speed: {known.source}")
    if asked.dry_run:
        stacks = _affordable(asked, named, known, 60 * asked.minutes)
        nothing = f"nothing that is missing fits into {asked.minutes:g} minute{'s' * (asked.minutes != 1)}"
        print(_described(stacks, known) if stacks else nothing)
        return
    made = list[Words]()
    try:
        with terminable(), _ending(end):
            while stacks := _affordable(asked, named, known, end - time.monotonic(), set(made)):
                print(_described(stacks, known))
                for some in [stacks] if asked.jobs > 1 else _batches(stacks):
                    if made and some[0].seconds > asked.seconds(known, end - time.monotonic()):
                        break  # the others took longer than was estimated
                    cells = [cell for stack in some for cell in stack.cells]
                    made += cells
                    _make(", ".join(dict.fromkeys(stack.name for stack in some)), cells, asked)
        say(f"nothing{' else' * bool(made)} fits into the {asked.minutes:g} minutes")
    except Terminated:
        if time.monotonic() < end:
            raise
        say("the time is over; the same command goes on")
    finally:
        if made:
            number = keep(asked.of_device(made), asked.making, asked.output)
            say(f"{asked.output}: the rows of {counted(number, 'run')}")


main = command(fill, "robustfl-bench fill")


@contextmanager
def _ending(end: float) -> Iterator[None]:
    """Within the context the process ends itself at a time of the monotonic clock, as SIGTERM ends it."""
    timer = threading.Timer(end - time.monotonic(), os.kill, (os.getpid(), signal.SIGTERM))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


_Named = tuple[Mapping[str, Paper], Sequence[str] | None]
"""Papers, or single tables of them, and tracks of the arena; None: those that are not begun."""


def _named(words: Sequence[str]) -> _Named:
    """What is asked for by these words, or all. Raises ConfigError for a word that names nothing."""
    whole, arena = papers(), {f"{PAPER}/{name}": name for name in tracks()}
    known = {**whole, **{name: _only(paper, name) for paper in whole.values() for name in paper.tables}}
    described = dict[str, Paper]()
    for word in words:
        if word.endswith(YAML):
            described[word] = read(Path(word))
        elif word not in arena:
            check_name(word, [*known, *arena], "paper, table or track")
            described[word] = known[word]
    return (described, [arena[word] for word in words if word in arena]) if words else (whole, None)


def _only(paper: Paper, table: str) -> Paper:
    claims = tuple(claim for claim in paper.claims if claim.table == table)
    return replace(paper, tables={table: paper.tables[table]}, claims=claims)


def _affordable(
    asked: FilledTime, named: _Named, known: Speed, seconds: float, made: Set[Words] = frozenset()
) -> list[WantedStack]:
    """The stacks that fit into so many seconds and have not been ``made``, the shortest first."""
    wanted = [stack for stack in _wanted(asked, named, known) if not made >= {*stack.cells}]
    lacking = {stack.name: reason for stack in wanted if (reason := _lacks(stack))}
    for reason in dict.fromkeys(lacking.values()):
        say(f"left out: {', '.join(name for name in lacking if lacking[name] == reason)}: {reason.partition(' (')[0]}")
    here = (stack for stack in wanted if stack.name not in lacking)
    return queue.affordable(here, asked.seconds(known, seconds))


def _wanted(asked: FilledTime, named: _Named, known: Speed) -> Sequence[WantedStack]:
    """The queue; without results of the user as an earlier process has remembered it."""
    results_dir, output = asked.making.results_dir, Path(asked.output)
    is_own = output.exists() or runs_folder(results_dir).exists() or any(word.endswith(YAML) for word in asked.words)
    subject = None if is_own else state(["fill", *asked.words, repr(known)])
    if (content := remembered.recall(subject)) is not None:
        stacks = json.loads(bytes(content))
        return [WantedStack(**{**stack, "cells": [*map(tuple, stack["cells"])]}) for stack in stacks]
    runs = archive.with_kept(results_dir)
    if output.exists():
        runs = archive.join([runs, archive.read(asked.output)])
    evidence, (described, arena) = Evidence(runs, known), named
    wanted = queue.queue(scored(described, evidence), arena, evidence.costs, results_dir)
    remembered.remember(subject, json.dumps([asdict(stack) for stack in wanted]).encode())
    return wanted


def _lacks(stack: WantedStack) -> str:
    """The data that this machine lacks for a stack, in words; empty if it has them."""
    try:
        require_data(Sweep(tuple(stack.cells[:1])))
    except DataError as error:
        return str(error)
    return ""


def _described(stacks: Sequence[WantedStack], known: Speed) -> str:
    """A line for each table or track of which runs will be made, and one for all."""
    runs = counted(sum(len(stack.cells) for stack in stacks), "run")
    seconds = sum(stack.seconds for stack in stacks)
    place = "of the GPU" if known.is_gpu else "in one process"
    lines = [f"{runs}, {duration(seconds)} {place}, the shortest stacks first:"]
    for whole, number in queue.by_name(stacks):
        runs = f"{counted(len(whole.cells), 'run')} in {counted(number, 'stack')}"
        lines.append(f"  {whole.name}: {runs}, {duration(whole.seconds)}, value {whole.value:.2g} ({whole.source})")
    return "\n".join(lines)


def _batches(stacks: Sequence[WantedStack]) -> Iterator[list[WantedStack]]:
    """The stacks in order, as many at once as take _EVERY seconds."""
    batch = list[WantedStack]()
    for stack in stacks:
        batch.append(stack)
        if sum(one.seconds for one in batch) >= _EVERY:
            yield batch
            batch = []
    if batch:
        yield batch


def _make(what: str, cells: Sequence[Words], asked: FilledTime) -> None:
    """Make runs, and keep their rows, every _EVERY seconds if other processes make them. That some fail is reported."""
    cells = asked.of_device(cells)
    with _keeping(cells, asked) if asked.jobs > 1 else nullcontext():
        try:
            made_cells(cells, asked.making, what, (FINISHED, DIVERGED, INFEASIBLE))
        except ConfigError as error:
            say(str(error))
    keep(cells, asked.making, asked.output)


@contextmanager
def _keeping(cells: Sequence[Words], asked: FilledTime) -> Iterator[None]:
    """Within the context the rows of runs are kept every _EVERY seconds."""
    done = threading.Event()

    def keeps() -> None:
        while not done.wait(_EVERY):
            with suppress(DataError, OSError):  # which the last time reports
                keep(cells, asked.making, asked.output)

    keeper = threading.Thread(target=keeps, daemon=True)
    keeper.start()
    try:
        yield
    finally:
        done.set()
        keeper.join()
