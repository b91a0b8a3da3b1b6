"""What processes remember: the same answers with and without, and whatever happens to its files."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from robustfl_bench.base import code_digest, remembered
from robustfl_bench.train.code_digest import COMPUTING

WORDS = "", "robustfl_bench.aggregators.Krum robustfl_bench.attacks.Worst", "robustfl_bench.attacks.Worst medium"


def forget() -> None:
    """As a new process begins."""
    digests = (code_digest.known, code_digest._tree, code_digest._closure, code_digest._digest)
    for cached in (*digests, code_digest.package_digest, remembered._make_room):
        cached.cache_clear()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of what is remembered, empty."""
    monkeypatch.setenv(remembered.VARIABLE, str(tmp_path))
    remembered._folder.cache_clear()
    forget()
    yield tmp_path / "remembered"
    remembered._folder.cache_clear()
    forget()


def digests() -> list[tuple[str, frozenset[bytes], frozenset[str]]]:
    """What a new process says of some configs' code."""
    forget()
    of = [COMPUTING.closure(words) for words in WORDS]
    return [(each.digest, frozenset(unit.named for unit in each.units), each.wholes) for each in of]


@pytest.fixture
def expected(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, frozenset[bytes], frozenset[str]]]:
    """The same where nothing is remembered."""
    with monkeypatch.context() as without:
        without.setenv(remembered.VARIABLE, remembered.OFF)
        return digests()


def no_text_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: object) -> None:
        raise AssertionError("the text of a module was read")

    monkeypatch.setattr(code_digest, "Module", read)


def test_digests_are_the_same_and_no_text_is_read_twice(
    folder: Path, expected: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert digests() == expected
    no_text_is_read(monkeypatch)
    assert digests() == expected


def test_a_digest_is_remembered_for_the_same_files_and_parts(
    folder: Path, expected: list[tuple[str, object, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for words, (digest, *_) in zip(WORDS, expected, strict=True):
        for _ in range(2):
            forget()
            assert COMPUTING.digest(words) == digest
        assert not code_digest._tree.cache_info().currsize  # the second time
    forget()
    with monkeypatch.context() as edited:
        edited.setattr(code_digest, "package_digest", lambda: "of files of which one differs")
        assert COMPUTING.digest("") == expected[0][0] and code_digest._tree.cache_info().currsize


def test_an_edit_is_seen_and_only_the_edited_file_is_read(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = {
        "base/abilities.py": "class Part:\n    abilities = {'name': Ability(counts='never')}\n    name = 1\n",
        "rules.py": "from package.base.abilities import Part\nclass Rule(Part):\n    def name(self): return 1\n"
                    "    def sums(self): return half(2)\n    size = 3\ndef half(x): return x / 2\n",
        "mine.py": "from package.rules import Rule\nclass Mine(Rule):\n    def name(self): return 4\n    size = 5\n"
                   "def start(rule: Mine): return rule.sums() + rule.size + rule.name()\n",
        "__init__.py": "", "base/__init__.py": "",
    }  # fmt: skip
    root = tmp_path / "package"
    for name, text in tree.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)

    def digest() -> str:
        forget()
        return code_digest.Tree(root).closure([("package.mine", "start")], [("package.mine", "Mine")]).digest

    seen = set[str]()
    read, names = code_digest.Module, list[str]()
    monkeypatch.setattr(code_digest, "Module", lambda name, *given: names.append(name) or read(name, *given))
    for name, old, new in (
        ("mine.py", "", ""),
        ("rules.py", "x / 2", "x / 3"),
        ("mine.py", "size = 5", "size = 6"),
        ("base/abilities.py", "counts='never'", "counts='always'"),  # changes what counts in the other files
    ):
        (root / name).write_text((root / name).read_text().replace(old, new, 1))
        names.clear()
        with_records, edited = digest(), set(names)
        names.clear()
        assert digest() == with_records and not names
        monkeypatch.setenv(remembered.VARIABLE, remembered.OFF)
        assert digest() == with_records
        monkeypatch.setenv(remembered.VARIABLE, str(folder.parent))
        assert with_records not in seen
        seen.add(with_records)
        if new and name != "base/abilities.py":
            assert edited == {f"package.{name.removesuffix('.py')}"}


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def linked(path: Path) -> None:
    path.rename(path.with_suffix(".moved"))
    path.symlink_to(path.with_suffix(".moved"))


def swapped(path: Path) -> None:
    """The record of another module, with its seal."""
    other = next(each for each in sorted(path.parent.iterdir()) if each.stem != path.stem)
    path.write_bytes(other.read_bytes())


DAMAGES: list[Callable[[Path], object]] = [
    flipped,
    linked,
    swapped,
    lambda path: path.write_bytes(b""),
    lambda path: path.write_bytes(path.read_bytes()[:-1]),
    lambda path: path.chmod(0o666),
    lambda path: (path.unlink(), path.mkdir()),
    lambda path: (path.unlink(), os.mkfifo(path)),
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_and_foreign_files_count_as_none(folder: Path, damage: Callable[[Path], object]) -> None:
    remembered.remember(b"subject", b"con", b"tent")
    (path,) = folder.iterdir()
    remembered.remember(b"other", b"content of another subject")
    assert remembered.recall(b"subject") == b"content"
    damage(path)
    assert remembered.recall(b"subject") is None
    remembered.remember(b"subject", b"content")
    assert remembered.recall(b"subject") == (None if path.is_dir() else b"content")


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o755])
def test_a_folder_that_others_can_enter_is_not_believed(folder: Path, mode: int) -> None:
    remembered.remember(b"subject", b"content")
    folder.chmod(mode)
    remembered._folder.cache_clear()
    assert remembered.recall(b"subject") is None
    remembered.remember(b"other", b"content")
    assert len(list(folder.iterdir())) == 1


def test_a_folder_of_another_user_is_not_believed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remembered.remember(b"subject", b"content")
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
    assert remembered.recall(b"subject") is None  # the file's
    remembered._folder.cache_clear()
    assert remembered._folder(str(folder.parent)) is None


def test_without_a_folder_nothing_is_remembered_and_nothing_fails(folder: Path, expected: object) -> None:
    folder.write_text("a file is in its place")
    assert digests() == expected
    assert remembered.recall(b"subject") is None


def test_what_was_not_used_for_longest_goes_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "ROOM", 500)
    for number in range(4):
        remembered.remember(str(number).encode(), b"x" * 100)
        os.utime(folder / remembered._name(str(number).encode()), (number, number))
    assert remembered.recall(b"0") is not None  # used now
    remembered._make_room.cache_clear()
    remembered.remember(b"4", b"x" * 100)
    assert [bool(remembered.recall(str(number).encode())) for number in range(5)] == [True, False, False, True, True]


def test_processes_remember_at_once(folder: Path, expected: list[tuple[str, object, object]]) -> None:
    code = "from robustfl_bench.train.code_digest import code_digest; print(code_digest(''))"
    processes = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate()[0].strip() for process in processes] == [expected[0][0]] * 2
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]
    assert digests() == expected
