"""Produce against a whole broker, in raw frames."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from odradek.errors.codes import ErrorCode
from odradek.log.storage.real_files import RealFileSystem
from odradek.records.compression import Codec
from odradek.util.clock import ManualClock, SystemClock
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

from ..live import append, batch, connect, create_topic, fetch, produce, running
from ..net import run
from ..stand_ins import WatchedFile


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_appends(version: int, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            topic_id = await create_topic(broker, "t", 2)
            client = await connect(broker)
            for number in range(3):
                response = await client.call(
                    produce("t", batch([b"a", b"b"]), index=1, topic_id=topic_id), version
                )
                topic = response.responses[0]
                assert topic.topic_id == topic_id if version >= 13 else topic.name == "t"
                answer = topic.partition_responses[0]
                assert (answer.index, answer.error_code, answer.base_offset) == (1, 0, 2 * number)
                assert answer.log_append_time_ms == -1
                assert answer.log_start_offset == (0 if version >= 5 else -1)
            assert broker.replicas.get("t", 1).log.high_watermark == 6
            client.close()

    run(main)


REFUSED: dict[str, tuple[Any, ErrorCode]] = {
    "no records": (None, ErrorCode.INVALID_RECORD),
    "empty records": (b"", ErrorCode.INVALID_RECORD),
    "cut off": (batch()[:-1], ErrorCode.CORRUPT_MESSAGE),
    "header alone": (batch()[:61], ErrorCode.CORRUPT_MESSAGE),
    "a few bytes": (batch()[:20], ErrorCode.CORRUPT_MESSAGE),
    "wrong CRC": (batch()[:-1] + b"\xff", ErrorCode.CORRUPT_MESSAGE),
    "magic 1": (batch()[:16] + b"\x01" + batch()[17:], ErrorCode.INVALID_RECORD),
    "two batches": (batch() + batch(), ErrorCode.INVALID_RECORD),
    "too large": (batch([b"x" * 2_000_000]), ErrorCode.MESSAGE_TOO_LARGE),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_refused_leaves_nothing_behind(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        records, code = REFUSED[kind]
        async with running(tmp_path) as broker:
            await create_topic(broker, "t")
            client = await connect(broker)
            answer = await append(client, "t", records)
            assert ErrorCode(answer.error_code) == code
            assert answer.base_offset == -1
            assert answer.error_message
            assert broker.replicas.get("t", 0).log.log_end_offset == 0
            assert (await append(client, "t", batch())).base_offset == 0
            client.close()

    run(main)


@pytest.mark.parametrize(
    ("version", "code"), [(6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (7, ErrorCode.NONE)]
)
def test_zstd_from_version_7(version: int, code: ErrorCode, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t")
            client = await connect(broker)
            answer = await append(client, "t", batch(codec=Codec.ZSTD), version=version)
            assert ErrorCode(answer.error_code) == code
            client.close()

    run(main)


def test_one_bad_partition_does_not_harm_the_others(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t", 2)
            client = await connect(broker)
            request = ProduceRequest(
                acks=1,
                timeout_ms=100,
                topic_data=[
                    TopicProduceData(
                        name="t",
                        partition_data=[
                            PartitionProduceData(index=0, records=batch()),
                            PartitionProduceData(index=1, records=b"rubbish"),
                            PartitionProduceData(index=2, records=batch()),
                        ],
                    ),
                    TopicProduceData(
                        name="unknown", partition_data=[PartitionProduceData(index=0, records=batch())]
                    ),
                ],
            )
            response = await client.call(request, 9)
            codes = [
                ErrorCode(answer.error_code)
                for topic in response.responses
                for answer in topic.partition_responses
            ]
            assert codes == [
                ErrorCode.NONE,
                ErrorCode.CORRUPT_MESSAGE,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ]
            client.close()

    run(main)


def test_unknown_topic_id(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t")
            client = await connect(broker)
            answer = await append(client, "", batch(), version=13, topic_id=b"?" * 16)
            assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_ID
            client.close()

    run(main)


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_strange_acks(acks: int, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t")
            client = await connect(broker)
            answer = await append(client, "t", batch(), acks=acks)
            assert answer.error_code == ErrorCode.INVALID_REQUIRED_ACKS
            assert broker.replicas.get("t", 0).log.log_end_offset == 0
            client.close()

    run(main)


def test_acks_0_is_silent_and_an_error_closes(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t")
            client = await connect(broker)
            for _ in range(3):
                client.send(produce("t", batch(), acks=0), 9)
            client.sent.clear()
            # The answer behind them is the first that comes.
            assert (await append(client, "t", batch())).base_offset == 3
            client.send(produce("t", b"rubbish", acks=0), 9)
            assert await client.closed()
            client.close()

    run(main)


@pytest.mark.parametrize(
    ("client_id", "code"), [("me", ErrorCode.INVALID_TOPIC_EXCEPTION), ("__admin_client", 0)]
)
def test_internal_topics_are_not_for_clients(client_id: str, code: int, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await broker.controller.event_queue.run(broker.groups.ensure_topic)
            client = await connect(broker)
            response = await client.call(
                produce("__consumer_offsets", batch(keys=[b"k"])), 9, client_id=client_id
            )
            assert response.responses[0].partition_responses[0].error_code == code
            client.close()

    run(main)


def test_log_append_time_is_told(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t", configs={"message.timestamp.type": "LogAppendTime"})
            client = await connect(broker)
            before = broker.clock.now_ms()
            answer = await append(client, "t", batch())
            assert before <= answer.log_append_time_ms <= broker.clock.now_ms()
            client.close()

    run(main)


def test_records_that_a_topic_refuses_are_named(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t", configs={"cleanup.policy": "compact"})
            client = await connect(broker)
            answer = await append(client, "t", batch([b"a", b"b", b"c"], keys=[b"k", None, b"k"]))
            assert answer.error_code == ErrorCode.INVALID_RECORD
            assert [one.batch_index for one in answer.record_errors] == [1]
            client.close()

    run(main)


async def new_producer(client: Any) -> int:
    response = await client.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), 4)
    assert (response.error_code, response.producer_epoch) == (0, 0)
    producer_id: int = response.producer_id
    return producer_id


def numbered(producer_id: int, sequence: int, epoch: int = 0) -> bytes:
    return batch(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def test_idempotence_holds_across_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t")
            client = await connect(broker)
            producer_id = await new_producer(client)
            for sequence in range(3):
                assert (await append(client, "t", numbered(producer_id, sequence))).base_offset == sequence
            # Sent again: the first answer again, nothing appended.
            assert (await append(client, "t", numbered(producer_id, 1))).base_offset == 1
            assert broker.replicas.get("t", 0).log.log_end_offset == 3
            answer = await append(client, "t", numbered(producer_id, 4))
            assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            assert broker.metrics.topics.of("t").messages_in == 3
            client.close()
        async with running(tmp_path) as broker:
            client = await connect(broker)
            assert (await append(client, "t", numbered(producer_id, 2))).base_offset == 2
            answer = await append(client, "t", numbered(producer_id, 4))
            assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            assert (await append(client, "t", numbered(producer_id, 3))).base_offset == 3
            assert (await append(client, "t", numbered(producer_id, 0, epoch=1))).base_offset == 4
            answer = await append(client, "t", numbered(producer_id, 4, epoch=0))
            assert answer.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
            assert await new_producer(client) > producer_id
            client.close()

    run(main)


def test_producer_ids_are_never_given_twice(tmp_path: Path) -> None:
    async def main() -> None:
        seen: list[int] = []
        for _ in range(3):
            async with running(tmp_path) as broker:
                client = await connect(broker)
                seen += [await new_producer(client) for _ in range(5)]
                client.close()
        assert len(set(seen)) == len(seen) == 15
        assert seen == sorted(seen)

    run(main)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"transactional_id": "tx"}, ErrorCode.NOT_COORDINATOR),
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"producer_id": 5}, ErrorCode.INVALID_REQUEST),
        ({"producer_epoch": 5}, ErrorCode.INVALID_REQUEST),
        ({"producer_id": 5, "producer_epoch": 1}, ErrorCode.NONE),
    ],
)
def test_init_producer_id_refusals(fields: dict[str, Any], code: ErrorCode, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            client = await connect(broker)
            request = InitProducerIdRequest(
                **{"transactional_id": None, "transaction_timeout_ms": 1, **fields}
            )
            response = await client.call(request, 5)
            assert ErrorCode(response.error_code) == code
            assert (response.producer_id >= 0) is (code == ErrorCode.NONE)
            client.close()

    run(main)


class FullDisk(RealFileSystem):
    """A real file system whose log files cannot be written while `full`."""

    def __init__(self) -> None:
        super().__init__()
        self.full = False

    def open(self, path: Path, *, create: bool = False) -> Any:
        file = super().open(path, create=create)
        if path.suffix != ".log":
            return file

        def pwrite_batch(records: Any, position: int, *place: int) -> int:
            if self.full:
                file.pwrite([bytes(records)[:7]], position)
                raise OSError(errno.ENOSPC, "No space left on device", str(path))
            return file.pwrite_batch(records, position, *place)

        return WatchedFile(file, pwrite_batch=pwrite_batch)


class NoRoomForFolders(RealFileSystem):
    """A real file system in which no folder can be made while `full`."""

    def __init__(self) -> None:
        super().__init__()
        self.full = False

    def make_dirs(self, directory: Path) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device", str(directory))
        super().make_dirs(directory)


def test_a_topic_made_on_a_full_disk_works_once_there_is_room(tmp_path: Path) -> None:
    async def main() -> None:
        files, clock = NoRoomForFolders(), ManualClock(SystemClock().now_ms())
        async with running(tmp_path, files=files, clock=clock) as broker:
            files.full = True
            await create_topic(broker, "t")
            client = await connect(broker)
            assert (await append(client, "t", batch())).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            files.full = False
            assert (await append(client, "t", batch())).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            clock.advance(1000)
            assert (await append(client, "t", batch())).base_offset == 0
            assert not broker.replicas.offline
            client.close()

    run(main)


def test_a_full_disk_fails_the_write_and_nothing_else(tmp_path: Path) -> None:
    async def main() -> None:
        files = FullDisk()
        async with running(tmp_path, files=files) as broker:
            await create_topic(broker, "t", 2)
            client = await connect(broker)
            assert (await append(client, "t", batch([b"before"]))).base_offset == 0
            files.full = True
            for index in (0, 1):
                answer = await append(client, "t", batch(), index=index)
                assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            response = await client.call(fetch("t"), 12)
            assert len(response.responses[0].partitions[0].records) == len(batch([b"before"]))
            files.full = False
            assert (await append(client, "t", batch([b"after"]))).base_offset == 1
            assert (await append(client, "t", batch(), index=1)).base_offset == 0
            client.close()
        async with running(tmp_path) as broker:
            assert broker.replicas.get("t", 0).log.log_end_offset == 2

    run(main)
