"""Names of configs in other clients that Kafka's clients do not have, and what does the same here.

They are librdkafka's (CONFIGURATION.md; confluent-kafka for Python adds some), kafka-python's
(`DEFAULT_CONFIG`), aiokafka's (its constructors' arguments) and faust's (the settings of `faust.App` that are
about Kafka). Those that are Kafka's own names are not listed: they work as they are. The tests hold the table
against the releases that are installed; the tables of docs/coming_from are made from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Here(NamedTuple):
    """The config to be written in place of a name.

    Attributes:
        config: the config that does the same, under Kafka's name; '' where none does.
        remark: what else is to be known; without a config what to do instead.
    """

    config: str
    remark: str = ""


def _no_config(remark: str = "there is nothing like it here") -> Here:
    return Here("", remark)


_TRUST = Here("ssl.truststore.location", "with ssl.truststore.type=PEM")
_KEY = Here("ssl.keystore.location", "a file with key and certificates, with ssl.keystore.type=PEM")
_METRICS = _no_config("metrics() gives figures as of now")
_LOGGING = _no_config("clients write to the logger 'odradek.client' of Python's logging")
_ON_DELIVERY = _no_config("send takes on_delivery")
_ON_COMMIT = _no_config("commit_async takes a callback")
_TOKENS = Here("sasl.oauth.token.provider", "a function, or an object with a method token")
_JAAS = Here("sasl.jaas.config")
_VERSIONS = Here("broker.version.fallback", "for brokers before 0.10; versions are asked for unbidden")
_CONTEXT = Here("ssl.truststore.location", "and ssl.keystore.location: the context is made of these")
_PROXY = _no_config("clients connect to brokers themselves")

LIBRDKAFKA: Mapping[str, Here] = {
    "metadata.broker.list": Here("bootstrap.servers"),
    "message.max.bytes": Here("max.request.size"),
    "max.in.flight": Here("max.in.flight.requests.per.connection"),
    "topic.metadata.refresh.interval.ms": Here("metadata.max.age.ms"),
    "topic.metadata.refresh.fast.interval.ms": Here("retry.backoff.ms"),
    "topic.metadata.propagation.max.ms": Here("max.block.ms", "it bounds how long send waits for a topic"),
    "socket.timeout.ms": Here("request.timeout.ms"),
    "socket.send.buffer.bytes": Here("send.buffer.bytes"),
    "socket.receive.buffer.bytes": Here("receive.buffer.bytes"),
    "socket.nagle.disable": _no_config("Nagle's algorithm is off"),
    "reconnect.backoff.jitter.ms": Here("reconnect.backoff.ms", "there is always jitter"),
    "api.version.request.timeout.ms": Here("socket.connection.setup.timeout.ms"),
    "throttle_cb": _METRICS,
    "debug": _LOGGING,
    "error_cb": _LOGGING,
    "log_cb": _LOGGING,
    "log_level": _LOGGING,
    "log.queue": _LOGGING,
    "log.thread.name": _LOGGING,
    "log.connection.close": _LOGGING,
    "logger": _LOGGING,
    "default_topic_conf": _no_config("give its configs beside the others"),
    "default.topic.config": _no_config("give its configs beside the others"),
    "plugin.library.paths": Here("interceptor.classes", "objects of Python's"),
    # TLS
    "ssl.ca.location": _TRUST,
    "ssl.ca.pem": Here("ssl.truststore.certificates", "with ssl.truststore.type=PEM"),
    "ssl_ca": Here("ssl.truststore.certificates", "with ssl.truststore.type=PEM"),
    "ssl.certificate.location": _KEY,
    "ssl.key.location": _KEY,
    "ssl.certificate.pem": Here("ssl.keystore.certificate.chain", "with ssl.keystore.type=PEM"),
    "ssl_certificate": Here("ssl.keystore.certificate.chain", "with ssl.keystore.type=PEM"),
    "ssl.key.pem": Here("ssl.keystore.key", "with ssl.keystore.type=PEM"),
    "ssl_key": Here("ssl.keystore.key", "with ssl.keystore.type=PEM"),
    "enable.ssl.certificate.verification": _no_config("certificates are verified; a trust store says whose"),
    # SASL
    "sasl.kerberos.principal": _JAAS,
    "sasl.kerberos.keytab": _JAAS,
    "sasl.oauthbearer.config": _JAAS,
    "oauthbearer_token_refresh_cb": _TOKENS,
    "oauth_cb": _TOKENS,
    "sasl.oauthbearer.method": Here("sasl.oauthbearer.token.endpoint.url", "by it tokens are fetched"),
    "sasl.oauthbearer.client.id": Here("sasl.oauthbearer.client.credentials.client.id"),
    "sasl.oauthbearer.client.secret": Here("sasl.oauthbearer.client.credentials.client.secret"),
    "sasl.oauthbearer.grant.type": Here("sasl.oauthbearer.jwt.retriever.class"),
    "sasl.oauthbearer.assertion.private.key.pem": Here("sasl.oauthbearer.assertion.private.key.file"),
    "sasl.oauthbearer.assertion.jwt.template.file": Here("sasl.oauthbearer.assertion.template.file"),
    # Consumers
    "fetch.wait.max.ms": Here("fetch.max.wait.ms"),
    "fetch.message.max.bytes": Here("max.partition.fetch.bytes"),
    "fetch.error.backoff.ms": Here("retry.backoff.ms"),
    "consume.callback.max.messages": Here("max.poll.records"),
    "auto.commit.enable": Here("enable.auto.commit"),
    "enable.partition.eof": _no_config("position and end_offsets say where the end is"),
    "rebalance_cb": _no_config("subscribe takes a listener"),
    "consume_cb": _no_config("poll returns records, and a loop over the consumer gives them one by one"),
    "offset_commit_cb": _ON_COMMIT,
    "on_commit": _ON_COMMIT,
    # Producers
    "message.timeout.ms": Here("delivery.timeout.ms"),
    "queue.buffering.max.ms": Here("linger.ms"),
    "queue.buffering.max.kbytes": Here("buffer.memory", "in bytes"),
    "queue.buffering.max.messages": Here("buffer.memory", "in bytes"),
    "message.send.max.retries": Here("retries"),
    "request.required.acks": Here("acks"),
    "compression.codec": Here("compression.type"),
    "compression.level": Here("compression.zstd.level", "or that of another codec"),
    "batch.num.messages": Here("batch.size", "in bytes"),
    "partitioner_cb": Here("partitioner.class", "a function, too"),
    "dr_cb": _ON_DELIVERY,
    "dr_msg_cb": _ON_DELIVERY,
    "on_delivery": _ON_DELIVERY,
    "delivery.report.only.error": _ON_DELIVERY,
    **dict.fromkeys(
        [
            "builtin.features",
            "message.copy.max.bytes",
            "topic.metadata.refresh.fast.cnt",
            "topic.metadata.refresh.sparse",
            "topic.blacklist",
            "socket.blocking.max.ms",
            "socket.keepalive.enable",
            "socket.max.fails",
            "broker.address.ttl",
            "broker.address.family",
            "enabled_events",
            "enable.random.seed",
            "background_event_cb",
            "socket_cb",
            "connect_cb",
            "closesocket_cb",
            "open_cb",
            "resolve_cb",
            "opaque",
            "internal.termination.signal",
            "api.version.fallback.ms",
            "ssl.curves.list",
            "ssl.sigalgs.list",
            "ssl.ca.certificate.stores",
            "ssl.crl.location",
            "ssl.providers",
            "ssl.engine.location",
            "ssl.engine.id",
            "ssl_engine_callback_data",
            "ssl.certificate.verify_cb",
            "https.ca.location",
            "https.ca.pem",
            "enable.sasl.oauthbearer.unsecure.jwt",
            "sasl.oauthbearer.extensions",
            "sasl.oauthbearer.sub.claim.name",
            "sasl.oauthbearer.metadata.authentication.type",
            "group.protocol.type",
            "coordinator.query.interval.ms",
            "queued.min.messages",
            "queued.max.messages.kbytes",
            "fetch.queue.backoff.ms",
            "offset.store.method",
            "offset.store.path",
            "offset.store.sync.interval.ms",
            "share.acknowledgement.mode",
            "enable.gapless.guarantee",
            "queue.buffering.backpressure.threshold",
            "sticky.partitioning.linger.ms",
            "queuing.strategy",
            "produce.offset.report",
            "msg_order_cmp",
        ],
        _no_config(),
    ),
}

KAFKA_PYTHON: Mapping[str, Here] = {
    "api_version": _VERSIONS,
    "api_version_auto_timeout_ms": Here("socket.connection.setup.timeout.ms"),
    "bootstrap_timeout_ms": Here("default.api.timeout.ms"),
    "consumer_timeout_ms": _no_config(
        "an iteration has no end; poll(timeout_ms=…) returns an empty list when nothing has come"
    ),
    "default_offset_commit_callback": _ON_COMMIT,
    "metrics_enabled": _METRICS,
    "metric_group_prefix": _METRICS,
    "proxy_url": _PROXY,
    "socks5_proxy": _PROXY,
    "socket_options": Here("send.buffer.bytes", "and receive.buffer.bytes; Nagle's algorithm is off"),
    "ssl_cafile": _TRUST,
    "ssl_certfile": _KEY,
    "ssl_keyfile": _KEY,
    "ssl_password": Here("ssl.key.password"),
    "ssl_check_hostname": Here("ssl.endpoint.identification.algorithm", "'https', or '' not to check"),
    "ssl_ciphers": Here("ssl.cipher.suites"),
    "ssl_context": _CONTEXT,
    **dict.fromkeys(
        [
            "enable_incremental_fetch_sessions",
            "kafka_client",
            "selector",
            "ssl_crlfile",
            "sasl_kerberos_name",
            "sasl_kerberos_domain_name",
        ],
        _no_config(),
    ),
}

AIOKAFKA: Mapping[str, Here] = {
    "loop": _no_config("a client belongs to the loop that it begins in"),
    "max_batch_size": Here("batch.size"),
    "rebalance_timeout_ms": Here("max.poll.interval.ms"),
}

_SECONDS = "in milliseconds, there in seconds"
_NO_TOPICS = _no_config("Admin.create_topics makes topics, NewTopic says how")

FAUST: Mapping[str, Here] = {
    "broker": Here("bootstrap.servers", "without kafka://"),
    "broker_consumer": Here("bootstrap.servers", "without kafka://"),
    "broker_producer": Here("bootstrap.servers", "without kafka://"),
    "broker_client_id": Here("client.id"),
    "broker_api_version": _VERSIONS,
    "consumer_api_version": _VERSIONS,
    "producer_api_version": _VERSIONS,
    "broker_credentials": Here("sasl.mechanism", "and sasl.jaas.config, security.protocol"),
    "broker_request_timeout": Here("request.timeout.ms", _SECONDS),
    "producer_request_timeout": Here("request.timeout.ms", _SECONDS),
    "consumer_metadata_max_age_ms": Here("metadata.max.age.ms"),
    "producer_metadata_max_age_ms": Here("metadata.max.age.ms"),
    "consumer_connections_max_idle_ms": Here("connections.max.idle.ms"),
    "producer_connections_max_idle_ms": Here("connections.max.idle.ms"),
    # Consumers
    "broker_check_crcs": Here("check.crcs"),
    "broker_commit_interval": Here("auto.commit.interval.ms", _SECONDS),
    "broker_commit_every": _no_config("commit() commits when the program says"),
    "broker_heartbeat_interval": Here("heartbeat.interval.ms", _SECONDS),
    "broker_max_poll_interval": Here("max.poll.interval.ms", _SECONDS),
    "broker_rebalance_timeout": Here("max.poll.interval.ms", _SECONDS),
    "broker_max_poll_records": Here("max.poll.records"),
    "broker_session_timeout": Here("session.timeout.ms", _SECONDS),
    "consumer_auto_offset_reset": Here("auto.offset.reset"),
    "consumer_group_instance_id": Here("group.instance.id"),
    "consumer_max_fetch_size": Here("max.partition.fetch.bytes"),
    "PartitionAssignor": Here("partition.assignment.strategy"),
    # Producers
    "producer_acks": Here("acks"),
    "producer_compression_type": Here("compression.type"),
    "producer_linger": Here("linger.ms", _SECONDS),
    "producer_linger_ms": Here("linger.ms"),
    "producer_max_batch_size": Here("batch.size"),
    "producer_max_request_size": Here("max.request.size"),
    "producer_partitioner": Here("partitioner.class", "called with topic, key, value, partitions, available"),
    "producer_threaded": _no_config("every client sends in the background"),
    "processing_guarantee": Here("transactional.id", "and client.processing.process"),
    # Topics
    "topic_allow_declare": _NO_TOPICS,
    "topic_disable_leader": _NO_TOPICS,
    "topic_partitions": _NO_TOPICS,
    "topic_replication_factor": _NO_TOPICS,
    **dict.fromkeys(
        [
            "broker_commit_livelock_soft_timeout",
            "stream_buffer_maxsize",
            "stream_processing_timeout",
            "stream_publish_on_commit",
            "stream_recovery_delay",
            "stream_wait_empty",
            "store",
            "table_cleanup_interval",
            "table_key_index_size",
            "table_standby_replicas",
            "reply_create_topic",
            "reply_expires",
            "reply_to",
            "reply_to_prefix",
        ],
        _no_config(),
    ),
}

ELSEWHERE: Mapping[str, Here] = {
    name.replace(".", "_"): here
    for names in (LIBRDKAFKA, KAFKA_PYTHON, AIOKAFKA, FAUST)
    for name, here in names.items()
}
"""All of them, in Python's spelling."""
