"""Key stores and trust stores: PEM, in a file or in the config itself, and PKCS#12 (KIP-651).

Both become PEM, which is what OpenSSL takes. Java's own formats are not read: no library for them is kept up,
and `keytool` turns one into PKCS#12 with one command, which is told.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from odradek.security.ssl_configs import TlsConfigError
from odradek.util.extras import install

_JKS_MAGIC = b"\xfe\xed\xfe\xed"
_JCEKS_MAGIC = b"\xce\xce\xce\xce"
_PKCS12_TYPES = ("PKCS12", "PFX")
_JAVA_TYPES = ("JKS", "JCEKS")
_CERTIFICATE = "-----BEGIN CERTIFICATE-----"
_KEY = "PRIVATE KEY-----"


class KeyStore(NamedTuple):
    """A private key with its certificate and those above it.

    Attributes:
        pem: the key and the chain, the own certificate first.
        password: of the key in `pem`, None when it is not encrypted.
    """

    pem: str
    password: str | None

    def __repr__(self) -> str:
        return "KeyStore(…)"


def text_of(configs: Mapping[str, Any], name: str) -> str | None:
    """A config's text; None where it is not given, or empty."""
    value = configs.get(name)
    text = None if value is None else str(value)
    return text if text and text.strip() else None


def read_key_store(configs: Mapping[str, Any]) -> KeyStore | None:
    """Read the key store that `ssl.keystore.*` names; None where none is named.

    Args:
        configs: `ssl.keystore.type`, `.location`, `.password`, `.key`, `.certificate.chain`,
            `ssl.key.password`.

    Raises:
        TlsConfigError: it cannot be read, or the configs contradict each other.
    """
    key, chain = text_of(configs, "ssl.keystore.key"), text_of(configs, "ssl.keystore.certificate.chain")
    location = text_of(configs, "ssl.keystore.location")
    password = text_of(configs, "ssl.key.password")
    kind = (text_of(configs, "ssl.keystore.type") or "JKS").strip().upper()
    if key is not None or chain is not None:
        if kind != "PEM":
            raise TlsConfigError("ssl.keystore.key", "needs ssl.keystore.type=PEM")
        if location is not None:
            raise TlsConfigError(
                "ssl.keystore.location", "cannot be given together with ssl.keystore.key: choose one"
            )
        if key is None:
            raise TlsConfigError("ssl.keystore.certificate.chain", "needs ssl.keystore.key")
        if chain is None:
            raise TlsConfigError("ssl.keystore.key", "needs ssl.keystore.certificate.chain")
        return _checked_pem("ssl.keystore.key", f"{_unfolded(key)}\n{_unfolded(chain)}\n", password)
    if location is None:
        return None
    data = _read("ssl.keystore.location", location)
    if kind == "PEM":
        if text_of(configs, "ssl.keystore.password") is not None:
            raise TlsConfigError(
                "ssl.keystore.password", "a PEM file has none; the key's own is ssl.key.password"
            )
        text = data.decode("utf-8", "replace")
        return _checked_pem("ssl.keystore.location", text, password, location)
    _check_type("ssl.keystore.type", kind, location, data)
    return _from_pkcs12(location, data, text_of(configs, "ssl.keystore.password"), password)


def read_trust_store(configs: Mapping[str, Any]) -> str | None:
    """Read the certificates that are trusted, as PEM; None where none are named.

    Args:
        configs: `ssl.truststore.type`, `.location`, `.password`, `.certificates`.

    Raises:
        TlsConfigError: they cannot be read, or there are none in it.
    """
    inline = text_of(configs, "ssl.truststore.certificates")
    location = text_of(configs, "ssl.truststore.location")
    kind = (text_of(configs, "ssl.truststore.type") or "JKS").strip().upper()
    if inline is not None:
        if kind != "PEM":
            raise TlsConfigError("ssl.truststore.certificates", "needs ssl.truststore.type=PEM")
        if location is not None:
            raise TlsConfigError(
                "ssl.truststore.location", "cannot be given together with ssl.truststore.certificates"
            )
        return _checked_certificates("ssl.truststore.certificates", _unfolded(inline))
    if location is None:
        return None
    data = _read("ssl.truststore.location", location)
    if kind == "PEM":
        return _checked_certificates("ssl.truststore.location", data.decode("utf-8", "replace"))
    _check_type("ssl.truststore.type", kind, location, data)
    store = _load_pkcs12("ssl.truststore", location, data, text_of(configs, "ssl.truststore.password"))
    from cryptography.hazmat.primitives.serialization import Encoding

    certificates = [store.cert, *store.additional_certs]
    pem = "".join(
        certificate.certificate.public_bytes(Encoding.PEM).decode()
        for certificate in certificates
        if certificate is not None
    )
    return _checked_certificates("ssl.truststore.location", pem)


def files_of(configs: Mapping[str, Any]) -> list[str]:
    """Return the files that the stores are read from."""
    names = ("ssl.keystore.location", "ssl.truststore.location")
    return [location for name in names if (location := text_of(configs, name)) is not None]


Stamps = dict[str, tuple[int, int, int] | None]
"""Of files by name: when they were written, and which they are; None for one that is not there."""


def stamps_of(configs: Mapping[str, Any]) -> Stamps:
    """Return what tells whether the files of the stores have changed."""
    stamps: Stamps = {}
    for name in files_of(configs):
        try:
            status = Path(name).stat()
            stamps[name] = (status.st_mtime_ns, status.st_size, status.st_ino)
        except OSError:
            stamps[name] = None
    return stamps


@contextlib.contextmanager
def as_file(text: str) -> Iterator[str]:
    """Give text as a file, for a library that takes nothing else: in memory, or one that only we may read."""
    data = text.encode()
    if hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir():
        descriptor = os.memfd_create("odradek-key", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile(prefix="odradek-", suffix=".pem") as file:  # mode 0600
        file.write(data)
        file.flush()
        yield file.name


def _unfolded(pem: str) -> str:
    r"""PEM of one line, as a properties file may have it: `\n` as two characters, or blanks for line ends."""
    text = pem.replace("\\n", "\n").strip()
    if "\n" in text:
        return text
    parts = text.split("-----")  # "", BEGIN X, body, END X, …
    lines = []
    for at, part in enumerate(parts):
        if at % 2:
            lines.append(f"-----{part}-----")
        else:
            lines += part.split()
    return "\n".join(lines)


def _read(config: str, location: str) -> bytes:
    try:
        return Path(location).read_bytes()
    except OSError as error:
        raise TlsConfigError(config, f"{location}: {error.strerror or error}") from error


def _checked_pem(config: str, text: str, password: str | None, location: str | None = None) -> KeyStore:
    where = f"{location} holds" if location else "it holds"
    if _KEY not in text:
        raise TlsConfigError(config, f"{where} no private key in PEM")
    if _CERTIFICATE not in text:
        raise TlsConfigError(config, f"{where} no certificate in PEM")
    if "ENCRYPTED" in text and password is None:
        raise TlsConfigError("ssl.key.password", "the private key is encrypted: its password is needed")
    return KeyStore(text, password)


def _checked_certificates(config: str, text: str) -> str:
    if _CERTIFICATE not in text:
        raise TlsConfigError(config, "it holds no certificate")
    return text


def _check_type(config: str, kind: str, location: str, data: bytes) -> None:
    """Let PKCS#12 pass, under the name JKS too, as Java does."""
    if kind not in _PKCS12_TYPES + _JAVA_TYPES:
        raise TlsConfigError(config, f"{kind} is not PEM, PKCS12 or JKS")
    if data.startswith((_JKS_MAGIC, _JCEKS_MAGIC)):
        converted = str(Path(location).with_suffix(".p12"))
        raise TlsConfigError(
            config,
            f"{location} is a Java key store (JKS), which is not read here. Convert it with `keytool "
            f"-importkeystore -srckeystore {location} -destkeystore {converted} -deststoretype PKCS12`, and "
            f"give {converted} with {config}=PKCS12",
        )
    if data.lstrip().startswith(b"-----BEGIN"):
        raise TlsConfigError(config, f"{location} is PEM: give {config}=PEM")


def _load_pkcs12(config: str, location: str, data: bytes, password: str | None) -> Any:
    try:
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError as error:
        raise TlsConfigError(
            f"{config}.type", f"PKCS12 needs the package cryptography ({install('tls')}), or use PEM"
        ) from error
    try:
        return pkcs12.load_pkcs12(data, password.encode() if password is not None else None)
    except (ValueError, TypeError) as error:
        raise TlsConfigError(
            f"{config}.location",
            f"{location} cannot be read as PKCS#12: {error}. Is {config}.password right?",
        ) from error


def _from_pkcs12(location: str, data: bytes, store_password: str | None, password: str | None) -> KeyStore:
    # Java gives a key in PKCS#12 the store's password; another one is not possible in the format as used.
    if password is not None and store_password is None:
        store_password = password
    store = _load_pkcs12("ssl.keystore", location, data, store_password)
    if store.key is None or store.cert is None:
        raise TlsConfigError("ssl.keystore.location", f"{location} holds no private key with a certificate")
    from cryptography.hazmat.primitives import serialization

    # Encrypted, that what may lie in a file for a moment serves nobody.
    own = secrets.token_hex(16)
    pem = store.key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(own.encode()),
    )
    for certificate in [store.cert, *store.additional_certs]:
        pem += certificate.certificate.public_bytes(serialization.Encoding.PEM)
    return KeyStore(pem.decode(), own)
