"""The broker's half of GSSAPI behind the library's steps: whose ticket it is, that is the user."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from odradek.sasl import gssapi
from odradek.sasl.mechanisms import SaslError

NO_LAYER = b"\x01\x00\x00\x00"


class Context:
    """A context whose steps are done: alice's ticket has been taken."""

    complete = True
    initiator_name = "alice@EXAMPLE.ORG"

    def wrap(self, data: bytes, encrypt: bool) -> SimpleNamespace:
        return SimpleNamespace(message=data)

    def unwrap(self, data: bytes) -> SimpleNamespace:
        return SimpleNamespace(message=data)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> gssapi.GssapiServer:
    library = SimpleNamespace(
        SecurityContext=lambda creds, usage: Context(),
        exceptions=SimpleNamespace(GSSError=OSError),
    )
    monkeypatch.setattr(gssapi, "import_gssapi", lambda: library)
    return gssapi.GssapiServer(None, gssapi.PrincipalRules(["DEFAULT"], "EXAMPLE.ORG"))


@pytest.mark.parametrize(
    "wanted", [b"", b"alice@EXAMPLE.ORG", b"kafka@localhost", b"admin@EXAMPLE.ORG", b"\xff" * 40]
)
def test_an_authorization_id_changes_nothing(server: gssapi.GssapiServer, wanted: bytes) -> None:
    assert server.evaluate(b"") == NO_LAYER
    assert server.evaluate(NO_LAYER + wanted) == b""
    assert server.is_complete and server.user == "alice"


@pytest.mark.parametrize("chosen", [b"", NO_LAYER[:3], b"\x02\x00\x00\x00", b"\x04\x00\x00\x00alice"])
def test_a_layer_that_was_not_offered_is_refused(server: gssapi.GssapiServer, chosen: bytes) -> None:
    server.evaluate(b"")
    with pytest.raises(SaslError, match="security layer"):
        server.evaluate(chosen)
    assert not server.is_complete
