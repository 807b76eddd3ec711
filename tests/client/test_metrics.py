"""A client's metrics under Kafka's names, and its statistics under librdkafka's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from odradek.client import Consumer, Producer, TopicPartition
from odradek.client.config import ConsumerConfig, build
from odradek.client.core.client_metrics import ClientMetrics
from odradek.client.core.traffic import Traffic
from odradek.client.errors import ConfigError
from waiting import until

from .consuming import fill, metric
from .twins import FACES, twin


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_producers_metrics(face: str, servers: str, topic: str) -> None:
    with twin(face, Producer, bootstrap_servers=servers, client_id="writer", linger_ms=0) as producer:
        for _ in range(5):
            producer.send(topic, b"x" * 100, partition=0)
        producer.flush()
        metrics = producer.metrics()
        assert {(name.group, name.tags) for name in metrics} == {
            ("producer-metrics", (("client-id", "writer"),))
        }
        assert metric(metrics, "record-send-total") == 5
        assert metric(metrics, "record-send-rate") > 0
        assert metric(metrics, "record-error-total") == metric(metrics, "record-error-rate") == 0
        assert metric(metrics, "request-total") >= metric(metrics, "response-total") > 1
        assert metric(metrics, "outgoing-byte-total") > 500
        assert metric(metrics, "incoming-byte-total") > 0
        assert metric(metrics, "connection-count") >= 1
        assert metric(metrics, "connection-close-total") >= 0


def test_a_consumers_metrics(face: str, servers: str, topic: str) -> None:
    fill(servers, topic, 30, 3)
    with twin(face, Consumer, bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 1)])
        consumer.getmany(timeout_ms=60_000, max_records=4)
        metrics = consumer.metrics()
        assert metric(metrics, "records-consumed-total") == 4
        assert consumer.poll_arrow(60_000, max_rows=2).num_rows == 2
        consumer.getone()
        assert metric(consumer.metrics(), "records-consumed-total") == 7
        assert metric(metrics, "records-lag", topic=topic, partition="1") == 6
        assert metric(metrics, "records-lag-max") == 6
        assert metric(metrics, "assigned-partitions") == 1
        groups = {name.group for name in metrics}
        assert groups == {
            "consumer-metrics",
            "consumer-fetch-manager-metrics",
            "consumer-coordinator-metrics",
        }


def test_a_rate_goes_back_to_a_look_of_30_seconds_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000.0]
    monkeypatch.setattr("odradek.client.core.client_metrics.time.monotonic", lambda: now[0])
    metrics = ClientMetrics("producer", "x")
    total = metrics.name("record-send-total")

    def rate(at: float, sent: float) -> float:
        now[0] = 1_000.0 + at
        return metric(metrics.values({}, {total: sent}, Traffic()), "record-send-rate")

    assert rate(10, 100) == 10
    assert rate(20, 100) == 5
    assert rate(45, 550) == 450 / 35, "since the look at 10 s"
    assert rate(50, 550) == 450 / 30, "since the look at 20 s"
    assert rate(200, 550) == 0, "since the look at 50 s"


def test_threads_that_ask_at_once_get_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    amid: list[Any] = []

    class Moment(float):
        """Lets another thread go first, once, where the oldest looks are being left out."""

        def __sub__(self, other: float) -> float:
            if amid:
                amid.pop()()
            return float(self) - other

    now = [Moment(1_000)]
    monkeypatch.setattr("odradek.client.core.client_metrics.time.monotonic", lambda: now[0])
    metrics = ClientMetrics("producer", "x")
    total = metrics.name("record-send-total")

    def rate(sent: float) -> float:
        return metric(metrics.values({}, {total: sent}, Traffic()), "record-send-rate")

    now[0] = Moment(1_010)
    assert rate(100) == 10
    now[0] = Moment(1_050)
    others: list[float] = []
    amid.append(lambda: others.append(rate(500)))
    assert [rate(500), *others] == [10, 10]


def test_a_producers_statistics(face: str, servers: str, topic: str) -> None:
    told: list[dict[str, Any]] = []
    configs = {"stats_cb": lambda text: told.append(json.loads(text)), "statistics_interval_ms": 5}
    with twin(
        face, Producer, bootstrap_servers=servers, linger_ms=600_000, client_id="w", **configs
    ) as producer:
        producer.send(topic, b"x", partition=2)
        until(lambda: (producer.turn(), told and told[-1]["msg_cnt"])[1], what="a waiting record is told")
        fields = told[-1]
        assert (fields["type"], fields["client_id"]) == ("producer", "w")
        assert fields["tx"] > 0 < fields["rxbytes"]
        assert fields["topics"][topic]["partitions"]["2"]["msgq_cnt"] == 1
        assert [broker["state"] for broker in fields["brokers"].values()] == ["UP"]
        producer.flush()
        until(lambda: (producer.turn(), told[-1]["txmsgs"])[1], what="the record is told as sent")
        assert told[-1]["msg_cnt"] == 0 <= told[-1]["eos"]["producer_id"]


def test_a_consumers_statistics(face: str, servers: str, topic: str, group: str) -> None:
    fill(servers, topic, 30, 3)
    told: list[dict[str, Any]] = []
    with twin(
        face,
        Consumer,
        {"statistics.interval.ms": 5, "stats_cb": lambda text: told.append(json.loads(text))},
        bootstrap_servers=servers,
        group_id=group,
        auto_offset_reset="earliest",
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.getmany(timeout_ms=60_000, max_records=4)
        before = len(told)
        until(lambda: (consumer.turn(), len(told) > before + 1)[1], what="two more")
        fields = told[-1]
        assert fields["rxmsgs"] == 4 and fields["cgrp"]["assignment_size"] == 1
        partition = fields["topics"][topic]["partitions"]["0"]
        assert (partition["app_offset"], partition["hi_offset"], partition["consumer_lag"]) == (4, 10, 6)
        assert partition["stored_offset"] == -1001


def test_a_callback_that_raises_is_logged(servers: str, caplog: pytest.LogCaptureFixture) -> None:
    def wrong(text: str) -> None:
        raise ValueError(text)

    with Producer(bootstrap_servers=servers, stats_cb=wrong, statistics_interval_ms=1):
        until(lambda: caplog.text.count("stats_cb raised") > 1, what="it is called again")
    with pytest.raises(ConfigError, match=r"stats_cb"):
        build(ConsumerConfig, {"bootstrap.servers": "a:1", "stats_cb": 5})
