"""Has a broker's quotas follow the image. Kafka: `DynamicClientQuotaPublisher`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from odradek.broker.quotas.throttling import RequestThrottle

if TYPE_CHECKING:
    from odradek.broker.kafka_versions.release import Release
    from odradek.broker.quotas.quota_managers import QuotaManagers
    from odradek.cluster.image import ClusterDelta, ClusterImage, EntityPath
    from odradek.util.clock import Clock


class DynamicClientQuotaPublisher:
    """See the module."""

    def __init__(
        self,
        quotas: QuotaManagers,
        clock: Clock,
        release: Release | None,
        on_throttle: Callable[[RequestThrottle | None], object],
    ) -> None:
        """
        Args:
            quotas: follow the image.
            clock: the time.
            release: which Kafka the broker passes for; None for the newest.
            on_throttle: told what counts requests from now on; None while no quota asks for that.
        """
        self._quotas = quotas
        self._clock = clock
        # KIP-219
        self._delays_answers = release is not None and not release.at_least("2.0")
        self._on_throttle = on_throttle
        self._throttle: RequestThrottle | None = None

    def publish(self, image: ClusterImage, delta: ClusterDelta) -> None:  # noqa: ARG002
        """Follow what has changed."""
        if delta.configs:
            self.follow(delta.configs)

    def follow(self, configs: Mapping[EntityPath, Mapping[str, str]]) -> None:
        """Take over quotas of clients, as far as these configs say any."""
        quotas = self._quotas
        quotas.follow(configs)
        if not quotas.count_requests:
            self._throttle = None
        elif self._throttle is None:
            self._throttle = RequestThrottle(quotas, self._clock, delays_answers=self._delays_answers)
        self._on_throttle(self._throttle)
