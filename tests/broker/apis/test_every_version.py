"""Every API that is advertised, in every version that is advertised, against a live broker.

With requests that mean something; with every request of the golden corpus (extreme numbers, nulls, long
strings, long arrays, unknown tags), as it is and pointed at a topic and a group that exist. Whatever is
asked, the answer comes, with its correlation id, in its version, without UNKNOWN_SERVER_ERROR and without a
word at ERROR in the log, and the broker goes on.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.apis.registry import SERVED
from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages import request_class
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

from .. import live, meaningful_admin, meaningful_refusals, meaningful_transactions
from ..meaningful import WALKS
from ..net import run
from ..sweep import Closed, Sweeper, error_codes, golden_requests, structs, sweeping

TOPIC, GROUP = "orders", "readers"

_SLOW_S = 5.0
"""No golden request is worth this; the machine may be slow, so that it is not less."""

_NEED_A_MEMBER = {ApiKey.HEARTBEAT, ApiKey.SYNC_GROUP}
"""No golden request knows the id of a member that the broker has made up."""

_NEED_A_PRODUCER = meaningful_transactions.NEED_A_PRODUCER
_REFUSED = meaningful_refusals.KEYS | meaningful_admin.REFUSED_KEYS
"""Without security and without other brokers, these are refused whatever is asked."""

_UNKNOWN_CLOSES = {ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS}
"""Enumerations that say UNKNOWN are no request of these, as in Kafka."""

_DAY_MS = 24 * 3_600_000
_CONFIGS = ("retention.ms", "cleanup.policy", "max.message.bytes", "compression.type", "segment.bytes")
_TOPIC_RESOURCE = 2


def apis() -> list[Any]:
    return [pytest.param(key, id=ApiKey(key).api_name) for key in sorted(SERVED)]


async def check(sweeper: Sweeper, key: int, version: int, body: bytes, what: str) -> list[int]:
    """Ask, and hold the answer against what is always true; returns its error codes."""
    message = request_class(key).decode(body, version)
    codes: list[int] = []
    started = time.thread_time()
    try:
        if key == ApiKey.PRODUCE and message.acks == 0:
            await sweeper.send_unanswered(version, body)
        else:
            codes = error_codes(await sweeper.ask_raw(key, version, body))
    except Closed:
        # Only whoever wants no answer is told of a failure in this way.
        wants_none = key == ApiKey.PRODUCE and message.acks == 0
        assert wants_none or key in _UNKNOWN_CLOSES, f"{what}: closed"
    assert time.thread_time() - started < _SLOW_S, what
    assert ErrorCode.UNKNOWN_SERVER_ERROR not in codes, f"{what}: {message!r}"
    assert all(ErrorCode(code) is not None for code in codes), what
    assert not (complaints := sweeper.complaints.take()), f"{what}: {complaints}"
    await sweeper.is_alive()
    return codes


@pytest.mark.parametrize("key", apis())
def test_golden_requests(key: int, tmp_path: Path) -> None:
    async def main() -> None:
        asked: Counter[int] = Counter()
        seen: set[int] = set()
        async with sweeping(tmp_path / "data") as sweeper:
            for line in golden_requests(key):
                version = line["version"]
                if version not in SERVED[key].versions:
                    continue
                body = bytes.fromhex(line["hex"])
                what = f"{line['name']} {version} {line['case']}"
                await check(sweeper, key, version, body, what)
                if not asked:
                    await sweeper.broker.controller.event_queue.run(sweeper.broker.groups.ensure_topic)
                    await commit_once(sweeper)
                elif sweeper.broker.image.topic(TOPIC) is None:
                    await fill_topic(sweeper)
                message = request_class(key).decode(body, version)
                aim(message, version, sweeper.broker.image.topic_id(TOPIC))
                seen.update(await check(sweeper, key, version, message.encode(version), f"{what}, aimed"))
                asked[version] += 1
            # Whatever names were sent, only the data folder was written to.
            assert [path.name for path in tmp_path.iterdir()] == ["data"]
        assert sorted(asked) == list(SERVED[key].versions)
        assert ErrorCode.NONE in seen or key in _NEED_A_MEMBER | _NEED_A_PRODUCER | _REFUSED
        # Every timer has its turn; what is looked for every few seconds 100 times, not a million times.
        async with sweeping(tmp_path / "data", least_interval_ms=_DAY_MS) as sweeper:
            sweeper.timers.advance(2**33)
            await sweeper.is_alive()
            assert not sweeper.complaints.take()

    run(main)


async def fill_topic(sweeper: Sweeper) -> None:
    await live.create_topic(sweeper.broker, TOPIC, 2)
    for index in (0, 1):
        answer = await sweeper.ask(live.produce(TOPIC, live.batch([b"v"] * 5), index=index), 9)
        assert error_codes(answer) == [ErrorCode.NONE]


async def commit_once(sweeper: Sweeper) -> None:
    await fill_topic(sweeper)
    partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=3)]
    topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)]
    answer = await sweeper.ask(OffsetCommitRequest(group_id=GROUP, topics=topics), 8)
    assert error_codes(answer) == [ErrorCode.NONE]


def aim(message: Any, version: int, topic_id: bytes) -> None:
    """Replace the names in a request by those of what exists; leave everything else as odd as it is."""
    for number, one in enumerate(structs(message)):
        kind = type(one).__name__
        for field in one.FIELDS:
            if version not in field.versions:
                continue
            value = getattr(one, field.name)
            aimed = _aimed(kind, field.name, value, number, topic_id)
            if aimed is not None:
                setattr(one, field.name, aimed)
        if kind == "DeleteTopicState" and one.name is not None:  # type: ignore[attr-defined]
            one.topic_id = bytes(16)  # type: ignore[attr-defined]


def _aimed(kind: str, name: str, value: Any, number: int, topic_id: bytes) -> Any:
    if isinstance(value, list):
        if not value or isinstance(value[0], bytes) or not isinstance(value[0], int | str):
            return None
        first = {"groups": GROUP, "groups_names": GROUP, "coordinator_keys": GROUP, "topic_names": TOPIC}
        first |= {"configuration_keys": _CONFIGS[0]}
        if isinstance(value[0], int) and name in ("partition_indexes", "partitions"):
            return [0, *value[1:]]
        return [first[name], *value[1:]] if name in first else None
    if value is None:
        return None
    if name in ("topic", "resource_name") or (name == "name" and "Topic" in kind and "Config" not in kind):
        return TOPIC
    match name:
        case "name" if "Config" in kind:
            return _CONFIGS[number % len(_CONFIGS)]
        case "topic_id":
            return topic_id
        case "resource_type":
            return _TOPIC_RESOURCE
        case "partition_index" | "partition" | "index":
            return number % 2
        case "group_id":
            return GROUP
        case "acks":
            return -1
        case "session_timeout_ms":
            return value if 6_000 <= value <= 1_800_000 else 10_000
        case "session_id" | "key_type":
            return 0
        case "session_epoch":
            return -1
        case "entity_type":
            return "client-id"
        case "key" if kind == "OpData":
            return "producer_byte_rate"
        case "value" if kind == "OpData":
            return 1e6
        case "mechanism" if kind.startswith("Scram"):
            return 1
        case "iterations":
            return 4096
    return None


@pytest.mark.parametrize("key", apis())
def test_meaningful_requests(key: int, tmp_path: Path) -> None:
    walk: Callable[[Sweeper, int], Awaitable[None]] = WALKS[ApiKey(key)]

    async def main() -> None:
        async with sweeping(tmp_path / "data") as sweeper:
            await sweeper.broker.controller.event_queue.run(sweeper.broker.groups.ensure_topic)
            await commit_once(sweeper)
            for version in SERVED[key].versions:
                await walk(sweeper, version)
                assert not (complaints := sweeper.complaints.take()), complaints
                await sweeper.is_alive()

    run(main)
