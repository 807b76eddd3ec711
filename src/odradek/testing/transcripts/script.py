"""A transcript as a script: its requests with their answers, and what a client does otherwise."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import Any, NamedTuple

from odradek.errors import KafkaError
from odradek.records.message_sets.message_set import iter_all_records
from odradek.testing.transcripts.conversation import Conversation, Spoken
from odradek.testing.transcripts.frames import REQUEST, RESPONSE, TOKEN, Frame
from odradek.wire.api import ApiKey
from odradek.wire.messages import response_class
from odradek.wire.structs import Struct

_FETCH, _METADATA = int(ApiKey.FETCH), int(ApiKey.METADATA)
_AGAIN = frozenset(
    {ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_CLUSTER, ApiKey.HEARTBEAT}
)
"""What a client asks as often as its clock says: more, or fewer, is no departure, nor is a Fetch."""
_IGNORED = frozenset({"auth_bytes", "client_software_name", "client_software_version", "member_id"})
"""What no two runs have in common, or a transcript does not tell."""
_MOST_WAIT_MS = 1000


class Exchange(NamedTuple):
    """A request of a transcript.

    Attributes:
        line: its number in the file.
        spoken: what was asked.
        answer: what was answered; None for nothing.
    """

    line: int
    spoken: Spoken
    answer: Spoken | None


class Departure(NamedTuple):
    """A client has done otherwise.

    Attributes:
        request: its name, as "Produce 11".
        line: of the transcript, where it has another; None where it has none.
        where: the first field that differs; empty where the request itself does.
        expected, seen: its values.
    """

    request: str
    line: int | None
    where: str
    expected: str
    seen: str

    def __str__(self) -> str:
        """A line for a person."""
        at = f" (line {self.line})" if self.line is not None else ""
        where = f"{self.where}: " if self.where else ""
        return f"{self.request}{at}: {where}expected {self.expected}, seen {self.seen}"


class Reply(NamedTuple):
    """The answer to a request.

    Attributes:
        answer: the frame of the transcript, whose correlation id is another; None for nothing.
        delay_ms: after which time.
        is_end: whether the connection ends instead.
    """

    answer: Spoken | None
    delay_ms: int = 0
    is_end: bool = False


class Script:
    """Answers requests in the order in which the transcript has those of their API.

    Attributes:
        departures: from the transcript, so far.
    """

    def __init__(self, frames: Iterable[Frame], *, loosely: bool = False) -> None:
        """
        Args:
            frames: the transcript.
            loosely: requests are told by their APIs and versions alone, as those of a masked transcript.
        """
        self._loosely = loosely
        self._left: dict[int, list[Exchange]] = {}
        """By API key, those that have not been asked for."""
        self._answered: dict[tuple[int, int], list[Exchange]] = {}
        """By API key and version, those that have been asked for."""
        self.departures: list[Departure] = []
        for exchange in _exchanges(frames):
            self._left.setdefault(exchange.spoken.key, []).append(exchange)

    @property
    def is_played(self) -> bool:
        """True when the client has asked for all that it has to."""
        return not any(left for key, left in self._left.items() if not _is_elastic(key))

    def reply(self, spoken: Spoken) -> Reply:
        """Return what is answered to a request, and note where that is another than the transcript's."""
        left = self._left.get(spoken.key, [])
        answered = self._answered.setdefault((spoken.key, spoken.version), [])
        exchange = self._same(left, spoken)
        if exchange is None and spoken.key in _AGAIN and (asked := self._same(answered, spoken)):
            return Reply(asked.answer)
        if exchange is None and spoken.key == _METADATA:
            known = _of_topics(spoken, [*reversed(answered), *left])
            if known is not None:
                return Reply(known)
        if exchange is None:
            exchange = next((other for other in left if other.spoken.version == spoken.version), None)
            if exchange is None:
                return self._unexpected(spoken, left, answered)
            difference = self._difference(exchange.spoken, spoken)
            assert difference is not None
            self.departures.append(Departure(_named(spoken), exchange.line, *difference))
        left.remove(exchange)
        answered.append(exchange)
        return Reply(exchange.answer)

    def _same(self, exchanges: Iterable[Exchange], spoken: Spoken) -> Exchange | None:
        """Return the first that asks the same."""
        for exchange in exchanges:
            if exchange.spoken.version == spoken.version and not self._difference(exchange.spoken, spoken):
                return exchange
        return None

    def end(self) -> list[Departure]:
        """Return all departures; also the requests that have not come."""
        missing = [
            Departure(_named(exchange.spoken), exchange.line, "", "the request", "none")
            for key, left in self._left.items()
            for exchange in left
            if not _is_elastic(key)
        ]
        return [*self.departures, *sorted(missing, key=lambda departure: departure.line or 0)]

    def _unexpected(self, spoken: Spoken, left: list[Exchange], answered: list[Exchange]) -> Reply:
        if spoken.key == _FETCH and answered:
            # Nothing new: an answer with no partitions, when the client has waited as long as it wants to.
            wait_ms = min(max(getattr(spoken.message, "max_wait_ms", 0), 1), _MOST_WAIT_MS)
            session_id = getattr(spoken.message, "session_id", 0)
            message = response_class(_FETCH)(session_id=session_id)
            return Reply(spoken._replace(direction=RESPONSE, data=b"", message=message), wait_ms)
        if spoken.key in _AGAIN and answered:
            difference = self._difference(answered[-1].spoken, spoken)
            assert difference is not None
            self.departures.append(Departure(_named(spoken), answered[-1].line, *difference))
            return Reply(answered[-1].answer)
        expected = f"version {left[0].spoken.version}" if left else "no such request any more"
        line = left[0].line if left else None
        self.departures.append(Departure(_named(spoken), line, "", expected, _named(spoken)))
        return Reply(None, is_end=True)

    def _difference(self, expected: Spoken, seen: Spoken) -> tuple[str, str, str] | None:
        if self._loosely or expected.key == TOKEN:
            return None
        if expected.message is None or seen.message is None:
            is_same = expected.data[8:] == seen.data[8:]
            return None if is_same else ("", f"{len(expected.data)} bytes", f"{len(seen.data)} others")
        return first_difference(
            _plain(expected.message, expected.version), _plain(seen.message, seen.version)
        )


def _of_topics(asked: Spoken, exchanges: Iterable[Exchange]) -> Spoken | None:
    """Return an answer to a Metadata of some topics, out of one that tells of these and others.

    When a client asks for which is a matter of its clock: librdkafka asks for the brokers alone at times.
    """
    topics = getattr(asked.message, "topics", None)
    if topics is None or (asked.version == 0 and not topics):
        return None  # of all of them
    names = {topic.name for topic in topics}
    for exchange in exchanges:
        message = exchange.answer.message if exchange.answer is not None else None
        if message is None or exchange.spoken.version != asked.version:
            continue
        told = [topic for topic in getattr(message, "topics", ()) if topic.name in names]
        if {topic.name for topic in told} == names:
            part: Any = copy(message)
            part.topics = told
            assert exchange.answer is not None
            return exchange.answer._replace(message=part, data=b"")
    return None


def _is_elastic(key: int) -> bool:
    return key == _FETCH or key in _AGAIN


def _named(spoken: Spoken) -> str:
    if spoken.key == TOKEN:
        return "a token of SASL"
    name = ApiKey(spoken.key).api_name if spoken.key in set(ApiKey) else f"API {spoken.key}"
    return f"{name} {spoken.version}"


def _exchanges(frames: Iterable[Frame]) -> list[Exchange]:
    conversations: dict[int, Conversation] = {}
    open_: dict[tuple[int, int], list[int]] = {}
    exchanges: list[Exchange] = []
    for line, frame in enumerate(frames, 1):
        conversation = conversations.setdefault(frame.conn, Conversation())
        if frame.direction == REQUEST:
            open_.setdefault((frame.conn, frame.correlation), []).append(len(exchanges))
            exchanges.append(Exchange(line, conversation.request(frame.data), None))
        else:
            spoken = conversation.response(frame.data)
            asked = open_.get((frame.conn, frame.correlation))
            if asked:
                place = asked.pop(0)
                exchanges[place] = exchanges[place]._replace(answer=spoken)
    return exchanges


# ---------------------------------------------------------------------- differences


def first_difference(expected: Any, seen: Any, where: str = "") -> tuple[str, str, str] | None:
    """Return where two values of JSON differ first, and what stands there; None where they are the same."""
    if isinstance(expected, dict) and isinstance(seen, dict):
        for name in expected:
            difference = first_difference(
                expected[name], seen.get(name), f"{where}.{name}" if where else name
            )
            if difference is not None:
                return difference
        return None
    if isinstance(expected, list) and isinstance(seen, list):
        for index, (ours, theirs) in enumerate(zip(expected, seen, strict=False)):
            difference = first_difference(ours, theirs, f"{where}[{index}]")
            if difference is not None:
                return difference
        return None if len(expected) == len(seen) else (where, f"{len(expected)} of them", f"{len(seen)}")
    return None if expected == seen else (where, f"{expected!r:.200}", f"{seen!r:.200}")


def _plain(struct: Struct, version: int) -> dict[str, Any]:
    """Return what a struct says, without what no two runs have in common."""
    return {
        field.json_name: _plain_value(getattr(struct, field.name), field.kind, version)
        for field in struct.FIELDS
        if version in field.versions and field.name not in _IGNORED
    }


def _plain_value(value: Any, kind: str, version: int) -> Any:
    if isinstance(value, Struct):
        return _plain(value, version)
    if kind == "records" and value is not None:
        return _records(bytes(value))
    if isinstance(value, list):
        return [_plain_value(element, "", version) for element in value]
    return bytes(value) if isinstance(value, memoryview) else value


def _records(buffer: bytes) -> Any:
    # Times differ, and how records were compressed says nothing that the records do not.
    try:
        return [
            {"key": record.key, "value": record.value, "headers": list(record.headers)}
            for record in iter_all_records(buffer)
        ]
    except KafkaError:
        return buffer
