"""Versions of APIs that a fault may meet at a broker. A fault is refused that can never match, or that Kafka
would not do."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING

from odradek.errors import KafkaError
from odradek.errors.codes import ErrorCode
from odradek.testing.faults.errors import errors_of, is_of_parts, is_on_top
from odradek.testing.faults.names import Names, kinds_in
from odradek.testing.faults.parting import failed
from odradek.wire.api import ApiKey
from odradek.wire.messages import request_class, response_class

if TYPE_CHECKING:
    from odradek.broker.apis.registry import Handler, Handlers
    from odradek.testing.faults.fault import Fault

ALL_APIS = "*"
"""In place of APIs' names: all in which the fault may be."""

Api = str | int | ApiKey
_LOGINS = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
_NAMES = ("topic", "partition", "group", "transactional_id")
_A_PART: Names = {
    "topic": "t",
    "topic_id": b"\1" * 16,
    "partition": 0,
    "group": "g",
    "transactional_id": "t",
    "key": "g",
    "producer": 1,
    "resource": (2, "t"),
}


class FaultRefusedError(ValueError):
    """A fault that can meet no request of the broker, or that a Kafka would not do."""


def api_names(apis: Api | Iterable[Api]) -> tuple[str, ...]:
    """Return the names of APIs: of one, or of several, by name or key; `ALL_APIS` stays as it is.

    Raises:
        FaultRefusedError: there is no such API.
    """
    several = [apis] if isinstance(apis, str | int) else list(apis)
    if not several:
        raise FaultRefusedError("no API is named")
    return tuple(name if name == ALL_APIS else _key(name).api_name for name in several)


def _key(api: Api) -> ApiKey:
    if isinstance(api, int) and api in set(ApiKey):
        return ApiKey(api)
    known = {key.api_name: key for key in ApiKey}
    key = known.get(str(api))
    if key is None:
        by_lower = {name.lower(): name for name in known}
        near = get_close_matches(str(api).replace("_", "").removesuffix("Request").lower(), by_lower, 1)
        hint = f", did you mean {by_lower[near[0]]!r}?" if near else ""
        raise FaultRefusedError(f"{api!r} is no API of Kafka's{hint}")
    return key


def error_name(error: type[KafkaError] | KafkaError | ErrorCode | int | str | None) -> str:
    """Return the name of an error, which may be given as a class of `odradek.errors`, a code or a name.

    Raises:
        FaultRefusedError: there is no such error, or None is given.
    """
    if isinstance(error, KafkaError) or (isinstance(error, type) and issubclass(error, KafkaError)):
        return error.code.name
    if isinstance(error, str):
        if error in ErrorCode.__members__ and error != "NONE":
            return error
        near = get_close_matches(error.upper(), ErrorCode.__members__, 1)
        hint = f", did you mean {near[0]}?" if near else ""
        raise FaultRefusedError(f"{error!r} is no error of Kafka's{hint}")
    if isinstance(error, int) and error in set(ErrorCode) and error != ErrorCode.NONE:
        return ErrorCode(error).name
    raise FaultRefusedError(f"{error!r} is no error: give a class of odradek.errors, a code, or a name")


def versions_met(fault: Fault, handlers: Handlers) -> dict[int, tuple[int, ...]]:
    """Return which versions of which APIs a fault may meet, by API key.

    Args:
        fault: the rule.
        handlers: those of the broker, which say what its release answers.

    Raises:
        FaultRefusedError: it may meet none; the message says why.
    """
    if fault.effect == "fail":
        error_name(fault.error)
    names = api_names(fault.apis)
    if names != (ALL_APIS,):
        return {int(_key(name)): _versions_met(fault, _key(name), handlers) for name in names}
    met, reason = {}, None
    for key, _ in handlers.versions():
        try:
            met[key] = _versions_met(fault, ApiKey(key), handlers)
        except FaultRefusedError as refused:
            reason = refused
    if not met:
        raise FaultRefusedError(f"no API may have this fault; of the last one: {reason}")
    return met


def _versions_met(fault: Fault, key: ApiKey, handlers: Handlers) -> tuple[int, ...]:
    name = key.api_name
    if key in _LOGINS:
        raise FaultRefusedError(
            f"{name}: logins are answered before any handler is asked; try a wrong password, or `cut`"
        )
    handler = (handlers.between_brokers if fault.between_brokers else handlers).get(key)
    if handler is None:
        release = f"Kafka {handlers.release}" if handlers.release is not None else "this broker"
        raise FaultRefusedError(f"{name}: {release} does not answer it")
    versions = list(handler.versions)
    if fault.versions is not None:
        first, last = fault.versions
        versions = [version for version in versions if first <= version <= last]
        if not versions:
            raise FaultRefusedError(
                f"{name}: versions {first} to {last} are not answered "
                f"({handler.versions[0]} to {handler.versions[-1]} are)"
            )
    versions = _with_names(fault, key, versions)
    if fault.effect == "throttle":
        versions = _with_throttling(key, versions)
    if fault.effect == "fail":
        versions = _with_error(fault, handler, versions, handlers)
    return tuple(versions)


def _with_names(fault: Fault, key: ApiKey, versions: list[int]) -> list[int]:
    for kind in _NAMES:
        if getattr(fault, kind) is not None:
            versions = [v for v in versions if kind in kinds_in(request_class(key), v)]
            if not versions:
                raise FaultRefusedError(f"{key.api_name}: its requests name no {kind}")
    return versions


def _with_throttling(key: ApiKey, versions: list[int]) -> list[int]:
    if not any(field.name == "throttle_time_ms" for field in response_class(key).FIELDS):
        raise FaultRefusedError(f"{key.api_name}: no quota throttles it")
    return versions


def _with_error(fault: Fault, handler: Handler, versions: list[int], handlers: Handlers) -> list[int]:
    key, error = handler.api_key, fault.code
    name = key.api_name
    release = handlers.release
    if release is not None and error > release.last_error_code:
        raise FaultRefusedError(
            f"{error.name} is error {int(error)}: Kafka {release} knows those up to {release.last_error_code}"
        )
    fitting = [version for version in versions if _has_room(fault, handler, version)]
    if not fitting:
        of = "a part of a request" if _names_parts(fault) else "a request"
        raise FaultRefusedError(f"{name}: its answers have no place for the error of {of}")
    errors = errors_of(key)
    if fault.anyway or errors is None:
        return fitting
    if error not in errors:
        raise FaultRefusedError(
            f"{name}: Kafka does not answer it with {error.name}; it does with "
            f"{', '.join(sorted(other.name for other in errors))}. anyway=True has it answered all the same"
        )
    said = [version for version in fitting if version in errors[error]]
    if not said:
        raise FaultRefusedError(
            f"{name}: Kafka answers it with {error.name} in versions {errors[error]}, "
            f"not in {fitting[0]} to {fitting[-1]}. anyway=True has it answered all the same"
        )
    return said


def _names_parts(fault: Fault) -> bool:
    return fault.topic is not None or fault.partition is not None


def _has_room(fault: Fault, handler: Handler, version: int) -> bool:
    """Return whether an answer can say the error at all."""
    key = handler.api_key
    cls = response_class(key)
    if _names_parts(fault) or is_of_parts(key, fault.code):
        kinds = kinds_in(request_class(key), version)
        asked = {kind: name for kind, name in _A_PART.items() if kind in kinds or kind == "resource"}
        return failed(cls, version, [asked], 1) is not None
    if handler.error_response is not None and not is_on_top(key, fault.code):
        return True
    return has_error_on_top(handler, version)


def has_error_on_top(handler: Handler, version: int) -> bool:
    """Return whether a response of a version has an error for all of it."""
    fields = response_class(handler.api_key).FIELDS
    return any(field.name == "error_code" and version in field.versions for field in fields)
