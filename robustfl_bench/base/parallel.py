"""Threads that share the work of a run, with the same bytes for every number of threads.

PyTorch and BLAS split a sum by the number of their threads, so that its last bits depend on it, and their threads wait
for the slowest at every step. Here both compute on one thread, and Python threads take tasks. Callers divide the work
into tasks by its size alone and add up the results in a fixed order.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import TypeVar

import torch
from threadpoolctl import ThreadpoolController

Task = TypeVar("Task")
Result = TypeVar("Result")

_pool: ThreadPoolExecutor | None = None
_thread = threading.local()


@contextmanager
def workers(number: int) -> Iterator[None]:
    """Within this context ``each`` uses ``number`` threads, and PyTorch and NumPy's BLAS use one thread in each of
    them."""
    global _pool
    outside, before = _pool, torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with _libraries().limit(limits=1, user_api="blas"):
            if number == 1:
                _pool = None
                yield
            else:
                with ThreadPoolExecutor(number, initializer=_begin) as _pool:
                    yield
    finally:
        _pool = outside
        torch.set_num_threads(before)


def each(work: Callable[[Task], Result], tasks: Iterable[Task]) -> list[Result]:
    """The results of ``work`` on every task, in order; ``work`` is called by several threads within ``workers``.

    A task within a task runs in the same thread, and a single task runs without waking a thread.
    """
    return list(in_turn(work, tasks))


def in_turn(work: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
    """As ``each``, one result after the other, so that a caller that adds them up need not hold all of them."""
    if _pool is None or hasattr(_thread, "busy") or len(tasks := list(tasks)) < 2:
        return map(work, tasks)
    with_gradients = torch.is_grad_enabled()  # PyTorch keeps this setting per thread

    def run(task: Task) -> Result:
        with torch.set_grad_enabled(with_gradients):
            return work(task)

    return _pool.map(run, tasks)


def _begin() -> None:
    _thread.busy = True
    torch.set_num_threads(1)  # OpenMP keeps this number per thread


@lru_cache(maxsize=1)
def _libraries() -> ThreadpoolController:
    """The loaded libraries with threads, cached because finding them takes milliseconds."""
    return ThreadpoolController()
