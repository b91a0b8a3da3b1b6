"""The effective text of a source file: what a digest of code is of."""

import importlib
import io
import sys
import tokenize
from pathlib import Path

import pytest

from robustfl_bench.base import code_digest, trusted
from robustfl_bench.base.contained import has_changed
from robustfl_bench.base.source_code import effective, text
from robustfl_bench.runner.experiment.outside_code import digest

PLAIN = '''import math
LIMIT = 3
def rule(rows):
    return "# no comment", f"{len(rows)} # none either", """
    # nor this

    """, math.inf'''

EXPLAINED = '''# -*- coding: utf-8 -*-
"""What the module is for."""
import math  # infinity

# The most.
LIMIT = 3
"""Of what?"""

def rule(rows):
    """Says "# no comment"."""

    # see the paper

    return "# no comment", f"{len(rows)} # none either", """
    # nor this

    """, math.inf  # ∞
    # the end'''


@pytest.mark.parametrize("line_break", ["\n", "\r\n"])
def test_comments_docstrings_and_blank_lines_do_not_count(tmp_path: Path, line_break: str) -> None:
    path = tmp_path / "explained.py"
    path.write_bytes(EXPLAINED.replace("\n", line_break).encode())
    assert effective(path).decode() == PLAIN


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x = 1\n", "x = 2\n"),
        ("x = '#'\n", "x = '# '\n"),
        ("x = '''\n\n'''\n", "x = '''\n'''\n"),
        ("if x:\n    y()\n    'a'.b()\n", "if x:\n    y()\n'a'.b()\n"),
        ("def f():\n    'a'\n    return f.__doc__\n", "def f():\n    'b'\n    return f.__doc__\n"),
        ("f'{g()}'\n", "f'{h()}'\n"),
    ],
)
def test_what_can_be_seen_while_it_runs_counts(tmp_path: Path, one: str, other: str) -> None:
    first, second = tmp_path / "first.py", tmp_path / "second.py"
    first.write_text(one)
    second.write_text(other)
    assert effective(first) != effective(second)


def test_only_comments_docstrings_and_blank_lines_are_left_out() -> None:
    paths = [path for path in code_digest.PACKAGE.rglob("*.py") if b"__doc__" not in path.read_bytes()]
    assert len(paths) > 200
    for path in paths:
        assert statements(effective(path)) == statements(path.read_bytes()), path


def statements(source: bytes) -> list[tuple[int, list[str]]]:
    """The indentation and the tokens of every statement that is no string, by Python's own tokenizer."""
    found: list[tuple[int, list[str]]] = [(0, [])]
    left_out = {tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER}
    for token in tokenize.tokenize(io.BytesIO(source).readline):
        if token.type == tokenize.NEWLINE:
            found.append((0, []))
        elif token.type not in left_out:
            column, words = found[-1]
            found[-1] = (column if words else token.start[1], [*words, token.string])
    return [(column, words) for column, words in found if len(words) != 1 or words[0].lstrip("rR")[0] not in "'\""]


def test_an_edit_after_the_import_is_not_taken_for_the_code_that_was_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"edited_{tmp_path.name}"
    file, scale = tmp_path / f"{name}.py", tmp_path / "scale.txt"
    scale.write_text("1")
    file.write_text("from pathlib import Path\n\nSCALE = Path(__file__).with_name('scale.txt').read_text()\n")
    imported = file.read_bytes()
    monkeypatch.syspath_prepend(tmp_path)
    trusted.module(name)
    file.write_text("SCALE = 2\n")
    assert text(file) == imported and digest((f"{name}.SCALE",)) == (first := digest((f"{name}.SCALE",)))
    importlib.reload(sys.modules[name])
    assert digest((f"{name}.SCALE",)) != first and text(file) == b"SCALE = 2\n", "what a notebook reloads is new code"
    assert not has_changed(str(scale))
    scale.write_text("22")
    assert has_changed(str(scale))


def test_the_modules_of_this_package_have_the_text_that_was_read_first(monkeypatch: pytest.MonkeyPatch) -> None:
    place = code_digest.PACKAGE / "base" / "late.py"
    monkeypatch.setattr(code_digest, "texts", lambda: {place: b"FIRST = 1\n"})
    module = code_digest.Tree(code_digest.PACKAGE).module("robustfl_bench.base.late")
    assert module is not None and set(module.units) == {"FIRST"}
