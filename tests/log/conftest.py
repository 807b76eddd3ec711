"""Fixtures of the log's tests."""

from __future__ import annotations

import pytest

from odradek.log.folders import folder_copy, moving


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs are moved in pieces of a few batches."""
    monkeypatch.setattr(folder_copy, "SLICE_BYTES", 250)
    monkeypatch.setattr(moving, "TAIL_BYTES", 100)
    monkeypatch.setattr(moving, "LONGEST_TAIL_BYTES", 400)
