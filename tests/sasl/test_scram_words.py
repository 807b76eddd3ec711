"""Users as `--add-scram` has them."""

from __future__ import annotations

import pytest

from odradek.sasl.scram_credentials import ScramCredential
from odradek.sasl.scram_words import ScramWordError, read_user


@pytest.mark.parametrize(
    ("text", "name", "password", "iterations"),
    [
        ("SCRAM-SHA-256=[name=alice,password=secret]", "alice", "secret", 4096),
        ('SCRAM-SHA-512=[name="a,b", password="x\\"],=y" ,iterations=8192]', "a,b", 'x"],=y', 8192),
        ("SCRAM-SHA-256=[iterations=16384,password=a=b,name=bob]", "bob", "a=b", 16384),
    ],
)
def test_a_user(text: str, name: str, password: str, iterations: int) -> None:
    user = read_user(text)
    assert user.name == name and text.startswith(user.mechanism)
    made = ScramCredential.of_password(user.mechanism, password, iterations, user.credential.salt)
    assert user.credential == made


@pytest.mark.parametrize(
    "text",
    [
        "",
        "PLAIN=[name=alice,password=secret]",
        "SCRAM-SHA-256=name=alice,password=secret",
        "SCRAM-SHA-256=[password=secret]",
        "SCRAM-SHA-256=[name=alice]",
        "SCRAM-SHA-256=[name=alice,password=secret,name=bob]",
        "SCRAM-SHA-256=[name=alice,password=secret,salt=x]",
        'SCRAM-SHA-256=[name=alice,password="secret]',
        "SCRAM-SHA-256=[name=alice,password=secret,iterations=100]",
        "SCRAM-SHA-256=[name=alice,password=secret,iterations=x]",
        "SCRAM-SHA-256=[name=alice,password=secret,iterations=100000]",
    ],
)
def test_what_is_none_is_not_shown(text: str) -> None:
    with pytest.raises(ScramWordError) as raised:
        read_user(text)
    assert "secret" not in str(raised.value)
