"""The effective text of a source file: what a digest of code is of."""

import io
import tokenize
from pathlib import Path

import pytest

from robustfl_bench.base import code_digest
from robustfl_bench.base.source_code import effective

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
