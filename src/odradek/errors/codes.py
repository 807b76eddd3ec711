"""Kafka's error codes, with what a client may do about each.

Numbers, names and the two flags are the protocol's (protocol guide, "Error Codes"); the sentences are ours.
"""

from __future__ import annotations

import enum
from typing import Final

_FINAL: Final = 0
_RETRY: Final = 1
_REFRESH: Final = 2


class ErrorCode(enum.IntEnum):
    """An error code as it stands in responses.

    `message` is a sentence for people, `retriable` tells that the same request may succeed later, and
    `refreshes_metadata` that the client should first ask for the cluster's metadata again.
    """

    message: str
    retriable: bool
    refreshes_metadata: bool

    def __new__(cls, code: int, message: str = "", remedy: int = _FINAL) -> ErrorCode:
        """Make the member `code`; `remedy` is one of the three constants above."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.message = message
        member.retriable = remedy != _FINAL
        member.refreshes_metadata = remedy == _REFRESH
        return member

    UNKNOWN_SERVER_ERROR = -1, "The broker ran into a failure that it did not foresee."
    NONE = 0, "No error."
    OFFSET_OUT_OF_RANGE = 1, "The offset lies outside the partition's log."
    CORRUPT_MESSAGE = (
        2,
        "The record data is damaged: bad checksum, size or structure, or no key for a compacted topic.",
        _RETRY,
    )
    UNKNOWN_TOPIC_OR_PARTITION = 3, "This broker has no such topic or partition.", _REFRESH
    INVALID_FETCH_SIZE = 4, "The fetch size asked for is not acceptable."
    LEADER_NOT_AVAILABLE = 5, "The partition has no leader at the moment; an election is under way.", _REFRESH
    NOT_LEADER_OR_FOLLOWER = (
        6,
        "This broker neither leads the partition nor, where a follower would do, follows it.",
        _REFRESH,
    )
    REQUEST_TIMED_OUT = 7, "The time allowed for the request ran out.", _RETRY
    BROKER_NOT_AVAILABLE = 8, "The broker cannot be reached."
    REPLICA_NOT_AVAILABLE = 9, "This broker's replica of the partition is not available.", _REFRESH
    MESSAGE_TOO_LARGE = 10, "A record batch is larger than the topic accepts."
    STALE_CONTROLLER_EPOCH = 11, "The request comes from a controller that has been replaced."
    OFFSET_METADATA_TOO_LARGE = 12, "The metadata string of an offset commit is too long."
    NETWORK_EXCEPTION = 13, "The connection broke before the answer came.", _REFRESH
    COORDINATOR_LOAD_IN_PROGRESS = 14, "The coordinator is still loading its state.", _RETRY
    COORDINATOR_NOT_AVAILABLE = 15, "No coordinator is available for this group or transaction.", _RETRY
    NOT_COORDINATOR = 16, "This broker does not coordinate this group or transaction.", _RETRY
    INVALID_TOPIC_EXCEPTION = 17, "The topic's name is illegal, or the topic may not be used this way."
    RECORD_LIST_TOO_LARGE = 18, "The record batches of one partition are larger than a log segment."
    NOT_ENOUGH_REPLICAS = (
        19,
        "Fewer replicas are in sync than min.insync.replicas asks for; nothing was written.",
        _RETRY,
    )
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        "The records were written, but then fewer replicas were in sync than min.insync.replicas asks for.",
        _RETRY,
    )
    INVALID_REQUIRED_ACKS = 21, "acks must be 0, 1 or -1."
    ILLEGAL_GENERATION = 22, "The group has moved on to another generation."
    INCONSISTENT_GROUP_PROTOCOL = (
        23,
        "The member shares no protocol with the rest of the group, or offered none.",
    )
    INVALID_GROUP_ID = 24, "The group id is empty or otherwise unusable."
    UNKNOWN_MEMBER_ID = 25, "The group has no member of this id."
    INVALID_SESSION_TIMEOUT = 26, "The session timeout is outside the limits that the broker sets for groups."
    REBALANCE_IN_PROGRESS = 27, "The group is rebalancing; the member has to join again."
    INVALID_COMMIT_OFFSET_SIZE = 28, "An offset commit is larger than the broker can store."
    TOPIC_AUTHORIZATION_FAILED = 29, "The principal may not do this with the topic."
    GROUP_AUTHORIZATION_FAILED = 30, "The principal may not do this with the group."
    CLUSTER_AUTHORIZATION_FAILED = 31, "The principal may not do this with the cluster."
    INVALID_TIMESTAMP = 32, "A record's timestamp is outside what the topic accepts."
    UNSUPPORTED_SASL_MECHANISM = 33, "The broker does not offer this SASL mechanism."
    ILLEGAL_SASL_STATE = 34, "The request does not belong into this step of SASL authentication."
    UNSUPPORTED_VERSION = 35, "The broker does not know this version of the request."
    TOPIC_ALREADY_EXISTS = 36, "A topic of this name exists already."
    INVALID_PARTITIONS = 37, "The number of partitions is not acceptable."
    INVALID_REPLICATION_FACTOR = 38, "The replication factor is below 1 or above the number of brokers."
    INVALID_REPLICA_ASSIGNMENT = 39, "The assignment of replicas is not acceptable."
    INVALID_CONFIG = 40, "A configuration is not acceptable."
    NOT_CONTROLLER = 41, "This broker is not the controller.", _RETRY
    INVALID_REQUEST = 42, "The request contradicts itself or cannot be made sense of."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "The log's message format is too old for this request."
    POLICY_VIOLATION = 44, "A policy of the broker forbids this."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "The producer's sequence numbers leave a gap."
    DUPLICATE_SEQUENCE_NUMBER = (
        46,
        "The producer's sequence number has been seen before, too long ago to answer from memory.",
    )
    INVALID_PRODUCER_EPOCH = 47, "A newer producer of this id has taken over: the epoch is outdated."
    INVALID_TXN_STATE = 48, "The transaction is not in a state that allows this."
    INVALID_PRODUCER_ID_MAPPING = 49, "The producer id is not the one that belongs to this transactional id."
    INVALID_TRANSACTION_TIMEOUT = (
        50,
        "The transaction timeout is above the broker's transaction.max.timeout.ms.",
    )
    CONCURRENT_TRANSACTIONS = 51, "The previous step of this transaction is still under way.", _RETRY
    TRANSACTION_COORDINATOR_FENCED = (
        52,
        "The transaction coordinator that sent these markers has been replaced.",
    )
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "The principal may not use this transactional id."
    SECURITY_DISABLED = 54, "Security is switched off on this broker."
    OPERATION_NOT_ATTEMPTED = 55, "This part of the request was not tried, because another part failed."
    KAFKA_STORAGE_ERROR = 56, "The broker's disk failed while it worked on the log.", _REFRESH
    LOG_DIR_NOT_FOUND = 57, "The broker has no such log directory."
    SASL_AUTHENTICATION_FAILED = 58, "SASL authentication failed."
    UNKNOWN_PRODUCER_ID = 59, "The broker no longer knows the producer: its records have all expired."
    REASSIGNMENT_IN_PROGRESS = 60, "The partition is being reassigned."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "Delegation tokens are switched off on this broker."
    DELEGATION_TOKEN_NOT_FOUND = 62, "There is no such delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "Only an owner or a renewer of the token may do this."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (
        64,
        "Delegation tokens cannot be asked for over this kind of connection.",
    )
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "The principal may not do this with delegation tokens."
    DELEGATION_TOKEN_EXPIRED = 66, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, "The broker does not know this type of principal."
    NON_EMPTY_GROUP = 68, "The group still has members."
    GROUP_ID_NOT_FOUND = 69, "There is no group of this id."
    FETCH_SESSION_ID_NOT_FOUND = 70, "The broker does not hold a fetch session of this id.", _RETRY
    INVALID_FETCH_SESSION_EPOCH = 71, "The fetch session is at another epoch.", _RETRY
    LISTENER_NOT_FOUND = (
        72,
        "The partition's leader has no listener of the name that the request came in on.",
        _REFRESH,
    )
    TOPIC_DELETION_DISABLED = 73, "The broker is configured not to delete topics."
    FENCED_LEADER_EPOCH = 74, "The leader epoch of the request is older than the partition's.", _REFRESH
    UNKNOWN_LEADER_EPOCH = 75, "The leader epoch of the request is newer than this broker knows of.", _RETRY
    UNSUPPORTED_COMPRESSION_TYPE = (
        76,
        "The partition's data is compressed with a codec that this request version cannot carry.",
    )
    STALE_BROKER_EPOCH = 77, "The broker has registered anew since: the broker epoch is outdated."
    OFFSET_NOT_AVAILABLE = (
        78,
        "After an election the leader does not know yet how far the log is committed.",
        _RETRY,
    )
    MEMBER_ID_REQUIRED = 79, "The member has to join again under the id that it was just given."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "The preferred leader is not available.", _REFRESH
    GROUP_MAX_SIZE_REACHED = 81, "The group is full."
    FENCED_INSTANCE_ID = 82, "Another consumer has registered with this group.instance.id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "None of the replicas that may lead is available.", _REFRESH
    ELECTION_NOT_NEEDED = 84, "The partition's leader is already the right one.", _REFRESH
    NO_REASSIGNMENT_IN_PROGRESS = 85, "The partition is not being reassigned."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, "The group is subscribed to the topic, so its offsets cannot be deleted."
    INVALID_RECORD = 87, "The broker refused a record."
    UNSTABLE_OFFSET_COMMIT = 88, "Offsets of a transaction that has not ended yet are in the way.", _RETRY
    THROTTLING_QUOTA_EXCEEDED = 89, "A quota is used up for now.", _RETRY
    PRODUCER_FENCED = 90, "Another producer with this transactional id has taken over."
    RESOURCE_NOT_FOUND = 91, "What the request refers to does not exist."
    DUPLICATE_RESOURCE = 92, "The request names the same thing twice."
    UNACCEPTABLE_CREDENTIAL = 93, "The credential does not meet the requirements."
    INCONSISTENT_VOTER_SET = 94, "Sender or receiver is not one of the expected voters."
    INVALID_UPDATE_VERSION = 95, "The version is not one that can be updated to."
    FEATURE_UPDATE_FAILED = 96, "The features could not be updated."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "A forwarded request carries a principal that cannot be read."
    SNAPSHOT_NOT_FOUND = 98, "There is no such snapshot."
    POSITION_OUT_OF_RANGE = 99, "The position lies outside the snapshot."
    UNKNOWN_TOPIC_ID = 100, "This broker has no topic of this id.", _REFRESH
    DUPLICATE_BROKER_REGISTRATION = 101, "Another broker uses this id."
    BROKER_ID_NOT_REGISTERED = 102, "No broker of this id is registered."
    INCONSISTENT_TOPIC_ID = 103, "The topic's id is another one than the request says.", _REFRESH
    INCONSISTENT_CLUSTER_ID = 104, "The cluster's id is another one than the request says."
    TRANSACTIONAL_ID_NOT_FOUND = 105, "There is no such transactional id."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, "The fetch session mixes topic names and topic ids.", _RETRY
    INELIGIBLE_REPLICA = 107, "A replica that may not be in sync stands in the new ISR."
    NEW_LEADER_ELECTED = 108, "The ISR was changed, and another leader was elected meanwhile."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "The offset has moved to tiered storage."
    FENCED_MEMBER_EPOCH = 110, "The member's epoch is fenced: it must drop its partitions and join again."
    UNRELEASED_INSTANCE_ID = 111, "Another member still holds this instance id; it has to leave first."
    UNSUPPORTED_ASSIGNOR = 112, "The group's coordinator does not know this assignor, or not in this version."
    STALE_MEMBER_EPOCH = 113, "The member's epoch is outdated; the next heartbeat tells the current one."
    MISMATCHED_ENDPOINT_TYPE = 114, "The request belongs on another kind of endpoint."
    UNSUPPORTED_ENDPOINT_TYPE = 115, "This kind of endpoint is not supported."
    UNKNOWN_CONTROLLER_ID = 116, "There is no controller of this id."
    UNKNOWN_SUBSCRIPTION_ID = 117, "The telemetry subscription is unknown or outdated."
    TELEMETRY_TOO_LARGE = 118, "The telemetry is larger than the broker accepts."
    INVALID_REGISTRATION = 119, "The controller refuses this registration."
    TRANSACTION_ABORTABLE = 120, "The transaction failed, but can be aborted and the producer used on."
    INVALID_RECORD_STATE = 121, "The record is not in a state in which it can be acknowledged."
    SHARE_SESSION_NOT_FOUND = 122, "The broker does not hold this share session.", _RETRY
    INVALID_SHARE_SESSION_EPOCH = 123, "The share session is at another epoch.", _RETRY
    FENCED_STATE_EPOCH = 124, "The share state is at another epoch."
    INVALID_VOTER_KEY = 125, "The voter's key is not that of this replica."
    DUPLICATE_VOTER = 126, "The voter is in the set already."
    VOTER_NOT_FOUND = 127, "The voter is not in the set."
    INVALID_REGULAR_EXPRESSION = 128, "The regular expression cannot be parsed."
    REBOOTSTRAP_REQUIRED = (
        129,
        "The client's metadata is outdated; it has to begin again from its bootstrap servers.",
    )
    STREAMS_INVALID_TOPOLOGY = 130, "The streams topology is not acceptable."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "The epoch of the streams topology is not acceptable."
    STREAMS_TOPOLOGY_FENCED = 132, "The epoch of the streams topology is outdated."
    SHARE_SESSION_LIMIT_REACHED = 133, "The broker holds as many share sessions as it may.", _RETRY
    GROUP_DELETION_FAILED = 134, "The group could not be deleted in full; its own message says why."
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = (
        135,
        "The description of the topology could not be stored; the message says why.",
    )
    CONTROLLER_ID_NOT_REGISTERED = 136, "No controller of this id is registered."


def error_name(code: int) -> str:
    """The name of an error code, or its number where it has none."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def to_code(number: int) -> ErrorCode:
    """Return the code that a peer's number stands for; UNKNOWN_SERVER_ERROR for one of a later release."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
