"""The control port: HTTP with JSON around a broker or a cluster of a test."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from odradek.errors import KafkaError
from odradek.testing.control.action import Action, Control
from odradek.testing.control.controlled import Controlled
from odradek.testing.control.routes import ROUTES
from odradek.testing.control.set_faults import SetFaults
from odradek.testing.control.words import ControlRefusedError, read_object, read_words
from odradek.testing.looking.waiting import WaitTimeoutError
from odradek.util.http_routes import NoRouteError, Request, Response, Route
from odradek.util.http_server import HttpServer

if TYPE_CHECKING:
    from collections.abc import Callable

    from odradek.testing.broker import Broker
    from odradek.testing.cluster import Cluster
    from odradek.testing.faults.calls import Calls
    from odradek.testing.faults.fault import Fault
    from odradek.util.http_routes import Routes

logger = logging.getLogger(__name__)

_MOST_BYTES = 1 << 20


class ControlServer:
    """Serves a control port. Whoever reaches it may do everything: it is for loopback.

    Attributes:
        url: where it is.
    """

    def __init__(
        self,
        kit: Broker | Cluster,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        routes: Routes[Action] = ROUTES,
        calls: Callable[[int, Fault], Calls | None] = lambda *_: None,
    ) -> None:
        """
        Args:
            kit: what is told what becomes of it; it need not run.
            host, port: where to listen; port 0 takes a free one.
            routes: the paths that there are.
            calls: see `SetFaults`.

        Raises:
            OSError: the port is taken.
        """
        controlled = Controlled(kit)
        self._control = Control(controlled, SetFaults(controlled, calls))
        self._routes = routes
        self._changing = threading.Lock()
        """Held by whoever changes something: a broker is not killed while it is started."""
        self._http = HttpServer(host, port, self.handle, most_bytes=_MOST_BYTES)
        self.url = self._http.url

    def close(self) -> None:
        """Stop."""
        self._http.close()

    def handle(self, request: Request) -> Response:
        """Return the answer to a request."""
        try:
            return Response(200, self._answer(request))
        except ControlRefusedError as refused:
            return _refusal(refused.status, str(refused), refused.remedy, **refused.more)
        except NoRouteError as error:
            paths = ", ".join(error.methods)
            status, message = (405, f"it takes {paths}") if paths else (404, "there is no such path")
            return _refusal(
                status, f"{request.method} {request.target:.80}: {message}", "GET / has all paths"
            )
        except KafkaError as error:
            return _refusal(409, f"{error.code.name}: {error}", error=error.code.name)
        except (ValueError, TypeError, LookupError) as error:
            # FaultRefusedError is one, and says itself what to do.
            said = f"{error}" if not isinstance(error, KeyError) else f"there is no {error}"
            return _refusal(400, said, 'send "anyway": true' if "anyway=True" in said else "")
        except WaitTimeoutError as error:
            # Not 408, after which some clients ask again by themselves.
            return _refusal(409, f"{error}")
        except TimeoutError as error:
            return _refusal(504, f"{error}")
        except Exception as error:
            logger.exception("%s %s could not be answered", request.method, request.target)
            return _refusal(500, f"{type(error).__name__}: {error}")

    def _answer(self, request: Request) -> Any:
        route = self._routes.find(request)
        action = route.action
        document = read_object(request.body) if request.method != "GET" else {}
        words = _path_and_query(route)
        if action.whole:
            given = {"document": document, **read_words(words, action.words)}
        else:
            given = read_words({**document, **words}, action.words)
        if request.method == "GET" or action.waits:
            return self._act(action, given)
        with self._changing:
            return self._act(action, given)

    def _act(self, action: Action, given: dict[str, Any]) -> Any:
        if action.asks:
            self._control.controlled.answering()
        return action.function(self._control, **given)


def _path_and_query(route: Route[Action]) -> dict[str, Any]:
    """Return what path and query say, in the forms that the action has for it."""
    words = route.action.words
    return {
        name: words[name].form.of_text(text) if name in words else text
        for name, text in {**route.query, **route.words}.items()
    }


def _refusal(status: int, message: str, remedy: str = "", **more: Any) -> Response:
    content = {"error_code": status, "message": message}
    if remedy:
        content["remedy"] = remedy
    return Response(status, {**content, **more})
