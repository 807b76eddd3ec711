"""Configs of topics and brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from odradek.client.aio.admin_base import (
    AdminBase,
    check,
    failure_of,
    not_controller,
    problems_of,
    raise_first,
)
from odradek.client.arguments import mapping_of, names_of
from odradek.client.core.admin_requests import (
    alter_configs_request,
    describe_configs_request,
    incremental_alter_configs_request,
)
from odradek.client.errors import ArgumentTypeError, IllegalArgumentError, left_out
from odradek.client.types import (
    ConfigEntry,
)
from odradek.errors import KafkaError
from odradek.wire.api import ApiKey

TOPIC = 2
BROKER = 4
BROKER_LOGGER = 8
CLIENT_METRICS = 16
GROUP = 32
_RESOURCES = {
    "topic": TOPIC,
    "broker": BROKER,
    "broker-logger": BROKER_LOGGER,
    "client-metrics": CLIENT_METRICS,
    "group": GROUP,
}
_TYPES_FROM = 1
"""The version of ListConfigResources from which types are asked for (KIP-1142)."""
_KINDS = {number: kind for kind, number in _RESOURCES.items()}

#: A config resource: ('topic', name), ('broker', id) or Kafka's number for the type.
Resource: TypeAlias = tuple[str | int, str | int]

#: A value to set, None to delete it, or ('append' | 'subtract', value) for configs that are lists.
ConfigChange: TypeAlias = str | int | float | tuple[str, str] | None


def resource_key(resource: Resource) -> tuple[int, str]:
    """(Kafka's number of the type, name).

    Raises:
        IllegalArgumentError: the type is not known.
    """
    if isinstance(resource, str) or not isinstance(resource, Sequence) or len(resource) != 2:
        raise ArgumentTypeError(
            f"{resource!r} is no config resource: a (type, name) pair is one, ('topic', 'orders')"
        )
    kind, name = resource
    number = _RESOURCES.get(kind.lower()) if isinstance(kind, str) else kind
    if number is None:
        raise IllegalArgumentError(f"{kind!r} is no kind of config resource: {', '.join(_RESOURCES)}")
    return number, str(name)


class ConfigAdmin(AdminBase):
    """The calls about configs."""

    async def describe_configs(
        self,
        resources: Iterable[Resource],
        *,
        names: Iterable[str] | None = None,
        synonyms: bool = False,
        documentation: bool = False,
    ) -> dict[Resource, dict[str, ConfigEntry]]:
        """Configs of topics, brokers and broker loggers: ('topic', name), ('broker', id),
        ('broker-logger', id).

        Args:
            resources: (type, name) pairs.
            names: only these configs; None: all.
            synonyms: also what else would set a config, strongest first (KIP-226).
            documentation: also what it is for (KIP-569).

        Returns: resource, as it was asked for → config name → entry.
        """
        by_key = {resource_key(resource): resource for resource in resources}
        config_names = None if names is None else names_of(names, "names")
        described: dict[Resource, dict[str, ConfigEntry]] = {}

        async def ask(node: int | None, part: list[tuple[int, str]]) -> dict[tuple[int, str], KafkaError]:
            async def step() -> Any:
                connection = await self._connection_to(node)
                version = connection.pick(ApiKey.DESCRIBE_CONFIGS)
                request = describe_configs_request(part, config_names, synonyms, documentation, version)
                return await connection.send(request, version)

            response = await self._retry("describe configs", step)
            answers = {(r.resource_type, r.resource_name): r for r in response.results}
            for key in by_key.keys() & answers.keys():
                described[by_key[key]] = {c.name: _entry(c, key[0]) for c in answers[key].configs}
            return _problems(answers) | left_out(part, answers)

        problems = await problems_of(
            (part, ask(node, part)) for node, part in self._by_broker(by_key).items()
        )
        raise_first({by_key[key]: problem for key, problem in problems.items() if key in by_key})
        return {resource: described[resource] for resource in by_key.values()}

    def _by_broker(self, keys: Iterable[tuple[int, str]]) -> dict[int | None, list[tuple[int, str]]]:
        """A broker's own configs are asked of and told to that broker; all else to any."""
        grouped: dict[int | None, list[tuple[int, str]]] = {}
        for kind, name in keys:
            node = int(name) if kind in (BROKER, BROKER_LOGGER) and name else None
            grouped.setdefault(node, []).append((kind, name))
        return grouped

    async def list_config_resources(self, kinds: Iterable[str] = ()) -> list[tuple[str, str]]:
        """List what has configs, as (kind, name) (KIP-1142).

        Args:
            kinds: 'topic', 'broker', 'broker-logger', 'client-metrics', 'group'; none: all.

        Raises:
            UnsupportedByBrokerError: the broker is older than Kafka 4.1; for client metrics alone, older
                than 3.7 (KIP-1000).
        """
        from odradek.wire.messages.list_config_resources import ListConfigResourcesRequest

        numbers = [resource_key((kind, ""))[0] for kind in names_of(kinds, "kinds")]
        # Version 0 takes no types, and lists client metrics.
        at_least = 0 if set(numbers) == {CLIENT_METRICS} else _TYPES_FROM

        async def step() -> Any:
            connection = await self._started().any_connection()
            version = connection.pick(ApiKey.LIST_CONFIG_RESOURCES, at_least=at_least)
            types = numbers if version >= _TYPES_FROM else []
            return await connection.send(ListConfigResourcesRequest(resource_types=types), version)

        response = await self._retry("config resources", step)
        check(response.error_code, "config resources")
        return [
            (_KINDS.get(entry.resource_type, str(entry.resource_type)), entry.resource_name)
            for entry in response.config_resources
        ]

    async def alter_configs(
        self, configs: Mapping[Resource, Mapping[str, str | None]], *, validate_only: bool = False
    ) -> None:
        """Replace the configs of resources: what is not named goes back to its default.

        `incremental_alter_configs` changes single ones, and is what new code wants.

        Args:
            configs: resource → config → value.
            validate_only: only say whether they could be set.
        """
        changes = _changes(configs)
        await self._alter(changes, lambda part: alter_configs_request(part, validate_only), "alter configs")

    async def incremental_alter_configs(
        self,
        configs: Mapping[Resource, Mapping[str, ConfigChange]],
        *,
        validate_only: bool = False,
    ) -> None:
        """Change single configs.

        Args:
            validate_only: only say whether they could be changed.
            configs: resource → config → value to set, None to delete it, or ('append' | 'subtract', value)
                for configs that are lists.
        """
        changes = _changes(configs)
        await self._alter(
            changes,
            lambda part: incremental_alter_configs_request(part, validate_only),
            "incremental alter configs",
        )

    async def _alter(
        self,
        changes: Mapping[tuple[int, str], Any],
        message: Callable[[Mapping[tuple[int, str], Any]], Any],
        action: str,
    ) -> None:
        async def ask(node: int | None, keys: list[tuple[int, str]]) -> dict[tuple[int, str], KafkaError]:
            request = message({key: changes[key] for key in keys})

            async def step() -> Any:
                connection = await self._connection_to(node)
                return await connection.send(request, connection.pick(request.API_KEY))

            if node is None:
                response = await self._controller(action, request, lambda r: not_controller(r.responses))
            else:
                response = await self._retry(action, step)
            answers = {(r.resource_type, r.resource_name): r for r in response.responses}
            return _problems(answers) | left_out(keys, answers)

        parts = self._by_broker(changes).items()
        raise_first(await problems_of((keys, ask(node, keys)) for node, keys in parts))


def _problems(answers: Mapping[tuple[int, str], Any]) -> dict[tuple[int, str], KafkaError]:
    return {
        (kind, name): failure_of(_KINDS.get(kind, str(kind)), name, r.error_code, r.error_message)
        for (kind, name), r in answers.items()
        if r.error_code
    }


def _entry(config: Any, kind: int) -> ConfigEntry:
    source = config.config_source
    if source < 0:
        # Version 0 says only whether it is a default.
        source = 5 if config.is_default else (1 if kind == TOPIC else 4)
    return ConfigEntry(
        config.name,
        config.value,
        config.read_only,
        source,
        config.is_sensitive,
        config.config_type,
        tuple((s.name, s.value, s.source) for s in config.synonyms),
        config.documentation or None,
    )


def _changes(configs: Mapping[Resource, Mapping[str, Any]]) -> dict[tuple[int, str], dict[str, Any]]:
    """Return the values of configs by resource.

    Raises:
        ArgumentTypeError: it is no mapping of such mappings, or a key is no resource.
    """
    example = "{('topic', 'orders'): {'retention.ms': '3600000'}}"
    return {
        resource_key(resource): dict(mapping_of(values, f"configs of {resource!r}", example))
        for resource, values in mapping_of(configs, "configs", example).items()
    }
