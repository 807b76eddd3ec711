"""The test kit's own clients: what they ask meets no faults, and is not recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odradek.broker.requests.between_brokers import purpose_of

CLIENT_ID = "odradek-testing"


def is_own(client_id: str | None) -> bool:
    """Return whether a request of this client id is the kit's own."""
    return client_id == CLIENT_ID


def is_of_client(client_id: str | None) -> bool:
    """Return whether a request of this client id is of a client under test: not the kit's, nor a broker's."""
    return not is_own(client_id) and purpose_of(client_id) is None


def own(configs: Mapping[str, Any]) -> dict[str, Any]:
    """Return configs of a client of the kit's.

    Args:
        configs: those of a client that may do everything.
    """
    return {**configs, "client.id": CLIENT_ID}
