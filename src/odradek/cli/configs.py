"""`odradek configs`: kafka-configs.

Configs of topics and brokers, levels of brokers' loggers, quotas of users, client ids and addresses, and
SCRAM credentials of users.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from odradek.cli.tool import (
    Tool,
    bootstrap_option,
    check_json,
    client_configs,
    command_config_option,
    echo_json,
    echo_lines,
    ignored_option,
    json_option,
    read_properties,
)
from odradek.errors import KafkaError, OdradekError, ResourceNotFoundError
from odradek.sasl.scram_credentials import HASHES, MIN_ITERATIONS
from odradek.util.java_text import java_double

if TYPE_CHECKING:
    from odradek import Admin
    from odradek.client.types import ConfigEntry

TOPICS, CLIENTS, USERS, BROKERS, IPS = "topics", "clients", "users", "brokers", "ips"
LOGGERS, CLIENT_METRICS, GROUPS = "broker-loggers", "client-metrics", "groups"

#: Entity type → DescribeConfigs' number for it (Kafka: `ConfigResource.Type`), and the source of configs of
#: its own (None: all are).
RESOURCES: Mapping[str, tuple[int, int | None]] = {
    TOPICS: (2, 1),
    BROKERS: (4, 2),
    LOGGERS: (8, None),
    CLIENT_METRICS: (16, 7),
    GROUPS: (32, 8),
}
DEFAULT_BROKER_SOURCE = 3
#: Entity type → its name in the protocol of quotas, and in what is printed.
QUOTA_TYPES = {USERS: ("user", "user-principal"), CLIENTS: ("client-id", "client-id"), IPS: ("ip", "ip")}
ENTITY_TYPES = (TOPICS, CLIENTS, USERS, BROKERS, IPS, LOGGERS, CLIENT_METRICS, GROUPS)
CLIENT_QUOTAS = frozenset(
    {"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"}
)
IP_QUOTAS = frozenset({"connection_creation_rate"})
MECHANISMS = frozenset(HASHES)

#: Flag → the entity type that it stands for; those of `SHORT_DEFAULTS` for its default.
SHORT = {
    "topic": TOPICS,
    "client": CLIENTS,
    "user": USERS,
    "broker": BROKERS,
    "broker_logger": LOGGERS,
    "ip": IPS,
    "client_metrics": CLIENT_METRICS,
    "group": GROUPS,
}
SHORT_DEFAULTS = {
    "client_defaults": CLIENTS,
    "user_defaults": USERS,
    "broker_defaults": BROKERS,
    "ip_defaults": IPS,
}
_NAMES = "odradek.cli.configs.names"
# The last: a password may have commas and line breaks.
_SCRAM = re.compile(r"(?:iterations=(-?[0-9]*),)?password=(.*)", re.DOTALL)


class Entities(NamedTuple):
    """The entities that are meant.

    Attributes:
        types: one type, or users and clients.
        names: a name for each, "" for the default; none for all.
    """

    types: list[str]
    names: list[str]


class ConfigsTool(Tool):
    """Remembers in which order `--entity-name` and `--entity-default` came: each belongs to a type."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words of the command line."""
        # click hands on the values of each option, but not which of two options came first.
        ctx.meta[_NAMES] = list(_names_in_order(args))
        return super().parse_args(ctx, args)


def _names_in_order(words: Sequence[str]) -> Iterator[str]:
    for at, word in enumerate(words):
        option, equals, value = word.partition("=")
        # One dash will do, too, as for Kafka's parser (joptsimple).
        name = option.lstrip("-")
        if name == option:
            continue
        if name == "entity-default":
            yield ""
        elif name == "entity-name" and (equals or at + 1 < len(words)):
            yield value if equals else words[at + 1]


@click.command(cls=ConfigsTool, name="configs")
@bootstrap_option()
@command_config_option()
@click.option("--alter", "do_alter", is_flag=True, help="Change configs of an entity.")
@click.option("--describe", "do_describe", is_flag=True, help="Show configs of entities.")
@click.option("--all", "shows_all", is_flag=True, help="Show configs that nobody has set, too.")
@click.option(
    "--entity-type", "entity_types", multiple=True, metavar="TYPE", help=f"One of {', '.join(ENTITY_TYPES)}."
)
@click.option(
    "--entity-name",
    "entity_names",
    multiple=True,
    metavar="NAME",
    help="Name of the topic, user, client id, broker, address, …",
)
@click.option(
    "--entity-default",
    is_flag=True,
    help="All users, clients, brokers, addresses that have none of their own.",
)
@click.option("--add-config", metavar="NAME=VALUE,…", help="Configs to set; [a,b] groups values with commas.")
@click.option(
    "--add-config-file", type=click.Path(exists=True, dir_okay=False), help="A properties file of such."
)
@click.option("--delete-config", multiple=True, metavar="NAME,…", help="Configs to take away.")
@click.option("--topic", metavar="NAME", help="The topic's name.")
@click.option("--client", metavar="ID", help="The client's id.")
@click.option("--client-defaults", is_flag=True, help="The default of client ids.")
@click.option("--user", metavar="NAME", help="The user's name.")
@click.option("--user-defaults", is_flag=True, help="The default of users.")
@click.option("--broker", metavar="ID", help="The broker's id.")
@click.option("--broker-defaults", is_flag=True, help="The default of brokers.")
@click.option("--broker-logger", metavar="ID", help="The id of the broker whose loggers are meant.")
@click.option("--ip", metavar="ADDRESS", help="The address.")
@click.option("--ip-defaults", is_flag=True, help="The default of addresses.")
@click.option("--group", metavar="ID", help="The group's id.")
@click.option("--client-metrics", metavar="NAME", help="The name of a subscription of clients' metrics.")
@ignored_option("--force", "nothing here asks back", is_flag=True)
@json_option()
def command(bootstrap_server: str, config_file: str | None, **options: Any) -> None:
    """Show and change configs, quotas and SCRAM credentials."""
    entities = _entities(options, click.get_current_context().meta[_NAMES])
    _check(options, entities)
    check_json(options["as_json"], lists=options["do_describe"])
    added = _added(options)
    deleted = [name.strip() for words in options["delete_config"] for name in words.split(",")]
    from odradek import Admin

    with Admin(**client_configs(bootstrap_server, config_file, client_id="odradek-configs")) as admin:
        if options["do_alter"]:
            _alter(admin, entities, added, deleted)
        elif options["as_json"]:
            echo_json(_objects(admin, entities, shows_all=options["shows_all"]))
        else:
            echo_lines(_describe(admin, entities, shows_all=options["shows_all"]))


# ---------------------------------------------------------------------- words


def _entities(options: Mapping[str, Any], names_in_order: Sequence[str]) -> Entities:
    types = list(options["entity_types"])
    names = list(names_in_order)
    short = [(option, kind) for option, kind in SHORT.items() if options[option] is not None]
    defaults = [kind for option, kind in SHORT_DEFAULTS.items() if options[option]]
    if (short or defaults) and (types or names):
        raise OdradekError(
            "--entity-{type,name,default} should not be used in conjunction with specific entity flags"
        )
    types += [kind for _, kind in short] + defaults
    names += [options[option] for option, _ in short] + [""] * len(defaults)
    return Entities(types, names)


def _check(options: Mapping[str, Any], entities: Entities) -> None:
    """Check that the words go together.

    Raises:
        click.UsageError, OdradekError: they do not; said in Kafka's words.
    """
    alters, types = options["do_alter"], entities.types
    if alters == options["do_describe"]:
        raise click.UsageError("Command must include exactly one action: --describe, --alter")
    for option in ("add_config", "delete_config"):
        if options["do_describe"] and options[option]:
            name = option.replace("_", "-")
            raise click.UsageError(f'Option "[describe]" can\'t be used with option "[{name}]"')
    if len(set(types)) < len(types):
        twice = ",".join(kind for kind in dict.fromkeys(types) if types.count(kind) > 1)
        raise OdradekError(f"Duplicate entity type(s) specified: {twice}")
    for kind in types:
        if kind not in ENTITY_TYPES:
            raise OdradekError(
                f"Invalid entity type {kind}, the entity type must be one of {', '.join(ENTITY_TYPES)} "
                "with a --bootstrap-server or --bootstrap-controller argument"
            )
    if not types:
        raise OdradekError("At least one entity type must be specified")
    if len(types) > 1 and set(types) != {USERS, CLIENTS}:
        raise OdradekError("Only 'users' and 'clients' entity types may be specified together")
    if len(entities.names) > len(types):
        raise OdradekError("More entity names specified than entity types")
    # The first type stands for both: users and clients are alike in what follows.
    _check_names(options, entities)
    if not alters:
        return
    if options["add_config"] is not None and options["add_config_file"] is not None:
        raise OdradekError("Only one of --add-config or --add-config-file must be specified")
    if not (options["add_config"] or options["add_config_file"] or options["delete_config"]):
        raise OdradekError(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with "
            "--alter"
        )


def _check_names(options: Mapping[str, Any], entities: Entities) -> None:
    types, names = entities
    kind = types[0]
    has_default = kind in (USERS, CLIENTS, BROKERS, IPS)
    if options["do_describe"]:
        if "" in names and not has_default:
            raise OdradekError(f"--entity-default must not be specified with --describe of {','.join(types)}")
        if kind == LOGGERS and not any(names):
            raise OdradekError(f"An entity name must be specified with --describe of {kind}")
    elif not names and has_default:
        raise OdradekError(
            "An entity-name or default entity must be specified with --alter of users, clients, brokers or "
            "ips"
        )
    elif not any(names) and not has_default:
        raise OdradekError(f"An entity name must be specified with --alter of {','.join(types)}")
    elif len(names) != len(types):
        raise OdradekError("An entity name must be specified for every entity type")
    if kind in (BROKERS, LOGGERS) and names and names[0] and not re.fullmatch(r"-?[0-9]+", names[0]):
        raise OdradekError(
            f"The entity name for {kind} must be a valid integer broker id, but it is: {names[0]}"
        )


def _added(options: Mapping[str, Any]) -> dict[str, str]:
    """The configs to set: `a=1,b=[2,3]`, or those of a file."""
    added = read_properties(options["add_config_file"])
    if options["add_config"]:
        # Commas within brackets do not part: behind one that does, a bracket opens before the next closes.
        for pair in re.split(r",(?=[^\]]*(?:\[|$))", options["add_config"]):
            name, equals, value = pair.partition("=")
            if not equals or ("=" in value and "[" not in value):
                raise OdradekError(
                    'Invalid entity config: all configs to be added must be in the format "key=val".'
                )
            added[name.strip()] = value.replace("[", "").replace("]", "").strip()
    for name in added:
        if not re.fullmatch(r"[a-zA-Z0-9._-]*", name):
            raise OdradekError(f"Invalid character found for config key: {name}")
    return added


# ---------------------------------------------------------------------- change


def _alter(admin: Admin, entities: Entities, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    kind, name = entities.types[0], entities.names[0]
    if kind in RESOURCES:
        _alter_resource(admin, kind, name, added, deleted)
    elif kind == IPS:
        _only(IP_QUOTAS, "connection quota", "added", IPS, [*added, *deleted])
        _alter_quotas(admin, entities, added, deleted)
    elif kind == CLIENTS or len(entities.types) == 2:
        _only(CLIENT_QUOTAS, "quota", "added", CLIENTS, added)
        _only(CLIENT_QUOTAS, "quota", "deleted", CLIENTS, deleted)
        _alter_quotas(admin, entities, added, deleted)
    else:
        _alter_user(admin, entities, added, deleted)
    if name:
        click.echo(f"Completed updating config for {kind[:-1]} {name}.")
    else:
        click.echo(f"Completed updating default config for {kind} in the cluster.")


def _only(allowed: frozenset[str], category: str, done: str, kind: str, names: Iterable[str]) -> None:
    unknown = [name for name in names if name not in allowed]
    if unknown:
        raise OdradekError(
            f"Only {category} configs can be {done} for '{kind}' using --bootstrap-server. "
            f"Unexpected config names: {', '.join(unknown)}"
        )


def _alter_user(admin: Admin, entities: Entities, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    allowed = CLIENT_QUOTAS | MECHANISMS
    _only(allowed, "quota and SCRAM credential", "added", USERS, added)
    _only(allowed, "quota and SCRAM credential", "deleted", USERS, deleted)
    names = {*added, *deleted}
    if not names & MECHANISMS:
        _alter_quotas(admin, entities, added, deleted)
        return
    if "" in entities.names:
        raise OdradekError(
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials using "
            "--bootstrap-server."
        )
    if names & CLIENT_QUOTAS:
        raise OdradekError(
            "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using "
            "--bootstrap-server."
        )
    user = entities.names[0]
    credentials = {mechanism: _credential(mechanism, text) for mechanism, text in added.items()}
    if deleted:
        admin.alter_user_scram_credentials({(user, mechanism): None for mechanism in deleted})
    # A request for each: a mechanism may have a count of iterations of its own.
    for mechanism, (iterations, password) in credentials.items():
        admin.alter_user_scram_credentials({(user, mechanism): password}, iterations=iterations)


def _credential(mechanism: str, text: str) -> tuple[int, str]:
    match = _SCRAM.fullmatch(text)
    if match is None:
        # Not the value: it may be a password.
        raise OdradekError(f"Invalid credential property {mechanism}: it is not [iterations=N,]password=…")
    # -1 is Kafka's word for the default.
    iterations = int(match[1]) if match[1] not in (None, "", "-1") else MIN_ITERATIONS
    if iterations < MIN_ITERATIONS:
        raise OdradekError(
            f"Iterations {iterations} is less than the minimum {MIN_ITERATIONS} required for {mechanism}"
        )
    return iterations, match[2]


def _alter_quotas(admin: Admin, entities: Entities, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    values: dict[str, float | None] = {}
    for key, text in added.items():
        try:
            values[key] = float(text)
        except ValueError:
            raise OdradekError(f"Cannot parse quota configuration value for {key}: {text}") from None
    present: Mapping[str, float] = next(iter(_quotas(admin, entities).values()), {})
    _require_present(deleted, present)
    values |= dict.fromkeys(deleted)
    entity = tuple(
        (QUOTA_TYPES[kind][0], name or None)
        for kind, name in zip(entities.types, entities.names, strict=True)
    )
    admin.alter_client_quotas({entity: values})


def _require_present(deleted: Iterable[str], present: Iterable[str]) -> None:
    present_names = set(present)
    absent = [name for name in deleted if name not in present_names]
    if absent:
        raise OdradekError(f"Invalid config(s): {','.join(absent)}")


def _alter_resource(
    admin: Admin, kind: str, name: str, added: Mapping[str, str], deleted: Sequence[str]
) -> None:
    own = _own_configs(admin, kind, name)
    if kind == LOGGERS:
        unknown = [key for key in (*deleted, *added) if key not in own]
        if unknown:
            raise OdradekError(f"Invalid broker logger(s): {','.join(unknown)}")
    else:
        _require_present(deleted, own)
    resource = (RESOURCES[kind][0], name)
    changes: dict[str, str | None] = {**added, **dict.fromkeys(deleted)}
    try:
        admin.incremental_alter_configs({resource: changes})
    except KafkaError as error:
        if error.code.name != "UNSUPPORTED_VERSION" or kind not in (TOPICS, BROKERS):
            raise
        # Before 2.3 (KIP-339) all configs are given at once; values that are not shown cannot be given.
        values = {key: entry.value for key, entry in own.items()} | changes
        hidden = [key for key, value in values.items() if value is None and key not in deleted]
        if hidden:
            raise OdradekError(
                "All sensitive broker config entries must be specified for --alter, missing entries: "
                f"{', '.join(hidden)}"
            ) from error
        kept = {key: value for key, value in values.items() if key not in deleted}
        admin.alter_configs({resource: kept})


# ---------------------------------------------------------------------- show


def _describe(admin: Admin, entities: Entities, *, shows_all: bool) -> Iterator[str]:
    kind = entities.types[0]
    if kind in RESOURCES:
        for name in entities.names or _all_of(admin, kind):
            yield from _resource_lines(admin, kind, name, shows_all=shows_all)
        return
    for entity, values in _quotas(admin, entities).items():
        yield f"Quota configs for {_in_words(entity)} are {_quota_values(values)}"
    for user, credentials in _credentials(admin, entities).items():
        text = ", ".join(f"{mechanism}=iterations={count}" for mechanism, count in credentials.items())
        yield f"SCRAM credential configs for user-principal '{user}' are {text}"


def _objects(admin: Admin, entities: Entities, *, shows_all: bool) -> list[dict[str, Any]]:
    """The objects of `--describe --json`."""
    from odradek.client.types import CONFIG_SOURCES

    kind = entities.types[0]
    if kind in RESOURCES:
        return [
            {
                "entityType": kind,
                "entityName": name or None,
                "configs": [
                    {
                        "name": entry.name,
                        "value": entry.value,
                        "source": CONFIG_SOURCES.get(entry.source, "UNKNOWN"),
                        "isSensitive": entry.sensitive,
                    }
                    for entry in _entries(admin, kind, name, shows_all=shows_all)
                ],
            }
            for name in entities.names or _all_of(admin, kind)
        ]
    objects: list[dict[str, Any]] = [
        {"entity": dict(entity), "quotas": dict(sorted(values.items()))}
        for entity, values in _quotas(admin, entities).items()
    ]
    objects += [
        {"entity": {"user": user}, "scramIterations": credentials}
        for user, credentials in _credentials(admin, entities).items()
    ]
    return objects


def _all_of(admin: Admin, kind: str) -> list[str]:
    if kind == TOPICS:
        return sorted(admin.describe_topics())
    if kind == BROKERS:
        # The default of all brokers is an entity, too, without a name.
        return [*(str(node.id) for node in admin.describe_cluster().nodes), ""]
    raise OdradekError(f"name the entity: --entity-name, for {kind}")


def _resource_lines(admin: Admin, kind: str, name: str, *, shows_all: bool) -> Iterator[str]:
    # Here, as the tool begins sooner without.
    from odradek.client.types import CONFIG_SOURCES

    if not name:
        yield f"Default configs for {kind} in the cluster are:"
    else:
        yield f"{'All' if shows_all else 'Dynamic'} configs for {kind[:-1]} {name} are:"
    for entry in _entries(admin, kind, name, shows_all=shows_all):
        synonyms = ", ".join(
            f"{CONFIG_SOURCES.get(source, 'UNKNOWN')}:{other}={_text(value)}"
            for other, value, source in entry.synonyms
        )
        sensitive = str(entry.sensitive).lower()
        yield f"  {entry.name}={_text(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}"


def _text(value: str | None) -> str:
    return "null" if value is None else value


def _entries(admin: Admin, kind: str, name: str, *, shows_all: bool) -> list[ConfigEntry]:
    """The configs to show, by name."""
    entries = _configs(admin, kind, name) if shows_all else _own_configs(admin, kind, name)
    return sorted(entries.values(), key=lambda entry: entry.name)


def _configs(admin: Admin, kind: str, name: str) -> dict[str, ConfigEntry]:
    resource = (RESOURCES[kind][0], name)
    return admin.describe_configs([resource], synonyms=True)[resource]


def _own_configs(admin: Admin, kind: str, name: str) -> dict[str, ConfigEntry]:
    """The configs that are set for this very entity."""
    source = RESOURCES[kind][1]
    # The default of all brokers has a source of its own.
    if kind == BROKERS and not name:
        source = DEFAULT_BROKER_SOURCE
    entries = _configs(admin, kind, name)
    return {key: entry for key, entry in entries.items() if source is None or entry.source == source}


def _quotas(admin: Admin, entities: Entities) -> dict[tuple[tuple[str, str | None], ...], dict[str, float]]:
    # In `Admin`'s words: None is the default, `...` any entity of the type.
    names: list[Any] = [name or None for name in entities.names]
    names += [...] * (len(entities.types) - len(names))
    components = {QUOTA_TYPES[kind][0]: name for kind, name in zip(entities.types, names, strict=True)}
    quotas = admin.describe_client_quotas(components, strict=True)
    return dict(sorted(quotas.items(), key=lambda item: [(kind, name or "") for kind, name in item[0]]))


def _in_words(entity: Iterable[tuple[str, str | None]]) -> str:
    names = dict(entity)
    return ", ".join(
        f"the default {words}" if names[kind] is None else f"{words} '{names[kind]}'"
        for kind, words in QUOTA_TYPES.values()
        if kind in names
    )


def _quota_values(values: Mapping[str, float]) -> str:
    return ", ".join(f"{key}={java_double(value)}" for key, value in sorted(values.items()))


def _credentials(admin: Admin, entities: Entities) -> dict[str, dict[str, int]]:
    """User → mechanism → iterations; users without credentials are left out."""
    # Only a user has credentials, the default of users does not.
    if entities.types[0] != USERS or CLIENTS in entities.types or "" in entities.names:
        return {}
    try:
        by_user = admin.describe_user_scram_credentials(entities.names or None)
    except ResourceNotFoundError:
        return {}  # as with Kafka's tool, who has none is not mentioned
    except KafkaError as error:
        # Brokers before 2.7 (KIP-554) have told the quotas, and are not asked for more.
        if error.code.name != "UNSUPPORTED_VERSION":
            raise
        return {}
    return {user: dict(credentials) for user, credentials in sorted(by_user.items())}
