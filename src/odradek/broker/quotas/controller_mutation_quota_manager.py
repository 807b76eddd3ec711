# compiled: mypyc
"""Quotas of changes of topics: how many partitions a client may have created and deleted (KIP-599).

Each client has a bucket of tokens, one for a partition. A request of a new version takes none when the
bucket is below zero: what it asks for is refused with THROTTLING_QUOTA_EXCEEDED, and else all of it is done,
be it more than there is in the bucket. Older clients do not know the error: all is done for them, and they
wait afterwards.

Handlers use it in the controller's thread as well as in the loop's: there is a lock.

Kafka: `ControllerMutationQuotaManager`.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from odradek.broker.quotas.client_quota_manager import ClientQuotaManager, ClientSensor, QuotaType, Windows
from odradek.broker.quotas.rates import HUGE, TokenBucket
from odradek.errors import ThrottlingQuotaExceededError
from odradek.errors.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from odradek.broker.quotas.precedence import QuotaEntity
    from odradek.util.clock import Clock


class ControllerMutationQuota:
    """The quota of one request."""

    def __init__(
        self, manager: ControllerMutationQuotaManager, principal: str, client_id: str, *, strict: bool
    ) -> None:
        """
        Args:
            manager: whose.
            principal, client_id: who asks.
            strict: whether what is too much is refused.
        """
        self._manager = manager
        self._client = principal, client_id
        self._strict = strict
        self._throttle_ms = 0
        self._recorded_ms = 0

    def record(self, partitions: int) -> None:
        """Take tokens for a change of so many partitions, before it is made.

        Raises:
            ThrottlingQuotaExceededError: the change is not to be made.
        """
        throttle_ms, self._recorded_ms = self._manager.take(*self._client, partitions, strict=self._strict)
        if throttle_ms:
            self._throttle_ms = throttle_ms
            if self._strict:
                raise ThrottlingQuotaExceededError(ErrorCode.THROTTLING_QUOTA_EXCEEDED.message)

    @property
    def throttle_ms(self) -> int:
        """For how long the client is to wait, from now on."""
        if not self._throttle_ms:
            return 0
        return max(0, self._throttle_ms - (self._manager.now_ms() - self._recorded_ms))


class ControllerMutationQuotaManager(ClientQuotaManager):
    """See the module."""

    def __init__(self, clock: Clock, windows: Windows) -> None:
        """
        Args:
            clock: time.
            windows: what a bucket holds (`controller.quota.window.num`,
                `controller.quota.window.size.seconds`).
        """
        super().__init__(QuotaType.CONTROLLER_MUTATION, clock, windows)
        self._lock = threading.RLock()
        """Held by the controller's thread and the event loop's, which both take tokens and read them; anew by
        the same thread, as methods here call each other."""

    def update_quota(self, entity: QuotaEntity, bound: float | None) -> bool:
        """See `ClientQuotaManager.update_quota`."""
        with self._lock:
            return super().update_quota(entity, bound)

    def quota_of(
        self, principal: str, client_id: str, *, strict: bool = False
    ) -> ControllerMutationQuota | None:
        """Return the quota for a request; None while no quota of this kind is set."""
        if not self.is_enabled:
            return None
        return ControllerMutationQuota(self, principal, client_id, strict=strict)

    def take(self, principal: str, client_id: str, partitions: int, *, strict: bool) -> tuple[int, int]:
        """Take tokens, unless `strict` and there are none.

        Returns:
            For how many milliseconds the client is to wait, as of the time that is the second part.
        """
        with self._lock:
            sensor = self.sensor(principal, client_id)
            now_ms = sensor.used_ms
            if sensor.bound is None:
                sensor.rate.record(partitions, now_ms)
                return 0, now_ms
            bucket = self._bucket(sensor)
            throttle_ms = bucket.throttle_ms(sensor.bound, now_ms)
            # What is refused takes no tokens: who asks in a loop is not kept out for good (KIP-599).
            if not (strict and throttle_ms):
                sensor.rate.record(partitions, now_ms)
                bucket.take(partitions, sensor.bound, now_ms)
                if not strict:
                    throttle_ms = bucket.throttle_ms(sensor.bound, now_ms)
            return throttle_ms, now_ms

    def throttled(self, principal: str, client_id: str, throttle_ms: int) -> None:
        """See `ClientQuotaManager.throttled`."""
        with self._lock:
            super().throttled(principal, client_id, throttle_ms)

    def sensors(self) -> Iterator[ClientSensor]:
        """See `ClientQuotaManager.sensors`."""
        with self._lock:
            return super().sensors()

    def tokens(self, sensor: ClientSensor) -> float:
        """Return what is left in a client's bucket."""
        with self._lock:
            if sensor.bound is None:
                return HUGE
            return self._bucket(sensor).tokens(sensor.bound, self.now_ms())

    def _bucket(self, sensor: ClientSensor) -> TokenBucket:
        bucket = sensor.bucket
        if bucket is None:
            bucket = sensor.bucket = TokenBucket(self._windows.num, self._windows.ms)
        return bucket
