"""Channels between brokers over real sockets: order, breaking, refusal, silence, nonsense."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek.broker.interbroker.channel import ChannelBroken
from odradek.broker.interbroker.transport import AsyncioChannel, AsyncioTransport
from odradek.cluster.nodes import Endpoint
from odradek.errors import ProtocolError, UnsupportedVersionError
from odradek.sasl.logins import Login, PlainLogin
from odradek.wire.api import ApiKey
from odradek.wire.headers import decode_request_header, encode_response
from odradek.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from odradek.wire.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from odradek.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from odradek.wire.messages.sasl_handshake import SaslHandshakeResponse
from odradek.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from waiting import until_async

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def read_request(reader: asyncio.StreamReader) -> Any:
    size = int.from_bytes(await reader.readexactly(4), "big")
    return decode_request_header(await reader.readexactly(size))[0]


def respond(writer: asyncio.StreamWriter, header: Any, message: Any) -> None:
    parts = encode_response(header.api_key, header.api_version, header.correlation_id, message)
    writer.write(b"".join(bytes(part) for part in parts))


async def with_server(
    serve: Serve,
    use: Callable[[AsyncioChannel], Awaitable[None]],
    timeout_ms: int = 60_000,
    login: Login | None = None,
) -> None:
    serving: set[asyncio.Task[None] | None] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        try:
            await serve(reader, writer)
        finally:
            writer.close()
            serving.discard(asyncio.current_task())

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    transport = AsyncioTransport(asyncio.get_running_loop(), login)
    protocol = "PLAINTEXT" if login is None else "SASL_PLAINTEXT"
    endpoint = Endpoint(protocol, "127.0.0.1", port, protocol)
    channel = transport.channel(7, lambda: endpoint, "broker-1", timeout_ms)
    try:
        await use(channel)
    finally:
        channel.close()
        server.close()
        await until_async(lambda: not serving, "the end of what serves", every_s=0, instead=lambda: serving)


def test_answers_come_in_the_order_of_the_requests() -> None:
    seen: list[tuple[int, int, str | None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        headers = [await read_request(reader) for _ in range(3)]
        seen.extend((one.api_key, one.api_version, one.client_id) for one in headers)
        for error, header in enumerate(headers):
            respond(writer, header, UpdateMetadataResponse(error_code=error))

    async def use(channel: AsyncioChannel) -> None:
        asked = [channel.send(UpdateMetadataRequest(live_brokers=[]), 6) for _ in range(3)]
        assert [(await one).error_code for one in asked] == [0, 1, 2]

    asyncio.run(with_server(serve, use))
    assert seen == [(ApiKey.UPDATE_METADATA, 6, "broker-1")] * 3


def test_a_broken_connection_fails_what_is_under_way_and_the_next_request_connects_again() -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        header = await read_request(reader)
        if connections == 1:
            writer.close()
        else:
            respond(writer, header, UpdateMetadataResponse(error_code=5))

    async def use(channel: AsyncioChannel) -> None:
        with pytest.raises(ChannelBroken) as broken:
            await channel.send(UpdateMetadataRequest(), 6)
        assert not broken.value.refused
        assert (await channel.send(UpdateMetadataRequest(), 6)).error_code == 5

    asyncio.run(with_server(serve, use))


def test_nobody_listens_is_told_apart() -> None:
    async def main() -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        transport = AsyncioTransport(asyncio.get_running_loop())
        channel = transport.channel(7, lambda: Endpoint("PLAINTEXT", "127.0.0.1", port), "broker-1", 60_000)
        with pytest.raises(ChannelBroken, match=r"broker 7 cannot be reached: 127\.0\.0\.1") as broken:
            await channel.send(UpdateMetadataRequest(), 6)
        assert broken.value.refused
        unknown = transport.channel(8, lambda: None, "broker-1", 60_000)
        with pytest.raises(ChannelBroken, match="nobody knows its address") as broken:
            await unknown.send(UpdateMetadataRequest(), 6)
        assert not broken.value.refused

    asyncio.run(main())


def test_silence_ends_with_the_timeout() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def use(channel: AsyncioChannel) -> None:
        with pytest.raises(ChannelBroken, match=r"no answer in 0\.05 s to UpdateMetadata"):
            await channel.send(UpdateMetadataRequest(), 6)

    asyncio.run(with_server(serve, use, timeout_ms=50))


@pytest.mark.parametrize(
    "answer", [b"\0\0\0\5\0\0\0\x63\0", b"\xff\xff\xff\xff", b"\0\0\0\3abc", b"\0\0\0\4\0\0\0\1"]
)
def test_what_is_no_answer_ends_the_connection(answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(answer)
        await reader.read()

    async def use(channel: AsyncioChannel) -> None:
        with pytest.raises(ProtocolError):
            await channel.send(UpdateMetadataRequest(), 6)
        assert not channel.is_connected

    asyncio.run(with_server(serve, use))


def test_versions_are_asked_once_for_each_connection() -> None:
    keys: list[tuple[int, int]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                header = await read_request(reader)
            except asyncio.IncompleteReadError:
                return
            keys.append((header.api_key, header.api_version))
            if header.api_key == ApiKey.API_VERSIONS:
                served = ApiVersion(api_key=int(ApiKey.CONTROLLED_SHUTDOWN), min_version=0, max_version=2)
                respond(writer, header, ApiVersionsResponse(api_keys=[served]))
            else:
                respond(writer, header, ControlledShutdownResponse())

    async def use(channel: AsyncioChannel) -> None:
        for _ in range(2):
            await channel.send_negotiated(ControlledShutdownRequest(), 3)
        with pytest.raises(UnsupportedVersionError, match="broker 7 does not serve UpdateMetadata"):
            await channel.send_negotiated(UpdateMetadataRequest(), 8)

    asyncio.run(with_server(serve, use))
    assert keys == [
        (ApiKey.API_VERSIONS, 0),
        (ApiKey.CONTROLLED_SHUTDOWN, 2),
        (ApiKey.CONTROLLED_SHUTDOWN, 2),
    ]


def test_versions_that_a_login_has_asked_for_are_not_asked_for_again() -> None:
    keys: list[int] = []
    answers: dict[int, Any] = {
        ApiKey.API_VERSIONS: ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=int(key), min_version=0, max_version=most)
                for key, most in (
                    (ApiKey.SASL_HANDSHAKE, 1),
                    (ApiKey.SASL_AUTHENTICATE, 2),
                    (ApiKey.CONTROLLED_SHUTDOWN, 2),
                )
            ]
        ),
        ApiKey.SASL_HANDSHAKE: SaslHandshakeResponse(mechanisms=["PLAIN"]),
        ApiKey.SASL_AUTHENTICATE: SaslAuthenticateResponse(auth_bytes=b""),
        ApiKey.UPDATE_METADATA: UpdateMetadataResponse(),
        ApiKey.CONTROLLED_SHUTDOWN: ControlledShutdownResponse(),
    }

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                header = await read_request(reader)
            except asyncio.IncompleteReadError:
                return
            keys.append(header.api_key)
            respond(writer, header, answers[header.api_key])

    async def use(channel: AsyncioChannel) -> None:
        await channel.send(UpdateMetadataRequest(live_brokers=[]), 6)
        await channel.send_negotiated(ControlledShutdownRequest(), 3)

    asyncio.run(with_server(serve, use, login=PlainLogin("admin", "secret")))
    assert keys == list(answers)


def test_a_closed_channel_sends_nothing() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def use(channel: AsyncioChannel) -> None:
        under_way = channel.send(UpdateMetadataRequest(), 6)
        channel.close()
        for answer in (under_way, channel.send(UpdateMetadataRequest(), 6)):
            with pytest.raises(ChannelBroken, match="closed"):
                await answer

    asyncio.run(with_server(serve, use))


@pytest.mark.parametrize("host", ["a" * 70 + ".example", "a\x00b"])
def test_an_address_that_is_none_fails_what_is_sent(host: str) -> None:
    async def run() -> None:
        transport = AsyncioTransport(asyncio.get_running_loop())
        channel = transport.channel(7, lambda: Endpoint("PLAINTEXT", host, 9092), "broker-1", 60_000)
        for _ in range(2):
            async with asyncio.timeout(10):
                with pytest.raises(ChannelBroken, match="broker 7 cannot be reached") as caught:
                    await channel.send(UpdateMetadataRequest(), 0)
            assert not caught.value.refused
        channel.close()

    asyncio.run(run())


def test_an_image_that_cannot_be_asked_for_an_address_fails_what_is_sent() -> None:
    def broken() -> Endpoint:
        raise LookupError("a bug")

    async def run() -> None:
        channel = AsyncioTransport(asyncio.get_running_loop()).channel(7, broken, "broker-1", 60_000)
        async with asyncio.timeout(10):
            with pytest.raises(ChannelBroken, match="a bug"):
                await channel.send(UpdateMetadataRequest(), 0)
        channel.close()

    asyncio.run(run())
