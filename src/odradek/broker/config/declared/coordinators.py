"""Share groups, transactions, the quorum of controllers, metrics, quotas."""

from __future__ import annotations

from odradek.broker.config.declaration import (
    CLUSTER_WIDE,
    GROUPS,
    KRAFT,
    METRICS,
    TRANSACTIONS,
    Declarations,
    boolean,
    integer,
    long,
    short,
    string,
    text_list,
)
from odradek.cluster.configs.config_def import HIGH, LOW, MEDIUM, at_least, between


class ShareGroupConfigs(Declarations, section=GROUPS):
    """Groups that share partitions record by record (KIP-932), which are not served here.

    Kafka: `ShareGroupConfig`, `ShareCoordinatorConfig`.
    """

    group_share_delivery_count_limit = integer(
        "5", MEDIUM, between(2, 10), doc="How often a record is delivered before it is given up."
    )
    group_share_max_delivery_count_limit = integer(
        "10", MEDIUM, between(5, 25), doc="Most that a group may set for the deliveries of a record."
    )
    group_share_min_delivery_count_limit = integer(
        "2", MEDIUM, between(2, 5), doc="Least that a group may set for the deliveries of a record."
    )
    group_share_record_lock_duration_ms = integer(
        "30000",
        MEDIUM,
        between(1000, 3600000),
        doc="How long a delivered record belongs to its consumer, in ms.",
    )
    group_share_min_record_lock_duration_ms = integer(
        "15000", MEDIUM, between(1000, 30000), doc="Shortest such time that a group may be given, in ms."
    )
    group_share_max_record_lock_duration_ms = integer(
        "60000", MEDIUM, between(30000, 3600000), doc="Longest such time that a group may be given, in ms."
    )
    group_share_partition_max_record_locks = integer(
        "2000", MEDIUM, between(100, 10000), doc="Most records of a partition that may be out for delivery."
    )
    group_share_max_partition_max_record_locks = integer(
        "4000",
        MEDIUM,
        between(2000, 10000),
        doc="Most that a group may set for the records locked in a partition.",
    )
    group_share_min_partition_max_record_locks = integer(
        "100",
        MEDIUM,
        between(100, 2000),
        doc="Least that a group may set for the records locked in a partition.",
    )
    share_fetch_purgatory_purge_interval_requests = integer(
        "1000", MEDIUM, doc="After how many finished fetches of share groups the waiting ones are tidied up."
    )
    group_share_max_share_sessions = integer(
        "2000", MEDIUM, at_least(1), doc="How many sessions of share groups are kept."
    )
    group_share_persister_class_name = string(
        "org.apache.kafka.server.share.persister.DefaultStatePersister",
        MEDIUM,
        internal=True,
        doc="Class that keeps the state of share groups.",
    )
    group_share_dlq_manager_class_name = string(
        "org.apache.kafka.server.share.dlq.DefaultShareGroupDLQManager",
        MEDIUM,
        internal=True,
        doc="Class that keeps rejected records of share groups.",
    )
    share_coordinator_state_topic_num_partitions = integer(
        "50", HIGH, at_least(1), doc="Partitions of the topic of share groups' state."
    )
    share_coordinator_state_topic_replication_factor = short(
        "3", HIGH, at_least(1), doc="Replicas of the topic of share groups' state."
    )
    share_coordinator_state_topic_min_isr = short(
        "2", HIGH, at_least(1), doc="min.insync.replicas of the topic of share groups' state."
    )
    share_coordinator_state_topic_segment_bytes = integer(
        "104857600", HIGH, at_least(1), doc="Segment size of the topic of share groups' state, in bytes."
    )
    share_coordinator_threads = integer("1", MEDIUM, at_least(1), doc="Threads of the share coordinator.")
    share_coordinator_snapshot_update_records_per_snapshot = integer(
        "500", MEDIUM, between(0, 500), doc="Updates of a share group's state between two snapshots."
    )
    share_coordinator_load_buffer_size = integer(
        "5242880", HIGH, at_least(1), doc="Bytes read at a time when the state of share groups is loaded."
    )
    share_coordinator_state_topic_compression_codec = integer(
        "0", HIGH, doc="Codec of the topic of share groups' state, as a number."
    )
    share_coordinator_append_linger_ms = integer(
        "-1",
        MEDIUM,
        at_least(-1),
        doc="How long the share coordinator gathers writes, in ms; -1 as it sees fit.",
    )
    share_coordinator_write_timeout_ms = integer(
        "5000", HIGH, at_least(1), doc="How long a write of share groups' state may take, in ms."
    )
    share_coordinator_state_topic_prune_interval_ms = integer(
        "300000",
        LOW,
        at_least(1),
        internal=True,
        doc="How often old state of share groups is deleted, in ms.",
    )
    share_coordinator_cold_partition_snapshot_interval_ms = integer(
        "300000",
        LOW,
        at_least(1),
        internal=True,
        doc="How often state that nobody changes is written again, in ms.",
    )
    share_coordinator_cached_buffer_max_bytes = integer(
        "1048588",
        MEDIUM,
        at_least(524288),
        update=CLUSTER_WIDE,
        doc="Largest write buffer of the share coordinator that is kept, in bytes.",
    )


class TransactionConfigs(Declarations, section=TRANSACTIONS):
    """Transactional ids, and what is remembered of producers.

    Kafka: `TransactionLogConfig`, `TransactionStateManagerConfig`.
    """

    transaction_state_log_min_isr = integer(
        "2",
        HIGH,
        at_least(1),
        doc="min.insync.replicas of the topic of transactions; 1 in a broker that is alone.",
    )
    transaction_state_log_load_buffer_size = integer(
        "5242880", HIGH, at_least(1), doc="Bytes read at a time when transactions are loaded."
    )
    transaction_state_log_replication_factor = short(
        "3", HIGH, at_least(1), doc="Replicas of the topic of transactions; 1 in a broker that is alone."
    )
    # An id's partition, and so its coordinator, is its hash by this number.
    transaction_state_log_num_partitions = integer(
        "50", HIGH, at_least(1), doc="Partitions of the topic of transactions; not to be changed later."
    )
    transaction_state_log_segment_bytes = integer(
        "104857600", HIGH, at_least(1), doc="Segment size of the topic of transactions, in bytes."
    )
    # KIP-890: a batch of a producer that has gone would else open a transaction that nobody ends.
    transaction_partition_verification_enable = boolean(
        "true",
        LOW,
        update=CLUSTER_WIDE,
        doc="Whether a partition is checked to be part of the transaction written to it.",
    )
    # KIP-854: a day for each partition's memory of producers; until 3.4 it was as long as that of
    # transactional ids, a week.
    producer_id_expiration_ms = integer(
        "86400000",
        LOW,
        at_least(1),
        update=CLUSTER_WIDE,
        doc="After how long without a write a partition forgets a producer, in ms.",
    )
    producer_id_expiration_check_interval_ms = integer(
        "600000", LOW, at_least(1), internal=True, doc="How often such producers are looked for, in ms."
    )
    transactional_id_expiration_ms = integer(
        "604800000",
        HIGH,
        at_least(1),
        doc="After how long without use a transactional id is forgotten, in ms.",
    )
    # An open transaction holds up all read_committed consumers of its partitions for so long.
    transaction_max_timeout_ms = integer(
        "900000", HIGH, at_least(1), doc="Longest timeout that a transaction may ask for, in ms."
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms = integer(
        "10000", LOW, at_least(1), doc="How often timed-out transactions are aborted, in ms."
    )
    transaction_remove_expired_transaction_cleanup_interval_ms = integer(
        "3600000", LOW, at_least(1), doc="How often expired transactional ids are removed, in ms."
    )
    transaction_two_phase_commit_enable = boolean(
        "false",
        LOW,
        doc="Whether producers may take part in two-phase commits, whose transactions never time "
        "out (KIP-939).",
    )


class QuorumConfigs(Declarations, section=KRAFT):
    """The controllers' quorum, which is not there; several voters refuse the start (`protection.py`).

    Kafka: `QuorumConfig`.
    """

    controller_quorum_voters = text_list("", HIGH, doc="KRaft's voters.")
    # KIP-853: voters that change, and so are not named in each file.
    controller_quorum_bootstrap_servers = text_list("", HIGH, doc="Addresses to find KRaft's voters by.")
    controller_quorum_election_timeout_ms = integer(
        "1000", HIGH, doc="After how long without a leader a KRaft election begins, in ms."
    )
    controller_quorum_fetch_timeout_ms = integer(
        "2000", HIGH, doc="After how long without fetches a KRaft leader is given up, in ms."
    )
    controller_quorum_election_backoff_max_ms = integer(
        "1000", HIGH, doc="Longest pause between KRaft elections, in ms."
    )
    controller_quorum_append_linger_ms = integer(
        "25", MEDIUM, doc="How long a KRaft leader gathers writes, in ms."
    )
    controller_quorum_request_timeout_ms = integer(
        "2000", MEDIUM, doc="How long KRaft's requests may take, in ms."
    )
    controller_quorum_retry_backoff_ms = integer(
        "20", LOW, doc="Pause before KRaft's requests are repeated, in ms."
    )
    controller_quorum_auto_join_enable = boolean(
        "false", LOW, doc="Whether a KRaft controller joins the voters by itself."
    )
    # KIP-1219, since 4.3: over a slow network a new controller never got the whole of a larger piece.
    controller_quorum_fetch_snapshot_max_bytes = integer(
        "1048576", LOW, at_least(1), doc="Most bytes of one answer with a part of a snapshot."
    )
    controller_quorum_fetch_max_bytes = integer(
        "1048576", LOW, at_least(1), doc="Most bytes of one answer with metadata records."
    )


class MetricAndQuotaConfigs(Declarations, section=METRICS):
    """Measurements, and the windows that they are taken over.

    Kafka: `MetricConfigs`, `QuotaConfig`.
    """

    metrics_num_samples = integer("2", LOW, at_least(1), doc="Samples kept for each metric.")
    metrics_sample_window_ms = long("30000", LOW, at_least(1), doc="Time that one sample covers, in ms.")
    metric_reporters = text_list(
        "org.apache.kafka.common.metrics.JmxReporter",
        LOW,
        update=CLUSTER_WIDE,
        doc="Classes that report metrics.",
    )
    metrics_recording_level = string("INFO", LOW, doc="Finest level of metrics that are recorded.")
    kafka_metrics_reporters = text_list("", LOW, doc="Classes that report the older metrics.")
    kafka_metrics_polling_interval_secs = integer(
        "10", LOW, at_least(1), doc="How often those are asked, in seconds."
    )
    # KIP-714: it bounds what a client may send, packed.
    telemetry_max_bytes = integer(
        "1048576", LOW, at_least(1), doc="Largest push of clients' metrics, in bytes."
    )
    # Eleven samples of a second: ten that are whole, and the one that is being filled. Of clients, of copies
    # (KIP-73), of moves between folders (KIP-113), of changes of topics (KIP-599).
    quota_window_num = integer("11", LOW, at_least(1), doc="Samples kept for clients' quotas.")
    replication_quota_window_num = integer("11", LOW, at_least(1), doc="Samples kept for replication quotas.")
    alter_log_dirs_replication_quota_window_num = integer(
        "11", LOW, at_least(1), doc="Samples kept for the quota of moves between log directories."
    )
    controller_quota_window_num = integer(
        "11", LOW, at_least(1), doc="Samples kept for the quota of changes of topics."
    )
    quota_window_size_seconds = integer(
        "1", LOW, at_least(1), doc="Time that one of them covers, in seconds."
    )
    replication_quota_window_size_seconds = integer(
        "1", LOW, at_least(1), doc="Time that one of them covers, in seconds."
    )
    alter_log_dirs_replication_quota_window_size_seconds = integer(
        "1", LOW, at_least(1), doc="Time that one of them covers, in seconds."
    )
    controller_quota_window_size_seconds = integer(
        "1", LOW, at_least(1), doc="Time that one of them covers, in seconds."
    )
