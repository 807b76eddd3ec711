"""The assignors: Kafka's examples, and what must hold for any group."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.client.core.assignors import (
    Assignor,
    CooperativeStickyAssignor,
    RangeAssignor,
    RebalanceProtocol,
    RoundRobinAssignor,
    StickyAssignor,
    Subscription,
    common_protocol,
    resolve_assignors,
)
from odradek.client.core.assignors.sticky import Owned, decode_owned, encode_owned
from odradek.client.core.group_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from odradek.client.errors import ConfigError
from odradek.client.types import TopicPartition
from odradek.errors import ProtocolError


def names(assignment: dict[str, list[TopicPartition]]) -> dict[str, list[str]]:
    return {member: [f"{tp.topic}{tp.partition}" for tp in tps] for member, tps in assignment.items()}


def members(**topics: str) -> dict[str, Subscription]:
    """a='t u' → member a subscribes to t and u."""
    return {member: Subscription(tuple(wanted.split())) for member, wanted in topics.items()}


# Kafka's own examples: the documentation of RangeAssignor and RoundRobinAssignor, and their tests.
RANGE = [
    ({"t": 3, "u": 3}, members(c0="t u", c1="t u"), {"c0": ["t0", "t1", "u0", "u1"], "c1": ["t2", "u2"]}),
    ({"t": 1}, members(c1="t", c2="t"), {"c1": ["t0"], "c2": []}),
    (
        {"t": 3, "u": 2},
        members(c1="t", c2="t u", c3="t"),
        {"c1": ["t0"], "c2": ["t1", "u0", "u1"], "c3": ["t2"]},
    ),
    ({"t": 0}, members(c1="t"), {"c1": []}),
    ({}, members(c1="t"), {"c1": []}),
]

ROUND_ROBIN = [
    ({"t": 3, "u": 3}, members(c0="t u", c1="t u"), {"c0": ["t0", "t2", "u1"], "c1": ["t1", "u0", "u2"]}),
    (
        {"t0_": 1, "t1_": 2, "t2_": 3},
        members(c0="t0_", c1="t0_ t1_", c2="t0_ t1_ t2_"),
        {"c0": ["t0_0"], "c1": ["t1_0"], "c2": ["t1_1", "t2_0", "t2_1", "t2_2"]},
    ),
    ({"t": 2}, members(c1="t", c2="u"), {"c1": ["t0", "t1"], "c2": []}),
]

STICKY_FIRST = [
    ({"t": 3}, members(c1="t"), {"c1": ["t0", "t1", "t2"]}),
    ({"t": 2}, members(c1="t", c2="t"), {"c1": ["t0"], "c2": ["t1"]}),
    ({"t": 3, "u": 3}, members(c1="t u", c2="t u"), {"c1": ["t0", "t2", "u1"], "c2": ["t1", "u0", "u2"]}),
    (
        {"t": 3, "u": 2},
        members(c1="t", c2="t u", c3="t"),
        {"c1": ["t0", "t2"], "c2": ["u0", "u1"], "c3": ["t1"]},
    ),
    ({"t": 1, "u": 2}, members(c1="t u"), {"c1": ["t0", "u0", "u1"]}),
]


@pytest.mark.parametrize(
    ("assignor", "partitions", "subscriptions", "expected"),
    [(RangeAssignor(), *case) for case in RANGE]
    + [(RoundRobinAssignor(), *case) for case in ROUND_ROBIN]
    + [(StickyAssignor(), *case) for case in STICKY_FIRST]
    + [(CooperativeStickyAssignor(), *case) for case in STICKY_FIRST],
)
def test_known_cases(assignor: Assignor, partitions: Any, subscriptions: Any, expected: Any) -> None:
    assert names(assignor.assign(partitions, subscriptions)) == expected


@pytest.mark.parametrize("assignor", [RangeAssignor(), RoundRobinAssignor()])
def test_static_members_keep_their_place_whatever_their_member_ids(assignor: Assignor) -> None:
    def group(*ids: str) -> dict[str, Subscription]:
        return {m: Subscription(("t",), group_instance_id=f"i{n}") for n, m in enumerate(ids)}

    before = assignor.assign({"t": 6}, group("x", "y", "z"))
    after = assignor.assign({"t": 6}, group("z", "a", "m"))
    assert [before[m] for m in ("x", "y", "z")] == [after[m] for m in ("z", "a", "m")]


def rejoined(
    assignor: StickyAssignor, subscription: Subscription, owned: list[TopicPartition], generation: int
) -> Subscription:
    """What a member says when it joins again with what it owned."""
    if isinstance(assignor, CooperativeStickyAssignor):
        return Subscription(
            subscription.topics,
            user_data=generation.to_bytes(4, "big"),
            owned_partitions=tuple(owned),
            generation_id=generation,
        )
    return Subscription(subscription.topics, user_data=encode_owned(Owned(tuple(owned), generation)))


def rounds(
    assignor: StickyAssignor, partitions: dict[str, int], group: dict[str, Subscription]
) -> dict[str, list[TopicPartition]]:
    """Assign until nothing changes: a cooperative move takes two rounds."""
    assignment = assignor.assign(partitions, group)
    for generation in range(2, 8):
        group = {m: rejoined(assignor, s, assignment[m], generation) for m, s in group.items()}
        again = assignor.assign(partitions, group)
        if {m: set(tps) for m, tps in again.items()} == {m: set(tps) for m, tps in assignment.items()}:
            return again
        assignment = again
    raise AssertionError("the group does not settle")


def check_valid(
    partitions: dict[str, int], group: dict[str, Subscription], assignment: dict[str, list[TopicPartition]]
) -> None:
    given_out = [tp for tps in assignment.values() for tp in tps]
    assert len(given_out) == len(set(given_out)), "nothing twice"
    for member, tps in assignment.items():
        assert all(tp.topic in group[member].topics for tp in tps), "only what was asked for"
    wanted = {topic for s in group.values() for topic in s.topics}
    everything = {
        TopicPartition(topic, n)
        for topic, count in partitions.items()
        if topic in wanted
        for n in range(count)
    }
    assert set(given_out) == everything, "everything that anybody wants"


topic_counts = st.dictionaries(st.sampled_from("tuvwx"), st.integers(0, 7), min_size=1)
member_ids = st.lists(st.sampled_from([f"m{n}" for n in range(9)]), min_size=1, unique=True)


@st.composite
def any_group(draw: st.DrawFn, uniform: bool) -> tuple[dict[str, int], dict[str, Subscription]]:
    partitions = draw(topic_counts)
    ids = draw(member_ids)
    some_topics = st.lists(st.sampled_from(sorted(partitions)), min_size=1, unique=True)
    common = tuple(draw(some_topics))
    group = {m: Subscription(common if uniform else tuple(draw(some_topics))) for m in ids}
    return {t: n for t, n in partitions.items() if any(t in s.topics for s in group.values())}, group


ASSIGNORS = [RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor]


@settings(max_examples=60, deadline=None)
@given(case=any_group(uniform=False), kind=st.sampled_from(ASSIGNORS))
def test_any_first_assignment_is_valid(case: Any, kind: type[Assignor]) -> None:
    partitions, group = case
    check_valid(partitions, group, kind().assign(partitions, group))


@settings(max_examples=80, deadline=None)
@given(
    case=any_group(uniform=True),
    kind=st.sampled_from([StickyAssignor, CooperativeStickyAssignor, RoundRobinAssignor]),
)
def test_equal_subscriptions_are_balanced_to_one(case: Any, kind: type[Assignor]) -> None:
    partitions, group = case
    counts = [len(tps) for tps in kind().assign(partitions, group).values()]
    assert max(counts) - min(counts) <= 1


@settings(max_examples=80, deadline=None)
@given(
    case=any_group(uniform=True),
    kind=st.sampled_from([StickyAssignor, CooperativeStickyAssignor]),
    data=st.data(),
)
def test_sticky_keeps_what_it_can_when_members_come_and_go(
    case: Any, kind: type[StickyAssignor], data: Any
) -> None:
    partitions, group = case
    assignor = kind()
    before = rounds(assignor, partitions, group)
    check_valid(partitions, group, before)
    topics = next(iter(group.values())).topics
    gone = data.draw(st.sets(st.sampled_from(sorted(group)), max_size=len(group) - 1))
    come = data.draw(st.sets(st.sampled_from(["n0", "n1", "n2"])))
    changed = {m: rejoined(assignor, s, before[m], 9) for m, s in group.items() if m not in gone}
    changed |= {m: Subscription(topics) for m in come}
    after = rounds(assignor, partitions, changed)
    check_valid(partitions, changed, after)
    total = sum(partitions.values())
    floor = total // len(changed)
    ceiling = floor + (total % len(changed) > 0)
    assert all(floor <= len(tps) <= ceiling for tps in after.values())
    for member in changed:
        if member in before:
            kept = len(set(before[member]) & set(after[member]))
            assert kept >= min(len(before[member]), floor), "nobody gives up more than the balance wants"


@settings(max_examples=60, deadline=None)
@given(case=any_group(uniform=False), kind=st.sampled_from([StickyAssignor, CooperativeStickyAssignor]))
def test_nothing_moves_when_nothing_changed(case: Any, kind: type[StickyAssignor]) -> None:
    partitions, group = case
    assignor = kind()
    before = rounds(assignor, partitions, group)
    again = {m: rejoined(assignor, s, before[m], 5) for m, s in group.items()}
    after = assignor.assign(partitions, again)
    assert {m: set(t) for m, t in after.items()} == {m: set(t) for m, t in before.items()}


@settings(max_examples=60, deadline=None)
@given(case=any_group(uniform=False), data=st.data())
def test_unequal_subscriptions_end_with_no_useful_move_left(case: Any, data: Any) -> None:
    partitions, group = case
    assignor = StickyAssignor()
    before = rounds(assignor, partitions, group)
    gone = data.draw(st.sets(st.sampled_from(sorted(group)), max_size=len(group) - 1))
    changed = {m: rejoined(assignor, s, before[m], 9) for m, s in group.items() if m not in gone}
    partitions = {t: n for t, n in partitions.items() if any(t in s.topics for s in changed.values())}
    after = assignor.assign(partitions, changed)
    check_valid(partitions, changed, after)


def test_a_cooperative_move_takes_two_rounds() -> None:
    assignor = CooperativeStickyAssignor()
    owned = [TopicPartition("t", n) for n in range(4)]
    group = {
        "a": rejoined(assignor, Subscription(("t",)), owned, 1),
        "b": Subscription(("t",), generation_id=-1),
    }
    first = assignor.assign({"t": 4}, group)
    assert (len(first["a"]), first["b"]) == (2, []), "what moves is nobody's until it is given up"
    group = {m: rejoined(assignor, Subscription(("t",)), first[m], 2) for m in group}
    second = assignor.assign({"t": 4}, group)
    assert second["a"] == first["a"]
    assert len(second["b"]) == 2


def test_of_two_claims_the_newer_generation_counts_and_equal_ones_lose() -> None:
    assignor = CooperativeStickyAssignor()
    tp = TopicPartition("t", 0)

    def claim(generation: int, *partitions: TopicPartition) -> Subscription:
        return rejoined(assignor, Subscription(("t",)), list(partitions), generation)

    newer = assignor.assign({"t": 2}, {"a": claim(1, tp), "b": claim(2, tp)})
    assert newer["b"] == [tp]
    equal = assignor.assign({"t": 2}, {"a": claim(2, tp, TopicPartition("t", 1)), "b": claim(2, tp)})
    assert tp not in equal["a"] + equal["b"], "it has to be given up by both first"


def test_claims_on_what_is_gone_are_ignored() -> None:
    assignor = StickyAssignor()
    owned = [TopicPartition("t", 0), TopicPartition("t", 9), TopicPartition("gone", 0)]
    group = {"a": rejoined(assignor, Subscription(("t", "gone")), owned, 1)}
    assert names(assignor.assign({"t": 2}, group)) == {"a": ["t0", "t1"]}


def test_configs_name_assignors_in_kafkas_ways() -> None:
    chosen = resolve_assignors(
        ["range", "org.apache.kafka.clients.consumer.StickyAssignor", RoundRobinAssignor]
    )
    assert [a.name for a in chosen] == ["range", "sticky", "roundrobin"]
    assert common_protocol(chosen) is RebalanceProtocol.EAGER
    assert common_protocol([CooperativeStickyAssignor()]) is RebalanceProtocol.COOPERATIVE
    assert common_protocol(resolve_assignors(["range", "cooperative-sticky"])) is RebalanceProtocol.EAGER
    for bad in ([], ["range", "range"], ["best"]):
        with pytest.raises(ConfigError):
            resolve_assignors(bad)


# Bytes


def test_sticky_user_data_is_kafkas() -> None:
    owned = Owned((TopicPartition("t", 0), TopicPartition("t", 2), TopicPartition("u", 1)), 7)
    data = encode_owned(owned)
    assert data.hex() == ("00000002000174000000020000000000000002000175000000010000000100000007")
    assert decode_owned(data) == owned
    assert decode_owned(data[:-4]) == Owned(owned.partitions, None), "version 0 has no generation"
    assert decode_owned(None) == Owned((), None)
    for cut in range(1, len(data) - 5):
        assert decode_owned(data[:cut]).partitions == ()
    assert decode_owned(b"\xff" * 20) == Owned((), -1)


def test_subscriptions_and_assignments_round_trip_and_newer_versions_are_read() -> None:
    subscription = Subscription(
        ("t", "u"), b"data", (TopicPartition("t", 1), TopicPartition("u", 0)), 4, "rack"
    )
    data = encode_subscription(subscription)
    assert decode_subscription(data) == subscription
    newer = (9).to_bytes(2, "big") + data[2:] + b"what version 9 adds"
    assert decode_subscription(newer, "static").group_instance_id == "static"
    tps = (TopicPartition("t", 1), TopicPartition("t", 3), TopicPartition("u", 0))
    assert decode_assignment(encode_assignment(tps)) == tps
    assert decode_assignment(b"") == ()
    for bad in (b"\x00", b"\xff\xff\x00\x00", data[:9]):
        with pytest.raises(ProtocolError):
            decode_subscription(bad)


def test_old_subscriptions_own_nothing_and_have_no_generation() -> None:
    version_0 = bytes.fromhex("000000000001000174ffffffff")
    assert decode_subscription(version_0) == Subscription(("t",))


@given(st.binary(max_size=60))
def test_any_user_data_is_survived(data: bytes) -> None:
    owned = decode_owned(data)
    assert all(len(tp) == 2 for tp in owned.partitions)


def test_many_members_and_partitions_are_quick() -> None:
    import time

    group = {f"m{n:03}": Subscription(("t",)) for n in range(200)}
    start = time.thread_time()
    assignment = StickyAssignor().assign({"t": 5_000}, group)
    assert time.thread_time() - start < 2
    assert {len(tps) for tps in assignment.values()} == {25}
    assert len(list(itertools.chain(*assignment.values()))) == 5_000
