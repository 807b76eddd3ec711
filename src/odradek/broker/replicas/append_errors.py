"""The log lines of appends that fail: whoever sends them can send any number."""

from __future__ import annotations

import logging

from odradek.errors import ErrorCode, KafkaError, KafkaStorageError
from odradek.util.repeats import Repeats

logger = logging.getLogger(__name__)
repeats = Repeats(logger)


def append_failed(topic: str, index: int, error: Exception) -> None:
    """Log an append that failed: what is wrong here as an error, a batch that is refused at debug level."""
    message = "append failed topic=%s partition=%d: %s"
    if isinstance(error, KafkaStorageError):
        repeats.log(logging.ERROR, (topic, index), message, topic, index, error.message)
    elif isinstance(error, KafkaError):
        logger.debug("append refused topic=%s partition=%d: %s", topic, index, error.message)
    else:
        repeats.log(logging.ERROR, type(error), message, topic, index, error, exc_info=error)


def closing_without_acks(
    client_id: str | None, client: str | None, topic: str, index: int, code: int
) -> None:
    """Log why a connection is about to be closed, which is all that a producer with acks=0 can be told."""
    logger.info(
        "a produce with acks=0 failed, which the end of its connection tells "
        "client_id=%s client=%s topic=%s partition=%d error=%s",
        client_id,
        client,
        topic,
        index,
        ErrorCode(code).name,
    )
