"""What has been begun is undone in the opposite order."""

from __future__ import annotations

import logging

import pytest

from odradek.util.undo import Undo


def test_the_last_is_undone_first_and_only_once() -> None:
    undone: list[str] = []
    undo = Undo()
    for name in "abc":
        undo.push(name, lambda name=name: undone.append(name))  # type: ignore[misc]
    undo.drop("b")
    undo.all()
    undo.all()
    assert undone == ["c", "a"]


def test_one_that_fails_is_logged_and_keeps_none_back(caplog: pytest.LogCaptureFixture) -> None:
    undone: list[str] = []
    undo = Undo()
    undo.push("first", lambda: undone.append("first"))
    undo.push("second", lambda: 1 / 0)
    with caplog.at_level(logging.ERROR):
        undo.all()
    assert undone == ["first"]
    assert "could not be stopped in good order: second" in caplog.text
