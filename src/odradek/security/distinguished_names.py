"""Names in certificates as text in the form of RFC 2253, the way Java prints them (X500Principal.getName()).

Java's text, not another one of the many that the RFC allows, is what `super.users`, ACLs and
`ssl.principal.mapping.rules` are written for. It begins with the last part of the name; `CN`, `L`, `ST`, `O`,
`OU`, `C`, `STREET`, `DC` and `UID` have their letters, everything else its number, with the value as the
hexadecimal digits of its encoding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography import x509

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_ESCAPED = ',=+<>#;"\\'


def subject_of(der: bytes) -> str:
    """Return the subject of a certificate.

    Args:
        der: the certificate.

    Raises:
        ValueError: it is none.
    """
    from cryptography import x509

    return rfc2253(x509.load_der_x509_certificate(der).subject)


def rfc2253(name: x509.Name) -> str:
    """Return a name as Java prints it."""
    return ",".join("+".join(map(_attribute, part)) for part in reversed(list(name.rdns)))


def _attribute(attribute: x509.NameAttribute[str | bytes]) -> str:
    keyword = _KEYWORDS.get(attribute.oid.dotted_string)
    value = attribute.value
    if attribute._type.name == "BMPString" and isinstance(value, str):
        value = value.encode("utf-16-be").decode("utf-8", "replace")  # so Java reads it
    if keyword is not None and isinstance(value, str):
        return f"{keyword}={_escape(value)}"
    encoded = value.encode() if isinstance(value, str) else value
    tag = attribute._type.value
    digits = (bytes([tag]) + _length(len(encoded)) + encoded).hex()
    return f"{keyword or attribute.oid.dotted_string}=#{digits}"


def _length(size: int) -> bytes:
    """A length as DER has it."""
    if size < 0x80:
        return bytes([size])
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([0x80 | len(digits)]) + digits


def _escape(value: str) -> str:
    leading = len(value) - len(value.lstrip(" \r"))
    trailing = len(value.rstrip(" \r"))
    text = []
    for at, char in enumerate(value):
        if char in _ESCAPED or (char in " \r" and (at < leading or at >= trailing)):
            text.append(f"\\{char}")
        elif char == "\0":
            text.append("\\00")
        else:
            text.append(char)
    return "".join(text)
