"""Small produce requests over SASL_SSL, of our broker and of Kafka, in turns; beside them the same in clear.

The client is a loop of Python's own sockets in a process of its own, for both alike: it logs in by PLAIN over
TLS 1.3, and keeps so many requests in flight on each connection. What is compared is the broker's CPU.

    python -m benchmarks.security_small OPTIONS      one run of the client, told in JSON
"""

from __future__ import annotations

import json
import selectors
import socket
import ssl
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.clusters import own_version
from benchmarks.peers import KAFKA, OURS, Peer, kafka_peer
from benchmarks.results import Measure, Outcome
from benchmarks.sections import Context
from benchmarks.secured_peers import CONTENDERS, Secured, running_secured
from odradek.records.builder import build_batch
from odradek.sasl.jaas import quote
from odradek.wire.headers import decode_response, encode_request
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.wire.messages.sasl_handshake import SaslHandshakeRequest

CASES = {"1 connection, 5 in flight": (1, 5), "100 connections, 1 in flight each": (100, 1)}
PROTOCOLS = ("SASL_SSL", "plain")
USER, PASSWORD = "load", "s3cret"
WARMUP_S = 1.0
FIRST_WARMUP_S = {KAFKA: 10.0}
"""Of each case's discarded round: a JVM compiles while it runs."""

_LOGINS = {
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_ssl.plain.sasl.jaas.config": (
        f"org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}={quote(PASSWORD)};"
    ),
}


# ---------------------------------------------------------------------------- the client


@dataclass
class Load:
    """One run: so many connections, so many requests in flight on each; `ca` is empty for plain ones."""

    port: int
    pid: int
    ca: str
    topic: str
    connections: int
    in_flight: int
    warmup: float
    seconds: float


def _frame(message: Any, version: int) -> bytes:
    return b"".join(map(bytes, encode_request(message.API_KEY, version, 1, "load", message)))


def _answer(connection: socket.socket, key: int, version: int) -> Any:
    got = b""
    while len(got) < 4 or len(got) < 4 + int.from_bytes(got[:4], "big"):
        more = connection.recv(65_536)
        if not more:
            raise RuntimeError("the broker hung up")
        got += more
    return decode_response(got[4:], key, version)[1]


def _connect(load: Load, context: ssl.SSLContext | None) -> socket.socket:
    plain = socket.create_connection(("127.0.0.1", load.port), 60)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if context is None:
        return plain
    connection = context.wrap_socket(plain, server_hostname="127.0.0.1")
    connection.sendall(_frame(SaslHandshakeRequest(mechanism="PLAIN"), 1))
    if _answer(connection, SaslHandshakeRequest.API_KEY, 1).error_code:
        raise RuntimeError("no PLAIN")
    token = f"\0{USER}\0{PASSWORD}".encode()
    connection.sendall(_frame(SaslAuthenticateRequest(auth_bytes=token), 2))
    if _answer(connection, SaslAuthenticateRequest.API_KEY, 2).error_code:
        raise RuntimeError("not logged in")
    return connection


def _request(topic: str) -> bytes:
    batch = build_batch([(int(time.time() * 1000), None, bytes(100), ())])
    partition = PartitionProduceData(index=0, records=batch)
    data = [TopicProduceData(name=topic, partition_data=[partition])]
    return _frame(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=data), 7)


def drive(load: Load) -> dict[str, float]:
    """Run it. Raises `RuntimeError` where the broker does not do as it is asked."""
    context = ssl.create_default_context(cafile=load.ca) if load.ca else None
    request = _request(load.topic)
    broker = Peer("", Path(), pid=load.pid)
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        for _ in range(load.connections):
            connection = stack.enter_context(_connect(load, context))
            connection.sendall(request)
            answer = _answer(connection, ProduceRequest.API_KEY, 7)
            if error := answer.responses[0].partition_responses[0].error_code:
                raise RuntimeError(f"error {error}")
            connection.setblocking(False)
            selector.register(connection, selectors.EVENT_READ, bytearray())
            connection.sendall(request * load.in_flight)
        began = time.perf_counter() + load.warmup
        cpu, done = None, 0
        while True:
            now = time.perf_counter()
            if cpu is None and now >= began:
                cpu, done, began = broker.cpu_s(), 0, now
            if cpu is not None and now >= began + load.seconds:
                break
            for key, _ in selector.select(1.0):
                answered = _answered(key.fileobj, key.data)
                done += answered
                if answered:
                    key.fileobj.sendall(request * answered)  # type: ignore[union-attr]
        used = broker.cpu_s() - cpu
        seconds = time.perf_counter() - began
    return {"requests/s": done / seconds, "CPU µs per request": used / done * 1e6}


def _answered(connection: Any, rest: bytearray) -> int:
    """Read what is there; return how many answers are complete."""
    try:
        while True:
            more = connection.recv(65_536)
            if not more:
                raise RuntimeError("the broker hung up")
            rest += more
            if not (isinstance(connection, ssl.SSLSocket) and connection.pending()):
                break
    except (ssl.SSLWantReadError, BlockingIOError):
        pass
    place = count = 0
    while len(rest) - place >= 4:
        end = place + 4 + int.from_bytes(rest[place : place + 4], "big")
        if end > len(rest):
            break
        place, count = end, count + 1
    del rest[:place]
    return count


# ---------------------------------------------------------------------------- measuring


def _run(
    peer: Secured, protocol: str, topic: str, shape: tuple[int, int], warmup: float, seconds: float
) -> Any:
    secured = protocol == "SASL_SSL"
    options = {
        "port": peer.secured_port if secured else peer.port,
        "pid": peer.pid,
        "ca": str(peer.stores.ca) if secured else "",
        "topic": topic,
        "connections": shape[0],
        "in_flight": shape[1],
        "warmup": warmup,
        "seconds": seconds,
    }
    words = [sys.executable, "-m", "benchmarks.security_small", json.dumps(options)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=180)
    if done.returncode:
        raise RuntimeError(f"{peer.name}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def _measure(context: Context) -> list[Measure]:
    from odradek.client import Admin, NewTopic

    measures: dict[tuple[str, str], Measure] = {}
    with running_secured("SASL_SSL", context.say, _LOGINS) as peers:
        for number in range(-1, context.rounds):
            for case, shape in CASES.items():
                for protocol in PROTOCOLS:
                    # The one that begins has the colder processor.
                    for who in list(peers)[:: 1 if number % 2 else -1]:
                        topic = f"small-{number + 1}-{shape[0]}-{protocol}"
                        warmup = WARMUP_S if number >= 0 else FIRST_WARMUP_S.get(who, WARMUP_S)
                        with Admin(bootstrap_servers=peers[who].servers) as admin:
                            admin.create_topics([NewTopic(topic, 1, 1)])
                        found = _run(peers[who], protocol, topic, shape, warmup, context.seconds)
                        with Admin(bootstrap_servers=peers[who].servers) as admin:
                            admin.delete_topics([topic])
                        shown = f"{case}, {protocol}"
                        words = ", ".join(f"{value:,.4g} {unit}" for unit, value in found.items())
                        context.say(f"{shown}, round {number + 1}, {who}: {words}")
                        if number < 0:
                            continue
                        for unit, value in found.items():
                            less = unit.startswith("CPU")
                            bars = {KAFKA: 1.0} if less and protocol == "SASL_SSL" else {}
                            one = measures.setdefault((shown, unit), Measure(shown, unit, {}, less, bars))
                            one.values.setdefault(who, []).append(value)
    return list(measures.values())


def run(name: str, context: Context) -> Outcome:
    """All cases, round by round."""
    versions = {OURS: own_version(), KAFKA: kafka_peer.NEWEST, "OpenSSL of Python": ssl.OPENSSL_VERSION}
    settings = {"rounds": context.rounds, "seconds each": context.seconds}
    notes = [
        "One record of 100 B in each request, acks=1, one partition; SASL_SSL is TLS 1.3, RSA 2048, after a "
        "login by PLAIN.",
        "The client is a loop of Python’s, the same for all; it shares the machine, on which other work took "
        "turns: compare CPU, which is the broker’s alone, not rates.",
    ]
    title = "Small requests over SASL_SSL"
    return Outcome(name, title, list(CONTENDERS), versions, _measure(context), settings, notes)


if __name__ == "__main__":
    print(json.dumps(drive(Load(**json.loads(sys.argv[1])))))
