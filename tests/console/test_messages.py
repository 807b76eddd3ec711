"""The page of messages, on a broker: from where, which, and how they are shown."""

from __future__ import annotations

import asyncio
import html
import re
import threading
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from odradek import Producer
from odradek.client.types import ConsumerRecord
from odradek.console import decoding
from odradek.console.views.messages import (
    MOST_SIGNS,
    MessageRow,
    decode,
    message_row,
    parse_time,
    time_text,
)
from odradek.testing import Broker
from waiting import WITHIN_S

from .conftest import Visitor

OFFSET = re.compile(r'<th scope="row" class="number">(\d+)</th>')
BEGIN_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def topic(broker: Broker) -> Iterator[str]:
    """Ten records a second apart, the even ones in partition 0; one that was aborted in partition 1."""
    broker.create_topic("read", 2)
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for n in range(10):
            value = f'{{"n":{n},"who":"<b>"}}'.encode()
            headers = [("trace", b"abc" if n == 4 else b"x")]
            producer.send(
                "read",
                value,
                b"key-%d" % n,
                partition=n % 2,
                timestamp_ms=BEGIN_MS + n * 1000,
                headers=headers,
            ).result(WITHIN_S)
    with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="t") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("read", b"\x00\xff", partition=1).result(WITHIN_S)
        producer.abort_transaction()
    yield "read"


def offsets(visitor: Visitor, topic: str, **query: str) -> list[int]:
    page = visitor.get(f"/topics/{topic}/messages?{urlencode(query)}")
    assert "Reading ended" not in page
    return [int(offset) for offset in OFFSET.findall(page)]


def test_from_where(visitor: Visitor, topic: str) -> None:
    assert offsets(visitor, topic, partition="0") == [4, 3, 2, 1, 0]
    assert offsets(visitor, topic, partition="0", start="earliest") == [0, 1, 2, 3, 4]
    assert offsets(visitor, topic, partition="0", start="offset", offset="3") == [3, 4]
    assert offsets(visitor, topic, partition="0", start="offset", offset="99") == []
    assert offsets(visitor, topic, partition="0", start="time", time="2023-11-14 22:13:25") == [3, 4]
    assert len(offsets(visitor, topic)) == 11


def test_what_was_aborted_is_shown_only_if_wanted(visitor: Visitor, topic: str) -> None:
    assert offsets(visitor, topic, partition="1", start="offset", offset="4") == [4, 5]
    committed = {"partition": "1", "start": "offset", "offset": "4", "isolation": "read_committed"}
    assert offsets(visitor, topic, **committed) == [4]


def test_filters(visitor: Visitor, topic: str) -> None:
    assert offsets(visitor, topic, key="key-4") == [2]
    assert offsets(visitor, topic, value='"n":6') == [3]
    assert offsets(visitor, topic, header="abc") == [2]
    assert offsets(visitor, topic, key="key-4", value='"n":6') == []


def test_records_are_shown_decoded_and_escaped(visitor: Visitor, topic: str) -> None:
    page = visitor.get(f"/topics/{topic}/messages?start=earliest&partition=0")
    assert '"who": "<b>"' in html.unescape(page)
    assert "<b>" not in page
    assert "2023-11-14 22:13:20.000" in page
    assert "odradek console-consumer" in page
    assert "00 ff" in visitor.get(f"/topics/{topic}/messages?partition=1")


@pytest.mark.parametrize(
    ("query", "status", "told"),
    [
        ("start=offset&offset=x", 400, "not a whole number"),
        ("start=time&time=noon", 400, "is not like 2026-11-30"),
        ("partition=7", 404, "has no partition 7"),
    ],
)
def test_what_cannot_be_shown_is_told(
    visitor: Visitor, topic: str, query: str, status: int, told: str
) -> None:
    assert told in visitor.get(f"/topics/{topic}/messages?{query}", status)


def test_decoding() -> None:
    kinds = [decode(data).kind for data in (None, b"", b"hello\n", b"[1]", b"{broken", b"\x00", b"\xff")]
    assert kinds == ["null", "text", "text", "json", "text", "hex", "hex"]
    long = decode(b"x" * (MOST_SIGNS + 1))
    assert (len(long.text), long.is_cut, long.size) == (MOST_SIGNS, True, MOST_SIGNS + 1)
    binary = decode(b"\xff" * MOST_SIGNS)
    assert (len(binary.text), binary.is_cut, binary.size) == (MOST_SIGNS, True, MOST_SIGNS)
    assert decode(b"\xff\x00").text == "ff 00"
    assert parse_time("1970-01-01T00:00:01") == parse_time("1970-01-01 01:00:01+01:00") == 1000
    assert (time_text(-1), time_text(2**62)) == ("none", f"{2**62} ms")


def test_decoding_leaves_the_event_loop_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a registry, too: values may be large."""
    threads = []

    def message_row_seen(record: ConsumerRecord[bytes, bytes]) -> MessageRow:
        threads.append(threading.current_thread())
        return message_row(record)

    monkeypatch.setattr(decoding, "message_row", message_row_seen)
    record = ConsumerRecord("t", 0, 0, 0, 0, b"k", b"[1]", (), 0)
    (shown,) = asyncio.run(decoding.Decoder().rows([record]))
    assert (shown.key.kind, shown.value.kind) == ("text", "json")
    assert threading.main_thread() not in threads
    assert len(threads) == 1
