"""ACLs among several brokers: each follows what another was told, also after the end of its session."""

from __future__ import annotations

import pytest

from odradek import (
    AccessControlEntry,
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
from odradek.errors import TopicAuthorizationError
from odradek.testing import Broker, Cluster, Security

WHO = "User:ANONYMOUS"


def acl(name: str, operation: AclOperation, *, deny: bool = False, prefix: bool = False) -> AclBinding:
    permission = AclPermissionType.DENY if deny else AclPermissionType.ALLOW
    pattern = PatternType.PREFIXED if prefix else PatternType.LITERAL
    return AclBinding(
        ResourcePattern(ResourceType.TOPIC, name, pattern),
        AccessControlEntry(WHO, "*", operation, permission),
    )


def known(cluster: Cluster, broker_id: int) -> set[AclBinding]:
    """The ACLs that a broker asks."""
    return cluster.broker(broker_id).call(lambda b: set(b.acls.authorizer.index.bindings()))  # type: ignore[union-attr]


def test_acls_are_followed_by_all_brokers() -> None:
    cluster_acl = AclBinding(
        ResourcePattern(ResourceType.CLUSTER, "kafka-cluster"),
        AccessControlEntry(WHO, "*", AclOperation.ALL, AclPermissionType.ALLOW),
    )
    config = {
        "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow_everyone_if_no_acl_found": True,
    }
    with Cluster(2, **config) as cluster, Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        wanted = {cluster_acl, acl("pay-", AclOperation.READ, deny=True, prefix=True)}
        admin.create_acls(wanted)
        for one in (0, 1):
            cluster.wait_until(lambda one=one: known(cluster, one) == wanted)
        assert admin.create_topics(["clicks", "pay-1"], validate_only=True)
        more = acl("clicks", AclOperation.CREATE, deny=True)
        # What was changed while a broker had no session is loaded with the next one.
        cluster.expire(1)
        admin.create_acls([more])
        for one in (0, 1):
            cluster.wait_until(lambda one=one: more in known(cluster, one))
        cluster.wait_until(lambda: len(cluster.image(1).brokers) == 2)
        (removed,) = admin.delete_acls([AclBindingFilter(ResourcePatternFilter(*more.pattern))])
        assert removed == [more]
        for one in (0, 1):
            cluster.wait_until(lambda one=one: known(cluster, one) == wanted)
        cluster.stop(1)
        cluster.restart(1)
        cluster.wait_until(lambda: known(cluster, 1) == wanted)
        # Nobody may list what is denied to him, and brokers go on with what is theirs.
        admin.create_acls([acl("pay-", AclOperation.ALL, deny=True, prefix=True)])
        with pytest.raises(TopicAuthorizationError):
            admin.describe_topics(["pay-1"])


def test_users_and_acls_in_one_line() -> None:
    read = AclBinding(
        ResourcePattern(ResourceType.TOPIC, "clicks"),
        AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW),
    )
    users = {"admin": "a-secret", "alice": "b-secret"}
    with Broker(security=Security(users=users, acls=(read,))) as broker:
        with Admin(broker.client_configs("admin")) as admin:
            assert admin.describe_acls() == [read]
            admin.create_topics(["clicks", "pay"])
        with Admin(broker.client_configs("alice")) as admin:
            assert admin.list_topics() == ["clicks"]
            with pytest.raises(TopicAuthorizationError):
                admin.delete_topics(["clicks"])
