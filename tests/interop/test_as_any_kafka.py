"""Be any Kafka: what Kafka's own tool and clients of today find where a broker of ours is another release."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop import kafka_peer
from interop.kafka_tools import KafkaTools
from odradek.testing import Broker

pytestmark = pytest.mark.interop

LISTING = (Path(__file__).parents[1] / "golden" / "broker-api-versions-2.2.txt").read_text(encoding="utf-8")
"""What the tool of 2.2 prints of a real 2.2.0."""


@pytest.fixture(scope="module")
def as_2_2() -> Iterator[Broker]:
    with Broker(kafka_version="2.2") as broker:
        yield broker


def expected(host_and_port: str) -> str:
    """The listing of a real broker."""
    return LISTING.replace("localhost:9092", host_and_port)


def test_kafkas_own_tool_prints_what_it_prints_of_a_real_2_2(kafka_toolchain: None, as_2_2: Broker) -> None:
    with KafkaTools("2.2.2") as tools:
        outcome = tools.run("broker-api-versions", "--bootstrap-server", as_2_2.bootstrap_servers)
    assert outcome.status == 0, outcome.err
    assert outcome.out == expected(as_2_2.bootstrap_servers)


def test_kafkas_tool_of_today_agrees(kafka_toolchain: None, as_2_2: Broker) -> None:
    with KafkaTools(kafka_peer.NEWEST) as tools:
        outcome = tools.run("broker-api-versions", "--bootstrap-server", as_2_2.bootstrap_servers)
    assert outcome.status == 0, outcome.err

    def versions(text: str) -> dict[int, str]:
        return {int(key): span for key, span in re.findall(r"\t\w+\((\d+)\): ([0-9to ]+?)(?: \[|,|\n)", text)}

    assert versions(outcome.out) == versions(expected(""))
