"""The REST interface of Confluent's schema registry, asked: addresses, logins, TLS, repetitions.

It blocks: who has an event loop asks from a thread (`odradek.serdes.lookups`).
"""

from __future__ import annotations

import base64
import json
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit, urlunsplit

from odradek.serdes.errors import RegistryError, UnknownSchemaError
from odradek.serdes.registry_config import RegistryConfig

if TYPE_CHECKING:
    import ssl
    import urllib.error
    import urllib.request

logger = logging.getLogger(__name__)

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_MOST_BYTES = 16 << 20


class NoAnswerError(OSError):
    """A registry that did not answer, or answered that it cannot at present."""


class RestService:
    """One registry.

    Args:
        config: where it is.
        sleep: called with seconds between two tries.

    Attributes:
        where: its name in messages, without passwords.
    """

    def __init__(self, config: RegistryConfig, sleep: Callable[[float], None] = time.sleep) -> None:
        self._config = config
        self._sleep = sleep
        self._context: ssl.SSLContext | None = None
        self.where = "the schema registry at " + ", ".join(_split_user(url, "")[0] for url in config.urls)

    def ask(self, method: str, path: str, resource: str, body: Any = None) -> Any:
        """Return the answer of the first address that gives one.

        What deletes is asked once: a second try could not tell what the first has done.

        Args:
            method, path, body: the request; the body is sent as JSON.
            resource: what it is about, for messages.

        Raises:
            UnknownSchemaError: the registry does not have it.
            RegistryError: the registry cannot be asked, or refuses.
        """
        config = self._config
        problem: Exception | None = None
        retries = 0 if method == "DELETE" else config.max_retries
        for attempt in range(retries + 1):
            for url in config.urls if method != "DELETE" else config.urls[:1]:
                try:
                    return self._once(method, url, path, resource, body)
                except (OSError, ValueError) as failed:
                    problem = failed
            if attempt < retries:
                logger.warning("%s did not answer: %s", self.where, problem)
                self._sleep(min(config.retries_wait_ms * 2**attempt, config.retries_max_wait_ms) / 1000)
        raise RegistryError(
            f"{resource} could not be had from {self.where}: {problem}. Check {config.prefix}url"
        ) from problem

    def _once(self, method: str, url: str, path: str, resource: str, body: Any) -> Any:
        # Spark's workers import this module, most of them for formats without a registry.
        import urllib.error
        import urllib.request

        config = self._config
        address, user_info = _split_user(url, config.user_info)
        headers = {**dict(config.headers), "Accept": f"{CONTENT_TYPE}, application/json"}
        if config.bearer_token:
            headers["Authorization"] = f"Bearer {config.bearer_token}"
        elif user_info:
            headers["Authorization"] = "Basic " + base64.b64encode(user_info.encode()).decode()
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = CONTENT_TYPE
        request = urllib.request.Request(address + path, data, headers, method=method)
        # One that is asked in clear may lead on to https.
        context = self._ssl_context() if address.startswith("https:") or config.ssl else None
        try:
            with self._opener(context).open(request, timeout=config.timeout_ms / 1000) as answer:
                text = answer.read(_MOST_BYTES + 1)
        except urllib.error.HTTPError as refused:
            raise self._refusal(refused, address, resource) from None
        except OSError as failed:
            raise NoAnswerError(self._told_of_tls(failed) or str(failed)) from failed
        if len(text) > _MOST_BYTES:
            raise RegistryError(f"{self.where} answered with more than {_MOST_BYTES >> 20} MiB")
        return json.loads(text)

    def _refusal(self, refused: urllib.error.HTTPError, address: str, resource: str) -> Exception:
        with refused:
            reason, error_code = _message(refused)
        status = refused.code
        if status >= 500 or status == 429:
            return NoAnswerError(f"HTTP {status} {reason}")
        if status == 404:
            return UnknownSchemaError(f"{self.where} does not have {resource}: {reason}", status, error_code)
        if status in (401, 403):
            reason += self._remedy(address, refused.filename)
        return RegistryError(f"{self.where} refused {resource}: HTTP {status} {reason}", status, error_code)

    def _opener(self, context: ssl.SSLContext | None) -> urllib.request.OpenerDirector:
        import urllib.request

        from odradek.serdes.redirects import Redirects

        secret = ["Authorization", *(name for name, _ in self._config.headers)]
        handlers: list[urllib.request.BaseHandler] = [Redirects(f"{self._config.prefix}url", secret)]
        if context is not None:
            handlers.append(urllib.request.HTTPSHandler(context=context))
        return urllib.request.build_opener(*handlers)

    def _ssl_context(self) -> ssl.SSLContext:
        """Return the context that https is spoken with, made once.

        Raises:
            RegistryError: the configs cannot be used.
        """
        if self._context is None:
            from odradek.security.ssl_configs import TlsConfigError
            from odradek.security.ssl_contexts import client_context

            try:
                self._context = client_context(dict(self._config.ssl))
            except TlsConfigError as problem:
                raise RegistryError(f"{self._config.prefix}{problem}") from problem
        return self._context

    def _remedy(self, address: str, answered: str) -> str:
        """Return what to do about a refused login, by who was asked and who has answered."""
        from odradek.serdes.redirects import origin_of

        prefix = self._config.prefix
        if origin_of(address) != origin_of(answered):
            return (
                f". {origin_of(answered)} has answered, to which it redirects, and which is not shown the "
                f"password: if it may see it, name it in {prefix}url"
            )
        if self._config.bearer_token:
            return f". Check {prefix}bearer.auth.token"
        return f". Check {prefix}basic.auth.user.info (user:password)"

    def _told_of_tls(self, failed: OSError) -> str | None:
        """Return what a failed handshake may be due to; None for anything else that has failed."""
        import ssl

        # A refusal of our certificate may come with the first read (TLS 1.3): its own `reason` is a word.
        cause = failed if isinstance(failed, ssl.SSLError) else getattr(failed, "reason", failed)
        if not isinstance(cause, ssl.SSLError):
            return None
        from odradek.security.explain import explain

        return f"TLS failed: {explain(cause)}. Certificates are configs too: {self._config.prefix}ssl.…"


def _message(refused: urllib.error.HTTPError) -> tuple[str, int | None]:
    try:
        answer = json.loads(refused.read(65_536))
        return f"{answer['message']} (error_code {answer['error_code']})", int(answer["error_code"])
    except (OSError, ValueError, KeyError, TypeError):
        return str(refused.reason), None


def _split_user(url: str, user_info: str) -> tuple[str, str]:
    """Return an address without the user that may be in it, and that user."""
    parts = urlsplit(url.rstrip("/"))
    inside, _, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=host)), user_info or unquote(inside)
