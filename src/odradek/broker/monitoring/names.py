"""The names under which Prometheus gets Kafka's metrics. Pure.

There are three customs, and boards are written for one of them (`Naming`):

- `jmx`: the rules of Prometheus' JMX exporter for Kafka (its example `kafka-2_0_0.yml`), which most boards
  follow: `…PerSec` becomes `…_total`, `…Percent` becomes `…_percent`;
- `reporter`: what Kafka's metrics reporters for Prometheus make (Strimzi's): `…persec_total`;
- `confluent`: Confluent's rules: `…persec`, and no `_total`.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

from odradek.broker.monitoring.declarations import MetricDeclaration, MetricType


class Naming(Enum):
    """A custom of naming; see the module."""

    JMX = "jmx"
    REPORTER = "reporter"
    CONFLUENT = "confluent"


class Family(NamedTuple):
    """A metric family of the exposition.

    Attributes:
        name: without a counter's `_total`.
        type: as OpenMetrics spells it.
        sample: the name of its samples, where it has but one kind of them.
        doc: the help line.
    """

    name: str
    type: str
    sample: str
    doc: str


_NO_NAME = re.compile(r"[^a-zA-Z0-9_]")
_QUOTAS = frozenset(f"kafka.server:{kind}" for kind in ("Produce", "Fetch", "Request", "ControllerMutation"))
_AS_OTHERS_CALL_THEM = {
    # As kafka_exporter has them: Kafka knows no lag.
    "Lag": "kafka_consumergroup_lag",
    "CurrentOffset": "kafka_consumergroup_current_offset",
    "Members": "kafka_consumergroup_members",
    # As `process` collectors of all languages have them.
    "ResidentMemoryBytes": "process_resident_memory_bytes",
    "CpuSeconds": "process_cpu_seconds",
    "OpenFiles": "process_open_fds",
    "StartTimeSeconds": "process_start_time_seconds",
}


def family(declared: MetricDeclaration, naming: Naming = Naming.JMX) -> Family:
    """Return the family in which a metric is shown."""
    counts = declared.type is MetricType.COUNTER
    name = _name(declared, naming)
    if counts and naming is Naming.CONFLUENT and declared.name.endswith("PerSec"):
        return Family(name, "unknown", name, declared.doc)
    return Family(name, declared.type.value, f"{name}_total" if counts else name, declared.doc)


def _name(declared: MetricDeclaration, naming: Naming) -> str:
    domain, _, bean_type = declared.kind.partition(":")
    name = declared.name
    if declared.kind in ("odradek.server:Process", "odradek.server:ConsumerGroup"):
        return _AS_OTHERS_CALL_THEM[name]
    if declared.kind in _QUOTAS:
        return f"kafka_server_quota_{safe(name)}"
    if naming is Naming.JMX:
        name = re.sub("PerSec$", "", name)
        name = re.sub("-?[Pp]ercent$", "_percent", name)
    if bean_type == "socket-server-metrics" and naming is Naming.CONFLUENT:
        bean_type = "socketservermetrics"
    return safe(f"{domain}_{bean_type}_{name}").lower().removesuffix("_total")


def label(tag: str) -> str:
    """Return the label of a tag."""
    return "clientId" if tag == "client-id" else safe(tag)


def constant_labels(declared: MetricDeclaration) -> str:
    """Return what all samples of a metric are labelled with, as text; quotas share a name."""
    if declared.kind in _QUOTAS:
        return f'resource="{declared.kind.partition(":")[2]}"'
    return ""


def safe(text: str) -> str:
    """Return a name with nothing in it that Prometheus does not take."""
    return _NO_NAME.sub("_", text)
