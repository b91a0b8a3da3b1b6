"""A secret that the processes of a group share. Each proves that it knows it before the others use what it sends."""

import hmac
import os
from collections.abc import Sequence

VARIABLE = "ROBUSTFL_TOKEN"
"""The environment variable with the secret; without it, the secret is empty and any process may join."""

LENGTH = 32
"""Bytes of a challenge, and of a proof."""


def proof(challenges: Sequence[bytes], rank: int) -> bytes:
    """What process ``rank`` sends to show that it knows the secret, for the random ``challenges`` of all processes."""
    secret = os.environ.get(VARIABLE, "").encode()
    return hmac.digest(secret, b"".join(challenges) + rank.to_bytes(8, "big"), "sha256")
