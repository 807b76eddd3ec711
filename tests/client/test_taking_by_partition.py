"""`getone`, `getmany` and the next record of a consumer; assignments that grow and shrink."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from odradek.client import AsyncConsumer, Consumer, TopicPartition
from odradek.client.errors import IllegalStateError, WakeupError
from odradek.client.sync.consumer_thread import ConsumerThread
from waiting import until

from .consuming import fill
from .twins import FACES, Twin, twin


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def values(records: list[Any]) -> list[int]:
    return [int(record.value) for record in records]


def test_getone_gives_one_record_after_the_other(face: str, servers: str, topic: str) -> None:
    fill(servers, topic, 9, 3)
    with twin(face, Consumer, bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        assert values([consumer.getone() for _ in range(3)]) == [0, 3, 6]
        assert consumer.position((topic, 0)) == 3
        assert consumer.getmany() == {}


def test_getone_of_some_partitions_leaves_the_others(face: str, servers: str, topic: str) -> None:
    fill(servers, topic, 3_000, 3)
    tps = [TopicPartition(topic, n) for n in range(3)]
    with twin(face, Consumer, bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(tps)
        # More than is fetched ahead while the others wait in the buffer.
        taken = [consumer.getone(tps[1], tps[2]) for _ in range(2_000)]
        assert {record.partition for record in taken} == {1, 2}
        for n in (1, 2):
            assert values([r for r in taken if r.partition == n]) == list(range(n, 3_000, 3))
        assert consumer.position(tps[0]) == 0
        assert consumer.paused() == set()
        assert values([consumer.getone() for _ in range(1_000)]) == list(range(0, 3_000, 3))


class Twice:
    """An interceptor that makes two records of those with even values, and none of the others."""

    def on_consume(self, records: list[Any]) -> list[Any]:
        return [copy for record in records if int(record.value) % 2 == 0 for copy in (record, record)]


def test_getone_gives_all_that_interceptors_make_of_a_record(face: str, servers: str, topic: str) -> None:
    fill(servers, topic, 16, 2)  # those of partition 0 are even
    tps = [TopicPartition(topic, n) for n in range(2)]
    settings = {"auto_offset_reset": "earliest", "interceptors": [Twice]}
    with twin(face, Consumer, bootstrap_servers=servers, **settings) as consumer:
        consumer.assign(tps)
        assert values([consumer.getone() for _ in range(3)]) == [0, 0, 2]
        consumer.pause(tps[0])
        assert consumer.poll(0, 1) == []
        consumer.resume(tps[0])
        assert values(consumer.poll(60_000, 1)) == [2]
        assert values([consumer.getone(), *consumer.poll(60_000, 500)]) == [4, 4]
        consumer.getone()
        consumer.seek(tps[0], 1)
        assert values([consumer.getone() for _ in range(2)]) == [2, 2]
        consumer.getone()
        consumer.assign([tps[1]])
        assert consumer.poll(0) == []
        consumer.assign([tps[0]])
        assert values([consumer.getone()]) == [0]


def test_an_iteration_goes_on_with_what_getone_has_left_and_columns_do_not(servers: str, topic: str) -> None:
    fill(servers, topic, 6)
    settings = {"auto_offset_reset": "earliest", "interceptors": [Twice]}
    with Consumer(bootstrap_servers=servers, **settings) as consumer:
        consumer.assign([(topic, 0)])
        consumer.getone()
        records = iter(consumer)
        assert values([next(records) for _ in range(4)]) == [0, 2, 2, 4]
        consumer.seek((topic, 0), 4)
        consumer.getone()
        assert consumer.poll_arrow(60_000)["value"].to_pylist() == [b"5"]
        assert consumer.poll(0) == []


def test_getmany_sorts_by_partition(face: str, servers: str, topic: str) -> None:
    fill(servers, topic, 30, 3)
    tps = [TopicPartition(topic, n) for n in range(3)]
    with twin(face, Consumer, bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(tps)
        some = consumer.getmany(tps[2], timeout_ms=60_000, max_records=4)
        assert {tp: values(records) for tp, records in some.items()} == {tps[2]: [2, 5, 8, 11]}
        rest: dict[TopicPartition, list[int]] = {}

        def take() -> int:
            for tp, records in consumer.getmany(timeout_ms=100).items():
                rest.setdefault(tp, []).extend(values(records))
            return sum(map(len, rest.values()))

        until(take, "the rest of the records", holds=lambda count: count >= 26)
        assert rest == {tps[n]: list(range(n if n < 2 else 14, 30, 3)) for n in range(3)}
        with pytest.raises(IllegalStateError, match="is not assigned"):
            consumer.getmany((topic, 7))
        assert consumer.getmany() == {}


def test_ctrl_c_while_the_others_are_let_go_loses_nothing(
    servers: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(servers, topic, 2, 2)
    tps = [TopicPartition(topic, n) for n in range(2)]
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(tps)
        call = ConsumerThread.call

        def interrupted(self: ConsumerThread, function: Any, *args: Any) -> Any:
            if args == ((),):
                raise KeyboardInterrupt
            return call(self, function, *args)

        with monkeypatch.context() as patch:
            patch.setattr(ConsumerThread, "call", interrupted)
            try:
                taken = consumer.getmany(tps[0], timeout_ms=60_000)
            except KeyboardInterrupt:
                pytest.fail("the records that were taken are not given")
        assert {tp: values(records) for tp, records in taken.items()} == {tps[0]: [0]}
        assert values([consumer.getone()]) == [1]


def test_next_of_a_consumer(servers: str, topic: str) -> None:
    fill(servers, topic, 3)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        assert values([next(consumer), next(consumer)]) == [0, 1]
        assert values([next(iter(consumer))]) == [2]
        consumer.wakeup()
        with pytest.raises(WakeupError):
            next(consumer)


def test_anext_of_a_consumer(servers: str, topic: str) -> None:
    fill(servers, topic, 3)

    async def take() -> list[Any]:
        async with AsyncConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            await consumer.assign([(topic, 0)])
            records = [await anext(consumer), await anext(consumer)]
            async for record in consumer:
                return [*records, record]
        raise AssertionError

    assert values(asyncio.run(take())) == [0, 1, 2]


def test_assignments_grow_and_shrink(face: str, servers: str, topic: str) -> None:
    fill(servers, topic, 9, 3)
    tps = [TopicPartition(topic, n) for n in range(3)]
    with twin(face, Consumer, bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.incremental_assign([tps[0]])
        assert values([consumer.getone()]) == [0]
        consumer.incremental_assign([tps[1], tps[2]])
        assert assigned(consumer) == set(tps)
        assert consumer.position(tps[0]) == 1, "what was assigned keeps its position"
        consumer.incremental_unassign([tps[0], tps[2]])
        assert assigned(consumer) == {tps[1]}
        assert values([consumer.getone() for _ in range(3)]) == [1, 4, 7]
        with pytest.raises(IllegalStateError, match="already"):
            consumer.incremental_assign([tps[2], tps[1]])
        with pytest.raises(IllegalStateError, match="is not assigned"):
            consumer.incremental_unassign([tps[1], tps[0]])
        assert assigned(consumer) == {tps[1]}


def assigned(consumer: Twin) -> set[TopicPartition]:
    found: set[TopicPartition] = consumer.assignment()
    return found


def test_a_subscription_is_not_added_to(face: str, servers: str, topic: str, group: str) -> None:
    with (
        twin(face, Consumer, topic, group_id=group, bootstrap_servers=servers) as consumer,
        pytest.raises(IllegalStateError),
    ):
        consumer.incremental_assign([(topic, 0)])


def test_topics_and_their_partitions(face: str, servers: str, topic: str, group: str) -> None:
    with twin(face, Consumer, bootstrap_servers=servers, group_id=group) as consumer:
        consumer.commit({(topic, 0): 0})  # which makes an internal topic
        names = consumer.topics()
        assert topic in names and "__consumer_offsets" not in names
        assert consumer.partitions_for_topic(topic) == {0, 1, 2}
    with twin(face, Consumer, bootstrap_servers=servers, exclude_internal_topics=False) as consumer:
        assert "__consumer_offsets" in consumer.topics()


def test_stored_offsets_are_what_is_committed(face: str, servers: str, topic: str, group: str) -> None:
    fill(servers, topic, 9, 3)
    tps = [TopicPartition(topic, n) for n in range(3)]
    configs = {"bootstrap_servers": servers, "group_id": group, "auto_offset_reset": "earliest"}
    with twin(face, Consumer, **configs, enable_auto_offset_store=False) as consumer:
        consumer.assign(tps)
        records = [consumer.getone() for _ in range(9)]
        consumer.commit()
        assert set(consumer.committed(tps).values()) == {None}, "nothing was stored"
        consumer.store_offsets(next(r for r in records if r.partition == 1 and r.offset == 1))
        consumer.commit()
        assert {tp: at and at.offset for tp, at in consumer.committed(tps).items()} == {
            tps[0]: None,
            tps[1]: 2,
            tps[2]: None,
        }
        with pytest.raises(IllegalStateError, match="is not assigned"):
            consumer.store_offsets({tps[0]: 3, (topic, 9): 1})
        consumer.store_offsets({(topic, 2): 1})
    with twin(face, Consumer, **configs) as consumer:
        consumer.assign(tps)
        committed = {tp: at and at.offset for tp, at in consumer.committed(tps).items()}
        assert committed == {tps[0]: None, tps[1]: 2, tps[2]: 1}, "the end has committed it"
        with pytest.raises(IllegalStateError, match=r"enable\.auto\.offset\.store"):
            consumer.store_offsets({tps[0]: 1})


def test_a_failure_takes_nothing_back_that_was_stored(servers: str, topic: str, group: str) -> None:
    """The application has said itself how far it is."""
    fill(servers, topic, 9)
    configs: dict[str, Any] = {"bootstrap_servers": servers, "group_id": group}
    more = {"auto_offset_reset": "earliest", "enable_auto_offset_store": False}
    with pytest.raises(ZeroDivisionError), Consumer(**configs, **more) as consumer:
        consumer.assign([(topic, 0)])
        for record in consumer.poll(60_000):
            consumer.store_offsets(record)
            if record.offset == 4:
                raise ZeroDivisionError
    with Consumer(**configs) as consumer:
        committed = consumer.committed([(topic, 0)])[TopicPartition(topic, 0)]
        assert committed is not None and committed.offset == 5
