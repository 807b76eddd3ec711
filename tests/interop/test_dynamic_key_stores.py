"""Kafka's `kafka-configs` changes a listener's key store, its password and its type while our broker runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.network.test_dynamic_key_stores import HOSTS, SECRET, is_shown, secured, shown, store
from interop import kafka_peer
from interop.kafka_tools import KafkaTools, Outcome
from interop.test_sasl import write_properties
from interop.test_tls import PASSWORD
from odradek.testing import Broker

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("kafka_toolchain")]


@pytest.mark.parametrize("version", [kafka_peer.NEWEST, "3.9.1", "2.2.2"])
def test_kafkas_tool_changes_a_key_store(version: str, tmp_path: Path) -> None:
    security, authority = secured(tmp_path, **SECRET)
    second = authority.issue("broker", hosts=HOSTS)
    path = second.write_pkcs12(tmp_path / "second.p12", "second-secret")
    client = write_properties(
        tmp_path / "client.properties",
        {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": str(
                authority.write_pkcs12_trust_store(tmp_path / "trust.p12", PASSWORD)
            ),
            "ssl.truststore.password": PASSWORD,
        },
    )
    with Broker(security=security) as broker, KafkaTools(version) as kafka:
        first = shown(broker)

        def alter(*words: str) -> Outcome:
            at = ("--bootstrap-server", broker.bootstrap_servers, "--command-config", client)
            return kafka.run("configs", *at, "--entity-type", "brokers", "--entity-name", "0", *words)

        def add(password: str) -> Outcome:
            configs = ",".join(f"{name}={value}" for name, value in store("ssl", path, password).items())
            return alter("--alter", "--add-config", configs)

        refused = add("other-secret")
        assert refused.status != 0
        assert "second.p12 cannot be read as PKCS#12" in refused.out + refused.err
        assert shown(broker) == first
        done = add("second-secret")
        assert done.status == 0, done
        assert "Completed updating config for broker" in done.out
        assert is_shown(broker, second)
        described = alter("--describe")
        assert "second-secret" not in described.out
        assert f"listener.name.ssl.ssl.keystore.location={path}" in described.out
