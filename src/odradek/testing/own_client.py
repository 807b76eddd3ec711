"""The test kit's own clients: what they ask meets no faults, and is not recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CLIENT_ID = "odradek-testing"


def is_own(client_id: str | None) -> bool:
    """Return whether a request of this client id is the kit's own."""
    return client_id == CLIENT_ID


def own(configs: Mapping[str, Any]) -> dict[str, Any]:
    """Return configs of a client of the kit's.

    Args:
        configs: those of a client that may do everything.
    """
    return {**configs, "client.id": CLIENT_ID}
