"""Configs as keywords: their names and types, for type checkers.

Made by tests/client/test_config_dicts.py of the declarations in `odradek.client.config` and
`odradek.client.security`, which say the rest; UPDATE_DOCS=1 writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, Literal, TypedDict

from odradek.client.type_variables import (
    Deserializer,
    HasToken,
    K_co,
    K_contra,
    Serializer,
    V_co,
    V_contra,
)

if TYPE_CHECKING:
    from odradek.client.core.assignors import Assignor
    from odradek.client.core.partitioners import Partitioner
    from odradek.sasl.token_providers import TokenProvider


class CommonConfigs(TypedDict, total=False):
    """Those of all clients."""

    client_rack: str
    metadata_max_age_ms: int
    default_api_timeout_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    connections_max_idle_ms: int
    socket_connection_setup_timeout_ms: int
    socket_connection_setup_timeout_max_ms: int
    send_buffer_bytes: int
    receive_buffer_bytes: int
    security_protocol: str
    receive_message_max_bytes: int
    api_version_request: bool
    broker_version_fallback: Literal["0.8.2", "0.9.0"]
    sasl_jaas_config: str
    sasl_kerberos_service_name: str
    sasl_login_connect_timeout_ms: int
    sasl_login_read_timeout_ms: int
    sasl_mechanism: str
    sasl_mechanisms: str
    sasl_oauth_token_provider: TokenProvider | HasToken
    sasl_oauthbearer_assertion_algorithm: str
    sasl_oauthbearer_assertion_claim_aud: str
    sasl_oauthbearer_assertion_claim_exp_seconds: int
    sasl_oauthbearer_assertion_claim_iss: str
    sasl_oauthbearer_assertion_claim_jti_include: bool
    sasl_oauthbearer_assertion_claim_nbf_seconds: int
    sasl_oauthbearer_assertion_claim_sub: str
    sasl_oauthbearer_assertion_file: str
    sasl_oauthbearer_assertion_private_key_file: str
    sasl_oauthbearer_assertion_private_key_passphrase: str
    sasl_oauthbearer_assertion_template_file: str
    sasl_oauthbearer_client_credentials_client_id: str
    sasl_oauthbearer_client_credentials_client_secret: str
    sasl_oauthbearer_header_urlencode: bool
    sasl_oauthbearer_jwt_retriever_class: str
    sasl_oauthbearer_scope: str
    sasl_oauthbearer_token_endpoint_url: str
    sasl_password: str
    sasl_plain_password: str
    sasl_plain_username: str
    sasl_username: str
    ssl_cipher_suites: str | Sequence[str]
    ssl_enabled_protocols: str | Sequence[str]
    ssl_endpoint_identification_algorithm: str
    ssl_engine_factory_class: str
    ssl_key_password: str
    ssl_keymanager_algorithm: str
    ssl_keystore_certificate_chain: str
    ssl_keystore_key: str
    ssl_keystore_location: str
    ssl_keystore_password: str
    ssl_keystore_type: str
    ssl_protocol: str
    ssl_provider: str
    ssl_secure_random_implementation: str
    ssl_trustmanager_algorithm: str
    ssl_truststore_certificates: str
    ssl_truststore_location: str
    ssl_truststore_password: str
    ssl_truststore_type: str


class SendConfigs(CommonConfigs, total=False):
    """A producer's, but for those that not all such clients take."""

    acks: Literal["all", -1, 0, 1]
    enable_idempotence: bool
    linger_ms: int
    batch_size: int
    buffer_memory: int
    max_block_ms: int
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"]
    compression_gzip_level: int | None
    compression_lz4_level: int | None
    compression_zstd_level: int | None
    retries: int
    delivery_timeout_ms: int
    max_in_flight_requests_per_connection: int
    max_request_size: int
    metadata_max_idle_ms: int
    partitioner: Partitioner | type[Partitioner] | str | None
    partitioner_ignore_keys: bool
    partitioner_adaptive_partitioning_enable: bool
    partitioner_availability_timeout_ms: int
    stats_cb: Callable[[str], object] | None
    statistics_interval_ms: int
    interceptors: Sequence[object]
    transaction_timeout_ms: int
    transaction_two_phase_commit_enable: bool


class ProducerConfigs(SendConfigs, Generic[K_contra, V_contra], total=False):
    """A producer's."""

    bootstrap_servers: str | Sequence[str | tuple[str, int]]
    client_id: str
    request_timeout_ms: int
    key_serializer: Serializer[K_contra]
    value_serializer: Serializer[V_contra]
    transactional_id: str | None


class ReadConfigs(CommonConfigs, total=False):
    """A consumer's, but for those that not all such clients take."""

    group_id: str | None
    group_instance_id: str | None
    auto_offset_reset: Literal["latest", "earliest", "none"]
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    enable_auto_offset_store: bool
    max_poll_records: int
    max_poll_interval_ms: int
    session_timeout_ms: int
    heartbeat_interval_ms: int
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    isolation_level: Literal["read_uncommitted", "read_committed"]
    check_crcs: bool
    partition_assignment_strategy: str | Sequence[str | Assignor | type[Assignor]]
    stats_cb: Callable[[str], object] | None
    statistics_interval_ms: int
    interceptors: Sequence[object]
    exclude_internal_topics: bool
    allow_auto_create_topics: bool
    group_protocol: Literal["classic", "consumer"]


class ConsumerConfigs(ReadConfigs, Generic[K_co, V_co], total=False):
    """A consumer's."""

    bootstrap_servers: str | Sequence[str | tuple[str, int]]
    client_id: str
    request_timeout_ms: int
    key_deserializer: Deserializer[K_co]
    value_deserializer: Deserializer[V_co]


class AdminConfigs(CommonConfigs, total=False):
    """An admin client's."""

    bootstrap_servers: str | Sequence[str | tuple[str, int]]
    client_id: str
    request_timeout_ms: int
    retries: int
