"""Waits that the broker wakes."""

from __future__ import annotations

import asyncio
import threading

import pytest

from odradek import Producer
from odradek.errors import BrokerNotAvailableError
from odradek.testing import Broker, Cluster, WaitTimeoutError
from odradek.testing.looking.waiting import Events, wait_until
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.messages.sync_group import SyncGroupRequest
from waiting import WITHIN_S, happened, joined, until_async, within

from ..faults.wire import Wire
from .threads import consuming


@pytest.fixture
def broker(odradek_broker: Broker) -> Broker:
    return odradek_broker


def send_later(broker: Broker | Cluster, *values: bytes, topic: str = "orders") -> threading.Thread:
    def send() -> None:
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for value in values:
                producer.send(topic, value).result(WITHIN_S)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def test_for_records_of_a_topic_that_is_not_there_yet(broker: Broker) -> None:
    thread = send_later(broker, b"a", b"b", b"c")
    records = broker.wait_for_records("orders", 2, timeout_s=WITHIN_S)
    assert [record.value for record in records][:2] == [b"a", b"b"]
    broker.assert_records("orders", ["a", "b", "c"], timeout_s=WITHIN_S)
    joined(thread)


def test_a_paused_broker_answers_no_look_and_holds_no_wait_up(broker: Broker) -> None:
    broker.seed("orders", ["a"])
    broker.pause()
    with pytest.raises(BrokerNotAvailableError, match="the broker is paused"):
        broker.records("orders")
    with pytest.raises(WaitTimeoutError, match="the broker is paused"):
        broker.wait_for_records("orders", 2, timeout_s=0)
    broker.resume()
    assert len(broker.wait_for_records("orders", 1, timeout_s=WITHIN_S)) == 1


def test_a_wait_goes_on_when_a_broker_does(broker: Broker) -> None:
    broker.seed("orders", ["a"])
    broker.pause()
    looks = iter([broker.resume])

    def look() -> int:
        try:
            return len(broker.records("orders"))
        finally:
            for resume in looks:
                resume()

    count = wait_until(
        [broker], look, holds=bool, awaited="records", instead=lambda *_: "", timeout_s=WITHIN_S
    )
    assert count == 1


def test_a_broker_that_is_killed_while_it_is_looked_at(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.kill()
    monkeypatch.setattr(Broker, "is_up", True)  # as it was when it was asked
    with pytest.raises(BrokerNotAvailableError, match="the broker does not run"):
        broker.records("orders")
    with pytest.raises(WaitTimeoutError, match="the broker does not run"):
        broker.wait_for_records("orders", timeout_s=0)
    monkeypatch.undo()
    broker.restart()


def test_for_a_group_and_what_it_commits(broker: Broker) -> None:
    broker.seed("orders", ["a", "b", "c"], partition=0, partitions=2)
    with consuming(broker, "orders", "billing"):
        group = broker.wait_for_group("billing", members=1, timeout_s=WITHIN_S)
        (member,) = group.members
        assert member.client_id == "me"
        assert member.assignment == (("orders", 0), ("orders", 1))
        assert group.protocol_type == "consumer"
        assert group.leader == member.member_id
        committed = broker.wait_for_commit("billing", "orders", offset=3, timeout_s=WITHIN_S)
        assert (committed.offset, committed.lag) == (3, 0)
        with consuming(broker, "orders", "billing", "other"):
            group = broker.wait_for_group("billing", members=2, timeout_s=WITHIN_S)
            assert sorted(member.assignment for member in group.members) == [
                (("orders", 0),),
                (("orders", 1),),
            ]
    group = broker.wait_for_group("billing", state="Empty", timeout_s=WITHIN_S)
    broker.seed("orders", ["d"], partition=0)
    assert broker.groups()["billing"].offsets[("orders", 0)].lag == 1


def join(wire: Wire, member_id: str = "") -> None:
    protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
    wire.send(
        JoinGroupRequest(
            group_id="billing",
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[protocol],
        ),
        3,
    )


def joined_as(wire: Wire) -> str:
    answer = wire.receive(JoinGroupRequest(), 3)
    assert answer.error_code == 0
    sync = SyncGroupRequest(
        group_id="billing", generation_id=answer.generation_id, member_id=answer.member_id, assignments=[]
    )
    wire.send(sync, 2)
    member_id: str = answer.member_id
    return member_id


def test_a_session_that_runs_out_wakes(broker: Broker) -> None:
    """Nobody asks for anything, and nothing is written, when one of two members has gone silent."""
    with Wire(broker.port, "one") as one, Wire(broker.port, "other") as other:
        one.ask(FindCoordinatorRequest(key="billing"), 0)
        join(one)
        member_id = joined_as(one)
        assert one.receive(SyncGroupRequest(), 2).error_code == 0
        join(other)
        broker.wait_for_group("billing", state="PreparingRebalance", members=2, timeout_s=WITHIN_S)
        join(one, member_id)
        joined_as(one)
        joined_as(other)
        broker.wait_for_group("billing", members=2, timeout_s=WITHIN_S)
        looked = threading.Event()

        def look() -> bool:
            looked.set()
            return broker.groups()["billing"].state == "PreparingRebalance"

        def expire() -> None:
            happened(looked, "the first look")
            broker.expire_session("billing", "other")

        thread = threading.Thread(target=expire)
        thread.start()
        broker.wait_for(look, timeout_s=WITHIN_S)
        joined(thread)


def test_for_anything(broker: Broker) -> None:
    looks: list[int] = []

    def there() -> int:
        looks.append(1)
        return len(broker.records("orders"))

    thread = send_later(broker, b"a")
    # A topic that is not there is no error of the wait.
    assert broker.wait_for(there, timeout_s=WITHIN_S) == 1
    joined(thread)
    with pytest.raises(WaitTimeoutError, match="in vain for a miracle\n  there is 0"):
        broker.wait_for(lambda: 0, "a miracle", timeout_s=0)
    with pytest.raises(WaitTimeoutError, match=r"lambda: 1 > 2"):
        broker.wait_for(lambda: 1 > 2, timeout_s=0)


def test_nothing_is_looked_at_twice_without_an_event(broker: Broker) -> None:
    looks = 0

    def look() -> bool:
        nonlocal looks
        looks += 1
        return False

    with pytest.raises(WaitTimeoutError):
        broker.wait_for(look, timeout_s=0.2)
    assert looks == 1


def test_what_was_there_instead(broker: Broker) -> None:
    broker.seed("orders", ["a"])
    with pytest.raises(WaitTimeoutError, match="2 records of orders\nthere is\n  orders-0 at 0: b'a'"):
        broker.wait_for_records("orders", 2, timeout_s=0)
    with pytest.raises(WaitTimeoutError, match="there is no topic clicks"):
        broker.wait_for_records("clicks", timeout_s=0)
    with pytest.raises(WaitTimeoutError, match="group billing in state Stable\nthere is\n  nothing"):
        broker.wait_for_group("billing", timeout_s=0)
    with consuming(broker, "orders", "billing"):
        broker.wait_for_commit("billing", "orders", offset=1, timeout_s=WITHIN_S)
        with pytest.raises(
            WaitTimeoutError,
            match=r"group billing is Stable: members me \[\('orders', 0\)\]; committed orders-0 1",
        ):
            broker.wait_for_commit("billing", "orders", offset=7, timeout_s=0)
    with pytest.raises(TimeoutError):
        broker.wait_for_records("orders", 2, timeout_s=0)


def test_a_transactions_marker_wakes(broker: Broker) -> None:
    """It is written after the answer to EndTxn has left."""
    broker.create_topic("orders")
    with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="t") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"a").result(WITHIN_S)
        thread = threading.Thread(target=producer.commit_transaction)
        thread.start()
        records = broker.wait_for_records("orders", committed=True, timeout_s=WITHIN_S)
        assert [record.value for record in records] == [b"a"]
        joined(thread)


def test_a_broker_that_starts_again_wakes(broker: Broker) -> None:
    broker.seed("orders", ["a"])
    with consuming(broker, "orders", "billing"):
        broker.wait_for_commit("billing", "orders", offset=1, timeout_s=WITHIN_S)
    broker.restart()
    # Its groups are loaded a moment later.
    assert broker.wait_for_group("billing", state="Empty", timeout_s=WITHIN_S).members == ()


def test_in_a_cluster() -> None:
    with Cluster(3) as cluster:
        cluster.create_topic("orders", 3)
        thread = send_later(cluster, *(b"%d" % number for number in range(9)))
        cluster.wait_for_records("orders", 9, timeout_s=WITHIN_S)
        joined(thread)
        with consuming(cluster, "orders", "billing"):
            cluster.wait_for_group("billing", members=1, timeout_s=WITHIN_S)
            cluster.wait_for(
                lambda: sum(c.offset for c in cluster.groups()["billing"].offsets.values()) == 9,
                timeout_s=WITHIN_S,
            )


def test_tasks_wait_too(broker: Broker) -> None:
    async def scenario() -> None:
        waiting = asyncio.create_task(broker.aio.wait_for_records("orders", 1, timeout_s=WITHIN_S))
        assert await broker.aio.seed("orders", ["a"]) == 1
        (record,) = await waiting
        assert record.value == b"a"
        await broker.aio.assert_records("orders", ["a"])
        assert list(await broker.aio.topics()) == ["orders"]
        assert await broker.aio.groups() == {}

    asyncio.run(within(scenario(), "the task"))


def test_a_task_that_is_cancelled_holds_nobody_up(broker: Broker) -> None:
    begun = threading.Event()

    def look() -> bool:
        begun.set()
        return False

    async def scenario() -> None:
        # The end of the loop waits for its threads.
        waiting = asyncio.create_task(broker.aio.wait_for(look, timeout_s=10 * WITHIN_S))
        await until_async(begun.is_set, "the first look")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(within(scenario(), "the end"))


def test_events_are_not_missed_between_two_looks() -> None:
    events = Events()
    count = events.count
    events()
    assert events.more_than(count, 0)
    assert not events.more_than(events.count, 0)
    events.give_up()
    assert not events.more_than(events.count, WITHIN_S)
