"""`odradek mock` in a test of another language: its faults, told by HTTP, meet that language's client."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from cli.test_mock import ask, mock
from interop import kafka_peer, programs
from odradek import Consumer
from waiting import gathered

pytestmark = pytest.mark.interop

VALUES = [f"value {number}" for number in range(20)]
PARTITIONS = 4
FAULTS = (
    {"effect": "fail", "apis": ["Produce"], "error": "NOT_LEADER_OR_FOLLOWER", "topic": "orders", "times": 2},
    # What makes duplicates, unless the producer is idempotent.
    {"effect": "drop", "apis": ["Produce"], "after": True, "topic": "orders", "times": 1},
    {"effect": "throttle", "apis": ["Produce"], "throttle_ms": 50, "times": 1},
)


def _franz() -> tuple[programs.Program, str]:
    if shutil.which("go") is None:
        pytest.skip("not on this machine: go")
    return programs.go_program("franz"), "newest"


def _java() -> tuple[programs.Program, str]:
    if why := kafka_peer.missing_toolchain():
        pytest.skip(f"Java's client: {why}")
    return programs.java_program("Clients", kafka_peer.NEWEST), kafka_peer.NEWEST


@pytest.mark.parametrize("made", [_franz, _java], ids=["franz-go", "java"])
def test_each_value_is_written_once_whatever_the_broker_does(
    made: Callable[[], tuple[programs.Program, str]],
) -> None:
    program, version = made()
    with mock("--brokers", "3") as (_, control, servers):
        ask(control, "/topics", {"name": "orders", "partitions": PARTITIONS})
        for fault in FAULTS:
            assert ask(control, "/faults", fault)["met"] == 0
        program.run("produce", servers, version, "orders", "none", stdin="".join(f"{v}\n" for v in VALUES))
        assert ask(control, "/verify") == {"unmet": []}
        ask(control, "/kill", {"broker": ask(control, "/leader?topic=orders")["broker"]})
        with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([("orders", partition) for partition in range(PARTITIONS)])
            read = gathered(lambda: consumer.poll(1), len(VALUES), "all records")
        values = [record.value.decode() for record in read]
    assert sorted(values) == sorted(VALUES)
