"""A principal, as brokers forward it to each other."""

from __future__ import annotations

from odradek.wire.fields import boolean, string
from odradek.wire.message import Data, data


@data(versions="0", flexible="0+")
class DefaultPrincipalData(Data):
    """The principal that asks, and whether a delegation token proved it."""

    type: str = string()
    name: str = string()
    token_authenticated: bool = boolean()
