"""Following a topic: counts of all, the last records, and what happens to whoever is too slow."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from contextlib import aclosing
from http.cookiejar import CookieJar
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, build_opener

import pytest
from starlette.requests import ClientDisconnect

from odradek import Producer
from odradek.client.types import PartitionInfo, TopicDescription, TopicPartition
from odradek.console.forms import FormError
from odradek.console.pages.tail import MOST_TAILS, tail_events
from odradek.console.server import ConsoleServer
from odradek.console.sessions import Sessions
from odradek.console.settings import ConsoleSettings
from odradek.console.tailing import MOST_SHOWN, TailNews, tail
from odradek.console.views.messages import MessageFilter
from odradek.testing import Broker
from odradek.util.clock import SystemClock
from waiting import WITHIN_S, until

from .conftest import CSRF, TOKEN, Visitor

PARTITIONS = [TopicPartition("followed", n) for n in range(2)]


@pytest.fixture(autouse=True, scope="module")
def topic(broker: Broker) -> None:
    broker.create_topic("followed", 2)


def produce(servers: str, count: int) -> None:
    with Producer(bootstrap_servers=servers, linger_ms=5) as producer:
        for n in range(count):
            producer.send("followed", b"<i>%d" % n, partition=n % 2)


def follow(
    servers: str, count: int, wanted: MessageFilter, is_last: Callable[[TailNews], bool], **bounds: Any
) -> list[TailNews]:
    """The news of a tail that begins before the records are produced."""

    async def run() -> list[TailNews]:
        told: list[TailNews] = []
        async with (
            asyncio.timeout(WITHIN_S),
            aclosing(
                tail(
                    {"bootstrap_servers": servers},
                    PARTITIONS,
                    wanted,
                    isolation_level="read_uncommitted",
                    **bounds,
                )
            ) as news,
        ):
            async for item in news:
                if not told:
                    await asyncio.to_thread(produce, servers, count)
                told.append(item)
                if is_last(item):
                    break
        return told

    return asyncio.run(run())


def test_all_is_counted_and_the_last_is_shown(broker: Broker) -> None:
    produce(broker.bootstrap_servers, 10)
    wanted = MessageFilter(value="9")
    told = follow(broker.bootstrap_servers, 20_000, wanted, lambda news: news.read == 20_000)
    # What was there before is not followed; what a filter leaves out is counted as read.
    assert (told[-1].wanted, told[-1].left_out) == (sum("9" in str(n) for n in range(20_000)), 0)
    assert all(len(news.records) <= MOST_SHOWN for news in told)
    assert [record.value for record in told[-1].records if b"9" not in (record.value or b"")] == []


def test_whoever_is_too_slow_goes_on_at_the_end(broker: Broker) -> None:
    bounds = {"most_behind": 0, "most_polled": 10, "every_s": 0}
    told = follow(broker.bootstrap_servers, 1000, MessageFilter(), lambda news: news.left_out > 0, **bounds)
    assert told[-1].behind == 0
    assert 0 < told[-1].read < 1000


def test_a_stream_of_events(broker: Broker) -> None:
    """Over HTTP: with the rows as the page of messages has them, escaped, and an end with the session."""
    configs = {"bootstrap_servers": broker.bootstrap_servers}
    with ConsoleServer(ConsoleSettings(configs, TOKEN)) as server:
        browser = build_opener(HTTPCookieProcessor(CookieJar()))

        def post(page: str, path: str, **fields: str) -> None:
            csrf = CSRF.search(browser.open(server.url + page, timeout=WITHIN_S).read().decode())
            assert csrf is not None
            data = urlencode({"csrf": csrf[1], **fields}).encode()
            browser.open(server.url + path, data, timeout=WITHIN_S).close()

        post("/login", "/login", token=TOKEN)
        with browser.open(f"{server.url}/topics/followed/tail/events", timeout=WITHIN_S) as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            assert "default-src 'none'" in stream.headers["content-security-policy"]

            def told() -> dict[str, str]:
                while not (line := stream.readline()).startswith(b"data: "):
                    assert line
                return dict(json.loads(line.removeprefix(b"data: ")))

            assert told()["read"] == "0"
            produce(broker.bootstrap_servers, 2)
            parts: list[str] = []

            def rows_so_far() -> str:
                parts.append(told()["rows"])
                return "".join(parts)

            rows = until(rows_so_far, "both records", holds=lambda text: "&lt;i&gt;1" in text)
            assert "<i>" not in rows
            assert len(re.findall("<tr>", rows)) == 2
            post("/topics", "/logout")
            last = until(told, "the end of the session", holds=lambda news: "problem" in news)
            assert "session is over" in last["problem"]


def test_what_cannot_be_followed_is_told(broker: Broker, visitor: Visitor) -> None:
    assert "no partition 7" in visitor.get("/topics/followed/tail/events?partition=7", 404)
    assert "is not like 2026" in visitor.get("/topics/followed/tail/events?start=time&time=noon", 400)
    assert "no such topic" in visitor.get("/topics/nowhere/tail/events", 404)
    page = visitor.get("/topics/followed/tail?value=%3Cb%3E")
    assert "console-consumer" in page
    assert "<b>" not in page


def test_a_session_follows_no_more_topics_than_it_may() -> None:
    """Requests that come together count, before their events begin; and not any more when they have ended."""
    topic = TopicDescription("t", bytes(16), False, (PartitionInfo("t", 0, 1, (1,), (1,), ()),))

    async def describe_topics(_: object) -> dict[str, TopicDescription]:
        return {"t": topic}

    async def gone(_: object) -> None:
        raise OSError("the browser has gone")

    async def run() -> None:
        admin: Any = SimpleNamespace(describe_topics=describe_topics)
        session = Sessions(SystemClock()).open(None, admin)
        request = SimpleNamespace(path_params={"name": "t"}, query_params={})
        visit: Any = SimpleNamespace(request=request, session=session, admin=admin)
        streams = [await tail_events(visit) for _ in range(MOST_TAILS)]
        with pytest.raises(FormError, match="follows 4 topics already"):
            await tail_events(visit)
        with pytest.raises(ClientDisconnect):
            await streams[0]({"type": "http", "asgi": {"spec_version": "2.4"}}, gone, gone)  # type: ignore[arg-type]
        await tail_events(visit)

    asyncio.run(run())
