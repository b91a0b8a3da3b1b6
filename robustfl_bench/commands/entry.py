"""Entry points of the four commands. Ctrl-C ends them with one line, also during imports."""

import gc
import os
import signal
import sys
from contextlib import nullcontext
from importlib import import_module
from io import TextIOWrapper
from typing import NoReturn

from robustfl_bench import __version__

PROGRAMS = {
    "robustfl-bench": "robustfl_bench.commands.bench",
    "robustfl-results": "robustfl_bench.commands.results",
    "robustfl-data": "robustfl_bench.commands.data",
    "robustfl-ring": "robustfl_bench.commands.ring",
}
"""The modules of the commands; each has a ``main``."""

VERBS = {
    "--list": "robustfl_bench.commands.listing",
    "arena": "robustfl_bench.commands.lab.arena",
    "completion": "robustfl_bench.commands.completion",
    "decide": "robustfl_bench.commands.lab.decide",
    "docs": "robustfl_bench.commands.docs",
    "judge": "robustfl_bench.commands.lab.judge",
    "new": "robustfl_bench.commands.new",
    "probe": "robustfl_bench.commands.lab.probe",
    "remake": "robustfl_bench.commands.remake",
    "resilience": "robustfl_bench.commands.lab.resilience",
}
"""The modules of the other tasks of ``robustfl-bench``, by its first word; an option can be anywhere."""


READ_NO_RESULTS = ("--list", "completion", "docs", "new")
"""Those of VERBS in which a name is always the user's."""


def bench() -> NoReturn:
    """``robustfl-bench``: runs, or one of VERBS."""
    words = sys.argv[1:]
    verb = "--list" if "--list" in words else "".join(words[:1])
    if verb in VERBS:
        sys.argv.remove(verb)
    asked_by_tab = "_ARGCOMPLETE" in os.environ  # then the environment also holds the words
    if asked_by_tab:
        verb = "completion"
    reads = verb in VERBS and verb not in READ_NO_RESULTS
    _start("robustfl-bench", VERBS.get(verb), reads)


def results() -> NoReturn:
    """``robustfl-results``. It keeps nearly all that it makes, so it seldom looks for garbage, a fifth of its time."""
    gc.set_threshold(200_000, 20, 20)
    _start("robustfl-results", reads=True)


def data() -> NoReturn:
    """``robustfl-data``."""
    _start("robustfl-data")


def ring() -> NoReturn:
    """``robustfl-ring``."""
    _start("robustfl-ring")


def _start(program: str, module: str | None = None, reads: bool = False) -> NoReturn:
    """Import a module, by default that of the program, and exit with the code of its ``main``. ``--version`` alone
    needs no import. If it ``reads`` results, names in them import nothing; see ``verb.obeyed``.
    """
    if sys.stdout is None:  # closed by the caller: >&-
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # an ASCII terminal shows \xb1
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # not if a shell made a background job ignore it
        signal.signal(signal.SIGINT, _leave)
    from robustfl_bench.base import trusted
    from robustfl_bench.base.errors import GENERAL, INTERRUPTED

    code: str | int | None = None
    try:
        try:
            if sys.argv[1:] == ["--version"]:
                print(program, __version__)
            else:
                main = import_module(module or PROGRAMS[program]).main
                signal.signal(signal.SIGINT, before)
                with trusted.only() if reads else nullcontext():
                    code = main()
        except SystemExit as end:
            code = end.code
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = INTERRUPTED
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # at exit, Python would write to it again
        gone = isinstance(error, BrokenPipeError)  # the reader of our output, as in `robustfl-bench --help | head`
        if not (gone or code):
            print(f"{program}: {error.filename or 'output'}: {error.strerror or error}", file=sys.stderr)
        code = code or GENERAL
    sys.exit(code)


def _leave(number: int, _: object) -> NoReturn:
    """Exit at once, with the code of a process that a signal ended. An import could turn an exception into another
    one."""
    os.write(sys.stderr.fileno(), b"interrupted\n")
    os._exit(128 + number)
