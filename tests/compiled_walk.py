"""Whether what requests pass is compiled here, for tests that need it one way."""

from __future__ import annotations

import importlib.util

import pytest


def is_compiled() -> bool:
    """Whether what requests pass is compiled here."""
    spec = importlib.util.find_spec("odradek.broker.network.connection")
    return spec is not None and not (spec.origin or "").endswith(".py")


only_interpreted = pytest.mark.skipif(
    is_compiled(),
    reason="compiled code cannot be followed or replaced: tests/test_interpreted.py runs it from its sources",
)
"""For a file whose tests `tests/test_interpreted.py` runs where this is compiled."""
