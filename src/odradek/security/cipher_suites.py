"""`ssl.cipher.suites`: the names that Java and the standards have, and those of OpenSSL."""

from __future__ import annotations

from collections.abc import Iterable

TLS_1_3 = frozenset(
    {
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_AES_128_CCM_SHA256",
        "TLS_AES_128_CCM_8_SHA256",
    }
)


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
