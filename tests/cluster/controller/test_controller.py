"""The controller's shell: starts, errors, and a random life that holds image and nodes together."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from odradek.cluster import paths
from odradek.cluster.controller.kafka_controller import KafkaController
from odradek.cluster.controller.topic_manager import NewTopic
from odradek.cluster.image import ClusterDelta, ClusterImage
from odradek.cluster.loading import full_delta, load_image
from odradek.cluster.nodes import (
    BrokerRegistration,
    Endpoint,
    ProducerIdBlock,
    encode_producer_id_block,
)
from odradek.cluster.producer_ids import MAX_PRODUCER_ID
from odradek.cluster.store.embedded import EmbeddedStore
from odradek.cluster.store.memory import MemoryServer, MemoryStore
from odradek.cluster.store.store import MetadataStore, NodeExists
from odradek.errors import (
    KafkaError,
    KafkaStorageError,
    NotControllerError,
    TopicExistsError,
    UnknownServerError,
)
from odradek.util.clock import ManualClock
from seeds import each_seed

from ..scenario import Config, Obedient, Posts, Scenario

REGISTRATION = BrokerRegistration((Endpoint("PLAINTEXT", "h", 9092),))


def _controller(store: MetadataStore, broker_id: int = 0, seed: int = 1) -> KafkaController:
    controller = KafkaController(store, broker_id, Config(), ManualClock(), random.Random(seed))
    controller.event_queue = Posts()
    controller.add_control_listener(Obedient(controller))
    return controller


def test_a_new_store_gets_kafkas_nodes_and_a_cluster_id() -> None:
    store = MemoryStore()
    controller = _controller(store)
    image = controller.open()
    assert all(store.exists(path) is not None for path in paths.PERSISTENT_PATHS)
    assert len(controller.cluster_id) == 22
    assert image.topics == {}
    assert _controller(store, 1, seed=2).open().cluster_id == controller.cluster_id


def test_listeners_get_everything_at_the_start_and_then_each_change() -> None:
    store = MemoryStore()
    first = _controller(store)
    first.open()
    first.start(REGISTRATION)
    first.create_topic(NewTopic("t", 2, 1))
    first.stop()
    second = _controller(store)
    images: list[ClusterImage] = []
    image = ClusterImage(cluster_id=first.cluster_id)

    def listen(now: ClusterImage, delta: ClusterDelta) -> None:
        nonlocal image
        image = image.apply(delta)
        assert image == now, "the deltas add up to the images"
        images.append(now)

    second.add_listener(listen)
    second.open()
    assert images == []
    second.start(REGISTRATION)
    second.create_topic(NewTopic("u", 1, 1))
    second.event_queue.run(lambda: second.delete_topics(["t"]))
    second.alter_config("topics/u", {"retention.ms": "1"})
    assert images[-1] == second.image == load_image(store)
    assert second.epoch == 2


def test_a_listener_may_create_a_topic_itself() -> None:
    store = MemoryStore()
    controller = _controller(store)
    seen: list[set[str]] = []

    def listen(image: ClusterImage, delta: ClusterDelta) -> None:
        seen.append(set(image.topics))
        if "t" in delta.topics and image.topic("followup") is None:
            controller.create_topic(NewTopic("followup", 1, 1))

    controller.add_listener(listen)
    controller.open()
    controller.start(REGISTRATION)
    controller.create_topic(NewTopic("t", 1, 1))
    assert seen[-1] == {"t", "followup"}
    assert controller.image == load_image(store)


def test_two_brokers_cannot_have_one_id() -> None:
    server = MemoryServer()
    one, two = _controller(MemoryStore(server)), _controller(MemoryStore(server))
    one.open()
    one.start(REGISTRATION)
    two.open()
    with pytest.raises(NodeExists, match=r"broker with id 0 is registered already.*another broker\.id"):
        two.start(REGISTRATION)


def test_deletion_cut_short_by_a_crash_is_finished_at_the_next_start() -> None:
    server = MemoryServer()
    store = MemoryStore(server)
    controller = _controller(store)
    controller.open()
    controller.start(REGISTRATION)
    controller.create_topic(NewTopic("t", 1, 1))
    store.expire()
    left = MemoryStore(server)
    left.create("/admin/delete_topics/t")
    again = _controller(MemoryStore(server))
    told: list[ClusterDelta] = []
    again.add_listener(lambda image, delta: told.append(delta))
    again.open()
    again.event_queue.run(lambda: again.start(REGISTRATION))
    assert told[0].topics_marked == {"t"}
    assert set(told[-1].topics_gone) == {"t"}
    assert left.exists("/brokers/topics/t") is None


def test_creation_cut_short_by_a_crash_is_finished_at_the_next_start() -> None:
    server = MemoryServer()
    store = MemoryStore(server)
    _controller(store).open()
    store.create("/brokers/topics/t", b'{"version":1,"partitions":{"0":[0],"1":[0]}}')
    store.create("/brokers/topics/t/partitions")
    store.create("/brokers/topics/t/partitions/0")
    controller = _controller(MemoryStore(server))
    controller.open()
    controller.start(REGISTRATION)
    partitions = controller.image.topics["t"].partitions
    assert [(p.leader, p.leader_epoch) for p in partitions.values()] == [(0, 0), (0, 0)]
    assert controller.image == load_image(store)


def test_notices_of_the_controller_before_are_removed() -> None:
    store = MemoryStore()
    _controller(store).open()
    store.create("/isr_change_notification/isr_change_", b"{}", sequence=True)
    store.create("/log_dir_event_notification/log_dir_event_", b"{}", sequence=True)
    controller = _controller(store)
    controller.open()
    controller.start(REGISTRATION)
    assert store.children("/isr_change_notification") == []
    assert store.children("/log_dir_event_notification") == []


def test_a_full_disk_is_a_storage_error_and_changes_nothing(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path / "metadata.sqlite", ManualClock())
    controller = _controller(store)
    controller.open()
    controller.start(REGISTRATION)
    controller.create_topic(NewTopic("before", 1, 1))
    pages = store.database.execute("PRAGMA page_count").fetchone()[0]
    store.database.execute(f"PRAGMA max_page_count = {pages}")
    before = controller.image
    result = controller.create_topics([NewTopic("big", 2000, 1)])[0]
    assert isinstance(result, KafkaStorageError)
    with pytest.raises(KafkaStorageError):
        controller.alter_config("topics/before", {"leader.replication.throttled.replicas": "0:1," * 50_000})
    assert controller.image == before
    store.database.execute("PRAGMA max_page_count = 100000")
    controller.create_topic(NewTopic("big", 2000, 1))
    controller.stop()
    store.close()
    again = EmbeddedStore(tmp_path / "metadata.sqlite", ManualClock())
    assert set(load_image(again).topics) == {"before", "big"}
    again.close()


def test_a_restart_finds_everything_as_it_was(tmp_path: Path) -> None:
    images: list[ClusterImage] = []
    for seed in range(3):
        store = EmbeddedStore(tmp_path / "metadata.sqlite", ManualClock())
        controller = _controller(store, seed=seed)
        controller.open()
        controller.start(REGISTRATION)
        images.append(controller.image)
        controller.create_topic(NewTopic(f"t{seed}", 3, 1, configs={"retention.ms": str(seed)}))
        epoch = controller.broker_epoch
        assert epoch == controller.image.brokers[0].epoch
        controller.stop()
        store.close()
    assert images[2].topics["t0"] == images[1].topics["t0"]
    assert set(images[2].topics) == {"t0", "t1"}
    assert images[2].topic_config("t1") == {"retention.ms": "1"}
    assert [image.controller_epoch for image in images] == [1, 2, 3]
    assert len({image.brokers[0].epoch for image in images}) == 3
    assert len({image.cluster_id for image in images}) == 1


def test_somebody_else_creates_one_of_the_topics_first() -> None:
    class Racing(MemoryStore):
        def multi(self, ops):  # type: ignore[no-untyped-def]
            if any(getattr(op, "path", "") == "/brokers/topics/b" for op in ops) and not raced:
                raced.append(1)
                outsider = MemoryStore(self.server)
                outsider.create("/brokers/topics/b", b'{"version":1,"partitions":{"0":[0]}}')
            return super().multi(ops)

    raced: list[int] = []
    controller = _controller(Racing())
    controller.open()
    controller.start(REGISTRATION)
    results = controller.create_topics([NewTopic("a", 1, 1), NewTopic("b", 1, 1), NewTopic("c", 1, 1)])
    assert [isinstance(result, KafkaError) for result in results] == [False, True, False]
    assert set(controller.image.topics) == {"a", "b", "c"}
    assert controller.image == load_image(controller.store)
    with pytest.raises(TopicExistsError):
        controller.create_topic(NewTopic("b", 1, 1))


def test_producer_ids_are_given_out_once_and_end() -> None:
    server = MemoryServer()
    one, two = _controller(MemoryStore(server)), _controller(MemoryStore(server), 1)
    for controller in (one, two):
        controller.open()
        controller.start(REGISTRATION)
    blocks = [c.allocate_producer_ids() for c in (one, two, one)]
    assert [(b.broker_id, b.first, b.last) for b in blocks] == [
        (0, 0, 999),
        (1, 1000, 1999),
        (0, 2000, 2999),
    ]
    last = ProducerIdBlock(0, 0, MAX_PRODUCER_ID - 500)
    one.store.set(paths.PRODUCER_ID_BLOCK, encode_producer_id_block(last))
    with pytest.raises(UnknownServerError, match="all producer ids"):
        one.allocate_producer_ids()


def test_no_producer_ids_come_of_a_session_that_is_over() -> None:
    """A new session is on its way: the client is to try again, and is not told of a bug."""
    store = MemoryStore()
    controller = _controller(store)
    controller.open()
    controller.start(REGISTRATION)
    store.expire()
    with pytest.raises(KafkaStorageError, match="the session with the metadata store is over"):
        controller.allocate_producer_ids()


def test_who_is_stopped_does_nothing_more() -> None:
    store = MemoryStore()
    controller = _controller(store)
    controller.open()
    controller.start(REGISTRATION)
    controller.stop()
    controller.stop()
    assert store.children("/brokers/ids") == []
    assert store.exists("/controller") is None
    with pytest.raises(NotControllerError):
        controller.create_topic(NewTopic("t", 1, 1))


@each_seed(12)
def test_a_random_life_keeps_image_and_nodes_the_same(seed: int) -> None:
    rng = random.Random(seed)
    scenario = Scenario()
    scenario.run("controller 0")
    scenario.run("controller 1")
    reader = MemoryStore(scenario.server)
    epochs: dict[tuple[str, int], tuple[int, int]] = {}
    for step in range(60):
        command = _random_command(rng, scenario)
        scenario.run(command)
        active = [c for c in scenario.controllers.values() if c.is_active]
        context = f"seed {seed} step {step}: {command}"
        assert len(active) == (1 if scenario.controllers else 0), context
        if not active:
            continue
        image = active[0].image
        assert image == load_image(reader), context
        assert image == ClusterImage(cluster_id=image.cluster_id).apply(full_delta(image)), context
        for topic in image.topics.values():
            for index, partition in topic.partitions.items():
                if partition.is_new:
                    continue
                assert set(partition.isr) <= set(partition.replicas), context
                assert partition.isr, context
                assert partition.leader == -1 or partition.leader in partition.isr, context
                if topic.name not in image.marked:
                    assert partition.leader == -1 or partition.leader in image.brokers, context
                    if any(b in image.brokers for b in partition.isr):
                        assert partition.leader != -1, context
                key = (topic.name + topic.topic_id.hex(), index)
                epoch = (partition.leader_epoch, partition.partition_epoch)
                assert epoch >= epochs.get(key, epoch), context
                epochs[key] = epoch


def _random_command(rng: random.Random, scenario: Scenario) -> str:
    brokers = list(range(4))
    topic = rng.choice("tuv")
    by = next((b for b, c in scenario.controllers.items() if c.is_active), 0)
    if not scenario.controllers:
        return f"controller {rng.choice([b for b in brokers if b not in scenario.stores])}"
    choice = rng.randrange(10)
    if choice < 2:
        absent = [b for b in brokers if b not in scenario.stores]
        if absent:
            return f"{rng.choice(['controller', 'broker'])} {rng.choice(absent)}"
    if choice < 4:
        return f"kill {rng.choice(list(scenario.stores))}"
    if choice < 7:
        factor = rng.randint(1, 3)
        rows = [",".join(map(str, rng.sample(brokers, factor))) for _ in range(rng.randint(1, 3))]
        return f"create {topic} assign={';'.join(rows)} by={by}"
    image = scenario.controllers[by].image
    if choice == 7:
        return f"delete {topic} by={by}"
    if choice == 8:
        return f"grow {topic} {rng.randint(1, 6)} by={by}"
    if topic in image.topics:
        index, partition = rng.choice(list(image.topics[topic].partitions.items()))
        if not partition.is_new and partition.leader >= 0:
            isr = {partition.leader} | set(
                rng.sample(partition.replicas, rng.randint(1, len(partition.replicas)))
            )
            epochs = f"{partition.leader_epoch},{partition.partition_epoch}"
            members = ",".join(map(str, sorted(isr)))
            return f"isr {topic}-{index} leader={partition.leader} isr={members} epochs={epochs} by={by}"
    return f"config topics/{topic} retention.ms={rng.randint(1, 9)} by={by}"


def _make(store: MetadataStore, name: str, node: bytes) -> None:
    """Make a topic as another program does."""
    store.create(paths.topic(name), node)


TOPIC = b'{"version":3,"partitions":{"0":[0]},"adding_replicas":{},"removing_replicas":{}}'


def test_who_cannot_use_its_replica_is_not_elected_when_something_else_changes() -> None:
    server = MemoryServer()
    controller = _controller(MemoryStore(server))
    controller.open()
    controller.start(REGISTRATION)
    controller.create_topic(NewTopic("t", 1, 1))
    controller.note_offline(0, [("t", 0)])
    assert controller.image.topics["t"].partitions[0].leader == -1
    _make(MemoryStore(server), "u", TOPIC)
    assert controller.image.topics["u"].partitions[0].leader == 0
    assert controller.image.topics["t"].partitions[0].leader == -1


def test_a_topic_that_cannot_be_read_keeps_no_other_back(caplog: pytest.LogCaptureFixture) -> None:
    server = MemoryServer()
    controller = _controller(MemoryStore(server))
    controller.open()
    controller.start(REGISTRATION)
    other = MemoryStore(server)
    # The same is said once in a while: by this name it is said of no other test's.
    _make(other, "illegible", b"?")
    _make(other, "good", TOPIC)
    assert list(controller.image.topics) == ["good"]
    assert controller.image.topics["good"].partitions[0].leader == 0
    assert "/brokers/topics/illegible" in caplog.text
