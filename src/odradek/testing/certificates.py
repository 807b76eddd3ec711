"""Certificates made on the spot, for tests of TLS: an authority, servers, clients, and bad ones.

Needs the package `cryptography`. Keys are of the curve P-256, which takes well below a millisecond each.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID

_DAY = datetime.timedelta(days=1)
_BOTH_USES = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)


class Issued(NamedTuple):
    """A certificate with its key, and the authority's certificate.

    Attributes:
        key: the private key, PEM (PKCS#8).
        chain: the certificate, PEM.
        ca: the certificate of the authority that signed it, PEM.
    """

    key: str
    chain: str
    ca: str

    def configs(self) -> dict[str, str]:
        """Return this key and certificate as `ssl.keystore.*` configs, PEM inline."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": self.key,
            "ssl.keystore.certificate.chain": self.chain,
        }

    def write_pem(self, path: Path) -> Path:
        """Write key and certificate into one PEM file, which only its owner may read."""
        path.touch(mode=0o600)
        path.write_text(self.key + self.chain, encoding="utf-8")
        return path

    def write_pem_pair(self, folder: Path) -> tuple[Path, Path]:
        """Write certificate and key into two PEM files; return their paths."""
        certificate, key = folder / "certificate.pem", folder / "key.pem"
        certificate.write_text(self.chain, encoding="utf-8")
        key.touch(mode=0o600)
        key.write_text(self.key, encoding="utf-8")
        return certificate, key

    def write_pkcs12(self, path: Path, password: str) -> Path:
        """Write a key store in PKCS#12, which only its owner may read."""
        key = serialization.load_pem_private_key(self.key.encode(), None)
        certificate = x509.load_pem_x509_certificate(self.chain.encode())
        path.touch(mode=0o600)
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(
                b"odradek",
                key,  # type: ignore[arg-type]
                certificate,
                [x509.load_pem_x509_certificate(self.ca.encode())],
                serialization.BestAvailableEncryption(password.encode()),
            )
        )
        return path


class CertificateAuthority:
    """Signs certificates.

    Attributes:
        pem: its own certificate, PEM.
    """

    def __init__(self, name: str = "odradek test CA", *, rsa_bits: int | None = None) -> None:
        """
        Args:
            name: the common name in its certificate.
            rsa_bits: length of RSA keys, its own and those of what it issues; None for P-256.
        """
        self._rsa_bits = rsa_bits
        self._key = self._new_key()
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        now = _now()
        self._certificate = (
            x509.CertificateBuilder()
            .subject_name(self._name)
            .issuer_name(self._name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 2 * _DAY)
            .not_valid_after(now + 3650 * _DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .add_extension(_key_usage(signs=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.pem = _pem(self._certificate)

    def issue(
        self,
        subject: str,
        *,
        hosts: Iterable[str] = (),
        expired: bool = False,
        not_yet_valid: bool = False,
    ) -> Issued:
        """Make a key and a certificate for it.

        Args:
            subject: a distinguished name in RFC 4514's form, `CN=alice,O=odradek`; a word alone is a `CN`.
            hosts: names and addresses of a server.
            expired: it ended yesterday.
            not_yet_valid: it begins tomorrow.
        """
        name = x509.Name.from_rfc4514_string(subject if "=" in subject else f"CN={subject}")
        now = _now()
        begin, end = now - _DAY, now + 365 * _DAY
        if expired:
            begin, end = now - 2 * _DAY, now - _DAY
        elif not_yet_valid:
            begin = now + _DAY
        key = self._new_key()
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(_BOTH_USES), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )
        if names := [_general_name(host) for host in hosts]:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return Issued(pem.decode(), _pem(certificate), self.pem)

    def revoked(self, *issued: Issued) -> str:
        """Return a revocation list, PEM, with these certificates on it; it holds for a day.

        Behind the authority's certificate in a trust store of PEM it is looked at.
        """
        now = _now()
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self._name)
            .last_update(now - _DAY)
            .next_update(now + _DAY)
        )
        for certificate in issued:
            serial = x509.load_pem_x509_certificate(certificate.chain.encode()).serial_number
            builder = builder.add_revoked_certificate(
                x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now - _DAY).build()
            )
        revocation_list = builder.sign(self._key, hashes.SHA256())
        return revocation_list.public_bytes(serialization.Encoding.PEM).decode()

    def trust(self) -> dict[str, str]:
        """Return `ssl.truststore.*` configs that trust this authority, PEM inline."""
        return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": self.pem}

    def write_trust_store(self, path: Path) -> Path:
        """Write the authority's certificate into a PEM file."""
        path.write_text(self.pem, encoding="utf-8")
        return path

    def write_pkcs12_trust_store(self, path: Path, password: str) -> Path:
        """Write the authority's certificate into a PKCS#12 file that Java takes for a trust store."""
        entry = pkcs12.PKCS12Certificate(self._certificate, b"ca")
        encryption = serialization.BestAvailableEncryption(password.encode())
        path.write_bytes(pkcs12.serialize_java_truststore([entry], encryption))
        return path

    def _new_key(self) -> Any:
        if self._rsa_bits is not None:
            return rsa.generate_private_key(public_exponent=65537, key_size=self._rsa_bits)
        return ec.generate_private_key(ec.SECP256R1())


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )
