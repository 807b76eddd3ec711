"""Key stores and trust stores, as `ssl.*` configs name them."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest

from odradek.security.key_stores import as_file, read_key_store, read_trust_store
from odradek.security.ssl_configs import TlsConfigError
from odradek.security.ssl_contexts import client_context, openssl_name, server_context, split_suites
from odradek.testing.certificates import CertificateAuthority

CA = CertificateAuthority()
BROKER = CA.issue("broker", hosts=["localhost", "127.0.0.1"])


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, host: str = "localhost") -> ssl.SSLObject:
    """Both sides in memory; the server's end when it is done. Raises what either raises."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    theirs = client.wrap_bio(to_client, to_server, server_hostname=host)
    ours = server.wrap_bio(to_server, to_client, server_side=True)
    done = set()
    for _ in range(10):
        for side in (theirs, ours):
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                continue
    assert len(done) == 2
    return ours


def _server(**more: str) -> ssl.SSLContext:
    return server_context({**BROKER.configs(), **{k.replace("_", "."): v for k, v in more.items()}})


def test_pem_inline() -> None:
    done = _shake_hands(_server(), client_context(CA.trust()))
    assert done.version() == "TLSv1.3"


def test_pem_on_one_line_as_a_properties_file_has_it() -> None:
    folded = {name: text.replace("\n", "\\n") for name, text in BROKER.configs().items()}
    _shake_hands(server_context(folded), client_context(CA.trust()))
    blanks = {name: text.replace("\n", " ") for name, text in BROKER.configs().items()}
    _shake_hands(server_context(blanks), client_context(CA.trust()))


def test_pem_in_files(tmp_path: Path) -> None:
    server = server_context(
        {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(BROKER.write_pem(tmp_path / "key.pem"))}
    )
    trust = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(CA.write_trust_store(tmp_path / "ca.pem")),
    }
    _shake_hands(server, client_context(trust))


@pytest.mark.parametrize("kind", ["PKCS12", "JKS", "pkcs12"])
def test_pkcs12_also_where_java_says_jks(tmp_path: Path, kind: str) -> None:
    store = BROKER.write_pkcs12(tmp_path / "key.p12", "secret")
    configs = {
        "ssl.keystore.type": kind,
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": "secret",
    }
    trust = {
        "ssl.truststore.type": kind,
        "ssl.truststore.location": str(store),
        "ssl.truststore.password": "secret",
    }
    _shake_hands(server_context(configs), client_context(trust))


def test_wrong_password_of_pkcs12(tmp_path: Path) -> None:
    store = BROKER.write_pkcs12(tmp_path / "key.p12", "secret")
    with pytest.raises(TlsConfigError, match=r"Is ssl\.keystore\.password right"):
        server_context(
            {
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": str(store),
                "ssl.keystore.password": "guessed",
            }
        )


@pytest.mark.parametrize(
    ("configs", "complaint"),
    [
        ({}, "a TLS listener needs a key"),
        ({"ssl.keystore.location": "/nowhere.pem", "ssl.keystore.type": "PEM"}, "No such file"),
        ({"ssl.keystore.key": "x"}, "needs ssl.keystore.type=PEM"),
        ({"ssl.keystore.key": "x", "ssl.keystore.type": "PEM"}, "needs ssl.keystore.certificate.chain"),
        ({"ssl.keystore.certificate.chain": "x", "ssl.keystore.type": "PEM"}, "needs ssl.keystore.key"),
        ({**BROKER.configs(), "ssl.keystore.location": "x"}, "choose one"),
        ({**BROKER.configs(), "ssl.keystore.key": "x"}, "no private key"),
        ({**BROKER.configs(), "ssl.keystore.certificate.chain": "x"}, "no certificate"),
        (
            {**BROKER.configs(), "ssl.keystore.key": CA.issue("other").key},
            "not that of the first certificate",
        ),
        ({**BROKER.configs(), "ssl.client.auth": "maybe"}, "not required, requested or none"),
        ({**BROKER.configs(), "ssl.enabled.protocols": "TLSv9"}, "TLSv9 is not one of"),
        ({**BROKER.configs(), "ssl.protocol": "TLSv9"}, "TLSv9 is not one of"),
        ({**BROKER.configs(), "ssl.cipher.suites": "TLS_NONE_WITH_NOTHING"}, "is known here"),
        ({**BROKER.configs(), "ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "all suites or none"),
        ({**BROKER.configs(), "ssl.engine.factory.class": "com.example.Mine"}, "a class of Java's"),
    ],
)
def test_what_cannot_be_used(configs: dict[str, Any], complaint: str) -> None:
    with pytest.raises(TlsConfigError, match=complaint) as refused:
        server_context(configs)
    assert "PRIVATE KEY-----\n" not in str(refused.value)


def test_a_java_key_store_is_told_how_to_be_converted(tmp_path: Path) -> None:
    store = tmp_path / "server.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed" + bytes(20))
    with pytest.raises(TlsConfigError, match=r"keytool -importkeystore .*-deststoretype PKCS12"):
        read_key_store({"ssl.keystore.location": str(store)})
    with pytest.raises(TlsConfigError, match=r"ssl\.truststore\.type=PKCS12"):
        read_trust_store({"ssl.truststore.location": str(store)})


def test_pem_given_as_another_type(tmp_path: Path) -> None:
    store = BROKER.write_pem(tmp_path / "key.pem")
    with pytest.raises(TlsConfigError, match=r"is PEM: give ssl\.keystore\.type=PEM"):
        read_key_store({"ssl.keystore.location": str(store), "ssl.keystore.type": "PKCS12"})


def test_an_encrypted_key(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(BROKER.key.encode(), None)
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    ).decode()
    configs = {**BROKER.configs(), "ssl.keystore.key": text}
    with pytest.raises(TlsConfigError, match="its password is needed"):
        server_context(configs)
    with pytest.raises(TlsConfigError, match=r"is ssl\.key\.password right"):
        server_context({**configs, "ssl.key.password": "guessed"})
    _shake_hands(server_context({**configs, "ssl.key.password": "secret"}), client_context(CA.trust()))


def test_who_is_trusted() -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        _shake_hands(_server(), client_context(CertificateAuthority().trust()))
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        _shake_hands(_server(), client_context(CA.trust()), "elsewhere")
    _shake_hands(
        _server(), client_context({**CA.trust(), "ssl.endpoint.identification.algorithm": ""}), "elsewhere"
    )
    # The certificate itself in the trust store will do, as in Java.
    leaf = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": BROKER.chain}
    _shake_hands(_server(), client_context(leaf))


def test_protocols_and_suites() -> None:
    old = {**CA.trust(), "ssl.enabled.protocols": "TLSv1.2"}
    assert _shake_hands(_server(), client_context(old)).version() == "TLSv1.2"
    with pytest.raises(ssl.SSLError):
        _shake_hands(_server(ssl_enabled_protocols="TLSv1.3"), client_context(old))
    suite = {**BROKER.configs(), "ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"}
    done = _shake_hands(server_context(suite), client_context(CA.trust()))
    assert done.version() == "TLSv1.2"
    assert done.cipher()[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"  # type: ignore[index]


def test_client_certificates() -> None:
    server = server_context({**BROKER.configs(), **CA.trust(), "ssl.client.auth": "required"})
    alice = CA.issue("alice")
    _shake_hands(server, client_context({**CA.trust(), **alice.configs()}))
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        _shake_hands(server, client_context(CA.trust()))
    stranger = CertificateAuthority().issue("alice")
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        _shake_hands(server, client_context({**CA.trust(), **stranger.configs()}))
    with pytest.raises(ssl.SSLError, match="certificate has expired"):
        _shake_hands(server, client_context({**CA.trust(), **CA.issue("alice", expired=True).configs()}))


def test_revocation_lists_in_a_trust_store(tmp_path: Path) -> None:
    alice, bob = CA.issue("alice"), CA.issue("bob")
    path = tmp_path / "ca.pem"
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(path)}
    inline = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": CA.pem + CA.revoked(bob)}
    path.write_text(inline["ssl.truststore.certificates"], encoding="utf-8")
    for given in (trust, inline):
        server = server_context({**BROKER.configs(), **given, "ssl.client.auth": "required"})
        _shake_hands(server, client_context({**CA.trust(), **alice.configs()}))
        with pytest.raises(ssl.SSLError, match="certificate revoked"):
            _shake_hands(server, client_context({**CA.trust(), **bob.configs()}))
    # A client looks at the broker's certificate in the same way.
    _shake_hands(_server(), client_context(trust))
    path.write_text(CA.pem + CA.revoked(BROKER), encoding="utf-8")
    with pytest.raises(ssl.SSLError, match="certificate revoked"):
        _shake_hands(_server(), client_context(trust))
    # An authority without a list cannot be judged, and what is no list stops the start.
    path.write_text(CA.pem + CertificateAuthority("other").revoked(), encoding="utf-8")
    with pytest.raises(ssl.SSLError, match="unable to get certificate CRL"):
        _shake_hands(_server(), client_context(trust))
    path.write_text(CA.pem + "-----BEGIN X509 CRL-----\nnonsense\n-----END X509 CRL-----\n", encoding="utf-8")
    with pytest.raises(TlsConfigError, match=r"ssl\.truststore"):
        client_context(trust)


def test_names_of_suites() -> None:
    assert openssl_name("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256") == "ECDHE-RSA-AES128-GCM-SHA256"
    assert openssl_name("TLS_RSA_WITH_AES_128_CBC_SHA") == "AES128-SHA"
    assert openssl_name("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256") == "ECDHE-RSA-CHACHA20-POLY1305"
    assert openssl_name("AES128-SHA") == "AES128-SHA"
    assert split_suites(["TLS_AES_128_GCM_SHA256", "TLS_RSA_WITH_AES_256_GCM_SHA384"]) == (
        ["TLS_AES_128_GCM_SHA256"],
        ["AES256-GCM-SHA384"],
    )


def test_secrets_are_not_shown() -> None:
    store = read_key_store(BROKER.configs())
    assert BROKER.key not in repr(store)


def test_text_as_a_file_holds_it_for_us_alone() -> None:
    with as_file("secret") as path:
        assert Path(path).read_text(encoding="utf-8") == "secret"
        assert Path(path).stat().st_mode & 0o077 in (0, 0o077)  # a file in memory is nobody's to open
