"""Our transactional clients on our broker, as Kafka of four releases and as all that it can be."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

import odradek
from client.engines import producer_engines
from client.transaction_cases import *  # noqa: F403
from client.transaction_cases import pa, read, rows
from odradek.client import TransactionalWriter
from odradek.client.errors import (
    ConfigError,
    IllegalStateError,
    MessageTooLargeError,
    TransactionAbortedError,
    UnsupportedByBrokerError,
)
from odradek.client.processing import process
from odradek.errors import InvalidProducerEpochError, ProducerFencedError
from odradek.testing import Broker

RELEASES = ["0.11.0", "2.2", "3.9", "newest"]


@pytest.fixture(scope="module", params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    """The Kafka that the broker is."""
    return str(request.param)


@pytest.fixture(scope="module")
def servers(release: str) -> Iterator[str]:
    """A broker that is that Kafka."""
    with Broker(
        kafka_version=None if release == "newest" else release, transaction_two_phase_commit_enable=True
    ) as broker:
        yield broker.bootstrap_servers


def test_what_a_release_speaks(
    servers: str, topic: str, release: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines = producer_engines(monkeypatch)
    with odradek.Producer(bootstrap_servers=servers, transactional_id=topic) as producer:
        producer.init_transactions()
        manager = engines[0].manager
        assert manager is not None
        assert manager.can_bump == (release not in ("0.11.0", "2.2"))
        with producer.begin_transaction():
            producer.send(topic, b"x", partition=0)
            assert manager.v2 == (release == "newest")
        assert manager.producer_epoch == (1 if manager.v2 else 0)


def test_records_that_never_left_fail_with_the_abort(servers: str, topic: str) -> None:
    with odradek.Producer(
        bootstrap_servers=servers, transactional_id=topic, linger_ms=60_000, delivery_timeout_ms=200_000
    ) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        futures = [producer.send(topic, b"%d" % number, partition=0) for number in range(10)]
        producer.abort_transaction()
        assert {type(future.exception(10)) for future in futures} == {TransactionAbortedError}
        # A commit waits for no company.
        with producer.begin_transaction():
            future = producer.send(topic, b"x", partition=0)
        assert future.result(0).offset >= 0
    assert read(servers, topic) == [b"x"]


def test_calls_outside_a_transaction(servers: str, topic: str) -> None:
    with odradek.Producer(bootstrap_servers=servers) as plain:
        for call in (plain.init_transactions, plain.begin_transaction, plain.commit_transaction):
            with pytest.raises(IllegalStateError, match=r"no transactional\.id"):
                call()
    with odradek.Producer(bootstrap_servers=servers, transactional_id=topic) as producer:
        for call in (producer.begin_transaction, producer.abort_transaction):
            with pytest.raises(IllegalStateError):
                call()
        producer.init_transactions()
        for _ in range(2):
            with pytest.raises(IllegalStateError, match="inside a transaction"):
                producer.send(topic, b"x", partition=0)
            with producer.begin_transaction():
                producer.send(topic, b"x", partition=0)
                producer.send(topic, b"x", partition=0)
        with producer.begin_transaction():
            producer.commit_transaction()  # at the end of the block nothing is left to be done


def test_arrow_rows_and_records_in_one_transaction(servers: str, topic: str) -> None:
    with odradek.Producer(bootstrap_servers=servers, transactional_id=topic) as producer:
        producer.init_transactions()
        with producer.begin_transaction():
            producer.send_arrow(rows(100, b"a"), topic)
            producer.send(topic, b"z", partition=1)
        producer.begin_transaction()
        producer.send_arrow(rows(100, b"b"), topic)
        producer.flush()
        producer.abort_transaction()
    assert read(servers, topic) == sorted([*(b"a%d" % number for number in range(100)), b"z"])


def test_coroutines(servers: str, topic: str) -> None:
    async def run() -> None:
        async with odradek.AsyncProducer(bootstrap_servers=servers, transactional_id=topic) as producer:
            await producer.init_transactions()
            async with producer.begin_transaction():
                await producer.send(topic, b"block", partition=0)
            await producer.begin_transaction()
            await producer.send(topic, b"aborted", partition=0)
            await producer.abort_transaction()
            with pytest.raises(ZeroDivisionError):
                async with producer.begin_transaction():
                    await producer.send(topic, b"failed", partition=0)
                    raise ZeroDivisionError
            producer.begin_transaction()
            await producer.send_offsets_to_transaction({(topic, 0): 3}, topic)
            await producer.send(topic, b"by hand", partition=0)
            await producer.commit_transaction()
            producer.begin_transaction()
            await producer.send(topic, b"left open", partition=0)

    asyncio.run(run())
    assert read(servers, topic) == [b"block", b"by hand"]


@pytest.mark.parametrize("commit", [True, False])
def test_two_phases(servers: str, topic: str, release: str, commit: bool) -> None:
    """A prepared transaction survives its producer; the one that comes back decides about it."""
    configs = {"transaction.two.phase.commit.enable": True}
    before = TransactionalWriter(servers, topic, configs)
    if release != "newest":
        with pytest.raises(UnsupportedByBrokerError, match="InitProducerId"):
            before.init_transactions()
        before.close()
        return
    assert not before.init_transactions().has_transaction
    before.begin_transaction()
    before.write_columns(rows(100, b""), topic)
    state = before.prepare_transaction()
    before.abandon()
    with odradek.Producer({"bootstrap.servers": servers, "transactional.id": topic, **configs}) as after:
        assert after.init_transactions(keep_prepared=True) == state
        with pytest.raises(IllegalStateError):
            after.begin_transaction()
        assert after.complete_transaction(state if commit else odradek.PreparedTxnState()) == commit
        with after.begin_transaction():
            after.send(topic, b"more", partition=0)
        after.begin_transaction()
        after.send(topic, b"prepared", partition=0)
        assert after.complete_transaction(after.prepare_transaction())
    expected = {b"more", b"prepared"} | ({b"%d" % number for number in range(100)} if commit else set())
    assert set(read(servers, topic)) == expected


def test_a_writer_goes_on_after_an_abort(servers: str, topic: str) -> None:
    with TransactionalWriter(servers, topic) as writer:
        writer.init_transactions()
        for number in range(6):
            writer.begin_transaction()
            writer.write_columns(rows(50, b"%d-" % number), topic)
            writer.commit_transaction() if number % 2 else writer.abort_transaction()
        successor = TransactionalWriter(servers, topic)
        successor.init_transactions()
        writer.begin_transaction()
        with pytest.raises(ProducerFencedError) as fenced:
            write_as_zombie(writer, topic)
        assert fenced.value.fatal
        successor.close()
    assert len(read(servers, topic)) == 150


def write_as_zombie(writer: TransactionalWriter, topic: str) -> None:
    """Under KIP-890 a partition's leader is the first to see it; the coordinator is sure."""
    try:
        writer.write_columns(rows(50, b"zombie"), topic)
        writer.commit_transaction()
    except InvalidProducerEpochError as problem:
        assert problem.requires_abort
        writer.abort_transaction()


def test_a_loop_that_is_configured_wrongly_does_not_begin(servers: str, topic: str) -> None:
    good = {
        "bootstrap_servers": servers,
        "group_id": topic,
        "enable_auto_commit": False,
        "isolation_level": "read_committed",
    }
    with odradek.Producer(bootstrap_servers=servers, transactional_id=topic) as producer:
        for wrong, message in (
            ({"enable_auto_commit": True}, r"enable\.auto\.commit"),
            ({"isolation_level": "read_uncommitted"}, r"isolation\.level"),
            ({"group_id": None}, r"group\.id"),
        ):
            with (
                odradek.Consumer(config={**good, **wrong}) as consumer,
                pytest.raises(ConfigError, match=message),
            ):
                process(consumer, producer, lambda records, producer: None)
        with pytest.raises(IllegalStateError, match="UNINITIALIZED"):
            producer.begin_transaction()
    with (
        odradek.Consumer(config=good) as consumer,
        odradek.Producer(bootstrap_servers=servers) as plain,
        pytest.raises(ConfigError, match=r"transactional\.id"),
    ):
        process(consumer, plain, lambda records, producer: None)


def test_what_cannot_even_be_queued_costs_the_transaction(servers: str, topic: str) -> None:
    """Whoever passes over the error must not commit the rest."""
    too_large = pa.record_batch({"value": [b"small", b"x" * 2_000_000]})
    with odradek.Producer(bootstrap_servers=servers, transactional_id=topic, max_block_ms=5_000) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"fine", partition=0)
        with pytest.raises(MessageTooLargeError):
            producer.send(topic, b"x" * 2_000_000, partition=0)
        with pytest.raises(MessageTooLargeError) as still:
            producer.commit_transaction()
        assert still.value.requires_abort
        producer.abort_transaction()
        producer.begin_transaction()
        with pytest.raises(MessageTooLargeError):
            producer.send_arrow(too_large, topic)
        with pytest.raises(MessageTooLargeError):
            producer.commit_transaction()
        producer.abort_transaction()
        with pytest.raises(ValueError, match="partition"), producer.begin_transaction():
            producer.send(topic, b"nowhere", partition=-1)

    async def run() -> None:
        async with odradek.AsyncProducer(bootstrap_servers=servers, transactional_id=topic) as producer:
            await producer.init_transactions()
            producer.begin_transaction()
            for send in (producer.send(topic, b"x" * 2_000_000), producer.send_arrow(too_large, topic)):
                with pytest.raises(MessageTooLargeError):
                    await send
                with pytest.raises(MessageTooLargeError):
                    await producer.commit_transaction()
                await producer.abort_transaction()
                producer.begin_transaction()

    asyncio.run(run())
    with TransactionalWriter(servers, topic) as writer:
        writer.init_transactions()
        writer.begin_transaction()
        with pytest.raises(MessageTooLargeError) as raised:
            writer.write_columns(too_large, topic)
        assert raised.value.requires_abort
        with pytest.raises(MessageTooLargeError):
            writer.commit_transaction()
        writer.abort_transaction()
        writer.begin_transaction()
        writer.write_columns(rows(3, b"good"), topic)
        writer.commit_transaction()
    assert len(read(servers, topic)) == 3
