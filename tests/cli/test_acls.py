"""`odradek acls`, and the administrator's calls under it, against a broker with an authorizer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import Result

from cli.conftest import RunTool
from odradek import (
    AccessControlEntry,
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    Admin,
    PatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from odradek.broker.config.broker_config import BrokerConfig
from odradek.cli import acls_in_store
from odradek.cluster.store.memory import MemoryServer, MemoryStore
from odradek.errors import InvalidRequestError, SecurityDisabledError
from odradek.testing import Broker
from odradek.util.clock import ManualClock

TOPIC = ResourceType.TOPIC
ENTRY = AccessControlEntry("User:bob", "*", AclOperation.READ, AclPermissionType.ALLOW)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker with an authorizer, at which everybody may do everything."""
    config = {"super_users": "User:ANONYMOUS"}
    with Broker(authorizer_class_name="kafka.security.authorizer.AclAuthorizer", **config) as broker:
        yield broker


@pytest.fixture
def admin(broker: Broker) -> Iterator[Admin]:
    """An administrator, who begins without ACLs."""
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.delete_acls([AclBindingFilter()])
        yield admin


@pytest.fixture
def acls(run: RunTool, broker: Broker, admin: Admin) -> RunTool:
    """Run the tool; the result's exit code must be `status`."""

    def call(*words: str, stdin: bytes = b"", status: int = 0) -> Result:
        result = run("acls", "--bootstrap-server", broker.bootstrap_servers, *words, stdin=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == status, result.output
        return result

    return call


def test_acls_as_json(acls: RunTool, admin: Admin) -> None:
    entry = ENTRY._replace(operation=AclOperation.IDEMPOTENT_WRITE)
    admin.create_acls([AclBinding(ResourcePattern(ResourceType.CLUSTER, "kafka-cluster"), entry)])
    expected = {
        "resourceType": "CLUSTER",
        "name": "kafka-cluster",
        "patternType": "LITERAL",
        "principal": "User:bob",
        "host": "*",
        "operation": "IDEMPOTENT_WRITE",
        "permissionType": "ALLOW",
    }
    assert json.loads(acls("--list", "--json").stdout) == [expected]
    assert json.loads(acls("--list", "--principal", "User:eve", "--json").stdout) == []


def test_the_administrators_calls(admin: Admin) -> None:
    bindings = [
        AclBinding(ResourcePattern(TOPIC, "a"), ENTRY),
        AclBinding(ResourcePattern(TOPIC, "a", PatternType.PREFIXED), ENTRY),
        AclBinding(ResourcePattern(ResourceType.USER, "User:x"), ENTRY._replace(host="10.0.0.1")),
    ]
    admin.create_acls([*bindings, bindings[0]])
    admin.create_acls(bindings)
    assert set(admin.describe_acls()) == set(bindings)
    about = AclBindingFilter(ResourcePatternFilter(TOPIC, "abc", PatternType.MATCH))
    assert admin.describe_acls(about) == [bindings[1]]
    with pytest.raises(InvalidRequestError, match="empty resource name") as caught:
        admin.create_acls([AclBinding(ResourcePattern(TOPIC, ""), ENTRY)])
    assert len(caught.value.errors) == 1  # type: ignore[attr-defined]
    here = AclBindingFilter(entry=AccessControlEntryFilter(host="10.0.0.1"))
    assert admin.delete_acls([here, AclBindingFilter(), here]) == [[bindings[2]], bindings[:2], []]
    assert admin.describe_acls() == []


def test_brokers_without_an_authorizer(shared_broker: Broker) -> None:
    with Admin(bootstrap_servers=shared_broker.bootstrap_servers) as admin:
        for call in (
            admin.describe_acls,
            lambda: admin.create_acls([AclBinding(ResourcePattern(TOPIC, "a"), ENTRY)]),
            lambda: admin.delete_acls([AclBindingFilter()]),
        ):
            with pytest.raises(SecurityDisabledError, match="No Authorizer is configured"):
                call()


def test_add_list_remove(acls: RunTool) -> None:
    pattern = "ResourcePattern(resourceType=TOPIC, name=t, patternType=LITERAL)"
    read = "(principal=User:bob, host=10.0.0.1, operation=READ, permissionType=ALLOW)"
    write = "(principal=User:bob, host=10.0.0.1, operation=WRITE, permissionType=ALLOW)"
    who = ["--allow-principal", "User:bob", "--allow-host", "10.0.0.1", "--topic", "t"]
    added = acls("--add", *who, "--operation", "Read", "--operation", "WRITE").stdout
    assert added == f"Adding ACLs for resource `{pattern}`: \n \t{read}\n\t{write}\n\n"
    again = acls("--add", *who, "--operation", "Read").stdout
    assert again == f"Acl (pattern={pattern}, entry={read}) already exists.\n"
    listed = f"Current ACLs for resource `{pattern}`:\n\t{read}\n\t{write}\n\n"
    assert acls("--list").stdout == listed
    assert acls("--list", "--topic", "t").stdout == listed
    assert acls("--list", "--topic", "u").stdout == ""
    assert acls("--list", "--topic", "t", "--resource-pattern-type", "prefixed").stdout == ""
    assert acls("--list", "--principal", "User:bob").stdout == f"ACLs for principal `User:bob`\n{listed}"
    assert acls("--list", "--principal", "User:x").stdout == "ACLs for principal `User:x`\n"
    question = "Are you sure you want to remove ACLs: \n"
    kept = acls("--remove", *who, "--operation", "Read", stdin=b"n\n").stdout
    assert kept == f"{question} \t{read}\n from resource filter `{pattern}`? (y/n)\n"
    assert acls("--list").stdout == listed
    acls("--remove", *who, "--operation", "Read", stdin=b"y\n")
    assert read not in acls("--list").stdout
    asked = acls("--remove", "--topic", "t", stdin=b"Y\n").stdout
    assert asked == f"Are you sure you want to delete all ACLs for resource filter `{pattern}`? (y/n)\n"
    assert acls("--list").stdout == ""
    assert acls("--remove", "--topic", "t", "--force").stdout == ""


def test_roles(acls: RunTool, admin: Admin) -> None:
    who = ("--allow-principal", "User:a", "--topic", "t")
    acls("--add", "--producer", *who, "--transactional-id", "x", "--idempotent")
    acls("--add", "--consumer", *who, "--group", "g")
    found = {(one.pattern.resource_type.name, one.entry.operation.name) for one in admin.describe_acls()}
    assert found == {
        ("TOPIC", "WRITE"),
        ("TOPIC", "DESCRIBE"),
        ("TOPIC", "CREATE"),
        ("TOPIC", "READ"),
        ("TRANSACTIONAL_ID", "WRITE"),
        ("TRANSACTIONAL_ID", "DESCRIBE"),
        ("CLUSTER", "IDEMPOTENT_WRITE"),
        ("GROUP", "READ"),
    }
    acls("--remove", "--force", "--producer", "--consumer", *who, "--group", "g", "--transactional-id", "x",
         "--idempotent")  # fmt: skip
    assert admin.describe_acls() == []


def test_every_kind_of_resource(acls: RunTool, admin: Admin) -> None:
    deny = ("--deny-principal", "User:*", "--deny-host", "10.0.0.1", "--deny-host", "10.0.0.2")
    acls("--add", *deny, "--cluster", "--group", "g", "--delegation-token", "k", "--transactional-id", "x")
    allow = ("--allow-principal", "User:a", "--operation", "CreateTokens")
    acls("--add", *allow, "--user-principal", "User:b")
    found = admin.describe_acls()
    assert {one.pattern.resource_type for one in found} == set(list(ResourceType)[3:])
    assert len(found) == 9
    assert {one.entry.operation.pascal_name for one in found} == {"All", "CreateTokens"}


_ADD = ("--add", "--allow-principal", "User:a")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "exactly one action"),
        (["--add", "--list"], "exactly one action"),
        (["--add", "--topic", "t"], "--allow-principal, --deny-principal"),
        ([*_ADD], "at least one resource"),
        (["--add", "--allow-principal", "bob", "--topic", "t"], "principalType:principalName but got bob"),
        ([*_ADD, "--topic", "t", "--resource-pattern-type", "any"], "'ANY' is not valid when adding"),
        ([*_ADD, "--topic", "t", "--resource-pattern-type", "x"], "Unknown resource-pattern-type: x"),
        ([*_ADD, "--topic", "t", "--operation", "ClusterAction"], "TOPIC only supports operations Read, "),
        ([*_ADD, "--topic", "t", "--operation", "nonsense"], "TOPIC only supports operations Read, "),
        ([*_ADD, "--producer"], "With --producer you must specify a --topic"),
        ([*_ADD, "--consumer", "--topic", "t"], "With --consumer you must specify"),
        ([*_ADD, "--consumer", "--topic", "t", "--group", "g", "--cluster"], "no --cluster"),
        (
            [*_ADD, "--producer", "--topic", "t", "--operation", "Read"],
            'can\'t be used with option "--operation"',
        ),
        ([*_ADD, "--topic", "t", "--idempotent"], "only available if --producer is set"),
        ([*_ADD, "--topic", "t", "--principal", "User:a"], "only available if --list is set"),
        (["--list", "--allow-principal", "User:a"], 'can\'t be used with option "--allow-principal"'),
        (["--list", "--authorizer-properties", "zookeeper.connect=x:1"], "One and only one of"),
        (["--list", "--bootstrap-controller", "x:1"], "give --bootstrap-server HOST:PORT instead"),
    ],
)
def test_words_that_do_not_go_together(words: list[str], why: str, acls: RunTool) -> None:
    assert why in acls(*words, status=1).stderr


def test_an_acl_that_cannot_be(acls: RunTool) -> None:
    failed = acls(*_ADD, "--topic", "a/b", status=1)
    assert "contains invalid resource name: a/b" in failed.stderr


def test_without_brokers(run: RunTool, monkeypatch: pytest.MonkeyPatch) -> None:
    server = MemoryServer(ManualClock())
    monkeypatch.setattr(acls_in_store, "open_store", lambda *_: MemoryStore(server))
    in_store = ("--authorizer-properties", "zookeeper.connect=zk:2181")
    added = run("acls", *in_store, *_ADD, "--topic", "t", "--topic", "u", "--operation", "Read")
    assert added.exit_code == 0, added.output
    # Kafka's tool lists what there is in the end.
    assert "Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=u" in added.stdout
    removed = run("acls", *in_store, "--remove", "--topic", "t", "--force")
    assert removed.exit_code == 0, removed.output
    with closing(MemoryStore(server)) as store:
        assert store.children("/kafka-acl/Topic") == ["u"]
        assert len(store.children("/kafka-acl-changes")) == 3
    refused = run("acls", *in_store, *_ADD, "--topic", "a/b")
    assert refused.exit_code == 1
    assert "a/b" in refused.stderr
    missing = run("acls", "--authorizer-properties", "zookeeper.url=zk", "--list")
    assert "zookeeper.connect=HOST:PORT is missing" in missing.stderr


def test_zookeeper_is_reached_as_brokers_reach_it(
    run: RunTool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A file that asks for TLS was not read once: passwords would have gone in clear."""
    server = MemoryServer(ManualClock())
    given: list[BrokerConfig] = []

    def opened(config: BrokerConfig, *_: object) -> MemoryStore:
        given.append(config)
        return MemoryStore(server)

    monkeypatch.setattr(acls_in_store, "open_store", opened)
    file = tmp_path / "zk.properties"
    file.write_text(
        "zookeeper.ssl.client.enable=true\nzookeeper.ssl.truststore.location=/ca.pem\n", encoding="utf-8"
    )
    words = ["--authorizer-properties", "zookeeper.connect=zk:2181", "--zk-tls-config-file", str(file)]
    more = ["--authorizer-properties", "zookeeper.set.acl=true"]
    assert run("acls", *words, *more, "--list").exit_code == 0
    (config,) = given
    assert config.zookeeper_ssl_client_enable and config.zookeeper_set_acl
    assert (config.zookeeper_connect, config.zookeeper_ssl_truststore_location) == ("zk:2181", "/ca.pem")
    alone = run("acls", "--bootstrap-server", "x:1", "--zk-tls-config-file", str(file), "--list")
    assert "can only be specified with --authorizer-properties" in alone.stderr
    absent = run("acls", *words[:3], str(tmp_path / "absent"), "--list")
    assert absent.exit_code != 0 and "absent" in absent.stderr
