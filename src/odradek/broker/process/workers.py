"""`odradek server --workers N`: one machine's cores as N brokers of one cluster.

This process serves the metadata store and keeps the brokers running, each a process of its own with its own
port and folders. Signals: SIGTERM, SIGINT and SIGHUP stop all of them in good order; SIGUSR1 restarts one
after the other, each when the one before is ready again.

In each data folder there is a folder `workers`, and in that one folder for each worker, by its number; the
store is in the first. Beside a single broker's data nothing is begun.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from odradek.broker.config.broker_config import STANDALONE_DEFAULTS, BrokerConfig
from odradek.broker.folders.store_file import STORE_FILE
from odradek.broker.process.service_manager import ServiceManager
from odradek.broker.process.signals import StoppedWhileStarting, StopSignals
from odradek.broker.process.supervisor import RestartLimits, Supervisor, WorkerCommand
from odradek.cluster.configs.config_def import ConfigError
from odradek.cluster.nodes import Endpoint
from odradek.cluster.store.embedded import EmbeddedStore
from odradek.cluster.store.store import StoreError
from odradek.cluster.store.store_server import StoreServer
from odradek.util.clock import SystemClock
from odradek.util.own_python import module_command
from odradek.util.stack_dumps import tell_of

logger = logging.getLogger(__name__)

WORKERS = "workers"
"""The folder in a data folder that has the workers'. No partition is called so: it has no number."""

SOCKET = "store.sock"
_SOCKET_PATH_BYTES_MAX = 100
"""The kernel takes 104 to 108, depending on the system."""

_DEFAULTS: Mapping[str, str] = {
    **STANDALONE_DEFAULTS,
    # Copies on the same machine are for who asks for them.
    "default.replication.factor": "1",
    # A stop of all at once leaves some without anybody to lead after them: they need not rest 5 s before
    # they ask again. Between two restarts a worker has as long to catch up as three tries of Kafka's give.
    "controlled.shutdown.retry.backoff.ms": "500",
    "controlled.shutdown.max.retries": "30",
    # What a restart has moved to one worker would be led by it alone for five minutes.
    "leader.imbalance.check.interval.seconds": "10",
}
"""For what is not given."""

_NOT_SHARED = ("zookeeper.connect", "odradek.store.socket")
"""Metadata that is elsewhere."""

_IDENTITY = "meta.properties"


class WorkerOptions(NamedTuple):
    """The options that workers are given besides their own.

    Attributes:
        config: all configs, as a single broker would have them.
        config_file: the `server.properties` that they read, too.
        settings: what `--set` says.
        arguments: further options of `odradek server`, such as `--log-format`.
        request_log, authorizer_log: one per worker, with its number behind the name.
    """

    config: BrokerConfig
    config_file: Path | None = None
    settings: Mapping[str, str] = {}
    arguments: tuple[str, ...] = ()
    request_log: Path | None = None
    authorizer_log: Path | None = None


def check_workers(config: BrokerConfig, count: int) -> None:
    """Check that so many workers can have these configs.

    Raises:
        ConfigError: ports or broker ids do not suffice, the metadata is to be elsewhere, or a data folder is
            a single broker's.
    """
    for name in _NOT_SHARED:
        if config.get(name):
            raise ConfigError(
                f"{name}: workers have a metadata store of their own. Leave it out, or start each broker by "
                "itself, without --workers"
            )
    if config.broker_id < 0:
        raise ConfigError("broker.id: the workers' ids count from it, so it has to be 0 or more")
    for endpoint in (*config.listener_endpoints, *config.advertised_endpoints):
        if endpoint.port and endpoint.port + count - 1 > 65535:
            raise ConfigError(
                f"{endpoint.connection_string}: {count} workers take as many ports from there on, and 65535 "
                "is the last"
            )
    ports = [endpoint.port for endpoint in config.listener_endpoints if endpoint.port]
    if any(0 < other - port < count for port in ports for other in ports):
        raise ConfigError(f"listeners: their ports must be {count} apart, as {count} workers count from each")
    for folder in config.data_dirs:
        if (folder / _IDENTITY).exists():
            raise ConfigError(
                f"{folder} is the data folder of a broker that is alone. Give the workers another; "
                "its topics do not move by themselves"
            )


def worker_command(options: WorkerOptions, number: int, store: Path) -> WorkerCommand:
    """Return what starts a worker.

    Args:
        options: what all are given.
        number: which one it is, from 0.
        store: the socket of the metadata store.
    """

    def command(address: str | None) -> Sequence[str]:
        line = module_command("odradek", "server", "--worker", str(number), *options.arguments)
        if options.config_file is not None:
            line += ["--config", str(options.config_file)]
        if options.request_log is not None:
            line += ["--request-log", f"{options.request_log}.{number}"]
        if options.authorizer_log is not None:
            line += ["--authorizer-log", f"{options.authorizer_log}.{number}"]
        for name, text in worker_settings(options, number, store, address).items():
            line += ["--set", f"{name}={text}"]
        return line

    return command


def worker_settings(
    options: WorkerOptions, number: int, store: Path, address: str | None = None
) -> dict[str, str]:
    """Return the configs of a worker that do not stand in its file.

    `address` is where it was ready before: a free port that it was given is its own from then on.
    """
    config = options.config
    # What was placed by `--host` and `--port` is in the configs, and given anew.
    own = dict(options.settings)
    for name in ("host.name", "port", "advertised.host.name", "advertised.port"):
        own.pop(name, None)
    own["broker.id"] = str(config.broker_id + number)
    if config.is_given("node.id"):
        own["node.id"] = own["broker.id"]
    listeners = [_moved(endpoint, number) for endpoint in config.listener_endpoints]
    if address is not None and listeners[0].port == 0:
        listeners[0] = listeners[0]._replace(port=int(address.rpartition(":")[2]))
    own["listeners"] = _joined(listeners)
    if config.is_given("advertised.listeners") or tuple(config.advertised_endpoints) != tuple(
        config.listener_endpoints
    ):
        own["advertised.listeners"] = _joined(
            [_moved(endpoint, number) for endpoint in config.advertised_endpoints]
        )
    own["log.dirs"] = ",".join(str(folder / WORKERS / str(number)) for folder in config.data_dirs)
    own["odradek.store.socket"] = str(store)
    if config.odradek_metrics_port > 0:
        own["odradek.metrics.port"] = str(config.odradek_metrics_port + number)
    if not config.is_given("broker.rack"):
        own["broker.rack"] = socket.gethostname()
    for name, text in _DEFAULTS.items():
        if not config.is_given(name):
            own.setdefault(name, text)
    return own


def _moved(endpoint: Endpoint, number: int) -> Endpoint:
    return endpoint._replace(port=endpoint.port + number) if endpoint.port else endpoint


def _joined(endpoints: Sequence[Endpoint]) -> str:
    return ",".join(endpoint.connection_string for endpoint in endpoints)


def warn_of_others(config: BrokerConfig, count: int) -> None:
    """Say which workers there have been before and are not now: what only they have cannot be read."""
    numbers: set[int] = set()
    for folder in config.data_dirs:
        numbers.update(
            int(identity.parent.name)
            for identity in (folder / WORKERS).glob(f"*/{_IDENTITY}")
            if identity.parent.name.isdecimal() and int(identity.parent.name) >= count
        )
    if numbers:
        logger.warning("workers of before are not started numbers=%s", ",".join(map(str, sorted(numbers))))


def check_single(config: BrokerConfig) -> None:
    """Check that no data folder of a broker that is to be alone is the workers'.

    Raises:
        ConfigError: one is.
    """
    for folder in config.data_dirs:
        if (folder / WORKERS / STORE_FILE).exists():
            raise ConfigError(
                f"{folder} is the data folder of workers. Give --workers as before, or another folder; their "
                "topics do not move by themselves"
            )


class SharedStore:
    """The store of the workers, and the socket at which they find it.

    Args:
        data_dir: the first data folder; it is made if it is missing.

    Raises:
        StoreError: the store is in use by others or damaged, or cannot be served.
        OSError: the folder cannot be made.
    """

    def __init__(self, data_dir: Path) -> None:
        folder = data_dir.absolute() / WORKERS
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        self.path = folder / SOCKET
        self._temporary: str | None = None
        self._store = EmbeddedStore(folder / STORE_FILE)
        try:
            if len(str(self.path).encode()) > _SOCKET_PATH_BYTES_MAX:
                self._temporary = tempfile.mkdtemp(prefix="odradek-")
                self.path = Path(self._temporary) / SOCKET
            self._server = StoreServer(self._store, self.path)
            self._server.start()
        except BaseException:
            self._let_go()
            raise

    def close(self) -> None:
        """End all sessions and close the store."""
        self._server.stop()
        self._let_go()

    def _let_go(self) -> None:
        self._store.close()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)


def run_workers(
    options: WorkerOptions,
    count: int,
    *,
    on_ready: Callable[[str], None],
    command: Callable[[WorkerOptions, int, Path], WorkerCommand] = worker_command,
    limits: RestartLimits | None = None,
    service: ServiceManager | None = None,
) -> int:
    """Run the workers until a signal.

    Args:
        options: what they are given.
        count: how many.
        on_ready: told `HOST:PORT,...` once all of them are ready.
        command: makes what starts one.
        limits: when one that has died is started again.
        service: told when all of them are ready, that this process runs, and that they stop.

    Returns:
        The exit code: 0 after a stop in good order, 1 when they could not start or could not go on (the
        reason is on standard error).
    """
    signals = StopSignals()
    signals.interrupt_the_start()
    store = None
    try:
        check_workers(options.config, count)
        store = SharedStore(options.config.data_dirs[0])
        warn_of_others(options.config, count)
        commands = [command(options, number, store.path) for number in range(count)]
        failure = asyncio.run(_supervise(commands, signals, on_ready, limits, service or ServiceManager()))
    except StoppedWhileStarting:
        logger.info("stopped while it was starting")
        return 0
    except (ConfigError, StoreError) as error:
        failure = f"{error}"
    except OSError as error:
        failure = f"{error.filename or 'a file or folder'} cannot be used: {error.strerror or error}"
    finally:
        if store is not None:
            store.close()
        signals.let_go()
    if failure is None:
        return 0
    print(f"odradek server: {failure}", file=sys.stderr)  # noqa: T201 - the one message for a person
    return 1


async def _supervise(
    commands: Sequence[WorkerCommand],
    signals: StopSignals,
    on_ready: Callable[[str], None],
    limits: RestartLimits | None,
    service: ServiceManager,
) -> str | None:
    def stop() -> None:
        service.stopping()
        supervisor.stop()

    def tell_ready(addresses: str) -> None:
        on_ready(addresses)
        service.ready(addresses)

    supervisor = Supervisor(commands, clock=SystemClock(), limits=limits)
    loop = asyncio.get_running_loop()
    tell_of(loop)
    loop.add_signal_handler(signal.SIGUSR1, supervisor.restart_one_by_one)
    signals.call(loop, stop)
    service.watch(loop)
    return await supervisor.run(tell_ready)
