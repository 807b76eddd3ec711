"""A client that comes by `control.plane.listener.name`: Kafka serves it, and so do we."""

from __future__ import annotations

from pathlib import Path

import pytest

from interop import kafka_peer
from odradek import Consumer, Producer

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("kafka_toolchain")]


@pytest.mark.parametrize("version", ["3.9.1", "2.2.2"])
def test_kafka_serves_a_client_at_the_control_plane_listener(version: str, tmp_path: Path) -> None:
    """Ours: tests/testing/test_control_plane.py."""
    (port,) = kafka_peer.free_ports(1)
    settings = {
        "listeners": f"CONTROL://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROL:PLAINTEXT",
        "control.plane.listener.name": "CONTROL",
    }
    with kafka_peer.RealKafka(version, tmp_path, settings):
        with Producer(bootstrap_servers=f"127.0.0.1:{port}", acks="all") as producer:
            producer.send("clicks", b"by the back door").result(60)
        with Consumer(
            "clicks", bootstrap_servers=f"127.0.0.1:{port}", auto_offset_reset="earliest", group_id="g"
        ) as consumer:
            assert next(iter(consumer)).value == b"by the back door"
