"""Who may do what by the ACLs in memory: each rule, and all of them against a search through everything."""

from __future__ import annotations

import random

import pytest

from odradek.broker.authorizer.acl_index import AclDecision, AclIndex, super_users
from odradek.util.acl import (
    AccessControlEntry,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from seeds import each_seed

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
HERE = "10.0.0.1"


def entry(
    operation: AclOperation = READ,
    permission: AclPermissionType = ALLOW,
    principal: str = "User:alice",
    host: str = "*",
) -> AccessControlEntry:
    return AccessControlEntry(principal, host, operation, permission)


def literal(name: str, kind: ResourceType = TOPIC) -> ResourcePattern:
    return ResourcePattern(kind, name)


def prefix(name: str, kind: ResourceType = TOPIC) -> ResourcePattern:
    return ResourcePattern(kind, name, PatternType.PREFIXED)


def index_of(acls: dict[ResourcePattern, list[AccessControlEntry]]) -> AclIndex:
    index = AclIndex()
    for pattern, entries in acls.items():
        index.replace(pattern, frozenset(entries))
    return index


def decide(
    index: AclIndex,
    name: str,
    operation: AclOperation = READ,
    principal: str = "User:alice",
    host: str = HERE,
    kind: ResourceType = TOPIC,
    without_acls: bool = False,
) -> AclDecision:
    return index.decide(principal, host, operation, kind, name, without_acls=without_acls)


def allowed(index: AclIndex, name: str, operation: AclOperation = READ, **more: object) -> bool:
    return decide(index, name, operation, **more).allowed  # type: ignore[arg-type]


def test_what_nobody_allows_is_denied() -> None:
    index = index_of({literal("t"): [entry()]})
    assert allowed(index, "t")
    assert not allowed(index, "u")
    assert not allowed(index, "t", principal="User:bob")
    assert not allowed(index, "t", principal="Role:alice")
    assert not allowed(index, "t", WRITE)
    assert not allowed(index, "t", kind=GROUP)
    assert decide(index, "u") == AclDecision(False, "DefaultDeny")


def test_a_resource_without_acls_is_open_only_where_the_config_says_so() -> None:
    index = index_of({literal("t"): [entry()]})
    assert decide(index, "u", without_acls=True) == AclDecision(True, "DefaultAllow")
    assert not allowed(index, "t", principal="User:bob", without_acls=True)
    index.replace(prefix(""), frozenset([entry(principal="User:x")]))
    assert not allowed(index, "u", without_acls=True)


def test_prefixes_and_wildcards() -> None:
    index = index_of(
        {prefix("web."): [entry()], prefix("w"): [entry(WRITE)], literal("*"): [entry(DESCRIBE)]}
    )
    assert allowed(index, "web.clicks")
    assert allowed(index, "web.")
    assert not allowed(index, "web")
    assert allowed(index, "web", WRITE)
    assert not allowed(index, "other", WRITE)
    assert allowed(index, "other", DESCRIBE)
    index.replace(prefix("w"), frozenset())
    assert not allowed(index, "web", WRITE)
    assert allowed(index, "web.clicks")


def test_deny_is_stronger_than_allow_wherever_it_stands() -> None:
    for denying in (literal("web.clicks"), prefix("web"), prefix("w"), literal("*")):
        index = index_of({literal("web.clicks"): [entry()], prefix("we"): [entry()]})
        entries = index.entries(denying) | {entry(permission=DENY)}
        index.replace(denying, entries)
        assert not allowed(index, "web.clicks"), denying
        assert "DENY" in decide(index, "web.clicks").rule


def test_everybody_and_every_operation() -> None:
    index = index_of({literal("t"): [entry(AclOperation.ALL, principal="User:*")]})
    assert allowed(index, "t", AclOperation.ALTER_CONFIGS, principal="User:whoever")
    assert allowed(index, "t", principal="Role:whoever")
    index = index_of(
        {literal("t"): [entry(AclOperation.ALL), entry(AclOperation.ALL, DENY, principal="User:*")]}
    )
    assert not allowed(index, "t")


def test_hosts() -> None:
    index = index_of({literal("t"): [entry(host=HERE), entry(WRITE), entry(WRITE, DENY, host="10.0.0.2")]})
    assert allowed(index, "t") and not allowed(index, "t", host="10.0.0.2")
    assert allowed(index, "t", WRITE) and not allowed(index, "t", WRITE, host="10.0.0.2")


def test_an_ipv6_host_may_be_written_in_many_ways() -> None:
    index = index_of({literal("t"): [entry(host="0:0:0:0:0:0:0:1"), entry(WRITE, host="10.0.0.3")]})
    assert allowed(index, "t", host="::1")
    assert allowed(index, "t", WRITE, host="::ffff:10.0.0.3")
    assert not allowed(index, "t", host="::2")
    assert not allowed(index, "t", host="nonsense:")


@pytest.mark.parametrize("operation", [READ, WRITE, AclOperation.DELETE, AclOperation.ALTER, DESCRIBE])
def test_allowing_implies_describe_and_denying_does_not(operation: AclOperation) -> None:
    assert allowed(index_of({literal("t"): [entry(operation)]}), "t", DESCRIBE)
    if operation != DESCRIBE:
        index = index_of({literal("t"): [entry(DESCRIBE), entry(operation, DENY)]})
        assert allowed(index, "t", DESCRIBE)


def test_alter_configs_implies_describe_configs() -> None:
    index = index_of({literal("t"): [entry(AclOperation.ALTER_CONFIGS)]})
    assert allowed(index, "t", AclOperation.DESCRIBE_CONFIGS)
    assert not allowed(index, "t", DESCRIBE)


def test_the_rule_of_a_decision_is_in_kafkas_words() -> None:
    index = index_of({prefix("we"): [entry()]})
    assert decide(index, "web").rule == (
        "MatchingAcl(acl=StandardAcl[resourceType=TOPIC, resourceName=we, patternType=PREFIXED, "
        "principal=User:alice, host=*, operation=READ, permissionType=ALLOW])"
    )


def by_type(index: AclIndex, operation: AclOperation = WRITE, without_acls: bool = False) -> bool:
    return index.decide_by_type("User:alice", HERE, operation, TOPIC, without_acls=without_acls)


def test_any_resource_of_a_type() -> None:
    allow, deny = entry(WRITE), entry(WRITE, DENY)
    assert not by_type(index_of({}))
    assert by_type(index_of({}), without_acls=True)
    assert by_type(index_of({literal("t"): [allow]}))
    assert by_type(index_of({prefix("t"): [allow]}))
    assert not by_type(index_of({literal("t"): [allow, deny]}))
    assert not by_type(index_of({literal("t"): [allow], prefix("t"): [deny]}))
    assert not by_type(index_of({literal("t"): [allow], literal("*"): [deny]}))
    assert not by_type(index_of({literal("*"): [deny]}), without_acls=True)
    assert by_type(index_of({literal("t"): [deny], literal("u"): [allow]}))
    assert by_type(index_of({prefix("ta"): [deny], prefix("t"): [allow]}))
    assert not by_type(index_of({prefix("t"): [deny], prefix("ta"): [allow]}))
    assert by_type(index_of({prefix("t"): [deny], literal("*"): [allow]}))
    assert by_type(index_of({literal("t"): [entry(AclOperation.ALL, principal="User:*")]}))
    assert not by_type(index_of({literal("t", GROUP): [allow]}))
    assert not by_type(index_of({literal("t"): [entry(WRITE, host="10.9.9.9")]}))
    # Here nothing is implied.
    assert not by_type(index_of({literal("t"): [allow]}), DESCRIBE)


def _searched(
    acls: dict[ResourcePattern, set[AccessControlEntry]],
    principal: str,
    host: str,
    operation: AclOperation,
    name: str,
    without_acls: bool,
) -> bool:
    """The rules again, as a search through everything."""
    implied = {
        DESCRIBE: {READ, WRITE, AclOperation.DELETE, AclOperation.ALTER, DESCRIBE},
        AclOperation.DESCRIBE_CONFIGS: {AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS},
    }.get(operation, {operation})
    about = [
        one
        for pattern, entries in acls.items()
        for one in entries
        if (pattern.name in (name, "*") and pattern.pattern_type == PatternType.LITERAL)
        or (pattern.pattern_type == PatternType.PREFIXED and name.startswith(pattern.name))
    ]
    if not about:
        return without_acls
    fitting = [one for one in about if one.principal in (principal, "User:*") and one.host in (host, "*")]
    if any(one.permission_type == DENY and one.operation in (operation, AclOperation.ALL) for one in fitting):
        return False
    return any(
        one.operation in implied or one.operation == AclOperation.ALL for one in fitting if one[3] == ALLOW
    )


def _searched_by_type(
    acls: dict[ResourcePattern, set[AccessControlEntry]],
    principal: str,
    host: str,
    operation: AclOperation,
    without_acls: bool,
) -> bool:
    """May he do it to any topic that a pattern names, or that begins as one says? As Kafka asks it."""

    def names(kind: PatternType, permission: AclPermissionType) -> set[str]:
        return {
            pattern.name
            for pattern, entries in acls.items()
            for one in entries
            if pattern.pattern_type == kind
            and one.permission_type == permission
            and one.principal in (principal, "User:*")
            and one.host in (host, "*")
            and one.operation in (operation, AclOperation.ALL)
        }

    denied, below = names(PatternType.LITERAL, DENY), names(PatternType.PREFIXED, DENY)
    if "*" in denied or without_acls:
        return "*" not in denied
    literals, prefixes = names(PatternType.LITERAL, ALLOW), names(PatternType.PREFIXED, ALLOW)
    return "*" in literals or any(
        not any(name.startswith(prefix) for prefix in below) for name in (literals - denied) | prefixes
    )


@each_seed(2)
def test_against_a_search_through_everything(seed: int) -> None:
    rng = random.Random(seed)
    names = ["", "a", "ab", "abc", "b", "ba", "*"]
    principals, hosts = ["User:alice", "User:bob", "User:*"], ["*", HERE, "10.0.0.2"]
    operations = list(AclOperation)[2:]
    for _ in range(100):
        acls: dict[ResourcePattern, set[AccessControlEntry]] = {}
        index = AclIndex()
        for _ in range(rng.randrange(14)):
            pattern = ResourcePattern(
                TOPIC, rng.choice(names[1:]), rng.choice([PatternType.LITERAL, PatternType.PREFIXED])
            )
            entries = acls.setdefault(pattern, set())
            if entries and rng.random() < 0.2:
                entries.clear()
            else:
                entries.add(
                    AccessControlEntry(
                        rng.choice(principals),
                        rng.choice(hosts),
                        rng.choice(operations),
                        rng.choice([ALLOW, ALLOW, DENY]),
                    )
                )
            index.replace(pattern, frozenset(entries))
        assert set(index.patterns()) == {pattern for pattern, entries in acls.items() if entries}
        for _ in range(40):
            who, host = rng.choice(principals[:2]), rng.choice(hosts[1:])
            operation, name, open_ = rng.choice(operations[1:]), rng.choice(names), rng.random() < 0.3
            assert index.decide(who, host, operation, TOPIC, name, without_acls=open_).allowed == _searched(
                acls, who, host, operation, name, open_
            ), (acls, who, host, operation, name, open_)
            by_type = index.decide_by_type(who, host, operation, TOPIC, without_acls=open_)
            assert by_type == _searched_by_type(acls, who, host, operation, open_), (
                acls,
                who,
                host,
                operation,
            )


def test_super_users() -> None:
    assert super_users("User:a; User:CN=b,O=c ;") == ["User:a", "User:CN=b,O=c"]
    with pytest.raises(ValueError, match="principalType:principalName but got a"):
        super_users("a")
