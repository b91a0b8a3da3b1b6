"""Entry points of the four commands. Ctrl-C ends them with one line, also during imports."""

import gc
import os
import signal
import sys
from contextlib import nullcontext
from importlib import import_module
from io import TextIOWrapper
from types import ModuleType
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
    "completion": "robustfl_bench.commands.completion",
    "docs": "robustfl_bench.commands.docs",
    "new": "robustfl_bench.commands.new",
    "remake": "robustfl_bench.commands.making",
}
"""The modules of the other tasks of ``robustfl-bench``, by its first word; an option can be anywhere."""

LABORATORY = {
    verb: f"robustfl_bench.commands.lab.{verb}" for verb in ("arena", "decide", "fill", "judge", "probe", "resilience")
}
"""The verbs of the laboratory, ``robustfl_bench/lab``, which an installation can lack."""


QUICK = {"recommend": "robustfl_bench.commands.lab.recommend"}
"""The verbs of ``robustfl-results`` that answer from a file, in a moment, so none of the others is imported."""

READ_NO_RESULTS = ("--list", "completion", "docs", "new")
"""Those of VERBS in which a name is always the user's."""


def bench() -> NoReturn:
    """``robustfl-bench``: runs, or one of VERBS."""
    words = sys.argv[1:]
    verb = "--list" if "--list" in words else "".join(words[:1])
    module = VERBS.get(verb, LABORATORY.get(verb))
    if module:
        sys.argv.remove(verb)
    asked_by_tab = "_ARGCOMPLETE" in os.environ  # then the environment also holds the words
    if asked_by_tab:
        verb, module = "completion", VERBS["completion"]
    _start("robustfl-bench", module, module is not None and verb not in READ_NO_RESULTS)


def results() -> NoReturn:
    """``robustfl-results``. It keeps nearly all that it makes, so it seldom looks for garbage, a fifth of its time."""
    gc.set_threshold(200_000, 20, 20)
    module = QUICK.get("".join(sys.argv[1:2])) if "_ARGCOMPLETE" not in os.environ else None
    if module:
        del sys.argv[1]
    _start("robustfl-results", module, reads=True)


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
    from robustfl_bench.commands.answered import answered

    words = sys.argv[1:] if program == "robustfl-results" else []
    code: str | int | None = None
    try:
        try:
            if sys.argv[1:] == ["--version"]:
                print(program, __version__)
            else:
                main = answered(words, lambda: _imported(module or PROGRAMS[program]).main)
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


def _imported(module: str) -> ModuleType:
    """A module of the command line. Ends with one line where it belongs to a laboratory that is not installed."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("robustfl_bench.lab"):
            raise
        print(f"{module.rpartition('.')[2]} needs the laboratory, robustfl_bench/lab, which is not installed here",
              file=sys.stderr)  # fmt: skip
        sys.exit(2)


def _leave(number: int, _: object) -> NoReturn:
    """Exit at once, with the code of a process that a signal ended. An import could turn an exception into another
    one."""
    os.write(sys.stderr.fileno(), b"interrupted\n")
    os._exit(128 + number)
