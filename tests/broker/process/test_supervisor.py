"""The supervisor of worker processes, with stand-ins that do what the test tells them over a socket."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.process import lifeline
from odradek.broker.process.supervisor import (
    STOP_LIMIT_S,
    Deaths,
    RestartLimits,
    Supervisor,
    WorkerCommand,
)
from odradek.util.clock import ManualClock
from waiting import joined, until_async, within

LIMIT_S = 60

STAND_IN = """
import os, signal, socket, sys, threading
control = socket.socket(socket.AF_UNIX)
control.connect(sys.argv[1])
def on_term(*_):
    control.sendall(b"term\\n")
said = []
def wait_for_input():
    for line in sys.stdin:
        said.append(line.strip())
    control.sendall(b"orphan\\n")
    os._exit(0)
signal.signal(signal.SIGTERM, on_term)
threading.Thread(target=wait_for_input, daemon=True).start()
control.sendall(" ".join([str(os.getpid()), *sys.argv[2:]]).encode() + b"\\n")
for line in control.makefile():
    word, _, rest = line.strip().partition(" ")
    if word == "say":
        print(rest, flush=True)
    if word == "said":
        while not said:
            pass
        control.sendall(" ".join(said).encode() + b"\\n")
    if word == "exit":
        os._exit(int(rest))
"""


class StandIn:
    """A stand-in's end of the control socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, hello: str) -> None:
        self.reader, self.writer = reader, writer
        pid, self.number, self.before = hello.split()
        self.pid = int(pid)

    def tell(self, what: str) -> None:
        self.writer.write(what.encode() + b"\n")

    async def heard(self) -> str:
        return (await self.reader.readline()).decode().strip()


class World:
    """A supervisor over stand-ins."""

    def __init__(self, folder: Path, count: int, limits: RestartLimits | None = None) -> None:
        self.path = folder / "control"
        self.arrived: dict[str, asyncio.Queue[StandIn]] = {str(n): asyncio.Queue() for n in range(count)}
        self.writers: list[asyncio.StreamWriter] = []
        self.pauses: list[float] = []
        self.patience: list[float] = []
        self.out_of_patience = asyncio.Event()
        self.clock = ManualClock()
        self.ready: asyncio.Queue[str] = asyncio.Queue()
        self.supervisor = Supervisor(
            [self._command(number) for number in range(count)],
            clock=self.clock,
            limits=limits,
            pause=self._pause,
            patience=self._wait,
        )

    def _command(self, number: int) -> WorkerCommand:
        def command(address: str | None) -> Sequence[str]:
            return [sys.executable, "-c", STAND_IN, str(self.path), str(number), address or "-"]

        return command

    async def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    async def _wait(self, seconds: float) -> None:
        self.patience.append(seconds)
        await self.out_of_patience.wait()

    async def _arrive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        one = StandIn(reader, writer, (await reader.readline()).decode())
        self.arrived[one.number].put_nowait(one)

    async def __aenter__(self) -> World:
        self.server = await asyncio.start_unix_server(self._arrive, self.path)
        self.running = asyncio.create_task(self.supervisor.run(self.ready.put_nowait))
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self.running.done():
            self.running.cancel()
            await asyncio.gather(self.running, return_exceptions=True)
        self.server.close()
        for writer in self.writers:
            writer.close()

    async def next(self, number: int) -> StandIn:
        return await within(self.arrived[str(number)].get(), f"worker {number}", LIMIT_S)

    async def told(self) -> str:
        """Where all listen, once all are ready."""
        return await within(self.ready.get(), "all workers to be ready", LIMIT_S)

    async def next_ready(self, number: int) -> StandIn:
        one = await self.next(number)
        one.tell(f"say ready h:{number}")
        is_ready = self.supervisor.workers[number].is_ready
        await within(is_ready.wait(), f"worker {number} to be ready", LIMIT_S)
        return one


def play(scenario: Callable[[], Awaitable[Any]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(LIMIT_S):
            await scenario()

    asyncio.run(limited())


def test_all_are_told_when_all_are_ready_and_stopped_together(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with World(tmp_path, 3) as world:
            two = await world.next_ready(2)
            zero = await world.next_ready(0)
            one = await world.next(1)
            one.tell("say something else")
            assert world.ready.empty()
            one.tell("say ready h:1")
            assert await world.told() == "h:0,h:1,h:2"
            world.supervisor.stop()
            world.supervisor.stop()
            # All are told before any has ended.
            for each in (zero, one, two):
                assert await each.heard() == "term"
            for each in (zero, one, two):
                each.tell("exit 0")
            assert await world.running is None
            assert world.ready.empty()

    play(scenario)


def test_each_is_told_that_all_stop_and_who_stays_is_killed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with World(tmp_path, 2) as world:
            zero, one = await world.next_ready(0), await world.next_ready(1)
            await world.told()
            world.supervisor.stop()
            for each in (zero, one):
                assert await each.heard() == "term"
                each.tell("said")
                assert await each.heard() == "all stop"
            assert world.patience == [STOP_LIMIT_S]
            one.tell("exit 0")
            world.out_of_patience.set()
            assert await world.running is None

    play(scenario)
    assert "worker 0 has not stopped within 60 s: it is killed" in caplog.text


def test_who_cannot_start_ends_all_with_the_reason_whatever_the_others_do(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with World(tmp_path, 3) as world:
            zero, one, two = [await world.next(number) for number in range(3)]
            one.tell("exit 1")
            for each in (zero, two):
                assert await each.heard() == "term"
            # At once, not only when the others have ended.
            reason = "worker 1 did not start; it has said why. All workers were stopped."
            assert f"the workers are stopped: {reason}" in caplog.text
            world.out_of_patience.set()
            assert await world.running == reason

    play(scenario)


def test_one_that_dies_is_started_again_and_told_where_it_was(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with World(tmp_path, 2) as world:
            zero, one = await world.next_ready(0), await world.next_ready(1)
            await world.told()
            assert one.before == "-"
            os.kill(one.pid, signal.SIGKILL)
            again = await world.next_ready(1)
            assert again.before == "h:1"
            assert again.pid != one.pid
            assert world.pauses == [0.2]
            assert world.arrived["0"].empty()
            world.supervisor.stop()
            zero.tell("exit 0")
            again.tell("exit 0")
            assert await world.running is None
            assert world.ready.empty(), "told once"

    play(scenario)


def test_one_that_dies_again_and_again_ends_all(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with World(tmp_path, 2, RestartLimits(deaths_max=3)) as world:
            zero = await world.next_ready(0)
            for _ in range(3):
                (await world.next_ready(1)).tell("exit 7")
            assert await zero.heard() == "term"
            zero.tell("exit 0")
            failure = await world.running
            assert failure is not None
            assert "worker 1 died 3 times in a row, the last time with exit code 7" in failure
            assert world.pauses == [0.2, 0.4]

    play(scenario)


def test_one_that_refuses_to_start_ends_all_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with World(tmp_path, 2) as world:
            zero = await world.next(0)
            (await world.next(1)).tell("exit 1")
            assert await zero.heard() == "term"
            zero.tell("exit 0")
            failure = await world.running
            assert failure is not None
            assert "worker 1 did not start" in failure
            assert world.ready.empty()

    play(scenario)


def test_one_that_is_killed_while_starting_is_started_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with World(tmp_path, 1) as world:
            os.kill((await world.next(0)).pid, signal.SIGKILL)
            again = await world.next_ready(0)
            assert await world.told() == "h:0"
            world.supervisor.stop()
            again.tell("exit 0")
            assert await world.running is None

    play(scenario)


def test_a_command_that_is_not_there_is_a_failure(tmp_path: Path) -> None:
    async def scenario() -> None:
        supervisor = Supervisor([lambda _: [str(tmp_path / "none")]], clock=ManualClock())
        failure = await supervisor.run(lambda _: None)
        assert failure is not None
        assert "cannot be started" in failure

    play(scenario)


def test_a_stop_while_one_starts_ends_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with World(tmp_path, 1) as world:
            one = await world.next(0)
            world.supervisor.stop()
            assert await one.heard() == "term"
            one.tell("exit 0")
            assert await world.running is None
            assert world.ready.empty()

    play(scenario)


def test_a_stop_while_one_rests_does_not_start_it_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path, 1)
        resting = asyncio.Event()

        async def rest(_: float) -> None:
            resting.set()
            await asyncio.Event().wait()

        world.supervisor._pause = rest
        async with world:
            (await world.next_ready(0)).tell("exit 3")
            await within(resting.wait(), "the pause before the next start")
            world.supervisor.stop()
            assert await world.running is None
            assert world.arrived["0"].empty()

    play(scenario)


def test_workers_are_restarted_one_by_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def scenario() -> None:
        async with World(tmp_path, 3) as world:
            old = [await world.next_ready(number) for number in range(3)]
            await world.told()
            world.supervisor.restart_one_by_one()
            world.supervisor.restart_one_by_one()  # one at a time
            new = []
            for number in range(3):
                assert await old[number].heard() == "term"
                for other in world.supervisor.workers[number + 1 :]:
                    assert other.is_ready.is_set(), "the next one stays until this one is ready again"
                old[number].tell("exit 0")
                new.append(await world.next_ready(number))
            assert world.pauses == [], "nothing has died"
            await until_async(
                lambda: "all workers have been restarted" in caplog.text, "the end of the restarts"
            )
            assert all(queue.empty() for queue in world.arrived.values())
            world.supervisor.stop()
            for each in new:
                each.tell("exit 0")
            assert await world.running is None

    play(scenario)


def test_a_stop_during_a_restart_one_by_one_stops_all(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with World(tmp_path, 2) as world:
            zero, one = await world.next_ready(0), await world.next_ready(1)
            world.supervisor.restart_one_by_one()
            assert await zero.heard() == "term"
            world.supervisor.stop()
            assert await one.heard() == "term"
            one.tell("exit 0")
            zero.tell("exit 0")
            assert await world.running is None
            assert all(queue.empty() for queue in world.arrived.values())

    play(scenario)


def test_deaths_count_in_a_row_and_the_rest_grows() -> None:
    deaths = Deaths(RestartLimits(delay_ms=100, delay_ms_max=500, settled_ms=1000, deaths_max=6))
    assert [deaths.died(0, 999) for _ in range(6)] == [100, 200, 400, 500, 500, None]
    assert deaths.died(0, 1000) == 100, "it had settled"


def test_the_lifelines_end_stops_and_then_ends_the_process() -> None:
    done: list[str] = []
    held, other = os.pipe()
    thread = lifeline.hold(held, stop=lambda: done.append("stop"), end=lambda: done.append("end"), grace_s=0)
    assert done == []
    assert not lifeline.all_stop.is_set()
    try:
        os.write(other, lifeline.ALL_STOP)
        assert lifeline.all_stop.wait(LIMIT_S), "the supervisor's word is not heard"
        assert done == []
        os.close(other)
        joined(thread, LIMIT_S)
    finally:
        lifeline.all_stop.clear()
    os.close(held)
    assert done == ["stop", "end"]
