"""One exception per error code, named after Kafka's own exception of that code.

(`RequestTimedOutError` is Kafka's TimeoutException: Python has a `TimeoutError` of its own.)
"""

from __future__ import annotations

from odradek.errors.base import KafkaError
from odradek.errors.codes import ErrorCode


class UnknownServerError(KafkaError, code=ErrorCode.UNKNOWN_SERVER_ERROR):
    """The broker ran into a failure that it did not foresee."""


class OffsetOutOfRangeError(KafkaError, code=ErrorCode.OFFSET_OUT_OF_RANGE):
    """The offset lies outside the partition's log."""


class CorruptRecordError(KafkaError, code=ErrorCode.CORRUPT_MESSAGE):
    """The record data is damaged: bad checksum, size or structure, or no key for a compacted topic."""


class UnknownTopicOrPartitionError(KafkaError, code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
    """This broker has no such topic or partition."""


class InvalidFetchSizeError(KafkaError, code=ErrorCode.INVALID_FETCH_SIZE):
    """The fetch size asked for is not acceptable."""


class LeaderNotAvailableError(KafkaError, code=ErrorCode.LEADER_NOT_AVAILABLE):
    """The partition has no leader at the moment; an election is under way."""


class NotLeaderOrFollowerError(KafkaError, code=ErrorCode.NOT_LEADER_OR_FOLLOWER):
    """This broker neither leads the partition nor, where a follower would do, follows it."""


class RequestTimedOutError(KafkaError, code=ErrorCode.REQUEST_TIMED_OUT):
    """The time allowed for the request ran out."""


class BrokerNotAvailableError(KafkaError, code=ErrorCode.BROKER_NOT_AVAILABLE):
    """The broker cannot be reached."""


class ReplicaNotAvailableError(KafkaError, code=ErrorCode.REPLICA_NOT_AVAILABLE):
    """This broker's replica of the partition is not available."""


class RecordTooLargeError(KafkaError, code=ErrorCode.MESSAGE_TOO_LARGE):
    """A record batch is larger than the topic accepts."""


class ControllerMovedError(KafkaError, code=ErrorCode.STALE_CONTROLLER_EPOCH):
    """The request comes from a controller that has been replaced."""


class OffsetMetadataTooLargeError(KafkaError, code=ErrorCode.OFFSET_METADATA_TOO_LARGE):
    """The metadata string of an offset commit is too long."""


class NetworkError(KafkaError, code=ErrorCode.NETWORK_EXCEPTION):
    """The connection broke before the answer came."""


class CoordinatorLoadInProgressError(KafkaError, code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
    """The coordinator is still loading its state."""


class CoordinatorNotAvailableError(KafkaError, code=ErrorCode.COORDINATOR_NOT_AVAILABLE):
    """No coordinator is available for this group or transaction."""


class NotCoordinatorError(KafkaError, code=ErrorCode.NOT_COORDINATOR):
    """This broker does not coordinate this group or transaction."""


class InvalidTopicError(KafkaError, code=ErrorCode.INVALID_TOPIC_EXCEPTION):
    """The topic's name is illegal, or the topic may not be used this way."""


class RecordBatchTooLargeError(KafkaError, code=ErrorCode.RECORD_LIST_TOO_LARGE):
    """The record batches of one partition are larger than a log segment."""


class NotEnoughReplicasError(KafkaError, code=ErrorCode.NOT_ENOUGH_REPLICAS):
    """Fewer replicas are in sync than min.insync.replicas asks for; nothing was written."""


class NotEnoughReplicasAfterAppendError(KafkaError, code=ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND):
    """The records were written, but then fewer replicas were in sync than min.insync.replicas asks for."""


class InvalidRequiredAcksError(KafkaError, code=ErrorCode.INVALID_REQUIRED_ACKS):
    """acks must be 0, 1 or -1."""


class IllegalGenerationError(KafkaError, code=ErrorCode.ILLEGAL_GENERATION):
    """The group has moved on to another generation."""


class InconsistentGroupProtocolError(KafkaError, code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL):
    """The member shares no protocol with the rest of the group, or offered none."""


class InvalidGroupIdError(KafkaError, code=ErrorCode.INVALID_GROUP_ID):
    """The group id is empty or otherwise unusable."""


class UnknownMemberIdError(KafkaError, code=ErrorCode.UNKNOWN_MEMBER_ID):
    """The group has no member of this id."""


class InvalidSessionTimeoutError(KafkaError, code=ErrorCode.INVALID_SESSION_TIMEOUT):
    """The session timeout is outside the limits that the broker sets for groups."""


class RebalanceInProgressError(KafkaError, code=ErrorCode.REBALANCE_IN_PROGRESS):
    """The group is rebalancing; the member has to join again."""


class InvalidCommitOffsetSizeError(KafkaError, code=ErrorCode.INVALID_COMMIT_OFFSET_SIZE):
    """An offset commit is larger than the broker can store."""


class TopicAuthorizationError(KafkaError, code=ErrorCode.TOPIC_AUTHORIZATION_FAILED):
    """The principal may not do this with the topic."""


class GroupAuthorizationError(KafkaError, code=ErrorCode.GROUP_AUTHORIZATION_FAILED):
    """The principal may not do this with the group."""


class ClusterAuthorizationError(KafkaError, code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
    """The principal may not do this with the cluster."""


class InvalidTimestampError(KafkaError, code=ErrorCode.INVALID_TIMESTAMP):
    """A record's timestamp is outside what the topic accepts."""


class UnsupportedSaslMechanismError(KafkaError, code=ErrorCode.UNSUPPORTED_SASL_MECHANISM):
    """The broker does not offer this SASL mechanism."""


class IllegalSaslStateError(KafkaError, code=ErrorCode.ILLEGAL_SASL_STATE):
    """The request does not belong into this step of SASL authentication."""


class UnsupportedVersionError(KafkaError, code=ErrorCode.UNSUPPORTED_VERSION):
    """The broker does not know this version of the request."""


class TopicExistsError(KafkaError, code=ErrorCode.TOPIC_ALREADY_EXISTS):
    """A topic of this name exists already."""


class InvalidPartitionsError(KafkaError, code=ErrorCode.INVALID_PARTITIONS):
    """The number of partitions is not acceptable."""


class InvalidReplicationFactorError(KafkaError, code=ErrorCode.INVALID_REPLICATION_FACTOR):
    """The replication factor is below 1 or above the number of brokers."""


class InvalidReplicaAssignmentError(KafkaError, code=ErrorCode.INVALID_REPLICA_ASSIGNMENT):
    """The assignment of replicas is not acceptable."""


class InvalidConfigurationError(KafkaError, code=ErrorCode.INVALID_CONFIG):
    """A configuration is not acceptable."""


class NotControllerError(KafkaError, code=ErrorCode.NOT_CONTROLLER):
    """This broker is not the controller."""


class InvalidRequestError(KafkaError, code=ErrorCode.INVALID_REQUEST):
    """The request contradicts itself or cannot be made sense of."""


class UnsupportedForMessageFormatError(KafkaError, code=ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT):
    """The log's message format is too old for this request."""


class PolicyViolationError(KafkaError, code=ErrorCode.POLICY_VIOLATION):
    """A policy of the broker forbids this."""


class OutOfOrderSequenceError(KafkaError, code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
    """The producer's sequence numbers leave a gap."""


class DuplicateSequenceError(KafkaError, code=ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
    """The producer's sequence number has been seen before, too long ago to answer from memory."""


class InvalidProducerEpochError(KafkaError, code=ErrorCode.INVALID_PRODUCER_EPOCH):
    """A newer producer of this id has taken over: the epoch is outdated."""


class InvalidTxnStateError(KafkaError, code=ErrorCode.INVALID_TXN_STATE):
    """The transaction is not in a state that allows this."""


class InvalidPidMappingError(KafkaError, code=ErrorCode.INVALID_PRODUCER_ID_MAPPING):
    """The producer id is not the one that belongs to this transactional id."""


class InvalidTxnTimeoutError(KafkaError, code=ErrorCode.INVALID_TRANSACTION_TIMEOUT):
    """The transaction timeout is above the broker's transaction.max.timeout.ms."""


class ConcurrentTransactionsError(KafkaError, code=ErrorCode.CONCURRENT_TRANSACTIONS):
    """The previous step of this transaction is still under way."""


class TransactionCoordinatorFencedError(KafkaError, code=ErrorCode.TRANSACTION_COORDINATOR_FENCED):
    """The transaction coordinator that sent these markers has been replaced."""


class TransactionalIdAuthorizationError(KafkaError, code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED):
    """The principal may not use this transactional id."""


class SecurityDisabledError(KafkaError, code=ErrorCode.SECURITY_DISABLED):
    """Security is switched off on this broker."""


class OperationNotAttemptedError(KafkaError, code=ErrorCode.OPERATION_NOT_ATTEMPTED):
    """This part of the request was not tried, because another part failed."""


class KafkaStorageError(KafkaError, code=ErrorCode.KAFKA_STORAGE_ERROR):
    """The broker's disk failed while it worked on the log."""


class LogDirNotFoundError(KafkaError, code=ErrorCode.LOG_DIR_NOT_FOUND):
    """The broker has no such log directory."""


class SaslAuthenticationError(KafkaError, code=ErrorCode.SASL_AUTHENTICATION_FAILED):
    """SASL authentication failed."""


class UnknownProducerIdError(KafkaError, code=ErrorCode.UNKNOWN_PRODUCER_ID):
    """The broker no longer knows the producer: its records have all expired."""


class ReassignmentInProgressError(KafkaError, code=ErrorCode.REASSIGNMENT_IN_PROGRESS):
    """The partition is being reassigned."""


class DelegationTokenDisabledError(KafkaError, code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED):
    """Delegation tokens are switched off on this broker."""


class DelegationTokenNotFoundError(KafkaError, code=ErrorCode.DELEGATION_TOKEN_NOT_FOUND):
    """There is no such delegation token."""


class DelegationTokenOwnerMismatchError(KafkaError, code=ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH):
    """Only an owner or a renewer of the token may do this."""


class UnsupportedByAuthenticationError(KafkaError, code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED):
    """Delegation tokens cannot be asked for over this kind of connection."""


class DelegationTokenAuthorizationError(KafkaError, code=ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED):
    """The principal may not do this with delegation tokens."""


class DelegationTokenExpiredError(KafkaError, code=ErrorCode.DELEGATION_TOKEN_EXPIRED):
    """The delegation token has expired."""


class InvalidPrincipalTypeError(KafkaError, code=ErrorCode.INVALID_PRINCIPAL_TYPE):
    """The broker does not know this type of principal."""


class GroupNotEmptyError(KafkaError, code=ErrorCode.NON_EMPTY_GROUP):
    """The group still has members."""


class GroupIdNotFoundError(KafkaError, code=ErrorCode.GROUP_ID_NOT_FOUND):
    """There is no group of this id."""


class FetchSessionIdNotFoundError(KafkaError, code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND):
    """The broker does not hold a fetch session of this id."""


class InvalidFetchSessionEpochError(KafkaError, code=ErrorCode.INVALID_FETCH_SESSION_EPOCH):
    """The fetch session is at another epoch."""


class ListenerNotFoundError(KafkaError, code=ErrorCode.LISTENER_NOT_FOUND):
    """The partition's leader has no listener of the name that the request came in on."""


class TopicDeletionDisabledError(KafkaError, code=ErrorCode.TOPIC_DELETION_DISABLED):
    """The broker is configured not to delete topics."""


class FencedLeaderEpochError(KafkaError, code=ErrorCode.FENCED_LEADER_EPOCH):
    """The leader epoch of the request is older than the partition's."""


class UnknownLeaderEpochError(KafkaError, code=ErrorCode.UNKNOWN_LEADER_EPOCH):
    """The leader epoch of the request is newer than this broker knows of."""


class UnsupportedCompressionTypeError(KafkaError, code=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE):
    """The partition's data is compressed with a codec that this request version cannot carry."""


class StaleBrokerEpochError(KafkaError, code=ErrorCode.STALE_BROKER_EPOCH):
    """The broker has registered anew since: the broker epoch is outdated."""


class OffsetNotAvailableError(KafkaError, code=ErrorCode.OFFSET_NOT_AVAILABLE):
    """After an election the leader does not know yet how far the log is committed."""


class MemberIdRequiredError(KafkaError, code=ErrorCode.MEMBER_ID_REQUIRED):
    """The member has to join again under the id that it was just given."""


class PreferredLeaderNotAvailableError(KafkaError, code=ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE):
    """The preferred leader is not available."""


class GroupMaxSizeReachedError(KafkaError, code=ErrorCode.GROUP_MAX_SIZE_REACHED):
    """The group is full."""


class FencedInstanceIdError(KafkaError, code=ErrorCode.FENCED_INSTANCE_ID):
    """Another consumer has registered with this group.instance.id."""


class EligibleLeadersNotAvailableError(KafkaError, code=ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE):
    """None of the replicas that may lead is available."""


class ElectionNotNeededError(KafkaError, code=ErrorCode.ELECTION_NOT_NEEDED):
    """The partition's leader is already the right one."""


class NoReassignmentInProgressError(KafkaError, code=ErrorCode.NO_REASSIGNMENT_IN_PROGRESS):
    """The partition is not being reassigned."""


class GroupSubscribedToTopicError(KafkaError, code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC):
    """The group is subscribed to the topic, so its offsets cannot be deleted."""


class InvalidRecordError(KafkaError, code=ErrorCode.INVALID_RECORD):
    """The broker refused a record."""


class UnstableOffsetCommitError(KafkaError, code=ErrorCode.UNSTABLE_OFFSET_COMMIT):
    """Offsets of a transaction that has not ended yet are in the way."""


class ThrottlingQuotaExceededError(KafkaError, code=ErrorCode.THROTTLING_QUOTA_EXCEEDED):
    """A quota is used up for now."""


class ProducerFencedError(KafkaError, code=ErrorCode.PRODUCER_FENCED):
    """Another producer with this transactional id has taken over."""


class ResourceNotFoundError(KafkaError, code=ErrorCode.RESOURCE_NOT_FOUND):
    """The request refers to something that does not exist."""


class DuplicateResourceError(KafkaError, code=ErrorCode.DUPLICATE_RESOURCE):
    """The request names the same thing twice."""


class UnacceptableCredentialError(KafkaError, code=ErrorCode.UNACCEPTABLE_CREDENTIAL):
    """The credential does not meet the requirements."""


class InconsistentVoterSetError(KafkaError, code=ErrorCode.INCONSISTENT_VOTER_SET):
    """Sender or receiver is not one of the expected voters."""


class InvalidUpdateVersionError(KafkaError, code=ErrorCode.INVALID_UPDATE_VERSION):
    """The version is not one that can be updated to."""


class FeatureUpdateFailedError(KafkaError, code=ErrorCode.FEATURE_UPDATE_FAILED):
    """The features could not be updated."""


class PrincipalDeserializationError(KafkaError, code=ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE):
    """A forwarded request carries a principal that cannot be read."""


class SnapshotNotFoundError(KafkaError, code=ErrorCode.SNAPSHOT_NOT_FOUND):
    """There is no such snapshot."""


class PositionOutOfRangeError(KafkaError, code=ErrorCode.POSITION_OUT_OF_RANGE):
    """The position lies outside the snapshot."""


class UnknownTopicIdError(KafkaError, code=ErrorCode.UNKNOWN_TOPIC_ID):
    """This broker has no topic of this id."""


class DuplicateBrokerRegistrationError(KafkaError, code=ErrorCode.DUPLICATE_BROKER_REGISTRATION):
    """Another broker uses this id."""


class BrokerIdNotRegisteredError(KafkaError, code=ErrorCode.BROKER_ID_NOT_REGISTERED):
    """No broker of this id is registered."""


class InconsistentTopicIdError(KafkaError, code=ErrorCode.INCONSISTENT_TOPIC_ID):
    """The topic's id is another one than the request says."""


class InconsistentClusterIdError(KafkaError, code=ErrorCode.INCONSISTENT_CLUSTER_ID):
    """The cluster's id is another one than the request says."""


class TransactionalIdNotFoundError(KafkaError, code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND):
    """There is no such transactional id."""


class FetchSessionTopicIdError(KafkaError, code=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR):
    """The fetch session mixes topic names and topic ids."""


class IneligibleReplicaError(KafkaError, code=ErrorCode.INELIGIBLE_REPLICA):
    """A replica that may not be in sync stands in the new ISR."""


class NewLeaderElectedError(KafkaError, code=ErrorCode.NEW_LEADER_ELECTED):
    """The ISR was changed, and another leader was elected meanwhile."""


class OffsetMovedToTieredStorageError(KafkaError, code=ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE):
    """The offset has moved to tiered storage."""


class FencedMemberEpochError(KafkaError, code=ErrorCode.FENCED_MEMBER_EPOCH):
    """The member's epoch is fenced: it must drop its partitions and join again."""


class UnreleasedInstanceIdError(KafkaError, code=ErrorCode.UNRELEASED_INSTANCE_ID):
    """Another member still holds this instance id; it has to leave first."""


class UnsupportedAssignorError(KafkaError, code=ErrorCode.UNSUPPORTED_ASSIGNOR):
    """The group's coordinator does not know this assignor, or not in this version."""


class StaleMemberEpochError(KafkaError, code=ErrorCode.STALE_MEMBER_EPOCH):
    """The member's epoch is outdated; the next heartbeat tells the current one."""


class MismatchedEndpointTypeError(KafkaError, code=ErrorCode.MISMATCHED_ENDPOINT_TYPE):
    """The request belongs on another kind of endpoint."""


class UnsupportedEndpointTypeError(KafkaError, code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE):
    """This kind of endpoint is not supported."""


class UnknownControllerIdError(KafkaError, code=ErrorCode.UNKNOWN_CONTROLLER_ID):
    """There is no controller of this id."""


class UnknownSubscriptionIdError(KafkaError, code=ErrorCode.UNKNOWN_SUBSCRIPTION_ID):
    """The telemetry subscription is unknown or outdated."""


class TelemetryTooLargeError(KafkaError, code=ErrorCode.TELEMETRY_TOO_LARGE):
    """The telemetry is larger than the broker accepts."""


class InvalidRegistrationError(KafkaError, code=ErrorCode.INVALID_REGISTRATION):
    """The controller refuses this registration."""


class TransactionAbortableError(KafkaError, code=ErrorCode.TRANSACTION_ABORTABLE):
    """The transaction failed, but can be aborted and the producer used on."""


class InvalidRecordStateError(KafkaError, code=ErrorCode.INVALID_RECORD_STATE):
    """The record is not in a state in which it can be acknowledged."""


class ShareSessionNotFoundError(KafkaError, code=ErrorCode.SHARE_SESSION_NOT_FOUND):
    """The broker does not hold this share session."""


class InvalidShareSessionEpochError(KafkaError, code=ErrorCode.INVALID_SHARE_SESSION_EPOCH):
    """The share session is at another epoch."""


class FencedStateEpochError(KafkaError, code=ErrorCode.FENCED_STATE_EPOCH):
    """The share state is at another epoch."""


class InvalidVoterKeyError(KafkaError, code=ErrorCode.INVALID_VOTER_KEY):
    """The voter's key is not that of this replica."""


class DuplicateVoterError(KafkaError, code=ErrorCode.DUPLICATE_VOTER):
    """The voter is in the set already."""


class VoterNotFoundError(KafkaError, code=ErrorCode.VOTER_NOT_FOUND):
    """The voter is not in the set."""


class InvalidRegularExpressionError(KafkaError, code=ErrorCode.INVALID_REGULAR_EXPRESSION):
    """The regular expression cannot be parsed."""


class RebootstrapRequiredError(KafkaError, code=ErrorCode.REBOOTSTRAP_REQUIRED):
    """The client's metadata is outdated; it has to begin again from its bootstrap servers."""


class StreamsInvalidTopologyError(KafkaError, code=ErrorCode.STREAMS_INVALID_TOPOLOGY):
    """The streams topology is not acceptable."""


class StreamsInvalidTopologyEpochError(KafkaError, code=ErrorCode.STREAMS_INVALID_TOPOLOGY_EPOCH):
    """The epoch of the streams topology is not acceptable."""


class StreamsTopologyFencedError(KafkaError, code=ErrorCode.STREAMS_TOPOLOGY_FENCED):
    """The epoch of the streams topology is outdated."""


class ShareSessionLimitReachedError(KafkaError, code=ErrorCode.SHARE_SESSION_LIMIT_REACHED):
    """The broker holds as many share sessions as it may."""


class GroupDeletionFailedError(KafkaError, code=ErrorCode.GROUP_DELETION_FAILED):
    """The group could not be deleted in full; its own message says why."""


class StreamsTopologyDescriptionUpdateFailedError(
    KafkaError, code=ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED
):
    """The description of the topology could not be stored; the message says why."""


class ControllerIdNotRegisteredError(KafkaError, code=ErrorCode.CONTROLLER_ID_NOT_REGISTERED):
    """No controller of this id is registered."""
