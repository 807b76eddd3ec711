"""TLS listeners over real sockets: what goes through, what is refused and how it is told, what bounds it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from odradek.broker.config.listener_overrides import ListenerSsl
from odradek.broker.network.handshakes import Handshakes
from odradek.broker.network.piece_sender import PieceSender
from odradek.broker.network.server import Listener
from odradek.broker.network.tls_listener import ListenerTls
from odradek.cluster.configs.config_def import ConfigError
from odradek.security.ssl_contexts import client_context
from odradek.testing.certificates import CertificateAuthority
from odradek.wire.api import ApiKey
from odradek.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from odradek.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from seeds import seed

from ..net import (
    answer_heartbeat,
    connect,
    heartbeat,
    listening,
    open_stream,
    read_eof,
    read_response,
    request,
    run,
    settle,
)
from .test_sending import FetchesOfAFile
from .test_sending import answer as answer_of_a_range
from .test_sending import ask as ask_for_a_range

LOOPS = pytest.mark.parametrize("loop", ["uvloop", "asyncio"])

CA = CertificateAuthority()
BROKER = CA.issue("broker", hosts=["localhost", "127.0.0.1"])
CLIENT = client_context(CA.trust())
MUTUAL = {"ssl.client.auth": "required"}


def settings(**more: Any) -> ListenerSsl:
    configs = {**BROKER.configs(), **CA.trust(), **more.pop("configs", {})}
    return ListenerSsl(configs=configs, **more)


@contextlib.asynccontextmanager
async def tls_listening(
    handlers: dict[ApiKey, Any] | None = None, *, most_waiting: int | None = None, **more: Any
) -> AsyncIterator[Listener]:
    handshakes = Handshakes(asyncio.get_running_loop(), threads=2)
    if most_waiting is not None:
        handshakes.most_waiting = most_waiting
    tls = ListenerTls("SSL", settings(**more), handshakes)
    try:
        async with listening(handlers or {ApiKey.HEARTBEAT: answer_heartbeat}, tls=tls) as listener:
            yield listener
    finally:
        handshakes.close()


async def refused(listener: Listener, context: ssl.SSLContext) -> str:
    """Connect and ask, in vain; the reason as the client sees it."""
    try:
        reader, writer = await open_stream(listener.port, context)
        writer.write(heartbeat(1))
        assert await reader.read() == b""
    except (ssl.SSLError, ConnectionError) as error:
        return str(error)
    return ""


async def ask(listener: Listener, context: ssl.SSLContext = CLIENT) -> None:
    """Connect, ask, and get an answer."""
    reader, writer = await open_stream(listener.port, context)
    writer.write(heartbeat(7))
    assert (await read_response(reader, ApiKey.HEARTBEAT, 0))[0] == 7
    writer.close()


@LOOPS
def test_pipelined_requests_are_answered_in_order(loop: str) -> None:
    async def main() -> None:
        async with tls_listening() as listener:
            reader, writer = await open_stream(listener.port, CLIENT)
            writer.write(b"".join(heartbeat(number) for number in range(1000)))
            for number in range(1000):
                assert (await read_response(reader, ApiKey.HEARTBEAT, 0))[0] == number
            writer.close()
            await settle(lambda: not listener.connections)
            assert listener.queued_bytes == 0

    run(main, loop)


@LOOPS
@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_long_requests_and_answers(loop: str, version: str) -> None:
    """Two megabytes each way, in whatever pieces they come, while the peer is slow to read."""
    records = Random(seed(11)).randbytes(2_000_000)

    def echo(context: Any, message: FetchRequest) -> FetchResponse:
        part = PartitionData(partition_index=0, high_watermark=1, records=records)
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[part])])

    def length(context: Any, message: HeartbeatRequest) -> HeartbeatResponse:
        return HeartbeatResponse(error_code=len(message.group_id) % 30_000)

    async def main() -> None:
        handlers = {ApiKey.FETCH: echo, ApiKey.HEARTBEAT: length}
        async with tls_listening(handlers) as listener:
            context = client_context({**CA.trust(), "ssl.enabled.protocols": version})
            reader, writer = await open_stream(listener.port, context)
            for number in range(20):
                writer.write(request(FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=0), 4, number))
                writer.write(heartbeat(1000 + number, "g" * 20_000))
            for number in range(20):
                found, answer = await read_response(reader, ApiKey.FETCH, 4)
                assert found == number
                assert bytes(answer.responses[0].partitions[0].records) == records
                assert (await read_response(reader, ApiKey.HEARTBEAT, 0))[1].error_code == 20_000
            writer.close()
            await settle(lambda: not listener.connections)

    run(main, loop)


@LOOPS
def test_who_a_client_is(loop: str) -> None:
    def who(context: Any, message: HeartbeatRequest) -> HeartbeatResponse:
        seen.append(context.principal)
        return HeartbeatResponse(error_code=0)

    seen: list[str] = []
    alice = client_context({**CA.trust(), **CA.issue("CN=alice,OU=ops,O=odradek").configs()})

    async def main() -> None:
        handlers = {ApiKey.HEARTBEAT: who}
        async with tls_listening(handlers, configs={"ssl.client.auth": "requested"}) as listener:
            await ask(listener, alice)
            await ask(listener)
        rules = r"RULE:^CN=(\w+),OU=ops,.*$/$1@ops/U,DEFAULT"
        async with tls_listening(handlers, configs=MUTUAL, mapping_rules=rules) as listener:
            await ask(listener, alice)
            await ask(listener, client_context({**CA.trust(), **CA.issue("bob").configs()}))
        async with tls_listening(handlers, configs=MUTUAL, names_principals=False) as listener:
            await ask(listener, alice)

    run(main, loop)
    assert seen == [
        "User:CN=alice,OU=ops,O=odradek",
        "User:ANONYMOUS",
        "User:ALICE@OPS",
        "User:CN=bob",
        "User:ANONYMOUS",
    ]


OLD = {**CA.trust(), "ssl.enabled.protocols": "TLSv1.2"}


@LOOPS
@pytest.mark.parametrize(
    ("server", "client", "told"),
    [
        (MUTUAL, CA.trust(), "the client shows no certificate"),
        (
            MUTUAL,
            {**CA.trust(), **CertificateAuthority().issue("x").configs()},
            "certificate is not accepted",
        ),
        (MUTUAL, {**CA.trust(), **CA.issue("x", expired=True).configs()}, "certificate has expired"),
        (MUTUAL, {**CA.trust(), **CA.issue("x", not_yet_valid=True).configs()}, "is not yet valid"),
        ({}, CertificateAuthority().trust(), "the peer hung up during the handshake: does it trust"),
        ({"ssl.enabled.protocols": "TLSv1.3"}, OLD, "protocol versions are not enabled"),
        (
            {"ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"},
            {**OLD, "ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"},
            "no cipher suite in common",
        ),
    ],
)
def test_handshakes_that_fail_are_told(
    loop: str, server: dict[str, str], client: dict[str, str], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with tls_listening(configs=server) as listener:
            with caplog.at_level(logging.INFO):
                await refused(listener, client_context(client))
                await settle(lambda: not listener.connections)
            assert listener.tls is not None and len(listener.tls.handshakes) == 0

    run(main, loop)
    assert told in caplog.text
    assert "failed authentication peer=127.0.0.1" in caplog.text and "SSL handshake failed" in caplog.text


@LOOPS
def test_an_alert_of_the_client_is_told(loop: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with tls_listening() as listener:
            reader, writer = await connect(listener)
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            stranger = client_context(CertificateAuthority().trust())
            session = stranger.wrap_bio(incoming, outgoing, server_hostname="localhost")
            with pytest.raises(ssl.SSLCertVerificationError):
                while True:
                    with contextlib.suppress(ssl.SSLWantReadError):
                        session.do_handshake()
                    writer.write(outgoing.read())
                    incoming.write(await reader.read(65536))
            writer.write(outgoing.read())
            with caplog.at_level(logging.INFO):
                await read_eof(reader)
                await settle(lambda: not listener.connections)

    run(main, loop)
    assert "the peer does not trust the authority of this side's certificate" in caplog.text


@LOOPS
def test_a_name_that_no_rule_maps_is_not_let_in(loop: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with tls_listening(configs=MUTUAL, mapping_rules=r"RULE:^CN=a.*$/a/") as listener:
            with caplog.at_level(logging.INFO):
                await refused(listener, client_context({**CA.trust(), **CA.issue("bob").configs()}))
                await settle(lambda: not listener.connections)

    run(main, loop)
    assert "No rules apply to CN=bob" in caplog.text


@LOOPS
def test_what_is_not_tls(loop: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with tls_listening() as listener:
            with caplog.at_level(logging.INFO):
                for first in (heartbeat(1), b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x05hello", b"\x16"):
                    reader, writer = await connect(listener)
                    writer.write(first)
                    writer.write_eof()
                    await read_eof(reader)
                await settle(lambda: not listener.connections)
            await ask(listener)

    run(main, loop)
    assert "what came is not TLS: is the client's security.protocol another one?" in caplog.text


@LOOPS
def test_tls_on_a_plain_listener_is_told(loop: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with listening({ApiKey.HEARTBEAT: answer_heartbeat}) as listener:
            with caplog.at_level(logging.INFO):
                await refused(listener, CLIENT)
                await settle(lambda: not listener.connections)

    run(main, loop)
    assert "the peer speaks TLS, and this side does not" in caplog.text


@LOOPS
def test_damaged_bytes_close_that_connection_alone(loop: str) -> None:
    """Whatever the bytes, at whatever place: the connection ends, the listener goes on."""

    async def main() -> None:
        rng = Random(seed(12))
        async with tls_listening() as listener:
            reader, writer = await open_stream(listener.port, CLIENT)
            writer.write(heartbeat(1))
            await read_response(reader, ApiKey.HEARTBEAT, 0)
            for _ in range(50):
                raw = socket.create_connection(("127.0.0.1", listener.port))
                raw.setblocking(False)
                to_broker = _client_hello()
                hello = bytearray(to_broker)
                if rng.random() < 0.5:
                    hello[rng.randrange(1, len(hello))] ^= 1 << rng.randrange(8)
                else:
                    hello += rng.randbytes(rng.randrange(1, 3000))
                raw.sendall(hello)
                raw.shutdown(socket.SHUT_WR)
                raw.close()
            # Inside of a session that stands.
            other_reader, other_writer = await open_stream(listener.port, CLIENT)
            os.write(other_writer.get_extra_info("socket").fileno(), b"\x17\x03\x03\x00\x20" + bytes(32))
            with contextlib.suppress(ssl.SSLError):  # an alert
                await read_eof(other_reader)
            other_writer.close()
            await settle(lambda: len(listener.connections) == 1)
            writer.write(heartbeat(2))
            assert (await read_response(reader, ApiKey.HEARTBEAT, 0))[0] == 2
            writer.close()

    run(main, loop)


@LOOPS
def test_what_comes_with_the_farewell_is_taken_up(loop: str) -> None:
    """A producer with acks=0 says good-bye in the same breath as its last request."""
    asked: list[int] = []

    def count(context: Any, message: HeartbeatRequest) -> HeartbeatResponse:
        asked.append(message.generation_id)
        return HeartbeatResponse()

    async def main() -> None:
        async with tls_listening({ApiKey.HEARTBEAT: count}) as listener:
            reader, writer = await open_stream(listener.port)
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            session = CLIENT.wrap_bio(incoming, outgoing, server_hostname="localhost")
            while True:
                try:
                    session.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    writer.write(outgoing.read())
                    incoming.write(await reader.read(65536))
            session.write(heartbeat(1) + heartbeat(2))
            with contextlib.suppress(ssl.SSLWantReadError):
                session.unwrap()
            writer.write(outgoing.read())
            await settle(lambda: not listener.connections)
            assert len(asked) == 2
            writer.close()

    run(main, loop)


def _client_hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = CLIENT.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with contextlib.suppress(ssl.SSLWantReadError):
        session.do_handshake()
    return outgoing.read()


@LOOPS
def test_slow_handshakes_hold_nobody_up_and_are_bounded(loop: str) -> None:
    """Peers that begin and do not go on: the oldest go when there are too many, and others are served."""

    async def main() -> None:
        async with tls_listening(most_waiting=100) as listener:
            assert listener.tls is not None
            hello = _client_hello()
            idle: list[socket.socket] = []
            for _ in range(300):
                raw = socket.create_connection(("127.0.0.1", listener.port))
                raw.sendall(hello)
                idle.append(raw)
                if len(idle) % 50 == 0:
                    await ask(listener)
            await settle(lambda: len(listener.tls.handshakes) <= 100)  # type: ignore[union-attr]
            await ask(listener)
            assert len(listener.connections) <= 102
            for raw in idle:
                raw.close()

    run(main, loop)


@LOOPS
def test_a_handshake_has_a_deadline(loop: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with tls_listening() as listener:
            assert listener.tls is not None
            listener.tls.handshakes.timeout_s = 0.01
            with caplog.at_level(logging.INFO):
                reader, writer = await connect(listener)
                writer.write(_client_hello()[:50])
                await read_eof(reader)
                writer.close()
                await settle(lambda: not listener.connections)
            listener.tls.handshakes.timeout_s = 60
            await ask(listener)

    run(main, loop)
    assert "no handshake within 0.01 s" in caplog.text


@LOOPS
def test_a_stop_in_the_middle_of_handshakes(loop: str) -> None:
    async def main() -> None:
        async with tls_listening() as listener:
            hello = _client_hello()
            raws = [socket.create_connection(("127.0.0.1", listener.port)) for _ in range(20)]
            for raw in raws:
                raw.sendall(hello)
            await settle(lambda: len(listener.connections) > 10)
            listener.close_connections()
            await settle(lambda: not listener.connections or listener.accepted == 20)
            for raw in raws:
                raw.close()

    run(main, loop)


@LOOPS
def test_certificates_are_reloaded(loop: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = BROKER.write_pem(tmp_path / "broker.pem")
    configs = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)}

    async def serial(listener: Listener) -> int:
        _, writer = await open_stream(listener.port, CLIENT)
        certificate = writer.get_extra_info("peercert")
        writer.close()
        return int(certificate["serialNumber"], 16)

    async def main() -> None:
        handshakes = Handshakes(asyncio.get_running_loop(), threads=1)
        tls = ListenerTls("SSL", ListenerSsl(configs), handshakes)
        async with listening({ApiKey.HEARTBEAT: answer_heartbeat}, tls=tls) as listener:
            reader, writer = await open_stream(listener.port, CLIENT)
            before = await serial(listener)
            assert not tls.update(ListenerSsl(configs))
            # The same name, another key.
            CA.issue("broker", hosts=["localhost", "127.0.0.1"]).write_pem(path)
            assert tls.update(ListenerSsl(configs))
            after = await serial(listener)
            assert after != before
            # Another name, fewer alternative names, no key at all: refused, and the old one stays.
            with caplog.at_level(logging.ERROR):
                for bad, told in (
                    (CA.issue("other", hosts=["localhost", "127.0.0.1"]), "DistinguishedName does not match"),
                    (CA.issue("broker", hosts=["localhost"]), "lacks 127.0.0.1"),
                ):
                    bad.write_pem(path)
                    assert not tls.update(ListenerSsl(configs))
                    assert not tls.update(ListenerSsl(configs))  # tried once
                    assert caplog.text.count(told) == 1
                path.write_text("nothing", encoding="utf-8")
                with pytest.raises(ConfigError, match="no private key"):
                    tls.check(ListenerSsl(configs))
                assert not tls.update(ListenerSsl(configs))
            assert await serial(listener) == after
            CA.issue("other", hosts=["127.0.0.1"]).write_pem(path)
            assert tls.update(ListenerSsl(configs, allow_dn_changes=True, allow_san_changes=True))
            assert await serial(listener) != after
            # Who was connected stays.
            writer.write(heartbeat(3))
            assert (await read_response(reader, ApiKey.HEARTBEAT, 0))[0] == 3
            writer.close()
        handshakes.close()

    run(main, loop)


def test_client_certificates_need_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.x509", None)

    async def main() -> None:
        with pytest.raises(
            ConfigError, match=r"needs the package cryptography \(.* -m pip install 'cryptography>="
        ):
            async with tls_listening(configs=MUTUAL):
                pass

    run(main)


@LOOPS
def test_records_of_files_go_piece_by_piece(
    loop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A peer that asks for much and does not read holds a piece of it; then all comes, in order."""
    mib = 1024 * 1024
    made: list[tuple[PieceSender, asyncio.Transport]] = []

    def sender_of(connection: Any, loop: Any, transport: asyncio.Transport) -> PieceSender:
        made.append((PieceSender(connection, loop, transport), transport))
        return made[-1][0]

    monkeypatch.setattr("odradek.broker.network.connection.PieceSender", sender_of)
    handler = FetchesOfAFile(tmp_path, 8 * mib)

    async def main() -> None:
        async with tls_listening({ApiKey.FETCH: handler}) as listener:
            reader, writer = await open_stream(listener.port, CLIENT)
            for number in range(4):
                writer.write(ask_for_a_range(number, 0, 8 * mib))
            await settle(lambda: handler.served > 0)
            ((sender, transport),) = made
            await settle(lambda: sender.left > 0)
            assert transport.get_write_buffer_size() < mib
            for number in range(4):
                assert await answer_of_a_range(reader) == (number, handler.content)
            writer.write(ask_for_a_range(9, 5, 3 * mib, 2))
            assert await answer_of_a_range(reader) == (9, handler.content[5 : 5 + 3 * mib])
            writer.close()
            await settle(lambda: not listener.connections)

    run(main, loop)
