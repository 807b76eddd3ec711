"""The library that reads JWTs, which only the extra `oauth` installs."""

from __future__ import annotations

from typing import Any

from odradek.sasl.mechanisms import SaslError
from odradek.util.extras import install


def import_pyjwt() -> Any:
    """The library.

    Raises:
        SaslError: it is missing.
    """
    try:
        import jwt
        import jwt.algorithms  # noqa: F401 - an attribute of what is returned
    except ImportError as error:
        raise SaslError(f"OAUTHBEARER needs PyJWT: {install('oauth')}") from error
    return jwt
