"""This package itself: a digest of its code."""

import hashlib
from functools import lru_cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


@lru_cache(maxsize=1)
def package_digest() -> str:
    """SHA-256 over the names and contents of all Python files of this package."""
    total = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        content = path.read_bytes()
        total.update(f"{path.relative_to(PACKAGE).as_posix()} {len(content)}\n".encode())
        total.update(content)
    return total.hexdigest()
