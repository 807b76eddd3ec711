"""The login of a session at ZooKeeper by SASL: what kazoo is told, our own mechanisms in pure-sasl's form.

pure-sasl's GSSAPI needs another library for Kerberos than brokers and clients use here, and takes no key
tables; so the exchange is ours, and pure-sasl, which kazoo asks, hands tokens on.
"""

from __future__ import annotations

import logging
from typing import Any

from puresasl import SASLProtocolException, mechanisms

from odradek.cluster.store.zookeeper_access import SaslAuth, StoreLogin

logger = logging.getLogger(__name__)

_OURS = "ODRADEK"
"""Under which pure-sasl finds it. ZooKeeper is told no mechanism: it takes what its login module takes."""


class _LoggedIn(mechanisms.Mechanism):  # type: ignore[misc]
    """A `StoreLogin`, as pure-sasl has mechanisms."""

    name = _OURS
    score = 0

    def __init__(self, sasl: Any, login: StoreLogin) -> None:
        super().__init__(sasl)
        self._host = sasl.host
        self._exchange = login.start(sasl.host)

    def process(self, challenge: bytes | None = None) -> bytes | None:
        """See `Mechanism.process`."""
        try:
            response = self._exchange.evaluate(challenge or b"")
        except Exception as error:
            # kazoo tells only that it failed.
            logger.warning("no login at ZooKeeper host=%s: %s", self._host, error)
            raise SASLProtocolException("the login failed") from error
        self.complete = self._exchange.is_complete
        return response

    def dispose(self) -> None:
        """See `Mechanism.dispose`; nothing is kept."""


def options_of(auth: SaslAuth) -> dict[str, Any]:
    """Return the `sasl_options` of kazoo."""
    if auth.login is None:
        return {"mechanism": "DIGEST-MD5", "username": auth.username, "password": auth.password}
    mechanisms.mechanisms[_OURS] = _LoggedIn
    return {"mechanism": _OURS, "login": auth.login}
