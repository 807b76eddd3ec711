"""The classes that are called beside the application: `interceptor.classes`.

As in Kafka's client, one that raises is logged and passed over: it must not cost the application a record or
the news of one.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from odradek.client.types import (
    ConsumerRecord,
    Headers,
    OffsetAndMetadata,
    ProducerRecord,
    RecordMetadata,
    TopicPartition,
)

if TYPE_CHECKING:
    from odradek.client.config import ConsumerConfig, ProducerConfig

logger = logging.getLogger("odradek.client")


class ProducerInterceptor:
    """Kafka's interface of that name. An object with some of the methods will do, too."""

    def configure(self, config: ProducerConfig | ConsumerConfig) -> None:
        """Take the producer's configs, once, before anything else is called."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record to be sent in place of `record`; called in `send`, before the serializers."""
        return record

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: Exception | None, headers: Headers = ()
    ) -> None:
        """Learn the fate of a record, mostly in the I/O thread. One of the first two arguments is None.

        Args:
            headers: the record's, for methods that take them (KIP-512).
        """

    def close(self) -> None:
        """End, with the producer."""


class ConsumerInterceptor:
    """Kafka's interface of that name. An object with some of the methods will do, too."""

    def configure(self, config: ProducerConfig | ConsumerConfig) -> None:
        """Take the consumer's configs, once, before anything else is called."""

    def on_consume(
        self, records: list[ConsumerRecord[object, object]]
    ) -> list[ConsumerRecord[object, object]]:
        """Return the records that the application gets in place of `records`."""
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Learn which offsets were committed."""

    def close(self) -> None:
        """End, with the consumer."""


def _takes_headers(method: Callable[..., Any]) -> bool:
    try:
        inspect.signature(method).bind(None, None, ())
    except (TypeError, ValueError):
        return False
    return True


class Acknowledging:
    """The delivery callback of a record of which interceptors are told.

    Attributes:
        on_delivery: the application's own, which is called after them; None: it has given none.
    """

    __slots__ = ("_headers", "_interceptors", "on_delivery")

    def __init__(
        self,
        interceptors: Interceptors,
        on_delivery: Callable[[RecordMetadata | None, Exception | None], object] | None,
        headers: Headers,
    ) -> None:
        self._interceptors = interceptors
        self._headers = headers
        self.on_delivery = on_delivery

    def __call__(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        """Tell of the record's fate."""
        self._interceptors.acknowledged(metadata, error, self._headers)
        if self.on_delivery is not None:
            self.on_delivery(metadata, error)


def reaches_application(callback: Any) -> bool:
    """Return whether the application hears what a delivery callback is told, and not interceptors alone."""
    return not isinstance(callback, Acknowledging) or callback.on_delivery is not None


class Interceptors:
    """Those of one client, in their order. Each has some of the methods.

    Args:
        interceptors: objects, or classes of which one is made.
        config: the client's, for those with a method `configure`.
    """

    def __init__(
        self, interceptors: Iterable[Any], config: ProducerConfig | ConsumerConfig | None = None
    ) -> None:
        self._all = tuple(entry() if isinstance(entry, type) else entry for entry in interceptors)
        if config is not None:
            self.tell("configure", config)
        # (method, whether it takes headers)
        methods = (getattr(interceptor, "on_acknowledgement", None) for interceptor in self._all)
        self._acknowledged = [(method, _takes_headers(method)) for method in methods if method is not None]

    def __bool__(self) -> bool:
        return bool(self._all)

    def changed(self, method: str, value: Any) -> Any:
        """Return what they make of `value`, one after the other; None leaves it as it is."""
        for interceptor in self._all:
            if hasattr(interceptor, method):
                try:
                    changed = getattr(interceptor, method)(value)
                except Exception:
                    logger.warning("interceptor %r: %s failed", interceptor, method, exc_info=True)
                else:
                    value = value if changed is None else changed
        return value

    def acknowledged(
        self, metadata: RecordMetadata | None, error: Exception | None, headers: Headers
    ) -> None:
        """Tell of a record's fate."""
        for method, takes_headers in self._acknowledged:
            try:
                method(metadata, error, headers) if takes_headers else method(metadata, error)
            except Exception:
                logger.warning("interceptor %r: on_acknowledgement failed", method, exc_info=True)

    def before(
        self,
        on_delivery: Callable[[RecordMetadata | None, Exception | None], object] | None,
        headers: Headers,
    ) -> Callable[[RecordMetadata | None, Exception | None], object] | None:
        """Return a delivery callback that tells them of a record's fate, and then calls the application's."""
        if not self._acknowledged:
            return on_delivery
        return Acknowledging(self, on_delivery, headers)

    def tell(self, method: str, *args: Any) -> None:
        """Call the method of each."""
        for interceptor in self._all:
            if hasattr(interceptor, method):
                try:
                    getattr(interceptor, method)(*args)
                except Exception:
                    logger.warning("interceptor %r: %s failed", interceptor, method, exc_info=True)
