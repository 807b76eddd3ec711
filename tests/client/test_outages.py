"""A client whose broker is not there says so: at once, and once a minute, with the address and the reason."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from odradek.client import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    Consumer,
    Producer,
    RawReader,
    RawWriter,
    TransactionalWriter,
)
from odradek.client.core.outages import AGAIN_MS, Outages
from odradek.errors import OdradekError
from odradek.security.ssl_contexts import server_context
from odradek.testing import Broker
from odradek.testing.certificates import CertificateAuthority
from ports import free_port
from waiting import joined, until

SHORT = {
    "request_timeout_ms": 300,
    "socket_connection_setup_timeout_ms": 100,
    "socket_connection_setup_timeout_max_ms": 100,
}
GAVE_UP = {"default_api_timeout_ms": 1_000, **SHORT}


def lines(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == "odradek.client" and r.levelno >= level]


def test_it_is_told_at_once_and_once_a_minute_and_when_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    outages = Outages("mine")
    assert not outages
    for now_ms in range(0, 150_000, 1_000):
        outages.failed("a:1 cannot be reached", "refused", now_ms)
        outages.failed("b:1 cannot be reached", f"refused {now_ms}", now_ms, after_ms=10_000)
    assert outages
    outages.ended("a:1 cannot be reached", 150_000)
    outages.ended("c:1 cannot be reached", 150_000)
    assert lines(caplog, logging.INFO) == [
        "client mine: a:1 cannot be reached: refused; it is tried again",
        "client mine: b:1 cannot be reached: refused 10000; it is tried again",
        "client mine: a:1 cannot be reached, for 60 s now: refused",
        "client mine: b:1 cannot be reached, for 70 s now: refused 70000",
        "client mine: a:1 cannot be reached, for 120 s now: refused",
        "client mine: b:1 cannot be reached, for 130 s now: refused 130000",
        "client mine: over after 150 s: a:1 cannot be reached",
    ]
    assert AGAIN_MS == 60_000


def test_what_passes_in_time_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    outages = Outages("mine")
    outages.failed("x", "why", 0, after_ms=10_000)
    outages.ended("x", 9_000)
    outages.failed("x", "why", 20_000, after_ms=10_000)
    assert lines(caplog, logging.INFO) == []


# Servers that are none


@contextmanager
def refusing() -> Iterator[str]:
    yield "127.0.0.1:1"


@contextmanager
def unknown() -> Iterator[str]:
    yield "no-such-host.invalid:9092"


@contextmanager
def serving(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    open_ones: list[socket.socket] = []

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            open_ones.append(connection)
            try:
                serve(connection)
            except (OSError, ssl.SSLError):
                connection.close()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    yield f"127.0.0.1:{listener.getsockname()[1]}"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    joined(thread)
    for connection in open_ones:
        connection.close()


def mute() -> Any:
    return serving(lambda connection: None)


def hanging_up() -> Any:
    return serving(socket.socket.close)


def http() -> Any:
    return serving(lambda connection: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"))


@contextmanager
def tls_port() -> Iterator[str]:
    authority = CertificateAuthority()
    context = server_context(
        {**authority.issue("broker", hosts=["127.0.0.1"]).configs(), **authority.trust()}
    )

    def serve(connection: socket.socket) -> None:
        connection.settimeout(60)
        context.wrap_socket(connection, server_side=True)

    with serving(serve) as at:
        yield at


@contextmanager
def plain_port() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap_servers


PLAIN: dict[str, Any] = {}
TLS = {"security_protocol": "SSL"}
# A resolver takes its time, which is told where the client's is over first.
PATIENT = {
    "request_timeout_ms": 20_000,
    "socket_connection_setup_timeout_ms": 20_000,
    "socket_connection_setup_timeout_max_ms": 20_000,
    "default_api_timeout_ms": 25_000,
}
NOBODY = {
    "refused": (refusing, PLAIN, "Connection refused"),
    "unresolvable": (unknown, PATIENT, "ame"),  # Name or service not known, in the resolver's words
    "mute": (mute, PLAIN, "is it a Kafka broker, and is its security.protocol PLAINTEXT"),
    "hung up": (hanging_up, PLAIN, "does it speak TLS, or want a login"),
    "TLS port": (tls_port, PLAIN, "TLS"),
    "plain port": (plain_port, TLS, "does it speak TLS at all"),
    "HTTP": (http, PLAIN, "the peer speaks HTTP"),
}


async def ask_async(client: Any, call: Callable[[], Any]) -> None:
    with suppress(OdradekError):
        await call()
    await client.close()


def consume(servers: str, more: dict[str, Any], told: Callable[[], bool]) -> None:
    with Consumer("t", bootstrap_servers=servers, group_id="g", **{**GAVE_UP, **more}) as consumer:
        until(lambda: consumer.poll(100) or told(), what="a line in the log")


def produce(servers: str, more: dict[str, Any], told: Callable[[], bool]) -> None:
    producer = Producer(bootstrap_servers=servers, max_block_ms=1_000, **{**SHORT, **more})
    with producer, suppress(OdradekError):
        producer.send("t", b"x")
    assert told()


def administer(servers: str, more: dict[str, Any], told: Callable[[], bool]) -> None:
    with Admin(bootstrap_servers=servers, **{**GAVE_UP, **more}) as admin, suppress(OdradekError):
        admin.list_topics()
    assert told()


def read_raw(servers: str, more: dict[str, Any], told: Callable[[], bool]) -> None:
    with RawReader(servers, {**GAVE_UP, **more}) as reader, suppress(OdradekError):
        reader.topics()
    assert told()


def write_raw(servers: str, more: dict[str, Any], told: Callable[[], bool]) -> None:
    import pyarrow as pa

    writer = RawWriter(
        servers, {**SHORT, "max_block_ms": 1_000, "delivery_timeout_ms": 400, "linger_ms": 0, **more}
    )
    with suppress(OdradekError):
        writer.write_columns(pa.table({"value": [b"x"]}), "t")
    writer.abort()
    assert told()


def write_transactions(servers: str, more: dict[str, Any], told: Callable[[], bool]) -> None:
    writer = TransactionalWriter(servers, "x", {**SHORT, "max_block_ms": 1_000, **more})
    with suppress(OdradekError):
        writer.init_transactions()
    writer.abandon()
    assert told()


def consume_async(servers: str, more: dict[str, Any], told: Callable[[], bool]) -> None:
    async def run() -> None:
        consumer = AsyncConsumer("t", bootstrap_servers=servers, group_id="g", **{**GAVE_UP, **more})
        await ask_async(consumer, lambda: consumer.poll(1_000))

    asyncio.run(run())
    assert told()


def produce_async(servers: str, more: dict[str, Any], told: Callable[[], bool]) -> None:
    async def run() -> None:
        producer = AsyncProducer(bootstrap_servers=servers, max_block_ms=1_000, **{**SHORT, **more})
        await ask_async(producer, lambda: producer.send("t", b"x"))

    asyncio.run(run())
    assert told()


def administer_async(servers: str, more: dict[str, Any], told: Callable[[], bool]) -> None:
    async def run() -> None:
        admin = AsyncAdmin(bootstrap_servers=servers, **{**GAVE_UP, **more})
        await ask_async(admin, admin.list_topics)

    asyncio.run(run())
    assert told()


CLIENTS = [
    *(consume, produce, administer, read_raw, write_raw, write_transactions),
    *(consume_async, produce_async, administer_async),
]


@pytest.mark.parametrize("nobody", NOBODY)
@pytest.mark.parametrize("client", [consume, read_raw], ids=lambda client: client.__name__)
def test_each_kind_of_server_that_is_none(client: Any, nobody: str, caplog: pytest.LogCaptureFixture) -> None:
    server, more, reason = NOBODY[nobody]
    with server() as at:
        client(at, more, lambda: bool(lines(caplog)))
    told = lines(caplog)
    assert len(told) == 1, "once a minute"
    assert at in told[0]
    assert reason in told[0]


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
def test_each_client(client: Any, caplog: pytest.LogCaptureFixture) -> None:
    client("127.0.0.1:1", {}, lambda: bool(lines(caplog)))
    (told,) = lines(caplog)
    assert "127.0.0.1:1 cannot be reached: Connection refused" in told


def test_it_is_told_when_all_brokers_go_and_come_back(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    # It comes back there.
    with Broker(port=free_port()) as broker:
        at = broker.bootstrap_servers
        broker.create_topic("t")
        with Consumer(bootstrap_servers=at, retry_backoff_ms=10, reconnect_backoff_ms=10) as consumer:
            consumer.assign([("t", 0)])
            consumer.position(("t", 0))
            assert lines(caplog) == []
            broker.stop()
            until(lambda: consumer.poll(50) or lines(caplog), what="a line in the log")
            broker.start()
            until(
                lambda: (
                    consumer.poll(50) or any("over after" in line for line in lines(caplog, logging.INFO))
                ),
                what="the line of its end",
            )
    assert [line for line in lines(caplog) if at in line]


@pytest.mark.parametrize("server", [refusing, mute], ids=["refused", "mute"])
def test_a_timeout_names_the_servers(server: Any) -> None:
    with (
        server() as at,
        Admin(bootstrap_servers=at, default_api_timeout_ms=100) as admin,
        pytest.raises(OdradekError) as raised,
    ):
        admin.list_topics()
    assert at in str(raised.value)
