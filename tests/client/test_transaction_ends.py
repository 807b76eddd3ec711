"""The end of a transaction and what is still under way then: batches and commits without an answer."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from client.scripted_transactions import ByProducer, ByWriter, Problem, TransactionalBroker
from odradek.client import Producer, TransactionalWriter
from odradek.client.errors import ClientTimeoutError, DeliveryTimeoutError
from odradek.errors import ErrorCode, RecordTooLargeError, TransactionAbortableError
from odradek.wire.api import ApiKey

REFUSED = ErrorCode.INVALID_TXN_STATE


class SlowBroker(TransactionalBroker):
    """Answers the second Produce when the transaction was ended, or after a while."""

    def __init__(self) -> None:
        super().__init__("3.9", {})
        self.ended = threading.Event()
        self._produced = 0
        in_order = self.answers
        self.answers = {**in_order, 0: self._slow_produce, 26: self._seen_end}
        self._in_order = in_order

    def _slow_produce(self, message: Any, version: int) -> Any:
        self._produced += 1
        if self._produced == 1:
            self.ended.wait(0.5)
            return self._produce(message, version, int(ErrorCode.NOT_ENOUGH_REPLICAS))
        self.ended.wait(0.9)
        answer = self._produce(message, version, 0)
        self.said.append("written")
        return answer

    def _seen_end(self, message: Any, version: int) -> Any:
        answer = self._in_order[26](message, version)
        self.ended.set()
        return answer


def test_an_abort_waits_for_what_may_yet_be_written() -> None:
    """Else a batch that was given up could come to the log behind the marker, and so into the next one."""
    with SlowBroker() as broker:
        client = Producer(
            bootstrap_servers=broker.at,
            transactional_id="id",
            delivery_timeout_ms=1_000,
            request_timeout_ms=1_000,
            retry_backoff_ms=1,
            retry_backoff_max_ms=1,
        )
        client.init_transactions()
        client.begin_transaction()
        with pytest.raises(DeliveryTimeoutError):
            client.send("t", b"value", partition=0).result(60)
        client.abort_transaction()
        assert broker.said.index("written") < broker.said.index("abort 7:0")
        client.close()


class BusyBroker(TransactionalBroker):
    """The transaction before is being completed until `ready`."""

    def __init__(self) -> None:
        super().__init__("3.9", {})
        self.ready = threading.Event()

    def _end(self, message: Any, version: int, code: int) -> Any:
        if self.ready.is_set():
            self.said.append("done")
            return super()._end(message, version, code)
        return super()._end(message, version, int(ErrorCode.CONCURRENT_TRANSACTIONS))


@pytest.mark.parametrize("shell", [ByProducer, ByWriter])
def test_closing_waits_for_a_commit_that_was_given_up(shell: Any) -> None:
    with BusyBroker() as broker:
        configs = {"max.block.ms": 1_000, "retry.backoff.ms": 50, "retry.backoff.max.ms": 50}
        side = shell.__new__(shell)
        side.client = (
            Producer({"bootstrap.servers": broker.at, "transactional.id": "id", **configs})
            if shell is ByProducer
            else TransactionalWriter(broker.at, "id", configs)
        )
        side.client.init_transactions()
        side.client.begin_transaction()
        side.send()
        with pytest.raises(ClientTimeoutError):
            side.client.commit_transaction()
        broker.ready.set()
        side.client.close()
        assert "done" in broker.said


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ({ApiKey.END_TXN: [ErrorCode.TRANSACTION_ABORTABLE, REFUSED]}, TransactionAbortableError),
        ({ApiKey.PRODUCE: [ErrorCode.MESSAGE_TOO_LARGE], ApiKey.END_TXN: [REFUSED]}, RecordTooLargeError),
    ],
    ids=["commit", "record"],
)
def test_why_a_block_failed_is_told_also_if_the_abort_fails(
    script: dict[ApiKey, list[Problem]], told: type[Exception]
) -> None:
    with TransactionalBroker("3.9", script) as broker:
        side = ByProducer(broker.at)
        side.client.init_transactions()
        with pytest.raises(told), side.client.begin_transaction():
            side.send()
        assert broker.said[-1] == "abort 7:0"
        side.client.close()
