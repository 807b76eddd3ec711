"""The short cut for the usual Fetch: a consumer reads healthy partitions that this broker leads.

No message objects are made: the frame is parsed into numbers, each partition is judged and read, and the
response is written in one go. Whatever is out of the ordinary (an error, a follower, an aborted transaction,
a session that opens, permissions to ask for) is left to `odradek.broker.handlers.fetch`, before anything has
been changed; both ways answer the same bytes, which tests hold.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from odradek.broker.fast import fetch_sessions as fast_fetch_sessions
from odradek.broker.fast.fetch_codec import encode_fetch, parse_fetch
from odradek.broker.fetch_sessions import FINAL_EPOCH, FetchContext, FetchSession
from odradek.broker.network.answer import Answer
from odradek.errors.codes import ErrorCode
from odradek.log.storage.files import FileRange
from odradek.util.repeats import Repeats

if TYPE_CHECKING:
    from odradek.broker.fast._pyfetch import Parsed
    from odradek.broker.network.answer import Later
    from odradek.broker.network.peer import Peer
    from odradek.broker.services import BrokerServices
    from odradek.replication.partition import Partition

log = logging.getLogger(__name__)
repeats = Repeats(log)

RANGE_FROM_BYTES = 256 * 1024
"""From how many bytes of a partition on the kernel sends them. Measured: below, reading them into memory that
is there already and writing them costs less than waiting for the socket to take each piece of a file."""

MAX_FRAME_BYTES = 64 * 1024
"""Larger requests are rare, and what they cost is not in the parsing."""

Watched = tuple["Partition", int, int, int, int]
"""A partition, the offset wanted, the bytes found, `appended_bytes` then, partition_max_bytes."""

Read = tuple[list[Any], int, list[Watched], bool]
"""Answers for `encode_fetch`, bytes in them, what to watch, and whether there are file ranges."""

Ordinary = Callable[["Peer", Any, float, FetchContext | None], Answer]
"""`(peer, frame, started_ms, session)`: answer a fetch that has waited in the ordinary way."""


class FastFetch:
    """Answers usual Fetch frames of one broker; see `odradek.broker.handler_types.FastPath`."""

    __slots__ = ("_broker", "_monotonic_ms", "_ordinary", "_requests", "_topics")

    def __init__(self, broker: BrokerServices, ordinary: Ordinary) -> None:
        """
        Args:
            broker: whose partitions are read.
            ordinary: for what turns out to be unusual after it has waited.
        """
        self._broker = broker
        self._ordinary = ordinary
        self._requests = broker.metrics.requests.of("Fetch")
        self._topics = broker.metrics.topics
        self._monotonic_ms = broker.clock.monotonic_ms

    def __call__(self, peer: Peer, frame: Any, later: Later) -> Any:
        """See `odradek.broker.handler_types.FastPath`."""
        broker = self._broker
        if len(frame) > MAX_FRAME_BYTES or broker.authorizer is not None or broker.request_log is not None:
            return NotImplemented
        parsed: Parsed | None = parse_fetch(frame)
        if parsed is None:
            return NotImplemented
        _, _, max_wait_ms, min_bytes, max_bytes, _, session_id, session_epoch, wanted = parsed
        if session_epoch != FINAL_EPOCH:
            return self._go_on_with_session(peer, frame, later, parsed)
        if session_id or not wanted:
            return NotImplemented
        room = max(0, min(max_bytes, broker.config.fetch_max_bytes))
        started_ms = self._monotonic_ms()
        found = self._read(parsed, room)
        if found is None:
            return NotImplemented
        answers, size, watched, ranges = found
        requests = self._requests
        requests.requests += 1
        requests.request_bytes += len(frame)
        self._count(parsed)
        if max_wait_ms <= 0 or size >= min_bytes or size >= room:
            return self.answer(parsed, answers, size, ranges, started_ms)
        waiting = _Waiting(self, peer, frame, later, parsed, min(min_bytes, room), room, started_ms)
        self._wait(waiting, watched)
        return None

    def _wait(self, waiting: _Waiting, watched: list[Watched]) -> None:
        waiting.watch(watched)
        waiting.later.context = waiting
        operation = self._broker.purgatory.wait(
            [one[0].key for one in watched], waiting.try_complete, waiting.complete, waiting.parsed[2]
        )
        waiting.on_disconnect = operation.cancel

    def _go_on_with_session(self, peer: Peer, frame: Any, later: Later, parsed: Parsed) -> Any:
        """An incremental fetch."""
        broker = self._broker
        version, _, max_wait_ms, min_bytes, max_bytes, isolation, session_id, session_epoch, _ = parsed
        sessions = broker.fetch_sessions
        session = sessions.find(session_id, session_epoch, uses_topic_ids=version >= 13)
        if session is None or not fast_fetch_sessions.update(session, parsed):
            return NotImplemented
        room = max(0, min(max_bytes, broker.config.fetch_max_bytes))
        started_ms = self._monotonic_ms()
        found = fast_fetch_sessions.read(broker, session, version, isolation == 1, room, RANGE_FROM_BYTES)
        if found is None:
            return NotImplemented
        changed, size, ranges = found
        epoch = sessions.touch(session, broker.clock.now_ms())
        requests = self._requests
        requests.requests += 1
        requests.request_bytes += len(frame)
        metrics = self._topics
        for cached in session.cached.values():
            metrics.of(cached.partition.topic).total_fetch_requests += 1
        metrics.all.total_fetch_requests += len(session)
        if max_wait_ms <= 0 or size >= min_bytes or size >= room:
            answers = fast_fetch_sessions.tell(session, changed)
            return self.answer(parsed, answers, size, ranges, started_ms, session_id)
        waiting = _Waiting(self, peer, frame, later, parsed, min(min_bytes, room), room, started_ms)
        waiting.session = session
        waiting.epoch = epoch
        sizes = {key: len(records) for key, _, _, _, _, records in changed if records}
        watched = []
        for key, cached in session.cached.items():
            partition = cached.partition
            offset, most, _, _, _ = cached.spec
            appended = partition.appended_bytes
            if isolation == 1 and partition.log.last_stable_offset < partition.log.high_watermark:
                appended -= most
            watched.append((partition, offset, sizes.get(key, 0), appended, most))
        self._wait(waiting, watched)
        return None

    def _read(self, parsed: Parsed, room: int) -> Read | None:
        """Read every partition; None where one of them is not usual."""
        version, isolation, wanted = parsed[0], parsed[5], parsed[8]
        broker = self._broker
        broker_id = broker.replicas.broker_id
        find = broker.replicas.of
        names = broker.controller.image.topic_names if version >= 13 else None
        committed = isolation == 1
        answers: list[Any] = []
        watched: list[Watched] = []
        total = 0
        ranges = False
        for topic, parts in wanted:
            here = find(topic if names is None else names.get(topic))
            if here is None:
                return None
            read: list[Any] = []
            for index, offset, most, epoch, _, last_epoch in parts:
                partition = here.get(index)
                if (
                    partition is None
                    or partition.leader_id != broker_id
                    or last_epoch != -1
                    or (epoch != -1 and epoch != partition.leader_epoch)
                ):
                    return None
                part = partition.log
                if names is not None and part.topic_id != topic:
                    return None
                high_watermark = part.high_watermark
                stable = part.last_stable_offset
                start = part.log_start_offset
                if not start <= offset <= part.log_end_offset:
                    return None
                end = stable if committed else high_watermark
                limit = min(most, room - total)
                if offset >= end or (limit <= 0 and total):
                    records: bytes | FileRange = b""
                    size = 0
                else:
                    if committed and part.aborted_transactions(offset, end):
                        return None
                    try:
                        records = part.slice(offset, limit, end, total == 0, RANGE_FROM_BYTES)
                    except Exception:  # whatever it is, the ordinary way meets it too, and says so
                        return None
                    size = len(records)
                    if size and version < 10 and part.config.compression_type == "zstd":
                        return None
                    if size >= RANGE_FROM_BYTES and records.__class__ is FileRange:
                        ranges = True
                    total += size
                appended = partition.appended_bytes
                # What is here already, behind the last stable offset, arrives when that moves.
                if committed and stable < high_watermark:
                    appended -= most
                watched.append((partition, offset, size, appended, most))
                read.append((index, high_watermark, stable, start, records))
            answers.append((topic, read))
        return answers, total, watched, ranges

    def _count(self, parsed: Parsed) -> None:
        """Count the partitions that are asked for."""
        names = self._broker.controller.image.topic_names
        metrics = self._topics
        for topic, parts in parsed[8]:
            count = len(parts)
            metrics.of(names[topic] if parsed[0] >= 13 else topic).total_fetch_requests += count
            metrics.all.total_fetch_requests += count

    def answer(
        self,
        parsed: Parsed,
        answers: list[Any],
        size: int,
        ranges: bool,
        started_ms: float,
        session_id: int = 0,
    ) -> Answer:
        """The answer, counted."""
        version = parsed[0]
        if size:
            names = self._broker.controller.image.topic_names
            metrics = self._topics
            metrics.all.bytes_out += size
            for topic, read in answers:
                out = size if len(answers) == 1 else sum([len(one[4]) for one in read])
                if out:
                    metrics.of(names[topic] if version >= 13 else topic).bytes_out += out
        buffers = encode_fetch(version, parsed[1], session_id, parsed[5] == 1, answers)
        length = len(buffers[0]) if len(buffers) == 1 else sum(map(len, buffers))
        self._requests.observe(self._monotonic_ms() - started_ms, length)
        return Answer(buffers, False, ranges)

    def answer_waiting(self, waiting: _Waiting) -> Answer:
        """Read again, and answer with whatever is there."""
        parsed, session, started_ms = waiting.parsed, waiting.session, waiting.started_ms
        broker = self._broker
        if session is None:
            found = self._read(parsed, waiting.room)
            if found is not None:
                answers, size, _, ranges = found
                return self.answer(parsed, answers, size, ranges, started_ms)
            # The partition has gone, or records before the offset were deleted.
            return self._ordinary(waiting.peer, waiting.frame, started_ms, None)
        if session.epoch == waiting.epoch:
            changed = fast_fetch_sessions.read(
                broker, session, parsed[0], parsed[5] == 1, waiting.room, RANGE_FROM_BYTES
            )
            if changed is not None:
                answers = fast_fetch_sessions.tell(session, changed[0])
                return self.answer(parsed, answers, changed[1], changed[2], started_ms, session.id)
        wanted = list(session.partitions(broker.image.topic_name))
        context = FetchContext(ErrorCode.NONE, wanted, session=session, expected_epoch=waiting.epoch)
        return self._ordinary(waiting.peer, waiting.frame, started_ms, context)

    def has_arrived(self, waiting: _Waiting, one: Watched) -> int | None:
        """How many bytes of one partition have arrived, judged without reading; None: answer at once."""
        partition, offset, size_then, appended_then, limit = one
        replicas = self._broker.replicas
        # A partition that was removed is led by nobody; from a follower version 11 may read on.
        if partition.leader_id != replicas.broker_id and (
            waiting.parsed[0] < 11 or replicas.find(partition.topic, partition.index) is not partition
        ):
            return None
        log = partition.log
        end = log.last_stable_offset if waiting.parsed[5] == 1 else log.high_watermark
        if end > offset:
            return min(limit, size_then + partition.appended_bytes - appended_then)
        return 0 if end == offset else None


class _Waiting:
    """A fetch that waits in the purgatory.

    Attributes:
        session, epoch: that of an incremental fetch, and the epoch that its next request must have.
        on_disconnect: called when the peer goes before the answer.
    """

    __slots__ = (
        "by_key",
        "epoch",
        "fast",
        "frame",
        "later",
        "min_bytes",
        "on_disconnect",
        "parsed",
        "peer",
        "room",
        "session",
        "started_ms",
        "watched",
    )

    def __init__(
        self,
        fast: FastFetch,
        peer: Peer,
        frame: Any,
        later: Later,
        parsed: Parsed,
        min_bytes: int,
        room: int,
        started_ms: float,
    ) -> None:
        self.fast = fast
        self.peer = peer
        # The frame alone: what it is a view into may be longer.
        self.frame = bytes(frame)
        self.later = later
        self.parsed = parsed
        self.min_bytes = min_bytes
        self.room = room
        self.started_ms = started_ms
        self.watched: list[Watched] = []
        self.by_key: dict[Hashable, Watched] = {}
        self.session: FetchSession | None = None
        self.epoch = 0
        self.on_disconnect: Callable[[], None] | None = None

    def watch(self, watched: list[Watched]) -> None:
        """Wait for these."""
        self.watched = watched
        if self.min_bytes <= 1:
            # A single byte of any partition is enough: only the one that is checked needs a look.
            self.by_key = {one[0].key: one for one in watched}

    def try_complete(self, key: Hashable) -> bool:
        """Answer if enough has arrived."""
        if len(self.by_key) == len(self.watched):
            arrived = self.fast.has_arrived(self, self.by_key[key])
        else:
            arrived = 0
            for one in self.watched:
                here = self.fast.has_arrived(self, one)
                if here is None:
                    arrived = None
                    break
                arrived += here
        if arrived is not None and arrived < self.min_bytes:
            return False
        self.complete()
        return True

    def complete(self) -> None:
        """Answer with whatever is there."""
        try:
            answer = self.fast.answer_waiting(self)
        except Exception as error:
            repeats.log(
                logging.ERROR,
                type(error),
                "a fetch that waited could not be answered peer=%s:%d",
                self.peer.host,
                self.peer.port,
                exc_info=error,
            )
            answer = Answer(None, close=True)
        self.later(answer)
