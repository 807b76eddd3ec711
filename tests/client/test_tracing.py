"""Interceptors, and OpenTelemetry through them: with its API where that is there, else with a stand-in."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.client import Consumer, ConsumerInterceptor, Producer, ProducerInterceptor, tracing
from odradek.client.errors import ConfigError, SerializationError
from waiting import until

from .consuming import fill
from .twins import FACES, twin


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Noting(ProducerInterceptor, ConsumerInterceptor):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def configure(self, config: Any) -> None:
        self.told.append(("configure", config.client_id))

    def on_acknowledgement(self, metadata: Any, error: Any, headers: Any = ()) -> None:
        self.told.append((metadata and metadata.partition, type(error), headers))

    def on_commit(self, offsets: Any) -> None:
        self.told.append(dict(offsets))

    def close(self) -> None:
        self.told.append("close")


def test_kafkas_interface(face: str, servers: str, topic: str) -> None:
    noting = Noting()
    configs = {"bootstrap_servers": servers, "client_id": "c", "interceptors": [noting]}
    with twin(face, Producer, **configs) as producer:
        producer.send(topic, b"x", partition=1, headers={"a": "b"})
        with pytest.raises(SerializationError):
            producer.send(topic, 5)
        with pytest.raises(Exception, match="partition"):
            producer.send(topic, b"x", partition=-1, headers=[("k", b"v")])
    refused, *_, acknowledged, closed = noting.told[1:]
    assert noting.told[0] == ("configure", "c")
    assert refused == (None, SerializationError, ())
    assert acknowledged == (1, type(None), (("a", b"b"),)) and closed == "close"
    assert len(noting.told) == 5


def test_interceptors_hear_of_every_commit(face: str, servers: str, topic: str, group: str) -> None:
    fill(servers, topic, 3)
    tp = (topic, 0)
    noting = Noting()
    configs = {"bootstrap_servers": servers, "group_id": group, "auto_offset_reset": "earliest"}
    with twin(face, Consumer, interceptors=[noting], auto_commit_interval_ms=600_000, **configs) as consumer:
        consumer.assign([tp])
        assert consumer.getone().offset == 0
        consumer.commit()
        consumer.commit_async({tp: 2})
        until(lambda: (consumer.turn(), consumer.committed([tp])[tp].offset == 2)[1], "the commit")
        consumer.getone()
        consumer.getone()
    commits = [{tuple(tp): at.offset for tp, at in told.items()} for told in noting.told[1:-1]]
    assert commits == [{tp: 1}, {tp: 2}, {tp: 3}]


class Span:
    """Writes down what is done with it."""

    _ids = itertools.count(1)

    def __init__(self, name: str, kind: str, attributes: dict[str, Any], links: Any = ()) -> None:
        self.name, self.kind, self.attributes, self.links = name, kind, dict(attributes), list(links)
        self.id = next(self._ids)
        self.status: Any = None
        self.ended = 0

    def set_attribute(self, name: str, value: Any) -> None:
        self.attributes[name] = value

    def set_status(self, status: Any) -> None:
        self.status = status

    def end(self) -> None:
        self.ended += 1

    def get_span_context(self) -> Any:
        return SimpleNamespace(id=self.id, is_valid=True)


class StandIn:
    """As much of opentelemetry-api as is used."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        nobody = SimpleNamespace(get_span_context=lambda: SimpleNamespace(is_valid=False))
        self.trace = SimpleNamespace(
            get_tracer=lambda name, version: self,
            SpanKind=SimpleNamespace(PRODUCER="producer", CLIENT="client"),
            Status=lambda code, text: (code, text),
            StatusCode=SimpleNamespace(ERROR="error"),
            set_span_in_context=lambda span: span,
            get_current_span=lambda context: context or nobody,
            Link=lambda context: context.id,
        )
        self.propagate = SimpleNamespace(
            inject=lambda carrier, context: carrier.update(traceparent=str(context.id)),
            extract=lambda carrier: next(
                (s for s in self.spans if carrier.get("traceparent") == str(s.id)), None
            ),
            get_global_textmap=lambda: SimpleNamespace(fields={"traceparent"}),
        )

    def start_span(self, name: str, kind: str, attributes: dict[str, Any], links: Any = ()) -> Span:
        self.spans.append(Span(name, kind, attributes, links))
        return self.spans[-1]


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    stand_in = StandIn()
    monkeypatch.setattr(tracing, "_api", lambda: stand_in)
    return stand_in


def test_spans_of_what_is_sent_and_read(face: str, servers: str, topic: str, api: StandIn) -> None:
    configs = {"bootstrap_servers": servers, "client_id": "c"}
    interceptor = tracing.TracingProducerInterceptor()
    with twin(face, Producer, **configs, interceptors=[interceptor]) as producer:
        producer.send(topic, b"x", key="k", partition=1, headers={"a": "b", "traceparent": "old"})
        producer.send(topic, None, partition=1)
        with pytest.raises(SerializationError):
            producer.send(topic, 5)
    first, second, refused = api.spans
    assert (first.name, first.kind, first.ended) == (f"send {topic}", "producer", 1)
    assert first.attributes == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": topic,
        "messaging.client.id": "c",
        "messaging.kafka.message.key": "k",
        "messaging.destination.partition.id": "1",
        "messaging.kafka.offset": 0,
    }
    assert second.attributes["messaging.kafka.message.tombstone"] is True and second.status is None
    assert refused.attributes["error.type"] == "SerializationError" and refused.status[0] == "error"
    assert [span.ended for span in api.spans] == [1, 1, 1]
    fill(servers, topic, 3, 3)
    more = {"auto_offset_reset": "earliest", "interceptors": [tracing.TracingConsumerInterceptor]}
    with twin(face, Consumer, **configs, **more) as consumer:
        consumer.assign([(topic, 1)])
        records = [consumer.getone() for _ in range(3)]
    assert records[0].headers == (("a", b"b"), ("traceparent", str(first.id).encode()))
    assert tracing.context_of(records[0]) is first
    polls = api.spans[3:]
    assert [(span.name, span.kind, span.links, span.ended) for span in polls] == [
        (f"poll {topic}", "client", links, 1) for links in ([first.id], [second.id], [])
    ]
    assert polls[0].attributes["messaging.batch.message_count"] == 1
    assert polls[1].attributes["messaging.kafka.offset"] == 1


def test_the_context_of_a_forwarded_record_hides_no_span(api: StandIn) -> None:
    """Its headers have fields of the propagator's that the new context lacks."""
    from odradek.client import ProducerRecord

    api.propagate.get_global_textmap = lambda: SimpleNamespace(fields={"traceparent", "baggage"})
    interceptor = tracing.TracingProducerInterceptor()
    sent = interceptor.on_send(
        ProducerRecord("t", b"x", headers=(("baggage", b"a=1"), ("traceparent", b"0")))
    )
    assert dict(sent.headers) == {"baggage": b"a=1", "traceparent": str(api.spans[0].id).encode()}
    interceptor.on_acknowledgement(None, None, sent.headers)
    assert api.spans[0].ended == 1


def test_spans_that_nobody_acknowledges_are_ended(api: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    from odradek.client import ProducerRecord

    monkeypatch.setattr(tracing, "_MOST_OPEN", 2)
    interceptor = tracing.TracingProducerInterceptor()
    for _ in range(3):
        interceptor.on_send(ProducerRecord("t", b"x"))
    assert [span.ended for span in api.spans] == [1, 0, 0]
    interceptor.close()
    assert [span.ended for span in api.spans] == [1, 1, 1]


def test_without_the_package_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry", None)
    with pytest.raises(ConfigError, match="opentelemetry-api"):
        tracing.TracingProducerInterceptor()


def test_with_opentelemetry_itself(face: str, servers: str, topic: str) -> None:
    """Without its SDK spans are not recorded, and carry no context."""
    pytest.importorskip("opentelemetry.trace")
    interceptors = [tracing.TracingProducerInterceptor()]
    with twin(face, Producer, bootstrap_servers=servers, interceptors=interceptors) as producer:
        producer.send(topic, b"x", partition=0)
    more = {"auto_offset_reset": "earliest", "interceptors": [tracing.TracingConsumerInterceptor]}
    with twin(face, Consumer, bootstrap_servers=servers, **more) as consumer:
        consumer.assign([(topic, 0)])
        assert consumer.getone().value == b"x"
