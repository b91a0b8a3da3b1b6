"""Threads that share the work of a run, with the same bytes whatever their number.

PyTorch and BLAS split a sum by the number of their threads, so that its last bits depend on it, and their threads wait
for the slowest at every step. Here each computes on one thread, and Python threads take tasks: who makes tasks cuts
them by the size of the work alone and adds their results up in one order.
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
    """Within it ``each`` has so many threads, and PyTorch and NumPy's BLAS one for each of them."""
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

    A task that makes tasks does them itself, and for one task no thread is woken.
    """
    if _pool is None or hasattr(_thread, "busy") or len(tasks := list(tasks)) < 2:
        return [work(task) for task in tasks]
    with_gradients = torch.is_grad_enabled()  # of a thread, as PyTorch counts it

    def run(task: Task) -> Result:
        with torch.set_grad_enabled(with_gradients):
            return work(task)

    return list(_pool.map(run, tasks))


def _begin() -> None:
    _thread.busy = True
    torch.set_num_threads(1)  # OpenMP's number is that of a thread


@lru_cache(maxsize=1)
def _libraries() -> ThreadpoolController:
    """The loaded libraries with threads; to find them takes milliseconds."""
    return ThreadpoolController()
