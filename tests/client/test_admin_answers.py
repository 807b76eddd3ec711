"""What an administrator asks for counts as done, or as known, only where an answer says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from client.scripted import Answer, ScriptedBroker, Silence
from odradek.client import Admin
from odradek.client.errors import ClientTimeoutError
from odradek.errors import (
    ClusterAuthorizationError,
    ErrorCode,
    InvalidRequestError,
    KafkaError,
    UnknownServerError,
)
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
from odradek.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from odradek.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from odradek.wire.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from odradek.wire.messages.describe_log_dirs import DescribeLogDirsResponse, DescribeLogDirsResult
from odradek.wire.messages.describe_producers import (
    DescribeProducersResponse,
    PartitionResponse,
    TopicResponse,
)
from odradek.wire.messages.find_coordinator import FindCoordinatorResponse
from odradek.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
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
    ApiKey.DESCRIBE_LOG_DIRS: 1,
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
def an_admin(told: dict[ApiKey, Answer] | None = None, **configs: Any) -> Iterator[Admin]:
    """An administrator whose broker answers about nothing but where things are, and what is `told`."""

    def metadata(request: Any, version: int) -> MetadataResponse:
        parts = [
            MetadataResponsePartition(partition_index=n, leader_id=1, replica_nodes=[1], isr_nodes=[1])
            for n in range(3)
        ]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=broker.port)],
            controller_id=1,
            topics=[MetadataResponseTopic(name="t", partitions=parts)],
        )

    def find(request: Any, version: int) -> FindCoordinatorResponse:
        return FindCoordinatorResponse(node_id=1, host="127.0.0.1", port=broker.port)

    answers: dict[int, Any] = {ApiKey.METADATA: metadata, ApiKey.FIND_COORDINATOR: find}
    versions: dict[int, tuple[int, int]] = {ApiKey.METADATA: (1, 1), ApiKey.FIND_COORDINATOR: (0, 0)}
    for key, version in VERSIONS.items():
        answers[key] = lambda request, version, key=key: response_class(key)()
        versions[key] = (version, version)
    broker = ScriptedBroker(answers | (told or {}), versions)
    with broker, Admin(bootstrap_servers=broker.at, **configs) as admin:
        yield admin


@pytest.mark.parametrize(
    ("call", "about"),
    [
        (lambda admin: admin.create_topics(["t"]), ["t"]),
        (lambda admin: admin.delete_topics(["t", "u"]), ["t", "u"]),
        (lambda admin: admin.create_partitions({"t": 2}), ["t"]),
        (lambda admin: admin.delete_records({("t", 0): 5}), [("t", 0)]),
        (lambda admin: admin.list_offsets({("t", 0): -1, ("t", 1): -1}), [("t", 0), ("t", 1)]),
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
        "create_topics", "delete_topics", "create_partitions", "delete_records", "list_offsets",
        "describe_configs", "incremental_alter_configs", "describe_groups", "delete_groups",
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


def test_a_broker_that_tells_of_no_data_folder_does_not_let_it_be_known() -> None:
    """DescribeLogDirs has an error of its own since version 3 alone."""
    with an_admin() as admin, pytest.raises(ClusterAuthorizationError, match="broker 1"):
        admin.describe_log_dirs()


def test_an_offset_that_an_answer_leaves_out_is_not_known() -> None:
    """Nor is it known that there is none."""
    with an_admin() as admin, pytest.raises(UnknownServerError, match="t-0"):
        admin.list_group_offsets("g", [("t", 0)])


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
        (lambda admin: admin.describe_log_dirs([9, 1, 8]), [9, 8]),
    ],
    ids=["incremental_alter_configs", "describe_configs", "alter_replica_log_dirs", "describe_log_dirs"],
)
def test_a_broker_that_cannot_be_asked_does_not_keep_from_asking_others(
    call: Callable[[Admin], Any], about: list[Any]
) -> None:
    told = DescribeLogDirsResponse(results=[DescribeLogDirsResult(log_dir="/d")])
    answers: dict[ApiKey, Answer] = {ApiKey.DESCRIBE_LOG_DIRS: lambda *_: told}
    with an_admin(answers) as admin, pytest.raises(InvalidRequestError, match="no broker 9") as raised:
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


T = TypeVar("T")

CODES = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE, ErrorCode.POLICY_VIOLATION)
"""What is said of three partitions, again and again: it may pass, it is done, it is refused for good."""


def _coded(kind: Callable[..., T], request: Any, codes: Sequence[ErrorCode]) -> list[T]:
    """Answer each partition of a request's only topic with the error that is its."""
    indexes = (part.partition_index for part in request.topics[0].partitions)
    return [kind(partition_index=index, error_code=codes[index]) for index in indexes]


def _records(request: Any, version: int) -> DeleteRecordsResponse:
    answers = _coded(DeleteRecordsPartitionResult, request, CODES)
    return DeleteRecordsResponse(topics=[DeleteRecordsTopicResult(name="t", partitions=answers)])


def _producers(request: Any, version: int) -> DescribeProducersResponse:
    answers = [
        PartitionResponse(partition_index=index, error_code=CODES[index])
        for index in request.topics[0].partition_indexes
    ]
    return DescribeProducersResponse(topics=[TopicResponse(name="t", partitions=answers)])


def _offsets(request: Any, version: int) -> ListOffsetsResponse:
    answers = _coded(ListOffsetsPartitionResponse, request, CODES)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=answers)])


def _commits(request: Any, version: int) -> OffsetCommitResponse:
    codes = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE)
    answers = _coded(OffsetCommitResponsePartition, request, codes)
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=answers)])


@pytest.mark.parametrize(
    ("call", "told", "codes"),
    [
        (
            lambda admin: admin.delete_records({("t", n): 5 for n in range(3)}),
            {ApiKey.DELETE_RECORDS: _records},
            CODES,
        ),
        (
            lambda admin: admin.describe_producers([("t", n) for n in range(3)]),
            {ApiKey.DESCRIBE_PRODUCERS: _producers},
            CODES,
        ),
        (
            lambda admin: admin.list_offsets({("t", n): -1 for n in range(3)}),
            {ApiKey.LIST_OFFSETS: _offsets},
            CODES,
        ),
        (
            lambda admin: admin.alter_group_offsets("g", {("t", n): 5 for n in range(3)}),
            {ApiKey.OFFSET_COMMIT: _commits},
            (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ),
    ],
    ids=["delete_records", "describe_producers", "list_offsets", "alter_group_offsets"],
)
def test_a_call_whose_time_is_over_names_what_is_not_done(
    call: Callable[[Admin], Any], told: dict[ApiKey, Answer], codes: tuple[ErrorCode, ...]
) -> None:
    with an_admin(told, default_api_timeout_ms=500) as admin, pytest.raises(ClientTimeoutError) as raised:
        call(admin)
    errors: dict[Any, KafkaError] = raised.value.errors  # type: ignore[attr-defined]
    assert {tp: problem.code for tp, problem in errors.items()} == {("t", 0): codes[0], ("t", 2): codes[2]}


def test_a_broker_that_says_nothing_leaves_it_open_what_is_done() -> None:
    def silent(request: Any, version: int) -> Any:
        raise Silence

    told = {ApiKey.DELETE_RECORDS: silent}
    with an_admin(told, default_api_timeout_ms=500) as admin, pytest.raises(ClientTimeoutError) as raised:
        admin.delete_records({("t", 0): 5, ("t", 1): 5})
    errors: dict[Any, KafkaError] = raised.value.errors  # type: ignore[attr-defined]
    assert errors == {("t", 0): raised.value, ("t", 1): raised.value}


def test_topics_that_wait_for_a_quota_are_named_when_the_time_is_over() -> None:
    """What was made before the controller fell silent is made, and what was refused is refused."""
    rounds: list[set[str]] = []

    def create(request: Any, version: int) -> CreateTopicsResponse:
        rounds.append({topic.name for topic in request.topics})
        if len(rounds) > 1:
            raise Silence
        codes = {"u": ErrorCode.THROTTLING_QUOTA_EXCEEDED, "v": ErrorCode.TOPIC_ALREADY_EXISTS}
        return CreateTopicsResponse(
            topics=[
                CreatableTopicResult(name=topic.name, error_code=codes.get(topic.name, ErrorCode.NONE))
                for topic in request.topics
            ]
        )

    told = {ApiKey.CREATE_TOPICS: create}
    with an_admin(told, default_api_timeout_ms=500) as admin, pytest.raises(ClientTimeoutError) as raised:
        admin.create_topics(["t", "u", "v"])
    assert rounds[:2] == [{"t", "u", "v"}, {"u"}]
    errors: dict[Any, KafkaError] = raised.value.errors  # type: ignore[attr-defined]
    assert {name: problem.code for name, problem in errors.items()} == {
        "u": ErrorCode.REQUEST_TIMED_OUT,
        "v": ErrorCode.TOPIC_ALREADY_EXISTS,
    }


def test_a_group_that_may_not_be_described_does_not_keep_from_asking_about_others() -> None:
    asked: list[list[str]] = []

    def describe(request: Any, version: int) -> DescribeGroupsResponse:
        asked.append(request.groups)
        codes = dict.fromkeys("gi", ErrorCode.GROUP_AUTHORIZATION_FAILED)
        codes["h"] = ErrorCode.NONE if len(asked) > 1 else ErrorCode.NOT_COORDINATOR
        groups = [DescribedGroup(group_id=name, error_code=codes[name]) for name in request.groups]
        return DescribeGroupsResponse(groups=groups)

    told: dict[ApiKey, Answer] = {ApiKey.DESCRIBE_GROUPS: describe}
    with an_admin(told, retry_backoff_ms=1) as admin, pytest.raises(KafkaError) as raised:
        admin.describe_groups(["g", "h", "i"])
    assert asked == [["g", "h", "i"], ["h"]]
    errors: dict[Any, KafkaError] = raised.value.errors  # type: ignore[attr-defined]
    assert list(errors) == ["g", "i"]
