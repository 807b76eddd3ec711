"""Names of users, made of Kerberos principals as Kafka's rules say."""

from __future__ import annotations

import pytest

from odradek.broker.sasl.settings import _split_rules
from odradek.sasl.gssapi import PrincipalRules
from odradek.sasl.mechanisms import SaslError

REALM = "EXAMPLE.COM"


@pytest.mark.parametrize(
    ("rules", "principal", "user"),
    [
        ("DEFAULT", "alice@EXAMPLE.COM", "alice"),
        ("DEFAULT", "kafka/host.example.com@EXAMPLE.COM", "kafka"),
        (r"RULE:[1:$1@$0](.*@OTHER\.COM)s/@.*//,DEFAULT", "bob@OTHER.COM", "bob"),
        (r"RULE:[1:$1@$0](.*@OTHER\.COM)s/@.*//,DEFAULT", "alice@EXAMPLE.COM", "alice"),
        (r"RULE:[2:$1-$2](kafka-.*)s/\..*//", "kafka/h1.example.com@EXAMPLE.COM", "kafka-h1"),
        ("RULE:[1:$1]/U", "alice@EXAMPLE.COM", "ALICE"),
        ("RULE:[1:$1](A.*)/L", "Alice@EXAMPLE.COM", "alice"),
        ("RULE:[1:$1,x],DEFAULT", "alice@EXAMPLE.COM", "alice,x"),
        ("RULE:[1:$1]s/a/b/g", "banana@EXAMPLE.COM", "bbnbnb"),
        ("RULE:[1:$1]s/a/b/", "banana@EXAMPLE.COM", "bbnana"),
    ],
)
def test_the_first_rule_that_fits_counts(rules: str, principal: str, user: str) -> None:
    assert PrincipalRules(_split_rules(rules), REALM).user_of(principal) == user


@pytest.mark.parametrize(
    ("rules", "principal"),
    [
        ("DEFAULT", "bob@OTHER.COM"),
        ("RULE:[1:$1](x.*)", "alice@EXAMPLE.COM"),
        ("RULE:[2:$1]", "alice@EXAMPLE.COM"),
        ("DEFAULT", "alice"),
        ("DEFAULT", "a/b/c@EXAMPLE.COM"),
        ("DEFAULT", ""),
    ],
)
def test_whom_no_rule_fits_is_not_let_in(rules: str, principal: str) -> None:
    with pytest.raises(SaslError):
        PrincipalRules(_split_rules(rules), REALM).user_of(principal)


@pytest.mark.parametrize("rules", ["RULE", "RULE:[3:$1]", "RULE:[1:$1]s/a", "default", "x"])
def test_what_is_no_rule_is_refused(rules: str) -> None:
    with pytest.raises(SaslError, match="is no rule"):
        PrincipalRules(_split_rules(rules), REALM)
