"""Transactions for the tools to find: ended ones, open ones, and some that nobody will end."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from odradek import Admin, NewTopic, Producer
from odradek.errors import ErrorCode
from odradek.records.builder import build_batch
from odradek.wire.api import ApiKey
from odradek.wire.headers import decode_response, encode_request
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

#: A producer that no coordinator knows.
LOST_ID = 987_654
_VERSION = 7


def hang(servers: str, topic: str, timestamp_ms: int) -> None:
    """Write a transactional record of `LOST_ID` to partition 0, as producers before 4.0 could: past the
    coordinator. The broker must not verify it.
    """
    fields: dict[str, Any] = {"producer_id": LOST_ID, "producer_epoch": 0, "base_sequence": 0}
    records = build_batch([(timestamp_ms, None, b"v", ())], transactional=True, **fields)
    partitions = [PartitionProduceData(index=0, records=records)]
    request = ProduceRequest(
        transactional_id="lost",
        acks=-1,
        timeout_ms=5000,
        topic_data=[TopicProduceData(name=topic, partition_data=partitions)],
    )
    host, port = servers.split(":")
    frame = b"".join(map(bytes, encode_request(ApiKey.PRODUCE, _VERSION, 1, "old", request)))
    deadline = time.monotonic() + 60
    with socket.create_connection((host, int(port)), 10) as peer, peer.makefile("rb") as answers:
        while True:
            peer.sendall(frame)
            answer = answers.read(int.from_bytes(answers.read(4), "big"))
            _, response = decode_response(answer, ApiKey.PRODUCE, _VERSION)
            code = response.responses[0].partition_responses[0].error_code
            if code == 0:
                return
            # Brokers hear of new topics and configs some time after the controller has told.
            assert time.monotonic() < deadline, f"produce: {ErrorCode(code).name}"
            time.sleep(0.1)


@contextmanager
def unverified(admin: Admin) -> Iterator[None]:
    """Within, brokers that could do not verify that a transaction goes on."""
    config = {"transaction.partition.verification.enable": "false"}
    admin.incremental_alter_configs({("broker", ""): config})
    try:
        yield
    finally:
        admin.incremental_alter_configs({("broker", ""): dict.fromkeys(config)})


@contextmanager
def ended_and_open(servers: str) -> Iterator[None]:
    """Within, topic `t` has two partitions: in 0 the id `ended` has committed a, aborted b and committed c;
    in both, the id `open` has a transaction with d.
    """
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("t", num_partitions=2)])
    with Producer(bootstrap_servers=servers, transactional_id="ended") as ended:
        ended.init_transactions()
        for word, commit in (("a", True), ("b", False), ("c", True)):
            ended.begin_transaction()
            ended.send("t", word.encode(), partition=0).result(60)
            (ended.commit_transaction if commit else ended.abort_transaction)()
    with Producer(
        bootstrap_servers=servers, transactional_id="open", transaction_timeout_ms=600_000
    ) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for partition in range(2):
            producer.send("t", b"d", partition=partition).result(60)
        yield
        producer.close(timeout=0)
