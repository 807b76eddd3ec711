"""The member's state machine: every answer of the table, and late answers that must change nothing."""

from __future__ import annotations

import pytest

from odradek.client.core.membership import (
    ANSWERS,
    Call,
    Generation,
    Membership,
    MemberState,
    Reaction,
    reaction_to,
)
from odradek.errors import ErrorCode as E


def stable() -> Membership:
    member = Membership()
    member.join_sent()
    member.joined(5, "me", "range")
    assert member.synced()
    return member


def test_the_way_in() -> None:
    member = Membership()
    assert (member.state, member.rejoin_needed, member.in_group) == (MemberState.UNJOINED, True, False)
    member.join_sent()
    assert member.answered(Call.JOIN, E.MEMBER_ID_REQUIRED, member.generation) == Reaction.RETRY_NOW
    member.member_id_given("me")
    assert (member.member_id, member.generation.number) == ("me", -1)
    member.join_sent()
    assert member.state is MemberState.JOINING
    member.joined(1, "me", "range")
    assert member.state is MemberState.SYNCING
    assert member.in_group, "heartbeats begin with the generation"
    assert member.synced()
    assert (member.state, member.rejoin_needed, member.lost) == (MemberState.STABLE, False, False)


@pytest.mark.parametrize(("call", "code"), ANSWERS)
def test_every_answer_in_the_stable_state(call: Call, code: E) -> None:
    member = stable()
    reaction = member.answered(call, code, member.generation)
    assert reaction == ANSWERS[call, code]
    if reaction & Reaction.DROP_MEMBER:
        assert (member.member_id, member.generation.number, member.lost) == ("", -1, True)
    if reaction & Reaction.DROP_GENERATION:
        assert (member.member_id, member.generation.number, member.lost) == ("me", -1, True)
    if reaction & (Reaction.REJOIN | Reaction.DROP_MEMBER | Reaction.DROP_GENERATION):
        assert member.rejoin_needed
    else:
        assert not member.rejoin_needed
        assert member.state is MemberState.STABLE


@pytest.mark.parametrize("call", [Call.HEARTBEAT, Call.COMMIT, Call.SYNC])
@pytest.mark.parametrize("code", [E.UNKNOWN_MEMBER_ID, E.ILLEGAL_GENERATION])
def test_an_answer_about_an_older_generation_changes_nothing(call: Call, code: E) -> None:
    member = stable()
    reaction = member.answered(call, code, Generation(4, "me", "range"))
    assert not reaction & (Reaction.DROP_MEMBER | Reaction.DROP_GENERATION)
    assert member.generation == Generation(5, "me", "range")
    assert not member.lost
    assert member.state is MemberState.STABLE


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (Call.JOIN, E.FENCED_INSTANCE_ID),
        (Call.JOIN, E.INCONSISTENT_GROUP_PROTOCOL),
        (Call.JOIN, E.GROUP_AUTHORIZATION_FAILED),
        (Call.SYNC, E.GROUP_AUTHORIZATION_FAILED),
        (Call.HEARTBEAT, E.FENCED_INSTANCE_ID),
        (Call.COMMIT, E.OFFSET_METADATA_TOO_LARGE),
    ],
)
def test_what_is_not_in_the_table_is_fatal(call: Call, code: E) -> None:
    assert reaction_to(call, code) == Reaction.FATAL


@pytest.mark.parametrize("call", [Call.COMMIT, Call.HEARTBEAT])
@pytest.mark.parametrize(
    "code", [E.FENCED_INSTANCE_ID, E.GROUP_AUTHORIZATION_FAILED, E.OFFSET_METADATA_TOO_LARGE]
)
def test_a_commit_or_heartbeat_that_fails_for_good_keeps_the_heartbeats_going(call: Call, code: E) -> None:
    member = stable()
    assert member.answered(call, code, member.generation) == Reaction.FATAL
    assert member.in_group
    assert not member.rejoin_needed


def test_success_is_no_reaction() -> None:
    assert {reaction_to(call, E.NONE) for call in Call} == {Reaction.NONE}


def test_a_first_join_that_fails_loses_nothing() -> None:
    member = Membership()
    member.join_sent()
    member.answered(Call.JOIN, E.UNKNOWN_MEMBER_ID, member.generation)
    assert not member.lost


def test_an_assignment_that_comes_after_the_place_was_lost_does_not_count() -> None:
    member = stable()
    member.join_sent()
    member.joined(6, "me", "range")
    member.answered(Call.HEARTBEAT, E.UNKNOWN_MEMBER_ID, member.generation)
    assert not member.synced()
    assert member.lost


def test_interrupted_and_left() -> None:
    member = stable()
    member.join_sent()
    member.interrupted()
    assert (member.state, member.rejoin_needed, member.member_id) == (MemberState.UNJOINED, True, "me")
    member.left(lost=True)
    assert (member.member_id, member.lost, member.in_group) == ("", True, False)
