"""The monitoring port: `GET /metrics`, `/applications`, `/healthz` and `/readyz` over HTTP.

HTTP has threads of its own (`odradek.util.http_server`), so `/healthz` can say that the broker's event loop
does not answer. What is read of the broker is read on its loop, in slices of `SLICE_S`, between which
requests are served.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import gzip
import time
from collections.abc import Generator
from typing import TYPE_CHECKING, TypeVar

from odradek.broker.monitoring.application_report import application_report
from odradek.broker.monitoring.exposition import OPEN_METRICS, PROMETHEUS_TEXT, Exposition
from odradek.broker.monitoring.health import readiness
from odradek.broker.monitoring.names import Naming
from odradek.broker.monitoring.process_metrics import process_samples
from odradek.util.http_routes import NoRouteError, Request, Response, Routes
from odradek.util.http_server import HttpServer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from odradek.broker.services import BrokerServices

R = TypeVar("R")

SLICE_S = 0.002
"""How long the loop is taken for reading metrics, in seconds, before requests get their turn."""

_ANSWER_S = 30.0
"""So long may the loop take to answer, before the answer is 503."""

_ALIVE_S = 5.0
"""So long for a sign of life (`/healthz`)."""

_LEVEL = 3
"""Of gzip: higher ones take twice the time for a tenth less."""


class MonitoringServer:
    """Serves the monitoring port of a broker.

    Attributes:
        url: where it is.
    """

    def __init__(
        self, broker: BrokerServices, host: str, port: int, *, is_running: Callable[[], bool]
    ) -> None:
        """
        Args:
            broker: its `loop` runs.
            host, port: where to listen; port 0 takes a free one.
            is_running: says whether the broker has started, and does not stop.

        Raises:
            OSError: the port is taken.
        """
        self._broker, self._loop = broker, broker.loop
        self._is_running = is_running
        # Now, as the first read would hold the loop for the import of its module.
        self._telemetry = broker.telemetry
        self._routes: Routes[Callable[[Request, Mapping[str, str]], Response]] = Routes(
            [
                ("GET", "/metrics", self._metrics),
                ("GET", "/applications", self._applications),
                ("GET", "/healthz", self._health),
                ("GET", "/readyz", self._readiness),
            ]
        )
        self._server = HttpServer(host, port, self._handle, most_bytes=1024)
        self.url = self._server.url

    def close(self) -> None:
        """Stop."""
        self._server.close()

    # ------------------------------------------------------------------ in the threads of HTTP

    def _handle(self, request: Request) -> Response:
        try:
            route = self._routes.find(request)
        except NoRouteError as error:
            if error.methods:
                return Response(405, {"message": f"{request.target} takes {', '.join(error.methods)}"})
            return Response(404, {"message": "there are /metrics, /applications, /healthz and /readyz"})
        try:
            return route.action(request, route.query)
        except concurrent.futures.TimeoutError:
            return Response(503, {"message": "the broker's event loop does not answer"})
        except concurrent.futures.CancelledError:
            return Response(503, {"message": "the broker stops"})

    def _metrics(self, request: Request, query: Mapping[str, str]) -> Response:
        try:
            naming = Naming(query.get("names", Naming.JMX.value))
        except ValueError:
            known = ", ".join(naming.value for naming in Naming)
            return Response(400, {"message": f"names={query['names']}: there are {known}"})
        is_open_metrics = "application/openmetrics-text" in request.header("Accept")
        pieces = self._on_loop(self._read(naming, is_open_metrics), _ANSWER_S)
        data = "".join(pieces).encode()
        headers = {}
        if "gzip" in request.header("Accept-Encoding"):
            data = gzip.compress(data, _LEVEL)
            headers["Content-Encoding"] = "gzip"
        return Response(200, data, OPEN_METRICS if is_open_metrics else PROMETHEUS_TEXT, headers)

    def _applications(self, _request: Request, _query: Mapping[str, str]) -> Response:
        broker = self._broker
        report = application_report(
            broker.metrics.applications, self._telemetry.pushed, broker.broker_id, broker.clock.now_ms()
        )
        return Response(200, self._on_loop(report, _ANSWER_S))

    def _health(self, _request: Request, _query: Mapping[str, str]) -> Response:
        self._on_loop(_nothing(), _ALIVE_S)
        return Response(200, {"status": "alive"})

    def _readiness(self, _request: Request, _query: Mapping[str, str]) -> Response:
        status, content = self._on_loop(self._judge(), _ALIVE_S)
        return Response(status, content)

    def _on_loop(self, steps: Generator[object, None, R], timeout_s: float) -> R:
        """Take steps on the broker's loop.

        Raises:
            concurrent.futures.TimeoutError: the loop takes longer.
            concurrent.futures.CancelledError: the loop has ended.
        """
        taking = _in_slices(steps)
        try:
            future = asyncio.run_coroutine_threadsafe(taking, self._loop)
        except RuntimeError:  # the loop is closed
            taking.close()
            raise concurrent.futures.CancelledError from None
        try:
            return future.result(timeout_s)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise

    # ------------------------------------------------------------------ on the broker's loop

    def _read(self, naming: Naming, is_open_metrics: bool) -> Generator[object, None, list[str]]:
        exposition = Exposition(naming)
        yield from exposition.add_all(self._broker.metrics.samples())
        yield from exposition.add_all(process_samples())
        yield from exposition.add_pushed(self._telemetry.pushed.clients(self._broker.clock.now_ms()))
        return (yield from exposition.text(is_open_metrics=is_open_metrics))

    def _judge(self) -> Generator[object, None, tuple[int, object]]:
        yield None
        broker, is_running = self._broker, self._is_running()
        if is_running:
            data_dirs = len(broker.logs.data_dirs)
            judged = readiness(
                is_running=True,
                knows_cluster=broker.knows_cluster,
                folders=data_dirs,
                failed_folders=data_dirs - len(broker.logs.online_dirs),
                offline_partitions=len(broker.replicas.offline),
            )
        else:
            judged = readiness(
                is_running=False, knows_cluster=False, folders=0, failed_folders=0, offline_partitions=0
            )
        status = "unready" if judged.reasons else "ready"
        return 503 if judged.reasons else 200, {"status": status, **judged._asdict()}


def _nothing() -> Generator[object, None, None]:
    yield None


async def _in_slices(steps: Generator[object, None, R]) -> R:
    try:
        while True:
            until = time.perf_counter() + SLICE_S
            while time.perf_counter() < until:
                next(steps)
            await asyncio.sleep(0)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
