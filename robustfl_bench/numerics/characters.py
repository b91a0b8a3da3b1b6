"""The characters that text models read one at a time: the alphabet of LEAF (Caldas et al., arXiv 1812.01097)."""

import numpy as np

ALPHABET = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"

_NUMBERS = np.full(256, -1, dtype=np.int64)
_NUMBERS[[ord(character) for character in ALPHABET]] = range(len(ALPHABET))


def numbers(text: str) -> np.ndarray:
    """The index of every character of ``text`` in the alphabet, (len(text),) int64; -1 for others."""
    places: np.ndarray = _NUMBERS[np.frombuffer(text.encode("utf-32-le"), dtype="<u4").clip(max=255)]
    return places
