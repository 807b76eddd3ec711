"""The console as an ASGI application: its routes, who may use them, and what becomes of errors."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from odradek.client.aio.admin import AsyncAdmin
from odradek.client.errors import AuthenticationError, ClientTimeoutError, NoBrokersAvailableError
from odradek.console.decoding import REGISTRY_CONFIGS, Decoder
from odradek.console.forms import Form, FormError, read_form
from odradek.console.guards import Guard
from odradek.console.pages import (
    access,
    applications,
    brokers,
    groups,
    messages,
    produce,
    tail,
    topics,
    transactions,
)
from odradek.console.pages.login import Login, equal
from odradek.console.sessions import LoginThrottle, Session, Sessions
from odradek.console.settings import ConsoleSettings
from odradek.console.visit import PageHandler, Visit
from odradek.console.watch import Watch
from odradek.errors import KafkaError, OdradekError
from odradek.serdes.schema_registry_client import SchemaRegistryClient
from odradek.util.clock import Clock, SystemClock

logger = logging.getLogger(__name__)

STATIC = Path(__file__).with_name("static")

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]

PAGES: tuple[tuple[str, PageHandler], ...] = (
    ("/", topics.home),
    ("/topics", topics.topics_page),
    ("/topics/{name}", topics.topic_page),
    ("/topics/{name}/messages", messages.messages_page),
    ("/topics/{name}/produce", produce.produce_page),
    ("/topics/{name}/tail", tail.tail_page),
    ("/topics/{name}/tail/events", tail.tail_events),
    ("/create-topic", topics.create_page),
    ("/groups", groups.groups_page),
    ("/groups/one", groups.group_page),
    ("/groups/reset", groups.reset_page),
    ("/applications", applications.applications_page),
    ("/access", access.access_page),
    ("/access/confirm", access.confirm_page),
    ("/transactions", transactions.transactions_page),
    ("/transactions/confirm", transactions.confirm_abort_page),
    ("/brokers", brokers.brokers_page),
    ("/brokers/{broker:int}", brokers.broker_page),
)
"""What can be looked at."""

ACTIONS: tuple[tuple[str, PageHandler], ...] = (
    ("/create-topic", topics.create),
    ("/topics/{name}/partitions", topics.add_partitions),
    ("/topics/{name}/configs", topics.change_config),
    ("/topics/{name}/delete", topics.delete),
    ("/topics/{name}/produce", produce.produce),
    ("/groups/reset", groups.reset),
    ("/groups/delete", groups.delete),
    ("/access/acl", access.create_acl),
    ("/access/acl/delete", access.delete_acl),
    ("/access/user", access.set_user),
    ("/access/user/delete", access.delete_user),
    ("/access/quota", access.set_quota),
    ("/access/quota/delete", access.delete_quota),
    ("/transactions/abort", transactions.abort),
)
"""What changes the cluster."""


class Console:
    """A console.

    Args:
        settings: what it was started with.
        clock: for the ends of sessions.

    Attributes:
        app: the application, for an ASGI server.
    """

    def __init__(self, settings: ConsoleSettings, clock: Clock | None = None) -> None:
        clock = clock or SystemClock()
        self._settings = settings
        self._clock = clock
        self._sessions = Sessions(clock)
        self._decoder = Decoder(_registry(settings))
        shared = None if settings.token is None else AsyncAdmin(dict(settings.client_configs))
        watch = None if shared is None else Watch(shared, clock)
        self._login = Login(settings, self._sessions, LoginThrottle(clock), shared, watch)
        self.app = Starlette(
            routes=self._routes(),
            middleware=[Middleware(Guard, allowed_hosts=settings.allowed_hosts)],
            lifespan=self._lifespan,
        )

    def _routes(self) -> list[BaseRoute]:
        return [
            Mount("/static", StaticFiles(directory=STATIC)),
            Route("/login", self._login.page, methods=["GET"]),
            Route("/login", self._enter, methods=["POST"]),
            Route("/logout", self._leave, methods=["POST"]),
            *(Route(path, self._page(handler), methods=["GET"]) for path, handler in PAGES),
            *(Route(path, self._action(handler), methods=["POST"]) for path, handler in ACTIONS),
        ]

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            for session in self._sessions.take_all():
                await self._login.close(session)
            if self._login.shared_watch is not None:
                await self._login.shared_watch.close()
            if self._login.shared is not None:
                await self._login.shared.close()

    async def _session(self, request: Request) -> Session | None:
        for session in self._sessions.take_over():
            await self._login.close(session)
        return self._sessions.get(request.cookies.get(self._login.cookie(request, "session"), ""))

    async def _enter(self, request: Request) -> Response:
        try:
            form = await read_form(request)
        except FormError as error:
            return PlainTextResponse(f"{error}\n", error.status)
        return await self._login.enter(request, form)

    async def _leave(self, request: Request) -> Response:
        session = await self._session(request)
        if session is None:
            return RedirectResponse("/login", 303)
        problem, _ = await self._form(request, session)
        return problem or await self._login.leave(request, session)

    def _page(self, handler: PageHandler) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            session = await self._session(request)
            if session is None:
                return RedirectResponse("/login", 303)
            return await answer(
                Visit(request, session, self._settings, Form(), self._decoder, self._clock), handler
            )

        return endpoint

    def _action(self, handler: PageHandler) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            session = await self._session(request)
            if session is None:
                return RedirectResponse("/login", 303)
            problem, form = await self._form(request, session)
            if problem is not None:
                return problem
            visit = Visit(request, session, self._settings, form, self._decoder, self._clock)
            if self._settings.read_only:
                message = "This console was started with --read-only: it changes nothing."
                context = {"title": "Read-only", "message": message, "remedy": ""}
                return visit.page("problem.html", context, 403)
            logger.info("%s: POST %s", session.user or "token", request.url.path)
            return await answer(visit, handler)

        return endpoint

    async def _form(self, request: Request, session: Session) -> tuple[Response | None, Form]:
        """The form of a POST; or the answer to one that may not come from a page of the session."""
        try:
            form = await read_form(request)
        except FormError as error:
            return PlainTextResponse(f"{error}\n", error.status), Form()
        if not equal(form.get("csrf", ""), session.csrf):
            return PlainTextResponse("The form is not of this session: load its page again.\n", 403), form
        return None, form


def _registry(settings: ConsoleSettings) -> SchemaRegistryClient | None:
    if settings.schema_registry is None:
        return None
    return SchemaRegistryClient({**REGISTRY_CONFIGS, **settings.schema_registry})


async def answer(visit: Visit, handler: PageHandler) -> Response:
    """Answer a visit; an error that a cluster or a form has is a page that says what to do."""
    try:
        return await handler(visit)
    except FormError as error:
        context = {"title": "That was not done", "message": str(error), "remedy": "Go back and try again."}
        return visit.page("problem.html", context, error.status)
    except OdradekError as error:
        status, title, remedy = explanation(error, visit.settings.bootstrap_servers)
        context = {"title": title, "message": str(error), "remedy": remedy}
        return visit.page("problem.html", context, status)


def explanation(error: OdradekError, servers: str) -> tuple[int, str, str]:
    """Return the status of HTTP for an error, the title of its page, and what to do.

    Args:
        error: of a client.
        servers: what the console was started with.
    """
    if isinstance(error, AuthenticationError):
        return 502, "The cluster refuses the login", "Check the SASL and TLS configs of --command-config."
    if isinstance(error, NoBrokersAvailableError | ClientTimeoutError):
        remedy = (
            f"Check that --bootstrap-server {servers} is right and that a broker listens there; then load "
            "this page again. A broker with TLS or SASL needs its configs in --command-config."
        )
        return 502, "The cluster does not answer", remedy
    code = error.code.name if isinstance(error, KafkaError) else ""
    if code.endswith("_AUTHORIZATION_FAILED"):
        return 403, "That is not allowed", "The cluster's ACLs do not allow this user to do so."
    if code == "UNKNOWN_TOPIC_OR_PARTITION":
        return 404, "There is no such topic", "It may have been deleted meanwhile."
    return 400, "The cluster has refused", "Nothing was changed, unless the message says so."
