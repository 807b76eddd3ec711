"""Logs: cleaning, segments, retention, flushing."""

from __future__ import annotations

from odradek.broker.config.declaration import (
    CLUSTER_WIDE,
    LOGS,
    PER_BROKER,
    SERVER,
    Declarations,
    boolean,
    class_name,
    double,
    integer,
    long,
    string,
    text_list,
)
from odradek.cluster.configs.config_def import HIGH, LOW, MEDIUM, at_least, between, one_of


class LogConfigs(Declarations, section=LOGS):
    """Cleaning, segments, retention, flushing, and defaults of topics."""

    log_cleaner_threads = integer("1", MEDIUM, at_least(0), update=CLUSTER_WIDE, doc="Workers that compact.")
    log_cleaner_io_max_bytes_per_second = double(
        "1.7976931348623157E308",
        MEDIUM,
        update=CLUSTER_WIDE,
        doc="How fast compaction may read and write, in bytes a second.",
    )
    log_cleaner_dedupe_buffer_size = long(
        "134217728",
        MEDIUM,
        update=CLUSTER_WIDE,
        doc="Memory for the map of keys, in bytes, over all workers.",
    )
    log_cleaner_io_buffer_size = integer(
        "524288",
        MEDIUM,
        at_least(0),
        update=CLUSTER_WIDE,
        doc="Memory for reading and writing, in bytes, over all workers.",
    )
    log_cleaner_io_buffer_load_factor = double(
        "0.9", MEDIUM, update=CLUSTER_WIDE, doc="How full the map of keys may get."
    )
    log_cleaner_backoff_ms = long(
        "15000",
        MEDIUM,
        at_least(0),
        update=CLUSTER_WIDE,
        doc="Pause when there is nothing to compact, in ms.",
    )
    log_cleaner_min_cleanable_ratio = double(
        "0.5",
        MEDIUM,
        between(0, 1),
        update=CLUSTER_WIDE,
        doc="Share of a log that must be uncompacted before the cleaner takes it up.",
    )
    log_cleaner_enable = boolean("true", MEDIUM, doc="Whether compacted topics are compacted.")
    log_cleaner_delete_retention_ms = long(
        "86400000",
        MEDIUM,
        at_least(0),
        update=CLUSTER_WIDE,
        doc="How long compacted topics keep the markers of deleted keys, in ms.",
    )
    log_cleaner_min_compaction_lag_ms = long(
        "0",
        MEDIUM,
        at_least(0),
        update=CLUSTER_WIDE,
        doc="How long a record stays out of compaction at least, in ms.",
    )
    log_cleaner_max_compaction_lag_ms = long(
        "9223372036854775807",
        MEDIUM,
        at_least(1),
        update=CLUSTER_WIDE,
        doc="How long a record may stay out of compaction at most, in ms.",
    )
    num_partitions = integer(
        "1", MEDIUM, at_least(1), section=SERVER, doc="Partitions of a new topic when nobody says how many."
    )
    log_dir = text_list("/tmp/kafka-logs", HIGH, doc="Folder of the logs; used where log.dirs is not given.")
    log_dirs = text_list(None, HIGH, doc="Folders of the logs, separated by commas.")
    cordoned_log_dirs = text_list(
        "", MEDIUM, update=PER_BROKER, doc="Log folders that take no new partitions; `*` for all."
    )
    log_segment_bytes = integer(
        "1073741824",
        HIGH,
        at_least(14),
        update=CLUSTER_WIDE,
        doc="Size in bytes at which a log starts a new segment file.",
    )
    log_roll_ms = long(
        None,
        HIGH,
        update=CLUSTER_WIDE,
        doc="Age in ms at which a log starts a new segment even though it is not full; else log.roll.hours.",
    )
    log_roll_hours = integer("168", HIGH, at_least(1), doc="The same in hours.")
    log_roll_jitter_ms = long(
        None,
        HIGH,
        update=CLUSTER_WIDE,
        doc="Up to how many ms earlier, at random, a segment is closed; else log.roll.jitter.hours.",
    )
    log_roll_jitter_hours = integer("0", HIGH, at_least(0), doc="The same in hours.")
    log_retention_ms = long(
        None,
        HIGH,
        update=CLUSTER_WIDE,
        doc="Age in ms above which segments are deleted, -1 for no limit; else log.retention.minutes.",
    )
    log_retention_minutes = integer(None, HIGH, doc="The same in minutes; else log.retention.hours.")
    log_retention_hours = integer("168", HIGH, doc="The same in hours.")
    log_retention_bytes = long(
        "-1",
        HIGH,
        update=CLUSTER_WIDE,
        doc="Size in bytes above which a partition's oldest segments are deleted; -1 for no limit.",
    )
    log_retention_check_interval_ms = long(
        "300000", MEDIUM, at_least(1), doc="How often logs are checked for segments to delete, in ms."
    )
    log_cleanup_policy = text_list(
        "delete",
        MEDIUM,
        one_of("compact", "delete"),
        update=CLUSTER_WIDE,
        doc="What happens to old segments: delete them, compact them by key, or both.",
    )
    log_index_size_max_bytes = integer(
        "10485760",
        MEDIUM,
        at_least(4),
        update=CLUSTER_WIDE,
        doc="Size in bytes that an index file may reach; a full index starts a new segment.",
    )
    log_index_interval_bytes = integer(
        "4096",
        MEDIUM,
        at_least(0),
        update=CLUSTER_WIDE,
        doc="After how many bytes of records the offset index gets another entry.",
    )
    log_flush_interval_messages = long(
        "9223372036854775807",
        HIGH,
        at_least(1),
        update=CLUSTER_WIDE,
        doc="After how many records a log is synced to disk.",
    )
    log_segment_delete_delay_ms = long(
        "60000",
        HIGH,
        at_least(0),
        update=CLUSTER_WIDE,
        doc="How long a deleted segment's files stay on disk before they are removed, in ms.",
    )
    log_flush_scheduler_interval_ms = long(
        "9223372036854775807", HIGH, doc="How often logs are checked for what is to be synced, in ms."
    )
    log_flush_interval_ms = long(
        None,
        HIGH,
        update=CLUSTER_WIDE,
        doc="After how many ms a log is synced to disk; else log.flush.scheduler.interval.ms.",
    )
    log_flush_offset_checkpoint_interval_ms = integer(
        "60000", HIGH, at_least(0), doc="How often it is noted up to where logs are synced, in ms."
    )
    log_flush_start_offset_checkpoint_interval_ms = integer(
        "60000", HIGH, at_least(0), doc="How often the logs' first offsets are noted, in ms."
    )
    log_preallocate = boolean(
        "false", MEDIUM, update=CLUSTER_WIDE, doc="Whether a new segment's file gets its full size at once."
    )
    num_recovery_threads_per_data_dir = integer(
        "2", HIGH, at_least(1), update=CLUSTER_WIDE, doc="Threads that load and recover the logs of a folder."
    )
    auto_create_topics_enable = boolean(
        "true",
        HIGH,
        section=SERVER,
        doc="Whether a topic is created when somebody asks for one that does not exist.",
    )
    min_insync_replicas = integer(
        "1",
        HIGH,
        at_least(1),
        update=CLUSTER_WIDE,
        section=SERVER,
        doc="How many replicas must be in sync for a write with acks=all to be taken.",
    )
    log_message_timestamp_type = string(
        "CreateTime",
        MEDIUM,
        one_of("CreateTime", "LogAppendTime"),
        update=CLUSTER_WIDE,
        doc="Whether records keep the producer's time or get the time of the append.",
    )
    log_message_timestamp_before_max_ms = long(
        "9223372036854775807",
        MEDIUM,
        at_least(0),
        update=CLUSTER_WIDE,
        doc="How far in the past a record's time may be, in ms, with CreateTime.",
    )
    log_message_timestamp_after_max_ms = long(
        "3600000",
        MEDIUM,
        at_least(0),
        update=CLUSTER_WIDE,
        doc="How far in the future a record's time may be, in ms, with CreateTime.",
    )
    create_topic_policy_class_name = class_name(
        None, LOW, section=SERVER, doc="Class that has a say in which topics are created."
    )
    alter_config_policy_class_name = class_name(
        None, LOW, section=SERVER, doc="Class that has a say in which configs are changed."
    )
    log_dir_failure_timeout_ms = long(
        "30000",
        LOW,
        at_least(1),
        doc="How long a failed log directory may stay unreported before the broker stops, in ms.",
    )
    log_initial_task_delay_ms = long(
        "30000",
        LOW,
        at_least(0),
        internal=True,
        doc="Pause after the start before periodic work on logs begins, in ms.",
    )
