"""The controller's thread: what is posted from anywhere runs there in order, and ends with the broker."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from odradek.broker.metadata.controller_thread import ControllerThread
from odradek.cluster.image import ClusterDelta, ClusterImage
from odradek.errors import KafkaStorageError, NotControllerError
from waiting import happened, joined


async def _told() -> None:
    """Nothing is to be followed."""


@pytest.mark.parametrize("until_told", [_told, None])
def test_posted_work_runs_in_order_in_the_thread_and_may_publish(
    caplog: pytest.LogCaptureFixture, until_told: Any
) -> None:
    seen: list[tuple[str, bool]] = []

    async def run() -> None:
        thread = ControllerThread(asyncio.get_running_loop(), until_told)
        loop_thread = threading.get_ident()

        def note(what: str) -> None:
            seen.append((what, threading.get_ident() == loop_thread))

        def publish() -> None:
            note("work")
            thread.publish(ClusterImage(), ClusterDelta(), lambda: note("change"))

        def fail() -> None:
            raise ValueError("a bug")

        thread.post(publish)
        thread.post(fail)
        from_outside = threading.Thread(target=thread.post, args=(lambda: note("outside"),))
        from_outside.start()
        joined(from_outside)
        await thread.run(lambda: note("asked"))
        thread.post(publish)
        await thread.stop()
        thread.post(lambda: note("too late"))
        thread.let_go()

    asyncio.run(run())
    first = [("work", False), ("change", True), ("outside", False), ("asked", False)]
    # What was posted just before the stop is either done whole or not begun.
    assert seen in (first, [*first, ("work", False), ("change", True)])
    assert "work for the controller failed" in caplog.text


def test_what_the_metadata_store_refuses_is_told_without_a_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> None:
        thread = ControllerThread(asyncio.get_running_loop())

        def fail() -> None:
            raise KafkaStorageError("the metadata store does not answer")

        thread.post(fail)
        await thread.run(lambda: None)
        await thread.stop()

    asyncio.run(run())
    (record,) = [one for one in caplog.records if "for the controller" in one.getMessage()]
    assert "the metadata store does not answer" in record.getMessage() and record.exc_info is None


def test_work_that_waits_for_a_loop_which_has_ended_is_given_up() -> None:
    """Else its thread would wait for ever, and the end of the process for the thread."""
    ended = threading.Event()
    begun = threading.Event()

    async def run() -> None:
        thread = ControllerThread(asyncio.get_running_loop())

        def publish() -> None:
            begun.set()
            try:
                thread.publish(ClusterImage(), ClusterDelta(), lambda: None)
            finally:
                ended.set()

        thread.post(publish)
        happened(begun, "the thread to begin")
        thread.let_go()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(run())
    loop.close()
    assert ended.wait(10)


def test_nothing_waits_for_the_loop_once_the_thread_is_let_go() -> None:
    failures: list[BaseException] = []

    async def run() -> None:
        thread = ControllerThread(asyncio.get_running_loop())
        go_on, ended = threading.Event(), threading.Event()

        def publish() -> None:
            happened(go_on, "the end of the loop")
            try:
                thread.publish(ClusterImage(), ClusterDelta(), lambda: None)
            except BaseException as error:
                failures.append(error)
            ended.set()

        thread.post(publish)
        thread.let_go()
        go_on.set()
        assert ended.wait(10)

    asyncio.run(run())
    assert len(failures) <= 1  # it may not have been begun at all


def test_what_another_controller_does_by_now_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        thread = ControllerThread(asyncio.get_running_loop())

        def deposed() -> None:
            raise NotControllerError

        thread.post(deposed)
        await thread.run(lambda: None)
        await thread.stop()

    with caplog.at_level(logging.INFO):
        asyncio.run(run())
    assert [one.levelname for one in caplog.records if one.name.startswith("odradek")] == ["INFO"]
