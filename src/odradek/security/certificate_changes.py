"""The fields that a renewed certificate must share with the one before, as Kafka's SslFactory wants it.

A broker whose certificate changes its name would be another one to its clients, so that a mistake in a path
is not to take effect while it runs: `ssl.allow.dn.changes` and `ssl.allow.san.changes` say that it is meant.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.security.distinguished_names import rfc2253
from odradek.security.key_stores import read_key_store
from odradek.security.ssl_configs import TlsConfigError

_END = "-----END CERTIFICATE-----"


def check_renewal(old: str, new: str, *, allow_dn_changes: bool, allow_san_changes: bool) -> None:
    """Compare two certificates, PEM.

    Raises:
        TlsConfigError: the new one has another subject, or lacks alternative names of the old one.
    """
    if old == new:
        return
    from cryptography import x509

    was, is_now = (x509.load_pem_x509_certificate(pem.encode()) for pem in (old, new))
    if not allow_dn_changes and rfc2253(was.subject).lower() != rfc2253(is_now.subject).lower():
        raise TlsConfigError(
            "ssl.keystore",
            f"Keystore DistinguishedName does not match: existing={{ DN={rfc2253(was.subject)} }}, "
            f"new={{ DN={rfc2253(is_now.subject)} }} (ssl.allow.dn.changes=true allows it)",
        )
    if not allow_san_changes and (missing := _names(was) - _names(is_now)):
        raise TlsConfigError(
            "ssl.keystore",
            "Keystore SubjectAltNames do not match: the new certificate lacks "
            f"{', '.join(sorted(missing))} (ssl.allow.san.changes=true allows it)",
        )


def own_certificate(configs: Mapping[str, str]) -> str:
    """Return the first certificate of a key store, PEM.

    Raises:
        TlsConfigError: there is none.
    """
    store = read_key_store(configs)
    if store is None:
        raise TlsConfigError("ssl.keystore.location", "Cannot remove the SSL keystore from a listener")
    begin = store.pem.index("-----BEGIN CERTIFICATE-----")
    return store.pem[begin : store.pem.index(_END, begin) + len(_END)]


def _names(certificate: object) -> set[str]:
    from cryptography import x509

    assert isinstance(certificate, x509.Certificate)
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return set()
    return {str(getattr(name, "value", name)) for name in extension.value}
