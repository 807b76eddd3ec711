# compiled: mypyc
"""Counters under Kafka's metric names, kept as plain integers on the hot path and named only when read.

`Metrics.snapshot()` gives them as `{(type, name, tags): value}`, with the `type`, `name` and tags that
Kafka's JMX beans have (`kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec,topic=orders`). What Kafka
shows as a meter is a count here; a rate is the difference of two snapshots.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from odradek.broker.metrics.applications import Applications
from odradek.broker.metrics.histogram import Histogram, percentile
from odradek.errors.codes import error_name

Tags = tuple[tuple[str, str], ...]
MetricKey = tuple[str, str, Tags]
Samples = Iterator[tuple[MetricKey, float] | None]
"""Metrics and their values; None wherever whoever reads may pause."""


class TopicMetrics:
    """The traffic of one topic, or of all of them."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetch_requests",
        "failed_produce_requests",
        "fetch_message_conversions",
        "messages_in",
        "produce_message_conversions",
        "total_fetch_requests",
        "total_produce_requests",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.bytes_rejected = 0
        self.failed_fetch_requests = 0
        self.failed_produce_requests = 0
        self.fetch_message_conversions = 0
        self.produce_message_conversions = 0
        self.total_fetch_requests = 0
        self.total_produce_requests = 0

    def count_produced(self, partitions: int, messages: int, size: int, converted: int) -> None:
        """Count what logs were asked to append to some partitions, and what of it was appended.

        Args:
            partitions: how many; also those of other brokers, as in Kafka's `appendToLocalLog`.
            messages, size: how many records were appended, in how many bytes.
            converted: how many of these records were converted to the topic's format.
        """
        self.total_produce_requests += partitions
        self.messages_in += messages
        self.bytes_in += size
        if converted:
            self.produce_message_conversions += converted

    def count_refused(self, failed: int, rejected_bytes: int) -> None:
        """Count partitions whose append failed as nobody expects, and bytes that were too many at once."""
        self.failed_produce_requests += failed
        self.bytes_rejected += rejected_bytes


_TOPIC_NAMES = {
    "messages_in": "MessagesInPerSec",
    "bytes_in": "BytesInPerSec",
    "bytes_out": "BytesOutPerSec",
    "bytes_rejected": "BytesRejectedPerSec",
    "failed_fetch_requests": "FailedFetchRequestsPerSec",
    "failed_produce_requests": "FailedProduceRequestsPerSec",
    "fetch_message_conversions": "FetchMessageConversionsPerSec",
    "produce_message_conversions": "ProduceMessageConversionsPerSec",
    "total_fetch_requests": "TotalFetchRequestsPerSec",
    "total_produce_requests": "TotalProduceRequestsPerSec",
}


class RequestMetrics:
    """Requests of one API.

    Attributes:
        requests: how many were taken up.
        request_bytes, response_bytes: their sizes without and with the size prefix.
        max_time_ms: the longest from taking up to having the answer.
        times: these times.
        waited_times, waits: of requests that waited for others (for replicas, for records), the time that
            they took in all, and that for which they waited.
        worked: the rest of these times.
        throttles: for how long clients were throttled, of those that were.
        errors: how often each error was told, by its number.
    """

    __slots__ = (
        "errors",
        "max_time_ms",
        "request_bytes",
        "requests",
        "response_bytes",
        "responses",
        "throttles",
        "times",
        "waited_times",
        "waits",
        "worked",
    )

    def __init__(self) -> None:
        self.requests = 0
        self.responses = 0
        self.request_bytes = 0
        self.response_bytes = 0
        self.max_time_ms = 0.0
        self.times = Histogram()
        self.waited_times = Histogram()
        self.waits = Histogram()
        self.worked = Histogram()
        self.throttles = Histogram()
        self.errors: dict[int, int] = {}

    def observe(self, elapsed_ms: float, response_bytes: int) -> None:
        """An answer is ready."""
        self.responses += 1
        self.response_bytes += response_bytes
        self.times.observe(elapsed_ms)
        if elapsed_ms > self.max_time_ms:
            self.max_time_ms = elapsed_ms

    def observe_wait(self, elapsed_ms: float, waited_ms: float) -> None:
        """An answer is ready, for which others were waited for."""
        self.waited_times.observe(elapsed_ms)
        self.waits.observe(waited_ms)
        self.worked.observe(max(0.0, elapsed_ms - waited_ms))


class VerificationMetrics:
    """The results of asking the transaction coordinator who may write.

    Kafka has it as `kafka.server:type=AddPartitionsToTxnManager`.

    Attributes:
        failures: partitions that were refused.
        total_time_ms, max_time_ms: from asking to the answer, of requests that had to ask.
    """

    __slots__ = ("failures", "max_time_ms", "total_time_ms")

    def __init__(self) -> None:
        self.failures = 0
        self.total_time_ms = 0.0
        self.max_time_ms = 0.0

    def observe(self, elapsed_ms: float, failures: int) -> None:
        """An answer is there."""
        self.failures += failures
        self.total_time_ms += elapsed_ms
        self.max_time_ms = max(self.max_time_ms, elapsed_ms)


class ReplicationMetrics:
    """The traffic between replicas, of all topics together; clients' traffic has none of it.

    Attributes:
        bytes_in, bytes_out: copied from leaders, and given to followers.
        reassignment_bytes_in, reassignment_bytes_out: those of replicas that a reassignment adds.
    """

    __slots__ = ("bytes_in", "bytes_out", "reassignment_bytes_in", "reassignment_bytes_out")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.reassignment_bytes_in = 0
        self.reassignment_bytes_out = 0


_REPLICATION_NAMES = {
    "bytes_in": "ReplicationBytesInPerSec",
    "bytes_out": "ReplicationBytesOutPerSec",
    "reassignment_bytes_in": "ReassignmentBytesInPerSec",
    "reassignment_bytes_out": "ReassignmentBytesOutPerSec",
}


class TopicMetricsTable:
    """`TopicMetrics` by topic, and of all topics together."""

    def __init__(self) -> None:
        self.all = TopicMetrics()
        self._by_topic: dict[str, TopicMetrics] = {}

    def of(self, topic: str) -> TopicMetrics:
        """The metrics of `topic`, made on first use."""
        metrics = self._by_topic.get(topic)
        if metrics is None:
            metrics = self._by_topic[topic] = TopicMetrics()
        return metrics

    def forget(self, topic: str) -> None:
        """A topic was deleted."""
        self._by_topic.pop(topic, None)

    def items(self) -> Iterator[tuple[str, TopicMetrics]]:
        """Topic and metrics."""
        return iter(self._by_topic.items())


FETCH_CONSUMER, FETCH_FOLLOWER = FETCHES = ("FetchConsumer", "FetchFollower")
"""Kafka's names for the two kinds of fetches."""


class RequestMetricsTable:
    """`RequestMetrics` by API name; those of fetches by `FETCHES`."""

    def __init__(self) -> None:
        self._by_api: dict[str, RequestMetrics] = {}

    def of(self, api_name: str) -> RequestMetrics:
        """The metrics of an API, made on first use."""
        metrics = self._by_api.get(api_name)
        if metrics is None:
            metrics = self._by_api[api_name] = RequestMetrics()
        return metrics

    def items(self) -> Iterator[tuple[str, RequestMetrics]]:
        """API name and metrics."""
        return iter(self._by_api.items())


class Metrics:
    """All metrics of a broker.

    Attributes:
        topics: per topic (`kafka.server:type=BrokerTopicMetrics`).
        replication: between brokers (`kafka.server:type=BrokerTopicMetrics`).
        requests: per API (`kafka.network:type=RequestMetrics`).
        applications: by client.
    """

    def __init__(self) -> None:
        self.applications = Applications()
        self.replication = ReplicationMetrics()
        self.topics = TopicMetricsTable()
        self.requests = RequestMetricsTable()
        self._gauges: dict[MetricKey, Callable[[], float]] = {}
        self._sources: list[Callable[[], Samples]] = []

    def gauge(self, kind: str, name: str, read: Callable[[], float], **tags: str) -> None:
        """Register something that is read when somebody looks.

        Args:
            kind: Kafka's bean type with its domain, as in `kafka.server:ReplicaManager`.
            name: Kafka's metric name.
            read: gives the value.
            tags: Kafka's tags.
        """
        self._gauges[(kind, name, tuple(sorted(tags.items())))] = read

    def source(self, read: Callable[[], Samples]) -> None:
        """Register metrics of which nobody knows how many there are before somebody looks.

        A source that takes long yields None now and then, and what it goes through may change meanwhile.
        """
        self._sources.append(read)

    def snapshot(self) -> dict[MetricKey, float]:
        """Every metric's value now."""
        return dict(sample for sample in self.samples() if sample is not None)

    def samples(self) -> Samples:
        """Yield every metric with its value, with pauses."""
        kind = "kafka.server:BrokerTopicMetrics"
        yield from _of_topic(kind, (), self.topics.all)
        for topic, metrics in list(self.topics.items()):
            yield from _of_topic(kind, (("topic", topic),), metrics)
            yield None
        for attribute, name in _REPLICATION_NAMES.items():
            yield (kind, name, ()), getattr(self.replication, attribute)
        kind = "kafka.network:RequestMetrics"
        for api, requests in list(self.requests.items()):
            yield from _of_requests(kind, api, (requests,))
            yield None
        fetches = [requests for api, requests in self.requests.items() if api in FETCHES]
        if fetches:
            # Kafka counts a fetch twice, as one of its kind, and as one of all.
            yield from _of_requests(kind, "Fetch", fetches)
            yield None
        kind = "kafka.server:socket-server-metrics"
        for (software, version), connections in self.applications.connections_by_software().items():
            tags = (("clientSoftwareName", software), ("clientSoftwareVersion", version))
            yield (kind, "connections", tags), connections
        yield None
        for key, read in list(self._gauges.items()):
            yield key, read()
            yield None
        for read_all in list(self._sources):
            yield from read_all()
            yield None


def _of_topic(kind: str, tags: Tags, metrics: TopicMetrics) -> Samples:
    for attribute, name in _TOPIC_NAMES.items():
        yield (kind, name, tags), getattr(metrics, attribute)


def summary_of(kind: str, name: str, tags: Tags, histogram: Histogram) -> Samples:
    """Yield the percentiles, the number and the sum of some times."""
    counts = histogram.recent(time.monotonic())
    yield from _summary(kind, name, tags, counts, 0, sum(histogram.counts), histogram.total_ms)


def _summary(
    kind: str, name: str, tags: Tags, recent: list[int], zeros: int, count: int, total_ms: float
) -> Samples:
    for text, fraction in _PERCENTILES:
        yield (kind, name, (*tags, ("quantile", text))), percentile(recent, fraction, zeros)
    yield (kind, name, (*tags, ("suffix", "Count"))), count
    yield (kind, name, (*tags, ("suffix", "Sum"))), total_ms


def _of_requests(kind: str, api: str, parts: Sequence[RequestMetrics]) -> Samples:
    """Yield what there is of the requests of one kind, or of several together."""
    tags = (("request", api),)
    count, total = (*tags, ("suffix", "Count")), (*tags, ("suffix", "Sum"))
    requests, responses = sum(part.requests for part in parts), sum(part.responses for part in parts)
    yield (kind, "RequestsPerSec", tags), requests
    yield (kind, "TotalTimeMsMax", tags), max(part.max_time_ms for part in parts)
    for name, number, value in (
        ("RequestBytes", requests, sum(part.request_bytes for part in parts)),
        ("ResponseBytes", responses, sum(part.response_bytes for part in parts)),
    ):
        yield (kind, name, count), number
        yield (kind, name, total), value
    errors: dict[int, int] = {}
    for part in parts:
        for code, times in part.errors.items():
            errors[code] = errors.get(code, 0) + times
    for code, times in errors.items():
        yield (kind, "ErrorsPerSec", (*tags, ("error", error_name(code)))), times
    now_s = time.monotonic()
    all_recent = _together([part.times.recent(now_s) for part in parts])
    waits_recent = _together([part.waits.recent(now_s) for part in parts])
    throttles_recent = _together([part.throttles.recent(now_s) for part in parts])
    times_ms, waits_ms = (
        sum(part.times.total_ms for part in parts),
        sum(part.waits.total_ms for part in parts),
    )
    recent = sum(all_recent)
    # Most requests wait for nobody, and only their whole time is counted: it is their local time, too.
    waited = _together([part.waited_times.recent(now_s) for part in parts])
    worked = _together([part.worked.recent(now_s) for part in parts])
    local = [
        max(0, whole - of_waited + rest)
        for whole, of_waited, rest in zip(all_recent, waited, worked, strict=True)
    ]
    for name, counts, total_ms in (
        ("TotalTimeMs", all_recent, times_ms),
        ("LocalTimeMs", local, times_ms - waits_ms),
        ("RemoteTimeMs", waits_recent, waits_ms),
        ("ThrottleTimeMs", throttles_recent, sum(part.throttles.total_ms for part in parts)),
    ):
        yield from _summary(kind, name, tags, counts, max(0, recent - sum(counts)), responses, total_ms)


def _together(counts: Sequence[list[int]]) -> list[int]:
    return [sum(of_bucket) for of_bucket in zip(*counts, strict=True)]


_PERCENTILES = (
    ("0.50", 0.5),
    ("0.75", 0.75),
    ("0.95", 0.95),
    ("0.98", 0.98),
    ("0.99", 0.99),
    ("0.999", 0.999),
)
"""Those that Kafka's beans have, as the exporter writes them."""
