"""GSSAPI with a KDC of the test's own: every client at our broker, our clients at real Kafka."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from interop import kafka_peer, row_names
from interop.compatibility import Rows
from interop.conftest import OdradekServer
from interop.secured_programs import secured_program
from interop.test_sasl import spark_copies
from interop.test_spark_connector import CONNECTOR
from ports import free_port
from zookeeper_server import Unavailable, ZooKeeperServer, available

pytestmark = pytest.mark.interop

REALM = "ODRADEK.TEST"
BROKER = f"kafka/localhost@{REALM}"
ZOOKEEPER = f"zookeeper/localhost@{REALM}"
KAFKA = f"kafka/127.0.0.1@{REALM}"
"""Java's brokers here advertise an address."""

NEEDED = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
NO_PLUGIN = "No worthy mechs found"
"""What libsasl2 says of a mechanism that librdkafka was built for and the machine has no module of."""


@dataclass
class Kdc:
    """A KDC, its configs and a key table for each principal."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PATH": PATH,
            "KRB5_CONFIG": str(self.folder / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{self.folder / 'cache'}",
        }

    def run(self, *words: str, stdin: str = "") -> str:
        done = subprocess.run(
            words,
            input=stdin,
            capture_output=True,
            text=True,
            env=self.environment,
            timeout=kafka_peer.TOOL_LIMIT_S,
        )
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def keytab(self, name: str) -> str:
        return str(self.folder / f"{name}.keytab")

    def module(self, principal: str, name: str) -> str:
        """A login by key, as Java has it."""
        return (
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
            f'keyTab="{self.keytab(name)}" principal="{principal}";'
        )

    def client_configs(self) -> dict[str, str]:
        """How alice logs in with one of Java's clients, or ours."""
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "sasl.jaas.config": self.module(f"alice@{REALM}", "alice"),
        }

    @property
    def of_java(self) -> str:
        """What tells Java's virtual machine of it."""
        return f"-Djava.security.krb5.conf={self.folder / 'krb5.conf'}"

    def add(self, principal: str, name: str) -> None:
        self.run("kadmin.local", "-q", f"addprinc -randkey {principal}")
        self.run("kadmin.local", "-q", f"ktadd -k {self.keytab(name)} {principal}")


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    """A KDC on a free port."""
    pytest.importorskip("gssapi")
    if absent := [one for one in NEEDED if shutil.which(one, path=PATH) is None]:
        pytest.skip(f"not on this machine: {', '.join(absent)}")
    made = Kdc(tmp_path_factory.mktemp("kdc"))
    port = free_port()
    (made.folder / "krb5.conf").write_text(
        f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n"
        " dns_canonicalize_hostname = false\n rdns = false\n udp_preference_limit = 1\n"
        f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{port}\n }}\n",
        encoding="utf-8",
    )
    (made.folder / "kdc.conf").write_text(
        f"[kdcdefaults]\n kdc_ports = {port}\n kdc_tcp_ports = {port}\n"
        f"[realms]\n {REALM} = {{\n  database_name = {made.folder / 'principal'}\n"
        f"  key_stash_file = {made.folder / 'stash'}\n  acl_file = {made.folder / 'acl'}\n }}\n",
        encoding="utf-8",
    )
    made.run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
    made.add(BROKER, "broker")
    made.add(KAFKA, "kafka")
    made.add(ZOOKEEPER, "zookeeper")
    made.add(f"alice@{REALM}", "alice")
    with (made.folder / "kdc.log").open("w", encoding="utf-8") as log:
        child = subprocess.Popen(["krb5kdc", "-n"], env=made.environment, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 30
        while True:
            done = subprocess.run(
                ["kinit", "-k", "-t", made.keytab("alice"), f"alice@{REALM}"],
                env=made.environment,
                capture_output=True,
                text=True,
                timeout=30,
            )
            if done.returncode == 0:
                break
            assert time.monotonic() < deadline and child.poll() is None, done.stderr
            time.sleep(0.05)
        yield made
    finally:
        child.terminate()
        child.wait(30)


@contextmanager
def serving(kdc: Kdc, folder: Path, more: Mapping[str, str]) -> Iterator[OdradekServer]:
    """Our broker, which takes tickets."""
    port = free_port()
    configs = {
        "listeners": f"SASL_PLAINTEXT://localhost:{port}",
        "log.dirs": str(folder / "data"),
        "sasl.enabled.mechanisms": "GSSAPI",
        "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": kdc.module(BROKER, "broker"),
        "sasl.kerberos.service.name": "kafka",
        "connection.failed.authentication.delay.ms": "1",
        **more,
    }
    words = [word for name, value in configs.items() for word in ("--set", f"{name}={value}")]
    command = [sys.executable, "-m", "odradek", "server", *words]
    folder.mkdir(exist_ok=True)
    with (folder / "log").open("w", encoding="utf-8") as log:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=kdc.environment)
    assert child.stdout is not None
    try:
        line = child.stdout.readline()
        assert line.startswith("ready "), (folder / "log").read_text(encoding="utf-8")
        yield OdradekServer(folder, port=port)
    finally:
        child.terminate()
        child.wait(30)
        child.stdout.close()


@pytest.fixture(scope="module")
def kerberized(kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OdradekServer]:
    with serving(kdc, tmp_path_factory.mktemp("kerberized"), {}) as server:
        yield server


def at(server: OdradekServer) -> str:
    return f"localhost:{server.port}"


def run_ours(kdc: Kdc, *words: str) -> subprocess.CompletedProcess[str]:
    script = str(Path(__file__).with_name("kerberos_client.py"))
    return subprocess.run(
        [sys.executable, script, *words],
        env=kdc.environment,
        capture_output=True,
        text=True,
        timeout=kafka_peer.TOOL_LIMIT_S,
    )


def test_our_clients_log_in_by_key_and_by_ticket(kdc: Kdc, kerberized: OdradekServer) -> None:
    for number, key in enumerate([[f"alice@{REALM}", kdc.keytab("alice")], []]):
        done = run_ours(kdc, at(kerberized), f"ours-{number}", *key)
        assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr


def test_our_clients_without_a_key_are_told(kdc: Kdc, kerberized: OdradekServer) -> None:
    done = run_ours(kdc, at(kerberized), "never", f"nobody@{REALM}", kdc.keytab("alice"))
    assert done.returncode == 1 and "SaslAuthenticationError" in done.stderr and "Kerberos: " in done.stderr


@pytest.mark.usefixtures("kafka_toolchain")
@pytest.mark.parametrize("version", [kafka_peer.NEWEST, "2.2.2"])
def test_java_logs_in(
    version: str, kdc: Kdc, kerberized: OdradekServer, tmp_path: Path, compatibility_row: Rows
) -> None:
    row = compatibility_row(*row_names.java(version))
    configs = tmp_path / "client.properties"
    configs.write_text(
        "".join(f"{name}={value}\n" for name, value in kdc.client_configs().items()), encoding="utf-8"
    )

    def tool(name: str, *words: str, stdin: str = "") -> str:
        command = kafka_peer.tool_command(version, name, *words)
        done = subprocess.run(
            [command[0], kdc.of_java, *command[1:]],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=kafka_peer.TOOL_LIMIT_S,
        )
        assert done.returncode == 0, f"{done.stdout[-1000:]}{done.stderr[-3000:]}"
        return done.stdout

    new = kafka_peer.version_tuple(version) >= (4,)
    topic = ("--topic", f"java-{version}")
    tool(
        "console-producer",
        *("--bootstrap-server" if new else "--broker-list", at(kerberized), *topic),
        *("--command-config" if new else "--producer.config", str(configs)),
        stdin="hello\n",
    )
    read = tool(
        "console-consumer",
        *("--bootstrap-server", at(kerberized), *topic, "--from-beginning", "--max-messages", "1"),
        *("--command-config" if new else "--consumer.config", str(configs)),
    )
    assert read.split() == ["hello"]
    row.does("login", what="GSSAPI")


def test_librdkafka_logs_in(kdc: Kdc, kerberized: OdradekServer, compatibility_row: Rows) -> None:
    """Debian's, by kcat: the wheels of confluent-kafka are built without Kerberos."""
    kcat = shutil.which("kcat")
    if kcat is None:
        pytest.skip("not on this machine: kcat")
    features = subprocess.run(
        [kcat, "-V"], capture_output=True, text=True, timeout=kafka_peer.TOOL_LIMIT_S
    ).stdout
    if "gssapi" not in features:
        pytest.skip("kcat is built without sasl_gssapi")
    built = re.search(r"librdkafka (\d\S*)", features)
    row = compatibility_row("C", "librdkafka, by kcat", built[1] if built else "?", "Debian")
    options = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal": f"alice@{REALM}",
        "sasl.kerberos.keytab": kdc.keytab("alice"),
    }
    words = [word for name, value in options.items() for word in ("-X", f"{name}={value}")]
    common = ("-b", at(kerberized), "-t", "librdkafka", *words)
    asked = subprocess.run(
        [kcat, "-L", *common],
        capture_output=True,
        text=True,
        env=kdc.environment,
        timeout=kafka_peer.TOOL_LIMIT_S,
    )
    if NO_PLUGIN in asked.stderr:
        pytest.skip("libsasl2 has no plug-in for GSSAPI (Debian: libsasl2-modules-gssapi-mit)")
    kdc.run(kcat, "-P", *common, stdin="hello\n")
    assert kdc.run(kcat, "-C", *common, "-o", "beginning", "-c", "1", "-e", "-q").split() == ["hello"]
    row.does("produce", "consume")
    row.does("login", what="GSSAPI")


@pytest.mark.parametrize(("client", "module"), [("kafka-python", "kafka"), ("aiokafka", "aiokafka")])
def test_other_python_clients_log_in(
    client: str, module: str, kdc: Kdc, kerberized: OdradekServer, compatibility_row: Rows
) -> None:
    """By the ticket that `kinit` has got."""
    pytest.importorskip(module)
    row = compatibility_row(*row_names.python(client))
    script = str(Path(__file__).with_name("kerberos_python_client.py"))
    done = subprocess.run(
        [sys.executable, script, client, at(kerberized), client],
        env=kdc.environment,
        capture_output=True,
        text=True,
        timeout=kafka_peer.TOOL_LIMIT_S,
    )
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
    row.does("login", what="GSSAPI")


def test_franz_go_logs_in(kdc: Kdc, kerberized: OdradekServer, compatibility_row: Rows) -> None:
    row = compatibility_row(*row_names.SECURED["franzsecured"])
    login = ("--mechanism", "GSSAPI", "--user", "alice", "--password", kdc.keytab("alice"))
    program = secured_program("franzsecured")
    out = kdc.run(*program.words, *login, at(kerberized), "franz")
    assert json.loads(out) == "hello"
    row.does("login", what="GSSAPI")


@pytest.mark.spark
@pytest.mark.parametrize("source", ["kafka", "odradek"])
def test_spark_logs_in(source: str, kdc: Kdc, kerberized: OdradekServer, compatibility_row: Rows) -> None:
    """By Kafka's connector, which is Java's client, and by our data source, which is ours."""
    pyspark = pytest.importorskip("pyspark")
    if source == "kafka" and (why := kafka_peer.missing_toolchain()):
        pytest.skip(f"Spark's connector: {why}")
    login = {**kdc.client_configs(), "bootstrap.servers": at(kerberized)}
    environment = {**kdc.environment, "JAVA_TOOL_OPTIONS": kdc.of_java}
    assert spark_copies([login], source, environment=environment) == [list(range(20))]
    if source == "kafka":
        row = compatibility_row(*row_names.spark(pyspark.__version__, CONNECTOR[0][2]))
        row.does("login", what="GSSAPI")


@pytest.mark.usefixtures("kafka_toolchain")
@pytest.mark.parametrize("version", ["3.9.1", kafka_peer.NEWEST])
def test_our_clients_log_in_at_kafka(version: str, kdc: Kdc, tmp_path: Path) -> None:
    settings = {
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": kdc.module(KAFKA, "kafka"),
    }
    collector = (*kafka_peer.SMALL_COLLECTOR, kdc.of_java)
    with kafka_peer.RealKafka(version, tmp_path / "kafka", settings, collector, sasl=True) as kafka:
        servers = f"127.0.0.1:{kafka.sasl_port}"
        for number, key in enumerate([[f"alice@{REALM}", kdc.keytab("alice")], []]):
            done = run_ours(kdc, servers, f"ours-{number}", *key)
            assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
        done = run_ours(kdc, servers, "never", f"nobody@{REALM}", kdc.keytab("alice"))
        assert done.returncode == 1 and "SaslAuthenticationError" in done.stderr, done.stderr


def test_brokers_log_in_at_each_other(kdc: Kdc, tmp_path: Path) -> None:
    """A record is acknowledged by two replicas, of which one has fetched it as `kafka/localhost`."""
    zookeeper = available(tmp_path / "zookeeper")
    zookeeper.start()
    more = {
        "zookeeper.connect": zookeeper.address,
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "GSSAPI",
        "default.replication.factor": "2",
        "min.insync.replicas": "2",
        "offsets.topic.replication.factor": "2",
        "offsets.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
    try:
        with ExitStack() as stack:
            servers = [
                stack.enter_context(serving(kdc, tmp_path / f"{number}", {**more, "broker.id": f"{number}"}))
                for number in range(2)
            ]
            done = run_ours(kdc, ",".join(map(at, servers)), "both", f"alice@{REALM}", kdc.keytab("alice"))
            assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
    finally:
        zookeeper.kill()


# ---------------------------------------------------------------------------- at ZooKeeper


@pytest.fixture(scope="module")
def keeper(kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """A ZooKeeper that takes tickets."""
    pytest.importorskip("kazoo")
    folder = tmp_path_factory.mktemp("keeper")
    try:
        server = ZooKeeperServer(folder, sasl=kdc.module(ZOOKEEPER, "zookeeper"), options=[kdc.of_java])
    except Unavailable as why:
        pytest.skip(str(why))
    server.start()
    yield server
    server.kill()


def at_keeper(kdc: Kdc, keeper: ZooKeeperServer, folder: Path, client: str) -> dict[str, str]:
    """Configs of a broker that logs in at it by this module, or by the ticket of the cache without one."""
    configs = {
        "zookeeper.connect": f"localhost:{keeper.port}/{folder.name}",
        "zookeeper.set.acl": "true",
        "broker.id": "0",
        "offsets.topic.replication.factor": "1",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "GSSAPI",
    }
    if not client:
        return {**configs, "odradek.zookeeper.auth": "GSSAPI"}
    jaas = folder / "jaas.conf"
    jaas.write_text(f"Client {{\n  {client}\n}};\n", encoding="utf-8")
    return {**configs, "odradek.jaas.config.file": str(jaas)}


@pytest.mark.parametrize("by_key", [True, False])
def test_a_broker_logs_in_at_zookeeper(
    by_key: bool, kdc: Kdc, keeper: ZooKeeperServer, tmp_path: Path
) -> None:
    """And what it writes is its own: others may not read where credentials are."""
    from kazoo.client import KazooClient
    from kazoo.exceptions import NoAuthError

    client = kdc.module(BROKER, "broker") if by_key else ""
    owner = BROKER if by_key else f"alice@{REALM}"  # whose ticket the cache has
    configs = at_keeper(kdc, keeper, tmp_path, client)
    with serving(kdc, tmp_path / "broker", configs) as server:
        done = run_ours(kdc, at(server), "kept", f"alice@{REALM}", kdc.keytab("alice"))
        assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
        stranger = KazooClient(keeper.address)
        stranger.start(30)
        try:
            acls, _ = stranger.get_acls(f"/{tmp_path.name}/brokers/topics/kept")
            assert {(one.id.scheme, one.id.id) for one in acls if one.perms == 31} == {("sasl", owner)}
            with pytest.raises(NoAuthError):
                stranger.get_children(f"/{tmp_path.name}/config/users")
            with pytest.raises(NoAuthError):
                stranger.set(f"/{tmp_path.name}/brokers/topics/kept", b"")
        finally:
            stranger.stop()
            stranger.close()


def test_a_broker_logs_in_at_zookeeper_again_when_the_connection_is_back(
    kdc: Kdc, keeper: ZooKeeperServer, tmp_path: Path
) -> None:
    configs = at_keeper(kdc, keeper, tmp_path, kdc.module(BROKER, "broker"))
    with serving(kdc, tmp_path / "broker", configs) as server:
        keeper.kill()
        keeper.start()
        done = run_ours(kdc, at(server), "again", f"alice@{REALM}", kdc.keytab("alice"))
        assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr


def test_a_broker_without_a_key_that_fits_does_not_start(
    kdc: Kdc, keeper: ZooKeeperServer, tmp_path: Path
) -> None:
    configs = at_keeper(kdc, keeper, tmp_path, kdc.module(f"nobody@{REALM}", "broker"))
    told = pytest.raises(AssertionError, match="no login at ZooKeeper host=localhost: Kerberos: ")
    with told, serving(kdc, tmp_path / "broker", configs):
        pass
    log = (tmp_path / "broker" / "log").read_text(encoding="utf-8")
    assert "refuses the credentials" in log and "Traceback" not in log
