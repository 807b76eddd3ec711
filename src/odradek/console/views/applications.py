"""The table of applications, put together from what each broker tells of those that it has seen.

The form is that of `GET /applications` on the metrics port of odradek's brokers (docs/metrics.md). A broker
tells of its own connections alone, so that an application of a cluster is the sum of its parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

ORDERS = ("last_seen", "produced", "consumed", "errors")
#: No name of a topic: it has a blank.
OTHER_TOPICS = "other topics"


@dataclass
class TopicFlow:
    """Records of a topic that an application produces or consumes, by all brokers; or of `OTHER_TOPICS`."""

    records_per_s: float = 0.0
    groups: set[str] = field(default_factory=set)


@dataclass
class ApplicationRow:
    """An application: all connections with the same client id, software, principal and address.

    Attributes:
        software: name and version; '' for a client that tells none.
        last_seen_ms: milliseconds since 1970.
        errors: (request, error) → how often it was told.
    """

    client_id: str
    software: str
    principal: str
    host: str
    is_broker: bool
    connections: int = 0
    last_seen_ms: int = 0
    produced: dict[str, TopicFlow] = field(default_factory=dict)
    consumed: dict[str, TopicFlow] = field(default_factory=dict)
    groups: set[str] = field(default_factory=set)
    errors: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def produced_per_s(self) -> float:
        """The records a second that it produces."""
        return sum(flow.records_per_s for flow in self.produced.values())

    @property
    def consumed_per_s(self) -> float:
        """The records a second that it consumes."""
        return sum(flow.records_per_s for flow in self.consumed.values())

    @property
    def error_count(self) -> int:
        """The number of errors that it was told."""
        return self.errors.total()


def application_rows(reports: Iterable[Mapping[str, Any]]) -> list[ApplicationRow]:
    """Return a row for each application.

    Args:
        reports: the answer of each broker.

    Raises:
        ValueError: an answer is of another form.
    """
    rows: dict[tuple[Any, ...], ApplicationRow] = {}
    try:
        for report in reports:
            for told in report["applications"]:
                _add(rows, told)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the answer is of another form: {error!r}") from error
    return list(rows.values())


def has_forgotten(report: Mapping[str, Any]) -> bool:
    """Return whether a broker has seen more applications than it remembers."""
    left_out = report.get("left_out")
    return isinstance(left_out, Mapping) and bool(left_out.get("forgotten"))


def _add(rows: dict[tuple[Any, ...], ApplicationRow], told: Mapping[str, Any]) -> None:
    software = " ".join(str(word) for word in (told["software_name"], told["software_version"]) if word)
    identity = (str(told["client_id"]), software, str(told["principal"]), str(told["host"]))
    row = rows.setdefault(identity, ApplicationRow(*identity, bool(told["is_broker"])))
    row.connections += int(told["connections"])
    row.last_seen_ms = max(row.last_seen_ms, int(told["last_seen_ms"]))
    for flows, uses in ((row.produced, told["produced"]), (row.consumed, told["consumed"])):
        for use in uses:
            _flow(flows, str(use["topic"]), use)
    others = told["other_topics"]
    for flows, use in ((row.produced, others["produced"]), (row.consumed, others["consumed"])):
        if use is not None:
            _flow(flows, OTHER_TOPICS, use)
    row.groups |= {str(group["group"]) for group in told["groups"]}
    for error in told["errors"]:
        row.errors[str(error["request"]), str(error["error"])] += int(error["count"])


def _flow(flows: dict[str, TopicFlow], topic: str, use: Mapping[str, Any]) -> None:
    flow = flows.setdefault(topic, TopicFlow())
    flow.records_per_s += float(use["records_per_s"])
    flow.groups |= set(map(str, use.get("groups", ())))


def chosen_applications(
    rows: Iterable[ApplicationRow], *, text: str, brokers: bool, order: str
) -> list[ApplicationRow]:
    """Return the applications that a filter lets through, in an order.

    Args:
        rows: all.
        text: a part of the client id, software, principal, address, a topic or a group.
        brokers: whether the connections of brokers are wanted, too.
        order: one of `ORDERS`; 'last_seen' for any other.
    """
    chosen = [row for row in rows if (brokers or not row.is_broker) and text.lower() in _text_of(row).lower()]
    chosen.sort(key=lambda row: (-row.last_seen_ms, row.client_id))
    if order == "produced":
        chosen.sort(key=lambda row: -row.produced_per_s)
    elif order == "consumed":
        chosen.sort(key=lambda row: -row.consumed_per_s)
    elif order == "errors":
        chosen.sort(key=lambda row: -row.error_count)
    return chosen


def _text_of(row: ApplicationRow) -> str:
    words = (row.client_id, row.software, row.principal, row.host, *row.produced, *row.consumed, *row.groups)
    return "\n".join(words)
