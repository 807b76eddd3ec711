"""Signals that stop a broker."""

from __future__ import annotations

import asyncio

import pytest

from odradek.broker.process.signals import StoppedWhileStarting, look_past_the_stop


def test_a_stop_that_is_raised_in_a_callback_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.new_event_loop()
    try:
        loop.set_exception_handler(look_past_the_stop)
        loop.call_exception_handler({"message": "in _read_from_self", "exception": StoppedWhileStarting()})
        assert not caplog.records
        loop.call_exception_handler({"message": "in _read_from_self", "exception": ValueError("else")})
        assert "in _read_from_self" in caplog.text
    finally:
        loop.close()
