"""A clean-up of a broker between two tests: what a test has made is gone, the broker goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odradek.cluster import paths
from odradek.cluster.nodes import encode_registration
from odradek.cluster.store.store import NoNode
from odradek.errors import KafkaError
from odradek.testing.own_client import is_of_client
from odradek.testing.ports import lasting_port
from odradek.util.acl import (
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    ResourcePatternFilter,
)
from odradek.wire.internal_topics import GROUP_METADATA_TOPIC
from odradek.wire.messages.leave_group import MemberIdentity

if TYPE_CHECKING:
    from odradek.broker.network.server import Listener
    from odradek.broker.services import BrokerServices
    from odradek.cluster.image import ClusterImage
    from odradek.cluster.store.store import MetadataStore

_OLD_OFFSETS = "/consumers"
"""The nodes in which OffsetCommit version 0 keeps offsets, group by group."""

_TIMES = 100
_REASON = "a clean-up between two tests"


@dataclass(frozen=True)
class Baseline:
    """The state of a broker when it first started, which a clean-up leaves, or brings back.

    Attributes:
        topics: names; their records are let alone.
        configs: dynamic configs, quotas and SCRAM credentials, by the path of what has them.
        acls: all that there were.
    """

    topics: frozenset[str]
    configs: Mapping[str, Mapping[str, str]]
    acls: frozenset[AclBinding]

    @classmethod
    def of(cls, broker: BrokerServices) -> Baseline:
        """Take note of what there is. In the broker's loop."""
        return cls(
            frozenset(broker.image.topics),
            {entity: dict(configs) for entity, configs in broker.image.configs.items()},
            frozenset() if broker.acls is None else frozenset(_bindings(broker)),
        )


def _bindings(broker: BrokerServices) -> list[AclBinding]:
    assert broker.acls is not None
    index = broker.acls.authorizer.index
    return [AclBinding(pattern, entry) for pattern in index.patterns() for entry in index.entries(pattern)]


def clean_up(
    broker: BrokerServices, listeners: Sequence[Listener], baseline: Baseline, *, moves: bool
) -> asyncio.Future[None]:
    """Take away what was not there at the start, and let all clients go; a future of it.

    In the loop of a broker that is alone.

    Args:
        broker, listeners: the broker, and its listeners.
        baseline: what stays, or comes back.
        moves: whether the broker listens on other ports then, where no client of before looks for it.
    """
    return asyncio.ensure_future(_clean_up(broker, listeners, baseline, moves))


async def _clean_up(
    broker: BrokerServices, listeners: Sequence[Listener], baseline: Baseline, moves: bool
) -> None:
    if moves:
        for listener in listeners:
            listener.stop_accepting()
            # Nobody listens there yet.
            listener.bind(listener.host, lasting_port())
    _close_clients(listeners)
    # What connections that are gone have waited for is given up in the loop's next turn.
    await asyncio.sleep(0)
    staying = _without_groups(broker)

    def work() -> None:
        take_away(broker, baseline, staying)
        if moves:
            _register_again(broker, listeners)

    for _ in range(_TIMES):
        await in_turn(broker, work)
        # Behind what the answers of the deletions have the controller do.
        await in_turn(broker, lambda: None)
        # What was in work when its connection was closed may have made another one.
        if (baseline.topics | staying).issuperset(broker.controller.image.topics):
            break
    else:
        raise RuntimeError(f"topics come back again and again: {', '.join(broker.controller.image.topics)}")
    if moves:
        # A connection that was just being taken up is there by now.
        _close_clients(listeners)
        for listener in listeners:
            listener.start()


def _close_clients(listeners: Sequence[Listener]) -> None:
    for listener in listeners:
        for connection in list(listener.connections):
            connection.abort(_REASON)


def _without_groups(broker: BrokerServices) -> frozenset[str]:
    """Delete all groups, with their members; returns the topic that keeps them, if there is none left in it.

    The next test needs it, too, and it is dear to make. Offsets in a transaction that is under way go with
    the topic alone.
    """
    topic = broker.image.topics.get(GROUP_METADATA_TOPIC)
    if topic is None:
        return frozenset()
    coordinator = broker.groups.coordinator
    try:
        shards = [coordinator.runtime.shard(partition) for partition in coordinator.runtime.partitions()]
    except KafkaError:
        return frozenset()  # being loaded
    if len(shards) < len(topic.partitions) or any(
        shard.offsets.has_open_transactions(name) for shard in shards for name in shard.offsets.group_ids()
    ):
        return frozenset()
    groups = [group for shard in shards for group in shard.groups.values()]
    for group in groups:
        leaving = [MemberIdentity(member_id=member_id) for member_id in group.members]
        if leaving:
            coordinator.leave_group(group.group_id, leaving, lambda _: None)
    coordinator.delete_groups([group.group_id for group in groups], lambda _: None)
    are_gone = not any(shard.groups or shard.offsets.group_ids() for shard in shards)
    return frozenset({GROUP_METADATA_TOPIC}) if are_gone else frozenset()


def _register_again(broker: BrokerServices, listeners: Sequence[Listener]) -> None:
    controller = broker.controller
    ports = {listener.name: listener.port for listener in listeners}
    registered = controller.image.brokers[broker.broker_id].registration
    # The configs may name the port of before: a restart takes the same one.
    endpoints = (endpoint._replace(port=ports[endpoint.listener]) for endpoint in registered.endpoints)
    registration = registered._replace(endpoints=tuple(endpoints))
    controller.store.set(paths.broker_id(broker.broker_id), encode_registration(registration))
    # It looks at the brokers anew, as it does when somebody else has written.
    controller.writer.doubt()
    controller.look_again()


def in_turn(broker: BrokerServices, work: Callable[[], None]) -> asyncio.Future[None]:
    """Do something in the turn of the controller at a broker; a future of it. In the broker's loop."""
    done: asyncio.Future[None] = broker.controller.event_queue.run(work)
    return done


def close_waiting_clients(listeners: Sequence[Listener]) -> None:
    """Close the connections on which a client waits for an answer.

    In the loop of a broker of a cluster: its other connections may be those of brokers.
    """
    for listener in listeners:
        for connection in list(listener.connections):
            if connection.waits_for_answer_to(is_of_client):
                connection.abort(_REASON)


def is_clean(broker: BrokerServices, baseline: Baseline) -> bool:
    """Return whether a broker, and the controller if it is here, knows of nothing but what is to stay."""
    images = [broker.image]
    if broker.controller.is_active:
        images.append(broker.controller.image)
    return all(
        baseline.topics.issuperset(image.topics) and _configs(image, baseline) == baseline.configs
        for image in images
    ) and (broker.acls is None or set(_bindings(broker)) == baseline.acls)


def _configs(image: ClusterImage, baseline: Baseline) -> Mapping[str, Mapping[str, str]]:
    """Return the configs of an image, but those of topics that are to go or have gone.

    A broker that is not the controller keeps these until there is another topic of that name.
    """
    stay = {f"topics/{name}" for name in baseline.topics}
    return {
        entity: dict(configs)
        for entity, configs in image.configs.items()
        if entity in stay or not entity.startswith("topics/")
    }


def take_away(broker: BrokerServices, baseline: Baseline, staying: Set[str] = frozenset()) -> None:
    """Take away what was not there at the start. In the turn of the controller that is at this broker.

    Transactions go with the topic that keeps them, and so do groups that are left.

    Args:
        broker: which.
        baseline: what there was at the start.
        staying: further topics that stay.

    Raises:
        KafkaError: something could not be taken away.
    """
    controller = broker.controller
    names = [name for name in controller.image.topics if name not in baseline.topics | staying]
    if names:
        for error in controller.delete_topics(names).values():
            if error is not None:
                raise error
    for entity in {*_configs(controller.image, baseline), *baseline.configs}:
        wanted = baseline.configs.get(entity, {})
        if dict(controller.image.config(entity)) != dict(wanted):
            controller.alter_config(entity, wanted)
    if broker.acls is not None:
        _restore_acls(broker, baseline)
    if broker.delegation_tokens is not None:
        for information, secret in broker.delegation_tokens.all():
            broker.delegation_tokens.expire(information.owner, secret, -1)
    _remove_below(controller.store, _OLD_OFFSETS)


def _restore_acls(broker: BrokerServices, baseline: Baseline) -> None:
    acls = broker.acls
    assert acls is not None
    present = set(_bindings(broker))
    strange, lost = present - baseline.acls, baseline.acls - present
    outcomes = acls.delete([_exactly(binding) for binding in strange]) if strange else []
    errors = [error for outcome in outcomes for error in outcome.values()]
    errors += acls.create(list(lost)) if lost else []
    for error in errors:
        if error is not None:
            raise error


def _exactly(binding: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(ResourcePatternFilter(*binding.pattern), AccessControlEntryFilter(*binding.entry))


def _remove_below(store: MetadataStore, path: str) -> None:
    try:
        children = store.children(path)
    except NoNode:
        return
    for child in children:
        _remove_below(store, f"{path}/{child}")
        store.delete(f"{path}/{child}")
