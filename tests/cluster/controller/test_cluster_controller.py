"""Several controllers over one store: who is active, and what becomes of what it does when it dies."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest

from odradek.cluster import paths
from odradek.cluster.controller import metadata_writer
from odradek.cluster.controller.alter_partition import IsrChange
from odradek.cluster.controller.kafka_controller import KafkaController
from odradek.cluster.controller.partition_reassignment import is_moving
from odradek.cluster.controller.topic_manager import NewTopic
from odradek.cluster.nodes import (
    BrokerRegistration,
    Endpoint,
)
from odradek.cluster.store.memory import MemoryStore
from odradek.cluster.store.store import StoreUnavailable
from odradek.errors import (
    KafkaError,
    NotControllerError,
)
from seeds import each_seed

from ..brokers import MortalStore, World


def test_one_broker_is_the_controller_and_the_next_takes_over() -> None:
    world = World()
    world.create("t", [1, 2, 3], [2, 3, 1])
    world.check()
    assert world.active.broker_id == 1
    world.kill(1)
    world.check()
    assert world.active.broker_id == 2
    assert world.active.epoch == 2
    assert [p.leader for p in world.active.image.topics["t"].partitions.values()] == [2, 2]
    assert {b: c.image.controller_id for b, c in world.controllers.items()} == {2: 2, 3: 2}


def test_what_may_be_there_is_asked_for_together(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.create("t", *[[1, 2]] * 50)
    alone: list[str] = []
    exists = MortalStore.exists

    def note(store: MortalStore, path: str, watch: object = None) -> object:
        alone.append(path)
        return exists(store, path)

    monkeypatch.setattr(MortalStore, "exists", note)
    monkeypatch.setattr(
        MortalStore, "exists_many", lambda store, paths: [exists(store, path) for path in paths]
    )
    world.active.delete_topics(["t"])
    world.settle()
    assert "t" not in world.active.image.topics
    assert not any(path.startswith("/brokers/topics/t/") for path in alone)


def test_a_deposed_controller_writes_nothing_and_says_so() -> None:
    world = World()
    world.create("t", [1, 2])
    old = world.active
    assert world.controllers[2].remove_dead_controller(1)
    assert not world.controllers[2].remove_dead_controller(1)
    # The second hears of it first.
    world.posted.rotate(-1)
    while not world.controllers[2].is_active:
        broker, work = world.posted.popleft()
        if broker != 1:
            work()
        else:
            world.posted.append((broker, work))
    assert old.is_active
    # What it reads is not what it may say: its requests stay those of its own epoch.
    old.writer.refresh()
    assert (old.image.controller_id, old.image.controller_epoch) == (1, 1)
    with pytest.raises(NotControllerError):
        old.reassign("t", 0, [2, 1])
    assert not old.is_active
    assert old.image.topics == {}
    world.settle()
    world.check()
    assert world.active.broker_id == 2
    with pytest.raises(NotControllerError):
        old.create_topic(NewTopic("u", 1, 1))


def test_the_removal_of_a_controller_that_has_changed_meanwhile_does_nothing() -> None:
    world = World()
    assert not world.controllers[3].remove_dead_controller(2)
    assert world.controllers[3].remove_dead_controller(1)
    world.settle()
    world.check()


def test_a_session_that_ends_and_a_new_one() -> None:
    world = World()
    world.create("t", [1, 2, 3])
    one = world.controllers[1]
    world.stores[1].expire()
    one.session_ended()
    world.settle()
    assert world.active.broker_id == 2
    assert one.image.topics == {}
    one.store = world.stores[1] = MortalStore(world.server)
    one.start(BrokerRegistration((Endpoint("PLAINTEXT", "h", 9001),)))
    world.settle()
    world.check()
    assert sorted(world.active.image.brokers) == [1, 2, 3]
    one.stop()
    world.settle()
    assert sorted(world.active.image.brokers) == [2, 3]


def test_a_refused_broker_is_dead_until_it_is_reached_or_registers_anew() -> None:
    world = World()
    world.create("t", [3, 1, 2])
    active = world.active
    epoch = active.image.brokers[3].epoch
    active.on_broker_refused(3, epoch - 1)
    active.on_broker_refused(1)
    assert sorted(active.image.brokers) == [1, 2, 3]
    active.on_broker_refused(3, epoch)
    assert sorted(active.image.brokers) == [1, 2]
    partition = active.image.topics["t"].partitions[0]
    assert (partition.leader, partition.leader_epoch) == (1, 1)
    # Another change of the brokers does not bring it back.
    world.begin(4)
    assert sorted(active.image.brokers) == [1, 2, 4]
    active.writer.refresh()
    assert sorted(active.image.brokers) == [1, 2, 4]
    active.on_broker_reachable(3)
    assert sorted(active.image.brokers) == [1, 2, 3, 4]
    world.check()
    active.on_broker_refused(3)
    world.kill(3)
    world.begin(3)
    assert active.image.brokers[3].epoch > epoch
    assert active.refused == {}
    world.check()


def refuse_as_controller(world: World) -> int:
    """The process of the controller is gone, its session is not; all others are refused by it, and elect."""
    dead = world.active.broker_id
    del world.controllers[dead]
    for one in world.controllers.values():
        one.note_refused_controller(dead)
    world.do(next(iter(world.controllers)), lambda one: one.remove_dead_controller(dead))
    return dead


def test_a_controller_that_refused_is_left_out_of_the_first_decision_of_the_next_term() -> None:
    world = World()
    world.create("t", [1, 2, 3])
    world.take_told()
    assert refuse_as_controller(world) == 1
    active = world.active
    assert sorted(active.image.brokers) == [2, 3]
    partition = active.image.topics["t"].partitions[0]
    assert (partition.leader, partition.isr, partition.leader_epoch) == (2, (2, 3), 1)
    # Once, and not to it.
    told = world.take_told()
    assert sorted(broker for broker, kind in told if kind == "LeaderAndIsr") == [2, 3]
    assert {broker for broker, _ in told} == {2, 3}
    assert world.channels[active.broker_id].awaited == [1]
    world.check()
    active.on_broker_reachable(1)
    assert sorted(active.image.brokers) == [1, 2, 3]
    world.check()


def test_a_refusal_of_an_earlier_life_leaves_nobody_out() -> None:
    world = World()
    world.create("t", [1, 2, 3])
    for one in world.controllers.values():
        one.note_refused_controller(1)
    registration, _ = world.reader.get(paths.broker_id(1))
    del world.controllers[1]
    world.stores.pop(1).expire()
    # Its next life is there before anybody elects.
    MemoryStore(world.server).create(paths.broker_id(1), registration, ephemeral=True)
    world.settle()
    assert sorted(world.active.image.brokers) == [1, 2, 3]
    assert world.active.refused == {}
    world.check()


def test_a_refusal_is_forgotten_when_another_controller_has_been_there() -> None:
    world = World((3, 1, 2))
    world.create("t", [1, 2, 3])
    dead = world.active.broker_id
    assert dead == 3
    for one in (1, 2):
        world.controllers[one].note_refused_controller(3)
    world.controllers[1].remove_dead_controller(3)
    world.posted = deque(sorted(world.posted, key=lambda one: one[0]))
    world.settle()
    assert world.active.broker_id == 1
    world.do(1, lambda one: one.on_broker_reachable(3))
    del world.controllers[1]
    world.stores.pop(1).expire()
    world.posted = deque(sorted(world.posted, key=lambda one: one[0]))
    world.settle()
    assert world.active.broker_id == 2
    assert sorted(world.active.image.brokers) == [2, 3]
    world.check()


def bounce(world: World, *brokers: int) -> None:
    """Brokers die, and the first of them is back before anybody has looked."""
    for broker in brokers:
        del world.controllers[broker]
        world.stores.pop(broker).expire()
    world.begin(brokers[0], settle=False)


def test_a_broker_that_came_back_unseen_loses_its_leads_whatever_was_read_meanwhile() -> None:
    world = World()
    world.create("t", [2, 3, 1])
    world.create("u", [1, 3])
    bounce(world, 2)
    # A state is not as the image says, so that all is read anew before the brokers are looked at.
    path = "/brokers/topics/u/partitions/0/state"
    world.reader.set(path, world.reader.get(path)[0])
    one = world.active.image.topics["u"].partitions[0]
    world.active.alter_partitions([IsrChange("u", 0, 1, one.leader_epoch, one.partition_epoch, (1,))])
    world.settle()
    after = world.active.image.topics["t"].partitions[0]
    assert (after.leader, after.isr, after.leader_epoch) == (3, (3, 1), 1)
    world.check()


@pytest.mark.parametrize("dead", [(2, 1), (2,)])
def test_a_broker_that_came_back_while_there_was_no_controller_loses_its_leads(dead: tuple[int, ...]) -> None:
    # Who has been led by it knows what was committed; it itself may have lost that.
    world = World()
    world.create("t", [2, 3, 1])
    world.create("u", [3, 2], [2, 1])
    world.create("v", [2])
    if 1 not in dead:
        assert world.controllers[3].remove_dead_controller(1)
        world.posted.clear()
    bounce(world, *dead)
    world.settle()

    def state(topic: str, index: int = 0) -> tuple[int, tuple[int, ...]]:
        partition = world.active.image.topics[topic].partitions[index]
        return partition.leader, partition.isr

    assert state("t") == (3, tuple(broker for broker in (3, 1) if broker not in dead))
    assert state("u") == (3, (3,))
    # Where all have come back nobody knows better.
    assert state("u", 1) == ((2, (2,)) if 1 in dead else (1, (1,)))
    assert state("v") == (2, (2,))
    world.check()


def test_a_broker_that_comes_back_while_a_term_begins_has_been_gone() -> None:
    world = World()
    world.create("t", [2, 3, 1])
    registration, _ = world.reader.get(paths.broker_id(2))
    assert world.controllers[3].remove_dead_controller(1)
    del world.controllers[2]
    world.stores.pop(2).expire()
    world.posted = deque(one for one in world.posted if one[0] == 3)
    store, has_returned = world.stores[3], []

    def get_many(wanted: Sequence[str], read: Any = store.get_many) -> Any:
        found = read(wanted)
        if paths.broker_id(3) in wanted and not has_returned:
            has_returned.append(MemoryStore(world.server))
            has_returned[0].create(paths.broker_id(2), registration, ephemeral=True)
        return found

    store.get_many = get_many  # type: ignore[method-assign]
    world.settle()
    assert world.active.broker_id == 3
    assert has_returned
    after = world.active.image.topics["t"].partitions[0]
    assert (after.leader, after.isr) == (3, (3, 1))
    assert sorted(world.active.image.brokers) == [1, 2, 3]
    world.check()


def test_who_has_been_in_sync_in_its_present_life_stays_so_under_the_next_controller() -> None:
    world = World()
    world.create("t", [2, 3, 1])
    world.kill(2)
    world.begin(2)
    world.everybody_catches_up()
    world.kill(1)
    after = world.active.image.topics["t"].partitions[0]
    assert (after.leader, set(after.isr)) == (3, {2, 3})
    world.check()


def test_taking_over_many_partitions_writes_them_in_large_transactions() -> None:
    world = World()
    world.create("t", *[[1, 2]] * 1200)
    world.kill(3)
    store = world.stores[2]
    writes: list[int] = []
    multi = store.multi
    store.multi = lambda ops: (writes.append(len(ops)), multi(ops))[1]  # type: ignore[method-assign, assignment, func-returns-value]
    world.kill(1)
    world.check()
    assert max(writes) <= metadata_writer.WRITES_PER_TRANSACTION + 1
    assert len(writes) <= 1200 / metadata_writer.WRITES_PER_TRANSACTION + 6


def test_what_could_not_be_followed_is_looked_at_again() -> None:
    world = World()
    world.create("t", [3, 1])
    store = world.stores[1]
    multi = store.multi

    def unavailable(ops: object) -> list[object]:
        raise StoreUnavailable("/")

    store.multi = unavailable  # type: ignore[method-assign, assignment]
    world.kill(3)
    assert 3 in world.active.image.brokers
    store.multi = multi  # type: ignore[method-assign]
    world.active.look_again()
    assert 3 not in world.active.image.brokers
    world.check()


@each_seed(15)
def test_a_random_life_of_a_cluster_ends_well(seed: int) -> None:
    rng = random.Random(seed)
    world = World((1, 2, 3, 4))
    made = 0
    for _ in range(60):
        if not any(controller.is_active for controller in world.controllers.values()):
            world.begin(next(broker for broker in (1, 2, 3, 4) if broker not in world.controllers))
        _random_step(rng, world, made := made + 1)
        if world.controllers:
            world.check()
    world.deaf.clear()
    for broker in (1, 2, 3, 4):
        if broker in world.controllers:
            world.kill(broker)
        world.begin(broker)
    world.everybody_catches_up()
    world.everybody_catches_up()
    world.check()
    assert not world.active.image.marked
    for topic in world.active.image.topics.values():
        for partition in topic.partitions.values():
            assert not is_moving(partition)
            assert set(partition.isr) == set(partition.replicas)
    assert world.reader.exists(paths.REASSIGN_PARTITIONS) is None


def _random_step(rng: random.Random, world: World, number: int) -> None:
    active = world.active.broker_id
    live = sorted(world.active.image.brokers)
    topics = sorted(world.active.image.topics.keys() - world.active.image.marked)
    topic = rng.choice(topics) if topics else ""
    choice = rng.randrange(12)
    if rng.random() < 0.3:
        store = world.stores[active]
        store.writes_left, store.after = rng.randint(1, 5), rng.random() < 0.5

    def quietly(work: Callable[[KafkaController], object]) -> None:
        def run(controller: KafkaController) -> None:
            with suppress(KafkaError):
                work(controller)

        world.do(active, run)

    if choice == 0 and len(world.controllers) > 1:
        world.kill(rng.choice(sorted(world.controllers)))
    elif choice <= 2:
        absent = [broker for broker in (1, 2, 3, 4) if broker not in world.controllers]
        if absent:
            world.begin(rng.choice(absent))
    elif choice <= 5:
        rows = {i: rng.sample(live, min(2, len(live))) for i in range(rng.randint(1, 3))}
        quietly(lambda c: c.create_topics([NewTopic(f"t{number}", assignment=rows)]))
    elif choice == 6 and topic:
        world.deaf = set(rng.sample([1, 2, 3, 4], rng.randint(0, 2)))
        quietly(lambda c: c.delete_topics([topic]))
    elif choice <= 8 and topic:
        target = rng.sample(live, rng.randint(1, len(live)))
        quietly(lambda c: c.reassign(topic, 0, rng.choice([target, target, None])))
    elif choice == 9:
        quietly(lambda c: c.controlled_shutdown(rng.choice(live)))
    elif choice == 10:
        broker = rng.choice(live)
        quietly(lambda c: c.on_broker_refused(broker))
        if rng.random() < 0.5 and active in world.controllers:
            quietly(lambda c: c.on_broker_reachable(broker))
    else:
        with suppress(KafkaError, ValueError):
            world.everybody_catches_up()
