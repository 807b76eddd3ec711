"""Logins, encryption, delegation tokens."""

from __future__ import annotations

from odradek.broker.config.declaration import (
    LISTENERS,
    PER_BROKER,
    SECURITY,
    SERVER,
    TRANSACTIONS,
    Declarations,
    boolean,
    class_name,
    double,
    integer,
    long,
    password,
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


class SecurityConfigs(Declarations, section=SECURITY):
    """Logins, encryption, delegation tokens."""

    client_quota_callback_class = class_name(
        None, LOW, section=SERVER, doc="Class that computes clients' quotas."
    )
    connections_max_reauth_ms = long(
        "0",
        MEDIUM,
        section=LISTENERS,
        doc="How long an authenticated connection lasts before it must authenticate again, in ms.",
    )
    sasl_server_max_receive_size = integer(
        "524288", MEDIUM, doc="Largest SASL message in bytes before a client has authenticated."
    )
    security_providers = string(None, LOW, section=SERVER, doc="Classes of security providers.")
    principal_builder_class = class_name(
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        MEDIUM,
        update=PER_BROKER,
        doc="Class that makes a principal of who has authenticated.",
    )
    ssl_client_auth = string(
        "none",
        MEDIUM,
        one_of("required", "requested", "none"),
        update=PER_BROKER,
        doc="Whether clients must, may or need not show a certificate.",
    )
    ssl_principal_mapping_rules = string(
        "DEFAULT", LOW, doc="Rules that make user names of certificates' names."
    )
    ssl_allow_dn_changes = boolean("false", LOW, doc="Whether a renewed certificate may have another name.")
    ssl_allow_san_changes = boolean(
        "false", LOW, doc="Whether a renewed certificate may have other alternative names."
    )
    ssl_protocol = string("TLSv1.3", MEDIUM, update=PER_BROKER, doc="TLS version that is preferred.")
    ssl_provider = string(None, MEDIUM, update=PER_BROKER, doc="Security provider for TLS.")
    ssl_enabled_protocols = text_list(
        "TLSv1.2,TLSv1.3", MEDIUM, update=PER_BROKER, doc="TLS versions that are allowed."
    )
    ssl_keystore_type = string(
        "JKS", MEDIUM, update=PER_BROKER, doc="Type of the key store: JKS, PKCS12 or PEM."
    )
    ssl_keystore_location = string(None, MEDIUM, update=PER_BROKER, doc="File of the key store.")
    ssl_keystore_password = password(None, MEDIUM, update=PER_BROKER, doc="Password of the key store.")
    ssl_key_password = password(None, MEDIUM, update=PER_BROKER, doc="Password of the private key.")
    ssl_keystore_key = password(
        None, MEDIUM, update=PER_BROKER, doc="Private key as PEM, in place of a file."
    )
    ssl_keystore_certificate_chain = password(
        None, MEDIUM, update=PER_BROKER, doc="Certificates as PEM, in place of a file."
    )
    ssl_truststore_type = string(
        "JKS", MEDIUM, update=PER_BROKER, doc="Type of the trust store: JKS, PKCS12 or PEM."
    )
    ssl_truststore_location = string(None, MEDIUM, update=PER_BROKER, doc="File of the trust store.")
    ssl_truststore_password = password(None, MEDIUM, update=PER_BROKER, doc="Password of the trust store.")
    ssl_truststore_certificates = password(
        None, MEDIUM, update=PER_BROKER, doc="Trusted certificates as PEM, in place of a file."
    )
    ssl_keymanager_algorithm = string(
        "SunX509", MEDIUM, update=PER_BROKER, doc="Algorithm of the key manager."
    )
    ssl_trustmanager_algorithm = string(
        "PKIX", MEDIUM, update=PER_BROKER, doc="Algorithm of the trust manager."
    )
    ssl_endpoint_identification_algorithm = string(
        "https", LOW, update=PER_BROKER, doc="How host names are checked; empty for not at all."
    )
    ssl_secure_random_implementation = string(
        None, LOW, update=PER_BROKER, doc="Source of randomness for TLS."
    )
    ssl_cipher_suites = text_list(
        "", MEDIUM, update=PER_BROKER, doc="Cipher suites that are allowed; empty for all."
    )
    ssl_engine_factory_class = class_name(None, LOW, update=PER_BROKER, doc="Class that makes TLS engines.")
    sasl_mechanism_inter_broker_protocol = string(
        "GSSAPI", MEDIUM, update=PER_BROKER, doc="SASL mechanism between brokers."
    )
    sasl_enabled_mechanisms = text_list(
        "GSSAPI", MEDIUM, update=PER_BROKER, doc="SASL mechanisms that clients may use."
    )
    sasl_server_callback_handler_class = class_name(None, MEDIUM, doc="Class that checks credentials.")
    sasl_kerberos_principal_to_local_rules = text_list(
        "DEFAULT", MEDIUM, update=PER_BROKER, doc="Rules that make user names of Kerberos principals."
    )
    sasl_jaas_config = password(
        None,
        MEDIUM,
        update=PER_BROKER,
        doc="Login of SASL, in JAAS form; usually under a listener's and mechanism's prefix.",
    )
    sasl_client_callback_handler_class = class_name(
        None, MEDIUM, doc="Class that supplies credentials as a client."
    )
    sasl_login_class = class_name(None, MEDIUM, doc="Class that logs in.")
    sasl_login_callback_handler_class = class_name(
        None, MEDIUM, doc="Class that supplies credentials for a login."
    )
    sasl_kerberos_service_name = string(None, MEDIUM, update=PER_BROKER, doc="Kerberos name of the brokers.")
    sasl_kerberos_kinit_cmd = string("/usr/bin/kinit", MEDIUM, update=PER_BROKER, doc="Path of kinit.")
    sasl_kerberos_ticket_renew_window_factor = double(
        "0.8", MEDIUM, update=PER_BROKER, doc="Share of a ticket's life after which it is renewed."
    )
    sasl_kerberos_ticket_renew_jitter = double(
        "0.05", MEDIUM, update=PER_BROKER, doc="Random share of that time."
    )
    sasl_kerberos_min_time_before_relogin = long(
        "60000", MEDIUM, update=PER_BROKER, doc="Shortest time between logins, in ms."
    )
    sasl_login_refresh_window_factor = double(
        "0.8", MEDIUM, update=PER_BROKER, doc="Share of a credential's life after which it is refreshed."
    )
    sasl_login_refresh_window_jitter = double(
        "0.05", MEDIUM, update=PER_BROKER, doc="Random share of that time."
    )
    sasl_login_refresh_min_period_seconds = short(
        "60", MEDIUM, update=PER_BROKER, doc="Shortest time between refreshes, in seconds."
    )
    sasl_login_refresh_buffer_seconds = short(
        "300",
        MEDIUM,
        update=PER_BROKER,
        doc="Time before the end that is kept free for a refresh, in seconds.",
    )
    sasl_login_connect_timeout_ms = integer(
        None, LOW, doc="How long connecting to an identity provider may take, in ms."
    )
    sasl_login_read_timeout_ms = integer(None, LOW, doc="How long its answer may take, in ms.")
    sasl_login_retry_backoff_max_ms = long("10000", LOW, doc="Longest such pause, in ms.")
    sasl_login_retry_backoff_ms = long("100", LOW, doc="Pause before it is asked again, in ms.")
    sasl_oauthbearer_jwt_retriever_class = class_name(
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        MEDIUM,
        doc="Class that gets tokens.",
    )
    sasl_oauthbearer_jwt_validator_class = class_name(
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        MEDIUM,
        doc="Class that checks tokens.",
    )
    sasl_oauthbearer_scope = string(None, MEDIUM, doc="Scope that a token is asked for.")
    sasl_oauthbearer_client_credentials_client_id = string(None, MEDIUM, doc="Client id of an OAuth client.")
    sasl_oauthbearer_client_credentials_client_secret = password(
        None, MEDIUM, doc="Secret of an OAuth client."
    )
    sasl_oauthbearer_assertion_algorithm = string(
        "RS256",
        MEDIUM,
        one_of_ignoring_case("ES256", "RS256"),
        doc="Algorithm that an assertion is signed with.",
    )
    sasl_oauthbearer_assertion_claim_aud = string(None, MEDIUM, doc="Audience of an assertion.")
    sasl_oauthbearer_assertion_claim_exp_seconds = integer(
        "300", LOW, between(0, 86400), doc="After how many seconds an assertion expires."
    )
    sasl_oauthbearer_assertion_claim_iss = string(None, MEDIUM, doc="Issuer of an assertion.")
    sasl_oauthbearer_assertion_claim_jti_include = boolean(
        "false", MEDIUM, doc="Whether an assertion has an id of its own."
    )
    sasl_oauthbearer_assertion_claim_nbf_seconds = integer(
        "60", LOW, between(0, 3600), doc="How many seconds before now an assertion begins to hold."
    )
    sasl_oauthbearer_assertion_claim_sub = string(None, MEDIUM, doc="Subject of an assertion.")
    sasl_oauthbearer_assertion_file = string(None, MEDIUM, doc="File that holds an assertion.")
    sasl_oauthbearer_assertion_private_key_file = string(
        None, MEDIUM, doc="File of the key that an assertion is signed with."
    )
    sasl_oauthbearer_assertion_private_key_passphrase = password(None, MEDIUM, doc="Passphrase of that key.")
    sasl_oauthbearer_assertion_template_file = string(
        None, MEDIUM, doc="File with an assertion's fixed part."
    )
    sasl_oauthbearer_scope_claim_name = string("scope", LOW, doc="Claim that holds the scope.")
    sasl_oauthbearer_sub_claim_name = string("sub", LOW, doc="Claim that holds the subject.")
    sasl_oauthbearer_token_endpoint_url = string(None, MEDIUM, doc="Address that gives tokens.")
    sasl_oauthbearer_jwks_endpoint_url = string(
        None, MEDIUM, doc="Address of the keys that tokens are checked with."
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms = long(
        "3600000", LOW, doc="How often those keys are fetched, in ms."
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms = long(
        "100", LOW, doc="Pause before they are fetched again after a failure, in ms."
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms = long("10000", LOW, doc="Longest such pause, in ms.")
    sasl_oauthbearer_clock_skew_seconds = integer("30", LOW, doc="By how much clocks may differ, in seconds.")
    sasl_oauthbearer_allow_unverified_audience = boolean(
        "false", MEDIUM, doc="Whether tokens are taken whose audience is not checked."
    )
    sasl_oauthbearer_expected_audience = text_list("", HIGH, doc="Audiences that a token must be for.")
    sasl_oauthbearer_allow_unverified_issuer = boolean(
        "false", MEDIUM, doc="Whether tokens are taken whose issuer is not checked."
    )
    sasl_oauthbearer_expected_issuer = string(None, HIGH, doc="Issuer that a token must be from.")
    delegation_token_secret_key = password(
        None, MEDIUM, doc="Key that delegation tokens are made with; the same on all brokers."
    )
    delegation_token_max_lifetime_ms = long(
        "604800000", MEDIUM, at_least(1), doc="After how long a delegation token ends for good, in ms."
    )
    delegation_token_expiry_time_ms = long(
        "86400000", MEDIUM, at_least(1), doc="After how long a delegation token must be renewed, in ms."
    )
    delegation_token_expiry_check_interval_ms = long(
        "3600000", LOW, at_least(1), doc="How often expired tokens are removed, in ms."
    )
    add_partitions_to_txn_retry_backoff_max_ms = integer(
        "100",
        HIGH,
        at_least(0),
        section=TRANSACTIONS,
        doc="How long it is asked again, in ms; then the producer is told CONCURRENT_TRANSACTIONS.",
    )
    add_partitions_to_txn_retry_backoff_ms = integer(
        "20",
        HIGH,
        at_least(1),
        section=TRANSACTIONS,
        doc="Pause before a coordinator that is still ending the transaction before is asked again, in ms.",
    )
