"""What clock stories are told with: members that speak when they are told to, and looks into a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from odradek import Producer
from odradek.testing import Broker, ManualClock
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.heartbeat import HeartbeatRequest
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.messages.leave_group import LeaveGroupRequest
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from waiting import WITHIN_S, until

from ..faults.wire import Wire

GROUP = "readers"


@contextmanager
def broker_in_hand(clock: ManualClock | None = None, **config: Any) -> Iterator[Broker]:
    """A broker whose time stands, with the topic `orders`."""
    with Broker(clock=clock or ManualClock(), **config) as broker:
        broker.create_topic("orders")
        yield broker


def send(
    broker: Any, value: bytes = b"v", key: bytes | None = None, topic: str = "orders", **more: Any
) -> None:
    """Send a record as clients do, with the time of the client."""
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send(topic, value, key, partition=0, **more).result(WITHIN_S)


def log(broker: Broker, look: Callable[[Any], Any], topic: str = "orders") -> Any:
    """What `look` says of the log of a partition, in the broker's loop."""
    return broker.call(lambda app: look(app.replicas.get(topic, 0).log))


def start(broker: Broker, topic: str = "orders") -> int:
    """Where the log starts."""
    return log(broker, lambda partition_log: partition_log.log_start_offset, topic)


class Member:
    """A member of the group `readers`, on a connection of its own. Nothing is said by itself."""

    def __init__(
        self, broker: Broker, name: str, session_ms: int = 10_000, rebalance_ms: int = 60_000
    ) -> None:
        self._wire = Wire(broker.port, name)
        self._times = {"session_timeout_ms": session_ms, "rebalance_timeout_ms": rebalance_ms}
        self.member_id = ""
        self.generation = -1
        until(self._has_coordinator, "a coordinator")

    def _has_coordinator(self) -> bool:
        return self._wire.ask(FindCoordinatorRequest(key=GROUP), 1).error_code == 0

    def _request(self) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=GROUP,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
            **self._times,
        )

    def ask_to_join(self) -> None:
        self._wire.send(self._request(), 3)

    def has_no_answer(self) -> bool:
        return self._wire.has_nothing()

    def joined(self) -> int:
        """Take the answer to `ask_to_join`; returns its error."""
        answer = self._wire.receive(self._request(), 3)
        self.member_id, self.generation = answer.member_id, answer.generation_id
        return int(answer.error_code)

    def join_group(self) -> int:
        self.ask_to_join()
        return self.joined()

    def sync(self) -> int:
        """Hand in an assignment, or ask for it."""
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            assignments=[SyncGroupRequestAssignment(member_id=self.member_id, assignment=b"a")],
        )
        return int(self._wire.ask(request, 1).error_code)

    def heartbeat(self) -> int:
        request = HeartbeatRequest(group_id=GROUP, generation_id=self.generation, member_id=self.member_id)
        return int(self._wire.ask(request, 1).error_code)

    def leave(self) -> int:
        return int(self._wire.ask(LeaveGroupRequest(group_id=GROUP, member_id=self.member_id), 1).error_code)

    def close(self) -> None:
        self._wire.__exit__()


def stable(broker: Broker, **times: int) -> Member:
    """The only member of a group that is stable."""
    member = Member(broker, "alone", **times)
    until(lambda: member.join_group() == 0, "a place in the group")
    assert member.sync() == 0
    return member
