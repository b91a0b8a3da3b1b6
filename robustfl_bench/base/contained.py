"""What code that is not ours may not do to the process in which it is called."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from robustfl_bench.base.errors import BrokenContract, Terminated


@contextmanager
def contained(who: Callable[[], str]) -> Iterator[None]:
    """Raise BrokenContract, which names ``who``, where code within the context ends the process by ``sys.exit``. The
    end that SIGTERM asks for goes on."""
    try:
        yield
    except Terminated:
        raise
    except SystemExit as error:
        raise BrokenContract(f"{who()} called sys.exit({error.code!r}), which no part may do") from error
