"""Brokers that come back to their store at once."""

from __future__ import annotations

import pytest

from odradek.broker.membership import membership


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that has lost its session tries again after 10 ms."""
    monkeypatch.setattr(membership, "_REJOIN_S", 0.01)
    monkeypatch.setattr(membership, "AGAIN_S", 0.01)
