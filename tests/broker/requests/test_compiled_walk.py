"""What every request passes is compiled where it can be, all of it, and asyncio finds it as it needs it."""

from __future__ import annotations

import asyncio
import importlib
import os
import shutil
import sysconfig
from types import GeneratorType
from typing import Any

import pytest

from interpreted import walk
from odradek.broker.event_loop.slices import is_in_steps
from odradek.broker.network.connection import Connection
from odradek.broker.network.socket_protocol import SocketProtocol

needs_it_compiled = pytest.mark.skipif(
    os.environ.get("ODRADEK_COMPILE_WALK") == "0" or not shutil.which("cc"),
    reason="ODRADEK_COMPILE_WALK=0, or no C compiler: what requests pass is not compiled",
)


@needs_it_compiled
@pytest.mark.parametrize("module", list(walk()))
def test_all_of_it_is_compiled(module: str) -> None:
    origin = importlib.import_module(module).__file__ or ""
    assert origin.endswith(sysconfig.get_config_var("EXT_SUFFIX")), "make .venv/.dev compiles it"


@needs_it_compiled
def test_a_compiled_generator_is_work_in_steps() -> None:
    from odradek.broker.handlers.produce import _come_to_each
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.peer import Peer
    from odradek.wire.headers import RequestHeader
    from odradek.wire.messages.produce import ProduceRequest

    broker: Any = None
    context = RequestContext(broker, RequestHeader(), Peer("127.0.0.1", 1, "c", "PLAINTEXT"), 0)
    steps = _come_to_each(context, ProduceRequest())
    assert not isinstance(steps, GeneratorType)
    assert is_in_steps(steps)


def test_asyncio_finds_all_of_a_protocol_s_methods_in_a_connection() -> None:
    called = {name for name in dir(asyncio.BufferedProtocol) if not name.startswith("_")}
    assert called == set(SocketProtocol.__slots__)
    assert all(callable(getattr(Connection, name)) for name in called)
