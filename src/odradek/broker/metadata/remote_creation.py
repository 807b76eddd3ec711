"""Topics that are missing, created by whichever broker is the controller.

In a cluster of several brokers the controller is asked for a topic once for all who want it meanwhile; they
wait for the same answer. Kafka: `AutoTopicCreationManager`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from odradek.broker.metadata.auto_creation import auto_create, create_internal, new_topic, sort_out
from odradek.errors import OdradekError
from odradek.errors.codes import ErrorCode, to_code
from odradek.util.futures import then
from odradek.util.repeats import Repeats
from odradek.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.broker.interbroker.channels import InterBrokerChannels
    from odradek.broker.services import BrokerServices
    from odradek.cluster.controller.topic_manager import Admit, NewTopic
    from odradek.wire.messages.create_topics import CreateTopicsResponse

logger = logging.getLogger(__name__)
repeats = Repeats(logger)

NEWEST_CREATE_TOPICS = 7

_UNDER_WAY = {
    ErrorCode.NONE,
    ErrorCode.TOPIC_ALREADY_EXISTS,
    # Created, and not yet everywhere.
    ErrorCode.REQUEST_TIMED_OUT,
    # Another one is by now.
    ErrorCode.NOT_CONTROLLER,
}
"""What the controller answers for a topic that the client should ask for again."""


def have_created(broker: BrokerServices, names: list[str], admit: Admit | None = None) -> Any:
    """Ask the controller to create topics that were asked for; the answer is that of `auto_create`.

    Args:
        broker: this one.
        names: of the topics.
        admit: see `Admit`; not asked where another broker is the controller, which has its own quotas.

    Returns:
        Errors by name, or a future of them.
    """
    channels, controller = broker.channels, broker.controller
    if channels is None or controller.is_active:
        return controller.event_queue.run(lambda: auto_create(controller, broker.config, names, admit))
    return broker.loop.create_task(_ask_controller(channels, broker.config, names))


def have_internal_created(broker: BrokerServices, name: str) -> Any:
    """Ask the controller to create an internal topic; the answer is that of `create_internal`.

    Returns:
        The error, or a future of it.
    """
    channels, controller = broker.channels, broker.controller
    if channels is None or controller.is_active:
        return controller.event_queue.run(lambda: create_internal(controller, broker.config, name))
    return broker.loop.create_task(_ask_for_internal(channels, broker.config, name))


async def _ask_for_internal(channels: InterBrokerChannels, config: BrokerConfig, name: str) -> ErrorCode:
    error = (await _ask_controller(channels, config, [name]))[name]
    return ErrorCode.NONE if error is ErrorCode.LEADER_NOT_AVAILABLE else ErrorCode.COORDINATOR_NOT_AVAILABLE


async def _ask_controller(
    channels: InterBrokerChannels, config: BrokerConfig, names: Iterable[str]
) -> dict[str, ErrorCode]:
    errors, creatable = sort_out(names)
    fresh = [name for name in creatable if name not in channels.creations]
    if fresh:
        # A task of its own: whoever asked first may go before the answer comes, others wait for it as well.
        creating = asyncio.ensure_future(_create_remotely(channels, config, fresh))
        for name in fresh:
            channels.creations[name] = then(creating, partial(_pick, name))
        # How it ends those hear who wait for the futures above.
        creating.add_done_callback(lambda done: _forget(channels, fresh))
    waited_for = {name: channels.creations[name] for name in creatable}
    for name, creation in waited_for.items():
        errors[name] = await asyncio.shield(creation)
    return errors


def _pick(name: str, errors: dict[str, ErrorCode]) -> ErrorCode:
    return errors[name]


def _forget(channels: InterBrokerChannels, names: Iterable[str]) -> None:
    for name in names:
        channels.creations.pop(name, None)


async def _create_remotely(
    channels: InterBrokerChannels, config: BrokerConfig, names: list[str]
) -> dict[str, ErrorCode]:
    """Ask the controller. Where it cannot be asked: LEADER_NOT_AVAILABLE, upon which clients ask again."""
    request = CreateTopicsRequest(
        topics=[_creatable(new_topic(config, name)) for name in names], timeout_ms=config.request_timeout_ms
    )
    errors = dict.fromkeys(names, ErrorCode.LEADER_NOT_AVAILABLE)
    try:
        response: CreateTopicsResponse = await channels.to_controller(request, NEWEST_CREATE_TOPICS)
    except OdradekError as error:
        repeats.log(logging.WARNING, None, "the controller could not be asked for topics: %s", error)
        return errors
    for topic in response.topics:
        if topic.name not in errors or topic.error_code in _UNDER_WAY:
            continue
        errors[topic.name] = code = to_code(topic.error_code)
        why = topic.error_message or code.message
        repeats.log(logging.WARNING, topic.name, "%s could not be created: %s", topic.name, why)
    return errors


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )
