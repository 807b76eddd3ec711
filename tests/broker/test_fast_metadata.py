"""The short cut for Metadata answers as the ordinary way does, to the byte, whatever happens."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.app import Broker
from odradek.broker.fast import metadata as fast_metadata
from odradek.broker.fast.metadata import FastMetadata
from odradek.broker.network.dispatch import Dispatcher
from odradek.broker.network.peer import Peer
from odradek.wire.headers import encode_request
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from seeds import each_seed

from .admin_world import Denying
from .live import create_topic, running
from .net import run, settle
from .two_ways import PEER, Later, dispatch, dispatchers, plain


def frame_of(message: MetadataRequest, version: int, number: int = 1, client: str | None = "x") -> bytes:
    return b"".join(encode_request(3, version, number, client, message))[4:]


def two_ways(broker: Broker) -> tuple[Dispatcher, Dispatcher]:
    return dispatchers(broker, encode_request(3, 4, 1, "x", MetadataRequest(topics=[])))


def kept(dispatcher: Dispatcher) -> FastMetadata:
    fast: Any = dispatcher._fast[3]
    return fast


def draw(chance: random.Random, ids: dict[str, bytes]) -> bytes:
    version = chance.randrange(14)
    names = [*ids, "unknown", "bad name!"]
    topics = []
    for name in chance.sample(names, chance.choice((0, 1, 1, 2, 3))):
        topic = MetadataRequestTopic(name=name)
        if version >= 12 and chance.random() < 0.3:
            topic = MetadataRequestTopic(name=None, topic_id=ids.get(name, b"?" * 16))
        elif version >= 10 and chance.random() < 0.05:
            topic = MetadataRequestTopic(name=None)
        topics.append(topic)
    message = MetadataRequest(topics=topics)
    if version > 0 and chance.random() < 0.2:
        message.topics = None
    if version >= 4:
        message.allow_auto_topic_creation = False
    if version >= 8:
        message.include_topic_authorized_operations = chance.random() < 0.3
    if 8 <= version <= 10:
        message.include_cluster_authorized_operations = chance.random() < 0.3
    client = chance.choice((None, "", "client", "cli\u00ebnt", "x" * 300))
    data = bytearray(frame_of(message, version, chance.randrange(2**31), client))
    if chance.random() < 0.1:
        data[chance.randrange(len(data))] = chance.randrange(256)
    if chance.random() < 0.03:
        del data[chance.randrange(len(data)) :]
    if chance.random() < 0.03:
        data += b"\0\0\0"
    return bytes(data)


@each_seed(4)
def test_both_ways_answer_the_same(seed: int, tmp_path: Path) -> None:
    async def main() -> None:
        chance = random.Random(seed)
        async with running(tmp_path, auto_create_topics_enable=False) as broker:
            ids = {name: create_topic(broker, name, 3) for name in ("a", "b")}
            fast, ordinary = two_ways(broker)
            requests = broker.metrics.requests.of("Metadata")

            def counted(dispatcher: Dispatcher, frame: bytes) -> tuple[Any, tuple[int, int, int]]:
                before = requests.requests, requests.request_bytes, requests.response_bytes
                got = dispatch(dispatcher, frame, Later())
                after = requests.requests, requests.request_bytes, requests.response_bytes
                change: Any = tuple(new - old for old, new in zip(before, after, strict=True))
                return (got if isinstance(got, str) else plain(got)), change

            frames: list[bytes] = []
            short = 0
            for step in range(1500):
                if frames and chance.random() < 0.5:
                    frame = bytearray(chance.choice(frames))
                    frame[4:8] = chance.randbytes(4)
                    frame = bytes(frame)  # type: ignore[assignment]
                else:
                    frame = draw(chance, ids)  # type: ignore[assignment]
                frames.append(bytes(frame))
                assert counted(fast, bytes(frame)) == counted(ordinary, bytes(frame))
                if frame[:2] == b"\0\3":
                    short += kept(fast)(PEER, bytes(frame), Later()) is not NotImplemented
                if chance.random() < 0.02:
                    name = f"topic-{step}"
                    ids[name] = create_topic(broker, name, chance.randint(1, 4))
                elif chance.random() < 0.02 and len(ids) > 1:
                    name = chance.choice(list(ids))
                    broker.controller.delete_topics([name])
                    del ids[name]
            assert short > 500

    run(main)


def test_a_topic_that_is_not_known_is_asked_for_in_the_ordinary_way(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            fast, _ = two_ways(broker)
            frame = frame_of(MetadataRequest(topics=[MetadataRequestTopic(name="new")]), 9)
            assert kept(fast)(PEER, frame, Later()) is NotImplemented
            assert broker.image.topic("new") is None
            dispatch(fast, frame, Later())
            await settle(lambda: broker.image.topic("new") is not None, "for the topic")
            assert kept(fast)(PEER, frame, Later()) is not NotImplemented

    run(main)


def test_each_listener_has_its_own_answers(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            create_topic(broker, "a")
            fast, ordinary = two_ways(broker)
            frame = frame_of(MetadataRequest(topics=None), 9)
            other = Peer("127.0.0.1", 1, "c", "OTHER")
            answers = []
            for peer in (PEER, other, PEER, other):
                answers.append(plain(fast.dispatch(peer, frame, Later())))
                assert answers[-1] == plain(ordinary.dispatch(peer, frame, Later()))
            assert answers[0] != answers[1]

    run(main)


def test_permissions_are_asked_for_each_time(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            create_topic(broker, "a")
            fast, _ = two_ways(broker)
            frame = frame_of(MetadataRequest(topics=None), 9)
            assert kept(fast)(PEER, frame, Later()) is not NotImplemented
            broker.authorizer = Denying()
            assert kept(fast)(PEER, frame, Later()) is NotImplemented

    run(main)


def test_what_is_kept_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr(fast_metadata, "MAX_KEPT_BYTES", 20_000)
        async with running(tmp_path) as broker:
            create_topic(broker, "a")
            fast, ordinary = two_ways(broker)
            for number in range(100):
                # What stands behind a request is passed over, and makes another question of it.
                frame = frame_of(MetadataRequest(topics=None), 9) + bytes(number)
                assert plain(fast.dispatch(PEER, frame, Later())) == plain(
                    ordinary.dispatch(PEER, frame, Later())
                )
                assert kept(fast)._kept_bytes <= 20_000
                assert len(kept(fast)._kept) < 40
            monkeypatch.setattr(fast_metadata, "MAX_KEPT_BYTES", 10)
            assert kept(fast)(PEER, frame_of(MetadataRequest(topics=None), 5), Later()) is not NotImplemented
            assert not kept(fast)._kept

    run(main)
