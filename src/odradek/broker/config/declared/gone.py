"""Configs that Kafka 4.3 no longer has. They are still understood; older releases list them."""

from __future__ import annotations

from odradek.broker.config.declaration import (
    CLUSTER_WIDE,
    GROUPS,
    KRAFT,
    LISTENERS,
    LOGS,
    METRICS,
    SECURITY,
    SERVER,
    ZOOKEEPER,
    Declarations,
    boolean,
    integer,
    long,
    password,
    short,
    string,
    text_list,
)
from odradek.cluster.configs.config_def import HIGH, LOW, MEDIUM, at_least, between, release


class GoneConfigs(Declarations, section=ZOOKEEPER):
    """Those of ZooKeeper, of old formats and of old protocols between brokers."""

    zookeeper_connect = string(
        None, HIGH, doc="ZooKeeper's addresses, HOST:PORT separated by commas, with an optional path behind."
    )
    zookeeper_session_timeout_ms = integer(
        "18000", HIGH, doc="After how long without contact the session ends, in ms."
    )
    zookeeper_connection_timeout_ms = integer(
        None, HIGH, doc="How long connecting may take, in ms; without it the session timeout."
    )
    zookeeper_set_acl = boolean("false", HIGH, doc="Whether nodes are protected with ACLs.")
    zookeeper_max_in_flight_requests = integer("10", HIGH, at_least(1), doc="Most requests under way.")
    zookeeper_ssl_client_enable = boolean("false", MEDIUM, doc="Whether to connect with TLS.")
    zookeeper_clientCnxnSocket = string(None, MEDIUM, doc="Class of the client's socket; TLS needs Netty's.")  # noqa: N815
    zookeeper_ssl_keystore_location = string(None, MEDIUM, doc="File of the key store for TLS to ZooKeeper.")
    zookeeper_ssl_keystore_password = password(None, MEDIUM, doc="Password of that key store.")
    zookeeper_ssl_keystore_type = string(None, MEDIUM, doc="Type of that key store.")
    zookeeper_ssl_truststore_location = string(
        None, MEDIUM, doc="File of the trust store for TLS to ZooKeeper."
    )
    zookeeper_ssl_truststore_password = password(None, MEDIUM, doc="Password of that trust store.")
    zookeeper_ssl_truststore_type = string(None, MEDIUM, doc="Type of that trust store.")
    zookeeper_ssl_protocol = string("TLSv1.2", LOW, doc="TLS version to ZooKeeper.")
    zookeeper_ssl_enabled_protocols = text_list(None, LOW, doc="TLS versions that are allowed to ZooKeeper.")
    zookeeper_ssl_cipher_suites = text_list(None, LOW, doc="Cipher suites that are allowed to ZooKeeper.")
    zookeeper_ssl_endpoint_identification_algorithm = string(
        "HTTPS", LOW, doc="How ZooKeeper's host name is checked; empty for not at all."
    )
    zookeeper_ssl_crl_enable = boolean("false", LOW, doc="Whether revocation lists are looked at.")
    zookeeper_ssl_ocsp_enable = boolean("false", LOW, doc="Whether certificates are checked online.")
    broker_id_generation_enable = boolean(
        "true", MEDIUM, section=SERVER, doc="Whether a broker without an id gets one from the metadata store."
    )
    reserved_broker_max_id = integer(
        "1000",
        MEDIUM,
        at_least(0),
        section=SERVER,
        doc="Largest id that may be given by hand; generated ones are above it.",
    )
    controlled_shutdown_max_retries = integer(
        "3", MEDIUM, section=SERVER, doc="How often moving leaderships away is tried at a stop."
    )
    controlled_shutdown_retry_backoff_ms = long(
        "5000", MEDIUM, section=SERVER, doc="Pause between two such tries, in ms."
    )
    metadata_log_segment_min_bytes = integer(
        "8388608", HIGH, at_least(12), section=KRAFT, internal=True, doc="Smallest such size."
    )
    zookeeper_metadata_migration_enable = boolean(
        "false", HIGH, doc="Whether metadata moves from ZooKeeper to KRaft."
    )
    eligible_leader_replicas_enable = boolean(
        "false", HIGH, section=KRAFT, doc="Whether KRaft keeps eligible leader replicas."
    )
    zookeeper_metadata_migration_min_batch_size = integer(
        "200", MEDIUM, at_least(1), internal=True, doc="Smallest batch of records in that move."
    )
    control_plane_listener_name = string(
        None, HIGH, section=LISTENERS, doc="Listener for the controller's requests alone."
    )
    leader_imbalance_per_broker_percentage = integer(
        "10", HIGH, section=SERVER, doc="Share in percent of misplaced leaderships that sets that off."
    )
    inter_broker_protocol_version = string(
        "3.9-IV0",
        MEDIUM,
        release,
        section=LISTENERS,
        doc="Release whose protocol the brokers of a cluster speak with each other.",
    )
    group_coordinator_new_enable = boolean(
        "false", MEDIUM, section=GROUPS, internal=True, doc="Whether the new group coordinator is used."
    )
    offsets_commit_required_acks = short(
        "-1", HIGH, section=GROUPS, doc="Acknowledgements that a commit waits for: -1 for all in sync."
    )
    log_message_format_version = string(
        "3.0-IV1",
        MEDIUM,
        release,
        section=LOGS,
        doc="Record format of old releases; without effect since 3.0.",
    )
    log_message_timestamp_difference_max_ms = long(
        "9223372036854775807",
        MEDIUM,
        at_least(0),
        update=CLUSTER_WIDE,
        section=LOGS,
        doc="How far a record's time may be from the broker's, in ms; replaced by two.",
    )
    log_message_downconversion_enable = boolean(
        "true",
        LOW,
        update=CLUSTER_WIDE,
        section=LOGS,
        doc="Whether records are converted for consumers that know only older formats.",
    )
    group_share_enable = boolean(
        "false", MEDIUM, section=GROUPS, internal=True, doc="Whether share groups are served."
    )
    group_share_max_groups = short("10", MEDIUM, between(1, 100), section=GROUPS, doc="Most share groups.")
    auto_include_jmx_reporter = boolean(
        "true", LOW, section=METRICS, doc="Whether metrics are reported over JMX."
    )
    delegation_token_master_key = password(
        None, MEDIUM, section=SECURITY, doc="Older name of delegation.token.secret.key."
    )
    password_encoder_secret = password(
        None, MEDIUM, section=SECURITY, doc="Key that passwords in dynamic configs are encrypted with."
    )
    password_encoder_old_secret = password(
        None, MEDIUM, section=SECURITY, doc="The key before, while it is being replaced."
    )
    password_encoder_keyfactory_algorithm = string(
        None, LOW, section=SECURITY, doc="Algorithm that makes the key."
    )
    password_encoder_cipher_algorithm = string(
        "AES/CBC/PKCS5Padding", LOW, section=SECURITY, doc="Cipher that passwords are encrypted with."
    )
    password_encoder_key_length = integer(
        "128", LOW, at_least(8), section=SECURITY, doc="Length of the key in bits."
    )
    password_encoder_iterations = integer(
        "4096", LOW, at_least(1024), section=SECURITY, doc="Iterations that make the key."
    )
    host_name = string("", HIGH, section=LISTENERS, doc="Address to listen on, before `listeners`.")
    port = integer("9092", HIGH, section=LISTENERS, doc="Port to listen on, before `listeners`.")
    advertised_host_name = string(
        None, HIGH, section=LISTENERS, doc="Host that clients are told, before `advertised.listeners`."
    )
    advertised_port = integer(
        None, HIGH, section=LISTENERS, doc="Port that clients are told, before `advertised.listeners`."
    )
    quota_producer_default = long(
        "9223372036854775807",
        HIGH,
        at_least(1),
        section=SERVER,
        doc="Bytes a second that a client may produce where no quota is set, before 3.0.",
    )
    quota_consumer_default = long(
        "9223372036854775807",
        HIGH,
        at_least(1),
        section=SERVER,
        doc="Bytes a second that a client may fetch where no quota is set, before 3.0.",
    )
    zookeeper_sync_time_ms = integer(
        "2000", LOW, doc="By how much a ZooKeeper follower may be behind, in ms; nothing goes by it."
    )
