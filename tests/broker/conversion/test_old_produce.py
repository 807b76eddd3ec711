"""Produce 0 to 2, and topics of an older message format, against a whole broker."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.stand_ins import follow
from odradek.errors.codes import ErrorCode
from odradek.log.partition import appending
from odradek.records.batch import Record, TimestampType
from odradek.records.builder import build_batch
from odradek.records.compression import Codec
from odradek.records.message_sets.message_set import iter_all_records, iter_entries
from odradek.replication.delayed import Purgatory
from records.message_set_builder import MessageSetBuilder

from ..live import append, batch, connect, create_topic, fetch, produce, running
from ..net import run

TIME = 1_700_000_000_000
CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]
OLD_BROKER = {"inter_broker_protocol_version": "2.8"}


def message_set(version: int, codec: Codec, values: list[bytes]) -> bytes:
    builder = MessageSetBuilder(1 if version == 2 else 0, codec)
    for number, value in enumerate(values):
        builder.append(TIME + number, b"k", value)
    return builder.build()


async def stored(client: Any, topic: str = "t") -> tuple[list[Record], set[int]]:
    """All records, and the magics that they are stored in."""
    response = await client.call(fetch(topic, 0), 11)
    data = bytes(response.responses[0].partitions[0].records)
    magics = {entry[16] for _, entry in iter_entries(data)}
    return list(iter_all_records(data)), magics


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("stored_as", ["0.9.0", "0.10.2", "2.8"])
def test_message_sets_are_stored_in_the_topics_format(
    version: int, codec: Codec, stored_as: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with running(tmp_path, **OLD_BROKER) as broker:
            await create_topic(broker, "t", configs={"message.format.version": stored_as})
            client = await connect(broker)
            values = [b"a", b"b" * 300, b"c"]
            for number in range(2):
                answer = await append(client, "t", message_set(version, codec, values), version=version)
                assert (answer.error_code, answer.base_offset) == (0, 3 * number)
                assert answer.log_append_time_ms == -1
            records, magics = await stored(client)
            assert magics == {{"0.9.0": 0, "0.10.2": 1, "2.8": 2}[stored_as]}
            times = version == 2 and stored_as != "0.9.0"
            kind = TimestampType.NO_TIMESTAMP_TYPE if stored_as == "0.9.0" else TimestampType.CREATE_TIME
            assert records == [
                Record(offset, TIME + offset % 3 if times else -1, kind, b"k", values[offset % 3], ())
                for offset in range(6)
            ]
            converted = broker.metrics.topics.of("t").produce_message_conversions
            assert converted == (0 if magics == {1 if version == 2 else 0} else 6)
            client.close()

    run(main)


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_converted_in_a_thread_keeps_its_place(codec: Codec, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t", 2)
            client = await connect(broker)
            large = [b"%05d" % number * 40 for number in range(2000)]
            asked = []
            for number in range(6):
                index = number % 2
                values = large if number < 4 else [b"small"]
                asked.append((index, len(values)))
                client.send(produce("t", message_set(2, codec, values), index=index), 2)
            ends = [0, 0]
            for index, count in asked:
                answer = (await client.receive()).responses[0].partition_responses[0]
                assert (answer.error_code, answer.index, answer.base_offset) == (0, index, ends[index])
                ends[index] += count
            assert ends == [4001, 4001]
            assert not broker.conversions.latest
            records, _ = await stored(client)
            assert [record.value for record in records[:2000]] == large
            client.close()

    run(main)


@pytest.mark.parametrize("cause", ["conversion", "append", "replicas", "cancelled"])
def test_a_failure_behind_a_conversion_is_answered(
    tmp_path: Path, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t")
            client = await connect(broker)

            def fail(*_: Any) -> Any:
                raise RuntimeError("unforeseen")

            def cancelled(*_: Any) -> Any:
                waiting = broker.loop.create_future()
                broker.loop.call_soon(waiting.cancel)
                return waiting

            if cause == "conversion":
                monkeypatch.setattr(appending, "prepare", fail)
            elif cause == "append":
                monkeypatch.setattr(broker.replicas, "by_topic", None)
            elif cause == "cancelled":
                monkeypatch.setattr(broker.unpacking, "run", cancelled)
            else:
                follow(broker, broker.replicas.get("t", 0))
                timers: Any = SimpleNamespace(call_later=fail)
                monkeypatch.setattr(broker, "purgatory", Purgatory(timers))
            client.send(produce("t", message_set(2, Codec.NONE, [b"x" * 90_000])), 2)
            if cause == "cancelled":
                assert await client.closed()
            else:
                (topic,) = (await client.receive()).responses
                assert all(
                    one.error_code == ErrorCode.UNKNOWN_SERVER_ERROR for one in topic.partition_responses
                )
            monkeypatch.undo()
            client.close()

    run(main)


def _broken(sent: bytes) -> bytes:
    return sent[:-1] + bytes([sent[-1] ^ 1])


LARGE = [b"x" * 90_000]


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (_broken(message_set(2, Codec.NONE, [b"a"])), ErrorCode.CORRUPT_MESSAGE),
        (_broken(message_set(2, Codec.NONE, LARGE)), ErrorCode.CORRUPT_MESSAGE),
        (message_set(2, Codec.NONE, [b"x" * 1_100_000]), ErrorCode.MESSAGE_TOO_LARGE),
        # Each message is small enough, the batch that they become is not.
        (message_set(2, Codec.NONE, LARGE * 13), ErrorCode.MESSAGE_TOO_LARGE),
        (message_set(0, Codec.NONE, [b"a"]) + message_set(2, Codec.NONE, [b"a"]), ErrorCode.INVALID_RECORD),
    ],
)
def test_refused_message_sets(records: bytes, code: ErrorCode, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t")
            client = await connect(broker)
            answer = await append(client, "t", records, version=2)
            assert (ErrorCode(answer.error_code), answer.base_offset) == (code, -1)
            assert broker.replicas.get("t", 0).log.log_end_offset == 0
            assert (await append(client, "t", message_set(2, Codec.NONE, [b"a"]), version=2)).base_offset == 0
            client.close()

    run(main)


def test_an_empty_set_is_done(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t")
            client = await connect(broker)
            for acks in (1, -1):
                answer = await append(client, "t", b"", version=1, acks=acks)
                assert (answer.error_code, answer.base_offset) == (0, -1)
            client.close()

    run(main)


@pytest.mark.parametrize("version", [3, 9])
def test_batches_for_a_topic_of_an_older_format(version: int, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, **OLD_BROKER) as broker:
            await create_topic(broker, "t", configs={"message.format.version": "0.10.2"})
            client = await connect(broker)
            assert (await append(client, "t", batch([b"a", b"b"]), version=version)).base_offset == 0
            idempotent = batch([b"a"], producer_id=3, producer_epoch=0, base_sequence=0)
            answer = await append(client, "t", idempotent, version=version)
            assert ErrorCode(answer.error_code) == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
            headers = build_batch([(TIME, b"k", b"v", [("h", b"1")])])
            answer = await append(client, "t", headers, version=version)
            assert ErrorCode(answer.error_code) == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
            large = build_batch([(TIME, b"k", b"v" * 90_000, [])], codec=Codec.GZIP)
            assert (await append(client, "t", large, version=version)).base_offset == 2
            records, magics = await stored(client)
            assert magics == {1}
            assert [record.value for record in records] == [b"a", b"b", b"v" * 90_000]
            assert broker.replicas.get("t", 0).log.epochs.latest == -1
            client.close()

    run(main)


def test_the_format_is_ignored_since_3_0(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t", configs={"message.format.version": "0.9.0"})
            client = await connect(broker)
            await append(client, "t", message_set(0, Codec.NONE, [b"a"]), version=0)
            _, magics = await stored(client)
            assert magics == {2}
            client.close()

    run(main)
