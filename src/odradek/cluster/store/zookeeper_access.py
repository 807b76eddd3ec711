"""Access to ZooKeeper: the connect string, credentials, and who may do what with a node.

Both are Kafka's: `zookeeper.connect` and `zookeeper.set.acl`.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Protocol

from odradek.cluster import paths
from odradek.cluster.store.store import BadArguments, check_path

SENSITIVE_PATHS = ("/config/users", "/config/brokers", "/delegation_token/tokens", paths.SCRAM_DECOYS)
"""What holds credentials: with ACLs, only the brokers may read nodes whose path begins so."""

_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:\[\]]+)(:\d{1,5})?")

WORLD_ALL = ((31, "world", "anyone"),)
CREATOR_ALL = (31, "auth", "")
WORLD_READ = (1, "world", "anyone")

Acl = tuple[tuple[int, str, str], ...]
"""Permissions (bits: 1 read, 2 write, 4 create, 8 delete, 16 admin), scheme and id, for each who has any."""


class DigestAuth(NamedTuple):
    """The `digest` scheme: who knows the password is the user. Nothing refuses a wrong one, but the nodes'
    ACLs do then.

    Attributes:
        username: without a colon.
        password: as it is; ZooKeeper keeps its hash in the ACLs.
    """

    username: str
    password: str


class StoreExchange(Protocol):
    """A login on one connection, such as `odradek.sasl.gssapi.GssapiClient`.

    Attributes:
        is_complete: whether the server has been shown everything.
    """

    is_complete: bool

    def evaluate(self, challenge: bytes) -> bytes | None:
        """Take the server's message, empty at first; returns the next of ours.

        Raises:
            Exception: whatever is wrong with the exchange.
        """
        ...


class StoreLogin(Protocol):
    """Begins logins, such as `odradek.sasl.gssapi.GssapiLogin`."""

    def start(self, host: str) -> StoreExchange:
        """Return a new exchange with the server that the connect string calls so."""
        ...


class SaslAuth(NamedTuple):
    """SASL, by the `pure-sasl` package.

    Attributes:
        username: for DIGEST-MD5.
        password: for DIGEST-MD5.
        login: in their place, who logs in, by whatever mechanism.
    """

    username: str = ""
    password: str = ""
    login: StoreLogin | None = None


Auth = DigestAuth | SaslAuth


class ConnectString(NamedTuple):
    """`zookeeper.connect`, taken apart.

    Attributes:
        servers: `host:port`, separated by commas.
        chroot: the node under which all others are; empty for the root.
    """

    servers: str
    chroot: str

    @staticmethod
    def parse(text: str) -> ConnectString:
        """Read `h1:2181,h2:2181/chroot`; a server without a port has 2181.

        Raises:
            BadArguments: no server, a port that is no number, or no path after the servers.
        """
        servers, slash, rest = text.strip().partition("/")
        chroot = slash + rest.rstrip("/")
        named = [server.strip() for server in servers.split(",")]
        for server in named:
            if not _SERVER.fullmatch(server):
                raise BadArguments(
                    text, f"zookeeper.connect={text!r}: {server!r} is no host:port; give host:port,…/chroot"
                )
        if chroot == "/":
            chroot = ""
        if chroot:
            check_path(chroot)
        return ConnectString(",".join(named), chroot)


def acl_of(path: str, secure: bool) -> Acl:
    """The ACL that Kafka gives a node it creates (`ZkData.defaultAcls`).

    Args:
        path: the node, without chroot.
        secure: is `zookeeper.set.acl` true?

    Returns:
        With `secure` all for the creator and, except for what holds credentials, reading for the world;
        without it, and for `/consumers`, under which old consumers write, all for the world.
    """
    if not secure or path == paths.CONSUMERS:
        return WORLD_ALL
    if path.startswith(SENSITIVE_PATHS):
        return (CREATOR_ALL,)
    return (CREATOR_ALL, WORLD_READ)
