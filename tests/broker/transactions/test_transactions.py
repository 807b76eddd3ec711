"""Transactions of raw clients on a whole broker."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from odradek.errors.codes import ErrorCode

from ..live import create_topic
from ..transactional import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Transactional,
    arena,
    find_coordinator,
    latest,
    state_of,
    until_state,
    values,
)


def test_committed_is_seen_aborted_is_not(tmp_path: Path) -> None:
    async def run() -> None:
        async with arena(tmp_path) as here:
            await create_topic(here.broker, "t", 2)
            producer = await here.producer("id")
            reader = await here.client()
            await producer.write("t", [b"a", b"b"], commit=True)
            await until_state(reader, "id", "CompleteCommit")
            await producer.write("t", [b"c"], commit=False)
            await until_state(reader, "id", "CompleteAbort")
            await producer.write("t", [b"d"], commit=None)
            assert await values(reader, "t") == [b"a", b"b"]
            assert await values(reader, "t", isolation_level=READ_UNCOMMITTED) == [b"a", b"b", b"c", b"d"]
            # Three values, two markers, and the one that is open.
            assert await latest(reader, "t", isolation_level=READ_COMMITTED) == 5
            assert await latest(reader, "t", isolation_level=READ_UNCOMMITTED) == 6
            assert await producer.end(commit=True) == ErrorCode.NONE
            await until_state(reader, "id", "CompleteCommit")
            assert await values(reader, "t") == [b"a", b"b", b"d"]

    asyncio.run(run())


def test_the_topic_of_transactions_is_kafkas(tmp_path: Path) -> None:
    async def run() -> None:
        async with arena(
            tmp_path, transaction_state_log_num_partitions=50, transaction_state_log_segment_bytes=1_000_000
        ) as here:
            await here.producer("id")
            topic = here.broker.image.topic("__transaction_state")
            assert topic is not None
            assert len(topic.partitions) == 50
            assert here.broker.image.topic_config("__transaction_state") == {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": "1",
                "segment.bytes": "1000000",
                "unclean.leader.election.enable": "false",
            }

    asyncio.run(run())


@pytest.mark.parametrize("version", range(1, 7))
def test_who_coordinates(tmp_path: Path, version: int) -> None:
    async def run() -> None:
        async with arena(tmp_path) as here:
            client = await here.client()
            assert here.broker.image.topic("__transaction_state") is None
            found = await find_coordinator(client, "id", version)
            assert (found.node_id, found.port) == (here.broker.broker_id, here.broker.port)
            assert here.broker.image.topic("__transaction_state") is not None

    asyncio.run(run())


@pytest.mark.parametrize("commit", [True, False])
def test_several_partitions_end_alike(tmp_path: Path, commit: bool) -> None:
    async def run() -> None:
        async with arena(tmp_path) as here:
            await create_topic(here.broker, "t", 3)
            await create_topic(here.broker, "u", 1)
            producer = await here.producer("id")
            assert await producer.add("t", 0, 2) == ErrorCode.NONE
            assert await producer.add("u", 0) == ErrorCode.NONE
            for topic, index in (("t", 0), ("t", 2), ("u", 0)):
                assert await producer.send(topic, [b"x"], index) == ErrorCode.NONE
            found = await state_of(producer.client, "id")
            assert [(one.topic, one.partitions) for one in found.topics] == [("t", [0, 2]), ("u", [0])]
            assert await producer.end(commit=commit) == ErrorCode.NONE
            await until_state(producer.client, "id", "CompleteCommit" if commit else "CompleteAbort")
            for topic, index in (("t", 0), ("t", 2), ("u", 0)):
                seen = await values(producer.client, topic, index=index)
                assert seen == ([b"x"] if commit else [])

    asyncio.run(run())


def test_the_former_owner_is_fenced(tmp_path: Path) -> None:
    async def run() -> None:
        async with arena(tmp_path) as here:
            await create_topic(here.broker, "t")
            former = await here.producer("id")
            await former.write("t", [b"left"], commit=None)
            owner = await here.producer("id")
            assert owner.producer_id == former.producer_id
            assert owner.epoch > former.epoch
            assert await former.send("t", [b"late"]) == ErrorCode.INVALID_PRODUCER_EPOCH
            assert await former.add("t") == ErrorCode.PRODUCER_FENCED
            assert await former.add("t", version=1) == ErrorCode.INVALID_PRODUCER_EPOCH
            assert await former.end(commit=True) == ErrorCode.PRODUCER_FENCED
            assert await former.end(commit=True, version=1) == ErrorCode.INVALID_PRODUCER_EPOCH
            assert await former.init(resume=True) == ErrorCode.PRODUCER_FENCED
            await owner.write("t", [b"own"], commit=True)
            await until_state(owner.client, "id", "CompleteCommit")
            assert await values(owner.client, "t") == [b"own"]

    asyncio.run(run())


@pytest.mark.parametrize("commit", [True, False])
def test_a_prepared_transaction_outlives_its_producer(tmp_path: Path, commit: bool) -> None:
    async def run() -> None:
        two_phase = {"transaction_two_phase_commit_enable": True}
        async with arena(tmp_path, **two_phase) as here:
            await create_topic(here.broker, "t")
            former = await here.producer("id", two_phase=True, version=6)
            await former.write("t", [b"a", b"b"], commit=None)
        async with arena(tmp_path, **two_phase) as here:
            heir = Transactional(await here.client(), "id")
            assert await heir.init(two_phase=True, keep=True, version=6) == ErrorCode.NONE
            assert heir.ongoing == (former.producer_id, former.epoch)
            assert heir.epoch == former.epoch + 1
            former.client = heir.client
            assert await former.end(commit=not commit, version=5) == ErrorCode.PRODUCER_FENCED
            assert await heir.end(commit=commit, version=5) == ErrorCode.NONE
            await until_state(heir.client, "id", "CompleteCommit" if commit else "CompleteAbort")
            assert await values(heir.client, "t") == ([b"a", b"b"] if commit else [])
            await heir.write("t", [b"c"], commit=True)
            await until_state(heir.client, "id", "CompleteCommit")
            assert await values(heir.client, "t") == ([b"a", b"b", b"c"] if commit else [b"c"])

    asyncio.run(run())


def test_two_phase_commit_has_to_be_allowed(tmp_path: Path) -> None:
    async def run() -> None:
        async with arena(tmp_path) as here:
            producer = await here.producer("id")
            refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            assert await producer.init(two_phase=True, version=6) == refused
            assert await producer.init(keep=True, version=6) == ErrorCode.NONE

    asyncio.run(run())
