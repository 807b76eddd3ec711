"""`RawWriter`: Arrow batches into topics; see `odradek.client.raw`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Unpack

from odradek.client.config import python_name
from odradek.client.sync.producer import Producer
from odradek.client.types import ColumnNames, Servers

if TYPE_CHECKING:
    import pyarrow as pa

    from odradek.client.arrow import ArrowDelivery
    from odradek.client.config_dicts import SendConfigs

_DEFAULTS = {
    "client_id": "odradek-raw-writer",
    "buffer_memory": 64 * 1024 * 1024,
    "max_request_size": 1_000_000,
}


class RawWriter:
    """Writes Arrow batches through a `Producer` of its own (whose thread begins here, so make it after a
    fork).

    Args:
        bootstrap_servers: 'host:port[,host:port…]' or a list of such.
        configs, more: Kafka producer configs (acks, compression_type, max_request_size, …): a mapping under
            Kafka's or Python's names, or keywords.

    Raises:
        ConfigError: a config that cannot be used.
    """

    def __init__(
        self,
        bootstrap_servers: Servers,
        configs: Mapping[str, object] | None = None,
        **more: Unpack[SendConfigs],
    ) -> None:
        given = {python_name(name): value for name, value in {**(configs or {}), **more}.items()}
        self._producer = Producer({**_DEFAULTS, **given, "bootstrap_servers": bootstrap_servers})
        self._pending: deque[ArrowDelivery] = deque()
        self._closed = False
        self.rows_written = 0

    def write_columns(
        self, batch: pa.RecordBatch | pa.Table, topic: str | None = None, **columns: Unpack[ColumnNames]
    ) -> int:
        """Queue the rows and check what has been acknowledged meanwhile.

        Columns: value (binary or string; required), key, topic (if `topic` is None), partition (integer,
        null: by key), headers (list of struct<key, value>), timestamp (timestamp or integer ms). Rows
        without key and partition go round the partitions, a batch each.

        Args:
            columns: other names for them, as for `Producer.send_arrow` (`value_column='payload'`).

        Returns: the number of rows taken.

        Raises:
            KafkaError: a write that failed, this one or an earlier one.
            ValueError: columns of other types, or no topic.
        """
        delivery = self._producer.send_arrow(batch, topic, **columns)
        self._pending.append(delivery)
        self._collect(lambda delivery: delivery.done())
        return delivery.rows

    def _collect(self, which: Callable[[ArrowDelivery], bool]) -> None:
        """Count what is written, in order, as long as `which` is true. Several threads may be here, and a
        signal's handler.
        """
        while True:
            try:
                delivery = self._pending.popleft()
            except IndexError:
                return
            if not which(delivery):
                self._pending.appendleft(delivery)
                return
            rows = delivery.result()
            self.rows_written += rows

    def flush(self) -> int:
        """Wait for all acknowledgements; returns the rows written so far.

        Raises:
            KafkaError: a write failed.
        """
        self._producer.flush()
        self._collect(lambda delivery: True)
        return self.rows_written

    def close(self) -> None:
        """`flush`, and end. May be called from anywhere, as `Producer.close`."""
        if self._closed:
            return
        self._closed = True
        if self._producer._thread.is_current:
            self._producer.close()
            return
        try:
            self.flush()
        finally:
            self._producer.close()

    def abort(self) -> None:
        """End without waiting; what was not acknowledged may or may not be written."""
        self._closed = True
        self._producer.close(0)

    def __enter__(self) -> RawWriter:
        return self

    def __exit__(self, kind: object, *exc: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()
