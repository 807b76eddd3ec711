"""The applications of a broker as `GET /applications` tells them: plain data for JSON, in steps.

docs/metrics.md says what each field means.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterable, Mapping
from typing import Any

from odradek.broker.metrics.applications import (
    MOST_APPLICATIONS,
    WINDOW_MS,
    Application,
    ApplicationIdentity,
    Applications,
    TopicUse,
)
from odradek.broker.metrics.pushed_metrics import ClientSeries, PushedMetrics, PushingClient
from odradek.errors.codes import error_name
from odradek.wire.api import ApiKey

Report = dict[str, Any]


def application_report(
    applications: Applications, pushed: PushedMetrics, broker_id: int, now_ms: int
) -> Generator[None, None, Report]:
    """Tell all applications, those that were here last first.

    Args:
        applications: the broker's.
        pushed: the metrics that clients have pushed.
        broker_id: whose.
        now_ms: the time, wall clock.
    """
    told: list[Report] = []
    instances: dict[Hashable, list[Report]] = {}
    for known in pushed.clients(now_ms):
        instances.setdefault(_key(known.client), []).append(_instance(known))
        yield
    for application in sorted(applications, key=lambda known: -known.last_ms):
        report = _application(application, now_ms)
        report["client_metrics"] = instances.get(application.identity.key, [])
        told.append(report)
        yield
    others = applications.others
    return {
        "broker_id": broker_id,
        "now_ms": now_ms,
        "window_ms": WINDOW_MS,
        "applications": told,
        "left_out": {
            "most_applications": MOST_APPLICATIONS,
            "forgotten": applications.forgotten,
            "connections": others.connections,
            "requests": others.requests,
            "produced": _topic_use(others.other_produced, now_ms),
            "consumed": _topic_use(others.other_consumed, now_ms),
        },
    }


def _key(client: PushingClient) -> Hashable:
    software = (client.software_name, client.software_version)
    return ApplicationIdentity(client.client_id, software, client.principal, client.host).key


def _instance(known: ClientSeries) -> Report:
    """Tell the metrics of one client instance as a whole; those with attributes are in `/metrics`."""
    metrics = sorted(
        (name, series.value) for (name, attributes), series in known.series.items() if not attributes
    )
    return {
        "client_instance_id": known.client.instance_id,
        "pushes": known.pushes,
        "last_push_ms": known.last_ms,
        "metrics": dict(metrics),
        "others": len(known.series) - len(metrics),
        "left_out": known.left_out,
    }


def _application(application: Application, now_ms: int) -> Report:
    identity = application.identity
    groups_by_topic: dict[str, list[str]] = {}
    for group, topics in sorted(application.groups.items()):
        for topic in topics:
            groups_by_topic.setdefault(topic, []).append(group)
    consumed = _topics(application.consumed, now_ms)
    for use in consumed:
        use["groups"] = groups_by_topic.get(use["topic"], [])
    return {
        "client_id": identity.client_id,
        "software_name": identity.software_name or None,
        "software_version": identity.software_version or None,
        "principal": identity.principal,
        "host": identity.host,
        "is_broker": identity.is_broker,
        "connections": application.connections,
        "first_seen_ms": application.first_ms,
        "last_seen_ms": application.last_ms,
        "requests": application.requests,
        "produced": _topics(application.produced, now_ms),
        "consumed": consumed,
        "other_topics": {
            "produced": _topic_use(application.other_produced, now_ms),
            "consumed": _topic_use(application.other_consumed, now_ms),
        },
        "groups": [
            {"group": group, "topics": sorted(topics)} for group, topics in sorted(application.groups.items())
        ],
        "errors": _errors(application.errors.items()),
    }


def _topics(uses: Mapping[str, TopicUse], now_ms: int) -> list[Report]:
    return [{"topic": topic, **_measures(use, now_ms)} for topic, use in sorted(uses.items())]


def _topic_use(use: TopicUse | None, now_ms: int) -> Report | None:
    return None if use is None else _measures(use, now_ms)


def _measures(use: TopicUse, now_ms: int) -> Report:
    records_per_s, bytes_per_s = use.rates(now_ms)
    return {
        "records": use.records,
        "bytes": use.size,
        "records_per_s": round(records_per_s, 3),
        "bytes_per_s": round(bytes_per_s, 3),
        "last_ms": use.last_ms,
    }


def _errors(errors: Iterable[tuple[tuple[int, int], int]]) -> list[Report]:
    return [
        {"request": ApiKey(api_key).api_name, "error": error_name(code), "count": count}
        for (api_key, code), count in sorted(errors)
    ]
