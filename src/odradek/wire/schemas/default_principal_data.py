"""DefaultPrincipalData."""

from __future__ import annotations

from odradek.wire.fields import boolean, string
from odradek.wire.message import Data, data


@data(versions="0", flexible="0+")
class DefaultPrincipalData(Data):
    """DefaultPrincipalData."""

    type: str = string()
    name: str = string()
    token_authenticated: bool = boolean()
