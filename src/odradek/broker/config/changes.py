"""Changing configs of topics and brokers, as AlterConfigs and IncrementalAlterConfigs ask for it.

The checks and the words are Kafka's; what a resource may be is `ResourceKind`. A bad value is INVALID_CONFIG
of a topic, INVALID_REQUEST of a broker. Releases had it otherwise:

- before 3.3 a topic's bad value, and an operation that a config does not have, is INVALID_REQUEST;
- with ZooKeeper the message about a topic's value names the resource, and before 3.2 every such message does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol, TypeVar

from odradek.broker.config.effect import warn_of_change
from odradek.broker.config.names import KNOWN, is_about_a_listener
from odradek.broker.config.reconfiguration import check_change
from odradek.broker.requests.authorization import CLUSTER, Operation
from odradek.broker.requests.authorization import topic as topic_resource
from odradek.broker.requests.untold import unknown_topic
from odradek.cluster.configs.client_metrics_config import (
    CLIENT_METRICS_CONFIGS,
    check_subscription,
    entity_of,
)
from odradek.cluster.configs.config_def import ConfigError, ConfigKey, ConfigValueError
from odradek.cluster.configs.topic_config import TOPIC_CONFIGS, validate_topic_configs
from odradek.cluster.controller.topics import check_name
from odradek.cluster.paths import DEFAULT_ENTITY
from odradek.errors import (
    ClusterAuthorizationError,
    ErrorCode,
    InvalidConfigurationError,
    InvalidRequestError,
    KafkaError,
    TopicAuthorizationError,
)

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext


MAX_VALUE_BYTES = 32767
"""The longest text of the protocol."""


class ResourceKind(IntEnum):
    """A kind of thing that has configs; the numbers go over the wire (`ConfigResource.Type`)."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


def kind_of(resource_type: int) -> ResourceKind:
    """The kind behind a number; UNKNOWN for numbers that are not known."""
    try:
        return ResourceKind(resource_type)
    except ValueError:
        return ResourceKind.UNKNOWN


ConfigChange = Callable[[Mapping[str, str], Mapping[str, ConfigKey]], dict[str, str]]
"""A function from an entity's present configs, and the table of its configs, to its new ones."""


_NAMES_RESOURCES_BEFORE = "3.2"
_ALL_ARE_REQUESTS_BEFORE = "3.3"
_CHECKS_TOPIC_NAMES_BEFORE = "2.7"


def is_before(context: RequestContext, release: str) -> bool:
    """Return whether the broker is a release of Kafka before that one."""
    own = context.broker.handlers.release
    return own is not None and not own.at_least(release)


def names_resources(context: RequestContext) -> bool:
    """Return whether every message about a bad value names the resource, and makes it INVALID_REQUEST."""
    return is_before(context, _NAMES_RESOURCES_BEFORE)


def about(kind: ResourceKind, name: str, error: Exception) -> str:
    """A message about a bad value that names the resource."""
    return f"Invalid config value for resource ConfigResource(type={kind.name}, name='{name}'): {error}"


def _refused(context: RequestContext, message: str) -> KafkaError:
    """The error of what is wrong with more than a broker's value."""
    if is_before(context, _ALL_ARE_REQUESTS_BEFORE):
        return InvalidRequestError(message)
    return InvalidConfigurationError(message)


def check_broker_name(context: RequestContext, name: str, alternative: str = ",") -> None:
    """Check that a resource is this broker; `alternative` is what else may be given, in Kafka's words.

    Raises:
        InvalidRequestError: it is another one, or no number.
    """
    own = context.broker.controller.broker_id
    try:
        broker_id = int(name)
    except ValueError:
        raise InvalidRequestError(f"Broker id must be an integer, but it is: {name}") from None
    if broker_id != own:
        raise InvalidRequestError(f"Unexpected broker id, expected {own}{alternative} but received {name}")


class ConfigResource(Protocol):
    """A topic, a broker … that a request names."""

    resource_type: int
    resource_name: str


R = TypeVar("R", bound=ConfigResource)
A_co = TypeVar("A_co", covariant=True)


class ResourceAnswer(Protocol[A_co]):
    """The element of a response that answers for one resource: a class with these fields."""

    def __call__(
        self, *, error_code: int, error_message: str | None, resource_type: int, resource_name: str
    ) -> A_co:
        """Make one."""


def change_each(
    resources: Sequence[R], change: Callable[[R], None], answer: ResourceAnswer[A_co]
) -> list[A_co]:
    """Change one resource after the other, each for itself, and return the answers in the same order.

    Args:
        resources: of a request; those that are named twice are refused.
        change: changes one; raises `KafkaError`.
        answer: makes the answer for one.
    """
    times = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    answers: list[A_co] = []
    for resource in resources:
        code = ErrorCode.NONE
        message: str | None = None
        try:
            # Neither of the two is done: which one is meant, nobody can tell.
            if times[(resource.resource_type, resource.resource_name)] > 1:
                raise InvalidRequestError("Each resource must appear at most once.")
            change(resource)
        except KafkaError as error:
            code, message = error.code, error.message
        answers.append(_answer(resource, code, message, answer))
    return answers


def refuse_each(
    resources: Iterable[ConfigResource], error: ErrorCode, message: str, answer: ResourceAnswer[A_co]
) -> list[A_co]:
    """Return the answers for resources of which none was changed, for the same reason."""
    return [_answer(resource, error, message, answer) for resource in resources]


def _answer(
    resource: ConfigResource, error: ErrorCode, message: str | None, answer: ResourceAnswer[A_co]
) -> A_co:
    return answer(
        error_code=int(error),
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def check_configs(names: Iterable[str], null_names: Sequence[str]) -> None:
    """Check what holds for every resource of both requests.

    Raises:
        InvalidRequestError: a config is named twice, or has a null value where it needs one.
    """
    listed = list(names)
    if len(set(listed)) < len(listed):
        raise InvalidRequestError("Error due to duplicate config keys")
    if null_names:
        raise InvalidRequestError(f"Null value not supported for : {', '.join(null_names)}")


def change_configs(
    context: RequestContext, kind: ResourceKind, name: str, change: ConfigChange, *, validate_only: bool
) -> None:
    """Change the configs of a topic, of this broker, of all brokers (an empty name), or a subscription.

    Raises:
        KafkaError: why it may not be; nothing was changed.
    """
    if kind is ResourceKind.TOPIC:
        _change_topic(context, name, change, validate_only)
    elif kind is ResourceKind.BROKER:
        _change_broker(context, name, change, validate_only)
    elif kind is ResourceKind.CLIENT_METRICS and not context.broker.handlers.with_zookeeper:
        _change_client_metrics(context, name, change, validate_only)
    else:
        raise InvalidRequestError(f"Unknown resource type {int(kind)}")


def _change_topic(context: RequestContext, name: str, change: ConfigChange, validate_only: bool) -> None:
    if not context.authorize(Operation.ALTER_CONFIGS, topic_resource(name)):
        raise TopicAuthorizationError
    if not name and not is_before(context, _ALL_ARE_REQUESTS_BEFORE):
        raise InvalidRequestError("Default topic resources are not allowed.")
    controller = context.broker.controller
    with_zookeeper = context.broker.handlers.with_zookeeper
    if context.broker.image.topic(name) is None:
        if not with_zookeeper or is_before(context, _CHECKS_TOPIC_NAMES_BEFORE):
            check_name(name)
        raise unknown_topic(context.broker, f"The topic '{name}' does not exist.")
    try:
        present = controller.config_of(f"topics/{name}")
        configs = change(present, TOPIC_CONFIGS)
        _check_lengths(configs)
    except ConfigError as error:
        raise _refused(context, str(error)) from error
    try:
        validate_topic_configs(configs, context.broker.config.topic_defaults())
    except ConfigValueError as error:
        message = about(ResourceKind.TOPIC, name, error) if with_zookeeper else str(error)
        raise _refused(context, message) from error
    except ConfigError as error:
        raise InvalidConfigurationError(str(error)) from error
    if not validate_only:
        controller.alter_config(f"topics/{name}", configs)
        warn_of_change(f"topics/{name}", present, configs)


def _change_client_metrics(
    context: RequestContext, name: str, change: ConfigChange, validate_only: bool
) -> None:
    if not context.authorize(Operation.ALTER_CONFIGS, CLUSTER):
        raise ClusterAuthorizationError
    controller = context.broker.controller
    entity = entity_of(name)
    try:
        configs = change(controller.config_of(entity), CLIENT_METRICS_CONFIGS)
        _check_lengths(configs)
        check_subscription(name, configs)
    except ConfigError as error:
        raise _refused(context, str(error)) from error
    if not validate_only:
        controller.alter_config(entity, configs)


def _check_lengths(configs: Mapping[str, str]) -> None:
    """A list can be appended to until no response carries it any more; it stays below that."""
    for name, value in configs.items():
        if len(value.encode()) > MAX_VALUE_BYTES:
            raise ConfigError(f"Configuration {name} would be longer than {MAX_VALUE_BYTES} bytes")


def _change_broker(context: RequestContext, name: str, change: ConfigChange, validate_only: bool) -> None:
    if name:
        check_broker_name(context, name)
    controller = context.broker.controller
    entity = f"brokers/{controller.broker_id if name else DEFAULT_ENTITY}"
    config = context.broker.config
    try:
        present = controller.config_of(entity)
        configs = change(config.dynamic_passwords.decode(present), KNOWN)
        _check_lengths(configs)
    except ConfigError as error:
        raise _refused(context, str(error)) from error
    try:
        after = check_change(config, configs, per_broker=bool(name))
        if any(is_about_a_listener(config_name) for config_name in configs):
            context.broker.check_listener_configs(after)
    except ConfigError as error:
        message = about(ResourceKind.BROKER, name, error) if names_resources(context) else str(error)
        raise InvalidRequestError(message) from error
    if not context.authorize(Operation.ALTER_CONFIGS, CLUSTER):
        raise ClusterAuthorizationError
    if not validate_only:
        try:
            kept = config.dynamic_passwords.encode(configs, present)
        except ConfigError as error:
            raise InvalidRequestError(str(error)) from error
        controller.alter_config(entity, kept)
        warn_of_change(entity, present, kept)
