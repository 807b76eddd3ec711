"""The permissions that each API asks the authorizer for: Kafka's `KafkaApis`, as one table.

Handlers ask by themselves, where they know the names;
`tests/broker/authorizer/test_acl_matrix.py` holds what they ask
against this table, and docs/security.md shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from odradek.util.acl import AclOperation, ResourceType
from odradek.wire.api import ApiKey


class Requirement(NamedTuple):
    """One question.

    Attributes:
        operation: what.
        resource_type: to what; the resource is the one that the request names.
        when: in which case; empty for always.
        hides: whether what may not be done is left out of the answer, instead of being an error.
    """

    operation: AclOperation
    resource_type: ResourceType
    when: str = ""
    hides: bool = False


_O, _T, _K = AclOperation, ResourceType, ApiKey
_R = Requirement

_AUTHORIZED = "for the authorized operations"
_CONFIGS_OF = {
    _T.TOPIC: "configs of topics",
    _T.CLUSTER: "configs of brokers and of their loggers",
}
_CLUSTER_ACTION = (_R(_O.CLUSTER_ACTION, _T.CLUSTER),)
_ALTER_CLUSTER = (_R(_O.ALTER, _T.CLUSTER),)
_DESCRIBE_CLUSTER = (_R(_O.DESCRIBE, _T.CLUSTER),)
_READ_GROUP = (_R(_O.READ, _T.GROUP),)
_ALTER_CONFIGS = tuple(_R(_O.ALTER_CONFIGS, kind, when) for kind, when in _CONFIGS_OF.items())

REQUIREMENTS: Mapping[ApiKey, tuple[Requirement, ...]] = {
    _K.PRODUCE: (
        _R(_O.WRITE, _T.TOPIC),
        _R(_O.WRITE, _T.TRANSACTIONAL_ID, "transactional batches"),
    ),
    _K.FETCH: (
        _R(_O.READ, _T.TOPIC, "consumers"),
        _R(_O.CLUSTER_ACTION, _T.CLUSTER, "followers"),
    ),
    _K.LIST_OFFSETS: (_R(_O.DESCRIBE, _T.TOPIC),),
    _K.METADATA: (
        _R(_O.DESCRIBE, _T.TOPIC, "topics by name or id"),
        _R(_O.DESCRIBE, _T.TOPIC, "all topics", hides=True),
        _R(_O.CREATE, _T.CLUSTER, "topics to be created, all of them"),
        _R(_O.CREATE, _T.TOPIC, "topics to be created, each"),
        _R(_O.DESCRIBE, _T.CLUSTER, _AUTHORIZED + ", 8-10", hides=True),
    ),
    _K.LEADER_AND_ISR: _CLUSTER_ACTION,
    _K.STOP_REPLICA: _CLUSTER_ACTION,
    _K.UPDATE_METADATA: _CLUSTER_ACTION,
    _K.CONTROLLED_SHUTDOWN: _CLUSTER_ACTION,
    _K.OFFSET_COMMIT: (*_READ_GROUP, _R(_O.READ, _T.TOPIC)),
    _K.OFFSET_FETCH: (
        _R(_O.DESCRIBE, _T.GROUP),
        _R(_O.DESCRIBE, _T.TOPIC, "topics by name"),
        _R(_O.DESCRIBE, _T.TOPIC, "all topics", hides=True),
    ),
    _K.FIND_COORDINATOR: (
        _R(_O.DESCRIBE, _T.GROUP, "of groups"),
        _R(_O.DESCRIBE, _T.TRANSACTIONAL_ID, "of transactions"),
    ),
    _K.JOIN_GROUP: _READ_GROUP,
    _K.HEARTBEAT: _READ_GROUP,
    _K.LEAVE_GROUP: _READ_GROUP,
    _K.SYNC_GROUP: _READ_GROUP,
    _K.DESCRIBE_GROUPS: (_R(_O.DESCRIBE, _T.GROUP),),
    _K.LIST_GROUPS: (
        _R(_O.DESCRIBE, _T.CLUSTER, "all groups"),
        _R(_O.DESCRIBE, _T.GROUP, "else each", hides=True),
    ),
    # Before and during a login there is no principal to ask for.
    _K.SASL_HANDSHAKE: (),
    _K.API_VERSIONS: (),
    _K.CREATE_TOPICS: (
        _R(_O.CREATE, _T.CLUSTER, "all of them"),
        _R(_O.CREATE, _T.TOPIC, "else each"),
        _R(_O.DESCRIBE_CONFIGS, _T.TOPIC, "their configs in the answer", hides=True),
    ),
    _K.DELETE_TOPICS: (
        _R(_O.DELETE, _T.TOPIC),
        _R(_O.DESCRIBE, _T.TOPIC, "to be told the name of an id", hides=True),
    ),
    _K.DELETE_RECORDS: (_R(_O.DELETE, _T.TOPIC),),
    _K.INIT_PRODUCER_ID: (
        _R(_O.WRITE, _T.TRANSACTIONAL_ID, "with a transactional id"),
        _R(_O.TWO_PHASE_COMMIT, _T.TRANSACTIONAL_ID, "with two-phase commit"),
        _R(_O.IDEMPOTENT_WRITE, _T.CLUSTER, "without a transactional id"),
        _R(_O.WRITE, _T.TOPIC, "else of any topic at all"),
    ),
    _K.OFFSET_FOR_LEADER_EPOCH: (
        _R(_O.CLUSTER_ACTION, _T.CLUSTER, "of all topics"),
        _R(_O.DESCRIBE, _T.TOPIC, "else of each"),
    ),
    _K.ADD_PARTITIONS_TO_TXN: (
        _R(_O.WRITE, _T.TRANSACTIONAL_ID, "0-3"),
        _R(_O.WRITE, _T.TOPIC, "0-3"),
        _R(_O.CLUSTER_ACTION, _T.CLUSTER, "from 4"),
    ),
    _K.ADD_OFFSETS_TO_TXN: (_R(_O.WRITE, _T.TRANSACTIONAL_ID), *_READ_GROUP),
    _K.END_TXN: (_R(_O.WRITE, _T.TRANSACTIONAL_ID),),
    _K.WRITE_TXN_MARKERS: (*_ALTER_CLUSTER, _R(_O.CLUSTER_ACTION, _T.CLUSTER, "or this")),
    _K.TXN_OFFSET_COMMIT: (
        _R(_O.WRITE, _T.TRANSACTIONAL_ID),
        *_READ_GROUP,
        _R(_O.READ, _T.TOPIC),
    ),
    _K.DESCRIBE_ACLS: _DESCRIBE_CLUSTER,
    _K.CREATE_ACLS: _ALTER_CLUSTER,
    _K.DELETE_ACLS: _ALTER_CLUSTER,
    _K.DESCRIBE_CONFIGS: tuple(_R(_O.DESCRIBE_CONFIGS, kind, when) for kind, when in _CONFIGS_OF.items()),
    _K.ALTER_CONFIGS: _ALTER_CONFIGS,
    _K.ALTER_REPLICA_LOG_DIRS: _ALTER_CLUSTER,
    _K.DESCRIBE_LOG_DIRS: _DESCRIBE_CLUSTER,
    _K.SASL_AUTHENTICATE: (),
    _K.CREATE_PARTITIONS: (_R(_O.ALTER, _T.TOPIC),),
    _K.CREATE_DELEGATION_TOKEN: (_R(_O.CREATE_TOKENS, _T.USER, "for somebody else"),),
    # The owner and the renewers of a token may do it: the token says who they are, not ACLs (KIP-48).
    _K.RENEW_DELEGATION_TOKEN: (),
    _K.EXPIRE_DELEGATION_TOKEN: (),
    _K.DESCRIBE_DELEGATION_TOKEN: (
        _R(_O.DESCRIBE, _T.DELEGATION_TOKEN, "of others", hides=True),
        _R(_O.DESCRIBE_TOKENS, _T.USER, "of others", hides=True),
    ),
    _K.DELETE_GROUPS: (_R(_O.DELETE, _T.GROUP),),
    _K.ELECT_LEADERS: _ALTER_CLUSTER,
    _K.INCREMENTAL_ALTER_CONFIGS: _ALTER_CONFIGS,
    _K.ALTER_PARTITION_REASSIGNMENTS: _ALTER_CLUSTER,
    _K.LIST_PARTITION_REASSIGNMENTS: _DESCRIBE_CLUSTER,
    _K.OFFSET_DELETE: (_R(_O.DELETE, _T.GROUP), _R(_O.READ, _T.TOPIC)),
    _K.DESCRIBE_CLIENT_QUOTAS: (_R(_O.DESCRIBE_CONFIGS, _T.CLUSTER),),
    _K.ALTER_CLIENT_QUOTAS: (_R(_O.ALTER_CONFIGS, _T.CLUSTER),),
    _K.DESCRIBE_USER_SCRAM_CREDENTIALS: _DESCRIBE_CLUSTER,
    _K.ALTER_USER_SCRAM_CREDENTIALS: _ALTER_CLUSTER,
    _K.DESCRIBE_QUORUM: _DESCRIBE_CLUSTER,
    _K.ALTER_PARTITION: _CLUSTER_ACTION,
    _K.UPDATE_FEATURES: _ALTER_CLUSTER,
    _K.DESCRIBE_CLUSTER: (_R(_O.DESCRIBE, _T.CLUSTER, _AUTHORIZED, hides=True),),
    _K.DESCRIBE_PRODUCERS: (_R(_O.READ, _T.TOPIC),),
    _K.DESCRIBE_TRANSACTIONS: (
        _R(_O.DESCRIBE, _T.TRANSACTIONAL_ID),
        _R(_O.DESCRIBE, _T.TOPIC, "its topics", hides=True),
    ),
    _K.LIST_TRANSACTIONS: (_R(_O.DESCRIBE, _T.TRANSACTIONAL_ID, hides=True),),
    _K.CONSUMER_GROUP_DESCRIBE: (_R(_O.DESCRIBE, _T.GROUP),),
    _K.GET_TELEMETRY_SUBSCRIPTIONS: (),
    _K.PUSH_TELEMETRY: (),
    _K.LIST_CONFIG_RESOURCES: (_R(_O.DESCRIBE_CONFIGS, _T.CLUSTER),),
    _K.DESCRIBE_TOPIC_PARTITIONS: (
        _R(_O.DESCRIBE, _T.TOPIC, "topics by name"),
        _R(_O.DESCRIBE, _T.TOPIC, "all topics", hides=True),
    ),
}
"""What each API that is served asks for. Who asks which operations are authorized is not asked more."""
