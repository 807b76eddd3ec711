"""One request of somebody who is logged in: what a page needs to ask the cluster and to answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from odradek.client.aio.admin import AsyncAdmin
from odradek.console.decoding import Decoder
from odradek.console.forms import Form
from odradek.console.rendering import render
from odradek.console.sessions import Session
from odradek.console.settings import ConsoleSettings
from odradek.console.views.command_lines import CommandLines
from odradek.console.views.paging import page_number
from odradek.console.watch import Watch
from odradek.util.clock import Clock


@dataclass(frozen=True)
class Visit:
    """A request, with whose it is.

    Attributes:
        form: the fields of a POST; of a GET none.
        decoder: makes rows of records.
        clock: the console's.
    """

    request: Request
    session: Session
    settings: ConsoleSettings
    form: Form
    decoder: Decoder
    clock: Clock

    @property
    def admin(self) -> AsyncAdmin:
        """The client that asks the cluster for this visitor."""
        return self.session.admin

    @property
    def watch(self) -> Watch:
        """The history of everything that this visitor has looked at."""
        return self.session.watch

    @property
    def command_lines(self) -> CommandLines:
        """The command lines for this cluster."""
        return CommandLines(self.settings.bootstrap_servers, self.settings.config_file)

    def query(self, name: str) -> str:
        """Return a field of the query; '' where it is absent."""
        return self.request.query_params.get(name, "").strip()

    @property
    def page_number(self) -> int:
        """The page of a long table that is asked for."""
        return page_number(self.query("page"))

    def link(self, **changes: str | int) -> str:
        """Return a link to the same page with another query; a field that becomes '' is left out."""
        query = {**self.request.query_params, **{name: str(value) for name, value in changes.items()}}
        kept = {name: value for name, value in query.items() if value}
        return f"{self.request.url.path}?{urlencode(kept)}" if kept else self.request.url.path

    def page(self, template: str, context: Mapping[str, Any], status: int = 200) -> Response:
        """Answer with a page; what is to be told is told on it, once."""
        notices = list(self.session.notices)
        self.session.notices.clear()
        common = {
            "visit": self,
            "csrf": self.session.csrf,
            "user": self.session.user,
            "read_only": self.settings.read_only,
            "servers": self.settings.bootstrap_servers,
            "commands": self.command_lines,
            "notices": notices,
            "section": self.request.url.path.strip("/").partition("/")[0],
        }
        return HTMLResponse(render(template, {**common, **context}), status)

    def done(self, notice: str, path: str) -> Response:
        """Answer a form that has had its effect: the browser goes to a page, which tells so."""
        self.session.notices.append(("done", notice))
        return RedirectResponse(path, 303)


PageHandler: TypeAlias = Callable[[Visit], Awaitable[Response]]
"""Answers a visit."""
