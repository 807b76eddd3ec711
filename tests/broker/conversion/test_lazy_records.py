"""Records that are made while they are sent: whatever keeps them from being made ends their connection."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from odradek.broker.conversion.lazy_records import LazyRecords
from odradek.broker.conversion.unpacking import Unpacking
from odradek.errors import CorruptRecordError
from odradek.util.clock import ManualClock
from odradek.util.timers import ManualTimers
from waiting import until_async, within

from ..dispatching import PEER
from ..net import run


class Threads:
    """Those of a broker, for one peer."""

    def __init__(self) -> None:
        clock = ManualClock()
        self.unpacking = Unpacking(clock, ManualTimers(clock), 0)

    def run(self, work: Callable[[], Any]) -> Any:
        return self.unpacking.run(work, lambda _: 0, PEER)


async def take(records: LazyRecords) -> bytes:
    """The next piece, when it has been made."""
    ready = asyncio.Event()
    while (piece := records.take(ready.set)) is None:
        await within(ready.wait(), "the next piece")
        ready.clear()
    return piece


def failing(error: Exception) -> Iterator[bytes]:
    yield b"one"
    raise error


def test_pieces_come_in_order() -> None:
    async def main() -> None:
        threads = Threads()
        ended: list[bool] = []
        records = LazyRecords(iter([b"one", b"two"]), 6, threads, lambda: ended.append(True))
        assert [await take(records), len(records), ended] == [b"one", 3, []]
        assert [await take(records), len(records), ended] == [b"two", 0, [True]]
        threads.unpacking.stop()

    run(main)


@pytest.mark.parametrize("error", [CorruptRecordError("torn"), OSError(errno.EIO, "gone")])
def test_what_is_wrong_with_the_records_is_raised(error: Exception) -> None:
    async def main() -> None:
        threads = Threads()
        records = LazyRecords(failing(error), 6, threads)
        assert await take(records) == b"one"
        with pytest.raises(type(error)) as raised:
            await take(records)
        assert raised.value is error
        threads.unpacking.stop()

    run(main)


def test_an_unforeseen_failure_is_one_that_senders_know(caplog: pytest.LogCaptureFixture) -> None:
    """They end the connection of what cannot be read or converted. Anything else would pass them by, with
    half an answer sent."""

    async def main() -> None:
        threads = Threads()
        records = LazyRecords(failing(ZeroDivisionError("a bug")), 6, threads)
        assert await take(records) == b"one"
        with pytest.raises(OSError, match="records could not be converted: a bug"):
            await take(records)
        threads.unpacking.stop()

    with caplog.at_level(logging.ERROR):
        run(main)
    assert "ZeroDivisionError" in caplog.text


def unpacking_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("unpacking")]


def test_what_a_stop_lets_go_of_is_not_begun_again() -> None:
    async def main() -> None:
        threads = Threads()
        held = threading.Event()
        # Both threads are busy, so that the piece is not begun.
        busy = [threads.run(lambda: held.wait(60)) for _ in range(2)]
        records = LazyRecords(iter([b"one"]), 3, threads)
        ready = asyncio.Event()
        assert records.take(ready.set) is None
        threads.unpacking.stop()
        held.set()
        await asyncio.gather(*busy)
        await within(ready.wait(), "the next piece")
        with pytest.raises(OSError, match="stops"):
            records.take(ready.set)
        await until_async(lambda: not unpacking_threads(), "the end of the threads")

    run(main)


def test_nobody_is_told_of_a_conversion_for_a_peer_that_has_gone() -> None:
    """An error that nobody has asked for is logged with its traceback: peers could fill the log."""

    async def main() -> None:
        told: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
        clock = ManualClock()
        unpacking = Unpacking(clock, ManualTimers(clock), 0)

        def convert() -> None:
            raise CorruptRecordError("torn")

        result = unpacking.run(convert, lambda _: 0, PEER)
        assert unpacking.is_busy
        result.cancel()
        await until_async(lambda: not unpacking.is_busy, "the end of the conversion", every_s=0)
        unpacking.stop()
        gc.collect()
        assert told == []

    run(main)
