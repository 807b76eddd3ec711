"""The page of applications: who produces and consumes what."""

from __future__ import annotations

from starlette.responses import Response

from odradek.console.broker_reports import ask_applications
from odradek.console.views.applications import (
    ORDERS,
    ApplicationRow,
    application_rows,
    chosen_applications,
)
from odradek.console.views.paging import page_of
from odradek.console.visit import Visit


async def applications_page(visit: Visit) -> Response:
    """Show the applications that brokers have seen, as far as their metrics ports are known."""
    reports, problems = await ask_applications(visit.settings.metrics_urls)
    rows: list[ApplicationRow] = []
    try:
        rows = application_rows(reports)
    except ValueError as error:
        problems = {**problems, "a broker": str(error)}
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
        "now_ms": visit.clock.now_ms(),
        "left_out": any(report.get("left_out", {}).get("forgotten") for report in reports),
    }
    return visit.page("applications.html", context)
