"""Configs in a cluster: they reach every broker by their notices, whatever else is in the store."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.cluster import nodes, paths
from odradek.cluster.nodes import (
    BrokerRegistration,
    Endpoint,
)

from ..brokers import MortalStore, World


def test_configs_reach_every_broker_by_their_notices() -> None:
    world = World((1, 2))
    heard: list[dict[str, object]] = []
    world.controllers[2].add_config_listener(lambda configs: heard.append(dict(configs)))
    world.create("t", [1])
    world.active.alter_config("topics/t", {"retention.ms": "5"})
    world.settle()
    assert heard == [{"topics/t": {"retention.ms": "5"}}]
    assert world.controllers[2].image.topic_config("t") == {"retention.ms": "5"}
    third = world.begin(3)
    assert third.image.topic_config("t") == {"retention.ms": "5"}


def test_a_notice_that_another_broker_removes_meanwhile_holds_up_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World((1, 2))
    world.create("t", [1])
    store = world.stores[2]
    children = store.children
    store.children = lambda path, watch=None: [  # type: ignore[method-assign]
        *(["config_change_gone"] if path == paths.CONFIG_CHANGES else []),
        *children(path, watch),
    ]
    world.active.alter_config("topics/t", {"retention.ms": "5"})
    world.settle()
    assert world.controllers[2].image.topic_config("t") == {"retention.ms": "5"}
    assert caplog.messages == []


def test_configs_that_nobody_can_read_stay_as_they_are_known_and_hold_up_no_others() -> None:
    world = World()
    world.create("t", [2, 3])
    world.create("u", [2, 3])
    told: dict[int, dict[str, Any]] = {1: {}, 3: {}}
    for broker, seen in told.items():
        world.controllers[broker].add_config_listener(seen.update)
    world.controllers[2].alter_config("topics/t", {"cleanup.policy": "compact"})
    world.settle()
    world.reader.set(paths.entity_config("topics/t"), b"no json")
    for notice in (b"{", nodes.encode_config_change("topics/t")):
        world.reader.create(paths.CONFIG_CHANGE_PREFIX, notice, sequence=True)
    world.controllers[2].alter_config("topics/u", {"retention.ms": "1"})
    world.settle()
    for seen in told.values():
        assert seen == {"topics/t": {"cleanup.policy": "compact"}, "topics/u": {"retention.ms": "1"}}
    # The next term, and a new session, begin all the same.
    world.kill(1)
    assert world.active.broker_id == 2
    assert world.active.image.topic_config("t") == {"cleanup.policy": "compact"}
    assert world.active.image.topic_config("u") == {"retention.ms": "1"}
    renew_session(world, 3)
    assert told[3]["topics/t"] == {"cleanup.policy": "compact"}
    # A start is refused by its name: with other configs in their place records could be deleted.
    with pytest.raises(nodes.NodeFormatError, match="/config/topics/t"):
        world.begin(4)


def renew_session(world: World, broker: int) -> None:
    """A broker's session ends, and it registers in another one."""
    controller = world.controllers[broker]
    world.stores[broker].expire()
    controller.session_ended()
    controller.store = world.stores[broker] = MortalStore(world.server)
    controller.start(BrokerRegistration((Endpoint("PLAINTEXT", "h", 9000 + broker),)))
    world.settle()


def test_configs_that_were_removed_while_there_was_no_session_are_told() -> None:
    world = World()
    world.create("t", [1, 2])
    seen: dict[str, Any] = {}
    world.controllers[3].add_config_listener(seen.update)
    world.active.alter_config("topics/t", {"retention.ms": "1"})
    world.settle()
    assert seen == {"topics/t": {"retention.ms": "1"}}
    world.stores[3].expire()
    world.controllers[3].session_ended()
    world.active.alter_config("topics/t", {})
    world.settle()
    renew_session(world, 3)
    assert seen == {"topics/t": {}}
