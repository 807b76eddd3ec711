"""Configs that stand in no `server.properties` of Kafka: dynamic quotas of a broker, and those of our own."""

from __future__ import annotations

from odradek.broker.config.declaration import (
    METRICS,
    OWN,
    PER_BROKER,
    REPLICATION,
    Declarations,
    boolean,
    integer,
    long,
    password,
    string,
)
from odradek.cluster.configs.config_def import LOW, MEDIUM, Validator, at_least, between, one_of
from odradek.records.compression import MAX_DECOMPRESSED_BYTES


def _why_no_release(value: object) -> str | None:
    from odradek.broker.kafka_versions.release import UnknownReleaseError, find

    try:
        find(str(value))
    except UnknownReleaseError as error:
        return str(error)
    return None


_KAFKA_RELEASE = Validator("a release of Kafka from 0.8.2 on, such as 2.2", _why_no_release)


class DynamicOnlyConfigs(Declarations, section=METRICS):
    """Quotas for copying replicas."""

    leader_replication_throttled_rate = long(
        "9223372036854775807",
        MEDIUM,
        at_least(0),
        update=PER_BROKER,
        section=REPLICATION,
        doc="Most bytes a second to followers, of the replicas that are limited.",
    )
    follower_replication_throttled_rate = long(
        "9223372036854775807",
        MEDIUM,
        at_least(0),
        update=PER_BROKER,
        section=REPLICATION,
        doc="Most bytes a second from leaders, of the replicas that are limited.",
    )
    replica_alter_log_dirs_io_max_bytes_per_second = long(
        "9223372036854775807",
        MEDIUM,
        at_least(0),
        update=PER_BROKER,
        section=REPLICATION,
        doc="Most bytes a second when replicas move between log directories.",
    )


class OwnConfigs(Declarations, section=OWN):
    """Names that begin with `odradek.`."""

    odradek_authentication_timeout_ms = integer(
        "30000",
        MEDIUM,
        at_least(1),
        doc="How long a login at a SASL listener may take, in ms; then the connection is closed.",
    )
    odradek_batch_unpacked_max_bytes = integer(
        str(MAX_DECOMPRESSED_BYTES),
        MEDIUM,
        between(1, MAX_DECOMPRESSED_BYTES),
        doc="How far the records of one batch may unpack, in bytes; beyond it a Produce is answered with "
        "MESSAGE_TOO_LARGE.",
    )
    odradek_unpacked_bytes_per_second = long(
        "1073741824",
        MEDIUM,
        at_least(0),
        doc="How many bytes a second large batches unpack to, in all of the broker's threads together; those "
        "that come beyond it wait. Small ones are not counted. 0 for no limit.",
    )
    odradek_jaas_config_file = string(
        None,
        MEDIUM,
        doc="A JAAS file, as Java reads it by java.security.auth.login.config, with the login modules that "
        "no sasl.jaas.config gives: in its contexts <listener>.KafkaServer and KafkaServer. Its context "
        "Client says who the broker is to ZooKeeper, unless odradek.zookeeper.auth says it.",
    )
    odradek_event_loop_stall_ms = integer(
        "50",
        LOW,
        at_least(0),
        doc="After how long without a sign of life from the event loop a line is logged that says "
        "how long it was held up and where; 0 for never.",
    )
    odradek_group_coordinator_max_bytes = long(
        "134217728",
        MEDIUM,
        at_least(1),
        doc="Most memory that the members of all groups take together, in bytes; at the limit "
        "JoinGroup is answered with COORDINATOR_NOT_AVAILABLE, and clients try again.",
    )
    odradek_group_max_bytes = integer(
        "16777216",
        MEDIUM,
        at_least(1),
        doc="Most memory that the members of one group take together, in bytes; beyond it JoinGroup "
        "is answered with GROUP_MAX_SIZE_REACHED.",
    )
    odradek_group_member_max_bytes = integer(
        "1048576",
        MEDIUM,
        at_least(1),
        doc="Most memory that one member of a group takes, in bytes: its name and the metadata of "
        "all of its protocols; beyond it JoinGroup is answered with MESSAGE_TOO_LARGE.",
    )
    odradek_insecure = boolean(
        "false",
        MEDIUM,
        doc="Start although configs ask for security, or for a cluster of several brokers, that "
        "there is not yet: everybody may do everything, and nothing is encrypted. Each such "
        "config is warned about.",
    )
    odradek_kafka_version = string(
        None,
        MEDIUM,
        _KAFKA_RELEASE,
        doc="Release of Kafka that the broker is to be: its APIs and versions, its defaults, its "
        "answers; without it everything that there is.",
    )
    odradek_metrics_host = string(
        "127.0.0.1",
        LOW,
        doc="Address at which metrics are served; whoever reaches it reads all of them, without a login.",
    )
    odradek_metrics_port = integer(
        "-1",
        LOW,
        between(-1, 65535),
        doc="Port of HTTP with the broker's metrics and health; 0 for a free one, which is logged; -1 for "
        "none. Workers count on from it.",
    )
    odradek_producer_id_creation_rate = integer(
        "100",
        MEDIUM,
        at_least(0),
        doc="Producer ids that one user may have made from one address in a second; those of ten "
        "seconds at once. Beyond it the client is throttled: throttle_time_ms, and its "
        "connection waits. 0 for no limit.",
    )
    odradek_producer_ids_max = integer(
        "250000",
        MEDIUM,
        at_least(1),
        doc="Most producer ids that are remembered in all partitions together; beyond it those that "
        "were idle longest in the partitions that have most are forgotten. None with an open "
        "transaction is.",
    )
    odradek_producer_ids_per_partition_max = integer(
        "10000",
        MEDIUM,
        at_least(1),
        doc="Most producer ids that one partition remembers; beyond it those that were idle longest "
        "are forgotten. None with an open transaction is.",
    )
    odradek_refuse_damaged_logs = boolean(
        "false",
        MEDIUM,
        doc="Refuse to start while the files of any partition are damaged. Without it such a "
        "partition is offline, told in the log, in metrics and in Metadata, and all others are "
        "served.",
    )
    odradek_store_socket = string(
        None,
        LOW,
        internal=True,
        doc="Socket of the metadata store that the workers of one machine share, as given to each of "
        "them by the process that runs them.",
    )
    odradek_zookeeper_auth = string(
        None,
        MEDIUM,
        one_of("digest", "DIGEST-MD5", "GSSAPI"),
        doc="How the broker says to ZooKeeper who it is: `digest` is ZooKeeper's own scheme, the others are "
        "SASL. Without it, that is what the context Client of odradek.jaas.config.file says, as in Kafka; "
        "from there `GSSAPI` takes its key table, too, and without one the ticket of the cache. "
        "`zookeeper.set.acl` needs one of them.",
    )
    odradek_zookeeper_username = string(
        None, MEDIUM, doc="The broker's name at ZooKeeper, for `digest` and `DIGEST-MD5`."
    )
    odradek_zookeeper_password = password(None, MEDIUM, doc="The password that goes with that name.")
    odradek_zookeeper_service_name = string(
        "zookeeper", LOW, doc="The name of ZooKeeper's Kerberos principal, for `GSSAPI`."
    )
