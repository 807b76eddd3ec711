"""Requests of readers, from plain values."""

from __future__ import annotations

from odradek.client.core.fetch_requests import FetchAt, fetch_ceiling, fetch_request
from odradek.client.types import TopicPartition
from odradek.wire.fetch_session_handler import FetchSessionHandler
from odradek.wire.messages.fetch import FetchRequest

ID = b"i" * 16


def test_requests_encode_in_every_version_spoken() -> None:
    for version in range(18):
        request = fetch_request(
            FetchSessionHandler(1),
            version,
            [FetchAt(TopicPartition("t", n), n + 1, 3, 1_000) for n in range(2)],
            {"t": ID},
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1_000,
            isolation=1,
            rack="r",
        )
        again = FetchRequest.decode(request.encode(version), version)
        assert [asked.fetch_offset for asked in again.topics[0].partitions] == [1, 2]
        assert again.rack_id == ("r" if version >= 11 else "")


def test_topics_without_ids_are_named() -> None:
    assert fetch_ceiling([ID]) == 17
    assert fetch_ceiling([ID, bytes(16)]) == 12
