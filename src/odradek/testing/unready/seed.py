"""The seed of brokers that are not ready at once."""

from __future__ import annotations

import os

SEED = "ODRADEK_UNREADY_SEED"
"""The environment variable with the seed of all brokers that are not given one."""


def default_seed() -> int:
    """Return the seed of a broker that is not given one.

    Raises:
        ValueError: the environment's is no number.
    """
    text = os.environ.get(SEED, "0")
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{SEED}={text!r}: a seed is a whole number") from None
