"""The four messages of SCRAM (RFC 5802, section 7), as text and taken apart.

What stands in front of the proof is kept as it came, since both sides sign these very bytes. Channel binding
is not offered, as in Kafka: only the header `n,` is known.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import NamedTuple

from odradek.sasl.mechanisms import SaslError
from odradek.sasl.names import NAME, unescaped

MAX_MESSAGE_BYTES = 8 * 1024
"""The longest message that is read. Names and nonces are short, and the patterns go through it character by
character, before anybody knows who has sent it; a broker takes frames of 512 KiB from clients that log in."""

_VALUE = r"[\x01-\x2b\x2d-\x7f]+"
_PRINTABLE = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64 = r"[A-Za-z0-9/+]*={0,2}"
_EXTENSIONS = rf"(?:,[A-Za-z]+={_VALUE})*"

_CLIENT_FIRST = re.compile(
    rf"(?P<header>n,(?:a=(?P<authzid>{NAME}))?,)(?P<bare>(?:m={_VALUE},)?n=(?P<name>{NAME}),"
    rf"r=(?P<nonce>{_PRINTABLE})(?P<extensions>{_EXTENSIONS}))"
)
_SERVER_FIRST = re.compile(
    rf"(?:m={_VALUE},)?r=(?P<nonce>{_PRINTABLE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]+){_EXTENSIONS}"
)
_CLIENT_FINAL = re.compile(
    rf"(?P<unproved>c=(?P<channel>{_BASE64}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL = re.compile(rf"(?:e=(?P<error>{_VALUE})|v=(?P<signature>{_BASE64})){_EXTENSIONS}")


class ClientFirst(NamedTuple):
    """The client's first message.

    Attributes:
        header: the gs2 header, `n,,` or `n,a=…,`.
        bare: what is behind it.
        authorization_id: who the client wants to be; empty for who it is.
        username: who it is.
        nonce: its random text.
        extensions: Kafka's `tokenauth=true`, and what nobody knows.
    """

    header: str
    bare: str
    authorization_id: str
    username: str
    nonce: str
    extensions: Mapping[str, str]


class ServerFirst(NamedTuple):
    """The broker's first message, `text`, with the nonce of both, the salt and the iterations."""

    text: str
    nonce: str
    salt: bytes
    iterations: int


class ClientFinal(NamedTuple):
    """The client's final message: `unproved` is all but the proof."""

    unproved: str
    header: bytes
    nonce: str
    proof: bytes


def read_client_first(message: bytes) -> ClientFirst:
    """Read a client's first message.

    Raises:
        SaslError: it is none. The other functions that read a message here raise it, too.
    """
    match = _match(_CLIENT_FIRST, message, "client first")
    pairs = [pair.partition("=") for pair in match["extensions"].split(",") if pair]
    return ClientFirst(
        match["header"],
        match["bare"],
        unescaped(match["authzid"] or ""),
        unescaped(match["name"]),
        match["nonce"],
        {name: value for name, _, value in pairs},
    )


def read_server_first(message: bytes) -> ServerFirst:
    """See `read_client_first`."""
    match = _match(_SERVER_FIRST, message, "server first")
    if len(match["iterations"]) > 10:
        raise SaslError("Invalid SCRAM server first message format: invalid iterations")
    return ServerFirst(
        match[0], match["nonce"], _decoded(match["salt"], "server first"), int(match["iterations"])
    )


def read_client_final(message: bytes) -> ClientFinal:
    """See `read_client_first`."""
    match = _match(_CLIENT_FINAL, message, "client final")
    header, proof = (_decoded(match[name], "client final") for name in ("channel", "proof"))
    return ClientFinal(match["unproved"], header, match["nonce"], proof)


def read_server_final(message: bytes) -> bytes:
    """The signature of the broker's final message; `SaslError` with the broker's reason if it has none."""
    match = _match(_SERVER_FINAL, message, "server final")
    if match["error"] is not None:
        raise SaslError(f"Sasl authentication using SCRAM failed with error: {match['error']}")
    return _decoded(match["signature"], "server final")


def encoded(data: bytes) -> str:
    """Base64, as SCRAM has it."""
    return b64encode(data).decode()


def _match(pattern: re.Pattern[str], message: bytes, stage: str) -> re.Match[str]:
    if len(message) > MAX_MESSAGE_BYTES:
        raise SaslError(
            f"Invalid SCRAM {stage} message format: {len(message)} bytes, more than {MAX_MESSAGE_BYTES}"
        )
    try:
        match = pattern.fullmatch(message.decode())
    except UnicodeDecodeError:
        match = None
    if match is None:
        # Not shown: it may hold anything.
        raise SaslError(f"Invalid SCRAM {stage} message format")
    return match


def _decoded(text: str, stage: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise SaslError(f"Invalid SCRAM {stage} message format: no base64") from None
