"""A failed handshake in words, whichever way a release of Python tells of it."""

from __future__ import annotations

import ssl

import pytest

from odradek.security.explain import explain

EOF = "EOF occurred in violation of protocol"


@pytest.mark.parametrize(
    "error",
    [
        ssl.SSLZeroReturnError(ssl.SSL_ERROR_ZERO_RETURN, "TLS/SSL connection has been closed (EOF)"),
        ssl.SSLEOFError(ssl.SSL_ERROR_EOF, EOF),
    ],
)
def test_a_peer_that_hangs_up_may_not_speak_tls(error: ssl.SSLError) -> None:
    assert "does it speak TLS at all?" in explain(error)
