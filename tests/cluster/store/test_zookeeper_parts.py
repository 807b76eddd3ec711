"""The connect string, Kafka's ACLs, and persistent watches made of one-shot ones: without a server."""

from __future__ import annotations

import pytest

from odradek.cluster.store.store import BadArguments, EventType, WatchEvent
from odradek.cluster.store.zookeeper_access import CREATOR_ALL, WORLD_ALL, WORLD_READ, ConnectString, acl_of
from odradek.cluster.store.zookeeper_watchers import Look, WatchedNode


@pytest.mark.parametrize(
    ("text", "servers", "chroot"),
    [
        ("h:2181", "h:2181", ""),
        ("h", "h", ""),
        ("h1:2181,h2:2182", "h1:2181,h2:2182", ""),
        ("h1:2181, h2:2182/kafka", "h1:2181,h2:2182", "/kafka"),
        ("h:2181/a/b/", "h:2181", "/a/b"),
        ("h:2181/", "h:2181", ""),
        ("[::1]:2181,[::2]/x", "[::1]:2181,[::2]", "/x"),
    ],
)
def test_connect_strings(text: str, servers: str, chroot: str) -> None:
    assert ConnectString.parse(text) == (servers, chroot)


@pytest.mark.parametrize("text", ["", "/kafka", "h:2181,", ":2181", "h:port", "h:2181/a//b", "h:2181/.."])
def test_what_is_no_connect_string(text: str) -> None:
    with pytest.raises(BadArguments):
        ConnectString.parse(text)


@pytest.mark.parametrize(
    ("path", "acl"),
    [
        ("/brokers/ids/1", (CREATOR_ALL, WORLD_READ)),
        ("/config", (CREATOR_ALL, WORLD_READ)),
        ("/config/topics/clicks", (CREATOR_ALL, WORLD_READ)),
        ("/config/users/bob", (CREATOR_ALL,)),
        ("/config/brokers/1", (CREATOR_ALL,)),
        ("/delegation_token/tokens/x", (CREATOR_ALL,)),
        ("/consumers", WORLD_ALL),
        ("/consumers/x", (CREATOR_ALL, WORLD_READ)),
    ],
)
def test_acls(path: str, acl: object) -> None:
    assert acl_of(path, True) == acl
    assert acl_of(path, False) == WORLD_ALL


CREATED, DELETED, CHANGED, CHILDREN = (
    EventType.CREATED,
    EventType.DELETED,
    EventType.CHANGED,
    EventType.CHILDREN,
)
OLD = Look(1, 1, 1)


@pytest.mark.parametrize(
    ("before", "kind", "after", "told"),
    [
        (None, CREATED, OLD, [CREATED]),
        (None, CREATED, None, [CREATED]),
        (OLD, DELETED, None, [DELETED]),
        (OLD, DELETED, Look(2, 2, 2), [DELETED, CREATED]),
        (OLD, CHANGED, Look(1, 2, 1), [CHANGED]),
        (OLD, CHANGED, Look(1, 2, 3), [CHANGED, CHILDREN]),
        (OLD, CHILDREN, Look(1, 2, 3), [CHANGED, CHILDREN]),
        (OLD, CHILDREN, None, [CHILDREN, DELETED]),
        (OLD, CHANGED, OLD, [CHANGED]),
    ],
)
def test_a_firing_and_the_look_after_it(
    before: Look | None, kind: EventType, after: Look | None, told: list[EventType]
) -> None:
    node = WatchedNode("/n")
    node.began(before)
    assert node.fired(kind, after) == [WatchEvent(each, "/n") for each in told]
    assert node.fired(CHANGED, after) == [WatchEvent(CHANGED, "/n")], "the look is the new one"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (None, None, [DELETED]),
        (OLD, OLD, [CHANGED, CHILDREN]),
        (OLD, Look(1, 2, 1), [CHANGED]),
        (OLD, None, [DELETED]),
        (None, OLD, [CREATED]),
    ],
)
def test_the_look_after_a_lost_connection(
    before: Look | None, after: Look | None, told: list[EventType]
) -> None:
    node = WatchedNode("/n")
    node.began(before)
    assert node.reconnected(after) == [WatchEvent(each, "/n") for each in told]


def test_an_event_before_the_first_look_is_told() -> None:
    node = WatchedNode("/n")
    assert node.fired(CREATED, OLD) == [WatchEvent(CREATED, "/n")]
    node.began(None)
    assert node.seen == OLD
