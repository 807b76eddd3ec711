"""Storms at a broker's door: TLS handshakes by the thousand, begun at once, and logins that fail.

A third of the handshakes is gone through with, a third begins and then says nothing, a third is damaged.
Meanwhile somebody who is connected goes on asking. Told are the longest stretch for which the event loop's
thread worked without looking up, in its own processor time, how long the other one waited, and what memory it
took.

    python -m benchmarks.security_storm broker FOLDER      the broker: tells its ports, then answers each line
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import random
import resource
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.clusters import own_version
from benchmarks.peers import OURS, in_memory
from benchmarks.results import Measure, Outcome, percentile
from benchmarks.sections import Context
from odradek.testing.certificates import CertificateAuthority
from odradek.wire.headers import encode_request
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.wire.messages.sasl_handshake import SaslHandshakeRequest

if TYPE_CHECKING:
    from odradek.broker.app import Broker

HANDSHAKES, QUICK_HANDSHAKES = 3_000, 300
LOGINS, QUICK_LOGINS = 10_000, 1_000
LIMIT_MS = 50
"""For which no peer may keep the event loop from the others."""

_AT_ONCE = 200
"""Failing logins under way: each is answered after 100 ms."""

_STRETCH = "longest stretch of the loop, ms of CPU"
_WORST = "longest stretch of the loop in the worst round, ms of CPU"
_FIRST = "memory at its most in the first storm of all, MiB more"
_TICK_S = 0.001
_ASK_S = 0.002
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=secret;"


# ---------------------------------------------------------------------------- the broker


class _Stretches:
    """The longest stretch of the loop's thread between two looks at its timers."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.longest_s = 0.0
        self._last = time.thread_time()
        loop.call_soon(self._tick)

    def _tick(self) -> None:
        now = time.thread_time()
        self.longest_s = max(self.longest_s, now - self._last)
        self._last = now
        self._loop.call_later(_TICK_S, self._tick)


def _mib(name: str) -> float:
    """A figure of the kernel's about this process's memory."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


def _serve(folder: Path) -> None:
    """Run the broker; each line of standard input is answered with what there was since the one before."""
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.broker.process import main

    authority = CertificateAuthority(rsa_bits=2048)
    issued = authority.issue("broker", hosts=["127.0.0.1"])
    authority.write_trust_store(folder / "ca.pem")
    configs = {
        "log.dirs": str(folder / "data"),
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": _PLAIN,
        **issued.configs(),
    }
    found: list[Any] = []

    def observe(broker: Broker) -> None:
        stretches = _Stretches(asyncio.get_running_loop())
        ports = {one.name: one.port for one in broker.listeners}
        found.append(broker)
        threading.Thread(target=_answer, args=(stretches, ports), daemon=True).start()

    main.run(BrokerConfig(configs), observe=observe)


def _answer(stretches: _Stretches, ports: dict[str, int]) -> None:
    print(json.dumps(ports), flush=True)
    for _ in sys.stdin:
        told = {
            "longest_ms": stretches.longest_s * 1000,
            "resident_mib": _mib("VmRSS"),
            "most_mib": _mib("VmHWM"),
        }
        stretches.longest_s = 0.0
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # forgets what was the most
        print(json.dumps(told), flush=True)


# ---------------------------------------------------------------------------- what comes to it


class _Other:
    """Somebody who is connected, and asks every two milliseconds."""

    def __init__(self, port: int) -> None:
        self.waited_ms: list[float] = []
        self._socket = socket.create_connection(("127.0.0.1", port), 60)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        request = b"".join(encode_request(18, 0, 1, "other", ApiVersionsRequest()))
        while not self._ended.wait(_ASK_S):
            began = time.perf_counter()
            self._socket.sendall(request)
            size = int.from_bytes(self._socket.recv(4, socket.MSG_WAITALL), "big")
            assert len(self._socket.recv(size, socket.MSG_WAITALL)) == size
            self.waited_ms.append((time.perf_counter() - began) * 1000)

    def end(self) -> None:
        self._ended.set()
        self._thread.join()
        self._socket.close()


def handshakes(ports: dict[str, int], folder: Path, count: int) -> None:
    """Connect so often, and then begin all handshakes at once."""
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    dice = random.Random(1)
    peers = []
    for number in range(count):
        raw = socket.create_connection(("127.0.0.1", ports["SSL"]), 60)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        with contextlib.suppress(ssl.SSLWantReadError):
            session.do_handshake()
        hello = bytearray(outgoing.read())
        if number % 3 == 1:
            hello[dice.randrange(5, len(hello))] ^= 1 << dice.randrange(8)
        peers.append((number % 3, raw, session, incoming, outgoing, bytes(hello)))
    for _, raw, *_, hello in peers:
        raw.sendall(hello)
    for kind, raw, session, incoming, outgoing, _ in peers:
        if kind == 0:
            _go_through(raw, session, incoming, outgoing)
    for _, raw, *_ in peers:
        raw.close()


def _go_through(raw: socket.socket, session: Any, incoming: Any, outgoing: Any) -> None:
    while True:
        incoming.write(raw.recv(65_536))
        try:
            session.do_handshake()
        except ssl.SSLWantReadError:
            continue
        raw.sendall(outgoing.read())
        return


def logins(ports: dict[str, int], folder: Path, count: int) -> None:
    """Log in with a wrong password, or as nobody, so often; some hundred at once."""

    async def fail(number: int, gate: asyncio.Semaphore) -> None:
        async with gate:
            reader, writer = await asyncio.open_connection("127.0.0.1", ports["SASL_PLAINTEXT"])
            mechanism = ("PLAIN", "SCRAM-SHA-256")[number % 2]
            writer.write(_frame(17, SaslHandshakeRequest(mechanism=mechanism)))
            if mechanism == "PLAIN":
                writer.write(_token(b"\0alice\0wrong"))
                await _answer_of(reader)
            else:
                writer.write(_token(b"n,,n=nobody,r=0123456789"))
                await _answer_of(reader)
                challenge = await _answer_of(reader)
                nonce = challenge[challenge.index(b"r=") :].split(b",")[0]
                writer.write(_token(b"c=biws," + nonce + b",p=" + base64.b64encode(bytes(32))))
            assert await reader.read()
            writer.close()

    async def main() -> None:
        gate = asyncio.Semaphore(_AT_ONCE)
        await asyncio.gather(*(fail(number, gate) for number in range(count)))

    asyncio.run(main())


def _frame(key: int, message: Any) -> bytes:
    return b"".join(encode_request(key, 1, 1, "storm", message))


def _token(token: bytes) -> bytes:
    return _frame(36, SaslAuthenticateRequest(auth_bytes=token))


async def _answer_of(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


STORMS: dict[str, tuple[Callable[[dict[str, int], Path, int], None], int, int]] = {
    "TLS handshakes begun at once": (handshakes, HANDSHAKES, QUICK_HANDSHAKES),
    "failing logins": (logins, LOGINS, QUICK_LOGINS),
}


# ---------------------------------------------------------------------------- measuring


def run(name: str, context: Context) -> Outcome:
    """All storms, round by round."""
    notes = [
        "The stretch is between two looks of the loop at its timers, one of which is due every millisecond. "
        "A round of all storms comes first and is not among the others: memory that OpenSSL has had once "
        "stays with the process for what comes next, so it is told apart what that round took."
    ]
    return Outcome(
        name,
        "Storms at the door: handshakes begun at once, failing logins",
        [OURS],
        {OURS: own_version(), "OpenSSL of Python": ssl.OPENSSL_VERSION},
        _measure(context),
        {"rounds": context.rounds},
        notes,
    )


def _measure(context: Context) -> list[Measure]:
    measures: dict[tuple[str, str], Measure] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-", dir=in_memory())))
        ports, ask = stack.enter_context(_running(folder))
        for number in range(-1, context.rounds):
            for what, (storm, whole, quick) in STORMS.items():
                count = quick if context.quick else whole
                other = _Other(ports["PLAINTEXT"])
                before, began = ask(), time.perf_counter()
                try:
                    _in_process(storm.__name__, ports, folder, count)
                finally:
                    other.end()
                seconds, after = time.perf_counter() - began, ask()
                case = f"{count:,} {what}"
                figures = {
                    _STRETCH: after["longest_ms"],
                    "another client waited, ms, 99 %": percentile(other.waited_ms, 99),
                    "memory at its most, MiB more": after["most_mib"] - before["resident_mib"],
                    "memory that stays, MiB more": after["resident_mib"] - before["resident_mib"],
                    "a minute": count / seconds * 60,
                }
                words = ", ".join(f"{label} {value:,.1f}" for label, value in figures.items())
                context.say(f"round {number + 1}: {case}: {words}")
                if number < 0:
                    # Discarded but for this: OpenSSL takes most of its memory once.
                    figures = {_FIRST: figures["memory at its most, MiB more"]}
                for label, value in figures.items():
                    less = label != "a minute"
                    one = measures.setdefault((case, label), Measure(case, label, {}, less))
                    one.values.setdefault(OURS, []).append(value)
                    if label == _STRETCH:
                        worst = max(one.values[OURS])
                        measures[case, _WORST] = Measure(case, _WORST, {OURS: [worst]}, True, limit=LIMIT_MS)
    cases = list(dict.fromkeys(case for case, _ in measures))
    return sorted(measures.values(), key=lambda one: cases.index(one.case))


def _in_process(what: str, ports: dict[str, int], folder: Path, count: int) -> None:
    """What storms has a process of its own: it would keep the other client from its clock."""
    words = [
        sys.executable,
        "-m",
        "benchmarks.security_storm",
        what,
        str(folder),
        json.dumps(ports),
        str(count),
    ]
    subprocess.run(words, check=True, timeout=600)


@contextmanager
def _running(folder: Path) -> Iterator[tuple[dict[str, int], Callable[[], dict[str, float]]]]:
    words = [sys.executable, "-m", "benchmarks.security_storm", "broker", str(folder)]
    with (folder / "broker.log").open("wb") as errors:
        child = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, bufsize=1
        )
    assert child.stdin is not None and child.stdout is not None
    stdin, stdout = child.stdin, child.stdout

    def ask() -> dict[str, float]:
        stdin.write("\n")
        told: dict[str, float] = json.loads(stdout.readline())
        return told

    try:
        yield json.loads(stdout.readline()), ask
    finally:
        child.terminate()
        child.wait(60)


def _main(words: list[str]) -> None:
    what, folder = words[0], Path(words[1])
    if what == "broker":
        _serve(folder)
        return
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    {"handshakes": handshakes, "logins": logins}[what](json.loads(words[2]), folder, int(words[3]))


if __name__ == "__main__":
    _main(sys.argv[1:])
