"""OpenTelemetry through interceptors: a span for each record that is sent, and for each batch that is read.

    producer = Producer(…, interceptors=[TracingProducerInterceptor()])
    consumer = Consumer(…, interceptors=[TracingConsumerInterceptor()])

The context of a `send` span travels in the record's headers, as the global propagator writes it
(`traceparent`).
A `poll` span has links to those of its records; `context_of` gives a record's, for a span of its processing.
Names are those of the semantic conventions for messaging and Kafka.

Needs opentelemetry-api, the extra `otel`; without its SDK nothing is recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias

from odradek import __version__
from odradek.client.config import ConsumerConfig, ProducerConfig
from odradek.client.errors import ConfigError
from odradek.client.types import ConsumerRecord, Headers, ProducerRecord, RecordMetadata
from odradek.util.extras import install

if TYPE_CHECKING:
    from opentelemetry.context import Context

_MOST_OPEN = 100_000
"""Spans that wait for an acknowledgement; the oldest is ended when there are more."""


Records: TypeAlias = list[ConsumerRecord[object, object]]


def _api() -> Any:
    try:
        from opentelemetry import propagate, trace
    except ImportError as error:
        raise ConfigError(f"tracing needs opentelemetry-api: {install('otel')}") from error
    return SimpleNamespace(propagate=propagate, trace=trace)


def context_of(record: ConsumerRecord[object, object]) -> Context:
    """Return the context that a record's headers carry; that of the caller if they carry none."""
    return _extracted(_api(), record.headers)


def _extracted(api: Any, headers: Headers) -> Any:
    carrier = {name: value.decode("utf-8", "replace") for name, value in headers if value is not None}
    return api.propagate.extract(carrier)


def _attributes(operation: str, kind: str, topic: str, client_id: str) -> dict[str, Any]:
    return {
        "messaging.system": "kafka",
        "messaging.operation.name": operation,
        "messaging.operation.type": kind,
        "messaging.destination.name": topic,
        "messaging.client.id": client_id,
    }


class TracingProducerInterceptor:
    """A span `send TOPIC` for each record, from `send` to its acknowledgement.

    Raises:
        ConfigError: opentelemetry-api is missing.
    """

    def __init__(self) -> None:
        self._api = _api()
        self._tracer = self._api.trace.get_tracer("odradek", __version__)
        self._client_id = ""
        # By what the record's headers carry of it. Several threads send: each step here is one of a dict.
        self._open: dict[frozenset[tuple[str, bytes]], Any] = {}

    def configure(self, config: ProducerConfig | ConsumerConfig) -> None:
        """See `ProducerInterceptor`."""
        self._client_id = config.client_id

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Begin the span, and write its context into the headers."""
        attributes = _attributes("send", "send", record.topic, self._client_id)
        if isinstance(record.key, str):
            attributes["messaging.kafka.message.key"] = record.key
        if record.value is None:
            attributes["messaging.kafka.message.tombstone"] = True
        trace = self._api.trace
        span = self._tracer.start_span(
            f"send {record.topic}", kind=trace.SpanKind.PRODUCER, attributes=attributes
        )
        carrier: dict[str, str] = {}
        self._api.propagate.inject(carrier, context=trace.set_span_in_context(span))
        carried = [(name, text.encode()) for name, text in carrier.items()]
        kept = [(name, value) for name, value in record.headers if name not in carrier]
        record = record._replace(headers=(*kept, *carried))
        if carried:
            self._open[self._context_in(record.headers)] = span
            self._bound()
        else:
            span.end()  # nothing propagates, so nothing would tell whose acknowledgement comes
        return record

    def _context_in(self, headers: Headers) -> frozenset[tuple[str, bytes]]:
        """Return what headers carry of a context, be it that of the span alone or of a forwarded record."""
        fields = self._api.propagate.get_global_textmap().fields
        return frozenset((name, value) for name, value in headers if name in fields and value is not None)

    def _bound(self) -> None:
        while len(self._open) > _MOST_OPEN:
            oldest = self._open.pop(next(iter(self._open)), None)
            if oldest is not None:
                oldest.end()

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: Exception | None, headers: Headers = ()
    ) -> None:
        """End the record's span."""
        span = self._open.pop(self._context_in(headers), None)
        if span is None:
            return
        if metadata is not None and metadata.partition >= 0:
            span.set_attribute("messaging.destination.partition.id", str(metadata.partition))
            if metadata.offset >= 0:
                span.set_attribute("messaging.kafka.offset", metadata.offset)
        if error is not None:
            trace = self._api.trace
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(trace.Status(trace.StatusCode.ERROR, str(error)))
        span.end()

    def close(self) -> None:
        """End what is open."""
        while self._open:
            self._open.popitem()[1].end()


class TracingConsumerInterceptor:
    """A span `poll TOPIC` for what a call gives of a topic, with links to the spans of its records.

    Raises:
        ConfigError: opentelemetry-api is missing.
    """

    def __init__(self) -> None:
        self._api = _api()
        self._tracer = self._api.trace.get_tracer("odradek", __version__)
        self._attributes: Mapping[str, Any] = {}
        self._client_id = ""

    def configure(self, config: ProducerConfig | ConsumerConfig) -> None:
        """See `ConsumerInterceptor`."""
        self._client_id = config.client_id
        if isinstance(config, ConsumerConfig) and config.group_id is not None:
            self._attributes = {"messaging.consumer.group.name": config.group_id}

    def on_consume(self, records: Records) -> Records:
        """Note what is given out."""
        by_topic: dict[str, Records] = {}
        for record in records:
            by_topic.setdefault(record.topic, []).append(record)
        for topic, its_records in by_topic.items():
            self._note(topic, its_records)
        return records

    def _note(self, topic: str, records: Records) -> None:
        attributes = {**_attributes("poll", "receive", topic, self._client_id), **self._attributes}
        attributes["messaging.batch.message_count"] = len(records)
        if len(records) == 1:
            attributes["messaging.destination.partition.id"] = str(records[0].partition)
            attributes["messaging.kafka.offset"] = records[0].offset
        span = self._tracer.start_span(
            f"poll {topic}",
            kind=self._api.trace.SpanKind.CLIENT,
            attributes=attributes,
            links=list(self._links(records)),
        )
        span.end()

    def _links(self, records: Records) -> Iterable[Any]:
        trace = self._api.trace
        for record in records:
            if record.headers:
                sent = trace.get_current_span(_extracted(self._api, record.headers)).get_span_context()
                if sent.is_valid:
                    yield trace.Link(sent)
