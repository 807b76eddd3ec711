"""The conditions of every request, and the headers of every answer.

A page of another site must not be able to use a console that only this machine reaches. A name of that site's
that leads to this machine (DNS rebinding) is no allowed `Host`; a form of that site's has another `Origin`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

SAFE_METHODS = frozenset({"GET", "HEAD"})

SECURITY_HEADERS: Mapping[str, str] = {
    # Scripts, styles and pictures are files of the console; nothing inline, nothing from elsewhere.
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    # Not `no-referrer`: with it, browsers send the Origin of a form as `null`.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def host_problem(host: str, allowed_hosts: Collection[str]) -> str | None:
    """Return why a `Host` is refused, None if it is right.

    An address is always right: rebinding needs a name.

    Args:
        host: the header, with a port or without.
        allowed_hosts: names that are right beside `localhost`, in lower case.
    """
    name = _name_of(host)
    if name == "localhost" or name in allowed_hosts or _is_address(name):
        return None
    return f"The console does not answer to the name {name!r}; it does if started with --allowed-host {name}."


def origin_problem(method: str, headers: Mapping[str, str]) -> str | None:
    """Return why a request may come from a page of another site, None if it does not.

    Args:
        method: of HTTP; reading is always right.
        headers: by names in lower case.
    """
    if method in SAFE_METHODS:
        return None
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return "The request came from a page of another site."
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2] != headers.get("host"):
        return "The request came from a page of another site."
    return None


def _name_of(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Guard:
    """The outermost layer of the application: refuses what `host_problem` and `origin_problem` tell, and adds
    the headers to every answer.

    Args:
        app: what is behind it.
        allowed_hosts: see `host_problem`.
    """

    def __init__(self, app: ASGIApp, allowed_hosts: Collection[str]) -> None:
        self._app = app
        self._allowed_hosts = allowed_hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers[name] = value
            await send(message)

        headers = Headers(scope=scope)
        refusal = host_problem(headers.get("host", ""), self._allowed_hosts)
        status = 421
        if refusal is None:
            refusal, status = origin_problem(scope["method"], headers), 403
        if refusal is not None:
            await PlainTextResponse(refusal + "\n", status)(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)
