"""The configs of a client of a schema registry: where it is, who asks, and how patiently. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class RegistryConfig:
    """The configs of one registry.

    Attributes:
        urls: tried one after the other; a user and a password may be in each.
        user_info: `user:password` of HTTP's basic authentication, or empty.
        bearer_token: of HTTP's bearer authentication, or empty.
        headers: (name, value) of others to be sent, to the registry alone.
        ssl: (name, value) of Kafka's `ssl.*` configs, for https.
        timeout_ms: how long one answer may take.
        max_retries: so many times a question is repeated that nobody has answered.
        retries_wait_ms: before the first repetition; it doubles with each.
        retries_max_wait_ms: the longest of these.
        cache_capacity: so many schemas are remembered.
        cache_latest_ttl_sec: how long serializers take the newest version of a subject for the newest; None:
            as long as they live.
        prefix: what stands before the names of configs where these come from.
    """

    urls: tuple[str, ...] = field(repr=False)
    user_info: str = field(default="", repr=False)
    bearer_token: str = field(default="", repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    ssl: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    timeout_ms: int = 10_000
    max_retries: int = 3
    retries_wait_ms: int = 200
    retries_max_wait_ms: int = 20_000
    cache_capacity: int = 1000
    cache_latest_ttl_sec: float | None = None
    prefix: str = field(default="", compare=False)
