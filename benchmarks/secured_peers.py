"""Our broker and Kafka, each with a plain listener and one over TLS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.peers import KAFKA, OURS, Kafka, Odradek, SkippedError, in_memory, kafka_peer
from odradek.testing.certificates import CertificateAuthority

CONTENDERS = (OURS, KAFKA)
PASSWORD = "changeit"


class Stores:
    """A broker's key, and its authority, as files."""

    def __init__(self, folder: Path) -> None:
        # RSA of 2048 bits, as most certificates have it.
        authority = CertificateAuthority(rsa_bits=2048)
        issued = authority.issue("broker", hosts=["127.0.0.1"])
        self.ca = authority.write_trust_store(folder / "ca.pem")
        self.key_store = issued.write_pkcs12(folder / "broker.p12", PASSWORD)

    def configs(self) -> dict[str, str]:
        """Return what a broker is configured with."""
        return {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(self.key_store),
            "ssl.keystore.password": PASSWORD,
            "ssl.key.password": PASSWORD,
            "ssl.enabled.protocols": "TLSv1.3",
        }


class SecuredOdradek(Odradek):
    """This checkout, with a second listener."""

    stores: Stores
    secured_port = 0
    secured: dict[str, str]

    def settings(self) -> dict[str, str]:
        plain = f"PLAINTEXT://127.0.0.1:{self.port}"
        return {**super().settings(), **self.secured, "listeners": f"{plain},{self.secured['listeners']}"}


class SecuredKafka(Kafka):
    """Apache Kafka, with a second listener."""

    stores: Stores
    secured_port = 0
    secured: dict[str, str]

    def settings(self) -> dict[str, str]:
        return {**super().settings(), **self.secured}


Secured = SecuredOdradek | SecuredKafka


@contextmanager
def running_secured(
    protocol: str, say: Callable[[str], None], configs: dict[str, str] | None = None
) -> Iterator[dict[str, Secured]]:
    """Start both; who cannot run is told to `say`, and is not among what is given.

    Args:
        protocol: of the second listener, `SSL` or `SASL_SSL`.
        configs: further ones, for its logins.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="bench-", dir=in_memory())))
        stores = Stores(folder)
        peers: dict[str, Secured] = {}
        for who, kind in ((OURS, SecuredOdradek), (KAFKA, SecuredKafka)):
            directory = folder / who.replace(" ", "-")
            directory.mkdir()
            peer: Secured = kind(who, directory)
            peer.stores = stores
            peer.secured_port = kafka_peer.free_ports(1)[0]
            listener = f"{protocol}://127.0.0.1:{peer.secured_port}"
            peer.secured = {**stores.configs(), **(configs or {}), "listeners": listener}
            stack.callback(peer.stop)
            try:
                peer.start()
            except SkippedError as why:
                say(f"{who}: {why}")
                continue
            peers[who] = peer
        yield peers
