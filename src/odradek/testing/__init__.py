"""A broker inside a test: `with odradek.testing.Broker() as broker: broker.bootstrap_servers`; a cluster of
them: `with odradek.testing.Cluster(3) as cluster`, or, each in a process of its own, `ProcessCluster(3)`; a
schema registry: `SchemaRegistry()`. Faults are sentences of a broker or a cluster: docs/testing.md.
Programs of other languages have `odradek mock`.

pytest finds the fixture `odradek_broker` by itself once odradek is installed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.broker.kafka_versions.release import names as kafka_versions
    from odradek.testing.broker import Broker
    from odradek.testing.clock.manual_clock import ManualClock
    from odradek.testing.cluster import Cluster
    from odradek.testing.faults.checks import FaultRefusedError
    from odradek.testing.faults.fault import Fault
    from odradek.testing.faults.set_fault import UnmetFaultError
    from odradek.testing.looking.records import StoredRecord
    from odradek.testing.looking.requests import RecordedRequest
    from odradek.testing.looking.waiting import WaitTimeoutError
    from odradek.testing.process_cluster import ProcessCluster
    from odradek.testing.schema_registry import SchemaRegistry
    from odradek.testing.security import Security
    from odradek.testing.unittest_case import AsyncBrokerTestCase, BrokerTestCase

__all__ = [
    "AsyncBrokerTestCase",
    "Broker",
    "BrokerTestCase",
    "Cluster",
    "Fault",
    "FaultRefusedError",
    "ManualClock",
    "ProcessCluster",
    "RecordedRequest",
    "SchemaRegistry",
    "Security",
    "StoredRecord",
    "UnmetFaultError",
    "WaitTimeoutError",
    "kafka_versions",
]

_PLACES = {
    "AsyncBrokerTestCase": "odradek.testing.unittest_case.AsyncBrokerTestCase",
    "Broker": "odradek.testing.broker.Broker",
    "BrokerTestCase": "odradek.testing.unittest_case.BrokerTestCase",
    "Cluster": "odradek.testing.cluster.Cluster",
    "Fault": "odradek.testing.faults.fault.Fault",
    "FaultRefusedError": "odradek.testing.faults.checks.FaultRefusedError",
    "ManualClock": "odradek.testing.clock.manual_clock.ManualClock",
    "ProcessCluster": "odradek.testing.process_cluster.ProcessCluster",
    "RecordedRequest": "odradek.testing.looking.requests.RecordedRequest",
    "SchemaRegistry": "odradek.testing.schema_registry.SchemaRegistry",
    "Security": "odradek.testing.security.Security",
    "StoredRecord": "odradek.testing.looking.records.StoredRecord",
    "UnmetFaultError": "odradek.testing.faults.set_fault.UnmetFaultError",
    "WaitTimeoutError": "odradek.testing.looking.waiting.WaitTimeoutError",
    "kafka_versions": "odradek.broker.kafka_versions.release.names",
}


def __getattr__(name: str) -> Any:
    # The pytest plugin lives in this package and is imported in every test run: keep the broker out of it.
    module, _, attribute = _PLACES.get(name, "").rpartition(".")
    if not module:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), attribute)
