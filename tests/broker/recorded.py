"""Replays what real clients said to a real broker, and compares what ours answers with what that one did.

Time is the recording's: the broker's clock stands at the moment of the frame that is being replayed. Names
that a broker makes up (member ids, topic ids, fetch sessions) are translated on the way; producer ids are
the recording's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from odradek.broker.apis.registry import SERVED
from odradek.broker.app import Broker
from odradek.broker.metrics.metrics import FETCHES
from odradek.errors.codes import ErrorCode
from odradek.records.batch import Record, batch_records
from odradek.records.message_sets.message_set import MessageHeader, iter_entries, message_records
from odradek.util.timers import ManualTimers
from odradek.wire.api import ApiKey
from odradek.wire.check import read_golden
from odradek.wire.headers import decode_request_header, decode_response, encode_request
from odradek.wire.messages import request_class
from odradek.wire.structs import Struct

from .net import settle

MARKER = b"stands for the end of a transaction"

_SLACK_STEP_MS, _SLACK_MS = 50, 4_000

_ANY_MS = 1_795_220_000_000.0

_MADE_UP = {
    "throttle_time_ms",
    "host",
    "port",
    "cluster_id",
    "producer_id",
    "session_id",
    "unknown_tagged_fields",
}
_MADE_UP |= {"log_append_time_ms", "timestamp", "topic_id", "leader_epoch", "api_keys"}
_MADE_UP |= {"supported_features", "finalized_features", "finalized_features_epoch", "client_host"}


@dataclass
class Exchange:
    """One recorded request with its recorded answer, and ours."""

    at: int
    key: int
    version: int
    client_id: str | None
    request: Any
    recorded: Any = None
    ours: Any = None

    def __str__(self) -> str:
        return f"{self.at}: {ApiKey(self.key).api_name} {self.version} of {self.client_id}"


class NextProducer(NamedTuple):
    """A block of one producer id."""

    first: int
    last: int


@dataclass
class Names:
    """What the recording's broker has made up, to what ours has."""

    members: dict[str, str] = field(default_factory=dict)
    topics: dict[bytes, str] = field(default_factory=dict)
    sessions: dict[int, int] = field(default_factory=dict)


class _Stream:
    """One recorded connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.sent: dict[int, Exchange] = {}
        self.listening = asyncio.ensure_future(self._listen())

    async def _listen(self) -> None:
        while True:
            try:
                size = int.from_bytes(await self.reader.readexactly(4), "big")
                frame = await self.reader.readexactly(size)
            except (asyncio.IncompleteReadError, ConnectionError):
                return
            exchange = self.sent[int.from_bytes(frame[:4], "big", signed=True)]
            exchange.ours = _decode(exchange.key, exchange.version, frame)


class Replay:
    """One transcript against one broker.

    Attributes:
        exchanges: everything that was replayed, in the order of the requests.
        skipped: requests of APIs, or versions, that are not served here, and those for producer ids that the
            recording's broker had none for yet: ours would give out an epoch too many.
    """

    def __init__(self, broker: Broker, timers: ManualTimers) -> None:
        self.broker, self.timers = broker, timers
        self.names = Names()
        self.exchanges: list[Exchange] = []
        self.skipped: list[Exchange] = []
        self._streams: dict[int, _Stream] = {}

    async def run(self, path: Path) -> None:
        """Replay a file."""
        waiting: dict[tuple[int, int], Exchange] = {}
        skipped: set[tuple[int, int]] = set()
        now_ms = 0.0
        lines = list(read_golden(path))
        # Topic ids may be asked for in another order than they are told in.
        producer_ids: dict[tuple[int, int], int] = {}
        not_ready: set[tuple[int, int]] = set()
        for line in lines:
            if line["dir"] == "response":
                answer = _decode(line["key"], line["version"], bytes.fromhex(line["hex"]))
                self._learn_topics(answer)
                if line["key"] == ApiKey.INIT_PRODUCER_ID:
                    producer_ids[line["conn"], line["correlation"]] = answer.producer_id
                    if answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                        not_ready.add((line["conn"], line["correlation"]))
        for number, line in enumerate(lines):
            if line["t_ms"] > now_ms:
                self.timers.advance(line["t_ms"] - now_ms)
                now_ms = line["t_ms"]
            frame, at = bytes.fromhex(line["hex"]), (line["conn"], line["correlation"])
            if line["dir"] == "request":
                exchange = _exchange(number, frame)
                if _is_ours(exchange) and at not in not_ready:
                    waiting[at] = exchange
                    if exchange.key == ApiKey.INIT_PRODUCER_ID:
                        self._give_out(producer_ids.get(at, -1))
                    self.exchanges.append(exchange)
                    await self._send(line["conn"], line["correlation"], exchange)
                else:
                    skipped.add(at)
                    self.skipped.append(exchange)
            elif at not in skipped:
                exchange = waiting.pop(at)
                exchange.recorded = _decode(exchange.key, exchange.version, frame)
                now_ms = await self._receive(line["conn"], exchange, now_ms)
                self._learn(exchange)
        for stream in self._streams.values():
            stream.listening.cancel()
            stream.writer.close()

    async def _send(self, conn: int, correlation: int, exchange: Exchange) -> None:
        stream = self._streams.get(conn)
        if stream is None:
            stream = _Stream(*await asyncio.open_connection("127.0.0.1", self.broker.port))
            self._streams[conn] = stream
        self._translate(exchange)
        stream.sent[correlation] = exchange
        names = FETCHES if exchange.key == ApiKey.FETCH else (ApiKey(exchange.key).api_name,)
        tables = [self.broker.metrics.requests.of(name) for name in names]
        before = sum(table.requests for table in tables)
        stream.writer.writelines(
            encode_request(exchange.key, exchange.version, correlation, exchange.client_id, exchange.request)
        )
        await settle(
            lambda: sum(table.requests for table in tables) > before, f"the broker to take {exchange}"
        )

    async def _receive(self, conn: int, exchange: Exchange, now_ms: float) -> float:
        stream = self._streams[conn]
        deadline = now_ms + _SLACK_MS
        queue, unpacking = self.broker.controller.event_queue, self.broker.unpacking
        while exchange.ours is None:
            # What works in threads may take long here: no time of the recording passes meanwhile.
            await settle(lambda: not queue.is_busy and not unpacking.is_busy, f"to work on {exchange}")
            for _ in range(3):
                await asyncio.sleep(0.0005)
                if exchange.ours is not None or stream.listening.done():
                    break
            else:
                assert now_ms < deadline, f"{exchange} is not answered: {exchange.request!r:.400}"
                self.timers.advance(_SLACK_STEP_MS)
                now_ms += _SLACK_STEP_MS
            assert exchange.ours is not None or not stream.listening.done(), f"{exchange}: closed"
        return now_ms

    def _give_out(self, producer_id: int) -> None:
        """Let the next new producer get the id that it got in the recording."""
        if producer_id >= 0:
            self.broker.producer_ids.use(NextProducer(producer_id, producer_id))

    # ------------------------------------------------------------------ names

    def _translate(self, exchange: Exchange) -> None:
        request = exchange.request
        if exchange.key == ApiKey.FETCH and request.session_id:
            request.session_id = self.names.sessions.get(request.session_id, request.session_id)
        for one, name, value in fields(request):
            if name == "topic_id" and any(value):
                ours = self.broker.image.topic_id(self.names.topics.get(value, ""))
                setattr(one, name, ours if any(ours) else value)
            elif name == "forgotten_topics_data" or not isinstance(value, str):
                continue
            elif name == "member_id":
                setattr(one, name, self.names.members.get(value, value))

    def _learn_topics(self, message: Any) -> None:
        for one in every_struct(message):
            names = {item.name for item in one.FIELDS}
            topic_id = getattr(one, "topic_id", None)
            if "name" in names and topic_id and any(topic_id) and getattr(one, "name", None):
                self.names.topics[topic_id] = one.name  # type: ignore[attr-defined]

    def _learn(self, exchange: Exchange) -> None:
        recorded, ours = exchange.recorded, exchange.ours
        if exchange.key == ApiKey.JOIN_GROUP:
            self.names.members[recorded.member_id] = ours.member_id
        elif exchange.key == ApiKey.FETCH:
            self.names.sessions[recorded.session_id] = ours.session_id

    def compare(self, exchange: Exchange) -> list[str]:
        """Where our answer differs from the recorded one."""
        recorded, ours = shape(exchange.recorded, self, False), shape(exchange.ours, self, True)
        if exchange.key == ApiKey.METADATA and not exchange.request.topics:
            # The recording's broker had seen other clients before.
            known = {topic["name"] for topic in ours["topics"]}
            recorded["topics"] = [topic for topic in recorded["topics"] if topic["name"] in known]
        if exchange.key == ApiKey.LIST_GROUPS:
            known = {group["group_id"] for group in ours["groups"]}
            recorded["groups"] = [group for group in recorded["groups"] if group["group_id"] in known]
        return list(differences(recorded, ours))

    def recorded_member(self, ours: str) -> str:
        """A member id of ours in the recording's words."""
        return {mine: theirs for theirs, mine in self.names.members.items()}.get(ours, ours)


def began_ms(path: Path) -> float:
    """When a recording began (Unix time): its records' times are of then, and so is the broker's clock.

    The first record that has a time tells. Messages of format 0 have none; a transcript that has nothing else
    may be of any time.
    """
    for number, line in enumerate(read_golden(path)):
        if line["dir"] != "request" or line["key"] != ApiKey.PRODUCE:
            continue
        request = _exchange(number, bytes.fromhex(line["hex"])).request
        for partition in (partition for topic in request.topic_data for partition in topic.partition_data):
            for header, whole in iter_entries(partition.records or b""):
                older = isinstance(header, MessageHeader)
                first, *_ = message_records(header, whole) if older else batch_records(header, whole)
                if first.timestamp >= 0:
                    return first.timestamp - float(line["t_ms"])
    return _ANY_MS


def _exchange(number: int, frame: bytes) -> Exchange:
    header, start = decode_request_header(frame)
    cls = request_class(header.api_key)
    request, _ = cls.decode_from(memoryview(frame), header.api_version, start)
    return Exchange(number, header.api_key, header.api_version, header.client_id, request)


def _is_ours(exchange: Exchange) -> bool:
    served = SERVED.get(exchange.key)
    if served is None:
        return False
    return exchange.version in served.versions or exchange.key == ApiKey.API_VERSIONS


def _decode(key: int, version: int, frame: bytes) -> Any:
    refused = key == ApiKey.API_VERSIONS and frame[4:6] == b"\0\x23"
    return decode_response(memoryview(frame), key, 0 if refused else version)[1]


def every_struct(value: Any) -> Iterator[Struct]:
    """A message and every struct inside it."""
    if isinstance(value, Struct):
        yield value
        for item in value.FIELDS:
            yield from every_struct(getattr(value, item.name))
    elif isinstance(value, list):
        for one in value:
            yield from every_struct(one)


def fields(message: Any) -> Iterator[tuple[Struct, str, Any]]:
    """Every field of every struct."""
    for one in every_struct(message):
        for item in one.FIELDS:
            yield one, item.name, getattr(one, item.name)


def shape(value: Any, replay: Replay, ours: bool) -> Any:
    """An answer without what a broker makes up; record sets as keys and values."""
    if isinstance(value, Struct):
        return {
            item.name: (
                _records(getattr(value, item.name))
                if item.kind == "records"
                else shape(getattr(value, item.name), replay, ours)
            )
            for item in value.FIELDS
            if item.name not in _MADE_UP
        }
    if isinstance(value, list):
        shapes = [shape(one, replay, ours) for one in value]
        return sorted(shapes, key=str)
    if isinstance(value, str) and ours:
        return replay.recorded_member(value)
    if isinstance(value, (memoryview, bytearray)):
        return bytes(value)
    return value


def _records(buffer: Any) -> list[tuple[int, bytes | None, bytes | None]]:
    found: list[tuple[int, bytes | None, bytes | None]] = []
    for header, whole in iter_entries(buffer or b""):
        if isinstance(header, MessageHeader):
            found += [record_shape(record) for record in message_records(header, whole)]
        elif header.is_control:
            found += [(record.offset, None, MARKER) for record in batch_records(header, whole)]
        else:
            found += [record_shape(record) for record in batch_records(header, whole)]
    return found


def record_shape(record: Record) -> tuple[int, bytes | None, bytes | None]:
    return record.offset, record.key, record.value


def differences(left: Any, right: Any, path: str = "") -> Iterator[str]:
    """Where two shapes differ: `path: recorded, ours`."""
    if isinstance(left, dict) and isinstance(right, dict):
        for name in left:
            yield from differences(left[name], right[name], f"{path}.{name}")
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for number, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from differences(one, other, f"{path}[{number}]")
    elif left != right:
        yield f"{path}: {left!r:.300} there, {right!r:.300} here"
