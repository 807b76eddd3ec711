"""DescribeAcls, CreateAcls, DeleteAcls, and that what they change holds at once and everywhere."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.authorizer.acl_authorizer import LONGEST_NAME, MOST_DECISIONS, AclAuthorizer
from odradek.broker.authorizer.acl_keeper import AclKeeper
from odradek.broker.authorizer.audit import LOGGER_NAME, TRACE
from odradek.broker.requests.action import Action
from odradek.broker.requests.authorization import Operation, topic
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.peer import Peer
from odradek.cluster.access.acl_nodes import acls_path, encode_acls
from odradek.cluster.store.memory import MemoryStore
from odradek.cluster.store.store import StoreUnavailable
from odradek.errors.codes import ErrorCode
from odradek.testing import Broker
from odradek.util.acl import (
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from odradek.wire.api import ApiKey
from odradek.wire.headers import RequestHeader
from odradek.wire.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from odradek.wire.messages.describe_acls import DescribeAclsRequest
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.metadata import MetadataRequest

from ..admin_world import World
from ..live import connect, running
from .acl_world import ADMIN, Asker, acl, guarded

READ, WRITE = Operation.READ, Operation.WRITE
PREFIXED = PatternType.PREFIXED
CLUSTER = ResourceType.CLUSTER


def creation(binding: AclBinding, **changed: Any) -> AclCreation:
    pattern, entry = binding
    fields = {
        "resource_type": int(pattern.resource_type),
        "resource_name": pattern.name,
        "resource_pattern_type": int(pattern.pattern_type),
        "principal": entry.principal,
        "host": entry.host,
        "operation": int(entry.operation),
        "permission_type": int(entry.permission_type),
    }
    return AclCreation(**{**fields, **changed})


def asked(
    kind: int = 1, name: str | None = None, pattern: int = 1, operation: int = 1, **more: Any
) -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=kind,
        resource_name_filter=name,
        pattern_type_filter=pattern,
        operation=operation,
        permission_type=1,
        **{"principal_filter": None, "host_filter": None, **more},
    )


def filter_of(request: DescribeAclsRequest) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=request.resource_type_filter,
        resource_name_filter=request.resource_name_filter,
        pattern_type_filter=request.pattern_type_filter,
        principal_filter=request.principal_filter,
        host_filter=request.host_filter,
        operation=request.operation,
        permission_type=request.permission_type,
    )


def described(answer: Any) -> set[tuple[int, str, int, str, int]]:
    return {
        (one.resource_type, one.resource_name, one.pattern_type, entry.principal, entry.operation)
        for one in answer.resources
        for entry in one.acls
    }


@pytest.fixture
def world() -> World:
    world = guarded(None, acl("a", READ), acl("b", WRITE), acl("ab", READ, pattern=PREFIXED), acl("*", READ))
    world.principal = ADMIN
    return world


A, B, AB, ALL = (
    (2, "a", 3, "User:alice", 3),
    (2, "b", 3, "User:alice", 4),
    (2, "ab", 4, "User:alice", 3),
    (2, "*", 3, "User:alice", 3),
)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize(
    ("request_", "found"),
    [
        (asked(), {A, B, AB, ALL}),
        (asked(pattern=2), {A, B, AB, ALL}),
        (asked(pattern=3), {A, B, ALL}),
        (asked(pattern=4), {AB}),
        (asked(kind=3), set()),
        (asked(name="a", pattern=3), {A}),
        (asked(name="a", pattern=2), {A, ALL}),
        (asked(name="abc", pattern=2), {AB, ALL}),
        (asked(name="ab"), {AB}),
        (asked(name="*", pattern=2), {ALL}),
        (asked(operation=4), {B}),
        (asked(principal_filter="User:bob"), set()),
        (asked(host_filter="10.0.0.1"), set()),
        (asked(host_filter="*", principal_filter="User:alice"), {A, B, AB, ALL}),
        (asked(kind=99), set()),
        (asked(pattern=99), set()),
    ],
)
def test_filters(world: World, version: int, request_: DescribeAclsRequest, found: set[object]) -> None:
    answer = world.call(request_, version)
    assert answer.error_code == 0
    assert described(answer) == found


def test_version_0_knows_literal_patterns_alone(world: World) -> None:
    assert described(world.call(asked(pattern=3), 0)) == {A, B, ALL}
    answer = world.call(DeleteAclsRequest(filters=[filter_of(asked(pattern=3))]), 0)
    assert len(answer.filter_results[0].matching_acls) == 3
    assert described(world.call(asked(), 1)) == {AB}


@pytest.mark.parametrize("version", range(4))
def test_created_acls_hold_at_once(world: World, version: int) -> None:
    authorizer = world.authorizer
    question = Asker("User:bob"), Action(WRITE, topic("c"))
    assert not authorizer.authorize(*question)
    wanted = [creation(acl("c", WRITE, "User:bob")), creation(acl("c", READ, "User:bob"))]
    answer = world.call(CreateAclsRequest(creations=wanted), version)
    assert [one.error_code for one in answer.results] == [0, 0]
    assert authorizer.authorize(*question)
    again = world.call(CreateAclsRequest(creations=wanted), version)
    assert [one.error_code for one in again.results] == [0, 0]
    deleted = world.call(DeleteAclsRequest(filters=[filter_of(asked(name="c", pattern=3))]), version)
    assert {(one.operation, one.principal) for one in deleted.filter_results[0].matching_acls} == {
        (3, "User:bob"),
        (4, "User:bob"),
    }
    assert not authorizer.authorize(*question)


def test_what_is_wrong_with_one_acl_is_no_matter_of_the_others(world: World) -> None:
    good = acl("c", WRITE)
    answer = world.call(
        CreateAclsRequest(
            creations=[
                creation(acl("other", Operation.ALTER, kind=CLUSTER)),
                creation(acl("", READ)),
                creation(good),
                creation(acl("a/b", READ)),
                creation(good, operation=99),
                creation(good, operation=1),
                creation(good, resource_pattern_type=2),
                creation(good, principal="bob"),
                creation(acl("kafka-cluster", Operation.ALTER, kind=CLUSTER)),
            ]
        ),
        3,
    )
    invalid = ErrorCode.INVALID_REQUEST
    assert [one.error_code for one in answer.results] == [
        invalid,
        invalid,
        0,
        invalid,
        invalid,
        invalid,
        invalid,
        invalid,
        0,
    ]
    assert answer.results[0].error_message == "The only valid name for the CLUSTER resource is kafka-cluster"
    assert answer.results[1].error_message == "Invalid empty resource name"


def test_each_acl_is_removed_by_the_first_filter_that_lets_it_through(world: World) -> None:
    filters = [
        filter_of(asked(name="a", pattern=2)),
        filter_of(asked()),
        filter_of(asked(name="zz", pattern=3)),
    ]
    answer = world.call(DeleteAclsRequest(filters=filters), 3)
    names = [sorted(acl.resource_name for acl in one.matching_acls) for one in answer.filter_results]
    assert names == [["*", "a"], ["ab", "b"], []]
    assert described(world.call(asked(), 3)) == set()


def test_who_may_not(world: World) -> None:
    world.principal = "User:alice"
    failed = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert world.call(asked(), 3).error_code == failed
    answer = world.call(CreateAclsRequest(creations=[creation(acl("x", READ))] * 2), 3)
    assert [one.error_code for one in answer.results] == [failed, failed]
    answer = world.call(DeleteAclsRequest(filters=[filter_of(asked())]), 3)
    assert [(one.error_code, one.matching_acls) for one in answer.filter_results] == [(failed, [])]
    world.acls.create([acl("kafka-cluster", Operation.DESCRIBE, kind=CLUSTER)])
    assert world.call(asked(), 3).error_code == 0


def other_broker(world: World) -> AclKeeper:
    """The ACLs of another broker over the same store."""

    class Access:
        store = MemoryStore(world.server)
        event_queue = world.controller.event_queue

    keeper = AclKeeper(AclAuthorizer([], False), Access(), world.clock)
    keeper.load()
    return keeper


def test_others_follow(world: World) -> None:
    other = other_broker(world)
    assert set(other.authorizer.index.bindings()) == set(world.authorizer.index.bindings())
    other.create([acl("new", READ), acl("new-", READ, pattern=PREFIXED)])
    assert acl("new", READ) in set(world.authorizer.index.bindings())
    assert acl("new-", READ, pattern=PREFIXED) in set(world.authorizer.index.bindings())
    assert world.acls.delete([]) == []
    other.stop()
    world.acls.create([acl("later", READ)])
    assert acl("later", READ) not in set(other.authorizer.index.bindings())
    other.load()
    assert set(other.authorizer.index.bindings()) == set(world.authorizer.index.bindings())


def test_a_loaded_store_takes_away_what_is_gone(world: World) -> None:
    store = MemoryStore(world.server)
    world.acls.stop()
    path = acls_path(ResourcePattern(ResourceType.TOPIC, "a"))
    store.delete(path)
    world.acls.load()
    assert acl("a", READ) not in set(world.authorizer.index.bindings())


def test_what_cannot_be_read_now_is_read_later(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore(world.server)
    path = acls_path(ResourcePattern(ResourceType.TOPIC, "a"))
    store.set(path, b"nonsense")
    store.create("/kafka-acl-changes/acl_changes_", b"TOPIC:a", sequence=True)
    # What was known stays until it is known better: an entry that denies might be in it.
    assert acl("a", READ) in set(world.authorizer.index.bindings())
    store.set(path, encode_acls([acl("a", WRITE).entry]))
    world.acls.look_again()
    assert acl("a", WRITE) in set(world.authorizer.index.bindings())
    assert acl("a", READ) not in set(world.authorizer.index.bindings())


def test_a_node_that_cannot_be_read_keeps_no_other_change_back(world: World) -> None:
    store = MemoryStore(world.server)
    store.set(acls_path(ResourcePattern(ResourceType.TOPIC, "a")), b"nonsense")
    store.create("/kafka-acl-changes/acl_changes_", b"TOPIC:a", sequence=True)
    denied = acl("b", WRITE, deny=True)
    store.set(acls_path(denied.pattern), encode_acls([denied.entry]))
    store.create("/kafka-acl-changes/acl_changes_", b"TOPIC:b", sequence=True)
    found = set(world.authorizer.index.bindings())
    assert denied in found and acl("b", WRITE) not in found
    assert acl("a", READ) in found


def test_a_store_that_cannot_be_written(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise StoreUnavailable("/", "the disk is full")

    monkeypatch.setattr(world.store, "multi", fail)
    answer = world.call(CreateAclsRequest(creations=[creation(acl("new", READ))]), 3)
    assert answer.results[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "the disk is full" in answer.results[0].error_message
    answer = world.call(DeleteAclsRequest(filters=[filter_of(asked(name="a", pattern=3))]), 3)
    (removed,) = answer.filter_results[0].matching_acls
    assert (removed.error_code, removed.resource_name) == (ErrorCode.UNKNOWN_SERVER_ERROR, "a")
    assert acl("a", READ) in set(world.authorizer.index.bindings())


def test_producers_may_be_idempotent_when_they_may_write_to_some_topic(world: World) -> None:
    authorizer = world.authorizer
    assert authorizer.authorize_by_type(Asker("User:alice"), WRITE, ResourceType.TOPIC)
    assert not authorizer.authorize_by_type(Asker("User:bob"), WRITE, ResourceType.TOPIC)
    assert authorizer.authorize_by_type(Asker(ADMIN), WRITE, ResourceType.TOPIC)
    world.acls.create([acl("*", WRITE, "User:alice", deny=True)])
    assert not authorizer.authorize_by_type(Asker("User:alice"), WRITE, ResourceType.TOPIC)


def test_decisions_are_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    authorizer = AclAuthorizer([], True)
    decide = authorizer.index.decide
    decided: list[str] = []

    def note(*question: Any, **more: Any) -> Any:
        decided.append(question[-1])
        return decide(*question, **more)

    monkeypatch.setattr(authorizer.index, "decide", note)

    def ask(*names: str) -> list[str]:
        """Ask about topics; returns those of which nothing was remembered."""
        decided.clear()
        for name in names:
            authorizer.authorize(Asker("User:a"), Action(READ, topic(name)))
        return list(decided)

    names = [str(number) for number in range(MOST_DECISIONS + 10)]
    assert ask(*names) == names
    assert ask(*names[-10:]) == []
    assert ask(names[0], names[0]) == [names[0]]
    long = "x" * (LONGEST_NAME + 1)
    assert ask(long, long) == [long, long]
    assert ask(*names[-10:]) == []


def test_what_was_granted_is_not_asked_again_until_an_acl_changes(world: World) -> None:
    authorizer = world.authorizer
    asked = 0

    class Counting:
        grants_of = authorizer.grants_of

        def authorize(self, *question: Any) -> bool:
            nonlocal asked
            asked += 1
            return bool(authorizer.authorize(*question))

    world.authorizer = Counting()
    peer = Peer("127.0.0.1", 0, "", "PLAINTEXT")
    peer.principal = "User:alice"
    header = RequestHeader(api_key=0, api_version=9, correlation_id=1, client_id="test")

    def context() -> RequestContext:
        return RequestContext(world, header, peer, 0)  # type: ignore[arg-type]

    assert context().may_write("b") and context().may_write("b") and context().may_read("b", lambda _: 1)
    assert asked == 2
    assert not context().may_write("a") and not context().may_write("a")
    assert asked == 4
    world.acls.create([acl("b", WRITE, deny=True)])
    assert not context().may_write("b")
    world.acls.delete(
        [AclBindingFilter(entry=AccessControlEntryFilter(permission_type=AclPermissionType.DENY))]
    )
    assert context().may_write("b") and context().may_write("b")
    assert asked == 6
    # Of another principal of the same connection nothing is known.
    peer.principal = "User:bob"
    assert not context().may_write("b")
    peer.principal = "User:alice"
    world.acls.create([acl("*", WRITE)])
    assert context().may_write("x" * 250) and context().may_write("x" * 250)
    assert asked == 9
    assert context().may_write("b") and asked == 10
    # Where grants are logged, each is asked for.
    logging.getLogger(LOGGER_NAME).setLevel(logging.DEBUG)
    try:
        world.acls.look_again()
        assert context().may_write("b") and context().may_write("b") and asked == 12
    finally:
        logging.getLogger(LOGGER_NAME).setLevel(logging.NOTSET)


def test_the_audit_log(world: World, caplog: pytest.LogCaptureFixture) -> None:
    def lines(level: int) -> list[str]:
        with caplog.at_level(level, LOGGER_NAME):
            caplog.clear()
            authorizer = world.authorizer
            bob, alice = Asker("User:bob", api_key=ApiKey.FETCH), Asker("User:alice", api_key=ApiKey.FETCH)
            authorizer.authorize(bob, Action(READ, topic("a"), 2))
            hidden = Action(WRITE, topic("a\n" * 200), log_if_denied=False)
            authorizer.authorize(Asker("User:bob", api_key=ApiKey.PRODUCE), hidden)
            authorizer.authorize(alice, Action(READ, topic("ab")))
            possible = Action(READ, topic("ab"), log_if_allowed=False)
            authorizer.authorize(Asker("User:alice", api_key=ApiKey.METADATA), possible)
            describing = Asker(ADMIN, api_key=ApiKey.DESCRIBE_CONFIGS)
            authorizer.authorize(describing, Action(AclOperation.DESCRIBE_CONFIGS, topic("a")))
            opening = Asker("User:bob", api_key=ApiKey.INIT_PRODUCER_ID)
            authorizer.authorize_by_type(opening, WRITE, ResourceType.TOPIC)
        return [record.getMessage() for record in caplog.records if record.name == LOGGER_NAME]

    denied = [
        "Principal = User:bob is Denied operation = READ from host = 1.2.3.4 on resource = Topic:LITERAL:a "
        "for request = Fetch with resourceRefCount = 2 based on rule DefaultDeny",
        "Principal = User:bob is Denied operation = WRITE from host = 1.2.3.4 on resource = "
        "Topic:UNKNOWN:NONE for request = InitProducerId with resourceRefCount = 0 based on rule "
        "AnyResourceOfType",
    ]
    assert lines(logging.INFO) == denied
    assert lines(logging.DEBUG) == [
        denied[0],
        "Principal = User:alice is Allowed operation = READ from host = 1.2.3.4 on resource = "
        "Topic:LITERAL:ab for request = Fetch with resourceRefCount = 1 based on rule "
        "MatchingAcl(acl=StandardAcl[resourceType=TOPIC, resourceName=ab, patternType=PREFIXED, "
        "principal=User:alice, host=*, operation=READ, permissionType=ALLOW])",
        "Principal = User:admin is Allowed operation = DESCRIBE_CONFIGS from host = 1.2.3.4 on resource = "
        "Topic:LITERAL:a for request = DescribeConfigs with resourceRefCount = 1 based on rule SuperUser",
        denied[1],
    ]
    everything = lines(TRACE)
    assert len(everything) == 6
    assert all(len(line) < 700 for line in everything)


def test_a_whole_broker(tmp_path: Path) -> None:
    asyncio.run(_whole_broker(tmp_path))


async def _whole_broker(tmp_path: Path) -> None:
    config = {
        "authorizer_class_name": "kafka.security.authorizer.AclAuthorizer",
        "super_users": "User:admin;User:ANONYMOUS",
    }
    async with running(tmp_path, **config) as broker:
        client = await connect(broker)
        wanted = [creation(acl("t", READ)), creation(acl("t-", READ, pattern=PREFIXED))]
        answer = await client.call(CreateAclsRequest(creations=wanted), 3)
        assert [one.error_code for one in answer.results] == [0, 0]
        assert len(described(await client.call(asked(), 3))) == 2
        # An enumeration that says UNKNOWN cannot be parsed.
        client.send(asked(operation=0), 3)
        assert await client.closed()
    async with running(tmp_path, **{**config, "super_users": "User:admin"}) as broker:
        client = await connect(broker)
        assert (await client.call(asked(), 3)).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert len(list(broker.acls.authorizer.index.bindings())) == 2  # type: ignore[union-attr]
        metadata = await client.call(MetadataRequest(topics=None), 9)
        assert metadata.topics == []
        idempotent = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        answer = await client.call(idempotent, 4)
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_nonsense_in_a_node_refuses_the_start(tmp_path: Path) -> None:
    with Broker(data=tmp_path, authorizer_class_name="kafka.security.authorizer.AclAuthorizer") as broker:
        broker.call(lambda b: b.store.create("/kafka-acl/Topic/t", b"nonsense"))
    broker = Broker(data=tmp_path, authorizer_class_name="kafka.security.authorizer.AclAuthorizer")
    with pytest.raises(Exception, match="/kafka-acl/Topic/t"):
        broker.start()


def test_wrong_super_users_refuse_the_start(tmp_path: Path) -> None:
    broker = Broker(authorizer_class_name="kafka.security.authorizer.AclAuthorizer", super_users="admin")
    with pytest.raises(Exception, match=r"super\.users"):
        broker.start()


@pytest.mark.parametrize("version", [4, 12])
def test_the_audit_log_counts_a_fetchs_partitions_of_each_topic(
    version: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def topic_of(name: str, *partitions: int) -> FetchTopic:
        return FetchTopic(topic=name, partitions=[FetchPartition(partition=one) for one in partitions])

    async def main() -> None:
        configs = {"authorizer_class_name": "kafka.security.authorizer.AclAuthorizer"}
        async with running(tmp_path, **configs) as broker:
            client = await connect(broker)
            await client.call(FetchRequest(topics=[topic_of("a", 0, 1, 2), topic_of("b", 5)]), version)
            client.close()

    with caplog.at_level(logging.INFO, LOGGER_NAME):
        asyncio.run(main())
    told = [record.getMessage() for record in caplog.records if record.name == LOGGER_NAME]
    assert [line.partition(" on resource = ")[2] for line in told] == [
        f"Topic:LITERAL:{name} for request = Fetch with resourceRefCount = {count} based on rule DefaultDeny"
        for name, count in (("a", 3), ("b", 1))
    ]
