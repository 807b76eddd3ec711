"""`transactional-message-copier`: what it tells, and that each record is copied once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli.conftest import RunTool
from odradek import Admin, NewTopic, Producer


@pytest.fixture
def source(servers: str, admin: Admin, name: str) -> str:
    """Two partitions, with 5 committed and 2 aborted records in the first, 3 committed in the second; and an
    empty topic, `…-copy`.
    """
    admin.create_topics([NewTopic(name, num_partitions=2), NewTopic(f"{name}-copy", num_partitions=2)])
    with Producer(bootstrap_servers=servers, transactional_id=f"{name}-source") as producer:
        producer.init_transactions()
        transactions = (
            (0, range(3), True),
            (0, range(90, 92), False),
            (1, range(3), True),
            (0, range(3, 5), True),
        )
        for partition, numbers, commit in transactions:
            producer.begin_transaction()
            for number in numbers:
                producer.send(name, b"%d" % number, key=b"k%d" % number, partition=partition).result(60)
            (producer.commit_transaction if commit else producer.abort_transaction)()
    return name


def told(text: str) -> list[dict[str, Any]]:
    """The lines."""
    return [json.loads(line) for line in text.splitlines()]


def words(source: str, *more: str) -> tuple[str, ...]:
    """What every call says."""
    topics = ("--input-topic", source, "--output-topic", f"{source}-copy")
    return (*topics, "--consumer-group", source, "--transactional-id", f"{source}-copier", *more)


def copied(tool: RunTool, source: str, partition: int) -> list[str]:
    """Keys and values of a partition of the copy that are committed."""
    where = ("--topic", f"{source}-copy", "--partition", str(partition), "--offset", "earliest")
    more = ("--property", "print.key=true", "--isolation-level", "read_committed", "--timeout-ms", "500")
    return tool("console-consumer", *where, *more).stdout.splitlines()


FIRST, SECOND = [f"k{i}\t{i}" for i in range(5)], [f"k{i}\t{i}" for i in range(3)]


def test_a_partition_is_copied_once(tool: RunTool, source: str, admin: Admin) -> None:
    call = words(source, "--input-partition", "0", "--transaction-size", "2")
    events = told(tool("transactional-message-copier", *call).stdout)
    assert [list(event) for event in events] == [
        ["transactionalId", "stage", "time", "totalProcessed", "consumed", "remaining"]
    ] * len(events)
    assert {event["transactionalId"] for event in events} == {f"{source}-copier"}
    assert {event["stage"] for event in events[:-1]} == {"ProcessLoop"}
    # Five records that were committed, two that were not, three markers.
    assert (events[0]["remaining"], events[0]["totalProcessed"]) == (10, 0)
    last = events[-1]
    assert (last["stage"], last["totalProcessed"], last["consumed"], last["remaining"]) == (
        "ShutdownComplete",
        5,
        5,
        0,
    )
    assert copied(tool, source, 0) == FIRST
    assert admin.list_group_offsets(source)[(source, 0)].offset >= 9
    again = told(tool("transactional-message-copier", *call).stdout)
    assert again[-1]["totalProcessed"] == 0
    assert copied(tool, source, 0) == FIRST


def test_what_is_aborted_at_will_is_copied_later(tool: RunTool, source: str) -> None:
    call = words(source, "--group-mode", "--transaction-size", "1", "--enable-random-aborts", "--seed", "2")
    done = tool("transactional-message-copier", *call)
    assert done.stderr == "--seed 2\n"
    events = told(done.stdout)
    assert events[0]["stage"] == "ProcessLoop"
    (rebalance,) = (event for event in events if event["stage"] == "RebalanceComplete")
    assert rebalance["remaining"] == 14
    assert (events[-1]["totalProcessed"], events[-1]["remaining"]) == (8, 0)
    loops = [event["totalProcessed"] for event in events if event["stage"] == "ProcessLoop"]
    assert loops == sorted(loops)
    assert (copied(tool, source, 0), copied(tool, source, 1)) == (FIRST, SECOND)
    everything = tool("get-offsets", "--topic", f"{source}-copy").stdout
    # Eight records with a marker each, and the aborted ones with theirs.
    assert sum(int(line.split(":")[2]) for line in everything.split()) > 16


def test_no_more_than_wanted(tool: RunTool, source: str) -> None:
    call = words(source, "--input-partition", "0", "--max-messages", "4", "--transaction-size", "3")
    assert told(tool("transactional-message-copier", *call).stdout)[-1]["totalProcessed"] == 4
    assert copied(tool, source, 0) == FIRST[:4]


def test_a_partition_or_the_group(tool: RunTool, source: str) -> None:
    assert "--input-partition" in tool("transactional-message-copier", *words(source), status=1).stderr
