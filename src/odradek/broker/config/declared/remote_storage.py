"""Remote storage of segments (KIP-405)."""

from __future__ import annotations

from odradek.broker.config.declaration import (
    CLUSTER_WIDE,
    LOGS,
    REMOTE_STORAGE,
    Declarations,
    boolean,
    double,
    integer,
    long,
    string,
)
from odradek.cluster.configs.config_def import LOW, MEDIUM, at_least, between, non_empty


class RemoteStorageConfigs(Declarations, section=REMOTE_STORAGE):
    """Segments kept elsewhere, and the quotas for bringing them there."""

    remote_log_storage_system_enable = boolean(
        "false", MEDIUM, doc="Whether there is remote storage for old segments."
    )
    remote_log_storage_manager_impl_prefix = string(
        "rsm.config.", MEDIUM, non_empty, doc="Prefix of the storage manager's own configs."
    )
    remote_log_metadata_manager_impl_prefix = string(
        "rlmm.config.", MEDIUM, non_empty, doc="Prefix of the metadata manager's own configs."
    )
    remote_log_storage_manager_class_name = string(
        None, MEDIUM, non_empty, doc="Class that stores segments remotely."
    )
    remote_log_storage_manager_class_path = string(None, MEDIUM, doc="Where that class is found.")
    remote_log_metadata_manager_class_name = string(
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        MEDIUM,
        non_empty,
        doc="Class that keeps account of remote segments.",
    )
    remote_log_metadata_manager_class_path = string(None, MEDIUM, doc="Where that class is found.")
    remote_log_metadata_manager_listener_name = string(
        None, MEDIUM, non_empty, doc="Listener by which it reaches the brokers."
    )
    remote_log_metadata_custom_metadata_max_bytes = integer(
        "128", LOW, at_least(0), doc="Largest extra data with a remote segment, in bytes."
    )
    remote_log_index_file_cache_total_size_bytes = long(
        "1073741824",
        LOW,
        at_least(1),
        update=CLUSTER_WIDE,
        doc="Room for remote segments' indexes, in bytes.",
    )
    remote_log_index_file_cache_ttl_ms = long(
        "900000",
        LOW,
        at_least(-1),
        internal=True,
        doc="How long a remote segment's indexes are kept without use, in ms; -1 for ever.",
    )
    remote_log_manager_thread_pool_size = integer(
        "2", MEDIUM, at_least(1), doc="Threads that plan copies and expiry."
    )
    remote_log_manager_copier_thread_pool_size = integer(
        "10", MEDIUM, update=CLUSTER_WIDE, doc="Threads that copy segments."
    )
    remote_log_manager_expiration_thread_pool_size = integer(
        "10", MEDIUM, update=CLUSTER_WIDE, doc="Threads that expire remote segments."
    )
    remote_log_manager_follower_thread_pool_size = integer(
        "2", MEDIUM, at_least(1), update=CLUSTER_WIDE, doc="Threads that follow remote segments of others."
    )
    remote_log_manager_task_interval_ms = long(
        "30000", LOW, at_least(1), doc="How often segments to copy are looked for, in ms."
    )
    remote_log_manager_task_retry_backoff_ms = long(
        "500", LOW, at_least(1), internal=True, doc="Pause after a failure, in ms."
    )
    remote_log_manager_task_retry_backoff_max_ms = long(
        "30000", LOW, at_least(1), internal=True, doc="Longest such pause, in ms."
    )
    remote_log_manager_task_retry_jitter = double(
        "0.2", LOW, between(0, 0.5), internal=True, doc="Random share of that pause."
    )
    remote_log_reader_threads = integer(
        "10", MEDIUM, at_least(1), update=CLUSTER_WIDE, doc="Threads that read remote segments."
    )
    remote_log_reader_max_pending_tasks = integer("100", MEDIUM, at_least(1), doc="Most reads that may wait.")
    log_local_retention_ms = long(
        "-2",
        MEDIUM,
        at_least(-2),
        update=CLUSTER_WIDE,
        section=LOGS,
        doc="How long segments stay local that are in remote storage, in ms; -2 follows log.retention.ms.",
    )
    log_local_retention_bytes = long(
        "-2",
        MEDIUM,
        at_least(-2),
        update=CLUSTER_WIDE,
        section=LOGS,
        doc="How much stays local of what is in remote storage, in bytes; -2 follows log.retention.bytes.",
    )
    log_remote_copy_lag_ms = long(
        "0",
        MEDIUM,
        at_least(-1),
        update=CLUSTER_WIDE,
        doc="How long a full segment waits before it is copied to remote storage, in ms; "
        "-1 for as long as it is kept locally.",
    )
    log_remote_copy_lag_bytes = long(
        "-1",
        MEDIUM,
        at_least(-1),
        update=CLUSTER_WIDE,
        doc="How many bytes must be behind a segment before it is copied to remote storage; "
        "-1 for as many as are kept locally.",
    )
    remote_log_manager_copy_max_bytes_per_second = long(
        "9223372036854775807",
        MEDIUM,
        at_least(1),
        update=CLUSTER_WIDE,
        doc="How fast segments may be copied, in bytes a second.",
    )
    remote_log_manager_copy_quota_window_num = integer(
        "11", MEDIUM, at_least(1), doc="Samples kept for that limit."
    )
    remote_log_manager_copy_quota_window_size_seconds = integer(
        "1", MEDIUM, at_least(1), doc="Time that one of them covers, in seconds."
    )
    remote_log_manager_fetch_max_bytes_per_second = long(
        "9223372036854775807",
        MEDIUM,
        at_least(1),
        update=CLUSTER_WIDE,
        doc="How fast remote segments may be read, in bytes a second.",
    )
    remote_log_manager_fetch_quota_window_num = integer(
        "11", MEDIUM, at_least(1), doc="Samples kept for that limit."
    )
    remote_log_manager_fetch_quota_window_size_seconds = integer(
        "1", MEDIUM, at_least(1), doc="Time that one of them covers, in seconds."
    )
    remote_fetch_max_wait_ms = integer(
        "500", MEDIUM, at_least(1), update=CLUSTER_WIDE, doc="How long a fetch waits for remote data, in ms."
    )
    remote_list_offsets_request_timeout_ms = long(
        "30000",
        MEDIUM,
        at_least(1),
        update=CLUSTER_WIDE,
        doc="How long looking for offsets in remote segments may take, in ms.",
    )
