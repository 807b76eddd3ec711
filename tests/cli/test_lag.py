"""`odradek lag`: how far groups are behind, once and live."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys

import pytest

from cli.conftest import RunTool
from odradek import Admin, Consumer, NewTopic, Producer, TopicPartition
from odradek.cli.lag import REDRAW, Rates, Row, Sample, draw, in_order, rates_since
from waiting import WITHIN_S, until


@pytest.fixture
def group(admin: Admin, producer: Producer, name: str) -> str:
    """A group that is 3 and 1 records behind, and has committed nothing for the third partition."""
    admin.create_topics([NewTopic(name, num_partitions=3)])
    for partition in (0, 0, 0, 0, 1, 1, 2):
        producer.send(name, b"v", partition=partition)
    producer.flush()
    admin.alter_group_offsets(name, {(name, 0): 3, (name, 1): 0})
    return name


def test_lag_is_shown_once(tool: RunTool, admin: Admin, group: str) -> None:
    head, *rows = tool("lag", "--once", "--group", group).stdout.splitlines()
    assert head.split()[:6] == ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    assert [row.split() for row in rows] == [
        [group, group, "1", "0", "2", "2", "-", "-", "-"],
        [group, group, "0", "3", "4", "1", "-", "-", "-"],
    ]
    listed = json.loads(tool("lag", "--once", "--json", "--topic", group).stdout)
    assert listed[0] == {
        "group": group,
        "topic": group,
        "partition": 1,
        "currentOffset": 0,
        "logEndOffset": 2,
        "lag": 2,
        "readPerSecond": None,
        "writtenPerSecond": None,
        "clientId": None,
    }
    refused = tool("lag", "--once", "--group", "absent", status=1)
    assert refused.stderr == "Error: Consumer group 'absent' does not exist.\n"


def test_members_are_named(tool: RunTool, servers: str, group: str) -> None:
    with Consumer(group, bootstrap_servers=servers, group_id=group, client_id="me") as consumer:

        def is_assigned() -> bool:
            consumer.poll(50)
            return len(consumer.assignment()) == 3

        until(is_assigned, "the partitions of a member", every_s=0)
        listed = json.loads(tool("lag", "--once", "--json", "--group", group).stdout)
    assert {row["clientId"] for row in listed} == {"me"}
    assert [row["partition"] for row in listed][-1] == 2
    assert listed[-1]["lag"] is None


def test_a_terminal_is_drawn_anew_until_ctrl_c(servers: str, group: str) -> None:
    ours, theirs = pty.openpty()
    words = ["lag", "--bootstrap-server", servers, "--group", group, "--interval-ms", "100"]
    child = subprocess.Popen(
        [sys.executable, "-m", "odradek", *words], stdin=theirs, stdout=theirs, stderr=subprocess.PIPE
    )
    os.close(theirs)
    try:
        drawn = b""

        def is_drawn_twice() -> bool:
            nonlocal drawn
            drawn += os.read(ours, 65536)
            return drawn.count(REDRAW.encode()) >= 2 and drawn.rstrip().endswith(b"total lag: 3")

        until(is_drawn_twice, "two tables", every_s=0, instead=lambda: drawn)
        child.send_signal(signal.SIGINT)
        assert child.wait(WITHIN_S) == 130
    finally:
        child.kill()
        child.communicate(timeout=WITHIN_S)
        os.close(ours)
    assert b"LOG-END-OFFSET" in drawn


def test_rates_and_order(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    tp, other = TopicPartition("t", 0), TopicPartition("t", 1)
    before = Sample(10.0, (Row("g", tp, 5, 10, None),))
    now = Sample(12.0, (Row("g", other, None, 4, "me"), Row("g", tp, 9, 20, None)))
    rates = rates_since(before, now)
    assert rates == {("g", tp): Rates(2.0, 5.0), ("g", other): Rates()}
    assert [row.partition for row in in_order(now.rows)] == [tp, other]
    # A terminal of three lines has room for the head, a row, and the foot.
    monkeypatch.setenv("LINES", "3")
    monkeypatch.setenv("COLUMNS", "60")
    draw(now, rates)
    printed = capsys.readouterr().out.removeprefix(REDRAW).splitlines()
    assert len(printed) == 3
    assert printed[-1] == "total lag: 11, 1 rows more"
    assert max(map(len, printed)) == 60
