"""Malformed records written to a topic of their own, with headers that say where they come from and why.

At least once: a task that Spark tries again, and a batch that is run again after a crash, write theirs
again. A task ends when its dead letters are acknowledged, so none is lost that a batch has passed.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from odradek.client import RawWriter
from odradek.client.config import ConsumerConfig, ProducerConfig, python_name
from odradek.client.types import TopicPartition
from odradek.spark.connections import borrowed_writer

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from odradek.spark.formats.decoding import Problem

#: Headers as Kafka Connect writes them (KIP-298), for whoever reads its dead letters already.
PREFIX = "__connect.errors."


class DeadLetters(AbstractContextManager["DeadLetters"]):
    """The dead letters of one task.

    Args:
        configs: of the client that reads.
        topic: where to.
        source: the partition that is read.
    """

    def __init__(self, configs: Mapping[str, str], topic: str, source: TopicPartition) -> None:
        self._configs = writer_configs(configs)
        self._topic = topic
        self._source = source
        self._open: Any = None
        self._writer: RawWriter | None = None

    def write(self, rows: pa.RecordBatch, problems: Mapping[int, list[tuple[str, Problem]]]) -> None:
        """Send the malformed ones of `rows`; `problems`: (side, why) by row.

        Raises:
            KafkaError: they could not be sent.
        """
        import pyarrow as pa

        from odradek.records.columns import HEADERS_TYPE

        if self._writer is None:
            self._open = borrowed_writer(self._configs)
            self._writer = self._open.__enter__()
        numbers = sorted(problems)
        bad = rows.take(pa.array(numbers, pa.int32()))
        headers = [
            [*(bad.column("headers")[at].as_py() or ()), *self._reasons(offset, problems[number])]
            for at, (number, offset) in enumerate(zip(numbers, bad.column("offset").to_pylist(), strict=True))
        ]
        letters = pa.record_batch(
            {
                "key": bad.column("key"),
                "value": bad.column("value"),
                "headers": pa.array(headers, HEADERS_TYPE),
            }
        )
        self._writer.write_columns(letters, self._topic)

    def _reasons(self, offset: int, problems: list[tuple[str, Problem]]) -> list[dict[str, Any]]:
        reasons = {
            "topic": self._source.topic,
            "partition": str(self._source.partition),
            "offset": str(offset),
            "stage": "_AND_".join(f"{side.upper()}_CONVERTER" for side, _ in problems),
            "exception.class.name": "odradek.spark.formats.errors.MalformedRecordError",
            "exception.message": "; ".join(f"{side}: {problem.reason}" for side, problem in problems),
        }
        return [{"key": PREFIX + name, "value": text.encode()} for name, text in reasons.items()]

    def __exit__(self, *exc: Any) -> None:
        """Wait for the acknowledgements; after a failure give up what was not sent."""
        if self._open is not None:
            self._open.__exit__(*exc)
            self._open = self._writer = None


def writer_configs(configs: Mapping[str, str]) -> dict[str, str]:
    """Those of a reader's configs that a producer has as well."""
    of_producers = {config.name for config in fields(ProducerConfig)}
    reading_only = {config.name for config in fields(ConsumerConfig)} - of_producers
    return {name: value for name, value in configs.items() if python_name(name) not in reading_only}
