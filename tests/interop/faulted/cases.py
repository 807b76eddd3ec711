"""The faults that each client meets, and what it is doing then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from odradek.testing import Fault


@dataclass(frozen=True)
class Case:
    """Faults, and the work that meets them. Without faults, something is done by hand.

    Attributes:
        name: tells it from others, in a test's name.
        api: whose requests are counted.
        work: `produce idempotent`, `produce plain`, `consume`, `transact` or `create`.
        faults: set together, in this order.
        by_hand: what is done, a method of `hosts.Host`.
        at_start: they are there from the client's start on; else from when it has done half of its work.
        together: the second half's records are sent together, in place of one after the other.
        always: each run of `make interop` meets it.
    """

    name: str
    api: str
    work: str
    faults: tuple[Fault, ...] = ()
    by_hand: str = ""
    at_start: bool = False
    together: bool = False
    always: bool = False

    @property
    def is_of_a_cluster(self) -> bool:
        """Whether it takes more than one broker."""
        return self.by_hand == "move_leader"


def _fault(effect: str, api: str, **rule: Any) -> Fault:
    # That a client does not ask is told in the table.
    return Fault(effect=effect, apis=(api,), may_be_unmet=True, **rule)


def _fail(api: str, error: str, times: int | None = 1, **rule: Any) -> Fault:
    return _fault("fail", api, error=error, times=times, **rule)


_IDEMPOTENT, _PLAIN = "produce idempotent", "produce plain"
_IN_FLIGHT = (_fault("delay", "Produce", delay_ms=500, nth=1), _fail("Produce", "NOT_LEADER_OR_FOLLOWER"))
_LOST_ANSWER = (_fault("drop", "Produce", after=True, times=1),)

CASES = (
    Case("not-leader", "Produce", _IDEMPOTENT, (_fail("Produce", "NOT_LEADER_OR_FOLLOWER", 2),), always=True),
    Case("in-flight", "Produce", _IDEMPOTENT, _IN_FLIGHT, together=True),
    Case("in-flight-plain", "Produce", _PLAIN, _IN_FLIGHT, together=True),
    Case("lost-answer", "Produce", _IDEMPOTENT, _LOST_ANSWER, always=True),
    Case("lost-answer-plain", "Produce", _PLAIN, _LOST_ANSWER, always=True),
    Case("too-large", "Produce", _IDEMPOTENT, (_fail("Produce", "MESSAGE_TOO_LARGE", None),), always=True),
    Case("few-replicas", "Produce", _IDEMPOTENT, (_fail("Produce", "NOT_ENOUGH_REPLICAS", 3),)),
    Case("few-replicas-for-good", "Produce", _IDEMPOTENT, (_fail("Produce", "NOT_ENOUGH_REPLICAS", None),)),
    Case("hanging-produce", "Produce", _IDEMPOTENT, (_fault("hang", "Produce", times=1),)),
    Case("throttled", "Produce", _IDEMPOTENT, (_fault("throttle", "Produce", throttle_ms=500, times=2),)),
    Case("leader-not-available", "Metadata", _IDEMPOTENT,
         (_fail("Metadata", "LEADER_NOT_AVAILABLE", 3, topic="orders"),), at_start=True),
    Case("old-broker", "ApiVersions", _IDEMPOTENT,
         # A Kafka before 2.4.
         (_fail("ApiVersions", "UNSUPPORTED_VERSION", versions=(3, 5)),), at_start=True),
    Case("truncated-fetch", "Fetch", "consume", (_fault("truncate", "Fetch", times=1),)),
    Case("out-of-range", "Fetch", "consume", (_fail("Fetch", "OFFSET_OUT_OF_RANGE"),), always=True),
    Case("no-coordinator", "FindCoordinator", "consume",
         (_fail("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", 3),), at_start=True),
    Case("loading-coordinator", "JoinGroup", "consume",
         (_fail("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS", 2),), at_start=True),
    Case("rebalance", "Heartbeat", "consume", (_fail("Heartbeat", "REBALANCE_IN_PROGRESS"),)),
    Case("commit", "OffsetCommit", "consume",
         (_fail("OffsetCommit", "NOT_COORDINATOR"), _fail("OffsetCommit", "REBALANCE_IN_PROGRESS")),
         at_start=True),
    Case("concurrent-transactions", "InitProducerId", "transact",
         (_fail("InitProducerId", "CONCURRENT_TRANSACTIONS", 2),), at_start=True),
    Case("lost-end", "EndTxn", "transact", (_fault("drop", "EndTxn", after=True, times=1),), always=True),
    Case("lost-creation", "CreateTopics", "create",
         (_fault("drop", "CreateTopics", after=True, times=1),), at_start=True),
    Case("fenced", "Produce", "transact", by_hand="fence_producer"),
    Case("expired-session", "JoinGroup", "consume", by_hand="expire_session"),
    Case("paused", "Produce", _IDEMPOTENT, by_hand="pause"),
    Case("cut", "Produce", _IDEMPOTENT, by_hand="cut_client"),
    Case("killed", "Produce", _IDEMPOTENT, by_hand="kill_and_restart"),
    Case("moved", "Produce", _IDEMPOTENT, by_hand="move_leader"),
)  # fmt: skip
"""In the order of the table."""
