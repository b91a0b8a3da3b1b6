"""A sentence of a page with numbers, and what computes them."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "results"


@dataclass(frozen=True)
class Fact:
    """A sentence with a format such as ``{:.1f}`` for each number, and what computes the numbers.

    ``slow``: computing takes more than a few seconds.
    """

    sentence: str
    numbers: Callable[[], Sequence[object]]
    slow: bool = False

    def problem(self, page: str) -> str | None:
        """What is wrong with the sentence, in one line; None if it stands on the page with the computed numbers."""
        text = _plain((ROOT / page).read_text(encoding="utf-8"))
        sentence = _plain(self.sentence.format(*self.numbers()))
        if sentence in text:
            return None
        written = self._written(text)
        if written is None:
            return f"{page}: no such sentence: {_plain(self.sentence)}"
        return f"{page}: {written[0]!r}; the runs give {sentence!r}"

    def mended(self, text: str) -> str:
        """A page with the computed numbers in the sentence, its line breaks kept; as it is if it lacks the sentence."""
        written = self._written(text)
        if written is None:
            return text
        words = iter(_plain(self.sentence.format(*self.numbers())).split(" "))
        sentence = re.sub(r"\S+", lambda _: next(words), written[0])
        return text[: written.start()] + sentence + text[written.end() :]

    def _written(self, text: str) -> re.Match[str] | None:
        """Where the sentence stands in a text with any numbers, or ones in words, and any line breaks."""
        parts = re.split(r"\{[^}]*\}", _plain(self.sentence))
        spaced = (r"\s+".join(map(re.escape, part.split(" "))) for part in parts)
        return re.search(r"(?:[\d.,-]*\d(?:st|nd|rd|th)?|[a-z]+)".join(spaced), text)


def _plain(text: str) -> str:
    """A text without line breaks and other spacing."""
    return " ".join(text.split())
