"""The coordinators of consumer groups and share groups."""

from __future__ import annotations

from odradek.broker.config.declaration import (
    CLUSTER_WIDE,
    GROUPS,
    Declarations,
    boolean,
    class_name,
    integer,
    long,
    short,
    string,
    text_list,
)
from odradek.cluster.configs.config_def import (
    HIGH,
    LOW,
    MEDIUM,
    at_least,
    between,
    one_of,
    one_of_ignoring_case,
)


class GroupCoordinatorConfigs(Declarations, section=GROUPS):
    """Groups of consumers, and their offsets."""

    group_coordinator_rebalance_protocols = text_list(
        "classic,consumer,streams",
        MEDIUM,
        one_of("consumer", "classic", "share", "streams", "unknown"),
        doc="Kinds of groups that are served.",
    )
    group_coordinator_threads = integer(
        "4", HIGH, at_least(1), doc="Threads of the group coordinator; one event loop does it here."
    )
    group_coordinator_background_threads = integer(
        "2", HIGH, at_least(1), doc="Threads that compute assignments."
    )
    group_coordinator_append_linger_ms = integer(
        "-1",
        MEDIUM,
        at_least(-1),
        doc="How long the coordinator gathers writes before it appends them, in ms.",
    )
    offsets_commit_timeout_ms = integer(
        "5000", HIGH, at_least(1), doc="How long a commit may take to be replicated, in ms."
    )
    offsets_load_buffer_size = integer(
        "5242880", HIGH, at_least(1), doc="Bytes read at a time when groups are loaded."
    )
    offsets_topic_replication_factor = short(
        "3",
        HIGH,
        at_least(1),
        doc="Replicas of the topic of groups and offsets; 1 in a broker that is alone.",
    )
    offsets_topic_num_partitions = integer(
        "50", HIGH, at_least(1), doc="Partitions of the topic of groups and offsets; not to be changed later."
    )
    offsets_topic_segment_bytes = integer(
        "104857600", HIGH, at_least(1), doc="Segment size of the topic of groups and offsets, in bytes."
    )
    offsets_topic_compression_codec = integer(
        "0", HIGH, doc="Codec of the topic of groups and offsets, as a number: 0 for none."
    )
    group_coordinator_cached_buffer_max_bytes = integer(
        "1048588",
        MEDIUM,
        at_least(524288),
        update=CLUSTER_WIDE,
        doc="Largest write buffer of the group coordinator that is kept, in bytes.",
    )
    offset_metadata_max_bytes = integer(
        "4096", HIGH, doc="Longest text in bytes that may go with a committed offset."
    )
    offsets_retention_minutes = integer(
        "10080",
        HIGH,
        at_least(1),
        doc="How long the offsets of a group without members are kept, in minutes.",
    )
    offsets_retention_check_interval_ms = long(
        "600000", HIGH, at_least(1), doc="How often expired offsets are looked for, in ms."
    )
    group_min_session_timeout_ms = integer(
        "6000", MEDIUM, doc="Shortest session timeout that a group member may ask for, in ms."
    )
    group_max_session_timeout_ms = integer(
        "1800000", MEDIUM, doc="Longest session timeout that a group member may ask for, in ms."
    )
    group_initial_rebalance_delay_ms = integer(
        "3000",
        MEDIUM,
        doc="How long an empty group waits for more members before its first rebalance, in ms.",
    )
    group_max_size = integer("2147483647", MEDIUM, at_least(1), doc="Most members of a group.")
    group_consumer_session_timeout_ms = integer(
        "45000", MEDIUM, at_least(1), doc="Session timeout of members of server-side groups, in ms."
    )
    group_consumer_min_session_timeout_ms = integer(
        "45000", MEDIUM, at_least(1), doc="Shortest of them that a group may be given, in ms."
    )
    group_consumer_max_session_timeout_ms = integer(
        "60000", MEDIUM, at_least(1), doc="Longest of them that a group may be given, in ms."
    )
    group_consumer_heartbeat_interval_ms = integer(
        "5000", MEDIUM, at_least(1), doc="How often members of server-side groups report, in ms."
    )
    group_consumer_min_heartbeat_interval_ms = integer(
        "5000", MEDIUM, at_least(1), doc="Shortest such interval that a group may be given, in ms."
    )
    group_consumer_max_heartbeat_interval_ms = integer(
        "15000", MEDIUM, at_least(1), doc="Longest such interval that a group may be given, in ms."
    )
    group_consumer_max_size = integer(
        "2147483647", MEDIUM, at_least(1), doc="Most members of a server-side group."
    )
    group_consumer_assignors = text_list(
        "uniform,range", MEDIUM, doc="Assignors of server-side groups, the first by default."
    )
    group_consumer_migration_policy = string(
        "bidirectional",
        MEDIUM,
        one_of_ignoring_case("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"),
        doc="Which way classic groups may turn into server-side ones.",
    )
    group_consumer_assignment_interval_ms = integer(
        "1000",
        MEDIUM,
        at_least(0),
        update=CLUSTER_WIDE,
        doc="Shortest time between two assignments of a consumer group, in ms.",
    )
    group_consumer_min_assignment_interval_ms = integer(
        "0", MEDIUM, at_least(0), doc="Least that a group may set for that, in ms."
    )
    group_consumer_max_assignment_interval_ms = integer(
        "15000", MEDIUM, at_least(0), doc="Most that a group may set for that, in ms."
    )
    group_consumer_assignor_offload_enable = boolean(
        "true",
        MEDIUM,
        internal=True,
        doc="Whether assignments of consumer groups are worked out in threads of their own.",
    )
    group_consumer_regex_refresh_interval_ms = integer(
        "600000",
        MEDIUM,
        at_least(10000),
        internal=True,
        doc="How often subscriptions by pattern are resolved again, in ms.",
    )
    group_share_session_timeout_ms = integer(
        "45000", MEDIUM, at_least(1), doc="Session timeout of members of share groups, in ms."
    )
    group_share_min_session_timeout_ms = integer(
        "45000", MEDIUM, at_least(1), doc="Shortest of them that a group may be given, in ms."
    )
    group_share_max_session_timeout_ms = integer(
        "60000", MEDIUM, at_least(1), doc="Longest of them that a group may be given, in ms."
    )
    group_share_heartbeat_interval_ms = integer(
        "5000", MEDIUM, at_least(1), doc="How often members of share groups report, in ms."
    )
    group_share_min_heartbeat_interval_ms = integer(
        "5000", MEDIUM, at_least(1), doc="Shortest such interval that a group may be given, in ms."
    )
    group_share_max_heartbeat_interval_ms = integer(
        "15000", MEDIUM, at_least(1), doc="Longest such interval that a group may be given, in ms."
    )
    group_share_max_size = integer("200", MEDIUM, between(1, 1000), doc="Most members of a share group.")
    group_share_assignors = text_list("simple", MEDIUM, doc="Assignors of share groups.")
    group_share_assignment_interval_ms = integer(
        "1000",
        MEDIUM,
        at_least(0),
        update=CLUSTER_WIDE,
        doc="Shortest time between two assignments of a share group, in ms.",
    )
    group_share_min_assignment_interval_ms = integer(
        "0", MEDIUM, at_least(0), doc="Least that a group may set for that, in ms."
    )
    group_share_max_assignment_interval_ms = integer(
        "15000", MEDIUM, at_least(0), doc="Most that a group may set for that, in ms."
    )
    group_share_assignor_offload_enable = boolean(
        "true",
        MEDIUM,
        internal=True,
        doc="Whether assignments of share groups are worked out in threads of their own.",
    )
    group_share_initialize_retry_interval_ms = integer(
        "30000",
        LOW,
        at_least(1),
        internal=True,
        doc="How often a share group's new partitions are tried again, in ms.",
    )
    errors_deadletterqueue_auto_create_topics_enable = boolean(
        "false",
        MEDIUM,
        update=CLUSTER_WIDE,
        doc="Whether topics for rejected records of share groups are made when they are needed.",
    )
    errors_deadletterqueue_topic_name_prefix = string(
        "dlq.",
        MEDIUM,
        update=CLUSTER_WIDE,
        doc="How names of topics for rejected records of share groups must begin.",
    )
    group_streams_session_timeout_ms = integer(
        "45000", MEDIUM, at_least(1), doc="Session timeout in streams groups, in ms."
    )
    group_streams_min_session_timeout_ms = integer(
        "45000", MEDIUM, at_least(1), doc="Least that a group may set for that, in ms."
    )
    group_streams_max_session_timeout_ms = integer(
        "60000", MEDIUM, at_least(1), doc="Most that a group may set for that, in ms."
    )
    group_streams_heartbeat_interval_ms = integer(
        "5000", MEDIUM, at_least(1), doc="Heartbeat interval in streams groups, in ms."
    )
    group_streams_min_heartbeat_interval_ms = integer(
        "5000", MEDIUM, at_least(1), doc="Least that a group may set for that, in ms."
    )
    group_streams_max_heartbeat_interval_ms = integer(
        "15000", MEDIUM, at_least(1), doc="Most that a group may set for that, in ms."
    )
    group_streams_max_size = integer(
        "2147483647", MEDIUM, at_least(1), doc="Most members of a streams group."
    )
    group_streams_num_standby_replicas = integer(
        "0", MEDIUM, at_least(0), doc="Standby replicas of each task."
    )
    group_streams_max_standby_replicas = integer(
        "2", MEDIUM, at_least(0), doc="Most that a group may set for that."
    )
    group_streams_initial_rebalance_delay_ms = integer(
        "3000", MEDIUM, at_least(0), doc="How long an empty streams group waits for more members, in ms."
    )
    group_streams_assignment_interval_ms = integer(
        "1000",
        MEDIUM,
        at_least(0),
        update=CLUSTER_WIDE,
        doc="Shortest time between two assignments of a streams group, in ms.",
    )
    group_streams_min_assignment_interval_ms = integer(
        "0", MEDIUM, at_least(0), doc="Least that a group may set for that, in ms."
    )
    group_streams_max_assignment_interval_ms = integer(
        "15000", MEDIUM, at_least(0), doc="Most that a group may set for that, in ms."
    )
    group_streams_assignors = text_list("sticky", MEDIUM, doc="Assignors for streams groups.")
    group_streams_assignor_offload_enable = boolean(
        "true",
        MEDIUM,
        internal=True,
        doc="Whether assignments of streams groups are worked out in threads of their own.",
    )
    group_streams_task_offset_interval_ms = integer(
        "60000",
        MEDIUM,
        at_least(1),
        internal=True,
        doc="How often members of streams groups tell of their tasks' offsets, in ms.",
    )
    group_streams_min_task_offset_interval_ms = integer(
        "15000",
        MEDIUM,
        at_least(1),
        internal=True,
        doc="Shortest such interval that a group may choose, in ms.",
    )
    group_streams_num_warmup_replicas = integer(
        "2",
        MEDIUM,
        at_least(0),
        internal=True,
        doc="Tasks of a streams group that may be warmed up at a time.",
    )
    group_streams_max_warmup_replicas = integer(
        "20", MEDIUM, at_least(0), internal=True, doc="Most such tasks that a group may choose."
    )
    group_streams_rack_aware_assignment_tags = text_list(
        "", LOW, doc="Tags of members by which standby tasks are spread."
    )
    group_streams_topology_description_plugin_class = class_name(
        None, MEDIUM, doc="Class that is told of the topologies of streams groups."
    )
    group_streams_acceptable_recovery_lag = long(
        "10000",
        MEDIUM,
        at_least(0),
        internal=True,
        doc="Records that a task may be behind and still count as caught up.",
    )
