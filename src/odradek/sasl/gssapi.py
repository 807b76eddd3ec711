"""GSSAPI (RFC 4752): Kerberos tickets, through the library python-gssapi and the system's Kerberos.

The two sides exchange tokens until each trusts the other; then the broker offers what should become of the
bytes that follow, wrapped, and the client chooses. As in Kafka nothing becomes of them: TLS is what encrypts.

The broker has a key of its own, `kafka/<host>@REALM`, in a key table; the client a ticket, of its own key
table or of a cache that `kinit` fills.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from odradek.sasl.mechanisms import GSSAPI, ClientMechanism, SaslError, ServerMechanism
from odradek.util.extras import install

NO_LAYER = 1
"""The bit for bytes as they are; two others stand for integrity and secrecy."""

_LAYERS_AND_SIZE = 4
_PRINCIPAL = re.compile(r"(?P<first>[^/@]+)(?:/(?P<second>[^/@]+))?@(?P<realm>[^/@]+)")
_RULE = re.compile(
    r"RULE:\[(?P<parts>[12]):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<from>[^/]*)/(?P<to>[^/]*)/(?P<all>g?))?(?:/(?P<case>[LU]))?"
)


def import_gssapi() -> Any:
    """The library.

    Raises:
        SaslError: it is missing.
    """
    try:
        import gssapi
    except (ImportError, OSError) as error:
        raise SaslError(f"GSSAPI needs python-gssapi and Kerberos: {install('kerberos')}") from error
    return gssapi


class PrincipalRules:
    """Makes user names of Kerberos principals (`sasl.kerberos.principal.to.local.rules`).

    Args:
        rules: `DEFAULT`, which takes the first part of a principal of the own realm, and
            `RULE:[n:format](pattern)s/from/to/g/L`. The first that fits counts.
        realm: the own one.

    Raises:
        SaslError: a rule that is none.
    """

    def __init__(self, rules: Sequence[str], realm: str) -> None:
        self._realm = realm
        self._rules: list[re.Match[str] | None] = []
        for text in rules:
            rule = None if text.strip() == "DEFAULT" else _RULE.fullmatch(text.strip())
            if rule is None and text.strip() != "DEFAULT":
                raise SaslError(f"sasl.kerberos.principal.to.local.rules: {text} is no rule")
            self._rules.append(rule)

    def user_of(self, principal: str) -> str:
        """The name of a user.

        Raises:
            SaslError: no rule fits.
        """
        match = _PRINCIPAL.fullmatch(principal)
        if match is None:
            raise SaslError("the Kerberos principal has an unexpected form")
        for rule in self._rules:
            name = self._default(match) if rule is None else _apply(rule, match)
            if name:
                return name
        raise SaslError("no rule of sasl.kerberos.principal.to.local.rules fits the Kerberos principal")

    def _default(self, principal: re.Match[str]) -> str:
        return principal["first"] if principal["realm"] == self._realm else ""


def _apply(rule: re.Match[str], principal: re.Match[str]) -> str:
    parts = [principal["realm"], principal["first"], principal["second"] or ""]
    if int(rule["parts"]) != (2 if principal["second"] else 1):
        return ""
    name = re.sub(r"\$([0-2])", lambda reference: parts[int(reference[1])], rule["format"])
    if rule["match"] is not None and re.fullmatch(rule["match"], name) is None:
        return ""
    if rule["from"] is not None:
        name = re.sub(rule["from"], rule["to"].replace("$", "\\"), name, count=0 if rule["all"] else 1)
    if rule["case"]:
        name = name.lower() if rule["case"] == "L" else name.upper()
    return name


class GssapiServer(ServerMechanism):
    """The broker's half.

    Args:
        credentials: python-gssapi's, to accept with.
        rules: make a user's name of the client's principal.
    """

    name = GSSAPI
    blocks = True

    def __init__(self, credentials: Any, rules: PrincipalRules) -> None:
        super().__init__()
        self._gssapi = import_gssapi()
        self._context = self._gssapi.SecurityContext(creds=credentials, usage="accept")
        self._rules = rules
        self._has_offered = False

    def evaluate(self, response: bytes) -> bytes:
        """See `ServerMechanism.evaluate`."""
        if self.is_complete:
            raise SaslError("a message behind the end of the exchange")
        try:
            return self._evaluate(response)
        except self._gssapi.exceptions.GSSError as error:
            # Its text is the library's, and names no key.
            raise SaslError(f"Kerberos: {error}") from None

    def _evaluate(self, response: bytes) -> bytes:
        context = self._context
        if not context.complete:
            answer = context.step(response)
            if not context.complete or answer:
                return answer or b""
            response = b""
        if not self._has_offered:
            self._has_offered = True
            return bytes(context.wrap(bytes([NO_LAYER, 0, 0, 0]), False).message)
        chosen = bytes(context.unwrap(response).message)
        if len(chosen) < _LAYERS_AND_SIZE or chosen[0] != NO_LAYER:
            raise SaslError("the client has chosen a security layer that was not offered")
        # An authorization id may follow, and changes nothing, as at Kafka's: whose ticket it is, that is the
        # user. Python's clients send the name of the broker's service there, not one of their own.
        self.user = self._rules.user_of(str(context.initiator_name))
        self.is_complete = True
        return b""


class GssapiClient(ClientMechanism):
    """The client's half.

    Args:
        service: the broker's, `sasl.kerberos.service.name`.
        host: the broker's, by the name that its key has.
        credentials: gives python-gssapi's; None for the ticket of the cache. May wait.
    """

    name = GSSAPI

    def __init__(self, service: str, host: str, credentials: Callable[[], Any] = lambda: None) -> None:
        super().__init__()
        # Tickets are fetched from a server of Kerberos's.
        self.blocks = True
        self._gssapi = gssapi = import_gssapi()
        self._target = gssapi.Name(f"{service}@{host}", gssapi.NameType.hostbased_service)
        self._credentials = credentials
        self._context: Any = None

    def evaluate(self, challenge: bytes) -> bytes | None:
        """See `ClientMechanism.evaluate`."""
        gssapi = self._gssapi
        try:
            if self._context is None:
                flags = gssapi.RequirementFlag.mutual_authentication | gssapi.RequirementFlag.integrity
                self._context = gssapi.SecurityContext(
                    name=self._target, creds=self._credentials(), flags=flags, usage="initiate"
                )
                return bytes(self._context.step() or b"")
            if not self._context.complete:
                return bytes(self._context.step(challenge) or b"")
            offered = bytes(self._context.unwrap(challenge).message)
            if len(offered) != _LAYERS_AND_SIZE or not offered[0] & NO_LAYER:
                raise SaslError("the broker offers no exchange without a security layer")
            user = str(self._context.initiator_name).encode()
            self.is_complete = True
            return bytes(self._context.wrap(bytes([NO_LAYER, 0, 0, 0]) + user, False).message)
        except gssapi.exceptions.GSSError as error:
            raise SaslError(f"Kerberos: {error}") from None


class GssapiLogin:
    """Logs in by Kerberos.

    Args:
        service: of the brokers, `sasl.kerberos.service.name`.
        principal, keytab: whose key; None for the ticket of the cache.

    Raises:
        SaslError: the library is missing.
    """

    mechanism = GSSAPI

    def __init__(self, service: str, principal: str | None = None, keytab: str | None = None) -> None:
        import_gssapi()
        self._service = service
        self._principal = principal
        self._keytab = keytab

    def start(self, host: str) -> ClientMechanism:
        """See `Login.start`."""
        return GssapiClient(self._service, host, self._credentials)

    def _credentials(self) -> Any:
        """Return what to log in with; asks the server of Kerberos where the cache has no ticket."""
        if self._keytab is None:
            return None
        gssapi = import_gssapi()
        name = None
        if self._principal:
            name = gssapi.Name(self._principal, gssapi.NameType.kerberos_principal)
        # A cache of this process's own: that of the user is left alone.
        store = {"client_keytab": self._keytab, "ccache": f"MEMORY:odradek-{self._principal}"}
        return gssapi.Credentials(name=name, usage="initiate", store=store)


def accepting_credentials(principal: str, keytab: str) -> Any:
    """A broker's credentials.

    Raises:
        SaslError: the key table has no such key, or the library is missing.
    """
    gssapi = import_gssapi()
    try:
        name = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
        return gssapi.Credentials(name=name, usage="accept", store={"keytab": keytab})
    except gssapi.exceptions.GSSError as error:
        raise SaslError(f"the key of {principal} cannot be used: {error}") from None
