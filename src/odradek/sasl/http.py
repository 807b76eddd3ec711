"""Asking an identity provider over HTTP: small, bounded, with a deadline. Blocks; belongs into a thread."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from odradek.errors import OdradekError

MAX_BYTES = 1 << 20
"""No key set and no token is longer than this."""


class HttpError(OdradekError):
    """The provider did not answer, or not with JSON. The message has neither secrets nor the answer."""


def fetch_json(
    url: str,
    *,
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
    timeout_ms: float = 10_000,
) -> Any:
    """GET, or POST with a body; redirects are not followed, since a body may hold a secret.

    Args:
        url: `http:` or `https:`.
        body: of a form.
        headers: further ones.
        timeout_ms: of each wait for the other side.

    Raises:
        HttpError: no answer, an error, or no JSON.
    """
    if not url.startswith(("http://", "https://")):
        raise HttpError(f"{url} is neither http nor https")
    request = urllib.request.Request(
        url, data=body, headers={"Accept": "application/json", **(headers or {})}
    )
    handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]
    if url.startswith("https://"):
        handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context()))
    opener = urllib.request.build_opener(*handlers)
    try:
        with opener.open(request, timeout=max(timeout_ms, 1) / 1000) as answer:
            text = answer.read(MAX_BYTES + 1)
    except urllib.error.HTTPError as error:
        with error:
            raise HttpError(f"{url} answered {error.code}") from None
    except (OSError, ValueError) as error:
        raise HttpError(f"{url} cannot be asked: {error}") from error
    if len(text) > MAX_BYTES:
        raise HttpError(f"{url} answered with more than {MAX_BYTES} bytes")
    try:
        return json.loads(text)
    except ValueError:
        raise HttpError(f"{url} did not answer with JSON") from None


def path_of(url: str) -> str:
    """The path of a file, out of its `file:` address."""
    return urllib.request.url2pathname(urllib.parse.urlsplit(url).path)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """Refuse to follow the redirect, which is then raised as an error."""
