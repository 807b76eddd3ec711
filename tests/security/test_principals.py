"""From a certificate to a principal: names as Java prints them, and rules as Kafka applies them."""

from __future__ import annotations

import base64
import datetime
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from odradek.security.distinguished_names import subject_of
from odradek.security.principal_mapping import MappingRuleError, NoMatchingRuleError, SslPrincipalMapper

GOLDEN = Path(__file__).parent.parent / "golden" / "security" / "distinguished_names.json"
KEY = ec.generate_private_key(ec.SECP256R1())


def _certificate_named(subject: bytes) -> bytes:
    """A certificate whose subject has exactly these bytes."""
    marker = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "M" * 40)])
    now = datetime.datetime(2026, 1, 1)
    made = (
        x509.CertificateBuilder()
        .subject_name(marker)
        .issuer_name(x509.Name([]))
        .public_key(KEY.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(KEY, hashes.SHA256())
    )
    body = made.tbs_certificate_bytes.replace(marker.public_bytes(), subject)
    header = 4 if body[1] == 0x82 else 3 if body[1] == 0x81 else 2
    whole = _der(0x30, body[header:])
    algorithm = bytes.fromhex("300a06082a8648ce3d040302")
    return _der(0x30, whole + algorithm + _der(0x03, b"\0" + made.signature))


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    count = (size.bit_length() + 7) // 8
    length = bytes([size]) if size < 0x80 else bytes([0x80 | count]) + size.to_bytes(count, "big")
    return bytes([tag]) + length + content


@pytest.mark.parametrize(
    "case", json.loads(GOLDEN.read_text(encoding="utf-8")), ids=lambda case: case["java"][:30]
)
def test_names_are_printed_as_java_prints_them(case: dict[str, Any]) -> None:
    certificate = _certificate_named(base64.b64decode(case["der"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cryptography does not like every name
        assert subject_of(certificate) == case["java"]


@pytest.mark.parametrize(
    ("rules", "name", "principal"),
    [
        # The examples of KIP-371 and of Kafka's documentation.
        ("DEFAULT", "CN=Duke,OU=Eng,C=US", "CN=Duke,OU=Eng,C=US"),
        (None, "CN=a", "CN=a"),
        ("", "CN=a", "CN=a"),
        (r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "CN=Duke,OU=ServiceUsers,O=Org,C=US", "Duke"),
        (
            r"RULE:^CN=(.*?), *OU=(.*?), *O=(.*?), *L=(.*?), *ST=(.*?), *C=(.*?)$/$1@$2/L",
            "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US",
            "duke@sme",
        ),
        (r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U", "O=x,cn=duke,C=US", "DUKE"),
        (r"RULE:^CN=(.*?),OU=X.*$/$1/, RULE:^CN=(.*?),OU=Y.*$/y-$1/ , DEFAULT", "CN=b,OU=Y", "y-b"),
        (r"RULE:^CN=(.*?),OU=X.*$/$1/, DEFAULT", "CN=b,OU=Z", "CN=b,OU=Z"),
        # References that there are not stand for themselves, and too many digits are cut.
        (r"RULE:^CN=(\w+)$/$1@$2/", "CN=a", "a@$2"),
        (r"RULE:^CN=(\w+)$/$12/", "CN=a", "a2"),
        (r"RULE:^CN=(\w+)$/a\/b$1/", "CN=c", "a/bc"),
        (r"RULE:^CN=(?<who>\w+)$/$1/", "CN=c", "c"),
        (r"RULE:^CN=(a)?(\w+)$/$1-$2/", "CN=c", "-c"),
    ],
)
def test_rules(rules: str | None, name: str, principal: str) -> None:
    assert SslPrincipalMapper(rules).name_of(name) == principal


def test_who_matches_no_rule_has_no_name() -> None:
    mapper = SslPrincipalMapper(r"RULE:^CN=a$/a/")
    with pytest.raises(NoMatchingRuleError, match="No rules apply to CN=b"):
        mapper.name_of("CN=b")
    with pytest.raises(NoMatchingRuleError, match="too long"):
        SslPrincipalMapper("DEFAULT").name_of("CN=" + "x" * 5000)


@pytest.mark.parametrize(
    "rules", ["deault", "RULE:", "RULE:^CN=a", "RULE:a/b/X", "RULE:(/b/", "DEFAULT/L", "RULE:a/b/L/U"]
)
def test_rules_that_are_none(rules: str) -> None:
    with pytest.raises(MappingRuleError):
        SslPrincipalMapper(rules)
