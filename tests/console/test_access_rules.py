"""The page of ACLs, users and quotas, on a broker with an authorizer."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from urllib.parse import urlencode

import pytest

from odradek import Admin
from odradek.console.views.access import acl_words, binding_fields, parse_binding, parse_entity, quota_words
from odradek.testing import Broker, Security

from .conftest import Visitor
from .test_topics import row

USER = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256"}
ADMIN = {**USER, "sasl_plain_username": "admin", "sasl_plain_password": "all of it"}
ACL = {
    "type": "Group",
    "name": "orders",
    "pattern": "Prefixed",
    "principal": "User:<i>alice",
    "host": "10.0.0.7",
    "operation": "Read",
    "permission": "Deny",
}


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    with Broker(security=Security(users={"admin": "all of it"}, super_users=("User:admin",))) as broker:
        yield broker


@pytest.fixture
def visitor(secured: Broker, visit: Callable[..., Visitor]) -> Visitor:
    visitor = visit(secured.bootstrap_servers, token=None, client_configs=USER)
    visitor.log_in(user="admin", password="all of it")
    return visitor


def test_acls(visitor: Visitor) -> None:
    visitor.post("/access", "/access/acl", **ACL)
    page = visitor.get("/access?filter=ALICE")
    cells = ["Deny", "Read", "Group orders", "Prefixed", "10.0.0.7", "Delete"]
    assert row(page, "User:<i>alice")[1:] == cells
    assert "<i>alice" not in page
    other = {**ACL, "operation": "Describe"}
    visitor.post("/access", "/access/acl", **other)
    confirm = f"/access/confirm?{urlencode({'what': 'acl', **ACL})}"
    assert "--deny-principal 'User:<i>alice'" in html.unescape(visitor.get(confirm))
    # It is deleted, and nothing like it.
    page = visitor.post(confirm, "/access/acl/delete", **ACL)
    assert row(page, "User:<i>alice")[2] == "Describe"
    assert "no such ACL any more" in visitor.post("/access", "/access/acl/delete", 404, **ACL)
    refused = visitor.post("/access", "/access/acl", 400, **{**ACL, "operation": "ClusterAction"})
    assert "there are only" in refused


def test_users(visitor: Visitor, secured: Broker) -> None:
    fields = {"user": "bob<b>", "mechanism": "SCRAM-SHA-512"}
    page = visitor.post("/access", "/access/user", password="a secret", **fields)
    assert "a secret" not in page
    assert row(page, "bob<b>")[1].startswith("SCRAM-SHA-512, 4 096 iterations")
    with Admin(bootstrap_servers=secured.bootstrap_servers, **ADMIN) as admin:
        assert admin.describe_user_scram_credentials()["bob<b>"] == {"SCRAM-SHA-512": 4096}
        assert "name and a password" in visitor.post("/access", "/access/user", 400, user="x")
        confirm = f"/access/confirm?{urlencode({'what': 'user', **fields})}"
        visitor.post(confirm, "/access/user/delete", **fields)
        assert "bob<b>" not in admin.describe_user_scram_credentials()


def test_quotas(visitor: Visitor, secured: Broker) -> None:
    entity = {"user": "<default>", "client_id": "shop"}
    page = visitor.post("/access", "/access/quota", **entity, quota="producer_byte_rate", value="1048576")
    assert row(page, "client-id shop, user <default>")[1].startswith("producer_byte_rate 1 048 576")
    with Admin(bootstrap_servers=secured.bootstrap_servers, **ADMIN) as admin:
        quotas = {(("client-id", "shop"), ("user", None)): {"producer_byte_rate": 1048576.0}}
        assert admin.describe_client_quotas() == quotas
        fields = {**entity, "quota": "producer_byte_rate"}
        confirm = f"/access/confirm?{urlencode({'what': 'quota', **fields})}"
        assert "--client shop --user-defaults" in html.unescape(visitor.get(confirm))
        visitor.post(confirm, "/access/quota/delete", **fields)
        assert admin.describe_client_quotas() == {}
    for told, wrong in (
        ("Name a user", {}),
        ("of no user", {"ip": "10.0.0.1", "user": "x"}),
        ("is not a number", {"user": "x", "value": "much"}),
    ):
        assert told in visitor.post("/access", "/access/quota", 400, quota="request_percentage", **wrong)
    assert "nothing to confirm" in visitor.get("/access/confirm?what=all", 400)


def test_a_cluster_without_acls_has_users_and_quotas(broker: Broker, visit: Callable[..., Visitor]) -> None:
    visitor = visit(broker.bootstrap_servers, read_only=True)
    visitor.log_in()
    page = visitor.get("/access")
    assert "The ACLs are not known: " in page
    assert "No user has a password" in page
    assert "--read-only" in visitor.post("/access", "/access/acl", 403, **ACL)
    assert "Do it" not in visitor.get(f"/access/confirm?{urlencode({'what': 'acl', **ACL})}")


def test_forms_and_words() -> None:
    binding = parse_binding(ACL)
    assert binding_fields(binding) == ACL
    words = "--group orders --resource-pattern-type prefixed --deny-principal User:<i>alice --deny-host"
    assert " ".join(acl_words(binding)) == f"{words} 10.0.0.7 --operation Read"
    cluster = parse_binding(
        {**ACL, "type": "Cluster", "name": "", "pattern": "Literal", "operation": "Alter"}
    )
    assert acl_words(cluster)[0] == "--cluster"
    for wrong in ({"type": "Any"}, {"name": ""}, {"principal": "alice"}, {"operation": "x"}, {"type": "x"}):
        with pytest.raises(ValueError):
            parse_binding({**ACL, **wrong})
    assert quota_words(parse_entity({"ip": "<default>"})) == ["--ip-defaults"]
