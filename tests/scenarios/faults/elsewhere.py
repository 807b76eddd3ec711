"""Situations that are shown elsewhere, or cannot arise, and why: the second table of docs/fault_tests.md."""

from __future__ import annotations

ELSEWHERE = (
    (
        "clocks: jumps of hours on one broker",
        "the simulation: processes of one machine share a clock",
    ),
    (
        "torn writes and lost pages at power loss; slow disks (seconds per write)",
        "the simulation, and tests/crash with one broker: a killed process loses no page of the kernel's",
    ),
    (
        "two witnesses of a death, reordered control requests, session expiry between any two steps",
        "the simulation: processes cannot be stopped at a step that one names",
    ),
    (
        "a broker that lives, and refuses one other broker's connections; two that refuse each other",
        "tests/testing/test_one_witness.py: it takes a packet filter between processes of one machine",
    ),
    (
        "mixed versions: rolling change of a release or of a make",
        "a cluster of brokers of both makes is an issue of its own, and comes later",
    ),
    (
        "quotas: produce, fetch, controller mutations",
        "tests/broker/handlers/test_client_quotas.py: each broker keeps its own rates; no fault takes part",
    ),
    (
        "the rate of a throttle",
        "tests/replication and tests/testing/test_replication_throttles.py, where the clock is the test's",
    ),
    (
        "all ZooKeepers of an ensemble down",
        "the row with one ZooKeeper down for a minute: brokers see the same; an ensemble has its tests in "
        "tests/cluster/store/test_zookeeper.py",
    ),
    (
        "groups whose assignments the coordinator makes (KIP-848)",
        "tests/coordinators and tests/interop: our own client has the classic protocol",
    ),
    (
        "clients of others through a leader's, coordinator's and controller's death",
        "tests/interop",
    ),
    (
        "transactions by consumer group metadata of clients before KIP-447 (one producer per partition)",
        "tests/coordinators: the broker sees a TxnOffsetCommit without a member, whatever fails",
    ),
)
