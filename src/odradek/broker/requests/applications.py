# compiled: mypyc
"""The application of a request: what its connection counts for, by its client id and who has logged in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.metrics.applications import LONGEST_NAME, Application, ApplicationIdentity
from odradek.broker.requests.between_brokers import purpose_of
from odradek.wire.api import ApiKey

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.peer import Peer

_BEFORE_WORK = (int(ApiKey.API_VERSIONS), int(ApiKey.SASL_HANDSHAKE), int(ApiKey.SASL_AUTHENTICATE))
"""Requests that come before a client has said who it is: they make no application."""


NAMED_FOR_MS = 1000
"""A connection that gives itself another client id, as hardly any does, is heard after so long: to compare
them at each request takes longer than all the counting."""


def name_application(context: RequestContext) -> Application | None:
    """Find the application of a request whose connection has none, or has not been asked for a while.

    Returns:
        None where the client is still introducing itself, or has gone.
    """
    peer = context.peer
    if not peer.is_open or context.header.api_key in _BEFORE_WORK:
        return peer.application
    client_id = context.header.client_id
    peer.named_until_ms = context.now_ms + NAMED_FOR_MS
    application = peer.application
    if (
        application is not None
        and client_id == peer.client_id
        and application.identity.principal == peer.principal[:LONGEST_NAME]
    ):
        return application
    forget_application(peer)
    identity = ApplicationIdentity(
        client_id or "",
        peer.software,
        peer.principal,
        peer.host,
        is_broker=purpose_of(client_id) is not None,
    )
    peer.client_id = client_id
    peer.application = application = context.broker.metrics.applications.connect(identity, context.now_ms)
    return application


def forget_application(peer: Peer) -> None:
    """A connection has ended, or is about to be another application's."""
    application = peer.application
    if application is not None:
        peer.application = None
        application.disconnect()
