"""Client quotas: whom they are for, and where they are kept.

An *entity* is a user, a client id, both, or an address; None for a name means all that have none of their
own. Quotas are configs of the entity: `users/<u>`, `users/<u>/clients/<c>`, `clients/<c>`, `ips/<a>`, with
the names sanitized (`paths.sanitize`) and `<default>` for None.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from odradek.cluster.image import ClusterImage, EntityPath
from odradek.cluster.paths import DEFAULT_ENTITY, desanitize, sanitize
from odradek.errors import InvalidRequestError, UnknownServerError, UnsupportedVersionError

USER, CLIENT_ID, IP = "user", "client-id", "ip"

Entity = Mapping[str, str | None]
"""Names by type of entity."""

_LONG, _DOUBLE = "LONG", "DOUBLE"
PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"

_OF_CLIENTS = {
    PRODUCER_BYTE_RATE: _LONG,
    CONSUMER_BYTE_RATE: _LONG,
    REQUEST_PERCENTAGE: _DOUBLE,
    CONTROLLER_MUTATION_RATE: _DOUBLE,
}
_OF_ADDRESSES = {CONNECTION_CREATION_RATE: "INT"}
_LARGEST = {_LONG: 2**63 - 1, "INT": 2**31 - 1}
_EPSILON = 1e-6
"""How far a number that must be whole may be from that."""


class Match(IntEnum):
    """The way in which a filter names an entity's part; the numbers go over the wire."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


class Component(NamedTuple):
    """One part of a filter: a type of entity, and which of that type."""

    entity_type: str
    match_type: int
    match: str | None


class QuotaChange(NamedTuple):
    """A new value of a quota; None removes it."""

    key: str
    value: float | None


def describe(
    image: ClusterImage, components: Iterable[Component], strict: bool
) -> Iterator[tuple[Entity, Mapping[str, float]]]:
    """The entities that a filter lets through, with their quotas.

    Args:
        image: the cluster.
        components: what the entity has to have.
        strict: whether it may have nothing else.

    Raises:
        InvalidRequestError: no such filter can be.
        UnsupportedVersionError: a type of entity that does not exist here.
        UnknownServerError: somebody else wrote a quota that is no number.
    """
    wanted_components = _checked(components)
    for path, configs in image.configs.items():
        entity = entity_of(path)
        if entity is None or not _lets_through(wanted_components, entity, strict):
            continue
        # Configs of users hold SCRAM credentials as well, which are no quotas.
        names = _OF_ADDRESSES if IP in entity else _OF_CLIENTS
        quotas = {key: _number(key, text) for key, text in configs.items() if key in names}
        if quotas:
            yield entity, quotas


def _number(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UnknownServerError(f"Unexpected client quota configuration value: {key} -> {text}") from None


def _checked(components: Iterable[Component]) -> dict[str, Component]:
    by_type: dict[str, Component] = {}
    for component in components:
        kind = component.entity_type
        if kind in by_type:
            raise InvalidRequestError(f"Duplicate {kind} filter component entity type")
        if not kind:
            raise InvalidRequestError("Unexpected empty filter component entity type")
        if kind not in (USER, CLIENT_ID, IP):
            raise UnsupportedVersionError(f"Custom entity type '{kind}' not supported")
        if component.match_type not in list(Match):
            raise InvalidRequestError(f"Unexpected match type: {component.match_type}")
        if (component.match_type == Match.EXACT) is (component.match is None):
            raise InvalidRequestError(
                f"Match type {Match(component.match_type).name} with the name {component.match!r}"
            )
        by_type[kind] = component
    if IP in by_type and len(by_type) > 1:
        raise InvalidRequestError(
            "Invalid entity filter component combination, IP filter component should not be used with "
            "user or clientId filter component."
        )
    return by_type


def _lets_through(wanted_components: Mapping[str, Component], entity: Entity, strict: bool) -> bool:
    for kind, component in wanted_components.items():
        if kind not in entity:
            return False
        if component.match_type == Match.EXACT and entity[kind] != component.match:
            return False
        if component.match_type == Match.DEFAULT and entity[kind] is not None:
            return False
    return not strict or entity.keys() <= wanted_components.keys()


def entity_of(path: EntityPath) -> Entity | None:
    """The entity whose configs are at `path`, None for one that has no quotas."""
    parts = path.split("/")
    match parts:
        case ["users", user, "clients", client]:
            return {USER: _name(user), CLIENT_ID: _name(client)}
        case ["users", user]:
            return {USER: _name(user)}
        case ["clients", client]:
            return {CLIENT_ID: _name(client)}
        case ["ips", address]:
            return {IP: _name(address)}
    return None


def _name(node: str) -> str | None:
    return None if node == DEFAULT_ENTITY else desanitize(node)


def path_of(entity: Entity) -> EntityPath:
    """Return the path of an entity's configs.

    Raises:
        InvalidRequestError: it is no entity that can have quotas.
    """
    if not entity:
        raise InvalidRequestError("Invalid empty client quota entity")
    for kind, name in entity.items():
        if kind not in (USER, CLIENT_ID, IP):
            raise InvalidRequestError(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise InvalidRequestError(f"Empty {kind} not supported")
    node = {kind: DEFAULT_ENTITY if name is None else sanitize(name) for kind, name in entity.items()}
    if IP in node:
        if len(node) > 1:
            raise InvalidRequestError(
                "Invalid quota entity combination, IP entity should not be used with user/client ID entity."
            )
        return f"ips/{_address(entity[IP])}"
    if USER not in node:
        return f"clients/{node[CLIENT_ID]}"
    return f"users/{node[USER]}" + (f"/clients/{node[CLIENT_ID]}" if CLIENT_ID in node else "")


def _address(text: str | None) -> str:
    """An address as a node's name; Kafka would also ask the name service, and have everybody wait for it."""
    if text is None:
        return DEFAULT_ENTITY
    try:
        ipaddress.ip_address(text)
    except ValueError:
        raise InvalidRequestError(f"{text} is not a valid IP or resolvable host.") from None
    return sanitize(text)


def altered(entity: Entity, present: Mapping[str, str], changes: Iterable[QuotaChange]) -> dict[str, str]:
    """The configs of an entity after `changes`.

    Raises:
        InvalidRequestError: a quota that this kind of entity does not have, or a value that it cannot have.
    """
    kinds = _OF_ADDRESSES if IP in entity else _OF_CLIENTS
    configs = dict(present)
    for key, value in changes:
        if value is None:
            configs.pop(key, None)
            continue
        kind = kinds.get(key)
        if kind is None:
            raise InvalidRequestError(f"Invalid configuration key {key}")
        configs[key] = _text(key, kind, value)
    return configs


def _text(key: str, kind: str, value: float) -> str:
    if math.isfinite(value):
        if kind == _DOUBLE:
            return repr(value)
        whole = int(value + _EPSILON)
        if abs(whole - value) <= _EPSILON and abs(whole) <= _LARGEST[kind]:
            return str(whole)
    raise InvalidRequestError(f"Configuration {key} must be a {kind} value")
