"""Redirects of a schema registry, which get its password no further than to where it was meant for."""

from __future__ import annotations

import urllib.request
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from odradek.serdes.errors import RegistryError

_PORTS = {"http": 80, "https": 443}


class Origin(NamedTuple):
    """Scheme, host and port: who it is that is asked."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.scheme}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def origin_of(url: str) -> Origin:
    """Return who an address is about.

    Raises:
        ValueError: its port is none.
    """
    parts = urlsplit(url)
    return Origin(parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0))


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a redirect of a question, without the login where somebody else is to answer.

    As urllib has it, a login goes wherever the one who was asked says, a schema that is to be registered is
    dropped on the way, and `ftp:` is fine.

    Args:
        url_config: the name of the config that has the address, for messages.
        secret: the names of the headers that are for those alone who were asked.
    """

    def __init__(self, url_config: str, secret: Sequence[str]) -> None:
        self._url_config = url_config
        self._secret = secret

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """Return the question to the new address.

        Raises:
            RegistryError: the redirect leads from https to http, to another scheme, or is of something that
                is to be changed.
        """
        before, after = origin_of(req.full_url), origin_of(newurl)
        refusal = None
        if after.scheme not in _PORTS or (before.scheme == "https" and after.scheme != "https"):
            refusal = f"{before} redirects to {after}: a schema registry may only lead on to https"
        elif req.get_method() != "GET":
            refusal = f"{before} redirects what is to be changed to {after}: name that in {self._url_config}"
        if refusal is not None:
            fp.close()
            raise RegistryError(refusal, code)
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request is not None and before != after:
            for name in self._secret:
                # As urllib spells the names that it keeps.
                request.remove_header(name.capitalize())
        return request
