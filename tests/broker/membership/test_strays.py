"""Logs that are not this broker's any more, and of whose removal nobody tells it."""

from __future__ import annotations

import errno
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.membership.strays import Strays
from odradek.cluster import nodes, paths
from odradek.cluster.store.store import StoreUnavailable, ensure_path
from odradek.wire.primitives import ZERO_UUID
from replication.replicas import append

from .controlled import ANOTHER_ID, ID, ME, OTHER, THIRD, World, run, state

TOPIC = paths.topic("t")


class Looking:
    """A broker that looks for strays when it is told to. It leads `t-0` no more, and holds a record of it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.strays = Strays(
            broker_id=ME,
            logs=world.logs,
            replicas=world.replicas,
            image=lambda: world.metadata.image,
            run_in_store=self._run_in_store,
            set_aside=world.changes.set_aside,
        )

    async def _run_in_store(self, work: Any) -> Any:
        return work(self.world.store)

    def assign(self, *replicas: int, topic_id: bytes = ID) -> None:
        """Have the store say who holds `t-0`."""
        node = nodes.TopicNode({0: nodes.ReplicaAssignment(replicas)}, topic_id)
        ensure_path(self.world.store, TOPIC)
        self.world.store.set(TOPIC, nodes.encode_topic(node))

    async def look(self, times: int = 2) -> None:
        for _ in range(times):
            await self.strays.look()

    def check(self, *, is_stray: bool) -> None:
        """Is the folder there by its name, or by that of a stray?"""
        (folder,) = self.world.folders()
        assert folder.endswith("-stray") == is_stray, folder
        assert (self.world.replicas.find("t", 0) is None) == is_stray
        assert (self.world.logs.get("t", 0) is None) == is_stray


def looks(scenario: Callable[[Looking], Coroutine[Any, Any, None]]) -> None:
    async def work(world: World) -> None:
        assert await world.lead(state())
        append(world.replicas.get("t", 0))
        world.replicas.stop("t", 0)
        await scenario(Looking(world))

    run(work)


@pytest.mark.parametrize("topic_id", [ID, ZERO_UUID], ids=["known by its id", "of an old node"])
def test_what_others_hold_alone_is_set_aside_at_the_second_look(topic_id: bytes) -> None:
    async def scenario(looking: Looking) -> None:
        looking.assign(OTHER, THIRD, topic_id=topic_id)
        await looking.look(1)
        looking.check(is_stray=False)
        await looking.look(1)
        looking.check(is_stray=True)

    looks(scenario)


def test_a_topic_that_is_no_more_leaves_no_log() -> None:
    async def scenario(looking: Looking) -> None:
        await looking.look()
        looking.check(is_stray=True)

    looks(scenario)


def test_nor_does_one_whose_name_another_topic_has() -> None:
    async def scenario(looking: Looking) -> None:
        looking.assign(ME, OTHER, topic_id=ANOTHER_ID)
        await looking.look()
        looking.check(is_stray=True)

    looks(scenario)


def test_what_the_store_has_here_stays_though_nobody_has_said_so_yet() -> None:
    async def scenario(looking: Looking) -> None:
        looking.assign(OTHER, ME)
        await looking.look(4)
        looking.check(is_stray=False)

    looks(scenario)


def test_what_is_led_stays_whatever_the_store_says() -> None:
    async def scenario(looking: Looking) -> None:
        looking.assign(OTHER, THIRD)
        await looking.look(1)
        await looking.world.lead(state(epoch=4))
        await looking.look(3)
        looking.check(is_stray=False)

    looks(scenario)


def test_what_is_taken_up_again_while_the_store_is_read_stays() -> None:
    async def scenario(looking: Looking) -> None:
        looking.assign(OTHER, THIRD)
        await looking.look(1)
        read = looking.world.store.get_many

        def get_many(wanted: list[str]) -> Any:
            looking.world.replicas.get("t", 0).leader_id = OTHER
            return read(wanted)

        looking.world.store.get_many = get_many
        await looking.look(1)
        looking.check(is_stray=False)

    looks(scenario)


def test_a_store_that_is_away_is_no_reason() -> None:
    async def scenario(looking: Looking) -> None:
        looking.assign(OTHER, THIRD)
        store = looking.world.store
        read = store.get_many

        def get_many(wanted: list[str]) -> Any:
            raise StoreUnavailable("/", "it is away")

        store.get_many = get_many
        await looking.look(3)
        looking.check(is_stray=False)
        store.get_many = read
        await looking.look(1)
        looking.check(is_stray=True)

    looks(scenario)


@pytest.mark.parametrize("data", [b"nothing that is a topic", nodes.encode_topic(nodes.TopicNode({}, ID))])
def test_nor_is_a_node_that_does_not_say_where_the_partition_is(data: bytes) -> None:
    async def scenario(looking: Looking) -> None:
        ensure_path(looking.world.store, TOPIC)
        looking.world.store.set(TOPIC, data)
        await looking.look(3)
        looking.check(is_stray=False)

    looks(scenario)


def test_a_folder_that_cannot_be_renamed_is_tried_again() -> None:
    async def scenario(looking: Looking) -> None:
        looking.assign(OTHER, THIRD)
        files = looking.world.files
        rename = files.rename

        def refuse(source: Path, target: Path) -> None:
            raise OSError(errno.EACCES, "Permission denied", str(source))

        files.rename = refuse  # type: ignore[method-assign]
        await looking.look()
        looking.check(is_stray=False)
        files.rename = rename  # type: ignore[method-assign]
        await looking.look(1)
        looking.check(is_stray=True)

    looks(scenario)


def test_after_the_stop_nothing_is_renamed() -> None:
    async def scenario(looking: Looking) -> None:
        looking.assign(OTHER, THIRD)
        await looking.look(1)
        await looking.world.changes.stop()
        await looking.look(1)
        looking.check(is_stray=False)

    looks(scenario)


def test_what_comes_back_begins_anew() -> None:
    async def scenario(looking: Looking) -> None:
        looking.assign(OTHER, THIRD)
        await looking.look()
        # It is copied from its leader, and is in no in-sync set.
        _, errors = await looking.world.lead(state(leader=OTHER, epoch=9, isr=[OTHER]))
        assert [int(one) for one in errors] == [0]
        assert looking.world.replicas.get("t", 0).log.log_end_offset == 0
        assert len(looking.world.folders()) == 2

    looks(scenario)
