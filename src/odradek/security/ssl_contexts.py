"""`ssl.*` configs made into contexts of OpenSSL, for a server and for a client (Kafka's SslEngineFactory).

What differs from Java, because OpenSSL through Python has it so: of TLS 1.3's cipher suites either all are
offered or the protocol is not (before Python 3.15), and `ssl.provider`, `ssl.keymanager.algorithm`,
`ssl.trustmanager.algorithm` and `ssl.secure.random.implementation`, which name Java's implementations, change
nothing.

A trust store of PEM may hold revocation lists beside the certificates of authorities. With any in it each
certificate of a peer must be of an authority whose list is there and has not run out, and must not be on it.
"""

from __future__ import annotations

import ssl
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from odradek.security.key_stores import KeyStore, as_file, read_key_store, read_trust_store, text_of
from odradek.security.ssl_configs import TlsConfigError

DEFAULT_PROTOCOLS = "TLSv1.2,TLSv1.3"

_VERSIONS = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_REVOCATION_LIST = "-----BEGIN X509 CRL-----"
_EXCLUDES = {
    "TLSv1.1": ssl.OP_NO_TLSv1_1,
    "TLSv1.2": ssl.OP_NO_TLSv1_2,
}
_CLIENT_AUTH = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


def server_context(configs: Mapping[str, Any]) -> ssl.SSLContext:
    """Make a listener's context.

    Args:
        configs: `ssl.*` without a listener's prefix; `ssl.client.auth` says whether clients
            show certificates.

    Raises:
        TlsConfigError: there is no key, a store cannot be used, or a config's value is none of Kafka's.
    """
    _check_engine(configs)
    key_store = read_key_store(configs)
    if key_store is None:
        raise TlsConfigError(
            "ssl.keystore.location",
            "a TLS listener needs a key: give ssl.keystore.location, or with ssl.keystore.type=PEM "
            "ssl.keystore.key and ssl.keystore.certificate.chain",
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _set_protocols(context, configs)
    client_auth = (text_of(configs, "ssl.client.auth") or "none").strip().lower()
    if client_auth not in _CLIENT_AUTH:
        raise TlsConfigError("ssl.client.auth", f"{client_auth} is not required, requested or none")
    context.verify_mode = _CLIENT_AUTH[client_auth]
    context.options |= ssl.OP_NO_RENEGOTIATION
    # Who shows a certificate shows it each time: a session that goes on would outlive it.
    if client_auth == "none":
        context.num_tickets = 1
    else:
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
    _load_key(context, key_store)
    _load_trust(context, configs)
    return context


def client_context(configs: Mapping[str, Any]) -> ssl.SSLContext:
    """Make a client's context.

    Args:
        configs: `ssl.*`. Without a trust store the system's certificates are trusted, and unless
            `ssl.endpoint.identification.algorithm` is empty, the server's name must be in its certificate.

    Raises:
        TlsConfigError: a store cannot be used, or a config's value is none of Kafka's.
    """
    _check_engine(configs)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _set_protocols(context, configs)
    given = configs.get("ssl.endpoint.identification.algorithm")
    algorithm = "https" if given is None else str(given).strip().lower()
    if algorithm not in ("https", ""):
        raise TlsConfigError(
            "ssl.endpoint.identification.algorithm", f"{algorithm} is neither https nor empty"
        )
    context.check_hostname = algorithm == "https"
    context.verify_mode = ssl.CERT_REQUIRED
    key_store = read_key_store(configs)
    if key_store is not None:
        _load_key(context, key_store)
    if not _load_trust(context, configs):
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    return context


def _check_engine(configs: Mapping[str, Any]) -> None:
    if (name := text_of(configs, "ssl.engine.factory.class")) is not None:
        raise TlsConfigError(
            "ssl.engine.factory.class", f"{name} is a class of Java's, which nothing here can run"
        )


def _listed(configs: Mapping[str, Any], name: str, default: str = "") -> list[str]:
    value = configs.get(name)
    if isinstance(value, (list, tuple)):
        value = ",".join(map(str, value))
    text = default if value is None or not str(value).strip() else str(value)
    return [part.strip() for part in text.split(",") if part.strip()]


def _set_protocols(context: ssl.SSLContext, configs: Mapping[str, Any]) -> None:
    protocol = text_of(configs, "ssl.protocol")
    if protocol is not None and protocol.strip() not in (*_VERSIONS, "TLS", "SSL"):
        raise TlsConfigError("ssl.protocol", f"{protocol} is not one of {', '.join(_VERSIONS)}")
    enabled = _listed(configs, "ssl.enabled.protocols", DEFAULT_PROTOCOLS)
    for name in enabled:
        if name not in _VERSIONS:
            raise TlsConfigError("ssl.enabled.protocols", f"{name} is not one of {', '.join(_VERSIONS)}")
    suites = _listed(configs, "ssl.cipher.suites")
    if suites:
        enabled = _set_suites(context, suites, enabled)
    in_order = [name for name in _VERSIONS if name in enabled]
    with warnings.catch_warnings():
        # Python's opinion of old versions and of leaving one out; the operator has asked for it.
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = _VERSIONS[in_order[0]]
        context.maximum_version = _VERSIONS[in_order[-1]]
        for name, option in _EXCLUDES.items():
            if in_order[0] < name < in_order[-1] and name not in in_order:
                context.options |= option


def _set_suites(context: ssl.SSLContext, suites: list[str], enabled: list[str]) -> list[str]:
    """Take over the suites; return the protocols that have any."""
    newest, older = split_suites(suites)
    if older:
        try:
            context.set_ciphers(":".join(older))
        except ssl.SSLError as error:
            raise TlsConfigError("ssl.cipher.suites", f"none of {', '.join(older)} is known here") from error
    else:
        enabled = [name for name in enabled if name == "TLSv1.3"]
    if not newest:
        enabled = [name for name in enabled if name != "TLSv1.3"]
    elif "TLSv1.3" in enabled:
        set_newest = getattr(context, "set_ciphersuites", None)
        offered = {str(suite["name"]) for suite in context.get_ciphers()} & TLS_1_3
        if set_newest is not None:
            set_newest(":".join(newest))
        elif missing := offered - set(newest):
            raise TlsConfigError(
                "ssl.cipher.suites",
                f"of TLS 1.3 this Python can offer all suites or none: name {', '.join(sorted(missing))} too"
                ", or leave TLSv1.3 out of ssl.enabled.protocols",
            )
    if not enabled:
        raise TlsConfigError("ssl.cipher.suites", "no enabled protocol has any of these suites")
    return enabled


def _load_key(context: ssl.SSLContext, store: KeyStore) -> None:
    # Without a password OpenSSL would ask for one on the terminal.
    password = store.password or ""
    try:
        with as_file(store.pem) as path:
            context.load_cert_chain(path, password=lambda: password)
    except ssl.SSLError as error:
        reason = (error.reason or str(error)).lower().replace("_", " ")
        if "mismatch" in reason:
            problem = "the private key is not that of the first certificate"
        elif "decrypt" in reason or "password" in reason or "pem lib" in reason:
            problem = "the private key or a certificate cannot be read: is ssl.key.password right?"
        else:
            problem = f"the key or its certificates cannot be used: {reason}"
        raise TlsConfigError("ssl.keystore", problem) from error


def _load_trust(context: ssl.SSLContext, configs: Mapping[str, Any]) -> bool:
    trusted = read_trust_store(configs)
    if trusted is None:
        return False
    try:
        if _REVOCATION_LIST in trusted:
            with as_file(trusted) as path:  # of text Python takes nothing but certificates
                context.load_verify_locations(path)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        else:
            context.load_verify_locations(cadata=trusted)
    except ssl.SSLError as error:
        raise TlsConfigError("ssl.truststore", f"its certificates cannot be used: {error.reason}") from error
    # Java trusts whatever certificate is in a trust store, one that signs itself or not.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return True


TLS_1_3 = frozenset(
    {
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_AES_128_CCM_SHA256",
        "TLS_AES_128_CCM_8_SHA256",
    }
)
"""The suites of TLS 1.3, whose names OpenSSL has as the standard does."""


def openssl_name(name: str) -> str:
    """Return what OpenSSL calls a suite of TLS 1.2 and older; its own names pass as they are.

    `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256` is `ECDHE-RSA-AES128-GCM-SHA256`, and
    `TLS_RSA_WITH_AES_128_CBC_SHA` is `AES128-SHA`.
    """
    if not name.startswith(("TLS_", "SSL_")) or "_WITH_" not in name:
        return name
    exchange, _, cipher = name[4:].partition("_WITH_")
    exchange = "" if exchange == "RSA" else exchange.replace("_", "-") + "-"
    cipher = (
        cipher.replace("3DES_EDE_CBC", "DES-CBC3").replace("AES_128", "AES128").replace("AES_256", "AES256")
    )
    if "CHACHA20" in cipher:
        cipher = "CHACHA20-POLY1305"
    return exchange + cipher.replace("_CBC", "").replace("_", "-")


def split_suites(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the suites of TLS 1.3, and OpenSSL's names of the others, in the order given."""
    newest: list[str] = []
    older: list[str] = []
    for name in names:
        if name in TLS_1_3:
            newest.append(name)
        else:
            older.append(openssl_name(name))
    return newest, older
