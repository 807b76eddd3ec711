"""Asks the metrics ports of odradek's brokers what only they know: `GET /applications`."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Sequence
from typing import Any

from odradek.console.views.applications import application_rows

WITHIN_S = 3.0
MOST_BYTES = 64 * 1024 * 1024


async def ask_applications(urls: Sequence[str]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Ask all brokers at once.

    Args:
        urls: of their metrics ports.

    Returns: the answers; and for each broker that has told nothing, by its address, why.
    """
    reports: list[dict[str, Any]] = []
    problems: dict[str, str] = {}

    async def ask(url: str) -> None:
        try:
            reports.append(await asyncio.to_thread(_report, f"{url.rstrip('/')}/applications"))
        except (OSError, ValueError, RecursionError) as error:
            problems[url] = str(error)

    await asyncio.gather(*map(ask, dict.fromkeys(urls)))
    return reports, problems


def _report(url: str) -> dict[str, Any]:
    """Return a broker's answer; one of another form would keep the others from being shown."""
    report = json.loads(_get(url))
    if not isinstance(report, dict):
        raise ValueError("the answer is of another form")
    application_rows([report])
    return report


def _get(url: str) -> bytes:
    # Straight to the broker: a proxy of the environment has no way to it.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=WITHIN_S) as answer:
        data: bytes = answer.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ValueError(f"the answer is longer than {MOST_BYTES} bytes")
    return data
