"""The choice of a broker's metadata store: its own file, the one that workers of a machine share, or
ZooKeeper.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from odradek.broker.folders.store_file import STORE_FILE
from odradek.cluster.configs.config_def import ConfigError
from odradek.cluster.store.embedded import EmbeddedStore

if TYPE_CHECKING:
    import ssl

    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.cluster.store.store import MetadataStore
    from odradek.cluster.store.zookeeper_access import Auth
    from odradek.util.clock import Clock


def is_shared(config: BrokerConfig) -> bool:
    """Return whether the store that `config` names is one that other brokers may use as well."""
    return bool(config.odradek_store_socket or config.zookeeper_connect)


def open_store(config: BrokerConfig, data_dir: Path, clock: Clock) -> MetadataStore:
    """Open the metadata store of a broker, which closes it.

    Args:
        config: its configs: `odradek.store.socket`, else `zookeeper.connect`, else a file of its own.
        data_dir: the first data folder, where the file is.
        clock: gives the file's nodes their times.

    Returns:
        A new session.

    Raises:
        StoreError: it cannot be reached, or the file is in use or damaged.
        ConfigError: something is asked of the way to ZooKeeper that there is not.
    """
    if config.odradek_store_socket:
        from odradek.cluster.store.remote_store import RemoteStore

        return RemoteStore(config.odradek_store_socket)
    if config.zookeeper_connect:
        return _zookeeper(config, config.zookeeper_connect)
    return EmbeddedStore(data_dir / STORE_FILE, clock)


def _zookeeper(config: BrokerConfig, connect: str) -> MetadataStore:
    from odradek.cluster.store.zookeeper import ZooKeeperStore

    auth = _auth(config)
    has_certificate = (
        config.zookeeper_ssl_client_enable and config.zookeeper_ssl_keystore_location is not None
    )
    if config.zookeeper_set_acl and auth is None and not has_certificate:
        raise ConfigError(
            "zookeeper.set.acl=true: the nodes would be nobody's. Say who the broker is, by "
            "odradek.zookeeper.auth, .username and .password, or by the context Client of "
            "odradek.jaas.config.file, or by a certificate, zookeeper.ssl.keystore.location. "
            "Nothing was started."
        )
    session_timeout_ms = config.zookeeper_session_timeout_ms
    connection_timeout_ms = config.zookeeper_connection_timeout_ms
    return ZooKeeperStore(
        connect,
        session_timeout_ms=session_timeout_ms,
        connection_timeout_ms=session_timeout_ms if connection_timeout_ms is None else connection_timeout_ms,
        auth=auth,
        set_acl=config.zookeeper_set_acl,
        tls=_tls(config),
        has_certificate=has_certificate,
    )


def _tls(config: BrokerConfig) -> ssl.SSLContext | None:
    """The context of connections to ZooKeeper (KIP-515).

    Raises:
        ConfigError: a config cannot be used, or asks for what is not done here.
    """
    if not config.zookeeper_ssl_client_enable:
        return None
    for name in ("zookeeper.ssl.crl.enable", "zookeeper.ssl.ocsp.enable"):
        if config.get(name):
            raise ConfigError(
                f"{name}=true: whether a certificate is revoked is not asked over the network here; put the "
                "authority's list (-----BEGIN X509 CRL-----) behind its certificate, into the file that "
                "zookeeper.ssl.truststore.location names, of the type PEM"
            )
    from odradek.security.ssl_configs import TlsConfigError
    from odradek.security.ssl_contexts import client_context

    configs: dict[str, str] = {}
    stores = {
        "keystore": (
            config.zookeeper_ssl_keystore_location,
            config.zookeeper_ssl_keystore_type,
            config.text_of("zookeeper.ssl.keystore.password"),
        ),
        "truststore": (
            config.zookeeper_ssl_truststore_location,
            config.zookeeper_ssl_truststore_type,
            config.text_of("zookeeper.ssl.truststore.password"),
        ),
    }
    for store, (location, given_type, password) in stores.items():
        if location is None:
            continue
        kind = given_type or _type_of(location)
        configs |= {f"ssl.{store}.location": location, f"ssl.{store}.type": kind}
        if password is not None:
            is_key = store == "keystore" and kind.upper() == "PEM"
            configs["ssl.key.password" if is_key else f"ssl.{store}.password"] = password
    # Kafka's default is TLS 1.2 alone, which newer servers refuse; so it counts only where it is given.
    protocol = config.text_of("zookeeper.ssl.protocol") if config.is_given("zookeeper.ssl.protocol") else None
    configs["ssl.enabled.protocols"] = config.text_of("zookeeper.ssl.enabled.protocols") or protocol or ""
    configs["ssl.cipher.suites"] = config.text_of("zookeeper.ssl.cipher.suites") or ""
    algorithm = config.text_of("zookeeper.ssl.endpoint.identification.algorithm")
    configs["ssl.endpoint.identification.algorithm"] = "https" if algorithm is None else algorithm
    try:
        return client_context(configs)
    except TlsConfigError as error:
        raise ConfigError(f"TLS to ZooKeeper: zookeeper.{error}") from error


def _type_of(location: str) -> str:
    """The type of a store by its file's name, as ZooKeeper tells it."""
    ending = location.rpartition(".")[2].lower()
    return {"pem": "PEM", "p12": "PKCS12", "pfx": "PKCS12"}.get(ending, "JKS")


def _auth(config: BrokerConfig) -> Auth | None:
    from odradek.cluster.store.zookeeper_access import DigestAuth, SaslAuth

    scheme, username, password = (
        config.odradek_zookeeper_auth,
        config.odradek_zookeeper_username,
        config.odradek_zookeeper_password,
    )
    if scheme in (None, "GSSAPI"):
        return _auth_of_file(config, wants_ticket=scheme is not None)
    if not username or password is None:
        raise ConfigError(
            f"odradek.zookeeper.auth={scheme} needs odradek.zookeeper.username and "
            "odradek.zookeeper.password. Nothing was started."
        )
    if scheme == "digest":
        return DigestAuth(username, password)
    return SaslAuth(username, password)


def _auth_of_file(config: BrokerConfig, *, wants_ticket: bool) -> Auth | None:
    """Return who the JAAS file's context `Client` says that the broker is, as Java's ZooKeeper client has it.

    Args:
        config: the broker's.
        wants_ticket: whether it is to be Kerberos: by the ticket of the cache where the file has no key.
    """
    from odradek.broker.sasl.settings import modules_in_file
    from odradek.cluster.store.zookeeper_access import SaslAuth
    from odradek.sasl.gssapi import GssapiLogin
    from odradek.sasl.mechanisms import SaslError

    modules = {module.short_name: module.options for module in modules_in_file(config, "Client")}
    options = modules.get("Krb5LoginModule", {})
    if options or wants_ticket:
        keytab = options.get("keyTab") if options.get("useKeyTab", "").lower() == "true" else None
        if keytab is not None and not options.get("principal"):
            raise ConfigError(
                "odradek.jaas.config.file: Client: the login module has a keyTab, and no principal"
            )
        try:
            login = GssapiLogin(config.odradek_zookeeper_service_name, options.get("principal"), keytab)
        except SaslError as error:
            raise ConfigError(f"the login at ZooKeeper: {error}") from error
        return SaslAuth(login=login)
    options = modules.get("DigestLoginModule", {})
    if options.get("username") and "password" in options:
        return SaslAuth(options["username"], options["password"])
    if modules:
        raise ConfigError(
            f"odradek.jaas.config.file: Client has {', '.join(modules)}; what ZooKeeper takes is "
            "Krb5LoginModule, or DigestLoginModule with a username and a password"
        )
    return None
