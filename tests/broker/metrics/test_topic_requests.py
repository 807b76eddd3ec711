"""What counts as a request for a topic, and as a failed one, as in Kafka's `ReplicaManager`.

`appendToLocalLog` and `fetchMessages` are not asked for what `KafkaApis` has refused before: partitions that
the cluster does not have, topics that the client may not use, requests that no log needs to be asked about.
Failures are those that nobody expects; what a client does wrong, and a lost leadership, is none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from odradek.broker.app import Broker
from odradek.broker.requests.authorization import Operation
from odradek.errors.codes import ErrorCode
from odradek.records.compression import Codec
from odradek.util.promise import Promise
from odradek.wire.messages.fetch import FetchPartition
from odradek.wire.messages.produce import PartitionProduceData

from ..admin_world import Denying
from ..live import append, batch, connect, create_topic, fetch, produce, running
from ..net import run
from ..stand_ins import WatchedFiles

KEYED = batch(keys=[b"k"])
TOO_LARGE = batch([b"x" * 2_000_000])

PRODUCED: dict[str, tuple[Any, int, ErrorCode, tuple[int, int, int]]] = {
    "no records": (None, 9, ErrorCode.INVALID_RECORD, (0, 0, 0)),
    "empty records": (b"", 9, ErrorCode.INVALID_RECORD, (0, 0, 0)),
    "magic 1": (KEYED[:16] + b"\x01" + KEYED[17:], 9, ErrorCode.INVALID_RECORD, (0, 0, 0)),
    "two batches": (KEYED + KEYED, 9, ErrorCode.INVALID_RECORD, (0, 0, 0)),
    "zstd before its time": (batch(codec=Codec.ZSTD), 6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, (0, 0, 0)),
    "wrong CRC": (KEYED[:-1] + b"\xff", 9, ErrorCode.CORRUPT_MESSAGE, (1, 0, 0)),
    "too large": (TOO_LARGE, 9, ErrorCode.MESSAGE_TOO_LARGE, (1, 0, len(TOO_LARGE))),
    "a key is missing": (batch(), 9, ErrorCode.INVALID_RECORD, (1, 1, 0)),
}
"""Records for a compacted topic, the version of the request, the answer; how many partitions count as asked
for and as failed, how many bytes as rejected."""


def produced(broker: Broker, topic: str) -> tuple[int, int, int]:
    of_topic, of_all = broker.metrics.topics.of(topic), broker.metrics.topics.all
    counts, sums = (
        (metrics.total_produce_requests, metrics.failed_produce_requests, metrics.bytes_rejected)
        for metrics in (of_topic, of_all)
    )
    assert counts == sums
    return counts


def fetched(broker: Broker, topic: str) -> tuple[int, int]:
    of_topic, of_all = broker.metrics.topics.of(topic), broker.metrics.topics.all
    counts, sums = (
        (metrics.total_fetch_requests, metrics.failed_fetch_requests) for metrics in (of_topic, of_all)
    )
    assert counts == sums
    return counts


@pytest.mark.parametrize("kind", PRODUCED)
def test_what_a_produce_request_has_refused(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        records, version, code, counts = PRODUCED[kind]
        async with running(tmp_path) as broker:
            await create_topic(broker, "t", configs={"cleanup.policy": "compact"})
            client = await connect(broker)
            assert (await append(client, "t", records, version=version)).error_code == code
            assert produced(broker, "t") == counts
            client.close()

    run(main)


def test_a_partition_of_others_is_asked_for_and_does_not_fail(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t", 2)
            del broker.replicas.by_topic["t"][1]
            client = await connect(broker)
            request = produce("t", batch())
            request.topic_data[0].partition_data += [
                PartitionProduceData(index=index, records=batch()) for index in (1, 2)
            ]
            answers = (await client.call(request, 9)).responses[0].partition_responses
            assert [answer.error_code for answer in answers] == [
                ErrorCode.NONE,
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ]
            assert produced(broker, "t") == (2, 0, 0)
            wanted = fetch("t")
            wanted.topics[0].partitions += [FetchPartition(partition=index) for index in (1, 2)]
            (topic,) = (await client.call(wanted, 9)).responses
            assert [partition.error_code for partition in topic.partitions] == [
                ErrorCode.NONE,
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ]
            assert fetched(broker, "t") == (2, 0)
            client.close()

    run(main)


def test_a_partition_that_the_transaction_s_coordinator_refuses_is_not_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t")
            client = await connect(broker)

            def verify(*_: object) -> Promise[Any]:
                refused: Promise[Any] = Promise(broker.loop)
                refused.set_result({("t", 0): ErrorCode.INVALID_TXN_STATE})
                return refused

            monkeypatch.setattr(broker.transactions, "verify", verify)
            records = batch([b"a"], producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
            request = produce("t", records)
            request.transactional_id = "id"
            (answer,) = (await client.call(request, 9)).responses[0].partition_responses
            assert answer.error_code == ErrorCode.INVALID_TXN_STATE
            assert produced(broker, "t") == (0, 0, 0)
            client.close()

    run(main)


def test_an_internal_topic_is_asked_for_and_does_not_fail(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "__consumer_offsets")
            client = await connect(broker)
            answer = await append(client, "__consumer_offsets", batch())
            assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
            assert produced(broker, "__consumer_offsets") == (1, 0, 0)
            client.close()

    run(main)


def test_a_disk_that_fails_is_no_failed_request(tmp_path: Path) -> None:
    """Kafka counts what it does not foresee; the folder that fails is told elsewhere."""

    async def main() -> None:
        files = WatchedFiles()
        async with running(tmp_path, files=files) as broker:
            await create_topic(broker, "t")
            client = await connect(broker)

            def fail(*_: object) -> int:
                raise OSError(28, "No space left on device")

            files.instead[broker.replicas.get("t", 0).log.segments.active.path] = {"pwrite_batch": fail}
            assert (await append(client, "t", batch())).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert produced(broker, "t") == (1, 0, 0)
            client.close()

    run(main)


def test_what_may_not_be_read_or_written_is_not_asked_for(tmp_path: Path) -> None:
    """Also not in a session that was allowed to before."""

    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t")
            client = await connect(broker)
            session = (await client.call(fetch("t", session_epoch=0), 9)).session_id
            assert fetched(broker, "t") == (1, 0)
            broker.authorizer = Denying((Operation.READ, "t"), (Operation.WRITE, "t"))
            again = fetch("t", session_id=session, session_epoch=1)
            again.topics = []
            (topic,) = (await client.call(again, 9)).responses
            assert topic.partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            assert fetched(broker, "t") == (1, 0)
            answer = await append(client, "t", batch())
            assert answer.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            assert produced(broker, "t") == (0, 0, 0)
            client.close()

    run(main)


@pytest.mark.parametrize("offset", [5, -5])
def test_an_offset_out_of_range_is_no_failed_request(offset: int, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t")
            client = await connect(broker)
            (topic,) = (await client.call(fetch("t", offset), 9)).responses
            assert topic.partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            assert fetched(broker, "t") == (1, 0)
            client.close()

    run(main)
