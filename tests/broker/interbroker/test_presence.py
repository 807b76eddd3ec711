"""Who is connected: by which client ids, and for how long."""

from __future__ import annotations

import pytest

from odradek.broker.interbroker.presence import LONGEST_PAUSE_MS, Presence, pause_ms, watch_id, watcher
from odradek.broker.requests.peer import Peer


def peer(port: int) -> Peer:
    made = Peer("127.0.0.1", port, f"127.0.0.1:9092-127.0.0.1:{port}-0", "PLAINTEXT")
    made.is_open = True
    return made


@pytest.mark.parametrize(
    ("client_id", "broker"),
    [
        ("broker-7-watch", 7),
        ("broker-2147483647-watch", 2**31 - 1),
        ("broker-7-fetcher-0", None),
        ("broker--watch", None),
        ("broker-7-watch ", None),
        ("broker-٧-watch", None),
        ("broker-99999999999999999999-watch", None),
        ("", None),
    ],
)
def test_who_watches(client_id: str, broker: int | None) -> None:
    assert watcher(client_id) == broker


def test_who_watches_says_so() -> None:
    assert watcher(watch_id(7)) == 7


def test_one_is_there_as_long_as_one_of_its_connections_is() -> None:
    presence = Presence()
    first, second = peer(1), peer(2)
    assert not presence.is_connected(7)
    presence.note(7, first)
    presence.note(7, second)
    presence.note(7, second)
    first.is_open = False
    assert presence.is_connected(7)
    assert not presence.is_connected(8)
    second.is_open = False
    assert not presence.is_connected(7)


def test_what_is_closed_is_forgotten() -> None:
    presence = Presence()
    for port in range(100):
        one = peer(port)
        presence.note(7, one)
        one.is_open = False
    assert len(presence.brokers) == 1
    for broker in range(100):
        presence.note(broker, one)
    assert len(presence.brokers) == 1


def test_one_looks_soon_and_then_less_often() -> None:
    pauses = [pause_ms(doubts) for doubts in range(40)]
    assert pauses[0] < 100
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE_MS
