"""The quotas of a broker: one manager of each kind, which follow the configs of users, clients and addresses.

Kafka: `QuotaFactory.QuotaManagers`, and the `ConfigHandler`s of these entities.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from odradek.broker.quotas.client_quota_manager import (
    ClientQuotaManager,
    ClientRequestQuotaManager,
    QuotaType,
    Windows,
)
from odradek.broker.quotas.connection_quotas import ConnectionQuotas
from odradek.broker.quotas.controller_mutation_quota_manager import ControllerMutationQuotaManager
from odradek.broker.quotas.precedence import QuotaEntity
from odradek.cluster.access import quotas

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.broker.metrics.metrics import Samples
    from odradek.cluster.image import EntityPath
    from odradek.util.clock import Clock

logger = logging.getLogger(__name__)

NO_DEFAULT = 2**63 - 1
"""The value of `quota.producer.default` and `quota.consumer.default` that bounds nobody."""

_RATE_NAMES = {
    QuotaType.PRODUCE: "byte-rate",
    QuotaType.FETCH: "byte-rate",
    QuotaType.REQUEST: "request-time",
    QuotaType.CONTROLLER_MUTATION: "mutation-rate",
}


class QuotaManagers:
    """See the module.

    Attributes:
        produce, fetch: bytes a second (`producer_byte_rate`, `consumer_byte_rate`).
        request: percent of a thread (`request_percentage`).
        controller_mutation: partitions a second (`controller_mutation_rate`).
        connections: connections a second (`connection_creation_rate`, `max.connection.creation.rate`).
    """

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        """
        Args:
            config: over which windows rates are taken.
            clock: time.
        """
        windows = Windows(config.quota_window_num, 1000 * config.quota_window_size_seconds)
        self.produce = ClientQuotaManager(
            QuotaType.PRODUCE, clock, windows, default=_default(config, config.quota_producer_default)
        )
        self.fetch = ClientQuotaManager(
            QuotaType.FETCH, clock, windows, default=_default(config, config.quota_consumer_default)
        )
        self.request = ClientRequestQuotaManager(clock, windows)
        self.controller_mutation = ControllerMutationQuotaManager(
            clock,
            Windows(config.controller_quota_window_num, 1000 * config.controller_quota_window_size_seconds),
        )
        self.connections = ConnectionQuotas(clock, windows)
        self._of_clients: dict[str, ClientQuotaManager] = {
            quotas.PRODUCER_BYTE_RATE: self.produce,
            quotas.CONSUMER_BYTE_RATE: self.fetch,
            quotas.REQUEST_PERCENTAGE: self.request,
            quotas.CONTROLLER_MUTATION_RATE: self.controller_mutation,
        }

    @property
    def count_requests(self) -> bool:
        """True if requests have to be counted at all."""
        return self.produce.is_enabled or self.fetch.is_enabled or self.request.is_enabled

    def follow(self, configs: Mapping[EntityPath, Mapping[str, str]]) -> None:
        """Take over the configs of entities that have changed; those that are of no client are passed over.

        Args:
            configs: all configs of each; empty when none are left.
        """
        for path, values in configs.items():
            entity = quotas.entity_of(path)
            if entity is None:
                continue
            if quotas.IP in entity:
                rate = _number(path, quotas.CONNECTION_CREATION_RATE, values)
                self.connections.limit_address(entity[quotas.IP], None if rate is None else int(rate))
                continue
            quota_entity = QuotaEntity(
                quotas.USER in entity,
                quotas.CLIENT_ID in entity,
                entity.get(quotas.USER),
                entity.get(quotas.CLIENT_ID),
            )
            for name, manager in self._of_clients.items():
                bound = _number(path, name, values)
                if manager.update_quota(quota_entity, bound):
                    logger.info(
                        "quota changed entity=%s %s=%s", path, name, "none" if bound is None else f"{bound:g}"
                    )

    def metrics(self) -> Samples:
        """Yield what is counted now, under the names of Kafka's metrics."""
        for manager in self._of_clients.values():
            if not manager.is_enabled:
                continue
            kind = f"kafka.server:{manager.type.value}"
            yield (kind, "queue-size", ()), manager.queue_size
            now_ms = manager.now_ms()
            for sensor in manager.sensors():
                user, client_id = sensor.tags
                # Sorted, as all tags are; an empty one is no tag.
                tags = tuple((name, tag) for name, tag in (("client-id", client_id), ("user", user)) if tag)
                yield (kind, _RATE_NAMES[manager.type], tags), sensor.rate.per_second(now_ms)
                yield (kind, "throttle-time", tags), sensor.throttle_times.mean(now_ms)
                if manager is self.controller_mutation:
                    yield (kind, "tokens", tags), self.controller_mutation.tokens(sensor)
        if self.request.is_enabled:
            exempt = self.request.exempt.per_second(self.request.now_ms())
            yield ("kafka.server:Request", "exempt-request-time", ()), exempt
        for name, tags, value in self.connections.metrics():
            yield ("kafka.server:socket-server-metrics", name, tags), value


def _default(config: BrokerConfig, bound: int) -> float | None:
    """A bound that brokers have had from their configs until 3.0; None where there is none."""
    has_it = config.release is not None and not config.release.at_least("3.0")
    return float(bound) if has_it and bound < NO_DEFAULT else None


def _number(path: EntityPath, name: str, configs: Mapping[str, str]) -> float | None:
    text = configs.get(name)
    if text is None:
        return None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isnan(number):
        # Who writes into the metadata store itself may write anything.
        logger.warning("no number, there is no such quota entity=%s %s=%r", path, name, text)
        return None
    return number
