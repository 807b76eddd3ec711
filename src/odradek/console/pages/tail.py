"""The page that follows a topic, and the stream of events behind it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from odradek.client.types import TopicPartition
from odradek.console.forms import Form, FormError
from odradek.console.pages.messages import Question, partitions_of, question_of
from odradek.console.rendering import render
from odradek.console.sessions import Session
from odradek.console.tailing import TailNews, tail
from odradek.console.views.texts import count_text, rate_text
from odradek.console.visit import Visit
from odradek.errors import OdradekError

MOST_TAILS = 4


class EventStream(StreamingResponse):
    """Server-sent events that end with the browser's connection.

    Args:
        events: the text of each.
        session: whose topic is followed; it is counted from here on to the end of the stream.
    """

    def __init__(self, events: AsyncGenerator[str, None], session: Session) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._events = events
        self._session = session
        session.tails += 1

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI; whatever ends it, the client behind the events is closed."""
        try:
            async with aclosing(self._events):
                await super().__call__(scope, receive, send)
        finally:
            self._session.tails -= 1


async def tail_page(visit: Visit) -> Response:
    """Show the page, which asks for the events by itself."""
    name = visit.request.path_params["name"]
    query = Form(visit.request.query_params)
    context = {
        "name": name,
        "query": query,
        "events": f"{visit.request.url.path}/events?{visit.request.url.query}",
        "line": visit.command_lines.tail(name, query.text("partition"), bool(query.text("isolation"))),
    }
    return visit.page("tail.html", context)


async def tail_events(visit: Visit) -> Response:
    """Stream what comes into a topic, a few events a second."""
    name = visit.request.path_params["name"]
    question = question_of(Form(visit.request.query_params))
    partitions = await partitions_of(visit, name, question)
    if visit.session.tails >= MOST_TAILS:
        raise FormError(f"This session follows {MOST_TAILS} topics already: close a page of another.", 429)
    return EventStream(_events(visit, partitions, question), visit.session)


async def _events(
    visit: Visit, partitions: list[TopicPartition], question: Question
) -> AsyncGenerator[str, None]:
    session = visit.session
    try:
        async with aclosing(
            tail(
                session.client_configs,
                partitions,
                question.wanted,
                isolation_level=question.isolation_level,
            )
        ) as news:
            async for item in news:
                if session.is_over:
                    yield _event({"problem": "The session is over: log in again."})
                    return
                yield _event(await _told(visit, item))
    except OdradekError as error:
        yield _event({"problem": str(error)})


async def _told(visit: Visit, news: TailNews) -> dict[str, object]:
    rows = await visit.decoder.rows(news.records)
    rows.reverse()
    return {
        "read": count_text(news.read),
        "wanted": count_text(news.wanted),
        "rate": rate_text(round(news.rate, 1)),
        "behind": count_text(news.behind),
        "left_out": count_text(news.left_out),
        "rows": render("message_rows.html", {"rows": rows}) if rows else "",
    }


def _event(told: dict[str, object]) -> str:
    # JSON has no line breaks of its own, so an event is one line.
    return f"data: {json.dumps(told)}\n\n"
