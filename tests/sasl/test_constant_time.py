"""What a stranger sends is compared with a secret in a time that does not tell how much of it was right.

That is `hmac.compare_digest`'s to do; here it is shown that nothing is compared by anything else before it,
and that names which nobody has take the same way.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Callable

import pytest

from odradek.sasl.mechanisms import SaslError
from odradek.sasl.plain import PlainServer
from odradek.sasl.scram import Known, ScramClient, ScramServer
from odradek.sasl.scram_credentials import HASHES, ScramCredential

Compared = list[tuple[bytes, bytes]]


class Text(str):
    """A secret that nobody may compare by itself."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared by ==")

    __hash__ = str.__hash__


class Secret(bytes):
    """The same, in bytes."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared by ==")

    __hash__ = bytes.__hash__


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Compared:
    """What `hmac.compare_digest` was given."""
    found: Compared = []
    real: Callable[[bytes, bytes], bool] = hmac.compare_digest

    def compare(a: bytes, b: bytes) -> bool:
        found.append((a, b))
        return real(a, b)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    return found


@pytest.mark.parametrize("name", ["alice", "nobody"])
@pytest.mark.parametrize("password", [b"secreT", b"s", b"another one that is longer"])
def test_plain(name: str, password: bytes, compared: Compared) -> None:
    server = PlainServer({"alice": Text("secret")})
    with pytest.raises(SaslError):
        server.evaluate(b"\0" + name.encode() + b"\0" + password)
    ((_, shown),) = compared
    assert shown == password


@pytest.mark.parametrize("name", ["alice", "nobody"])
@pytest.mark.parametrize("mechanism", HASHES)
def test_the_proof_of_a_client(mechanism: str, name: str, compared: Compared) -> None:
    made = ScramCredential.of_password(mechanism, "secret")
    known = made._replace(stored_key=Secret(made.stored_key), server_key=Secret(made.server_key))
    server = ScramServer(mechanism, lambda who, _: Known(known, who) if who == "alice" else None)
    client = ScramClient(mechanism, name, "wrong")
    challenge = client.evaluate(b"")
    assert challenge is not None
    final = client.evaluate(server.evaluate(challenge))
    assert final is not None
    compared.clear()
    with pytest.raises(SaslError):
        server.evaluate(final)
    sizes = [{len(a), len(b)} for a, b in compared]
    assert len(sizes) == 2  # the nonce, and what is stored
    assert sizes[1] == {len(made.stored_key)}


def test_the_proof_of_a_broker(compared: Compared) -> None:
    client = ScramClient("SCRAM-SHA-256", "alice", "secret")
    first = client.evaluate(b"")
    assert first is not None
    nonce = first[first.index(b"r=") :]
    client.evaluate(nonce + b"more,s=" + b64encode(b"salt") + b",i=4096")
    compared.clear()
    with pytest.raises(SaslError, match="false one"):
        client.evaluate(b"v=" + b64encode(bytes(32)))
    assert [len(a) for a, _ in compared] == [32]
