"""A broker inside a test: `with odradek.testing.Broker() as broker: broker.bootstrap_servers`; a cluster of
them: `with odradek.testing.Cluster(3) as cluster`, or, each in a process of its own, `ProcessCluster(3)`; a
schema registry: `SchemaRegistry()`.

pytest finds the fixture `odradek_broker` by itself once odradek is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.broker.kafka_versions.release import names as kafka_versions
    from odradek.testing.broker import Broker
    from odradek.testing.cluster import Cluster
    from odradek.testing.process_cluster import ProcessCluster
    from odradek.testing.schema_registry import SchemaRegistry
    from odradek.testing.security import Security

__all__ = ["Broker", "Cluster", "ProcessCluster", "SchemaRegistry", "Security", "kafka_versions"]


def __getattr__(name: str) -> Any:
    # The pytest plugin lives in this package and is imported in every test run: keep the broker out of it.
    if name == "Broker":
        from odradek.testing.broker import Broker

        return Broker
    if name == "Cluster":
        from odradek.testing.cluster import Cluster

        return Cluster
    if name == "Security":
        from odradek.testing.security import Security

        return Security
    if name == "ProcessCluster":
        from odradek.testing.process_cluster import ProcessCluster

        return ProcessCluster
    if name == "SchemaRegistry":
        from odradek.testing.schema_registry import SchemaRegistry

        return SchemaRegistry
    if name == "kafka_versions":
        from odradek.broker.kafka_versions.release import names

        return names
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
