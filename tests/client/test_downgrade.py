"""Nobody is talked into less than was asked for: old TLS, a weaker suite or mechanism, the plain listener.

On one side a client that offers only what is weak, on the other a broker, or somebody on the way, that says
the other side can do no better.
"""

from __future__ import annotations

import base64
import contextlib
import socket
import ssl
import struct
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from odradek import Admin, Consumer, Producer, TopicPartition
from odradek.client.errors import (
    ClientTimeoutError,
    ConnectionFailedError,
    SaslAuthenticationError,
    SslAuthenticationError,
)
from odradek.errors import ErrorCode, KafkaError
from odradek.testing import Broker, Security
from odradek.wire.api import ApiKey
from odradek.wire.headers import decode_response, encode_request
from odradek.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from odradek.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from waiting import joined

from .scripted import Answer, ScriptedBroker

USERS = {"alice": "t0p-secret"}
AT_ONCE = {"connection.failed.authentication.delay.ms": "1"}
BRIEF = {"default.api.timeout.ms": "1000", "retry.backoff.ms": "10"}
SCRAM = "SCRAM-SHA-512"

HANDSHAKE, ALERT, FATAL, PROTOCOL_VERSION, HANDSHAKE_FAILURE = 22, 21, 2, 70, 40


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    with Broker(security=Security(users=USERS, tls=True, mechanisms=(SCRAM,), configs=AT_ONCE)) as broker:
        yield broker


def logs_in(broker: Broker) -> None:
    with Admin(broker.client_configs("alice")) as admin:
        admin.list_topics()


# ---------------------------------------------------------------------- clients that offer only what is weak


def hello(oldest: ssl.TLSVersion, newest: ssl.TLSVersion, ciphers: str) -> bytes:
    """The first words of a client of OpenSSL's, with nothing in it against what is old or weak."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers(f"{ciphers}:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version, context.maximum_version = oldest, newest
    outgoing = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1").do_handshake()
    return outgoing.read()


@pytest.mark.parametrize(
    ("oldest", "newest", "ciphers", "alert"),
    [
        (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1, "ALL", PROTOCOL_VERSION),
        (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1, "ALL", PROTOCOL_VERSION),
        (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2, "eNULL:aNULL", HANDSHAKE_FAILURE),
    ],
    ids=["TLS 1.0", "TLS 1.0 and 1.1", "suites without encryption or certificates"],
)
def test_a_client_that_offers_only_old_tls_or_weak_suites(
    oldest: ssl.TLSVersion, newest: ssl.TLSVersion, ciphers: str, alert: int, secured: Broker
) -> None:
    with socket.create_connection((secured.host, secured.port), 30) as connection:
        connection.sendall(hello(oldest, newest, ciphers))
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while more := connection.recv(4096):
                answer += more
    assert (answer[0], *answer[5:]) == (ALERT, FATAL, alert)
    logs_in(secured)


def ask(stream: Any, message: Any, version: int) -> Any:
    stream.write(b"".join(encode_request(message.API_KEY, version, 1, "c", message)))
    stream.flush()
    size = int.from_bytes(stream.read(4), "big")
    return decode_response(stream.read(size), message.API_KEY, version)[1]


@contextmanager
def encrypted(broker: Broker) -> Iterator[Any]:
    security = broker.security
    assert security is not None
    context = ssl.create_default_context(cadata=security.authority.trust()["ssl.truststore.certificates"])
    with (
        socket.create_connection((broker.host, broker.port), 30) as plain,
        context.wrap_socket(plain, server_hostname=broker.host) as connection,
        connection.makefile("rwb") as stream,
    ):
        yield stream


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "ANONYMOUS", ""])
def test_a_client_that_offers_only_a_weaker_mechanism(mechanism: str, secured: Broker) -> None:
    """It is told what there is, and nothing that it says after that lets it in."""
    with encrypted(secured) as stream:
        answer = ask(stream, SaslHandshakeRequest(mechanism=mechanism), 1)
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert list(answer.mechanisms) == [SCRAM]
        assert stream.read() == b""  # hung up
    logs_in(secured)


def test_a_mechanism_is_not_changed_after_the_handshake(secured: Broker) -> None:
    """SCRAM was agreed on; what PLAIN would say is no message of it, right as the password is."""
    with encrypted(secured) as stream:
        assert ask(stream, SaslHandshakeRequest(mechanism=SCRAM), 1).error_code == 0
        plain = b"\0alice\0" + USERS["alice"].encode()
        answer = ask(stream, SaslAuthenticateRequest(auth_bytes=plain), 1)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert stream.read() == b""


def test_the_plain_listener_gives_no_rights_of_the_secured_one() -> None:
    """Who comes by it is nobody in particular, may do what nobody may, and learns its own address alone."""
    both = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "offsets.topic.num.partitions": "1",
    }
    security = Security(users=USERS, super_users=("User:alice",), configs={**AT_ONCE, **both})
    with Broker(security=security) as broker:
        ports = broker.call(lambda one: {listener.name: listener.port for listener in one.listeners})
        login = {**security.client_configs("alice"), "bootstrap.servers": at(ports["SASL_PLAINTEXT"])}
        plain: dict[str, Any] = {"bootstrap.servers": at(ports["PLAINTEXT"])}
        with Producer(login) as producer:
            producer.send("pay", value=b"much").result(60)
        with Admin(login) as admin:
            assert [node.port for node in admin.describe_cluster().nodes] == [ports["SASL_PLAINTEXT"]]
        with Admin(plain) as admin:
            assert [node.port for node in admin.describe_cluster().nodes] == [ports["PLAINTEXT"]]
            assert list(admin.list_topics()) == []
        with pytest.raises(KafkaError) as raised, Producer(plain) as producer:
            producer.send("pay", value=b"more").result(60)
        assert raised.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        with pytest.raises(KafkaError) as raised, Consumer(plain, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("pay", 0)])
            consumer.poll(timeout_ms=30_000)
        assert raised.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


# ---------------------------------------------------------------------- somebody on the way


def at(port: int) -> str:
    return f"127.0.0.1:{port}"


class Meddler:
    """Passes on what two sides say, the first record of the client's changed.

    Args:
        target: the port of the broker.
        change: what becomes of the client's first record.
    """

    def __init__(self, target: int, change: Callable[[bytes], bytes]) -> None:
        self._target, self._change = target, change
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.meddled = 0
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> Meddler:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            joined(thread)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target), 30)
            for work in (self._forth, self._back):
                thread = threading.Thread(target=work, args=(client, server))
                self._threads.append(thread)
                thread.start()

    def _forth(self, client: socket.socket, server: socket.socket) -> None:
        head = client.recv(5, socket.MSG_WAITALL)
        if len(head) == 5:
            record = head + client.recv(int.from_bytes(head[3:], "big"), socket.MSG_WAITALL)
            server.sendall(self._change(record))
            self.meddled += 1
        pump(client, server)

    def _back(self, client: socket.socket, server: socket.socket) -> None:
        pump(server, client)
        client.close()
        server.close()


def pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while more := source.recv(65_536):
            sink.sendall(more)
    for one in (source, sink):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def suites_of(record: bytes) -> tuple[int, int]:
    """Where a ClientHello's cipher suites begin, and how many bytes they have (RFC 8446, 4.1.2)."""
    place = 5 + 4 + 2 + 32
    place += 1 + record[place]
    return place + 2, int.from_bytes(record[place : place + 2], "big")


def without_1_3(record: bytes) -> bytes:
    """A ClientHello whose list of versions (extension 43) names one that nobody has in place of TLS 1.3."""
    start, size = suites_of(record)
    place = start + size
    place += 1 + record[place] + 2
    while place < len(record):
        kind, length = struct.unpack_from(">HH", record, place)
        if kind == 43:
            listed = record[place + 4 : place + 4 + length]
            assert b"\x03\x04" in listed
            return (
                record[: place + 4] + listed.replace(b"\x03\x04", b"\x7a\x7a") + record[place + 4 + length :]
            )
        place += 4 + length
    raise AssertionError("a client without TLS 1.3")


def with_one_suite_less(record: bytes) -> bytes:
    """A ClientHello whose best cipher suite is one that nobody has."""
    start, _ = suites_of(record)
    return record[:start] + b"\x0a\x0a" + record[start + 2 :]


@pytest.mark.parametrize("change", [without_1_3, with_one_suite_less])
def test_whoever_takes_the_best_out_of_a_hello_is_found_out(
    change: Callable[[bytes], bytes], secured: Broker
) -> None:
    configs = secured.client_configs("alice")
    with (
        Meddler(secured.port, lambda record: record) as honest,
        Admin(configs | {"bootstrap.servers": at(honest.port)}) as admin,
    ):
        assert admin.describe_cluster().nodes  # the road itself is good
    before = logins(secured)
    with Meddler(secured.port, change) as meddler:
        configs["bootstrap.servers"] = at(meddler.port)
        with pytest.raises(SslAuthenticationError), Admin(configs) as admin:
            admin.list_topics()
        assert meddler.meddled
    assert logins(secured) == before


def logins(broker: Broker) -> float:
    return sum(
        value for (_, name, _), value in broker.metrics().items() if name == "successful-authentication-total"
    )


class Listening:
    """Takes connections, says `greeting` at once, and keeps all that it hears."""

    def __init__(self, greeting: bytes) -> None:
        self._greeting = greeting
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.heard: list[bytes] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def __enter__(self) -> Listening:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        joined(self._thread)

    def _run(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            heard = b""
            with client, contextlib.suppress(OSError):
                heard = client.recv(65_536)
                client.sendall(self._greeting)
                while more := client.recv(65_536):
                    heard += more
            self.heard.append(heard)


PLAIN_ANSWER = struct.pack(">iihi", 10, 0, 0, 0)
"""ApiVersions 0, answered by a broker without TLS."""


@pytest.mark.parametrize(
    "greeting",
    [PLAIN_ANSWER, bytes((ALERT, 3, 3, 0, 2, FATAL, PROTOCOL_VERSION)), b""],
    ids=["it speaks no TLS", "an alert: it can do only older TLS", "it hangs up"],
)
def test_a_client_of_tls_says_nothing_in_clear(greeting: bytes) -> None:
    """Whatever a broker says to it, and as often as it tries again: each time the same offer of TLS 1.3."""
    security = Security(users=USERS, tls=True, mechanisms=("PLAIN",))
    with Listening(greeting) as false_one:
        configs = {**security.client_configs("alice"), **BRIEF, "bootstrap.servers": at(false_one.port)}
        with pytest.raises((ConnectionFailedError, ClientTimeoutError)), Admin(configs) as admin:
            admin.list_topics()
    assert false_one.heard
    for heard in false_one.heard:
        assert heard[0] == HANDSHAKE and USERS["alice"].encode() not in heard
        without_1_3(heard)  # raises where TLS 1.3 is not offered


# ---------------------------------------------------------------------- brokers that list less


def handshake(error: int, *mechanisms: str) -> Answer:
    return lambda request, version: SaslHandshakeResponse(error_code=error, mechanisms=list(mechanisms))


def never(request: Any, version: int) -> Any:
    raise AssertionError("the client went on")


VERSIONS = {
    int(ApiKey.SASL_HANDSHAKE): (0, 1),
    int(ApiKey.SASL_AUTHENTICATE): (0, 2),
    int(ApiKey.METADATA): (0, 12),
}


def alice_at(broker: ScriptedBroker) -> dict[str, Any]:
    security = Security(users=USERS, mechanisms=(SCRAM,))
    return {**security.client_configs("alice"), "bootstrap.servers": broker.at}


@pytest.mark.parametrize("listed", [("PLAIN",), ("SCRAM-SHA-256", "PLAIN"), ()])
def test_a_broker_that_lists_weaker_mechanisms_gets_no_login(listed: tuple[str, ...]) -> None:
    answers = {
        ApiKey.SASL_HANDSHAKE: handshake(ErrorCode.UNSUPPORTED_SASL_MECHANISM, *listed),
        ApiKey.SASL_AUTHENTICATE: never,
    }
    with ScriptedBroker(answers, VERSIONS) as broker:
        with (
            pytest.raises(SaslAuthenticationError, match="'SCRAM-SHA-512' not enabled"),
            Admin(alice_at(broker)) as admin,
        ):
            admin.list_topics()
        assert {key for key, _ in broker.asked} == {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE}


def saying(*tokens: Callable[[bytes], bytes]) -> tuple[Answer, list[bytes]]:
    """Answers to the messages of a login, in turn, and the messages."""
    heard: list[bytes] = []

    def answer(request: Any, version: int) -> SaslAuthenticateResponse:
        heard.append(bytes(request.auth_bytes))
        return SaslAuthenticateResponse(auth_bytes=tokens[len(heard) - 1](heard[0]))

    return answer, heard


def weak_challenge(first: bytes) -> bytes:
    """A salt, and one iteration: what a proof made with it is worth is soon found out."""
    nonce = first[first.index(b"r=") :]
    return nonce + b"more,s=" + base64.b64encode(b"salt") + b",i=1"


@pytest.mark.parametrize(
    ("challenge", "why"),
    [
        (weak_challenge, "less than the minimum 4096"),
        (lambda first: b"", "."),
    ],
    ids=["one iteration", "let in without a proof"],
)
def test_a_broker_that_asks_for_less_of_scram_gets_no_proof(
    challenge: Callable[[bytes], bytes], why: str
) -> None:
    answer, heard = saying(challenge)
    # It agrees to the mechanism, and lists others.
    answers = {ApiKey.SASL_HANDSHAKE: handshake(0, "PLAIN"), ApiKey.SASL_AUTHENTICATE: answer}
    with (
        ScriptedBroker(answers, VERSIONS) as broker,
        pytest.raises(SaslAuthenticationError, match=why),
        Admin(alice_at(broker)) as admin,
    ):
        admin.list_topics()
    assert heard and all(one.startswith(b"n,,n=alice,r=") for one in heard)
    assert ApiKey.METADATA not in {key for key, _ in broker.asked}


class OldBroker(ScriptedBroker):
    """Takes a login in bare frames, as Kafka 0.10 does, and lets in whoever says something."""

    heard: list[bytes]

    def _answer(self, frame: bytes) -> list[Any]:
        if not frame.startswith(b"n,,"):
            return super()._answer(frame)
        self.heard.append(frame)
        return [bytes(4)]


@pytest.mark.parametrize(
    "versions",
    [
        {int(ApiKey.METADATA): (0, 12)},
        {int(ApiKey.SASL_HANDSHAKE): (0, 0), int(ApiKey.METADATA): (0, 12)},
    ],
    ids=["no SASL", "SASL of 0.10"],
)
def test_a_broker_that_lists_fewer_versions_is_not_served_without_a_login(
    versions: dict[int, tuple[int, int]],
) -> None:
    """The client logs in all the same, by the same mechanism, and goes on only when it has its proof."""
    answers = {ApiKey.SASL_HANDSHAKE: handshake(0, SCRAM), ApiKey.METADATA: never}
    with OldBroker(answers, versions) as broker:
        broker.heard = []
        with pytest.raises(SaslAuthenticationError), Admin(alice_at(broker)) as admin:
            admin.list_topics()
        assert broker.heard and all(one.startswith(b"n,,n=alice,r=") for one in broker.heard)
        assert set(broker.asked) >= {(ApiKey.SASL_HANDSHAKE, 0)}
        assert {key for key, _ in broker.asked} == {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE}
