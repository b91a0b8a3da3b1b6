"""Downloads that can be interrupted: pooch checks and places the files, a partial file is continued by HTTP range."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robustfl_bench.errors import DataError

TIMEOUT = 30  # seconds without a byte
CHUNK = 1 << 13  # bytes: what a dropped connection can cost at most


@dataclass(frozen=True)
class Download:
    """A published file: its name, the md5 of it as published, and the addresses it lies under, tried in turn."""

    name: str
    md5: str
    mirrors: tuple[str, ...]


def fetch(download: Download, folder: Path) -> Path:
    """The checked file in ``folder``, downloaded unless it is there already.

    What an interrupted download brought stays in ``<name>.part`` and is continued, also from another mirror.
    Raises DataError when no mirror delivers, naming what each said.
    """
    import pooch  # only a download pays for it

    pooch.get_logger().setLevel("WARNING")
    partial = folder / f"{download.name}.part"

    def downloader(url: str, output_file: str, _: Any) -> None:
        resume(url, partial)
        os.replace(partial, output_file)  # a partial file with the wrong checksum is so thrown away by pooch

    failures = []
    for mirror in download.mirrors:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            found = pooch.retrieve(
                mirror + download.name,
                known_hash=f"md5:{download.md5}",
                fname=download.name,
                path=folder,
                downloader=downloader,
            )
            return Path(found)
        except (OSError, ValueError) as error:  # what requests and pooch raise
            failures.append(f"{mirror}: {' '.join(str(error).split())}")
    raise DataError(
        f"{download.name} could not be downloaded to {folder} ({'; '.join(failures)}); "
        "run the same command again to continue, or put the file there yourself"
    )


def resume(url: str, partial: Path) -> None:
    """Complete ``partial`` from ``url``, trying again for as long as each attempt brings new bytes."""
    while True:
        before = _size(partial)
        try:
            return _continue(url, partial)
        except OSError:
            if _size(partial) <= before:
                raise


def _continue(url: str, partial: Path) -> None:
    import requests
    from tqdm import tqdm

    have = _size(partial)
    headers = {"Accept-Encoding": "identity"}  # ranges count the bytes of the file, not of a compressed copy
    if have:
        headers["Range"] = f"bytes={have}-"
    with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
        if response.status_code == requests.codes.requested_range_not_satisfiable:
            return  # nothing comes after what we have; the checksum tells whether that is the file
        response.raise_for_status()
        if response.status_code != requests.codes.partial_content:
            have = 0  # the server sends the whole file
        length = response.headers.get("Content-Length")
        total = None if length is None else have + int(length)
        with (
            partial.open("ab" if have else "wb") as out,
            tqdm(desc=partial.stem, total=total, initial=have, unit="B", unit_scale=True, disable=None) as bar,
        ):
            for chunk in response.iter_content(CHUNK):
                out.write(chunk)
                bar.update(len(chunk))
    if total is not None and _size(partial) < total:
        raise ConnectionError(f"connection closed after {_size(partial)} of {total} bytes")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
