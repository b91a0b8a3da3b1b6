"""The four commands, from their first instant: Ctrl-C ends them in one line also while they import."""

import os
import signal
import sys
from importlib import import_module
from typing import NoReturn

INTERRUPTED = 130  # exit code after Ctrl-C


VERBS = {"probe": "robustfl_bench.probe.cli", "resilience": "robustfl_bench.resilience.cli"}
"""The modules of what ``robustfl-bench`` does beside runs, by its first word."""


def bench() -> NoReturn:
    """``robustfl-bench``: runs, or what its first word names."""
    verb = sys.argv[1] if len(sys.argv) > 1 else ""
    if verb in VERBS:
        del sys.argv[1]
    _start(VERBS.get(verb, "robustfl_bench.cli"))


def results() -> NoReturn:
    """``robustfl-results``."""
    _start("robustfl_bench.results.cli")


def data() -> NoReturn:
    """``robustfl-data``."""
    _start("robustfl_bench.datasets.cli")


def ring() -> NoReturn:
    """``robustfl-ring``."""
    _start("robustfl_bench.ring.cli")


def _start(module: str) -> NoReturn:
    """Import a module and exit with what its ``main`` returns."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # not where a shell made a background job deaf to it
        signal.signal(signal.SIGINT, _leave)
    main = import_module(module).main
    signal.signal(signal.SIGINT, before)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


def _leave(*_: object) -> NoReturn:
    """Exit at once. An exception could end within an import that turns it into another one."""
    os.write(sys.stderr.fileno(), b"interrupted\n")
    os._exit(INTERRUPTED)
