"""The meaning of a failed TLS handshake, in words that name the remedy."""

from __future__ import annotations

import ssl

_REASONS = {
    "TLSV1_ALERT_UNKNOWN_CA": "the peer does not trust the authority of this side's certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the peer refused this side's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the peer says that this side's certificate has expired",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the peer did not accept this side's certificate (does it trust its "
    "authority, and is the host in it the one that was asked for?)",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the broker wants a client certificate, and none was shown "
    "(ssl.client.auth=required: give ssl.keystore.*)",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the peer found no protocol, cipher suite or certificate in common",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the peer does not enable this protocol version (ssl.enabled.protocols)",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client shows no certificate, and ssl.client.auth=required",
    "NO_SHARED_CIPHER": "no cipher suite in common (ssl.cipher.suites)",
    "UNSUPPORTED_PROTOCOL": "the client's protocol versions are not enabled here (ssl.enabled.protocols)",
    "NO_PROTOCOLS_AVAILABLE": "no protocol version is enabled here that OpenSSL allows",
    "VERSION_TOO_LOW": "the protocol version is too old for this side (ssl.enabled.protocols)",
    "WRONG_VERSION_NUMBER": "what came is not TLS: the other side's security protocol is another one",
    "HTTP_REQUEST": "what came is an HTTP request, not TLS",
    "UNEXPECTED_EOF_WHILE_READING": "the peer hung up during the handshake: does it speak TLS at all?",
}


def explain(error: Exception) -> str:
    """Return what went wrong, and what it may be due to; OpenSSL's own word stands in brackets."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the peer's certificate is not accepted: {error.verify_message or error.reason}"
    reason = str(getattr(error, "reason", None) or "")
    if not reason and isinstance(error, ssl.SSLZeroReturnError | ssl.SSLEOFError):
        # Not every release of Python has OpenSSL's word for it.
        reason = "UNEXPECTED_EOF_WHILE_READING"
    explanation = _REASONS.get(reason)
    if explanation is not None:
        return f"{explanation} ({reason})"
    if isinstance(error, ssl.SSLError) and reason:
        return f"{reason.lower().replace('_', ' ')}"
    return str(error) or type(error).__name__
