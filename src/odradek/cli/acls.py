"""`odradek acls`: kafka-acls."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

import click

from odradek.cli.tool import (
    Tool,
    bootstrap_option,
    check_json,
    client_configs,
    command_config_option,
    echo_json,
    json_option,
    key_values,
    read_properties,
)
from odradek.util.acl import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    AccessControlEntry,
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    parse_operation,
    parse_pattern_type,
    parse_principal,
)

Entries = dict[ResourcePatternFilter, list[AccessControlEntry]]
_F = TypeVar("_F", bound=Callable[..., Any])


class Acls(Protocol):
    """The holder of the ACLs: the brokers, or their ZooKeeper."""

    def describe_acls(self, acl_filter: AclBindingFilter) -> list[AclBinding]:
        """See `Admin.describe_acls`."""
        ...

    def create_acls(self, bindings: Iterable[AclBinding]) -> None:
        """See `Admin.create_acls`."""
        ...

    def delete_acls(self, filters: list[AclBindingFilter]) -> list[list[AclBinding]]:
        """See `Admin.delete_acls`."""
        ...


def _words(*names: str, **more: Any) -> Callable[[_F], _F]:
    """An option that may be given several times."""
    return click.option(*names, multiple=True, **more)


@click.command(cls=Tool, name="acls")
@bootstrap_option(required=False)
@command_config_option()
# Accepted: with ZooKeeper Kafka's tool takes the name of a class, and here there is one authorizer.
@click.option("--authorizer", hidden=True)
@_words(
    "--authorizer-properties",
    metavar="KEY=VALUE",
    help="zookeeper.connect=HOST:PORT[/chroot]: where the ACLs are, instead of brokers. Further configs of a "
    "broker say how ZooKeeper is reached.",
)
@click.option(
    "--zk-tls-config-file",
    "zk_config_file",
    metavar="FILE",
    help="With --authorizer-properties: a file with such configs, zookeeper.ssl.client.enable and the like.",
)
@click.option("--add", "adds", is_flag=True, help="Add ACLs.")
@click.option("--remove", "removes", is_flag=True, help="Remove ACLs.")
@click.option("--list", "lists", is_flag=True, help="List the ACLs of the resources that are named, or all.")
@_words("--topic", "topics", help="A topic; '*' for all.")
@click.option("--cluster", is_flag=True, help="The cluster.")
@_words("--group", "groups", help="A group; '*' for all.")
@_words("--transactional-id", "transactional_ids", help="A transactional id; '*' for all.")
@_words("--delegation-token", "tokens", help="A delegation token; '*' for all.")
@_words("--user-principal", "users", help="A user as a resource, for CreateTokens and DescribeTokens.")
@click.option(
    "--resource-pattern-type",
    "pattern_text",
    default="literal",
    help="literal or prefixed; to list and remove also any (this very name) and match (all that is about "
    "a resource of this name).",
)
@_words("--allow-principal", "allowed", help="Who is allowed, such as User:alice; User:* is everybody.")
@_words("--deny-principal", "denied", help="Who is denied. Denying is stronger than allowing.")
@_words("--allow-host", "allowed_hosts", help="From where; '*' by default.")
@_words("--deny-host", "denied_hosts", help="From where not; '*' by default.")
@_words("--operation", "operation_texts", help="What, such as Read; All by default.")
@_words("--principal", "principals", help="With --list: of these principals alone.")
@click.option("--producer", is_flag=True, help="What a producer needs: Write, Describe, Create on topics.")
@click.option(
    "--consumer", is_flag=True, help="What a consumer needs: Read, Describe on topics, Read on groups."
)
@click.option("--idempotent", is_flag=True, help="With --producer: IdempotentWrite on the cluster.")
@click.option("--force", is_flag=True, help="Do not ask back.")
@json_option()
def command(**given: Any) -> None:
    """List, add and remove ACLs."""
    words = _Words(given)
    words.check()
    # As in Kafka's `AclCommand` with an authorizer: changes are followed by what there is then.
    with words.open() as acls:
        if words.adds:
            _add(acls, words)
        elif words.removes:
            _remove(acls, words)
        if words.lists or words.in_store:
            _list(acls, words)


class _Words:
    """The words of the command line."""

    bootstrap_server: str | None
    config_file: str | None
    authorizer_properties: tuple[str, ...]
    zk_config_file: str | None
    adds: bool
    removes: bool
    lists: bool
    topics: tuple[str, ...]
    cluster: bool
    groups: tuple[str, ...]
    transactional_ids: tuple[str, ...]
    tokens: tuple[str, ...]
    users: tuple[str, ...]
    pattern_text: str
    allowed: tuple[str, ...]
    denied: tuple[str, ...]
    allowed_hosts: tuple[str, ...]
    denied_hosts: tuple[str, ...]
    operation_texts: tuple[str, ...]
    principals: tuple[str, ...]
    producer: bool
    consumer: bool
    idempotent: bool
    force: bool
    as_json: bool

    def __init__(self, given: Mapping[str, Any]) -> None:
        # The options' names are the attributes above: twenty of them need not be handed over one by one.
        self.__dict__.update(given)
        self.pattern_type = parse_pattern_type(self.pattern_text)

    @property
    def in_store(self) -> bool:
        """True if ZooKeeper is asked instead of brokers."""
        return bool(self.authorizer_properties)

    def check(self) -> None:
        """Check that the words go together.

        Raises:
            click.UsageError: they do not, or ask for no action or for several.
        """
        # The sentences are those of Kafka's `AclCommandOptions.checkArgs`.
        if (self.bootstrap_server is None) is not self.in_store:
            raise click.UsageError(
                "One and only one of --bootstrap-server and --authorizer-properties must be specified"
            )
        if self.zk_config_file is not None and not self.in_store:
            raise click.UsageError(
                "The --zk-tls-config-file option can only be specified with --authorizer-properties"
            )
        if [self.adds, self.removes, self.lists].count(True) != 1:
            raise click.UsageError("Command must include exactly one action: --list, --add, --remove.")
        check_json(self.as_json, lists=self.lists)
        if self.pattern_type == PatternType.UNKNOWN:
            raise click.UsageError(f"Unknown resource-pattern-type: {self.pattern_text}")
        # To list, `--principal` is the filter; these options say what an entry shall be.
        principals = ("allowed", "denied", "allowed_hosts", "denied_hosts")
        if self.lists:
            self._check_without("--list", "producer", "consumer", *principals)
        for role in ("producer", "consumer"):
            if getattr(self, role):
                self._check_without(f"--{role}", "operation_texts", "denied", "denied_hosts")
        if self.principals and not self.lists:
            raise click.UsageError("The --principal option is only available if --list is set")
        if self.producer and not self.topics:
            raise click.UsageError("With --producer you must specify a --topic")
        if self.idempotent and not self.producer:
            raise click.UsageError("The --idempotent option is only available if --producer is set")
        others = not self.producer and (self.cluster or self.transactional_ids)
        if self.consumer and (not self.topics or not self.groups or others):
            raise click.UsageError(
                "With --consumer you must specify a --topic and a --group and no --cluster or "
                "--transactional-id option should be specified."
            )

    def _check_without(self, option: str, *others: str) -> None:
        for other in others:
            if getattr(self, other):
                shown = _OPTIONS.get(other, f"--{other}")
                raise click.UsageError(f'Option "{option}" can\'t be used with option "{shown}"')

    def open(self) -> AbstractContextManager[Acls]:
        """The way to the ACLs."""
        if self.bootstrap_server is None:
            from odradek.cli.acls_in_store import AclsInStore

            properties = key_values(self.authorizer_properties, "--authorizer-properties")
            if "zookeeper.connect" not in properties:
                raise click.UsageError("--authorizer-properties: zookeeper.connect=HOST:PORT is missing")
            return AclsInStore({**read_properties(self.zk_config_file), **properties})
        from odradek import Admin

        return Admin(**client_configs(self.bootstrap_server, self.config_file, client_id="odradek-acls"))

    def resources(self) -> list[ResourcePatternFilter]:
        """The resources that are named."""
        kinds = (
            (ResourceType.TOPIC, self.topics),
            (ResourceType.GROUP, self.groups),
            (ResourceType.TRANSACTIONAL_ID, self.transactional_ids),
            (ResourceType.DELEGATION_TOKEN, self.tokens),
            (ResourceType.USER, self.users),
        )
        resources = [
            ResourcePatternFilter(kind, name.strip(), self.pattern_type)
            for kind, names in kinds
            for name in names
        ]
        # The cluster has one name, which no pattern but a literal one fits.
        if self.pattern_type == PatternType.LITERAL and (self.cluster or self.idempotent):
            resources.append(_CLUSTER)
        return list(dict.fromkeys(resources))

    def entries(self) -> Entries:
        """Return what is to be added or removed, by resource.

        Raises:
            click.UsageError: no resource is named, or an operation that there is not for it.
        """
        resources = self.resources()
        if not resources:
            raise click.UsageError(
                "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or "
                "--delegation-token <Delegation Token ID>"
            )
        entries_by_resource: Entries = {}
        # `--producer` and `--consumer` may be given together, and say the operations by themselves.
        if not self.producer and not self.consumer:
            operations = [parse_operation(text) for text in self.operation_texts] or [AclOperation.ALL]
            entries_by_resource = {resource: self._made(*operations) for resource in resources}
        if self.producer:
            _merge(
                entries_by_resource,
                resources,
                ResourceType.TOPIC,
                self._made(AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE),
            )
            _merge(
                entries_by_resource,
                resources,
                ResourceType.TRANSACTIONAL_ID,
                self._made(AclOperation.WRITE, AclOperation.DESCRIBE),
            )
            # Brokers since 2.8 need no such ACL (KIP-679): who may write to a topic may be idempotent.
            if self.idempotent:
                _merge(
                    entries_by_resource,
                    [_CLUSTER],
                    ResourceType.CLUSTER,
                    self._made(AclOperation.IDEMPOTENT_WRITE),
                )
        if self.consumer:
            _merge(
                entries_by_resource,
                resources,
                ResourceType.TOPIC,
                self._made(AclOperation.READ, AclOperation.DESCRIBE),
            )
            _merge(entries_by_resource, resources, ResourceType.GROUP, self._made(AclOperation.READ))
        for resource, entries in entries_by_resource.items():
            supported = (*SUPPORTED_OPERATIONS[resource.resource_type], AclOperation.ALL)
            if any(entry.operation not in supported for entry in entries):
                raise click.UsageError(
                    f"ResourceType {resource.resource_type.name} only supports operations "
                    + ", ".join(operation.pascal_name for operation in supported)
                )
        return entries_by_resource

    def _made(self, *operations: AclOperation) -> list[AccessControlEntry]:
        kinds = (
            (AclPermissionType.ALLOW, self.allowed, self.allowed_hosts),
            (AclPermissionType.DENY, self.denied, self.denied_hosts),
        )
        return [
            AccessControlEntry(_principal(principal), host.strip(), operation, permission)
            for permission, principals, hosts in kinds
            for principal in principals
            for operation in operations
            # Without a host from everywhere; hosts without a principal make no entry.
            for host in hosts or (WILDCARD,)
        ]


_CLUSTER = ResourcePatternFilter(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
_OPTIONS = {
    "allowed": "--allow-principal",
    "denied": "--deny-principal",
    "allowed_hosts": "--allow-host",
    "denied_hosts": "--deny-host",
    "operation_texts": "--operation",
}


def _merge(
    entries_by_resource: Entries,
    resources: Iterable[ResourcePatternFilter],
    kind: ResourceType,
    entries: list[AccessControlEntry],
) -> None:
    for resource in resources:
        if resource.resource_type == kind:
            # A topic of a producer and consumer: what both need of it is one entry.
            present = entries_by_resource.get(resource, ())
            entries_by_resource[resource] = list(dict.fromkeys((*present, *entries)))


def _principal(text: str) -> str:
    try:
        return parse_principal(text.strip())
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _add(acls: Acls, words: _Words) -> None:
    # `any` and `match` are ways to look for patterns, not patterns (KIP-290).
    if words.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise click.UsageError(
            f"A '--resource-pattern-type' value of '{words.pattern_type.name}' is not valid when adding acls."
        )
    entries_by_resource = words.entries()
    if not all(entries_by_resource.values()):
        raise click.UsageError(
            "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."
        )
    for resource, entries in entries_by_resource.items():
        pattern = ResourcePattern(resource.resource_type, resource.name or "", resource.pattern_type)
        bindings = [AclBinding(pattern, entry) for entry in entries]
        present = set(acls.describe_acls(AclBindingFilter(resource)))
        for binding in bindings:
            if binding in present:
                click.echo(f"Acl (pattern={pattern}, entry={binding.entry}) already exists.")
        new = [binding for binding in bindings if binding not in present]
        if new:
            click.echo(
                f"Adding ACLs for resource `{pattern}`: \n {_lines(binding.entry for binding in new)}\n"
            )
            acls.create_acls(new)


def _remove(acls: Acls, words: _Words) -> None:
    for resource, entries in words.entries().items():
        shown = ResourcePattern(resource.resource_type, resource.name or "", resource.pattern_type)
        if entries:
            question = (
                f"Are you sure you want to remove ACLs: \n {_lines(entries)}\n "
                f"from resource filter `{shown}`? (y/n)"
            )
        else:
            question = f"Are you sure you want to delete all ACLs for resource filter `{shown}`? (y/n)"
        if not words.force:
            click.echo(question)
            if sys.stdin.readline().strip().lower() != "y":
                continue
        # Without principals all entries of the resource are meant, as the question has said.
        filters = [AccessControlEntryFilter(*entry) for entry in entries] or [AccessControlEntryFilter()]
        acls.delete_acls([AclBindingFilter(resource, entry_filter) for entry_filter in filters])


def _list(acls: Acls, words: _Words) -> None:
    # Two filters may find the same binding.
    bindings: dict[AclBinding, None] = {}
    for resource in words.resources() or [ResourcePatternFilter()]:
        bindings |= dict.fromkeys(acls.describe_acls(AclBindingFilter(resource)))
    if words.as_json:
        principals = {_principal(text) for text in words.principals}
        echo_json(
            [
                _as_object(binding)
                for binding in sorted(bindings)
                if not principals or binding.entry.principal in principals
            ]
        )
        return
    if not words.principals:
        _show(bindings)
    for text in words.principals:
        principal = _principal(text)
        click.echo(f"ACLs for principal `{principal}`")
        _show(binding for binding in bindings if binding.entry.principal == principal)


def _show(bindings: Iterable[AclBinding]) -> None:
    by_pattern: dict[ResourcePattern, list[AccessControlEntry]] = {}
    for pattern, entry in sorted(bindings):
        by_pattern.setdefault(pattern, []).append(entry)
    for pattern, entries in by_pattern.items():
        click.echo(f"Current ACLs for resource `{pattern}`:\n{_lines(entries)}\n")


def _as_object(binding: AclBinding) -> dict[str, str]:
    pattern, entry = binding
    return {
        "resourceType": pattern.resource_type.name,
        "name": pattern.name,
        "patternType": pattern.pattern_type.name,
        "principal": entry.principal,
        "host": entry.host,
        "operation": entry.operation.name,
        "permissionType": entry.permission_type.name,
    }


def _lines(entries: Iterable[AccessControlEntry]) -> str:
    return "\n".join(f"\t{entry}" for entry in entries)
