"""The sections of the benchmark, in the order of RESULTS.md; README.md shows how to add one."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.results import Outcome


@dataclass(frozen=True)
class Context:
    """What the caller of a run wants.

    `rounds` and `seconds` (of one measurement) are for sections that measure by time; a section that cannot
    keep to them at least does less with `quick`. `say` prints one line of progress.
    """

    rounds: int
    seconds: float
    quick: bool
    say: Callable[[str], None]


@dataclass(frozen=True)
class Section:
    """`module` has `run(name, context) -> Outcome`, imported only when the section runs.

    A section that is not `in_default` runs only when it is named.
    """

    name: str
    module: str
    about: str
    in_default: bool = True

    def run(self, context: Context) -> Outcome:
        """Measure."""
        outcome: Outcome = importlib.import_module(self.module).run(self.name, context)
        return outcome


SECTIONS = [
    Section("ready", "benchmarks.broker_ready", "time to the first answer, memory of an idle broker"),
    Section("small", "benchmarks.broker_load", "one record of 100 B per request"),
    Section("produce", "benchmarks.broker_load", "batches of 16 KiB"),
    Section("compressed", "benchmarks.broker_load", "the same batches in every codec"),
    Section("large", "benchmarks.broker_load", "batches of 512 KiB and 1 MiB"),
    Section("partitions", "benchmarks.broker_load", "50 partitions in each request"),
    Section("fetch", "benchmarks.broker_load", "fetches of 1 MiB, 16 KiB and 1,000 B"),
    Section("latency", "benchmarks.broker_load", "one record at a time, produced and fetched"),
    Section("connections", "benchmarks.broker_load", "5,000 connections"),
    Section("librdkafka", "benchmarks.broker_librdkafka", "confluent-kafka as a user's client"),
    Section(
        "transactions", "benchmarks.transactions_section", "records in transactions, and idempotent ones"
    ),
    Section("cluster", "benchmarks.cluster_section", "three brokers, three replicas, acks=all", False),
    Section("cluster-bursts", "benchmarks.cluster_bursts", "librdkafka's defaults, three replicas", False),
    Section("cluster-deaths", "benchmarks.cluster_deaths", "a leader that is killed, or paused", False),
    Section(
        "cluster-controller", "benchmarks.cluster_controller", "a controller of 10,000 partitions dies", False
    ),
    Section("cluster-restart", "benchmarks.cluster_restart", "a rolling restart under load", False),
    Section("cluster-size", "benchmarks.cluster_size", "memory of brokers with 2,000 replicas", False),
    Section("workers", "benchmarks.workers_section", "two workers beside one, on one machine", False),
    Section("security-authorizer", "benchmarks.security_section", "what 10,000 ACLs cost", False),
    Section("security-storm", "benchmarks.security_storm", "handshakes and failing logins in storms", False),
    Section("security-tls", "benchmarks.security_tls", "TLS 1.3 beside plain connections", False),
    Section(
        "security-small", "benchmarks.security_small", "small requests over SASL_SSL beside Kafka", False
    ),
    Section(
        "security-plain", "benchmarks.security_plain", "plain connections, before security and now", False
    ),
    Section("convert", "benchmarks.records_convert", "records of today for clients of 0.10, and back"),
    Section("client", "benchmarks.client_section", "Producer and Consumer beside other Python clients"),
    Section("spark-read", "benchmarks.spark_section", "a topic read by Spark, beside Spark's own connector"),
    Section("spark-recent", "benchmarks.spark_section", "the last 1 % of a topic by time"),
    Section("spark-map", "benchmarks.spark_section", "the same through a Python function"),
    Section("spark-write", "benchmarks.spark_section", "a topic written by Spark"),
    Section("spark-exactly-once", "benchmarks.spark_section", "the same written exactly once"),
    Section("spark-json", "benchmarks.spark_typed", "JSON to typed columns, beside from_json"),
    Section("spark-avro", "benchmarks.spark_typed", "Avro of a registry to typed columns, beside from_avro"),
    Section("spark-first", "benchmarks.spark_sessions", "the first query of a session"),
    Section("spark-wide", "benchmarks.spark_sessions", "10,000 partitions: time, and memory at most", False),
    Section("spark-latency", "benchmarks.spark_section", "topic to topic in micro-batches"),
    Section("spark-latency-10k", "benchmarks.spark_section", "the same with 10,000 records a second"),
]


def named(names: str) -> list[Section]:
    """The sections of a comma-separated list, each once, in the order of the list.

    Args:
        names: a section's name, or the first words of several, up to a hyphen: `security` is all of
            `security-…`. A section that is called exactly so comes alone: `cluster` without `cluster-size`.

    Raises:
        ValueError: there is neither.
    """
    known = {section.name: section for section in SECTIONS}
    chosen: dict[str, Section] = {}
    for name in filter(None, (part.strip() for part in names.split(","))):
        group = [name] if name in known else [one for one in known if one.startswith(f"{name}-")]
        if not group:
            raise ValueError(f"no section {name!r} or {name}-…; there are: {', '.join(known)}")
        chosen |= {one: known[one] for one in group}
    return list(chosen.values())
