"""The controller dies at every write of its work, and perhaps the next one too: all is done in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from odradek.cluster import nodes, paths
from odradek.cluster.controller import metadata_writer
from odradek.cluster.controller.partition_reassignment import is_moving
from odradek.cluster.controller.topic_manager import NewTopic
from odradek.cluster.image import PartitionImage
from odradek.cluster.nodes import encode_reassignments

from ..brokers import World

pytestmark = pytest.mark.model

MAX_WRITES = 60
WRITES_OF_THE_NEXT = (None, 1, 2, 3, 4, 6)


class Case(NamedTuple):
    """Work of a controller.

    Attributes:
        work: begins it.
        done: looks at a cluster whose brokers are all there again. It may have been begun, or not: `asked`
            says that it must have been, as the wish stands in the store.
        prepare: makes the cluster what it is before.
    """

    work: Callable[[World], None]
    done: Callable[[World], None]
    prepare: Callable[[World], None] = lambda world: None


def partitions(world: World, topic: str = "t") -> list[PartitionImage]:
    return list(world.active.image.topics[topic].partitions.values())


def ask(world: World, path: str, data: bytes | None = None) -> None:
    """A tool writes a node, and the controller sees it."""
    world.reader.create(path, data)
    world.settle()


# --- topics -------------------------------------------------------------------------------------------------


def create(world: World) -> None:
    wanted = [NewTopic("new", assignment={i: [1, 2] for i in range(7)}, configs={"retention.ms": "1"})]
    world.do(1, lambda controller: controller.create_topics(wanted))


def created(world: World) -> None:
    if "new" in world.active.image.topics:
        assert len(partitions(world, "new")) == 7
        assert {one.leader for one in partitions(world, "new")} <= {1, 2}
        assert world.active.image.topic_config("new") == {"retention.ms": "1"}


def create_by_tool(world: World) -> None:
    node = nodes.dump({"version": 1, "partitions": {str(i): [1, 2] for i in range(7)}})
    ask(world, paths.topic("new"), node)


def created_by_tool(world: World) -> None:
    assert len(partitions(world, "new")) == 7
    assert {one.leader for one in partitions(world, "new")} <= {1, 2}


def grow(world: World) -> None:
    world.do(1, lambda controller: controller.create_partitions("t", 9, [[1, 2], [2, 3], [3, 1]] * 2))


def grow_by_tool(world: World) -> None:
    rows = {str(i): [1 + i % 3, 1 + (i + 1) % 3] for i in range(9)}
    rows |= {"0": [1, 2], "1": [2, 1], "2": [3, 1]}
    world.reader.set(paths.topic("t"), nodes.dump({"version": 1, "partitions": rows}))
    world.settle()


def grown(world: World) -> None:
    assert len(partitions(world)) in {3, 9}
    assert all(one.leader in one.replicas for one in partitions(world))


def grown_by_tool(world: World) -> None:
    assert len(partitions(world)) == 9
    grown(world)


def delete(world: World) -> None:
    world.do(1, lambda controller: controller.delete_topics(["t"]))


def delete_by_tool(world: World) -> None:
    ask(world, paths.delete_topic("t"))


def is_deleted(world: World) -> None:
    assert not world.reader.children(paths.DELETE_TOPICS)
    assert "t" not in world.active.image.topics
    for path in (paths.topic("t"), "/config/topics/t"):
        assert world.reader.exists(path) is None


def deleted(world: World) -> None:
    assert not world.active.image.marked
    if "t" not in world.active.image.topics:
        is_deleted(world)


def lose_replica(world: World) -> None:
    """A broker with replicas dies."""
    world.kill(2)


def come_back(world: World) -> None:
    world.begin(2)


def then(*works: Callable[[World], None]) -> Callable[[World], None]:
    def do_all(world: World) -> None:
        for work in works:
            work(world)

    return do_all


def make_deaf(world: World) -> None:
    """A broker does not answer to what it is told for now."""
    world.deaf.add(2)


# --- moves --------------------------------------------------------------------------------------------------


def reassign(world: World) -> None:
    # 3 comes in, which lives all the time: nobody may begin to move to a broker that is not there.
    for index in range(3):
        world.do(1, lambda controller, index=index: controller.reassign("t", index, [1, 3]))  # type: ignore[misc]


def take_back(world: World) -> None:
    for index in range(2):
        if 1 in world.controllers:
            world.do(1, lambda controller, index=index: controller.reassign("t", index, None))  # type: ignore[misc]


def reassign_by_tool(world: World) -> None:
    ask(world, paths.REASSIGN_PARTITIONS, encode_reassignments([("t", i, (1, 3)) for i in range(3)]))


def catch_up(world: World) -> None:
    """The last new replicas come into the ISRs, which ends reassignments."""
    for index in range(3):
        if 1 in world.controllers:
            world.join_isr("t", index, *world.active.image.topics["t"].partitions[index].replicas)


def settled(world: World) -> None:
    assert not any(is_moving(one) for one in partitions(world))
    assert all(set(one.isr) == set(one.replicas) for one in partitions(world))


def moved(world: World) -> None:
    settled(world)
    assert {one.replicas for one in partitions(world)} == {(1, 3)}
    assert world.reader.exists(paths.REASSIGN_PARTITIONS) is None


# --- elections ----------------------------------------------------------------------------------------------


def lead_elsewhere(world: World) -> None:
    """1 leads everything."""
    for broker in (2, 3):
        world.kill(broker)
        world.begin(broker)
    world.everybody_catches_up()


def elect(world: World) -> None:
    def elect_all(controller: object) -> None:
        for index, one in enumerate(partitions(world)):
            if one.leader != one.replicas[0]:
                controller.elect_leader("t", index, unclean=False)  # type: ignore[attr-defined]

    world.do(1, elect_all)


def elect_by_tool(world: World) -> None:
    wanted = [{"topic": "t", "partition": index} for index in range(3)]
    ask(world, paths.PREFERRED_REPLICA_ELECTION, nodes.dump({"version": 1, "partitions": wanted}))


def rebalance(world: World) -> None:
    world.do(1, lambda controller: controller.rebalance_leaders())


def elected_by_tool(world: World) -> None:
    assert world.reader.exists(paths.PREFERRED_REPLICA_ELECTION) is None
    settled(world)


def lose_all_in_sync(world: World) -> None:
    """Only 3 is left of a partition whose records 2 alone has."""
    world.create("lost", [2, 3], [2, 3], [2, 3])
    world.kill(3)
    world.kill(2)
    world.begin(3)


def elect_uncleanly(world: World) -> None:
    def elect_all(controller: object) -> None:
        for index in range(3):
            controller.elect_leader("lost", index, unclean=True)  # type: ignore[attr-defined]

    world.do(1, elect_all)


def elected_uncleanly(world: World) -> None:
    assert all(set(one.isr) == {2, 3} for one in partitions(world, "lost"))


def allow_unclean(world: World) -> None:
    """Somebody allows it for the topic, which elects at once."""
    entity = "topics/lost"
    world.do(1, lambda one: one.alter_config(entity, {"unclean.leader.election.enable": "true"}))


# --- brokers ------------------------------------------------------------------------------------------------


def lose_a_broker(world: World) -> None:
    world.do(1, lambda controller: controller.on_broker_refused(2))


def leave(world: World) -> None:
    world.do(1, lambda controller: controller.controlled_shutdown(2))


def lose_a_folder(world: World) -> None:
    world.do(1, lambda controller: controller.note_offline(2, [("t", 0), ("t", 1)]))


def nothing(world: World) -> None:
    """All that is said of it every cluster must hold to."""


CASES = {
    "create": Case(create, created),
    "create by tool": Case(create_by_tool, created_by_tool),
    "grow": Case(grow, grown),
    "grow by tool": Case(grow_by_tool, grown_by_tool),
    "delete": Case(delete, deleted),
    "delete by tool": Case(delete_by_tool, is_deleted),
    "delete, a replica's broker dead": Case(then(delete, come_back), deleted, lose_replica),
    "delete by tool, a replica's broker dead": Case(
        then(delete_by_tool, come_back), is_deleted, lose_replica
    ),
    "delete, a broker silent": Case(delete, deleted, make_deaf),
    "reassign": Case(reassign, settled),
    "reassign by tool": Case(reassign_by_tool, moved),
    "end a reassignment": Case(catch_up, moved, reassign),
    "end a reassignment by tool": Case(catch_up, moved, reassign_by_tool),
    "take a reassignment back": Case(take_back, settled, reassign),
    "elect preferred leaders": Case(elect, settled, lead_elsewhere),
    "elect preferred leaders by tool": Case(elect_by_tool, elected_by_tool, lead_elsewhere),
    "rebalance": Case(rebalance, settled, lead_elsewhere),
    "elect uncleanly": Case(elect_uncleanly, elected_uncleanly, lose_all_in_sync),
    "allow unclean elections": Case(allow_unclean, elected_uncleanly, lose_all_in_sync),
    "lose a broker": Case(lose_a_broker, settled),
    "a broker leaves": Case(leave, settled),
    "a folder fails": Case(lose_a_folder, settled),
}


@pytest.fixture(autouse=True)
def small_transactions(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """There are many places to die at."""
    monkeypatch.setattr(metadata_writer, "WRITES_PER_TRANSACTION", 2)
    return iter([None])


@pytest.mark.parametrize("after", [False, True], ids=["before it", "after it"])
@pytest.mark.parametrize("name", CASES)
def test_the_controllers_death_at_any_write(name: str, after: bool) -> None:
    case = CASES[name]
    deaths = 0
    for n in range(1, MAX_WRITES):
        died = False
        for next_one in WRITES_OF_THE_NEXT:
            died |= _dies(case, n, after, next_one)
            if not died:
                break
        deaths += died
        if not died:
            break
    else:
        raise AssertionError("more writes than that: a controller that never comes to an end?")
    assert deaths >= 1


def _dies(case: Case, n: int, after: bool, next_one: int | None) -> bool:
    """Have the controller die at its n-th write, and 2 at its `next_one`-th; whether the first has."""
    world = World((1, 2, 3))
    world.create("t", [1, 2], [2, 1], [3, 1])
    case.prepare(world)
    assert world.active.broker_id == 1
    world.stores[1].writes_left, world.stores[1].after = n, after
    if next_one is not None and 2 in world.stores:
        world.stores[2].writes_left, world.stores[2].after = next_one, after
    case.work(world)
    died = 1 not in world.controllers
    for store in world.stores.values():
        store.writes_left = float("inf")
    world.deaf.clear()
    if 2 in world.controllers:
        # Who has left, was silent, has lost a folder or was refused comes back.
        world.kill(2)
    for broker in (1, 2, 3):
        if broker not in world.controllers:
            world.begin(broker)
    for controller in world.controllers.values():
        controller.look_again()
    world.settle()
    world.everybody_catches_up()
    world.check()
    case.done(world)
    return died
