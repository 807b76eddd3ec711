"""TxnOffsetCommit over the wire: offsets that count when the transaction is committed."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from odradek.errors.codes import ErrorCode
from odradek.util.promise import Promise
from odradek.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

from .. import transactional
from ..live import Client, connect, running
from ..net import run, settle
from ..transactional import SMALL, DenyingName, Transactional, find_coordinator, state_of, until_state

TOPIC = "__consumer_offsets"

serving = partial(transactional.serving, group="g")


async def add_offsets(producer: Transactional, group: str = "g") -> None:
    answer = await producer.client.call(
        AddOffsetsToTxnRequest(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            group_id=group,
        ),
        3,
    )
    assert answer.error_code == 0


def request(producer: Transactional, offset: int, **fields: Any) -> TxnOffsetCommitRequest:
    """Of partitions 0 and 7 of t; the second does not exist."""
    topic = TxnOffsetCommitRequestTopic(
        name=fields.pop("topic", "t"),
        topic_id=fields.pop("topic_id", bytes(16)),
        partitions=[
            TxnOffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=f"note {offset}"
            )
            for index in (0, 7)
        ],
    )
    return TxnOffsetCommitRequest(
        **{
            "transactional_id": producer.transactional_id,
            "group_id": "g",
            "producer_id": producer.producer_id,
            "producer_epoch": producer.epoch,
            "topics": [topic],
            **fields,
        }
    )


async def commit(producer: Transactional, offset: int, version: int = 3, **fields: Any) -> dict[int, int]:
    """The errors by partition."""
    answer = await producer.client.call(request(producer, offset, **fields), version)
    (topic,) = answer.topics
    return {one.partition_index: one.error_code for one in topic.partitions}


async def fetch(client: Client, *, stable: bool = True, version: int = 8) -> tuple[int, int]:
    """Error and offset of partition 0."""
    answer = await client.call(
        OffsetFetchRequest(
            require_stable=stable,
            groups=[
                OffsetFetchRequestGroup(
                    group_id="g", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
                )
            ],
        ),
        version,
    )
    (partition,) = answer.groups[0].topics[0].partitions
    return partition.error_code, partition.committed_offset


def test_commits_of_one_connection_keep_their_order_whatever_the_coordinator_takes(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as (broker, producer):
            await add_offsets(producer)
            original, asked = broker.transactions.verify, []

            def verify(*arguments: Any) -> Any:
                answer: Promise[Any] = Promise(broker.loop)
                asked.append(lambda: answer.set_result(original(*arguments)))
                return answer

            broker.transactions.verify = verify  # type: ignore[method-assign]
            for offset in (5, 6, 7):
                producer.client.send(request(producer, offset), 3)
            await settle(lambda: len(asked) == 1)
            # The others are not looked at before, and then find the transaction open.
            asked.pop()()
            for _ in range(3):
                (topic,) = (await producer.client.receive()).topics
                assert {one.partition_index: one.error_code for one in topic.partitions} == ONE_IS_UNKNOWN
            assert asked == []
            assert await producer.end(commit=True) == ErrorCode.NONE
            await until_state(producer.client, "id", "CompleteCommit")
            assert await fetch(producer.client) == (0, 7)

    run(main)


ONE_IS_UNKNOWN = {0: 0, 7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@pytest.mark.parametrize("version", range(7))
@pytest.mark.parametrize("commits", [True, False])
def test_every_version(tmp_path: Path, version: int, commits: bool) -> None:
    async def main() -> None:
        async with serving(tmp_path) as (broker, producer):
            client = producer.client
            fields = {"topic_id": broker.image.topic_id("t")} if version >= 6 else {}
            if version < 5:
                refused = ErrorCode.INVALID_TXN_STATE if version < 4 else ErrorCode.TRANSACTION_ABORTABLE
                assert (await commit(producer, 42, version, **fields))[0] == refused
                assert await fetch(client) == (0, -1)
                await add_offsets(producer)
            assert await commit(producer, 42, version, **fields) == ONE_IS_UNKNOWN
            found = await state_of(client, "id")
            assert [(one.topic, one.partitions) for one in found.topics] == [(TOPIC, [0])]
            assert await fetch(client) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
            assert await fetch(client, stable=False) == (0, -1)
            assert broker.replicas.get(TOPIC, 0).log.producers.in_transaction(producer.producer_id)
            assert await producer.end(commit=commits) == ErrorCode.NONE
            await until_state(client, "id", "CompleteCommit" if commits else "CompleteAbort")
            assert await fetch(client) == (0, 42 if commits else -1)

    run(main)


def test_unknown_topic_ids_and_names(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as (_, producer):
            unknown = await commit(producer, 1, 6, topic_id=bytes(range(16)))
            assert set(unknown.values()) == {ErrorCode.UNKNOWN_TOPIC_ID}
            unknown = await commit(producer, 1, 5, topic="nothing")
            assert set(unknown.values()) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            # Nothing was to be written: no transaction has begun.
            assert (await state_of(producer.client, "id")).transaction_state == "Empty"

    run(main)


@pytest.mark.parametrize("kill", [True, False])
@pytest.mark.parametrize("commits", [True, False])
def test_pending_offsets_survive_a_restart(tmp_path: Path, kill: bool, commits: bool) -> None:
    async def main() -> None:
        async with serving(tmp_path) as (broker, producer):
            await add_offsets(producer)
            assert await commit(producer, 42) == ONE_IS_UNKNOWN
            if kill:
                # As after kill -9: no snapshot of producers, no word of a clean stop.
                for path in tmp_path.glob("**/*.snapshot"):
                    path.unlink()
        if kill:
            (tmp_path / ".kafka_cleanshutdown").unlink()
            for path in tmp_path.glob("**/*.snapshot"):
                path.unlink()
        async with running(tmp_path, **SMALL) as broker:
            client = producer.client = await connect(broker)
            _ = broker.groups, broker.transactions
            await find_coordinator(client, "id")
            assert await fetch(client) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
            assert await producer.end(commit=commits) == ErrorCode.NONE
            await until_state(client, "id", "CompleteCommit" if commits else "CompleteAbort")
            assert await fetch(client) == (0, 42 if commits else -1)
            client.close()
        async with running(tmp_path, **SMALL) as broker:
            client = await connect(broker)
            assert await fetch(client) == (0, 42 if commits else -1)
            client.close()

    run(main)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"producer_id": 999}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ({"producer_id": -1, "producer_epoch": -1}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ({"producer_epoch": 9}, ErrorCode.INVALID_PRODUCER_EPOCH),
        ({"transactional_id": "other"}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"generation_id_or_member_epoch": 3, "member_id": "m"}, ErrorCode.ILLEGAL_GENERATION),
    ],
)
@pytest.mark.parametrize("version", [3, 5])
def test_who_may_not(tmp_path: Path, fields: dict[str, Any], error: ErrorCode, version: int) -> None:
    async def main() -> None:
        async with serving(tmp_path) as (broker, producer):
            if version < 5:
                await add_offsets(producer)
            assert (await commit(producer, 42, version, **fields))[0] == error
            assert await fetch(producer.client) == (0, -1)
            assert broker.replicas.get(TOPIC, 0).log.log_end_offset == 0

    run(main)


def test_without_verification_a_producer_is_still_needed(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, transaction_partition_verification_enable=False) as (_, producer):
            nobody = await commit(producer, 42, producer_id=-1, producer_epoch=-1)
            assert nobody[0] == ErrorCode.INVALID_PRODUCER_ID_MAPPING
            assert (await commit(producer, 42))[0] == 0

    run(main)


@pytest.mark.parametrize("cause", ["coordinator", "commit", "cancelled"])
def test_a_failure_behind_the_coordinators_answer_is_answered(
    tmp_path: Path, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with serving(tmp_path) as (broker, producer):
            await add_offsets(producer)
            answer: Promise[Any] = Promise(broker.loop)
            monkeypatch.setattr(broker.transactions, "verify", lambda *args: answer)
            client = producer.client
            client.send(request(producer, 42), 3)
            assert await client.silent()
            if cause == "commit":
                monkeypatch.setattr(broker.groups.coordinator, "commit_offsets_in_transaction", None)
                answer.set_result({(TOPIC, 0): ErrorCode.NONE})
            elif cause == "coordinator":
                answer.set_exception(RuntimeError("unforeseen"))
            else:
                answer.cancel()
            if cause == "cancelled":
                assert await client.closed()
            else:
                (topic,) = (await client.receive()).topics
                codes = {one.partition_index: one.error_code for one in topic.partitions}
                assert codes[0] == ErrorCode.UNKNOWN_SERVER_ERROR
            client.close()

    run(main)


@pytest.mark.parametrize("version", [3, 5])
def test_a_partition_of_offsets_that_another_broker_leads(tmp_path: Path, version: int) -> None:
    async def main() -> None:
        async with serving(tmp_path) as (broker, producer):
            await add_offsets(producer)
            broker.replicas.get(TOPIC, 0).leader_id = -1
            assert (await commit(producer, 42, version))[0] == ErrorCode.NOT_COORDINATOR

    run(main)


@pytest.mark.parametrize("version", [1, 2])
def test_old_producers_are_not_told_of_loading(tmp_path: Path, version: int) -> None:
    async def main() -> None:
        async with serving(tmp_path) as (broker, producer):
            broker.transactions.verify = (  # type: ignore[method-assign]
                lambda *args: {(TOPIC, 0): ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
            )
            told = (await commit(producer, 42, version))[0]
            expected = ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert told == (expected if version < 2 else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    run(main)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("id", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ("g", ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ("t", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ],
)
def test_each_resource_is_authorised(tmp_path: Path, name: str, error: ErrorCode) -> None:
    async def main() -> None:
        async with serving(tmp_path) as (broker, producer):
            await add_offsets(producer)
            broker.authorizer = DenyingName(name)  # type: ignore[assignment]
            assert set((await commit(producer, 42)).values()) == {error}
            broker.authorizer = None
            assert await fetch(producer.client) == (0, -1)

    run(main)


def test_a_fenced_producer_cannot_commit_any_more(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as (broker, producer):
            await add_offsets(producer)
            assert (await commit(producer, 41))[0] == 0
            owner = Transactional(await connect(broker), "id")
            assert await owner.init() == ErrorCode.NONE
            assert (await commit(producer, 42))[0] == ErrorCode.INVALID_PRODUCER_EPOCH
            assert await fetch(producer.client) == (0, -1)
            owner.client.close()

    run(main)
