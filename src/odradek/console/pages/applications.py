"""The page of applications: who produces and consumes what."""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from odradek.console.broker_reports import ask_applications
from odradek.console.views.applications import (
    ORDERS,
    OTHER_TOPICS,
    application_rows,
    chosen_applications,
    has_forgotten,
)
from odradek.console.views.paging import page_of
from odradek.console.visit import Visit


async def applications_page(visit: Visit) -> Response:
    """Show the applications that brokers have seen, as far as their metrics ports are known."""
    reports, problems = await ask_applications(visit.settings.metrics_urls)
    rows = await asyncio.to_thread(application_rows, reports)
    order = visit.query("order") if visit.query("order") in ORDERS else ORDERS[0]
    chosen = chosen_applications(
        rows, text=visit.query("filter"), brokers=visit.query("brokers") == "1", order=order
    )
    context = {
        "table": page_of(chosen, visit.page_number),
        "urls": visit.settings.metrics_urls,
        "answered": len(reports),
        "problems": problems,
        "order": order,
        "other_topics": OTHER_TOPICS,
        "left_out": any(map(has_forgotten, reports)),
    }
    return visit.page("applications.html", context)
