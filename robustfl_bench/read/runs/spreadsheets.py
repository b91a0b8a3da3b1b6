"""Words in CSV files that a spreadsheet would take for formulas, such as the name of a stranger's rule."""

import re

_FORMULA = re.compile(r"'*[=+\-@\t\r].")
_NUMBER = re.compile(r"[+-](inf|nan|[\d.](?!.*[a-z]\()[\w .,*()\[\]-]*)", re.IGNORECASE)
"""A number with a sign and perhaps words, without operators and functions: ``-1e-05``, ``+1.2 [0.1, 2.3]*``."""


def guarded(word: str) -> str:
    """The word with an apostrophe before it if a spreadsheet would take it for a formula."""
    return f"'{word}" if _FORMULA.match(word) and not _NUMBER.fullmatch(word) else word


def unguarded(word: str) -> str:
    """The word that ``guarded`` was given."""
    return word[1:] if word.startswith("'") and guarded(word[1:]) == word else word
