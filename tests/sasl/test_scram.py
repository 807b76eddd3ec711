"""SCRAM: the exchange of RFC 7677, and what each side makes of a false other one."""

from __future__ import annotations

import random
import re
from base64 import b64decode, b64encode

import pytest

from odradek.sasl.mechanisms import SCRAM_SHA_256, SCRAM_SHA_512, SaslError, SaslRefusal
from odradek.sasl.scram import MAX_CLIENT_ITERATIONS, Known, SaltedPasswords, ScramClient, ScramServer
from odradek.sasl.scram_credentials import HASHES, ScramCredential
from odradek.sasl.scram_messages import MAX_MESSAGE_BYTES
from seeds import each_seed

CREDENTIALS = {
    mechanism: ScramCredential.of_password(mechanism, "pencil", 4096, b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
    for mechanism in HASHES
}
TOKEN = "token-id"


def find_in(mechanism: str):
    def find(name: str, is_token: bool) -> Known | None:
        if is_token:
            return Known(CREDENTIALS[mechanism], "owner", 99_000) if name == TOKEN else None
        return Known(CREDENTIALS[mechanism], name) if name in ("user", "a,b=c") else None

    return find


def pair(mechanism: str = SCRAM_SHA_256, name: str = "user", password: str = "pencil", **client):
    return ScramServer(mechanism, find_in(mechanism)), ScramClient(mechanism, name, password, **client)


def run(server: ScramServer, client: ScramClient) -> None:
    token = client.evaluate(b"")
    while token is not None:
        token = client.evaluate(server.evaluate(token))


def test_the_exchange_of_rfc_7677() -> None:
    server = ScramServer(SCRAM_SHA_256, find_in(SCRAM_SHA_256), lambda: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    client = ScramClient(SCRAM_SHA_256, "user", "pencil", make_nonce=lambda: "rOprNGfwEbeRWgbNEkqO")
    first = client.evaluate(b"")
    assert first == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    challenge = server.evaluate(first)
    assert challenge == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = client.evaluate(challenge)
    assert final == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    proof = server.evaluate(final)
    assert proof == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert client.evaluate(proof) is None
    assert server.is_complete and client.is_complete


@pytest.mark.parametrize("mechanism", HASHES)
@pytest.mark.parametrize("name", ["user", "a,b=c"])
def test_both_sides_prove_who_they_are(mechanism: str, name: str) -> None:
    server, client = pair(mechanism, name)
    run(server, client)
    assert (server.user, server.is_token, server.expires_at_ms) == (name, False, None)
    assert client.is_complete


def test_a_token_logs_in_as_its_owner() -> None:
    server, client = pair(SCRAM_SHA_512, TOKEN, is_token=True)
    run(server, client)
    assert (server.user, server.is_token, server.expires_at_ms) == ("owner", True, 99_000)


def test_the_id_of_a_token_is_no_user() -> None:
    server, client = pair(name=TOKEN)
    with pytest.raises(SaslError, match="no such user"):
        run(server, client)


@pytest.mark.parametrize("mechanism", HASHES)
def test_a_wrong_password_fails_at_the_end(mechanism: str) -> None:
    server, client = pair(mechanism, password="pen")
    with pytest.raises(SaslError, match=r"^Invalid client credentials$"):
        run(server, client)
    assert not server.is_complete


def test_an_unknown_user_gets_a_salt_as_if_there_were_one() -> None:
    answers = []
    for _ in range(2):
        server, client = pair(name="nobody")
        answers.append(server.evaluate(client.evaluate(b"") or b"").decode())
        with pytest.raises(SaslError, match="no such user"):
            server.evaluate(client.evaluate(answers[-1].encode()) or b"")
    salts = [re.search("s=([^,]*)", one)[1] for one in answers]
    assert salts[0] == salts[1] and len(b64decode(salts[0])) == 24


def test_what_was_heard_once_is_of_no_use() -> None:
    server, client = pair()
    first = client.evaluate(b"")
    final = client.evaluate(server.evaluate(first))
    server.evaluate(final)
    other = ScramServer(SCRAM_SHA_256, find_in(SCRAM_SHA_256))
    other.evaluate(first)
    with pytest.raises(SaslError, match="Invalid client nonce"):
        other.evaluate(final)


def test_the_header_cannot_be_changed_on_the_way() -> None:
    server, client = pair()
    first = client.evaluate(b"")
    final = client.evaluate(server.evaluate(first.replace(b"n,,", b"n,a=user,")))
    with pytest.raises(SaslError, match="the header of the final client message"):
        server.evaluate(final)


def test_nobody_is_somebody_else() -> None:
    server, _ = pair()
    with pytest.raises(SaslRefusal, match="authorization id that is different from username"):
        server.evaluate(b"n,a=admin,n=user,r=abc")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"y,,n=user,r=abc",
        b"p=tls-unique,,n=user,r=abc",
        b"n,,n=user",
        b"n,,n=,r=abc",
        b"n,,n=user,r=",
        b"n,,n=us=er,r=abc",
        b"n,,n=user,r=a\x00c",
        b"n,,n=user,r=abc,9=x",
        b"n,,n=\xff\xfe,r=abc",
        b"n,,n=user,r=abc" + b",a=" * 100_000,
        b"n,,n=" + b"=2C" * 100_000 + b"=,r=abc",
        b"n" * 500_000,
    ],
)
def test_a_malformed_first_message_ends_the_exchange(message: bytes) -> None:
    server, _ = pair()
    with pytest.raises(SaslError, match="Invalid SCRAM client first message format"):
        server.evaluate(message)
    with pytest.raises(SaslError, match="behind the end"):
        server.evaluate(b"n,,n=user,r=abc")


@pytest.mark.parametrize("cut", range(0, 120, 7))
def test_a_final_message_that_is_cut_off_ends_the_exchange(cut: int) -> None:
    server, client = pair()
    final = client.evaluate(server.evaluate(client.evaluate(b"") or b"")) or b""
    with pytest.raises(SaslError):
        server.evaluate(final[: min(cut, len(final) - 2)])
    assert not server.is_complete


def test_credentials_with_few_iterations_let_nobody_in() -> None:
    weak = ScramCredential.of_password(SCRAM_SHA_256, "pencil", 1000)
    server = ScramServer(SCRAM_SHA_256, lambda name, is_token: Known(weak, name))
    with pytest.raises(SaslError, match="Iterations 1000 is less than the minimum 4096"):
        server.evaluate(b"n,,n=user,r=abc")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"r={nonce}x,s=AAAA,i=1", "less than the minimum 4096"),
        (b"r={nonce}x,s=AAAA,i=4294967295", "no broker that means well"),
        (b"r={nonce}x,s=AAAA,i=%d" % (MAX_CLIENT_ITERATIONS + 1), "no broker that means well"),
        (b"r={nonce}x,s=AAAA,i=99999999999999999999", "invalid iterations"),
        (b"r={nonce},s=AAAA,i=4096", "does not start with client nonce"),
        (b"r=other,s=AAAA,i=4096", "does not start with client nonce"),
        (b"r={nonce}x,s=AA=A,i=4096", "Invalid SCRAM server first message format"),
        (b"r={nonce}x,s=A,i=4096", "Invalid SCRAM server first message format"),
        (b"e=other-error", "Invalid SCRAM server first message format"),
        (b"", "Invalid SCRAM server first message format"),
    ],
)
def test_a_client_does_not_believe_everything(answer: bytes, why: str) -> None:
    client = ScramClient(SCRAM_SHA_256, "user", "pencil", make_nonce=lambda: "mine")
    client.evaluate(b"")
    with pytest.raises(SaslError, match=why):
        client.evaluate(answer.replace(b"{nonce}", b"mine"))


@pytest.mark.parametrize("proof", [b"v=" + b64encode(bytes(32)), b"v=", b"e=invalid-proof", b"x", b""])
def test_a_broker_that_does_not_know_the_user_is_a_false_one(proof: bytes) -> None:
    server, client = pair()
    client.evaluate(server.evaluate(client.evaluate(b"") or b""))
    with pytest.raises(SaslError):
        client.evaluate(proof)
    assert not client.is_complete


def test_a_password_is_hashed_once_for_all_connections() -> None:
    salted = SaltedPasswords()
    credential = CREDENTIALS[SCRAM_SHA_256]
    for _ in range(2):
        server, client = pair(salted=salted)
        assert not client.blocks
        first = client.evaluate(b"")
        assert client.blocks
        client.evaluate(server.evaluate(first))
        assert not client.blocks
        assert salted.has("sha256", credential.salt, 4096)


def test_only_so_many_hashed_passwords_are_kept() -> None:
    salted = SaltedPasswords()
    for number in range(40):
        salted.get("sha256", "pencil", b"%d" % number, 1)
    assert not salted.has("sha256", b"0", 1) and salted.has("sha256", b"39", 1)


@each_seed(20)
def test_whatever_comes_it_is_a_login_or_an_error(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(100):
        server, client = pair()
        try:
            token = bytearray(client.evaluate(b"") or b"")
            for _ in range(2):
                for _ in range(rng.randrange(1, 4)):
                    token[rng.randrange(len(token))] = rng.randrange(256)
                token = bytearray(client.evaluate(server.evaluate(bytes(token))) or b"x")
        except SaslError:
            continue
        assert not server.is_complete or server.user == "user"


def test_credentials_are_kept_as_kafka_has_them() -> None:
    credential = CREDENTIALS[SCRAM_SHA_512]
    assert ScramCredential.from_text(credential.to_text()) == credential
    assert credential.to_text().startswith("salt=W22ZaJ0SNY7soEsUEjb6gQ==,stored_key=")
    assert credential.to_text().endswith(",iterations=4096")
    assert "stored" not in repr(credential)
    for wrong in (
        "",
        "salt=AA==",
        credential.to_text() + ",x=1",
        credential.to_text().replace("=4096", "=x"),
    ):
        with pytest.raises(ValueError):
            ScramCredential.from_text(wrong)


@pytest.mark.parametrize("part", ["n", "r", "x"])
def test_a_message_is_as_long_as_may_be(part: str) -> None:
    """Whichever part of it is long: beyond the bound nothing of it is looked at."""
    for size, refused in ((MAX_MESSAGE_BYTES, False), (MAX_MESSAGE_BYTES + 1, True), (524_000, True)):
        parts = {"n": "user", "r": "nonce", "x": "y"}
        parts[part] += "a" * (size - len("n,,n=user,r=nonce,x=y"))
        message = f"n,,n={parts['n']},r={parts['r']},x={parts['x']}".encode()
        assert len(message) == size
        server = ScramServer(SCRAM_SHA_256, find_in(SCRAM_SHA_256))
        if refused:
            with pytest.raises(SaslError, match=f"{size} bytes, more than {MAX_MESSAGE_BYTES}"):
                server.evaluate(message)
        else:
            assert server.evaluate(message).startswith(b"r=")


def test_a_final_message_is_as_long_as_may_be() -> None:
    server, client = pair()
    final = client.evaluate(server.evaluate(client.evaluate(b"") or b""))
    assert final is not None
    with pytest.raises(SaslError, match="more than"):
        server.evaluate(final.replace(b",p=", b",x=" + b"y" * MAX_MESSAGE_BYTES + b",p="))


def test_a_false_brokers_message_is_as_long_as_may_be() -> None:
    client = ScramClient(SCRAM_SHA_256, "user", "pencil")
    client.evaluate(b"")
    with pytest.raises(SaslError, match="more than"):
        client.evaluate(b"r=" + b"x" * MAX_MESSAGE_BYTES + b",s=,i=4096")
