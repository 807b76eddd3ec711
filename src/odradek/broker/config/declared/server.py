"""The broker itself, the metadata of KRaft, sockets, replication."""

from __future__ import annotations

from odradek.broker.config.declaration import (
    CLUSTER_WIDE,
    KRAFT,
    LISTENERS,
    PER_BROKER,
    REPLICATION,
    SERVER,
    Declarations,
    boolean,
    integer,
    long,
    string,
    text_list,
)
from odradek.cluster.configs.config_def import HIGH, LOW, MEDIUM, at_least, between, gzip_level, one_of


class ServerConfigs(Declarations, section=SERVER):
    """The broker itself.

    Kafka: `ServerConfigs`.
    """

    broker_id = integer(
        "-1", HIGH, doc="Id of this broker in the cluster; a broker that is alone has 0 when none is given."
    )
    # 1 MiB, and the 12 bytes that stand before a batch in the log (`Records.LOG_OVERHEAD`).
    message_max_bytes = integer(
        "1048588",
        HIGH,
        at_least(0),
        update=CLUSTER_WIDE,
        doc="Largest record batch in bytes, as it comes in, that is taken.",
    )
    # Since 4.4, where it bounds each record: here a batch is bounded as a whole
    # (docs/decisions/configs-are-those-of-4.3.md).
    max_decompressed_message_bytes = integer(
        "2147483639",
        MEDIUM,
        between(1, 2147483639),
        update=CLUSTER_WIDE,
        doc="Largest record in bytes that a compressed batch may hold.",
    )
    num_io_threads = integer(
        "8",
        HIGH,
        at_least(1),
        update=CLUSTER_WIDE,
        doc="Threads that work on requests; one event loop does it here.",
    )
    num_replica_alter_log_dirs_threads = integer(
        None, HIGH, doc="Threads that move replicas between log directories."
    )
    background_threads = integer(
        "10", HIGH, at_least(1), update=CLUSTER_WIDE, doc="Threads for periodic work."
    )
    request_timeout_ms = integer("30000", HIGH, doc="How long a client or broker waits for an answer, in ms.")
    # KIP-601: an address that nobody answers at cost the system's own time, of minutes, before.
    socket_connection_setup_timeout_ms = long(
        "10000", MEDIUM, doc="How long connecting may take at first, in ms."
    )
    socket_connection_setup_timeout_max_ms = long(
        "30000", MEDIUM, doc="How long connecting may take at most after repeated failures, in ms."
    )
    config_providers = text_list(
        "", LOW, update=CLUSTER_WIDE, doc="Providers of values that stand outside of `server.properties`."
    )
    authorizer_class_name = string(
        "", LOW, doc="Class that decides who may do what; empty for everybody everything."
    )
    # KIP-801: in KRaft ACLs come by the controllers' listener, which has to be open before they are there.
    early_start_listeners = text_list(None, HIGH, doc="Listeners that open before the authorizer is ready.")
    broker_rack = string(
        None, MEDIUM, doc="Where this broker stands; replicas of a partition are spread over racks."
    )
    controlled_shutdown_enable = boolean(
        "true", MEDIUM, doc="Whether leaderships move away before this broker stops."
    )
    delete_topic_enable = boolean("true", HIGH, doc="Whether topics may be deleted.")
    compression_type = string(
        "producer",
        HIGH,
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        update=CLUSTER_WIDE,
        doc="Codec in which logs are kept; `producer` keeps what the producer sent.",
    )
    # The levels are KIP-390's, since 3.8; each library's own defaults.
    compression_gzip_level = integer(
        "-1",
        MEDIUM,
        gzip_level,
        update=CLUSTER_WIDE,
        doc="Level used where the broker compresses with gzip; -1 for the codec's own default.",
    )
    compression_lz4_level = integer(
        "9",
        MEDIUM,
        between(1, 17),
        update=CLUSTER_WIDE,
        doc="Level used where the broker compresses with lz4.",
    )
    compression_zstd_level = integer(
        "3",
        MEDIUM,
        between(-131072, 22),
        update=CLUSTER_WIDE,
        doc="Level used where the broker compresses with zstd.",
    )
    # KIP-227; sessions beyond have to be worth more than the least one of these.
    max_incremental_fetch_session_cache_slots = integer(
        "1000", MEDIUM, at_least(0), doc="How many fetch sessions are kept."
    )
    # 55 MiB (KIP-541): consumers ask for 50 MiB by default, and get them.
    fetch_max_bytes = integer(
        "57671680",
        MEDIUM,
        at_least(1024),
        doc="Most bytes in the answer to one fetch; a first larger batch is still sent.",
    )
    # Of DescribeTopicPartitions (KIP-966).
    max_request_partition_size_limit = integer(
        "2000", MEDIUM, at_least(1), doc="Most partitions in one answer that lists partitions."
    )
    unstable_api_versions_enable = boolean(
        "false",
        HIGH,
        internal=True,
        doc="Whether versions of the protocol that may still change are offered.",
    )
    unstable_feature_versions_enable = boolean(
        "false", HIGH, internal=True, doc="Whether feature levels that may still change are offered."
    )


class KRaftConfigs(Declarations, section=KRAFT):
    """The roles of a process, and the log of the metadata.

    They are listed because tools look for them; where a value would mean a cluster of KRaft the start is
    refused (docs/decisions/security-configs-refuse-the-start.md). Kafka: `KRaftConfigs`.
    """

    process_roles = text_list(
        None, HIGH, one_of("broker", "controller"), doc="Roles of a node in KRaft; there is no KRaft here."
    )
    node_id = integer(None, HIGH, doc="Id of a node in KRaft; the same as broker.id.")
    initial_broker_registration_timeout_ms = integer(
        "60000", MEDIUM, doc="How long a first registration with a KRaft controller may take, in ms."
    )
    broker_heartbeat_interval_ms = integer(
        "2000", MEDIUM, doc="How often a broker reports to a KRaft controller, in ms."
    )
    broker_session_timeout_ms = integer(
        "9000", MEDIUM, doc="After how long without a report a KRaft controller fences a broker, in ms."
    )
    controller_listener_names = text_list(None, HIGH, doc="Listeners of KRaft controllers.")
    sasl_mechanism_controller_protocol = string("GSSAPI", HIGH, doc="SASL mechanism to KRaft controllers.")
    controller_performance_sample_period_ms = long(
        "60000",
        MEDIUM,
        at_least(100),
        internal=True,
        doc="How often a KRaft controller sums up its events, in ms.",
    )
    controller_performance_always_log_threshold_ms = long(
        "2000",
        MEDIUM,
        at_least(0),
        internal=True,
        doc="From how many ms on an event of the controller is always logged.",
    )
    server_max_startup_time_ms = long(
        "9223372036854775807",
        MEDIUM,
        at_least(0),
        internal=True,
        doc="How long a KRaft node may take to start, in ms.",
    )
    # Snapshots by size are KIP-630's, those by time KIP-876's.
    metadata_log_max_record_bytes_between_snapshots = long(
        "20971520", HIGH, at_least(1), doc="Bytes of KRaft's metadata log between two snapshots."
    )
    metadata_log_max_snapshot_interval_ms = long(
        "3600000", HIGH, at_least(0), doc="Longest time between two snapshots, in ms."
    )
    metadata_log_dir = string(None, HIGH, doc="Folder of KRaft's metadata log.")
    metadata_log_segment_bytes = integer(
        "1073741824", HIGH, at_least(12), doc="Segment size of KRaft's metadata log, in bytes."
    )
    metadata_log_segment_ms = long(
        "604800000", HIGH, doc="Age in ms at which KRaft's metadata log starts a new segment."
    )
    metadata_max_retention_bytes = long(
        "104857600", HIGH, doc="Size in bytes above which KRaft's metadata log is cut."
    )
    metadata_max_retention_ms = long(
        "604800000", HIGH, doc="Age in ms above which KRaft's metadata log is cut."
    )
    # KIP-835: by these records brokers tell how far they are behind when nothing else changes.
    metadata_max_idle_interval_ms = integer(
        "500", LOW, at_least(0), doc="How often an idle KRaft controller writes a record, in ms."
    )
    internal_metadata_log_segment_bytes = integer(
        None, LOW, internal=True, doc="Segment size of KRaft's metadata log in tests, in bytes."
    )
    internal_metadata_max_batch_size_in_bytes = integer(
        "8388608", LOW, internal=True, doc="Largest batch of KRaft's metadata log in tests, in bytes."
    )
    internal_metadata_delete_delay_millis = long(
        "60000", LOW, internal=True, doc="How long deleted segments of it stay on disk in tests, in ms."
    )


class SocketServerConfigs(Declarations, section=LISTENERS):
    """Listeners, and the limits of their connections.

    Kafka: `SocketServerConfigs`.
    """

    listeners = text_list(
        "PLAINTEXT://:9092",
        HIGH,
        update=PER_BROKER,
        doc="Where to listen: NAME://HOST:PORT, separated by commas; an empty host is every "
        "address, port 0 a free one.",
    )
    advertised_listeners = text_list(
        None, HIGH, doc="What clients are told to connect to, where that differs from `listeners`."
    )
    # KIP-103: a listener's name may be any; those of protocols stand for themselves.
    listener_security_protocol_map = string(
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        LOW,
        update=PER_BROKER,
        doc="Security protocol of each listener name.",
    )
    socket_send_buffer_bytes = integer(
        "102400", HIGH, doc="Send buffer of sockets in bytes; -1 leaves it to the operating system."
    )
    socket_receive_buffer_bytes = integer(
        "102400", HIGH, doc="Receive buffer of sockets in bytes; -1 leaves it to the operating system."
    )
    socket_request_max_bytes = integer(
        "104857600",
        HIGH,
        at_least(1),
        doc="Largest request in bytes; a connection that announces more is closed.",
    )
    # KIP-764: when leaderships move, all clients come at once.
    socket_listen_backlog_size = integer(
        "50", MEDIUM, at_least(1), doc="How many connections may wait to be accepted."
    )
    max_connections_per_ip = integer(
        "2147483647", MEDIUM, at_least(0), update=CLUSTER_WIDE, doc="Most connections from one address."
    )
    max_connections_per_ip_overrides = string(
        "",
        MEDIUM,
        update=CLUSTER_WIDE,
        doc="Other limits for single addresses or host names, as HOST:NUMBER.",
    )
    # The number is KIP-402's, the rate KIP-612's; a listener may have its own of both.
    max_connections = integer(
        "2147483647", MEDIUM, at_least(0), update=CLUSTER_WIDE, doc="Most connections to this broker."
    )
    max_connection_creation_rate = integer(
        "2147483647", MEDIUM, at_least(0), update=CLUSTER_WIDE, doc="Most new connections in a second."
    )
    connections_max_idle_ms = long(
        "600000", MEDIUM, doc="After how long without traffic a connection is closed, in ms."
    )
    # KIP-306: so that nobody tries passwords quickly.
    connection_failed_authentication_delay_ms = integer(
        "100", LOW, at_least(0), doc="Pause before a connection that failed to authenticate is closed, in ms."
    )
    queued_max_requests = integer(
        "500", HIGH, at_least(1), doc="How many requests may wait before no more are read."
    )
    # KIP-72: the number of requests alone does not bound their memory.
    queued_max_request_bytes = long(
        "-1", MEDIUM, doc="How many bytes of requests may wait before no more are read; -1 for no limit."
    )
    num_network_threads = integer(
        "3",
        HIGH,
        at_least(1),
        update=CLUSTER_WIDE,
        section=SERVER,
        doc="Threads of each listener that send long answers; one event loop does the rest.",
    )


class ReplicationConfigs(Declarations, section=REPLICATION):
    """Followers, purgatories, elections.

    Kafka: `ReplicationConfigs`.
    """

    controller_socket_timeout_ms = integer(
        "30000", MEDIUM, section=SERVER, doc="How long the controller waits for a broker's answer, in ms."
    )
    default_replication_factor = integer(
        "1", MEDIUM, section=SERVER, doc="Replicas of a new topic's partitions when nobody says how many."
    )
    # 10 s until KIP-537 (Kafka 2.5): short pauses of a broker changed the ISR.
    replica_lag_time_max_ms = long(
        "30000", HIGH, doc="After how long without catching up a follower is no longer in sync, in ms."
    )
    replica_socket_timeout_ms = integer(
        "30000", HIGH, doc="How long a follower waits for its leader's answer, in ms."
    )
    replica_socket_receive_buffer_bytes = integer(
        "65536", HIGH, doc="Receive buffer of a follower's sockets in bytes."
    )
    replica_fetch_max_bytes = integer(
        "1048576", MEDIUM, at_least(0), doc="Most bytes that a follower fetches of one partition at a time."
    )
    replica_fetch_wait_max_ms = integer(
        "500", HIGH, doc="How long a leader may hold a follower's fetch when there is nothing new, in ms."
    )
    replica_fetch_backoff_ms = integer(
        "1000", MEDIUM, at_least(0), doc="Pause of a follower after a failed fetch, in ms."
    )
    replica_fetch_min_bytes = integer("1", HIGH, doc="Bytes that a follower's fetch waits for.")
    replica_fetch_response_max_bytes = integer(
        "10485760", MEDIUM, at_least(0), doc="Most bytes in one answer to a follower."
    )
    num_replica_fetchers = integer("1", HIGH, update=CLUSTER_WIDE, doc="Fetchers for each leading broker.")
    replica_high_watermark_checkpoint_interval_ms = long(
        "5000", HIGH, doc="How often high watermarks are noted on disk, in ms."
    )
    # Kafka's purgatories keep operations that are done in the lists of their keys until then; here they are
    # taken out at once, and the three change nothing.
    fetch_purgatory_purge_interval_requests = integer(
        "1000", MEDIUM, doc="After how many finished fetches the waiting ones are tidied up."
    )
    producer_purgatory_purge_interval_requests = integer(
        "1000", MEDIUM, doc="After how many finished produce requests the waiting ones are tidied up."
    )
    delete_records_purgatory_purge_interval_requests = integer(
        "1", MEDIUM, doc="After how many finished deletions the waiting ones are tidied up."
    )
    auto_leader_rebalance_enable = boolean(
        "true",
        HIGH,
        section=SERVER,
        doc="Whether leaderships go back to the preferred replicas by themselves.",
    )
    leader_imbalance_check_interval_seconds = long(
        "300",
        HIGH,
        at_least(1),
        section=SERVER,
        doc="How often misplaced leaderships are looked for, in seconds.",
    )
    unclean_leader_election_interval_ms = long(
        "300000",
        MEDIUM,
        at_least(1),
        section=SERVER,
        internal=True,
        doc="How often leaderless partitions are looked at for an unclean election, in ms.",
    )
    unclean_leader_election_enable = boolean(
        "false",
        HIGH,
        update=CLUSTER_WIDE,
        section=SERVER,
        doc="Whether a replica that is not in sync may lead, at the price of lost records.",
    )
    security_inter_broker_protocol = string(
        "PLAINTEXT",
        MEDIUM,
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        section=LISTENERS,
        doc="Security protocol between brokers, where no listener is named for it.",
    )
    inter_broker_listener_name = string(
        None, MEDIUM, section=LISTENERS, doc="Listener that brokers talk to each other by."
    )
    # KIP-392: a replica in the consumer's own rack; without a class the leader alone.
    replica_selector_class = string(
        None, MEDIUM, doc="Class that tells consumers which replica to read from."
    )
    follower_fetch_last_tiered_offset_enable = boolean(
        "false",
        MEDIUM,
        update=CLUSTER_WIDE,
        doc="Whether a new follower begins behind what is in remote storage.",
    )
