"""Login and logout, before there is a session.

The form of the login is guarded by a random value that has to come both in the form and in a cookie: a page
of another site can set neither.
"""

from __future__ import annotations

import hmac
import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from odradek.client.aio.admin import AsyncAdmin
from odradek.client.errors import AuthenticationError
from odradek.console.forms import Form
from odradek.console.rendering import render
from odradek.console.sessions import LoginThrottle, Session, Sessions
from odradek.console.settings import ConsoleSettings
from odradek.console.watch import Watch
from odradek.errors import OdradekError

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Login:
    """Lets people in.

    Args:
        settings: how they log in.
        sessions: where their sessions are kept.
        throttle: how often they may try.
        shared: the client of all who log in by token; None where users log in.
        shared_watch: what they have looked at; None where users log in.
    """

    settings: ConsoleSettings
    sessions: Sessions
    throttle: LoginThrottle
    shared: AsyncAdmin | None
    shared_watch: Watch | None

    async def page(self, request: Request) -> Response:
        """Show the form."""
        return self._form(request)

    async def enter(self, request: Request, form: Form) -> Response:
        """Take the form: begin a session, or say why not."""
        expected = request.cookies.get(self.cookie(request, "login"), "")
        if not expected or not equal(form.get("csrf", ""), expected):
            return self._form(request, "The form was too old. Try again.", 403)
        address = request.client.host if request.client is not None else ""
        if not self.throttle.may_try(address):
            return self._form(request, "Too many failed logins. Try again in a minute.", 429)
        try:
            session = await self._session(form)
        except AuthenticationError as error:
            logger.warning("login from %s failed: %s", address, error)
            self.throttle.failed(address)
            return self._form(request, f"The cluster refuses this user: {error}", 403)
        except (OdradekError, ValueError) as error:
            return self._form(request, f"The cluster cannot be asked: {error}", 502)
        if session is None:
            logger.warning("login from %s failed: another token", address)
            self.throttle.failed(address)
            return self._form(request, "That is not the token that the console was started with.", 403)
        response = RedirectResponse("/topics", 303)
        response.delete_cookie(self.cookie(request, "login"))
        self._set_cookie(response, request, "session", session.session_id)
        return response

    async def _session(self, form: Form) -> Session | None:
        """The session of somebody who may enter; None for another token.

        Raises:
            AuthenticationError: the cluster knows no such user with this password.
            OdradekError: the cluster cannot be asked.
        """
        if self.settings.token is not None and self.shared is not None:
            right = equal(form.text("token"), self.settings.token)
            configs = self.settings.client_configs
            return self.sessions.open(None, self.shared, configs, self.shared_watch) if right else None
        user = form.text("user")
        configs = with_user(self.settings.client_configs, user, form.get("password", ""))
        admin = AsyncAdmin(configs)
        try:
            await admin.describe_cluster()
        except BaseException:
            await admin.close()
            raise
        return self.sessions.open(user, admin, configs)

    async def leave(self, request: Request, session: Session) -> Response:
        """End a session."""
        self.sessions.remove(session.session_id)
        await self.close(session)
        response = RedirectResponse("/login", 303)
        response.delete_cookie(self.cookie(request, "session"))
        return response

    async def close(self, session: Session) -> None:
        """Close the client of a session that has ended, if it is its own."""
        if session.admin is not self.shared:
            await session.watch.close()
            await session.admin.close()

    def cookie(self, request: Request, purpose: str) -> str:
        """Return the name of a cookie: ports of a host share cookies, and two consoles are not one."""
        return f"odradek_{purpose}_{request.url.port or 0}"

    def _form(self, request: Request, problem: str = "", status: int = 200) -> Response:
        value = secrets.token_urlsafe(32)
        context = {
            "csrf": value,
            "problem": problem,
            "by_token": self.settings.token is not None,
            "servers": self.settings.bootstrap_servers,
        }
        response = HTMLResponse(render("login.html", context), status)
        self._set_cookie(response, request, "login", value)
        return response

    def _set_cookie(self, response: Response, request: Request, purpose: str, value: str) -> None:
        secure = request.url.scheme == "https"
        response.set_cookie(
            self.cookie(request, purpose), value, httponly=True, samesite="strict", secure=secure
        )


def equal(given: str, expected: str) -> bool:
    """Return whether two secrets are equal, in a time that does not tell how much of them is."""
    return hmac.compare_digest(given.encode("utf-8"), expected.encode("utf-8"))


def with_user(configs: Mapping[str, Any], user: str, password: str) -> dict[str, Any]:
    """Return the configs of a client for a SASL user, in place of the login that they have.

    Args:
        configs: the console's own; `sasl_mechanism` says how users log in.
        user, password: whose client it is.
    """
    own = ("sasl_jaas_config", "sasl_username", "sasl_password")
    kept = {name: value for name, value in configs.items() if name not in own}
    return {**kept, "sasl_plain_username": user, "sasl_plain_password": password}
