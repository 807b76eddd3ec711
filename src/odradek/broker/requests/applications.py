# compiled: mypyc
"""The application of a request: what its connection counts for, by its client id and who has logged in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.metrics.applications import Application, Identity
from odradek.broker.requests.between_brokers import purpose_of
from odradek.wire.api import ApiKey

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.peer import Peer

_BEFORE_WORK = (int(ApiKey.API_VERSIONS), int(ApiKey.SASL_HANDSHAKE), int(ApiKey.SASL_AUTHENTICATE))
"""Requests that come before a client has said who it is: they make no application."""


def name_application(context: RequestContext) -> Application | None:
    """Find the application of a request whose connection has none, or has been another one's so far.

    Returns:
        None where the client is still introducing itself, or has gone.
    """
    peer = context.peer
    if not peer.is_open or context.header.api_key in _BEFORE_WORK:
        return peer.application
    applications = context.broker.metrics.applications
    forget_application(peer)
    client_id = context.header.client_id
    identity = Identity(
        client_id or "",
        peer.software,
        peer.principal,
        peer.host,
        is_broker=purpose_of(client_id) is not None,
    )
    peer.client_id = client_id
    peer.named_by = peer.principal
    peer.application = application = applications.connect(identity, context.now_ms)
    return application


def forget_application(peer: Peer) -> None:
    """A connection has ended, or is about to be another application's."""
    application = peer.application
    if application is not None:
        peer.application = None
        application.disconnect()
