# compiled: mypyc
"""One kind of quota over all clients: what each has taken of late, what it may, and how long it is to wait.

Clients that share a quota share a `ClientSensor`. One that has not been used for an hour is forgotten, as in
Kafka, and the longest unused when there are more than `MOST_SENSORS`: client ids are chosen by clients.

Kafka: `ClientQuotaManager`, `ClientRequestQuotaManager`.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from odradek.broker.quotas.precedence import QuotaEntity, Quotas, QuotaTags
from odradek.broker.quotas.rates import HUGE, LONGEST_MS, Average, Rate, TokenBucket

if TYPE_CHECKING:
    from odradek.util.clock import Clock

FORGOTTEN_AFTER_MS = 3_600_000
"""How long a sensor is kept that nobody uses."""

MOST_SENSORS = 50_000
"""How many of one kind are kept; each takes less than 2 KB."""

_LOOKED_THROUGH_EVERY_MS = 30_000

_MOST_WAITING = 100_000
"""More of those who wait are not counted."""

PERCENT_PER_MS = 0.1
"""A thread that works all the time gives 100 percent: a request takes its milliseconds of a second."""

_THROTTLE_TIMES = 2, 30_000
"""Over which samples throttle times are averaged: Kafka's default for metrics."""


class QuotaType(Enum):
    """The kind of a quota, by what it limits; the names are those of Kafka's metrics."""

    PRODUCE = "Produce"
    FETCH = "Fetch"
    REQUEST = "Request"
    CONTROLLER_MUTATION = "ControllerMutation"


class Windows(NamedTuple):
    """Over which time a rate is taken.

    Attributes:
        num: how many samples.
        ms: how long each is.
    """

    num: int
    ms: int


class ClientSensor:
    """The sum of what one client, or those who share its quota, have taken.

    Attributes:
        tags: who they are.
        bound: what they may take in a second; None for anything.
        rate: what they take.
        bucket: what they may still take, of the kinds that have buckets; made when it is needed.
        throttle_times: how long they were told to wait, when they were.
        used_ms: when they last took something.
    """

    __slots__ = ("bound", "bucket", "rate", "tags", "throttle_times", "used_ms")

    def __init__(self, tags: QuotaTags, bound: float | None, windows: Windows, now_ms: int) -> None:
        self.tags = tags
        self.bound = bound
        self.rate = Rate(windows.num, windows.ms)
        self.bucket: TokenBucket | None = None
        self.throttle_times = Average(*_THROTTLE_TIMES)
        self.used_ms = now_ms


class ClientQuotaManager:
    """The quotas of one kind.

    Attributes:
        quotas: the quotas that are set.
        type: the kind.
    """

    def __init__(
        self,
        kind: QuotaType,
        clock: Clock,
        windows: Windows,
        *,
        default: float | None = None,
        longest_ms: int = LONGEST_MS,
    ) -> None:
        """
        Args:
            kind: what is limited.
            clock: time.
            windows: over which the rates are taken.
            default: see `Quotas`.
            longest_ms: the longest that a client is told to wait.
        """
        self.type = kind
        self.quotas = Quotas(default)
        self._waiting: list[int] = []
        """Until when those who were told to wait do, as a heap."""
        self._clock = clock
        self._windows = windows
        self._longest_ms = longest_ms
        self._sensors: dict[QuotaTags, ClientSensor] = {}
        self.by_client: dict[tuple[str, str], ClientSensor] = {}
        """By principal and client id, so that `quotas` is not gone through for each request; bounded."""
        self._looked_through_ms = self.now_ms()

    def now_ms(self) -> int:
        """The time that rates are taken by."""
        return int(self._clock.monotonic_ms())

    @property
    def is_enabled(self) -> bool:
        """True if any quota of this kind is set; without one nothing is counted."""
        return bool(self.quotas)

    def __len__(self) -> int:
        """Return how many sensors are kept."""
        return len(self._sensors)

    def update_quota(self, entity: QuotaEntity, bound: float | None) -> bool:
        """Set a quota, or with None remove it; what clients have taken already counts for the new one.

        Returns:
            Whether that is a change.
        """
        if not self.quotas.set(entity, bound):
            return False
        self.by_client.clear()
        if not self.quotas:
            self._sensors.clear()
        return True

    def sensor(self, principal: str, client_id: str) -> ClientSensor:
        """Find a client's sensor, or make it.

        Args:
            principal: in Kafka's form `User:name`.
            client_id: "" for none.
        """
        sensor = self.by_client.get((principal, client_id))
        now_ms = self.now_ms()
        if sensor is None:
            tags, bound = self.quotas.of(principal.partition(":")[2], client_id)
            sensor = self._sensors.get(tags)
            if sensor is None:
                self.forget_unused(now_ms)
                sensor = self._sensors[tags] = ClientSensor(tags, bound, self._windows, now_ms)
            sensor.bound = bound
            if len(self.by_client) >= 2 * MOST_SENSORS:
                self.by_client.clear()
            self.by_client[principal, client_id] = sensor
        sensor.used_ms = now_ms
        return sensor

    def record(self, principal: str, client_id: str, value: float) -> int:
        """Count what a client takes.

        Returns:
            For how many milliseconds it is to wait before it takes more.
        """
        sensor = self.sensor(principal, client_id)
        now_ms = sensor.used_ms
        sensor.rate.record(value, now_ms)
        if sensor.bound is None:
            return 0
        return min(self._longest_ms, sensor.rate.throttle_ms(sensor.bound, now_ms))

    def record_no_throttle(self, principal: str, client_id: str, value: float) -> None:
        """Count what a client takes, or with a negative value take back what was counted; it counts next
        time."""
        sensor = self.sensor(principal, client_id)
        sensor.rate.record(value, sensor.used_ms)

    def most_at_once(self, principal: str, client_id: str) -> float:
        """Return what a client may take at once that has taken nothing in all windows; more is always
        throttled."""
        bound = self.sensor(principal, client_id).bound
        if bound is None:
            return HUGE
        return bound * (self._windows.num - 1) * self._windows.ms / 1000

    def throttled(self, principal: str, client_id: str, throttle_ms: int) -> None:
        """Note how long a client is told to wait."""
        sensor = self.sensor(principal, client_id)
        now_ms = sensor.used_ms
        sensor.throttle_times.record(throttle_ms, now_ms)
        if self._count_waiting(now_ms) < _MOST_WAITING:
            heappush(self._waiting, now_ms + throttle_ms)

    @property
    def queue_size(self) -> int:
        """The number of clients that were told to wait, and still do."""
        return self._count_waiting(self.now_ms())

    def _count_waiting(self, now_ms: int) -> int:
        waiting = self._waiting
        while waiting and waiting[0] <= now_ms:
            heappop(waiting)
        return len(waiting)

    def sensors(self) -> Iterator[ClientSensor]:
        """Those in use."""
        self.forget_unused(self.now_ms())
        return iter(list(self._sensors.values()))

    def forget_unused(self, now_ms: int) -> None:
        """Forget the sensors that have not been used for long; looks at them twice a minute at most."""
        over = len(self._sensors) - MOST_SENSORS
        if over < 0 and now_ms - self._looked_through_ms < _LOOKED_THROUGH_EVERY_MS:
            return
        self._looked_through_ms = now_ms
        by_age = sorted(self._sensors.values(), key=lambda sensor: sensor.used_ms)
        gone = [sensor for sensor in by_age if now_ms - sensor.used_ms > FORGOTTEN_AFTER_MS]
        if over >= 0:
            # A tenth of them, that it is not the next one's turn at once.
            gone = by_age[: max(len(gone), over + MOST_SENSORS // 10)]
        if not gone:
            return
        for sensor in gone:
            del self._sensors[sensor.tags]
        self.by_client = {
            client: sensor for client, sensor in self.by_client.items() if sensor.tags in self._sensors
        }


class ClientRequestQuotaManager(ClientQuotaManager):
    """Quotas of the time that requests take, in percent of a thread.

    Attributes:
        exempt: the time of requests that count for nobody: those between brokers.
    """

    def __init__(self, clock: Clock, windows: Windows) -> None:
        """
        Args:
            clock, windows: see `ClientQuotaManager`. Nobody is told to wait for longer than a window.
        """
        super().__init__(QuotaType.REQUEST, clock, windows, longest_ms=windows.ms)
        self.exempt = Rate(*_THROTTLE_TIMES)

    def record_exempt(self, percent: float) -> None:
        """Count time that no client is to answer for."""
        self.exempt.record(percent, self.now_ms())
