"""Downloads that break and are continued, from a server on this machine, and the command robustfl-data."""

import gzip
import hashlib
import os
import re
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from robustfl_bench.base.errors import ConfigError, DataError
from robustfl_bench.commands.data import dataset_of, main, named_options, sources
from robustfl_bench.parts.datasets.cifar10 import Cifar10
from robustfl_bench.parts.datasets.download import CHUNK, Download, fetch
from robustfl_bench.parts.datasets.files import File, Layout
from robustfl_bench.parts.datasets.mnist import Mnist
from robustfl_bench.runner.config.options import CONF

CONTENT = bytes(range(256)) * 32 * 60  # 60 chunks
assert len(CONTENT) == 60 * CHUNK


RNG = np.random.Generator(np.random.Philox(key=2))


@dataclass
class Server:
    """A file server that can misbehave; ``ranges`` records the Range header of every request."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    ranges: list[str | None] = field(default_factory=list)
    allowances: list[int] = field(default_factory=list)  # bytes sent before the connection drops, per request
    supports_ranges: bool = True


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            state.ranges.append(asked)
            content = state.files.get(self.path)
            if content is None:
                return self.send_error(404)
            start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and state.supports_ranges else 0
            if start >= len(content):
                return self.send_error(416)
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            allowed = state.allowances.pop(0) if state.allowances else len(content)
            self.wfile.write(content[start : start + allowed])
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    state.url = f"http://127.0.0.1:{listening.server_port}/"
    yield state
    listening.shutdown()
    thread.join()
    listening.server_close()


def download_of(server: Server, *folders: str) -> Download:
    server.files = {f"/{folder}data.gz": CONTENT for folder in folders}
    return Download("data.gz", hashlib.sha256(CONTENT).hexdigest(), tuple(server.url + folder for folder in folders))


def test_download_and_use_again(tmp_path: Path, server: Server) -> None:
    download = download_of(server, "a/")
    path = fetch(download, tmp_path / "new" / "folder")
    assert path == tmp_path / "new" / "folder" / "data.gz" and path.read_bytes() == CONTENT
    assert [p.name for p in path.parent.iterdir()] == ["data.gz"]
    assert fetch(download, path.parent) == path
    assert server.ranges == [None]  # the second time asked for nothing


def test_dropped_connections_are_continued(tmp_path: Path, server: Server) -> None:
    download = download_of(server, "a/")
    server.allowances = [10 * CHUNK, 15 * CHUNK + 5, CHUNK]
    assert fetch(download, tmp_path).read_bytes() == CONTENT
    assert server.ranges == [None, *(f"bytes={chunks * CHUNK}-" for chunks in (10, 25, 26))]


def test_interrupted_download_is_continued_by_the_next_call(tmp_path: Path, server: Server) -> None:
    download = download_of(server, "a/")
    server.allowances = [20 * CHUNK, 0]
    with pytest.raises(DataError, match="run the same command again to continue"):
        fetch(download, tmp_path)
    assert (tmp_path / "data.gz.part").read_bytes() == CONTENT[: 20 * CHUNK]
    assert not (tmp_path / "data.gz").exists()
    assert fetch(download, tmp_path).read_bytes() == CONTENT
    assert server.ranges == [None, *[f"bytes={20 * CHUNK}-"] * 2]
    assert [p.name for p in tmp_path.iterdir()] == ["data.gz"]


def test_another_mirror_continues(tmp_path: Path, server: Server) -> None:
    download = download_of(server, "a/", "b/")
    server.allowances = [CHUNK, 0]
    assert fetch(download, tmp_path).read_bytes() == CONTENT
    assert server.ranges == [None, *[f"bytes={CHUNK}-"] * 2]


def test_server_without_ranges_starts_over(tmp_path: Path, server: Server) -> None:
    download = download_of(server, "a/")
    server.supports_ranges = False
    server.allowances = [CHUNK]
    assert fetch(download, tmp_path).read_bytes() == CONTENT
    assert server.ranges == [None, f"bytes={CHUNK}-"]


def test_complete_partial_file_is_used(tmp_path: Path, server: Server) -> None:
    (tmp_path / "data.gz.part").write_bytes(CONTENT)
    assert fetch(download_of(server, "a/"), tmp_path).read_bytes() == CONTENT


def test_damaged_partial_file_is_thrown_away(tmp_path: Path, server: Server) -> None:
    (tmp_path / "data.gz.part").write_bytes(b"rubbish")
    assert fetch(download_of(server, "a/", "b/"), tmp_path).read_bytes() == CONTENT
    assert server.ranges == ["bytes=7-", None]


def test_wrong_content_is_refused(tmp_path: Path, server: Server) -> None:
    download = download_of(server, "a/")
    server.files["/a/data.gz"] = CONTENT[::-1]
    with pytest.raises(DataError, match="another file, its SHA-256 is wrong") as caught:
        fetch(download, tmp_path)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_damaged_file_is_replaced(tmp_path: Path, server: Server) -> None:
    (tmp_path / "data.gz").write_bytes(CONTENT[:-1])
    assert fetch(download_of(server, "a/"), tmp_path).read_bytes() == CONTENT


def test_mirrors_in_turn_and_all_failures_are_told(tmp_path: Path, server: Server) -> None:
    download = download_of(server, "a/", "b/")
    del server.files["/a/data.gz"]
    assert fetch(download, tmp_path).read_bytes() == CONTENT
    server.files.clear()
    with pytest.raises(DataError, match=r"could not be downloaded \(127.0.0.1:\d+: 404 Not Found\); run") as caught:
        fetch(download, tmp_path / "other")
    assert "\n" not in str(caught.value)


def test_unwritable_folder(tmp_path: Path, server: Server) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(ConfigError, match=r"cannot write .*/file/mnist: Not a directory"):
        fetch(download_of(server, "a/"), tmp_path / "file" / "mnist")


def test_without_a_network_one_short_line_says_what_to_do(tmp_path: Path, server: Server) -> None:
    closed = f"http://127.0.0.1:{closed_port()}/"
    download = replace(download_of(server, "a/"), mirrors=(closed, closed, closed))
    with pytest.raises(DataError, match=r"no connection.*run the same command again.*put the file into") as caught:
        fetch(download, tmp_path)
    assert "\n" not in str(caught.value) and len(str(caught.value)) - len(str(tmp_path)) < 220


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


# ---- the command


@pytest.fixture
def tiny_mnist(monkeypatch: pytest.MonkeyPatch, server: Server) -> Server:
    """Lets the command take four small files on the local server for MNIST."""
    files, downloads = [], []
    for layout_file in Mnist.source.layouts[0].files:
        shape = (40, 28, 28)[: 1 if "labels" in layout_file.name else 3]
        values = RNG.integers(0, 10 if len(shape) == 1 else 256, shape, dtype=np.uint8)
        content = struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape) + values.tobytes()
        packed = gzip.compress(content, mtime=0)
        name = layout_file.name
        server.files[f"/{name}.gz"] = packed
        files.append(File(name, {f"sha256:{hashlib.sha256(content).hexdigest()}": "official"}, len(content)))
        downloads.append(Download(f"{name}.gz", hashlib.sha256(packed).hexdigest(), (server.url,)))
    layouts = tuple(Layout(layout.path, tuple(files)) for layout in Mnist.source.layouts)
    monkeypatch.setattr(Mnist, "source", replace(Mnist.source, layouts=layouts, downloads=tuple(downloads)))
    return server


def test_prepare_verify_list(tmp_path: Path, tiny_mnist: Server, capsys: pytest.CaptureFixture[str]) -> None:
    folder = ["--data-dir", str(tmp_path)]
    assert main(["verify", "mnist", *folder]) == 3
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and error.startswith("robustfl-data: no mnist in ")

    tiny_mnist.allowances = [CHUNK]  # one drop on the way
    assert main(["prepare", "mnist", *folder]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"mnist: downloading into {tmp_path / 'mnist'}",
        f"mnist: ready in {tmp_path / 'mnist'} (official)",
    ]
    requests = len(tiny_mnist.ranges)
    assert main(["prepare", "mnist", "digits", *folder]) == 0
    assert len(tiny_mnist.ranges) == requests == 5
    assert "digits: ready in " in capsys.readouterr().out

    assert main(["verify", "mnist", *folder]) == 0
    verified = capsys.readouterr().out
    assert verified.count("OK  ") == 4
    assert re.fullmatch(r"mnist: 40 \+ 40 samples \(official\), digest [0-9a-f]{64}", verified.splitlines()[-1])
    assert main(["list", *folder]) == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert re.search(rf"1x28x28 +10 +60000 +10000 +ready +CC BY-SA 3.0 +official +{tmp_path}/mnist$", rows["mnist"])
    assert re.search(rf"- +- +missing .* - +not in {tmp_path}$", rows["cifar10"])
    assert rows.keys() - {"name"} == {path.stem for path in (CONF / "dataset").glob("*.yaml")}


def test_damage_is_told_and_mended(tmp_path: Path, tiny_mnist: Server, capsys: pytest.CaptureFixture[str]) -> None:
    folder = ["--data-dir", str(tmp_path)]
    assert main(["prepare", "mnist", *folder]) == 0
    path = tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-9])
    capsys.readouterr()
    assert main(["verify", "mnist", "digits", *folder]) == 3
    output = capsys.readouterr()
    assert main(["list", *folder]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("mnist "))
    assert re.search(rf" - +- +damaged .*{path}: cannot be read: truncated or damaged", row)
    assert f"BAD {path}: cannot be read: truncated or damaged?" in output.out
    assert output.out.count("OK  ") == 4  # the other three, and digits
    assert output.err.startswith("robustfl-data: mnist: 1 of 4 files are bad; run `robustfl-data prepare mnist")
    assert output.err.count("\n") == 1
    assert main(["prepare", "mnist", *folder]) == 0
    assert main(["verify", "mnist", *folder]) == 0
    assert len(tiny_mnist.ranges) == 5


def test_prepare_replaces_damaged_files_of_another_layout(tmp_path: Path, tiny_mnist: Server) -> None:
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for file in Mnist.source.layouts[0].files:
        (raw / file.name).write_bytes(b"damaged")
    assert main(["prepare", "mnist", "--data-dir", str(tmp_path)]) == 0
    assert {path.read_bytes() for path in raw.iterdir()} == {b"damaged"}  # what it did not write it leaves alone


def test_failed_download_exits_with_3(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = Download("cifar-10-python.tar.gz", "0" * 32, (server.url,))
    monkeypatch.setattr(Cifar10, "source", replace(Cifar10.source, downloads=(nowhere,)))
    assert main(["prepare", "cifar10", "--data-dir", str(tmp_path)]) == 3
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "404" in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["verify", "mnits"], "no data set 'mnits' (did you mean mnist or "),
        (["prepare", "imagenet"], "no data set 'imagenet'; there are ag_news, arrays, cifar10, cifar100, digits, "),
        (["prepare"], "required: NAME"),
        (["destroy", "mnist"], "invalid choice: 'destroy'"),
        ([], "required: list|prepare|verify|partition"),
    ],
)
def test_bad_arguments(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code: object = main(arguments)
    except SystemExit as left:  # argparse's own
        code = left.code
    error = capsys.readouterr().err
    assert code == 2 and message in error and error.count("\n") == 1


def test_every_checksum_of_a_download_is_a_sha256() -> None:
    every = [source for name in named_options() for source in sources(dataset_of(name))]
    downloads = {download for source in every for download in source.downloads}
    assert len(downloads) >= 13
    assert all(re.fullmatch("[0-9a-f]{64}", download.sha256) for download in downloads)


def test_downloads_are_the_files_that_people_have() -> None:
    root = os.environ.get("ROBUSTFL_DATA")
    if not root:
        pytest.skip("set ROBUSTFL_DATA to a data folder to test on the real files")
    every = [source for name in named_options() for source in sources(dataset_of(name))]
    here = {
        path: download
        for source in every
        for download in source.downloads
        if (path := Path(root) / source.name / download.name).exists()
    }
    if not here:
        pytest.skip(f"no file in {root} is packed as published")
    for path, download in here.items():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == download.sha256, path
