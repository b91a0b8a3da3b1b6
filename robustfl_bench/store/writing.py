"""Files that other processes see whole or not at all, and the errors of files that cannot be written or read."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class CannotWrite(OSError):
    """A file cannot be written (no space left, no permission); ``filename`` says which."""


class Damaged(ValueError):
    """A file of a run folder is not what was written; one line says which and why."""


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Raise CannotWrite with this path for every OSError: the system does not name the file that found no space."""
    try:
        yield
    except OSError as error:
        raise CannotWrite(error.errno, error.strerror or str(error), str(path)) from error


def write_atomically(path: Path, *content: str | bytes | memoryview) -> None:
    """Write a file, from one or more pieces, that other processes see whole or not at all, also after a power cut.

    Raises CannotWrite, with the earlier content of the file intact.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with named(path):
        remove_leftovers(path)
        try:
            with open(temporary, "wb") as file:
                for piece in content:
                    file.write(piece.encode() if isinstance(piece, str) else piece)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def remove_leftovers(path: Path, claimed: bool = False) -> None:
    """Remove temporary files of killed writers of this file; their names end in the process id. ``claimed``: only this
    process may write the file, so leftovers of processes on any host are removed.
    """
    for other in list(path.parent.iterdir()):
        found = re.fullmatch(rf"\.{re.escape(path.name)}\.(\d+)", other.name)
        if found and (claimed or int(found[1]) == os.getpid() or not _is_alive(int(found[1]))):
            other.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
