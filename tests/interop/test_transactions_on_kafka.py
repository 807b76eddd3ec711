"""Our transactional clients on Apache Kafka 0.11, 2.2.2, 3.9 and the newest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from client.transaction_cases import *  # noqa: F403
from interop import kafka_peer
from interop.releases import ends

pytestmark = pytest.mark.interop

RELEASES = ["0.11.0.3", "2.2.2", "3.9.1", kafka_peer.NEWEST]


@pytest.fixture(scope="module", params=ends(RELEASES))
def kafka(
    request: pytest.FixtureRequest, kafka_toolchain: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[kafka_peer.RealKafka]:
    """One broker of each release."""
    directory = tmp_path_factory.mktemp(f"kafka-{request.param}")
    with kafka_peer.RealKafka(
        request.param, directory, {"transaction.state.log.num.partitions": "2"}
    ) as running:
        yield running


@pytest.fixture
def servers(kafka: kafka_peer.RealKafka) -> str:
    """Where it listens."""
    return kafka.bootstrap_servers
