"""The sans-I/O parts of recorder and player, on what real clients and brokers of ten releases have said."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from odradek.records.builder import build_batch
from odradek.records.message_sets.message_set import iter_all_records
from odradek.testing.transcripts.addresses import Address, addresses, rewritten
from odradek.testing.transcripts.conversation import Conversation, Spoken, message_of
from odradek.testing.transcripts.frames import (
    MOST_BYTES,
    REQUEST,
    RESPONSE,
    TOKEN,
    Frame,
    Frames,
    TranscriptError,
    read_transcript,
    with_size,
)
from odradek.testing.transcripts.masked_records import RecordMask, masked_records
from odradek.testing.transcripts.masking import KINDS, Mask
from odradek.testing.transcripts.script import Script, first_difference
from odradek.wire.api import ApiKey
from odradek.wire.headers import encode_request, encode_response
from odradek.wire.messages import request_class, response_class
from wire.golden import TRANSCRIPTS

FILES = pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.name)
ALL = frozenset(KINDS)


def spoken_in(path: Path) -> list[tuple[Frame, Spoken]]:
    """The frames of a transcript, understood."""
    conversations: dict[int, Conversation] = {}
    spoken = []
    for frame in read_transcript(path):
        conversation = conversations.setdefault(frame.conn, Conversation())
        take = conversation.request if frame.direction == REQUEST else conversation.response
        spoken.append((frame, take(frame.data)))
    return spoken


@FILES
def test_each_frame_is_understood_and_said_again(path: Path) -> None:
    for frame, spoken in spoken_in(path):
        assert spoken[:4] == (frame.direction, frame.key, frame.version, frame.correlation)
        assert spoken.note == ""
        assert spoken.saying(message_of(spoken), spoken.client_id) == frame.data
        assert Frame.from_line(frame.to_line()) == frame


@FILES
def test_a_client_that_does_the_same_does_not_depart(path: Path) -> None:
    script = Script(read_transcript(path))
    for frame, spoken in spoken_in(path):
        if frame.direction == REQUEST:
            assert not script.reply(spoken).is_end
    assert script.is_played
    assert script.end() == []


@FILES
def test_what_is_masked_can_be_read(path: Path) -> None:
    mask, clear = Mask(ALL), Mask(frozenset())
    for frame, spoken in spoken_in(path):
        assert clear.masked(spoken) == frame.data
        masked = spoken._replace(data=mask.masked(spoken))
        message_of(masked)
        for secret in (b"golden", b"key-", b"value ", b"h\xc3\xa9llo", b"127.0.0.1", b"console-"):
            assert secret not in masked.data, (spoken.key, spoken.version)


def test_addresses_are_rewritten() -> None:
    seen = set()
    for path in TRANSCRIPTS:
        for _, spoken in spoken_in(path):
            if addresses(spoken):
                seen.add(spoken.key)
                data = rewritten(spoken, lambda address: Address("elsewhere", address.port + 1))
                again = spoken._replace(data=data, message=message_of(spoken._replace(data=data)))
                assert {address.host for address in addresses(again)} == {"elsewhere"}
    assert seen >= {ApiKey.METADATA, ApiKey.FIND_COORDINATOR}


# ---------------------------------------------------------------------- frames


def test_frames_come_in_pieces() -> None:
    data = with_size(b"one") + with_size(b"") + with_size(b"three")
    frames = Frames()
    taken = [frame for at in range(len(data)) for frame in frames.feed(data[at : at + 1])]
    assert taken == [b"one", b"", b"three"]
    assert Frames().feed(data) == taken


@pytest.mark.parametrize("size", [-1, MOST_BYTES + 1, int.from_bytes(b"GET ", "big")])
def test_what_is_no_frame_is_refused(size: int) -> None:
    with pytest.raises(TranscriptError, match="is no size of a frame"):
        Frames().feed(size.to_bytes(4, "big", signed=True))


def test_bytes_of_strangers_are_noted() -> None:
    chance = random.Random(7)
    mask = Mask(ALL)
    for _ in range(2000):
        conversation = Conversation()
        size = chance.randrange(40)
        asked = conversation.request(
            chance.randrange(-2, 95).to_bytes(2, "big", signed=True) + chance.randbytes(size)
        )
        assert asked.message is not None or asked.note
        told = conversation.response(asked.data[4:8] + chance.randbytes(size))
        for spoken in (asked, told):
            assert len(mask.masked(spoken)) >= 0


def test_a_version_of_the_future_is_passed_on_and_hidden() -> None:
    data = (0).to_bytes(2, "big") + (99).to_bytes(2, "big") + (5).to_bytes(4, "big") + b"\0\6secret and more"
    conversation = Conversation()
    spoken = conversation.request(data)
    assert (spoken.key, spoken.version, spoken.correlation, spoken.data) == (0, 99, 5, data)
    assert spoken.note.startswith("not understood")
    assert Mask(frozenset()).masked(spoken) == data
    assert Mask(ALL).masked(spoken) == data[:8] + bytes(len(data) - 8)
    answer = conversation.response((5).to_bytes(4, "big") + b"whatever")
    assert (answer.key, answer.version) == (0, 99)
    assert Mask(ALL).masked(answer) == (5).to_bytes(4, "big") + bytes(8)


def test_an_answer_to_nothing_and_produce_without_an_answer() -> None:
    conversation = Conversation()
    for correlation, key in ((1, ApiKey.PRODUCE), (2, ApiKey.API_VERSIONS)):
        conversation.request(said(key, 0, correlation))
    assert conversation.response((2).to_bytes(4, "big") + bytes(6)).key == ApiKey.API_VERSIONS
    assert conversation.response((1).to_bytes(4, "big")).note == "it answers nothing that was asked"


def said(key: int, version: int, correlation: int = 1, **fields: object) -> bytes:
    message = request_class(key)(**fields)
    return b"".join(encode_request(key, version, correlation, "me", message))[4:]


# ---------------------------------------------------------------------- logins


@pytest.mark.parametrize(("mechanism", "count"), [("PLAIN", 1), ("SCRAM-SHA-512", 2)])
def test_tokens_without_a_header_are_told_from_requests_and_hidden(mechanism: str, count: int) -> None:
    conversation, mask = Conversation(), Mask(frozenset())
    conversation.request(said(ApiKey.SASL_HANDSHAKE, 0, mechanism=mechanism))
    handshake = response_class(ApiKey.SASL_HANDSHAKE)(mechanisms=[mechanism])
    conversation.response(b"".join(encode_response(ApiKey.SASL_HANDSHAKE, 0, 1, handshake))[4:])
    for _ in range(count):
        for take in (conversation.request, conversation.response):
            spoken = take(b"\0Alice\0secret")
            assert (spoken.key, mask.masked(spoken)) == (TOKEN, bytes(13))
    assert conversation.request(said(ApiKey.METADATA, 1)).key == ApiKey.METADATA


def test_gssapi_ends_with_the_first_request() -> None:
    conversation = Conversation()
    conversation.request(said(ApiKey.SASL_HANDSHAKE, 0, mechanism="GSSAPI"))
    handshake = response_class(ApiKey.SASL_HANDSHAKE)(mechanisms=["GSSAPI"])
    conversation.response(b"".join(encode_response(ApiKey.SASL_HANDSHAKE, 0, 1, handshake))[4:])
    for _ in range(3):
        assert conversation.request(b"\x60\x82\x01token").key == TOKEN
        assert conversation.response(b"\x05\x04token").key == TOKEN
    assert conversation.request(said(ApiKey.API_VERSIONS, 0, 9)).key == ApiKey.API_VERSIONS
    assert conversation.response((9).to_bytes(4, "big") + bytes(6)).key == ApiKey.API_VERSIONS


@pytest.mark.parametrize(
    ("key", "fields"),
    [
        (ApiKey.RENEW_DELEGATION_TOKEN, {"hmac": b"secret"}),
        (ApiKey.EXPIRE_DELEGATION_TOKEN, {"hmac": b"secret"}),
    ],
)
def test_credentials_are_hidden_when_asked_for(key: ApiKey, fields: dict[str, object]) -> None:
    spoken = Conversation().request(said(key, 2, **fields))
    assert b"secret" in Mask(frozenset({"names"})).masked(spoken)
    assert b"secret" not in Mask(frozenset({"credentials"})).masked(spoken)


def test_configs_that_are_secret_are_credentials() -> None:
    key = ApiKey.INCREMENTAL_ALTER_CONFIGS
    document = {
        "resources": [
            {
                "resourceType": 4,
                "resourceName": "0",
                "configs": [
                    {"name": "ssl.key.password", "configOperation": 0, "value": "secret"},
                    {"name": "retention.ms", "configOperation": 0, "value": "86400000"},
                ],
            }
        ],
        "validateOnly": False,
    }
    message = request_class(key).from_json(document, 1)
    spoken = Conversation().request(b"".join(encode_request(key, 1, 1, "me", message))[4:])
    masked = Mask(frozenset({"credentials"})).masked(spoken)
    assert b"secret" not in masked
    assert b"ssl.key.password" in masked and b"86400000" in masked


# ---------------------------------------------------------------------- records


def test_a_batch_that_is_cut_off_becomes_zeros() -> None:
    batch = bytes(build_batch([(0, b"key", b"value", (("h", b"v"),)), (1, None, None, ())]))
    mask = RecordMask(keys=True, values=False, name=lambda name: name)
    masked = masked_records(batch + batch[:70], mask)
    assert len(masked) == len(batch) + 70
    assert masked[-70:] == bytes(70)
    records = list(iter_all_records(masked[:-70]))
    assert [(record.key, record.value) for record in records] == [(b"***", b"value"), (None, None)]


# ---------------------------------------------------------------------- departures


@pytest.mark.parametrize(
    ("expected", "seen", "difference"),
    [
        ({"a": 1}, {"a": 1}, None),
        ({"a": [{"b": 1}]}, {"a": [{"b": 2}]}, ("a[0].b", "1", "2")),
        ({"a": [1, 2]}, {"a": [1]}, ("a", "2 of them", "1")),
        ({"a": {"b": None}}, {"a": {"b": ""}}, ("a.b", "None", "''")),
    ],
)
def test_the_first_difference(expected: object, seen: object, difference: object) -> None:
    assert first_difference(expected, seen) == difference


def script_of(*asked: bytes, loosely: bool = False) -> Script:
    frames = []
    for number, data in enumerate(asked, 1):
        key, version = (int.from_bytes(data[at : at + 2], "big") for at in (0, 2))
        answer = b"".join(encode_response(key, version, number, response_class(key)()))[4:]
        for direction, content in ((REQUEST, data), (RESPONSE, answer)):
            frames.append(Frame(0, number, direction, key, version, 1, content[:4] + content[4:]))
    return Script(frames, loosely=loosely)


def reply(script: Script, key: int, version: int, **fields: object) -> object:
    return script.reply(Conversation().request(said(key, version, **fields)))


def test_another_version_and_a_request_too_many_end_the_connection() -> None:
    script = script_of(said(ApiKey.LIST_GROUPS, 3))
    assert reply(script, ApiKey.LIST_GROUPS, 4).is_end  # type: ignore[attr-defined]
    reply(script, ApiKey.LIST_GROUPS, 3)
    assert reply(script, ApiKey.LIST_GROUPS, 3).is_end  # type: ignore[attr-defined]
    assert [str(departure) for departure in script.end()] == [
        "ListGroups 4 (line 1): expected version 3, seen ListGroups 4",
        "ListGroups 3: expected no such request any more, seen ListGroups 3",
    ]


def test_what_a_clock_asks_again_is_answered_again() -> None:
    script = script_of(said(ApiKey.METADATA, 1, topics=[]))
    for _ in range(3):
        assert reply(script, ApiKey.METADATA, 1, topics=[]).answer is not None  # type: ignore[attr-defined]
    assert script.end() == []


@pytest.mark.parametrize(
    ("topics", "told"),
    [([], []), (["orders"], ["orders"]), (["orders", "clicks"], ["clicks", "orders"]), (["nope"], None)],
)
def test_metadata_of_fewer_topics_is_known(topics: list[str], told: list[str] | None) -> None:
    asked = request_class(ApiKey.METADATA).from_json(
        {"topics": [{"name": "clicks"}, {"name": "orders"}, {"name": "users"}]}, 1
    )
    answer = response_class(ApiKey.METADATA).from_json(
        {
            "brokers": [{"nodeId": 0, "host": "h", "port": 9092, "rack": None}],
            "controllerId": 0,
            "topics": [
                {"errorCode": 0, "name": name, "isInternal": False, "partitions": []}
                for name in ("clicks", "orders", "users")
            ],
        },
        1,
    )
    frames = [
        Frame(0, 1, direction, ApiKey.METADATA, 1, 1, b"".join(parts)[4:])
        for direction, parts in (
            (REQUEST, encode_request(ApiKey.METADATA, 1, 1, "me", asked)),
            (RESPONSE, encode_response(ApiKey.METADATA, 1, 1, answer)),
        )
    ]
    script = Script(frames)
    wanted = request_class(ApiKey.METADATA).from_json({"topics": [{"name": name} for name in topics]}, 1)
    data = b"".join(encode_request(ApiKey.METADATA, 1, 7, "me", wanted))[4:]
    said = script.reply(Conversation().request(data)).answer
    assert said is not None
    if told is None:
        assert len(script.departures) == 1
    else:
        assert [topic.name for topic in said.message.topics] == told  # type: ignore[union-attr]
        assert script.end() == []


def test_a_masked_transcript_is_played_loosely() -> None:
    asked = said(ApiKey.DELETE_GROUPS, 1, groups_names=["name-1"])
    for loosely, count in ((True, 0), (False, 1)):
        script = script_of(asked, loosely=loosely)
        reply(script, ApiKey.DELETE_GROUPS, 1, groups_names=["billing"])
        assert len(script.end()) == count
