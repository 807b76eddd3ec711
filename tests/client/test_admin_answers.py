"""What an administrator asks for counts as done, or as known, only where an answer says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from client.scripted import ScriptedBroker
from odradek.client import Admin
from odradek.errors import InvalidRequestError, KafkaError, UnknownServerError
from odradek.util.acl import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePattern,
    ResourceType,
)
from odradek.wire.api import ApiKey
from odradek.wire.messages import response_class
from odradek.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from odradek.wire.messages.find_coordinator import FindCoordinatorResponse
from odradek.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ACL = AclBinding(
    ResourcePattern(ResourceType.TOPIC, "t"),
    AccessControlEntry("User:a", "*", AclOperation.READ, AclPermissionType.ALLOW),
)
ALL_ACLS = AclBindingFilter()
USER = (("user", "a"),)

VERSIONS = {
    ApiKey.ALTER_CLIENT_QUOTAS: 0,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: 0,
    ApiKey.ALTER_REPLICA_LOG_DIRS: 1,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: 0,
    ApiKey.CREATE_ACLS: 1,
    ApiKey.CREATE_PARTITIONS: 0,
    ApiKey.CREATE_TOPICS: 4,
    ApiKey.DELETE_ACLS: 1,
    ApiKey.DELETE_GROUPS: 0,
    ApiKey.DELETE_RECORDS: 0,
    ApiKey.DELETE_TOPICS: 1,
    ApiKey.DESCRIBE_CONFIGS: 0,
    ApiKey.DESCRIBE_GROUPS: 0,
    ApiKey.DESCRIBE_PRODUCERS: 0,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: 0,
    ApiKey.ELECT_LEADERS: 1,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 0,
    ApiKey.LEAVE_GROUP: 3,
    ApiKey.LIST_OFFSETS: 1,
    ApiKey.OFFSET_COMMIT: 2,
    ApiKey.OFFSET_DELETE: 0,
    ApiKey.OFFSET_FETCH: 1,
}


@contextmanager
def an_admin() -> Iterator[Admin]:
    """An administrator whose broker answers about nothing, but for where things are."""

    def metadata(request: Any, version: int) -> MetadataResponse:
        part = MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1])
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=broker.port)],
            controller_id=1,
            topics=[MetadataResponseTopic(name="t", partitions=[part])],
        )

    def find(request: Any, version: int) -> FindCoordinatorResponse:
        return FindCoordinatorResponse(node_id=1, host="127.0.0.1", port=broker.port)

    answers: dict[int, Any] = {ApiKey.METADATA: metadata, ApiKey.FIND_COORDINATOR: find}
    versions: dict[int, tuple[int, int]] = {ApiKey.METADATA: (1, 1), ApiKey.FIND_COORDINATOR: (0, 0)}
    for key, version in VERSIONS.items():
        answers[key] = lambda request, version, key=key: response_class(key)()
        versions[key] = (version, version)
    broker = ScriptedBroker(answers, versions)
    with broker, Admin(bootstrap_servers=broker.at) as admin:
        yield admin


@pytest.mark.parametrize(
    ("call", "about"),
    [
        (lambda admin: admin.create_topics(["t"]), ["t"]),
        (lambda admin: admin.delete_topics(["t", "u"]), ["t", "u"]),
        (lambda admin: admin.create_partitions({"t": 2}), ["t"]),
        (lambda admin: admin.delete_records({("t", 0): 5}), [("t", 0)]),
        (lambda admin: admin.describe_configs([("topic", "t")]), [("topic", "t")]),
        (lambda admin: admin.incremental_alter_configs({("topic", "t"): {"retention.ms": "1"}}), [(2, "t")]),
        (lambda admin: admin.describe_groups(["g"]), ["g"]),
        (lambda admin: admin.delete_groups(["g"]), ["g"]),
        (
            lambda admin: admin.alter_group_offsets("g", {("t", 0): 5, ("t", 1): 5}),
            [("t", 0), ("t", 1)],
        ),
        (lambda admin: admin.delete_group_offsets("g", [("t", 0)]), [("t", 0)]),
        (lambda admin: admin.remove_members("g", ["m", "n"]), ["m", "n"]),
        (lambda admin: admin.alter_client_quotas({USER: {"producer_byte_rate": 1.0}}), [USER]),
        (lambda admin: admin.describe_user_scram_credentials(["a"]), ["a"]),
        (lambda admin: admin.alter_user_scram_credentials({("a", "SCRAM-SHA-256"): None}), ["a"]),
        (lambda admin: admin.alter_replica_log_dirs({("t", 0, 1): "/d"}), [("t", 0, 1)]),
        (lambda admin: admin.alter_partition_reassignments({("t", 0): [1]}), [("t", 0)]),
        (lambda admin: admin.describe_producers([("t", 0)]), [("t", 0)]),
        (lambda admin: admin.create_acls([ACL]), [ACL]),
        (lambda admin: admin.delete_acls([ALL_ACLS]), [ALL_ACLS]),
    ],
    ids=[
        "create_topics", "delete_topics", "create_partitions", "delete_records", "describe_configs",
        "incremental_alter_configs", "describe_groups", "delete_groups",
        "alter_group_offsets", "delete_group_offsets",
        "remove_members", "alter_client_quotas", "describe_user_scram_credentials",
        "alter_user_scram_credentials", "alter_replica_log_dirs", "alter_partition_reassignments",
        "describe_producers", "create_acls", "delete_acls",
    ],
)  # fmt: skip
def test_what_an_answer_leaves_out_is_not_done(call: Callable[[Admin], Any], about: list[Any]) -> None:
    with an_admin() as admin, pytest.raises(UnknownServerError) as raised:
        call(admin)
    errors: dict[Any, KafkaError] = raised.value.errors  # type: ignore[attr-defined]
    assert list(errors) == about


@pytest.mark.parametrize(
    "call",
    [
        lambda admin: admin.list_offsets({("t", 0): -1}),
        lambda admin: admin.list_group_offsets("g", [("t", 0)]),
    ],
    ids=["list_offsets", "list_group_offsets"],
)
def test_an_offset_that_an_answer_leaves_out_is_not_known(call: Callable[[Admin], Any]) -> None:
    """Nor is it known that there is none."""
    with an_admin() as admin, pytest.raises(UnknownServerError, match="t-0"):
        call(admin)


def test_a_leader_that_an_answer_leaves_out_is_not_elected() -> None:
    with an_admin() as admin:
        elected = admin.elect_leaders([("t", 0)])
    assert [(tp, type(problem)) for tp, problem in elected.items()] == [(("t", 0), UnknownServerError)]


@pytest.mark.parametrize(
    ("call", "about"),
    [
        (
            lambda admin: admin.incremental_alter_configs({("broker", 9): {"a": "b"}, ("topic", "t"): {}}),
            [(4, "9"), (2, "t")],
        ),
        (
            lambda admin: admin.describe_configs([("broker", 9), ("topic", "t")]),
            [("broker", 9), ("topic", "t")],
        ),
        (
            lambda admin: admin.alter_replica_log_dirs({("t", 0, 9): "/d", ("t", 0, 1): "/d"}),
            [("t", 0, 9), ("t", 0, 1)],
        ),
    ],
    ids=["incremental_alter_configs", "describe_configs", "alter_replica_log_dirs"],
)
def test_a_broker_that_cannot_be_asked_does_not_keep_from_asking_others(
    call: Callable[[Admin], Any], about: list[Any]
) -> None:
    with an_admin() as admin, pytest.raises(InvalidRequestError, match="no broker 9") as raised:
        call(admin)
    errors: dict[Any, KafkaError] = raised.value.errors  # type: ignore[attr-defined]
    assert list(errors) == about


def test_records_are_deleted_while_another_partition_has_no_leader() -> None:
    """Its leader is waited for; that the others are done does not hang on that."""

    def metadata(request: Any, version: int) -> MetadataResponse:
        parts = [
            MetadataResponsePartition(partition_index=n, leader_id=leader, replica_nodes=[1], isr_nodes=[1])
            for n, leader in enumerate((1 if deleted else -1, 1))
        ]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=broker.port)],
            topics=[MetadataResponseTopic(name="t", partitions=parts)],
        )

    def delete(request: Any, version: int) -> DeleteRecordsResponse:
        asked = [p.partition_index for p in request.topics[0].partitions]
        deleted.extend(asked)
        answers = [DeleteRecordsPartitionResult(partition_index=n, low_watermark=5) for n in asked]
        return DeleteRecordsResponse(topics=[DeleteRecordsTopicResult(name="t", partitions=answers)])

    deleted: list[int] = []
    broker = ScriptedBroker(
        {ApiKey.METADATA: metadata, ApiKey.DELETE_RECORDS: delete},
        {ApiKey.METADATA: (1, 1), ApiKey.DELETE_RECORDS: (0, 0)},
    )
    with broker, Admin(bootstrap_servers=broker.at) as admin:
        assert admin.delete_records({("t", 0): 5, ("t", 1): 5}) == {("t", 0): 5, ("t", 1): 5}
    assert deleted == [1, 0]
