"""Signals that stop a broker."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.app import Broker
from odradek.broker.config.broker_config import BrokerConfig
from odradek.broker.process import main
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


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_signal_ends_a_start_that_waits_for_something(
    tmp_path: Path, loop: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As the start of a broker whose id is in use does, or of one that waits for others to come first."""
    ended: list[str] = []

    async def start(self: Any) -> None:
        asyncio.get_running_loop().call_later(0, os.kill, os.getpid(), signal.SIGTERM)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("start")

    monkeypatch.setattr(Broker, "start", start)
    if loop == "asyncio":
        monkeypatch.setattr(main, "loop_factory", lambda: None)
    caplog.set_level("INFO")
    assert main.run(BrokerConfig({"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"})) == 0
    assert ended == ["start"]
    assert "stopped while it was starting" in caplog.text
