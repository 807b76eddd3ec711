"""What Metadata says of partitions is kept while the cluster is as it was, and no longer."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from odradek.broker.event_loop.slices import take_all
from odradek.broker.metadata import topic_descriptions
from odradek.broker.metadata.topic_descriptions import TopicDescriptions
from odradek.broker.network.dispatch import Dispatcher
from odradek.broker.requests.authorization import Operation
from odradek.broker.requests.peer import Peer
from odradek.wire.headers import encode_request
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from seeds import each_seed

from ..admin_world import Denying
from ..dispatching import PEER, Later, dispatcher_of, plain
from ..live import create_topic, delete_topics, running
from ..net import run, settle


def frame_of(message: MetadataRequest, version: int = 9) -> bytes:
    return b"".join(encode_request(3, version, 1, "x", message))[4:]


def ask(dispatcher: Dispatcher, frame: bytes, peer: Peer = PEER) -> Any:
    return plain(dispatcher.dispatch(peer, memoryview(frame), Later()))


def anew(dispatcher: Dispatcher, frame: bytes) -> Any:
    """The answer when nothing has been kept."""
    with mock.patch.object(TopicDescriptions, "kept", return_value=None):
        return ask(dispatcher, frame)


def draw(chance: random.Random, ids: dict[str, bytes]) -> bytes:
    version = chance.randrange(14)
    topics = []
    for name in chance.sample([*ids, "unknown"], chance.choice((0, 1, 1, 2))):
        topic = MetadataRequestTopic(name=name)
        if version >= 12 and chance.random() < 0.3:
            topic = MetadataRequestTopic(name=None, topic_id=ids.get(name, b"?" * 16))
        topics.append(topic)
    message = MetadataRequest(topics=topics)
    if version > 0 and chance.random() < 0.3:
        message.topics = None
    if version >= 4:
        message.allow_auto_topic_creation = False
    if version >= 8:
        message.include_topic_authorized_operations = chance.random() < 0.3
    return frame_of(message, version)


@each_seed(3)
def test_what_is_kept_is_what_would_be_said_anew(seed: int, tmp_path: Path) -> None:
    async def main() -> None:
        chance = random.Random(seed)
        async with running(tmp_path, auto_create_topics_enable=False) as broker:
            ids = {name: await create_topic(broker, name, 3) for name in ("a", "b")}
            dispatcher = dispatcher_of(broker)
            for step in range(400):
                frame = draw(chance, ids)
                assert ask(dispatcher, frame) == anew(dispatcher, frame)
                what = chance.random()
                if what < 0.03:
                    ids[f"topic-{step}"] = await create_topic(broker, f"topic-{step}", chance.randint(1, 70))
                elif what < 0.06 and len(ids) > 1:
                    name = chance.choice(list(ids))
                    await delete_topics(broker, [name])
                    del ids[name]
                elif what < 0.1:
                    offline = [(chance.choice(list(ids)), 0)]
                    failed = partial(broker.controller.note_offline, broker.broker_id, offline)
                    await broker.controller.event_queue.run(failed)
            assert len(broker.topic_descriptions) > 0

    run(main)


def test_a_replica_that_goes_offline_is_said_anew(tmp_path: Path) -> None:
    """Also where the controller says nothing else: the image is as it was."""

    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "a")
            image = broker.image
            metadata = SimpleNamespace(image=image, offline_replicas=frozenset())
            descriptions = TopicDescriptions(metadata)

            def offline() -> list[int]:
                found = descriptions.kept(image, "a", 9, "PLAINTEXT")
                if found is None:
                    found = take_all(descriptions.describe(image, image.topics["a"], 9, "PLAINTEXT"))
                    assert descriptions.kept(image, "a", 9, "PLAINTEXT") is found
                return list(found[0].offline_replicas)

            assert offline() == []
            metadata.offline_replicas = frozenset({(broker.broker_id, "a", 0)})
            assert offline() == [broker.broker_id]

    run(main)


def test_a_large_topic_is_said_again_as_it_was(tmp_path: Path) -> None:
    """Large answers are taken apart when they have been written: what is kept is not."""

    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "a", 300)
            dispatcher = dispatcher_of(broker)
            frame = frame_of(MetadataRequest(topics=None))
            answers = [ask(dispatcher, frame) for _ in range(3)]
            assert answers[0] == answers[1] == answers[2] == anew(dispatcher, frame)
            response, _ = MetadataResponse.decode_from(answers[2], 9, 9)
            assert len(response.topics[0].partitions) == 300

    run(main)


def test_each_listener_has_its_own_descriptions(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "a")
            dispatcher = dispatcher_of(broker)
            frame = frame_of(MetadataRequest(topics=None))
            other = Peer("127.0.0.1", 1, "c", "OTHER")
            answers = [ask(dispatcher, frame, peer) for peer in (PEER, other, PEER, other)]
            assert answers[:2] == answers[2:]
            assert answers[0] != answers[1]

    run(main)


def test_permissions_are_asked_for_each_time(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "a")
            dispatcher = dispatcher_of(broker)
            frame = frame_of(MetadataRequest(topics=None))
            seen, _ = MetadataResponse.decode_from(ask(dispatcher, frame), 9, 9)
            broker.authorizer = Denying((Operation.DESCRIBE, "a"))
            hidden, _ = MetadataResponse.decode_from(ask(dispatcher, frame), 9, 9)
            assert ([one.name for one in seen.topics], hidden.topics) == (["a"], [])

    run(main)


def test_a_topic_that_is_not_there_is_created_and_then_described(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            dispatcher = dispatcher_of(broker)
            frame = frame_of(MetadataRequest(topics=[MetadataRequestTopic(name="new")]))
            dispatcher.dispatch(PEER, memoryview(frame), Later())
            await settle(lambda: broker.image.topic("new") is not None, "for the topic")
            response, _ = MetadataResponse.decode_from(ask(dispatcher, frame), 9, 9)
            (topic,) = response.topics
            assert (topic.name, topic.error_code, len(topic.partitions)) == ("new", 0, 1)

    run(main)


def test_what_is_kept_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr(topic_descriptions, "MAX_PARTITIONS", 10)
        async with running(tmp_path) as broker:
            for number in range(6):
                await create_topic(broker, f"t{number}", 3)
            await create_topic(broker, "large", 11)
            dispatcher = dispatcher_of(broker)
            frame = frame_of(MetadataRequest(topics=None))
            for _ in range(3):
                assert ask(dispatcher, frame) == anew(dispatcher, frame)
                assert 0 < len(broker.topic_descriptions) <= 10

    run(main)


def test_a_cluster_that_changes_meanwhile_is_not_kept(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "a", topic_descriptions.AT_ONCE)
            descriptions = TopicDescriptions(broker.controller)
            image = broker.image
            assert descriptions.kept(image, "a", 9, "PLAINTEXT") is None
            steps = descriptions.describe(image, image.topics["a"], 9, "PLAINTEXT")
            next(steps)
            await create_topic(broker, "b")
            with pytest.raises(StopIteration):
                next(steps)
            assert len(descriptions) == 0
            assert descriptions.kept(broker.image, "a", 9, "PLAINTEXT") is None

    run(main)
