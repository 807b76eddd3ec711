"""A client for coroutines that nobody closed tells so once, and neither hangs nor leaves anything behind."""

from __future__ import annotations

import subprocess
import sys

import pytest

from odradek.client import Admin, Producer

PROGRAM = """
import asyncio
from odradek.client import AsyncAdmin, AsyncConsumer, AsyncProducer

async def main():
    global kept
    BODY

asyncio.run(main())
"""
PRODUCER = (
    "client = AsyncProducer(bootstrap_servers=AT, client_id='c', linger_ms=%s); await client.send(TOPIC)"
)
CONSUMER = (
    "client = AsyncConsumer(TOPIC, bootstrap_servers=AT, group_id='g', client_id='c'); await client.poll(0)"
)
ITERATION = "; asyncio.ensure_future(anext(aiter(client))); await asyncio.sleep(0)"
ADMIN = "client = AsyncAdmin(bootstrap_servers=AT, client_id='c'); await client.list_topics()"


@pytest.mark.parametrize(
    ("body", "client_name"),
    [
        (PRODUCER % 0, "producer 'c'"),
        (PRODUCER % 60_000, "producer 'c'"),
        (PRODUCER % 0 + "; kept = client", "producer 'c'"),
        (PRODUCER % 0 + "; del client; await asyncio.sleep(0)", "producer 'c'"),
        (CONSUMER, "consumer 'c'"),
        (CONSUMER + "; kept = client", "consumer 'c'"),
        (CONSUMER + ITERATION, "consumer 'c'"),
        (ADMIN, "admin client 'c'"),
        (ADMIN + "; kept = client", "admin client 'c'"),
    ],
)
def test_it_tells_once(servers: str, topic: str, body: str, client_name: str) -> None:
    told = stderr_of(PROGRAM.replace("BODY", body), servers, topic, "-X", "dev")
    assert (
        told.count("ResourceWarning") == told.count(f"ResourceWarning: {client_name} was not closed") == 1
    ), told
    assert "Task was destroyed" not in told
    assert "Traceback" not in told


@pytest.mark.parametrize("ending", ["", "; kept = client"])
def test_sends_without_an_answer_are_told_of_where_warnings_are_not_shown(
    servers: str, topic: str, ending: str
) -> None:
    program = PROGRAM.replace("BODY", PRODUCER % 60_000 + ending)
    assert stderr_of(program, servers, topic) == "producer 'c' was not closed; 1 sends have no answer yet\n"


@pytest.mark.parametrize("loop", ["uvloop", "stock"])
@pytest.mark.parametrize(
    "client",
    ["Admin(bootstrap_servers=AT).list_topics", "Consumer(TOPIC, bootstrap_servers=AT, group_id='g').poll"],
)
def test_a_blocking_client_of_a_module_says_nothing_at_the_end(
    servers: str, topic: str, client: str, loop: str
) -> None:
    program = f"""
import sys
if {loop == "stock"}:
    sys.modules["uvloop"] = None
from odradek.client import Admin, Consumer
call = {client}
call()
"""
    assert stderr_of(program, servers, topic, "-W", "always::ResourceWarning") == ""


NO_LOOP_RUNS = """
import asyncio, atexit, sys, threading

def look():
    inside = [
        threading._active[ident].name
        for ident, frame in sys._current_frames().items()
        if frame.f_code.co_name != "stand" and threading._active[ident].name.startswith("odradek")
    ]
    sys.stderr.write(f"{threads} {inside}")

atexit.register(look)  # called last
"""


@pytest.mark.parametrize(
    "program",
    [
        "from odradek.client import Admin\nclient = Admin(bootstrap_servers=AT); client.list_topics()",
        "from odradek.client import Producer, Consumer, Admin\n"
        "client = [Admin(bootstrap_servers=AT), Consumer(bootstrap_servers=AT)]\n"
        "Producer(bootstrap_servers=AT).partitions_for(TOPIC)",
        "from odradek.testing import Broker\nbroker = Broker(); broker.start()",
    ],
)
def test_no_event_loop_runs_when_the_interpreter_is_taken_down(
    servers: str, topic: str, program: str
) -> None:
    told = stderr_of(NO_LOOP_RUNS + program + "\nthreads = threading.active_count() > 1", servers, topic)
    assert told.endswith("True []")


def test_an_early_exit_hook_still_closes_a_consumer(servers: str, topic: str, admin: Admin) -> None:
    program = """
import atexit
atexit.register(lambda: consumer.close())
from odradek.client import Consumer
consumer = Consumer(TOPIC, bootstrap_servers=AT, group_id="early " + TOPIC, auto_offset_reset="earliest")
assert consumer.poll(30_000)
"""
    with Producer(bootstrap_servers=servers) as producer:
        producer.send(topic, b"record").result(60)
    assert stderr_of(program, servers, topic) == ""
    committed = admin.list_group_offsets("early " + topic)
    assert sum(offset.offset for offset in committed.values()) == 1
    assert admin.describe_groups(["early " + topic])["early " + topic].members == ()


def stderr_of(program: str, servers: str, topic: str, *options: str) -> str:
    program = program.replace("AT", repr(servers)).replace("TOPIC", repr(topic))
    ended = subprocess.run(
        [sys.executable, *options, "-c", program], capture_output=True, text=True, check=False, timeout=100
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stderr
