"""Listeners to a session's streaming queries: a line for each batch, or figures for Prometheus.

spark.streams.addListener(ProgressListener())
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from odradek.spark.watching.progress import line_of, sight_of
from odradek.util.extras import install

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

logger = logging.getLogger(__name__)


class ProgressListener(StreamingQueryListener):
    """Says a line of each batch, and when a query starts and ends.

    Args:
        say: takes a line; `print`, or a logger's `info`.
    """

    def __init__(self, say: Callable[[str], Any] = print) -> None:
        self._say = say
        self._names: dict[str, str] = {}

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 (Spark's name, as below)
        """Say that the query has started."""
        self._names[str(event.id)] = name = event.name or str(event.id)
        self._say(f"{name} started")

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Say a line of the batch: rows, rate, lag."""
        self._say(line_of(sight_of(event.progress)))

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """A trigger found nothing new; not worth a line."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Say that the query has ended, with the first line of its error if it has failed."""
        name = self._names.pop(str(event.id), str(event.id))
        reason = (event.exception or "").strip().splitlines()
        self._say(f"{name} failed: {reason[0]}" if reason else f"{name} ended")


class PrometheusListener(StreamingQueryListener):
    """Keeps metrics of all queries of a session for Prometheus (`pip install prometheus-client`).

        from prometheus_client import start_http_server

        start_http_server(8000)
        spark.streams.addListener(PrometheusListener())

    All have a label `query`, its name or id:

        odradek_spark_query_active                    1 from its start to its end
        odradek_spark_query_failures_total            how often it ended with an error
        odradek_spark_batch_id                        of the last batch
        odradek_spark_input_rows_total                taken in since the listener is there
        odradek_spark_input_rows_per_second           how many come
        odradek_spark_processed_rows_per_second       how many it gets through
        odradek_spark_step_seconds{step}              of the last trigger; `triggerExecution` is all of it
        odradek_spark_offsets_behind_latest{topic, partition}

    Args:
        registry: the registry of the metrics; by default that of the process.

    Raises:
        ImportError: prometheus-client is not installed.
    """

    def __init__(self, registry: "CollectorRegistry | None" = None) -> None:
        try:
            from prometheus_client import REGISTRY, Counter, Gauge
        except ImportError as error:
            raise ImportError(f"PrometheusListener needs prometheus-client: {install('metrics')}") from error

        where = REGISTRY if registry is None else registry

        def gauge(name: str, text: str, *labels: str) -> Any:
            return Gauge(f"odradek_spark_{name}", text, ("query", *labels), registry=where)

        def counter(name: str, text: str) -> Any:
            return Counter(f"odradek_spark_{name}", text, ("query",), registry=where)

        self._active = gauge("query_active", "Whether the query runs.")
        self._failures = counter("query_failures", "How often the query ended with an error.")
        self._batch = gauge("batch_id", "The last batch.")
        self._rows = counter("input_rows", "Rows taken in.")
        self._coming = gauge("input_rows_per_second", "How many rows come.")
        self._done = gauge("processed_rows_per_second", "How many rows the query gets through.")
        self._step = gauge("step_seconds", "How long steps of the last trigger took.", "step")
        self._behind = gauge(
            "offsets_behind_latest", "Offsets that are in no batch yet.", "topic", "partition"
        )
        self._names: dict[str, str] = {}

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 (Spark's name, as below)
        """Count the query as active."""
        self._names[str(event.id)] = name = event.name or str(event.id)
        self._active.labels(name).set(1)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Set the figures to those of the batch."""
        sight = sight_of(event.progress)
        name = sight.name
        self._active.labels(name).set(1)
        self._batch.labels(name).set(sight.batch_id)
        self._rows.labels(name).inc(sight.rows)
        self._coming.labels(name).set(sight.rows_per_second_in)
        self._done.labels(name).set(sight.rows_per_second_done)
        for step, took_ms in sight.step_ms.items():
            self._step.labels(name, step).set(took_ms / 1000)
        for tp, behind in sight.behind.items():
            self._behind.labels(name, tp.topic, str(tp.partition)).set(behind)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """A trigger found nothing new: the figures stay as they are."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Count the query as ended, and as failed if it has."""
        name = self._names.pop(str(event.id), str(event.id))
        self._active.labels(name).set(0)
        if event.exception:
            self._failures.labels(name).inc()
