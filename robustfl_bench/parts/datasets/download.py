"""Downloads that can be interrupted: pooch checks the files, and HTTP ranges continue a partial one."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from robustfl_bench.base.errors import DataError, writable

TIMEOUT = 30  # seconds without a byte
CHUNK = 1 << 13  # bytes: the most that a dropped connection can lose


@dataclass(frozen=True)
class Download:
    """A published file: its name, its SHA-256 as published (packed), and its mirrors, tried in turn."""

    name: str
    sha256: str
    mirrors: tuple[str, ...]


def fetch(download: Download, folder: Path) -> Path:
    """The checked file in ``folder``, downloaded unless the folder has it.

    An interrupted download leaves ``<name>.part``, from which the next one continues, also with another mirror.
    Raises DataError, with what went wrong on which servers, when none delivers, and ConfigError for a folder that
    cannot be made.
    """
    import pooch  # only a download pays for it

    pooch.get_logger().setLevel("WARNING")
    partial = folder / f"{download.name}.part"

    def downloader(url: str, output_file: str, _: Any) -> None:
        resume(url, partial)
        os.replace(partial, output_file)  # a partial file with the wrong checksum is so thrown away by pooch

    with writable(folder):
        folder.mkdir(parents=True, exist_ok=True)
    failures: dict[str, list[str]] = {}  # servers by what went wrong
    for mirror in download.mirrors:
        try:
            found = pooch.retrieve(
                mirror + download.name,
                known_hash=f"sha256:{download.sha256}",
                fname=download.name,
                path=folder,
                downloader=downloader,
            )
            return Path(found)
        except (OSError, ValueError) as error:  # requests raises the one, pooch the other
            servers = failures.setdefault(_reason(error), [])
            if (server := urlsplit(mirror).netloc) not in servers:
                servers.append(server)
    told = "; ".join(f"{', '.join(servers)}: {reason}" for reason, servers in failures.items())
    raise DataError(
        f"{download.name} could not be downloaded ({told}); "
        f"run the same command again to continue, or put the file into {folder}"
    )


def _reason(error: OSError | ValueError) -> str:
    """A failure in a few words: the messages of requests and pooch take hundreds of characters."""
    import requests

    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"{error.response.status_code} {error.response.reason}"
    if isinstance(error, requests.Timeout):
        return f"no answer in {TIMEOUT} s"
    if isinstance(error, requests.ConnectionError):
        return "no connection"
    if isinstance(error, ConnectionError):  # our own, in _continue
        return str(error)
    if isinstance(error, ValueError) and "hash" in str(error):
        return "another file, its SHA-256 is wrong"
    return getattr(error, "strerror", None) or type(error).__name__


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
            return  # the partial file is as long as the whole one; the checksum decides
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
