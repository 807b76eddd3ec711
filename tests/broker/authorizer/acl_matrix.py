"""The matrix: who asks (`acl_matrix_users`) for what; `acl_matrix_side` asks it of any broker.

Each case is one request of one principal about one resource. `tests/golden/authorization` has what a Kafka
3.9.1 with ZooKeeper answered, reduced to the errors, the names that are shown, and the operations that are
said to be authorized; `tests/interop/test_acl_matrix.py` asks it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from odradek.records.builder import build_batch
from odradek.wire.api import ApiKey
from odradek.wire.messages import request_class

from .acl_matrix_users import ADMIN, AWAY, CLUSTER_USERS, GROUP_USERS, HOME, IDS_USERS, NOBODY, TOPIC_USERS

TOPICS = ("lit", "pre-1", "other", "public")
GROUPS = ("lit-g", "pre-g", "other-g", "any-g")
IDS = ("lit-x", "pre-x", "other-x", "any-x")


class Asked(NamedTuple):
    """One request of the matrix: its API and version, and its fields as a function of a resource and its
    id."""

    api: ApiKey
    version: int
    fields: Callable[[str, bytes], dict[str, Any]]
    name: str = ""

    @property
    def label(self) -> str:
        """What it is called in the golden data."""
        return f"{self.api.api_name}-{self.version}{self.name and f' {self.name}'}"

    def request(self, resource: str, topic_id: bytes) -> Any:
        """The message."""
        return _filled(request_class(self.api), self.fields(resource, topic_id))


def _filled(kind: Any, fields: dict[str, Any]) -> Any:
    """A message of nested dictionaries."""
    elements = {one.name: one.element.struct for one in kind.FIELDS if one.element is not None}

    def value(name: str, given: Any) -> Any:
        struct = elements.get(name)
        if isinstance(given, list) and struct is not None:
            return [_filled(struct, one) for one in given]
        return given

    return kind(**{name: value(name, given) for name, given in fields.items()})


_A = ApiKey
_NO_ID = bytes(16)
_STRANGER = {"producer_id": 99_999, "producer_epoch": 0}
_TOPIC, _GROUP_CONFIGS, _BROKER, _LOGGER = 2, 32, 4, 8


def _batch() -> bytes:
    return build_batch([(1_700_000_000_000, None, b"v", ())])


def _transactional_batch() -> bytes:
    return build_batch(
        [(1_700_000_000_000, None, b"v", ())],
        producer_id=99_999,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )


def _produced(name: str, transactional_id: str | None = None) -> dict[str, Any]:
    records = _batch() if transactional_id is None else _transactional_batch()
    return {
        "transactional_id": transactional_id,
        "acks": -1,
        "timeout_ms": 5000,
        "topic_data": [{"name": name, "partition_data": [{"index": 0, "records": records}]}],
    }


def _fetched(name: str, topic_id: bytes, version: int, replica_id: int = -1) -> dict[str, Any]:
    return {
        "replica_id": replica_id,
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 1_000_000,
        "topics": [
            {
                **({"topic_id": topic_id} if version >= 13 else {"topic": name}),
                "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}],
            }
        ],
    }


def _metadata(names: list[str] | None, **more: Any) -> dict[str, Any]:
    topics = None if names is None else [{"name": name} for name in names]
    return {"topics": topics, "allow_auto_topic_creation": False, **more}


def _committed(group: str, topic: str, **more: Any) -> dict[str, Any]:
    return {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 1}]}],
        **more,
    }


def _resource(kind: int, name: str, **more: Any) -> dict[str, Any]:
    return {"resource_type": kind, "resource_name": name, **more}


_RETENTION = {"name": "retention.ms", "value": "1000000"}
_THREADS = {"name": "log.cleaner.threads", "value": "1"}
OF_TOPICS = (
    Asked(_A.PRODUCE, 9, lambda name, _: _produced(name)),
    Asked(_A.FETCH, 12, lambda name, id_: _fetched(name, id_, 12)),
    Asked(_A.FETCH, 13, lambda name, id_: _fetched(name, id_, 13)),
    Asked(
        _A.LIST_OFFSETS,
        7,
        lambda name, _: {"topics": [{"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]}]},
    ),
    # No topic can have such a name, so that none comes to be.
    Asked(
        _A.METADATA,
        1,
        lambda name, _: {"topics": [{"name": name if name in TOPICS else f"{name}!"}]},
        "creating",
    ),
    Asked(
        _A.METADATA,
        9,
        lambda name, _: _metadata([name], include_topic_authorized_operations=True),
    ),
    Asked(
        _A.METADATA,
        12,
        lambda _, id_: {
            "topics": [{"topic_id": id_, "name": None}],
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": True,
        },
        "by id",
    ),
    Asked(
        _A.OFFSET_FOR_LEADER_EPOCH,
        4,
        lambda name, _: {
            "replica_id": -2,
            "topics": [
                {
                    "topic": name,
                    "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}],
                }
            ],
        },
    ),
    Asked(
        _A.DELETE_RECORDS,
        2,
        lambda name, _: {
            "topics": [{"name": name, "partitions": [{"partition_index": 0, "offset": 0}]}],
            "timeout_ms": 5000,
        },
    ),
    Asked(
        _A.DESCRIBE_CONFIGS,
        4,
        lambda name, _: {"resources": [_resource(_TOPIC, name, configuration_keys=[])]},
    ),
    Asked(
        _A.ALTER_CONFIGS,
        2,
        lambda name, _: {"resources": [_resource(_TOPIC, name, configs=[_RETENTION])], "validate_only": True},
    ),
    Asked(
        _A.INCREMENTAL_ALTER_CONFIGS,
        1,
        lambda name, _: {"resources": [_resource(_TOPIC, name, configs=[_RETENTION])], "validate_only": True},
    ),
    Asked(
        _A.CREATE_TOPICS,
        7,
        lambda name, _: {
            "topics": [{"name": name, "num_partitions": 1, "replication_factor": 1}],
            "timeout_ms": 5000,
            "validate_only": True,
        },
    ),
    Asked(
        _A.CREATE_PARTITIONS,
        3,
        lambda name, _: {
            "topics": [{"name": name, "count": 5, "assignments": None}],
            "timeout_ms": 5000,
            "validate_only": True,
        },
    ),
    Asked(_A.DESCRIBE_PRODUCERS, 0, lambda name, _: {"topics": [{"name": name, "partition_indexes": [0]}]}),
    Asked(_A.OFFSET_COMMIT, 8, lambda name, _: _committed("any-g", name)),
    Asked(
        _A.OFFSET_FETCH,
        5,
        lambda name, _: {"group_id": "any-g", "topics": [{"name": name, "partition_indexes": [0]}]},
    ),
    Asked(
        _A.OFFSET_FETCH,
        8,
        lambda name, _: {
            "groups": [{"group_id": "any-g", "topics": [{"name": name, "partition_indexes": [0]}]}]
        },
    ),
    Asked(
        _A.OFFSET_DELETE,
        0,
        lambda name, _: {
            "group_id": "any-g",
            "topics": [{"name": name, "partitions": [{"partition_index": 7}]}],
        },
    ),
    Asked(
        _A.ADD_PARTITIONS_TO_TXN,
        3,
        lambda name, _: {
            "v3_and_below_transactional_id": "any-x",
            "v3_and_below_producer_id": 99_999,
            "v3_and_below_producer_epoch": 0,
            "v3_and_below_topics": [{"name": name, "partitions": [0]}],
        },
    ),
    Asked(
        _A.TXN_OFFSET_COMMIT,
        3,
        lambda name, _: {"transactional_id": "any-x", **_committed("any-g", name, **_STRANGER)},
    ),
)
"""About one topic."""
DELETIONS = (
    Asked(_A.DELETE_TOPICS, 5, lambda name, _: {"topic_names": [name], "timeout_ms": 5000}),
    Asked(
        _A.DELETE_TOPICS,
        6,
        lambda _, id_: {"topics": [{"name": None, "topic_id": id_}], "timeout_ms": 5000},
        "by id",
    ),
)
"""About one topic, which would be gone: asked by those who may not, and of topics that are not there."""
OF_GROUPS = (
    Asked(
        _A.JOIN_GROUP,
        5,
        lambda name, _: {
            "group_id": name,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "member_id": "",
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        },
    ),
    Asked(
        _A.SYNC_GROUP,
        3,
        lambda name, _: {
            "group_id": name,
            "generation_id": 1,
            "member_id": "m",
            "group_instance_id": None,
            "assignments": [],
        },
    ),
    Asked(
        _A.HEARTBEAT,
        3,
        lambda name, _: {"group_id": name, "generation_id": 1, "member_id": "m", "group_instance_id": None},
    ),
    Asked(_A.LEAVE_GROUP, 2, lambda name, _: {"group_id": name, "member_id": "m"}),
    Asked(_A.OFFSET_COMMIT, 8, lambda name, _: _committed(name, "public")),
    Asked(
        _A.OFFSET_FETCH,
        5,
        lambda name, _: {"group_id": name, "topics": [{"name": "public", "partition_indexes": [0]}]},
    ),
    Asked(_A.OFFSET_FETCH, 7, lambda name, _: {"group_id": name, "topics": None}, "all"),
    Asked(_A.OFFSET_FETCH, 8, lambda name, _: {"groups": [{"group_id": name, "topics": None}]}, "all"),
    Asked(
        _A.OFFSET_DELETE,
        0,
        lambda name, _: {
            "group_id": name,
            "topics": [{"name": "public", "partitions": [{"partition_index": 7}]}],
        },
    ),
    Asked(_A.DESCRIBE_GROUPS, 5, lambda name, _: {"groups": [name], "include_authorized_operations": True}),
    Asked(_A.DELETE_GROUPS, 2, lambda name, _: {"groups_names": [f"{name}-gone"]}),
    Asked(_A.FIND_COORDINATOR, 3, lambda name, _: {"key": name, "key_type": 0}),
    Asked(_A.FIND_COORDINATOR, 4, lambda name, _: {"coordinator_keys": [name], "key_type": 0}),
    Asked(
        _A.ADD_OFFSETS_TO_TXN,
        3,
        lambda name, _: {"transactional_id": "any-x", "group_id": name, **_STRANGER},
    ),
    Asked(
        _A.TXN_OFFSET_COMMIT,
        3,
        lambda name, _: {"transactional_id": "any-x", **_committed(name, "public", **_STRANGER)},
    ),
)
"""About one group."""
OF_IDS = (
    Asked(_A.PRODUCE, 9, lambda name, _: _produced("public", name)),
    Asked(
        _A.INIT_PRODUCER_ID, 4, lambda name, _: {"transactional_id": name, "transaction_timeout_ms": 10_000}
    ),
    Asked(_A.FIND_COORDINATOR, 3, lambda name, _: {"key": name, "key_type": 1}),
    Asked(_A.FIND_COORDINATOR, 4, lambda name, _: {"coordinator_keys": [name], "key_type": 1}),
    Asked(
        _A.ADD_PARTITIONS_TO_TXN,
        3,
        lambda name, _: {
            "v3_and_below_transactional_id": name,
            "v3_and_below_producer_id": 99_999,
            "v3_and_below_producer_epoch": 0,
            "v3_and_below_topics": [{"name": "public", "partitions": [0]}],
        },
    ),
    Asked(
        _A.ADD_OFFSETS_TO_TXN,
        3,
        lambda name, _: {"transactional_id": name, "group_id": "any-g", **_STRANGER},
    ),
    Asked(_A.END_TXN, 3, lambda name, _: {"transactional_id": name, "committed": True, **_STRANGER}),
    Asked(
        _A.TXN_OFFSET_COMMIT,
        3,
        lambda name, _: {"transactional_id": name, **_committed("any-g", "public", **_STRANGER)},
    ),
    Asked(_A.DESCRIBE_TRANSACTIONS, 0, lambda name, _: {"transactional_ids": [name]}),
)
"""About one transactional id."""
_ANY_ACL = {"resource_type_filter": 2, "resource_name_filter": "none", "pattern_type_filter": 3}
_ANY_ENTRY = {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
OF_THE_CLUSTER = (
    Asked(_A.METADATA, 9, lambda *_: _metadata(None, include_topic_authorized_operations=True), "all topics"),
    Asked(_A.METADATA, 9, lambda *_: _metadata([], include_cluster_authorized_operations=True), "cluster"),
    Asked(_A.DESCRIBE_CLUSTER, 0, lambda *_: {"include_cluster_authorized_operations": True}),
    Asked(_A.LIST_GROUPS, 4, lambda *_: {"states_filter": []}),
    Asked(_A.LIST_TRANSACTIONS, 0, lambda *_: {"state_filters": [], "producer_id_filters": []}),
    Asked(_A.INIT_PRODUCER_ID, 4, lambda *_: {"transactional_id": None, "transaction_timeout_ms": 10_000}),
    Asked(_A.DESCRIBE_ACLS, 3, lambda *_: {**_ANY_ACL, **_ANY_ENTRY}),
    Asked(
        _A.CREATE_ACLS,
        3,
        lambda *_: {
            "creations": [
                {
                    "resource_type": 2,
                    "resource_name": "",
                    "principal": "User:x",
                    "host": "*",
                    "operation": 3,
                    "permission_type": 3,
                }
            ]
        },
    ),
    Asked(_A.DELETE_ACLS, 3, lambda *_: {"filters": [{**_ANY_ACL, **_ANY_ENTRY}]}),
    Asked(
        _A.DESCRIBE_CONFIGS,
        4,
        lambda *_: {"resources": [_resource(_BROKER, "1", configuration_keys=["log.cleaner.threads"])]},
        "broker",
    ),
    Asked(
        _A.ALTER_CONFIGS,
        2,
        lambda *_: {"resources": [_resource(_BROKER, "1", configs=[_THREADS])], "validate_only": True},
        "broker",
    ),
    Asked(
        _A.INCREMENTAL_ALTER_CONFIGS,
        1,
        lambda *_: {"resources": [_resource(_BROKER, "1", configs=[_THREADS])], "validate_only": True},
        "broker",
    ),
    Asked(
        _A.ALTER_REPLICA_LOG_DIRS,
        2,
        lambda *_: {"dirs": [{"path": "/none", "topics": [{"name": "lit", "partitions": [0]}]}]},
    ),
    Asked(_A.DESCRIBE_LOG_DIRS, 4, lambda *_: {"topics": [{"topic": "none", "partitions": [0]}]}),
    Asked(
        _A.ELECT_LEADERS,
        2,
        lambda *_: {
            "election_type": 0,
            "topic_partitions": [{"topic": "lit", "partitions": [0]}],
            "timeout_ms": 5000,
        },
    ),
    Asked(
        _A.ALTER_PARTITION_REASSIGNMENTS,
        0,
        lambda *_: {
            "timeout_ms": 5000,
            "topics": [{"name": "lit", "partitions": [{"partition_index": 0, "replicas": None}]}],
        },
    ),
    Asked(_A.LIST_PARTITION_REASSIGNMENTS, 0, lambda *_: {"timeout_ms": 5000, "topics": None}),
    Asked(_A.DESCRIBE_CLIENT_QUOTAS, 1, lambda *_: {"components": [], "strict": False}),
    Asked(
        _A.ALTER_CLIENT_QUOTAS,
        1,
        lambda *_: {
            "entries": [
                {
                    "entity": [{"entity_type": "user", "entity_name": "x"}],
                    "ops": [{"key": "producer_byte_rate", "value": 1000.0, "remove": False}],
                }
            ],
            "validate_only": True,
        },
    ),
    Asked(_A.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, lambda *_: {"users": [{"name": "none"}]}),
    Asked(
        _A.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        lambda *_: {"deletions": [{"name": "none", "mechanism": 1}], "upsertions": []},
    ),
    Asked(_A.WRITE_TXN_MARKERS, 1, lambda *_: {"markers": []}),
    Asked(_A.FETCH, 12, lambda name, id_: _fetched("other", id_, 12, replica_id=77), "follower"),
    Asked(
        _A.CREATE_TOPICS,
        7,
        lambda *_: {
            "topics": [{"name": "brand-new", "num_partitions": 1, "replication_factor": 1}],
            "timeout_ms": 5000,
            "validate_only": True,
        },
    ),
    Asked(_A.METADATA, 1, lambda *_: {"topics": [{"name": "any!new"}]}, "creating"),
)
"""About the cluster, or about everything."""
OF_CONTROLLERS = (
    Asked(_A.LEADER_AND_ISR, 4, lambda *_: {"controller_id": 7, "broker_epoch": 0}),
    Asked(_A.STOP_REPLICA, 3, lambda *_: {"controller_id": 7, "broker_epoch": 0}),
    Asked(_A.UPDATE_METADATA, 6, lambda *_: {"controller_id": 7, "broker_epoch": 0}),
    Asked(_A.CONTROLLED_SHUTDOWN, 3, lambda *_: {"broker_id": 7, "broker_epoch": 0}),
    Asked(_A.ALTER_PARTITION, 1, lambda *_: {"broker_id": 7, "broker_epoch": 0, "topics": []}),
)
"""What brokers ask of each other: asked by those who may not."""
OF_KRAFT = (
    Asked(
        _A.DESCRIBE_QUORUM,
        1,
        lambda *_: {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]},
    ),
    Asked(
        _A.UPDATE_FEATURES, 1, lambda *_: {"timeout_ms": 5000, "feature_updates": [], "validate_only": True}
    ),
    Asked(_A.LIST_CONFIG_RESOURCES, 0, lambda *_: {}),
    Asked(
        _A.CONSUMER_GROUP_DESCRIBE,
        0,
        lambda *_: {"group_ids": ["lit-g", "pre-g"], "include_authorized_operations": True},
    ),
    Asked(
        _A.DESCRIBE_TOPIC_PARTITIONS,
        0,
        lambda *_: {
            "topics": [{"name": name} for name in ("lit", "missing", "other", "pre-1", "pre-missing")],
            "response_partition_limit": 100,
            "cursor": None,
        },
    ),
    Asked(
        _A.DESCRIBE_TOPIC_PARTITIONS,
        0,
        lambda *_: {"topics": [], "response_partition_limit": 100, "cursor": None},
        "all",
    ),
)
"""What only a Kafka with KRaft can be asked."""


class Case(NamedTuple):
    """Who asks what about which resource, from where."""

    user: str
    host: str
    asked: Asked
    resource: str

    @property
    def label(self) -> str:
        """The key of the golden data."""
        where = "" if self.host == HOME else f" from {self.host}"
        return f"{self.user}{where}: {self.asked.label} {self.resource}".rstrip()


def cases() -> Iterator[Case]:
    """All of them, in the order in which they are asked."""
    for user in (NOBODY, *TOPIC_USERS, "all-but", "producer", "consumer", ADMIN):
        for asked in OF_TOPICS:
            for resource in ("lit", "pre-1", "other"):
                yield Case(user, HOME, asked, resource)
        for asked in (one for one in OF_TOPICS if one.api in _ALSO_OF_MISSING):
            for resource in ("pre-missing", "missing"):
                yield Case(user, HOME, asked, resource)
        for asked in DELETIONS:
            for resource in ("lit", "pre-1", "other"):
                if user not in ("t-delete", "all-but", ADMIN):
                    yield Case(user, HOME, asked, resource)
            yield Case(user, HOME, asked, "missing")
    for user in (NOBODY, *GROUP_USERS, "all-but", "consumer"):
        for asked in OF_GROUPS:
            for resource in ("lit-g", "pre-g", "other-g"):
                yield Case(user, HOME, asked, resource)
    for user in (NOBODY, *IDS_USERS, "all-but", "producer"):
        for asked in OF_IDS:
            for resource in ("lit-x", "pre-x", "other-x"):
                yield Case(user, HOME, asked, resource)
    for user in (
        NOBODY,
        *CLUSTER_USERS,
        "t-write",
        "t-read",
        "t-create",
        "g-describe",
        "x-describe",
        "all",
        "all-but",
    ):
        for asked in OF_THE_CLUSTER:
            yield Case(user, HOME, asked, "")
    for user in (NOBODY, "c-alter", "c-create", "t-read"):
        for asked in OF_CONTROLLERS:
            yield Case(user, HOME, asked, "")
    for host in (HOME, AWAY):
        for asked in OF_TOPICS[:6]:
            for resource in ("lit", "pre-1"):
                yield Case("hosted", host, asked, resource)
        for asked in (*OF_GROUPS[:1], *OF_GROUPS[9:12]):
            yield Case("hosted", host, asked, "pre-g")
        for asked in OF_THE_CLUSTER[:4]:
            yield Case("hosted", host, asked, "")


def cases_of_kraft() -> Iterator[Case]:
    """What a Kafka with KRaft is asked: no requests of a controller, and some that it alone knows."""
    for case in cases():
        if case.asked not in OF_CONTROLLERS:
            yield case
    for user in (NOBODY, *TOPIC_USERS, *GROUP_USERS, *CLUSTER_USERS, "all", "all-but"):
        for asked in OF_KRAFT:
            yield Case(user, HOME, asked, "")


_ALSO_OF_MISSING = (
    _A.PRODUCE,
    _A.FETCH,
    _A.LIST_OFFSETS,
    _A.METADATA,
    _A.DESCRIBE_CONFIGS,
    _A.CREATE_TOPICS,
    _A.CREATE_PARTITIONS,
    _A.DELETE_RECORDS,
)
