"""JAAS configs, as Kafka's documentation and operators write them."""

from __future__ import annotations

import pytest

from odradek.sasl.jaas import JaasError, parse_jaas, parse_jaas_file, quote
from odradek.sasl.logins import PlainLogin, ScramLogin, login_of
from odradek.sasl.mechanisms import LoginError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_a_config_of_one_line() -> None:
    (module,) = parse_jaas(f'{PLAIN} required username="admin" password="a\\"b\\\\c;d" user_alice=\'x y\';')
    assert (module.name, module.short_name, module.flag) == (PLAIN, "PlainLoginModule", "required")
    assert module.options == {"username": "admin", "password": 'a"b\\c;d', "user_alice": "x y"}
    assert "admin" not in repr(module)


def test_a_config_over_lines_with_comments_and_several_modules() -> None:
    modules = parse_jaas(
        """// the first
        a.One required /* nothing */;
        b.Two OPTIONAL key = value
          # and another
          other="1";"""
    )
    assert [(one.name, one.flag, dict(one.options)) for one in modules] == [
        ("a.One", "required", {}),
        ("b.Two", "optional", {"key": "value", "other": "1"}),
    ]


def test_a_file_has_contexts() -> None:
    contexts = parse_jaas_file(
        'KafkaServer {\n a.One required x="1";\n b.Two required;\n};\nsasl.KafkaServer { c.Three required; };'
    )
    assert {name: [one.name for one in modules] for name, modules in contexts.items()} == {
        "KafkaServer": ["a.One", "b.Two"],
        "sasl.KafkaServer": ["c.Three"],
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        "a.One",
        "a.One required",
        "a.One x=1;",
        'a.One required password="top-secret;',
        "a.One required password=;",
        "a.One required password;",
        "a.One required = x;",
        "{ a.One required; };",
    ],
)
def test_what_is_none_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(JaasError) as raised:
        parse_jaas(text)
    assert "top-secret" not in str(raised.value)


@pytest.mark.parametrize(
    "text", ["KafkaServer", "KafkaServer {", "KafkaServer { a.One required; }", "{};", "A { B };"]
)
def test_a_file_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(JaasError):
        parse_jaas_file(text)


@pytest.mark.parametrize("value", ["", "x", 'a"b', "a\\b", "new\nline", "semi;colon"])
def test_what_is_quoted_is_read_again(value: str) -> None:
    (module,) = parse_jaas(f"a.One required x={quote(value)};")
    assert module.options == {"x": value}


def test_logins_of_configs() -> None:
    jaas = f"{PLAIN} required username=alice password=secret;"
    assert isinstance(login_of("PLAIN", jaas=jaas), PlainLogin)
    assert isinstance(login_of("plain", username="alice", password="secret"), PlainLogin)
    login = login_of(
        "SCRAM-SHA-256", jaas='x.ScramLoginModule required username="t" password="p" tokenauth="true";'
    )
    assert isinstance(login, ScramLogin)
    assert b",tokenauth=true" in (login.start("").evaluate(b"") or b"")


@pytest.mark.parametrize(
    ("mechanism", "jaas", "why"),
    [
        ("PLAIN", None, "needs a username and a password"),
        ("PLAIN", f"{PLAIN} required username=alice;", "needs a username and a password"),
        ("SCRAM-SHA-256", f"{PLAIN} required username=a password=b;", "wants ScramLoginModule"),
        ("PLAIN", "nonsense", "sasl.jaas.config: "),
        ("DIGEST-MD5", None, "is not known here"),
        ("GSSAPI", None, "needs sasl.kerberos.service.name"),
        ("OAUTHBEARER", None, "needs tokens"),
    ],
)
def test_logins_that_cannot_be(mechanism: str, jaas: str | None, why: str) -> None:
    with pytest.raises(LoginError, match=why):
        login_of(mechanism, jaas=jaas)
