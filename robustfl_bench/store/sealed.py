"""Checkpoints on disk: a line with format and SHA-256, then tensors, numbers, and the run that they belong to."""

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from robustfl_bench.store.writing import Damaged, read_regular, write_atomically

FORMAT = b"robustfl-bench checkpoint 1"  # raise the number when what is stored changes

Stamp = Mapping[str, str]
"""The identity of a state by subject (``run``, ``code``, ``data``). A state can only continue under the same
identity."""


def save(path: Path, content: Mapping[str, Any], stamp: Stamp) -> None:
    """Write plain containers of tensors and numbers; raises CannotWrite."""
    import torch

    buffer = io.BytesIO()
    torch.save({"stamp": dict(stamp), "content": dict(content)}, buffer)
    payload = buffer.getbuffer()
    write_atomically(path, b"%s %s\n" % (FORMAT, hashlib.sha256(payload).hexdigest().encode()), payload)


def load(path: Path, stamp: Stamp) -> dict[str, Any] | None:
    """What ``save`` wrote with the same stamp, on the CPU; None if there is no file. Raises Damaged for another file.

    Nothing is unpacked before its SHA-256 is checked, and no code is ever taken from the file.
    """
    import torch

    try:
        head, _, payload = read_regular(path, largest=None).partition(b"\n")
    except FileNotFoundError:
        return None
    known, _, digest = head.rpartition(b" ")
    if known != FORMAT:
        raise Damaged(f"{path.name} is damaged, or of another version")
    if hashlib.sha256(payload).hexdigest().encode() != digest:
        raise Damaged(f"{path.name} is damaged: its content does not have its SHA-256")
    try:
        loaded = torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)
        found, content = loaded["stamp"], loaded["content"]
        other = [subject for subject, value in stamp.items() if found[subject] != value]
    except Exception as error:  # unpickling raises almost anything
        raise Damaged(f"{path.name} cannot be unpacked: {type(error).__name__}") from None
    if other or not isinstance(content, dict):
        raise Damaged(f"{path.name} belongs to other {' and '.join(other) or 'content'}")
    return content
