"""The choice of a client's quota: Kafka's eight levels, as data.

The first of these that has a quota decides, and clients for whom the same one decides may share it:

    level                                     the quota is shared by
    /config/users/<user>/clients/<client-id>  that user's connections with that client id
    /config/users/<user>/clients/<default>    the same: each client id of the user has its own
    /config/users/<user>                      all connections of the user
    /config/users/<default>/clients/<client>  each user's connections with that client id
    /config/users/<default>/clients/<default> each user's with each client id
    /config/users/<default>                   each user's
    /config/clients/<client-id>               all connections with that client id, whoever they are
    /config/clients/<default>                 those of each client id

A client that gives no id has no quota of client ids. Kafka: `ClientQuotaManager`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from odradek.cluster.paths import desanitize, sanitize

DEFAULT = None
"""In the place of a name: all that have no quota of their own."""

_USER, _ANY_USER, _NO_USER = "user", "default user", ""
_CLIENT, _ANY_CLIENT, _NO_CLIENT = "client", "default client", ""

LEVELS: tuple[tuple[str, str], ...] = (
    (_USER, _CLIENT),
    (_USER, _ANY_CLIENT),
    (_USER, _NO_CLIENT),
    (_ANY_USER, _CLIENT),
    (_ANY_USER, _ANY_CLIENT),
    (_ANY_USER, _NO_CLIENT),
    (_NO_USER, _CLIENT),
    (_NO_USER, _ANY_CLIENT),
)
"""The levels, the one that decides first first: what of the user and of the client id it names."""


class QuotaEntity(NamedTuple):
    """The user and client id that a quota is for.

    Attributes:
        has_user, has_client: whether it is of users, of client ids, or of both.
        user, client: which; None for all that have none of their own.
    """

    has_user: bool
    has_client: bool
    user: str | None = DEFAULT
    client: str | None = DEFAULT


class QuotaTags(NamedTuple):
    """Those who share a quota, as Kafka's metrics say it; "" where it does not count.

    Attributes:
        user: the user's sanitized name.
        client_id: the client id.
    """

    user: str
    client_id: str


class Quotas:
    """The quotas of one kind, by entity.

    Attributes:
        default: the bound of client ids that have none, as brokers before 3.0 have it; None for no bound.
    """

    def __init__(self, default: float | None = None) -> None:
        """
        Args:
            default: see the attributes.
        """
        self.default = default
        self._bounds: dict[QuotaEntity, float] = {}
        self._levels: tuple[tuple[str, str], ...] = ()
        self._only: tuple[bool, bool] | None = None
        """Whether users and client ids count, while all quotas are of one kind of entity."""

    def __bool__(self) -> bool:
        """Return whether any quota is set."""
        return bool(self._bounds) or self.default is not None

    def __len__(self) -> int:
        """Return the number of quotas."""
        return len(self._bounds)

    def items(self) -> Iterable[tuple[QuotaEntity, float]]:
        """Entities and bounds."""
        return self._bounds.items()

    def set(self, entity: QuotaEntity, bound: float | None) -> bool:
        """Give an entity a bound, None for no quota of its own; returns whether that is a change."""
        before = self._bounds.get(entity)
        if bound is None:
            self._bounds.pop(entity, None)
        else:
            self._bounds[entity] = bound
        kinds = {(bounded.has_user, bounded.has_client) for bounded in self._bounds}
        # Levels that nobody has a quota of are not looked at.
        self._levels = tuple(
            level for level in LEVELS if (level[0] != _NO_USER, level[1] != _NO_CLIENT) in kinds
        )
        self._only = next(iter(kinds)) if len(kinds) == 1 and self.default is None else None
        return before != bound

    def of(self, user: str, client_id: str) -> tuple[QuotaTags, float | None]:
        """Find who shares a client's quota, and what it is.

        Args:
            user: the name, without its type.
            client_id: "" for none.

        Returns:
            The tags, and the bound: None where nothing bounds the client.
        """
        for user_part, client_part in self._levels:
            entity = QuotaEntity(
                user_part != _NO_USER,
                client_part != _NO_CLIENT,
                user if user_part == _USER else DEFAULT,
                client_id if client_part == _CLIENT else DEFAULT,
            )
            bound = self._bounds.get(entity)
            if bound is not None:
                tags = _tags(user, client_id, entity.has_user, entity.has_client)
                return tags, bound if client_id or not entity.has_client else self._without_client_id(tags)
        has_user, has_client = self._only or (False, True)
        return _tags(user, client_id, has_user, has_client), self.default if client_id else None

    def _without_client_id(self, tags: QuotaTags) -> float | None:
        """The bound of who gives no client id, where a quota of client ids stands before any other: as in
        Kafka only a quota of users can be that, be it one of a later level."""
        if not tags.user:
            return None
        own = self._bounds.get(QuotaEntity(True, False, desanitize(tags.user)))
        return self._bounds.get(QuotaEntity(True, False)) if own is None else own


def _tags(user: str, client_id: str, has_user: bool, has_client: bool) -> QuotaTags:
    return QuotaTags(sanitize(user) if has_user else "", client_id if has_client else "")
