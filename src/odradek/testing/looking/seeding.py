"""Records that are there before a test begins, sent by a producer as any others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from odradek.testing.looking.comparing import RecordLike, parts_of
from odradek.testing.own_client import own

_PARTS = frozenset({"key", "value", "headers", "timestamp_ms", "partition"})
_TRANSACTIONAL_ID = "odradek-testing-seed"


def seed(
    configs: Mapping[str, Any],
    topic: str,
    records: Iterable[RecordLike],
    *,
    partition: int | None,
    transaction: Literal["committed", "aborted"] | None,
) -> int:
    """Send records, and return how many when all are written.

    Args:
        configs: those of a client that may do everything.
        topic: which there is.
        records: in short; a dict may have `key`, `value`, `headers`, `timestamp_ms` and `partition`.
        partition: of all that name none; None for the producer's choice.
        transaction: send them in one, which ends so.

    Raises:
        KafkaError: a record was refused.
        TypeError: it is no record.
    """
    # Not before it is needed: a broker in a test starts in a blink.
    from odradek.client import Producer

    config = own(configs)
    if transaction is not None:
        config["transactional.id"] = _TRANSACTIONAL_ID
    given = [parts_of(record, _PARTS) for record in records]
    with Producer(config) as producer:
        if transaction is not None:
            producer.init_transactions()
            producer.begin_transaction()
        sent = [producer.send(topic, **{"partition": partition, **parts}) for parts in given]
        producer.flush()
        for future in sent:
            future.result()
        if transaction == "committed":
            producer.commit_transaction()
        elif transaction == "aborted":
            producer.abort_transaction()
    return len(sent)
