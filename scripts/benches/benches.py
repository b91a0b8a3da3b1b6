"""What the benchmarks share: turns and medians, the machine and whether it is idle, tables and CSV files."""

import argparse
import atexit
import csv
import io
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from robustfl_bench.base.children import forkserver
from robustfl_bench.base.parallel import workers
from robustfl_bench.parts import datasets
from robustfl_bench.runner.config import compose
from robustfl_bench.runner.experiment.machine import facts
from robustfl_bench.runner.experiment.plan import plan
from robustfl_bench.train.federation import Federation, federation_of

# isort: split
import torch

if TYPE_CHECKING:
    from robustfl_bench.read.pages.pictures.canvas import Figure

Result = TypeVar("Result")

BUSY = 0.1  # of a core, by others: more is no idle machine


def parser(text: str | None) -> argparse.ArgumentParser:
    """The arguments of every benchmark."""
    made = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--repeats", type=int, default=7, help="turns over all, of which medians are taken (7)")
    made.add_argument("--threads", type=int, nargs="+", default=[os.cpu_count() or 1], help="numbers of threads")
    made.add_argument("--csv", type=Path, help="also write the table here")
    return made


def as_of(commit: str) -> str:
    """The name under which this package as of ``commit`` can be imported, beside that of today."""
    name, folder = f"robustfl_bench_{commit}", Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    command = ["git", "archive", commit, "robustfl_bench", "conf"]
    archive = subprocess.run(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    for path in (*folder.rglob("*.py"), *folder.rglob("*.yaml")):
        path.write_text(path.read_text().replace("robustfl_bench", name))
    (folder / "robustfl_bench").rename(folder / name)
    sys.path.append(str(folder))
    return name


WINGS = {
    "config": "runner",
    "datasets:load": "parts",
    "experiment": "runner",
    "network": "numerics",
    "sweeps": "runner",
}
"""The wings of rooms that benchmarks name, which older versions had without them."""


def part_of(package: str, *places: str) -> Any:
    """The first of ``places``, such as ``network.network:Network``, that a version of this package has: in its wing, or
    where rooms had none."""
    wings = {room: f"{wing}.{room}" for room, wing in WINGS.items()} | {"engine": "train"}
    in_wings = [".".join([wings.get(room, room), *rest]) for room, *rest in (place.split(".") for place in places)]
    for place in (*in_wings, *places):
        module, _, name = place.partition(":")
        try:
            return getattr(import_module(f"{package}.{module}"), name)
        except ModuleNotFoundError:
            continue
    raise ModuleNotFoundError(f"{package} has none of {', '.join(places)}")


measured = workers
"""The threads of a run, within which work is measured."""


def federation(*overrides: str) -> Federation:
    """The federation of a run on a CPU, with its data."""
    planned = plan(compose.resolve(overrides).config)
    data = datasets.load(planned.parts.dataset, None, torch.device("cpu"))
    return federation_of(planned.settings, planned.parts, data)


def alone(work: Callable[..., Result], *arguments: object) -> Result:
    """What the work returns, in a process of its own."""
    with ProcessPoolExecutor(1, forkserver("robustfl_bench.train.loop")) as pool:
        return pool.submit(work, *arguments).result()


@contextmanager
def neighbours(number: int) -> Iterator[None]:
    """So many other processes that do nothing but compute."""
    command = [sys.executable, "-c", "while True: sum(range(1000))"]
    busy = [subprocess.Popen(command) for _ in range(number)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def medians(works: Mapping[str, Callable[[], object]], repeats: int, cpu: bool = False) -> dict[str, float]:
    """Median seconds of each, taken in turn so that a change of the machine's speed hits all alike.

    A first turn warms up and is not counted. Work that measures itself, in another process, returns its seconds. With
    ``cpu``, they are seconds of a processor in all threads, which other programs lengthen little.
    """
    clock = time.process_time if cpu else time.perf_counter
    times: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(repeats + 1):
        for name, work in works.items():
            began = clock()
            found = work()
            seconds = found if isinstance(found, float) else clock() - began
            if turn:
                times[name].append(seconds)
    return {name: statistics.median(values) for name, values in times.items()}


def conditions() -> str:
    """The machine in one line, and how busy others keep it."""
    known, cores = facts(None), os.cpu_count() or 1
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = ", ".join(f"{name} {known['versions'][name]}" for name in ("python", "torch", "numpy"))
    busy = _busy_cores()
    idle = "idle" if busy <= BUSY else "NOT IDLE, compare ratios only"
    return (
        f"{known['processor']}, {cores} cores, {memory:.0f} GiB; {versions}; commit {known['commit'][:12]}\n"
        f"others use {busy:.2f} of {cores} cores: {idle}"
    )


def _busy_cores() -> float:
    """The cores that are not idle while this process sleeps; nan where the system does not tell."""
    try:
        first = _ticks()
        time.sleep(1.0)
        second = _ticks()
    except OSError:
        return float("nan")
    total, idle = (after - before for before, after in zip(first, second, strict=True))
    return (1 - idle / max(total, 1)) * (os.cpu_count() or 1)


def _ticks() -> tuple[int, int]:
    """All ticks of the processor so far, and those spent idle."""
    counts = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    return sum(counts), counts[3] + counts[4]


def highest() -> int:
    """The most bytes that this process has had in memory since it began."""
    return in_memory("VmHWM:")


def in_memory(which: str) -> int:
    """Bytes of this process in memory: now (``VmRSS:``) or at most (``VmHWM:``)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(which))


def n_and_d(text: str) -> tuple[int, int]:
    """The numbers of clients and parameters in a word of the command line, ``N,D``."""
    n, d = map(int, text.split(","))
    return n, d


def report(rows: Sequence[Mapping[str, object]], path: Path | None) -> None:
    """Print rows, of which some may lack columns, and write them as a CSV file where there is a path."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    cells = [columns, *([_short(row.get(name, "")) for name in columns] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    for row in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(rows)
        print(f"written: {path}")


def picture(figure: "Figure", path: Path) -> None:
    """Write a picture that ``--png`` asks for."""
    from robustfl_bench.read.pages.pictures.canvas import save  # late, as few benchmarks draw

    save(figure, path, "--png")
    print(f"written: {path}")


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
