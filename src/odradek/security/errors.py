"""The errors of `ssl.*` configs."""

from __future__ import annotations

from odradek.errors import OdradekError


class TlsConfigError(OdradekError):
    """A key store, a trust store or another `ssl.*` config cannot be used.

    Attributes:
        config: the config's name, without a listener's prefix.
    """

    def __init__(self, config: str, problem: str) -> None:
        super().__init__(f"{config}: {problem}")
        self.config = config
