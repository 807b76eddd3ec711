"""Read, process, write, exactly once: what a loop around a consumer and a transactional producer has to get
right.

    consumer = Consumer("orders", group_id="billing", isolation_level="read_committed",
    enable_auto_commit=False) producer = Producer(transactional_id="billing-1")

    def bill(records, producer):
        for record in records:
            producer.send("invoices", invoice_for(record.value), key=record.key)

    process(consumer, producer, bill)

What is sent and the offsets of what was read are committed together, or not at all. After an abort the same
records are read again. Rebalances happen between transactions only, and a member that was rebalanced out
cannot commit (KIP-447), so that each of several such processes needs a `transactional_id` of its own, and no
more.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from odradek.client.core.backoff import Backoff
from odradek.client.errors import ClientTimeoutError, CommitFailedError, ConfigError, IllegalStateError
from odradek.client.sync.consumer import Consumer
from odradek.client.sync.producer import Producer
from odradek.client.types import ConsumerRecord, OffsetAndMetadata, TopicPartition
from odradek.errors import OdradekError

logger = logging.getLogger("odradek.client.processing")

Step = Callable[[list[ConsumerRecord], Producer], Any]


def process(
    consumer: Consumer,
    producer: Producer,
    step: Step,
    *,
    until: Callable[[], bool] | None = None,
    idle_polls: int | None = None,
    max_records: int | None = None,
    poll_timeout_ms: float = 1_000,
    attempts: int = 10,
    initialise: bool = True,
    pause: Callable[[float], Any] = time.sleep,
) -> int:
    """Poll, run `step` inside a transaction, commit; again and again.

    Args:
        consumer: subscribed or assigned, with a group, without `enable_auto_commit`, and with
            `isolation_level='read_committed'`.
        producer: with a `transactional_id`.
        step: called with the records polled and the producer; sends what comes of them. May be called several
            times with the same records, of which one counts. What it raises aborts the transaction and is
            raised here; the consumer stands before those records again.
        until: asked between transactions, also when there was nothing to read; ends the loop when it is true.
        idle_polls: this many polls in a row without records end the loop, too; those before the group has
            given out its partitions do not count.
        max_records: of one transaction; default the consumer's `max_poll_records`.
        poll_timeout_ms: how long to wait for records.
        attempts: how often in a row the same records are tried where the error allows to.
        initialise: call `init_transactions` first.
        pause: waits, in seconds, between attempts.

    Returns: how many records were processed.

    Raises:
        ConfigError: consumer or producer are configured otherwise.
        KafkaError: with `fatal` (`ProducerFencedError`: another process has the transactional id), or the
            last one of `attempts`, or `ClientTimeoutError` if nobody answered how a transaction ended. Close
            both then; nothing was half done, and new ones go on with what is committed.
    """
    _check(consumer, producer)
    backoff = Backoff(producer.config.retry_backoff_ms, producer.config.retry_backoff_max_ms)
    if initialise:
        _again(producer.init_transactions, attempts)
    processed = failures = idle = 0
    while (until is None or not until()) and (idle_polls is None or idle < idle_polls):
        # While the group has not given out its partitions yet, nothing can come.
        may_come = not consumer.subscription() or consumer.group_generation()[0] >= 0
        records = consumer.poll(poll_timeout_ms, max_records)
        if not records:
            idle += may_come
            continue
        idle = 0
        problem = _transaction(consumer, producer, step, records, attempts)
        if problem is None:
            failures = 0
            processed += len(records)
            continue
        failures += 1
        if failures >= attempts:
            raise problem
        if isinstance(problem, CommitFailedError) and consumer.subscription():
            # The group has moved on: be a member again before reading on, whoever has the records then.
            consumer.enforce_rebalance()
        logger.info("transaction aborted, attempt %d of %d: %s", failures, attempts, problem)
        pause(backoff.delay_ms(failures) / 1000)
    return processed


def _check(consumer: Consumer, producer: Producer) -> None:
    if producer.config.transactional_id is None:
        raise ConfigError("the producer needs a transactional.id")
    if consumer.config.group_id is None:
        raise ConfigError("the consumer needs a group.id, under which its offsets are committed")
    if consumer.config.enable_auto_commit:
        raise ConfigError("enable.auto.commit must be false: offsets are committed with the transactions")
    if consumer.config.isolation_level != "read_committed":
        raise ConfigError("isolation.level must be read_committed, or aborted records would be processed")


def _transaction(
    consumer: Consumer,
    producer: Producer,
    step: Step,
    records: Sequence[ConsumerRecord],
    attempts: int,
) -> OdradekError | None:
    """One try. Returns the error after which the transaction was aborted and may be tried again, None if it
    was committed; every other error is raised.
    """
    first, after = _offsets(records)
    producer.begin_transaction()
    try:
        step(list(records), producer)
        producer.send_offsets_to_transaction(after, consumer.group_metadata())
        _again(producer.commit_transaction, attempts)
    except OdradekError as problem:
        # What could not be aborted may yet be committed: that must not be done over.
        aborted = not problem.fatal and _take_back(consumer, producer, first, attempts)
        if not aborted or not _worth_another_try(problem):
            raise
        return problem
    except BaseException:
        _take_back(consumer, producer, first, attempts)
        raise
    return None


def _offsets(
    records: Sequence[ConsumerRecord],
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, OffsetAndMetadata]]:
    """The offsets to read again, and to go on from, by partition."""
    first: dict[TopicPartition, int] = {}
    after: dict[TopicPartition, OffsetAndMetadata] = {}
    for record in records:
        tp = TopicPartition(record.topic, record.partition)
        first.setdefault(tp, record.offset)
        after[tp] = OffsetAndMetadata(record.offset + 1, "", record.leader_epoch)
    return first, after


def _take_back(
    consumer: Consumer, producer: Producer, first: dict[TopicPartition, int], attempts: int
) -> bool:
    """Abort, and stand before the records again: what was committed is just before them.

    Returns: whether it was aborted, as far as is known.
    """
    aborted = True
    try:
        _again(producer.abort_transaction, attempts)
    except OdradekError as problem:
        # The coordinator will do it, or has; what led here is the error to be told.
        logger.warning("the transaction could not be aborted: %s", problem)
        aborted = False
    assigned = consumer.assignment()
    for tp, offset in first.items():
        if tp in assigned:
            try:
                consumer.seek(tp, offset)
            except IllegalStateError:
                logger.debug("%s went to another member", tp)
    return aborted


def _again(call: Callable[[], Any], attempts: int) -> None:
    """A call that timed out goes on in the background, and is waited for again."""
    for left in range(attempts - 1, -1, -1):
        try:
            call()
            return
        except ClientTimeoutError as problem:
            if not left or problem.requires_abort:
                raise


def _worth_another_try(problem: OdradekError) -> bool:
    return problem.requires_abort or bool(getattr(problem, "retriable", False))
