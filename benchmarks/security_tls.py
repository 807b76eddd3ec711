"""TLS 1.3 beside plain connections, of our broker and of Kafka: produce, fetch, and 5,000 connections.

The client is librdkafka in a process of its own, for all alike; what is compared is the broker's CPU.
"""

from __future__ import annotations

import json
import resource
import socket
import ssl
import subprocess
import sys
from typing import Any

from benchmarks.broker_librdkafka import consume, produce
from benchmarks.clusters import own_version
from benchmarks.peers import KAFKA, OURS, kafka_peer, package_version
from benchmarks.results import Measure, Outcome
from benchmarks.sections import Context
from benchmarks.secured_peers import CONTENDERS, Secured, running_secured

PARTITIONS = 4
RECORD_BYTES = 1024
SIZES = {"16 KiB": 16_384, "1 MiB": 1_000_000}
PROTOCOLS = ("PLAINTEXT", "SSL")
CONNECTIONS = 5_000
RECORDS, QUICK = 131_072, 32_768


def _client(peer: Secured, what: str, protocol: str, size: int) -> dict[str, Any]:
    configs: dict[str, Any] = {
        "bootstrap.servers": f"127.0.0.1:{peer.port if protocol == 'PLAINTEXT' else peer.secured_port}",
        "security.protocol": protocol,
    }
    if what == "produce":
        configs["batch.size"] = size
    else:
        configs["fetch.message.max.bytes"] = size
    if protocol == "SSL":
        configs["ssl.ca.location"] = str(peer.stores.ca)
    return configs


def _measure(peer: Secured, what: str, configs: dict[str, Any], topic: str, count: int) -> dict[str, float]:
    cpu = peer.cpu_s()
    words = [
        sys.executable,
        "-m",
        "benchmarks.security_tls",
        what,
        topic,
        str(count),
        json.dumps(configs),
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=180)
    if done.returncode:
        raise RuntimeError(f"{peer.name}: {done.stderr[-2000:]}")
    seconds, records = json.loads(done.stdout)
    if records != count:
        raise RuntimeError(f"{peer.name}: {what} of {count} records ended with {records}")
    return {
        "MB/s": count * RECORD_BYTES / 1e6 / seconds,
        "CPU s per GiB": (peer.cpu_s() - cpu) / (count * RECORD_BYTES / 2**30),
    }


def _connect_many(peer: Secured, number: int) -> tuple[float, float]:
    """Return the memory in KiB that a TLS connection costs the broker, and CPU in ms of its handshake."""
    context = ssl.create_default_context(cafile=str(peer.stores.ca))
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    before, cpu = peer.resident_mib(), peer.cpu_s()
    open_ones = []
    try:
        for _ in range(number):
            plain = socket.create_connection(("127.0.0.1", peer.secured_port), 30)
            open_ones.append(context.wrap_socket(plain, server_hostname="127.0.0.1"))
            # ApiVersions, that buffers are touched.
            open_ones[-1].sendall(bytes.fromhex("0000000d00120000000000010003616263"))
            assert open_ones[-1].recv(4096)
        return (peer.resident_mib() - before) * 1024 / number, (peer.cpu_s() - cpu) * 1000 / number
    finally:
        for one in open_ones:
            one.close()


def measure(context: Context) -> list[Measure]:
    """Produce topics and consume them, over both protocols, in turns; then connect often."""
    from odradek.client import Admin, NewTopic

    count = QUICK if context.quick else RECORDS
    figures: dict[tuple[str, str], dict[str, list[float]]] = {}

    def note(case: str, label: str, who: str, value: float) -> None:
        figures.setdefault((case, label), {}).setdefault(who, []).append(value)

    with running_secured("SSL", context.say) as peers:
        for number in range(-1, context.rounds):
            for label, size in SIZES.items():
                for protocol in PROTOCOLS:
                    for who, peer in peers.items():
                        topic = f"tls-{number + 1}-{size}-{protocol}"
                        with Admin(bootstrap_servers=peer.servers) as admin:
                            admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
                        for what in ("produce", "consume"):
                            found = _measure(peer, what, _client(peer, what, protocol, size), topic, count)
                            shown = "TLS 1.3" if protocol == "SSL" else "plain"
                            case = f"librdkafka, {what}, {label}, {shown}"
                            words = ", ".join(f"{value:.3g} {unit}" for unit, value in found.items())
                            context.say(f"{case}, round {number + 1}, {who}: {words}")
                            if number >= 0:
                                note(case, "CPU s per GiB", who, found["CPU s per GiB"])
                                if what == "produce":  # consume() ends with a wait
                                    note(case, "MB/s", who, found["MB/s"])
                        with Admin(bootstrap_servers=peer.servers) as admin:
                            admin.delete_topics([topic])
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        many = min(CONNECTIONS, max(100, min(soft, hard) - 500))
        for who, peer in peers.items():
            kib, ms = _connect_many(peer, many)
            case = f"{many:,} TLS 1.3 connections, RSA 2048"
            note(case, "KiB of memory per connection", who, kib)
            note(case, "CPU ms per handshake", who, ms)
            context.say(f"{case}, {who}: {kib:.1f} KiB, {ms:.2f} ms")
    return [
        Measure(case, label, values, not label.startswith("MB"), {KAFKA: 1.0} if "TLS" in case else {})
        for (case, label), values in figures.items()
    ]


def outcome(name: str, measures: list[Measure], rounds: int, count: int) -> Outcome:
    """Put the measures together."""
    versions = {OURS: own_version(), KAFKA: kafka_peer.NEWEST, "OpenSSL of Python": ssl.OPENSSL_VERSION}
    versions["confluent-kafka"] = package_version("confluent-kafka") or "?"
    settings = {"rounds": rounds, "records": f"{count:,} of 1 KiB", "partitions": PARTITIONS}
    notes = [
        "Other work took turns on the two processors of the machine: compare CPU, not rates.",
        "The client (librdkafka, with a Python loop) shares the machine; CPU is the broker’s alone.",
        "Plain connections of our broker send files by `sendfile`; over TLS they are read and encrypted.",
    ]
    title = "TLS 1.3 beside plain connections"
    return Outcome(name, title, list(CONTENDERS), versions, measures, settings, notes, {})


def run(name: str, context: Context) -> Outcome:
    """Measure all."""
    return outcome(name, measure(context), context.rounds, QUICK if context.quick else RECORDS)


if __name__ == "__main__":
    mode = {"produce": produce, "consume": consume}[sys.argv[1]]
    given = json.loads(sys.argv[4])
    servers = given.pop("bootstrap.servers")
    print(json.dumps(mode(servers, sys.argv[2], int(sys.argv[3]), given)))
