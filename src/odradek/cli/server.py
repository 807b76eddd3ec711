"""`odradek server`: run a broker.

Standard output carries one line, `ready HOST:PORT`, when the broker accepts connections; everything else is
logged on standard error. SIGTERM, SIGINT and SIGHUP stop it in good order, exit code 0. A start that fails
says why and what to do, exit code 1, and changes nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from odradek.cli.server_daemon import FLAGS, start
from odradek.util.stack_dumps import dumps_on_sigquit
from odradek.util.stale import OutdatedError

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.broker.process.service_manager import ServiceManager
    from odradek.sasl.scram_words import NewUser

_WORDS = "odradek.cli.server.words"


class _Server(click.Command):
    """The command, which keeps its words for a process that is to be started with them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, and note the words as they are."""
        ctx.meta[_WORDS] = tuple(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the broker, or start a process that does."""
        if not ctx.params.pop("as_daemon"):
            return super().invoke(ctx)
        try:
            start(ctx.meta[_WORDS])
        except OSError as error:
            _refuse(
                f"the log file cannot be written: {error} ($LOG_DIR names its folder). Nothing was started."
            )


@click.command("server", cls=_Server)
@click.argument(
    "file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="[FILE]"
)
@click.option(
    *FLAGS,
    "as_daemon",
    is_flag=True,
    help="Go on in the background; log to kafkaServer.out in $LOG_DIR, or in ./logs. `odradek server-stop` "
    "stops it.",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="The data folder, made if it is missing (log.dirs).",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Where to listen; 0 takes a free port. [default: 9092]"
)
@click.option(
    "--host",
    help="The address to listen on and to advertise; 0.0.0.0 listens on all, and advertises the machine's "
    "name or what advertised.listeners says. [default: 127.0.0.1]",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A server.properties of Kafka's; options given here win.",
)
@click.option(
    "--set",
    "--override",
    "settings",
    metavar="KEY=VALUE",
    multiple=True,
    help="A config by Kafka's name; repeatable.",
)
@click.option(
    "--kafka-version",
    metavar="X",
    help="Be that release of Kafka, 0.8.2 to the newest, such as 2.2: its APIs and versions, its defaults, "
    "its answers (odradek.kafka.version). 3.9-kraft for a broker with KRaft.",
)
@click.option(
    "--insecure",
    is_flag=True,
    help="Start although configs ask for security that there is not yet: everybody may do everything "
    "(odradek.insecure).",
)
@click.option(
    "--add-scram",
    "scram_words",
    metavar="MECHANISM=[name=…,password=…]",
    multiple=True,
    help="A user who can log in from the start, unless it is there already; repeatable. Other users of the "
    "machine see the command line: change the password when the broker runs.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    help="Serve metrics for Prometheus, /healthz and /readyz over HTTP; 0 takes a free port, which is logged "
    "(odradek.metrics.port).",
)
@click.option(
    "--metrics-host",
    help="The address of that port; everybody who reaches it may read (odradek.metrics.host). "
    "[default: 127.0.0.1]",
)
@click.option(
    "--console-port",
    type=click.IntRange(0, 65535),
    help="Run the web console beside the broker, in a process of its own; 0 takes a free port. Its lines, "
    "with the login, are on standard error.",
)
@click.option(
    "--console-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Client configs for that console: TLS, SASL.",
)
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False),
    default="info",
    show_default=True,
)
@click.option(
    "--request-log",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write one JSON line per request to this file.",
)
@click.option(
    "--authorizer-log",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the authorizer's audit log to this file, whole, instead of to standard error.",
)
@click.option(
    "--authorizer-log-level",
    type=click.Choice(["info", "debug", "trace"], case_sensitive=False),
    default="info",
    show_default=True,
    help="info: what was denied; debug: also what was granted; trace: every question.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 1000),
    default=1,
    metavar="N",
    help="Use more cores: run N brokers of one cluster, each a process with the next port and broker id and "
    "a folder of its own in the data folder. SIGUSR1 restarts one after the other.",
)
@click.option("--worker", type=int, hidden=True, help="Be this one of the workers that a process runs.")
@click.option(
    "--faults",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    hidden=True,
    help="Be a broker of `odradek.testing.ProcessCluster`, whose faults are in this folder.",
)
@dumps_on_sigquit()
def command(
    file: Path | None,
    data: Path | None,
    port: int | None,
    host: str | None,
    config_file: Path | None,
    settings: tuple[str, ...],
    kafka_version: str | None,
    insecure: bool,
    scram_words: tuple[str, ...],
    metrics_port: int | None,
    metrics_host: str | None,
    console_port: int | None,
    console_config: Path | None,
    log_format: str,
    log_level: str,
    request_log: Path | None,
    authorizer_log: Path | None,
    authorizer_log_level: str,
    workers: int,
    worker: int | None,
    faults: Path | None,
) -> None:
    """Run a broker.

    FILE is a server.properties, as Kafka's kafka-server-start takes it; --config names the same.
    """
    if file is not None and config_file is not None:
        raise click.UsageError("FILE and --config name the same thing: give one of them")
    config_file = file or config_file
    # Imported here, so that `odradek --help` does not pay for a broker.
    try:
        from odradek.broker.process.lifeline import hold
        from odradek.broker.process.logging import configure
        from odradek.broker.process.main import run
        from odradek.broker.process.modes import keep_others_out
        from odradek.broker.process.service_manager import ServiceManager
        from odradek.broker.process.signals import ignore
        from odradek.cluster.configs.config_def import ConfigError
    except OutdatedError as error:
        _refuse(f"{error}. Nothing was started.")

    keep_others_out()
    try:
        configure(
            log_format,
            log_level,
            worker=worker,
            authorizer_log=authorizer_log if workers == 1 else None,
            authorizer_level=authorizer_log_level,
        )
    except OSError as error:
        _refuse(f"the authorizer's log {authorizer_log} cannot be written: {error}. Nothing was started.")
    try:
        if kafka_version is not None:
            settings = (*settings, f"odradek.kafka.version={kafka_version}")
        if metrics_port is not None:
            settings = (*settings, f"odradek.metrics.port={metrics_port}")
        if metrics_host is not None:
            settings = (*settings, f"odradek.metrics.host={metrics_host}")
        if insecure:
            settings = (*settings, "odradek.insecure=true")
        config = _config(data, port, host, config_file, settings)
    except ConfigError as error:
        _refuse(str(error))
    users = _scram_users(scram_words, workers)
    service = ServiceManager(os.environ)
    consoles = ExitStack()
    on_ready: Callable[[str], None] = _say_ready
    if console_port is not None:
        on_ready = _with_console(consoles, console_port, console_config, config, workers)
    if worker is not None:
        hold()
    if workers > 1:
        logging = ["--log-format", log_format, "--log-level", log_level]
        logging += ["--authorizer-log-level", authorizer_log_level]
        options = (config, config_file, settings, tuple(logging))
        with consoles:
            code = _run_workers(workers, *options, request_log, authorizer_log, on_ready, service)
    else:
        _check_single(config)
        more = {} if faults is None else {"make": _controlled(faults)}
        with consoles:
            code = run(
                config, request_log=request_log, on_ready=on_ready, scram_users=users, service=service, **more
            )
    ignore()
    sys.exit(code)


def _controlled(faults: Path) -> Any:
    from odradek.testing.control.of_process import ControlledProcess

    return ControlledProcess(faults).make


def _scram_users(words: tuple[str, ...], workers: int) -> list[NewUser]:
    from odradek.sasl.scram_words import ScramWordError, read_user

    if words and workers > 1:
        _refuse("--add-scram is for a broker that is alone, not for --workers. Nothing was started.")
    try:
        return [read_user(text) for text in words]
    except ScramWordError as error:
        _refuse(f"--add-scram: {error}. Nothing was started.")


def _run_workers(
    count: int,
    config: BrokerConfig,
    config_file: Path | None,
    settings: tuple[str, ...],
    arguments: tuple[str, ...],
    request_log: Path | None,
    authorizer_log: Path | None,
    on_ready: Callable[[str], None],
    service: ServiceManager,
) -> int:
    from odradek.broker.process import workers

    options = workers.WorkerOptions(
        config, config_file, _settings(settings), arguments, request_log, authorizer_log
    )
    return workers.run_workers(options, count, on_ready=on_ready, service=service)


def _check_single(config: BrokerConfig) -> None:
    from odradek.broker.process.workers import check_single
    from odradek.cluster.configs.config_def import ConfigError

    try:
        check_single(config)
    except ConfigError as error:
        _refuse(f"{error}. Nothing was started.")


def _config(
    data: Path | None, port: int | None, host: str | None, config_file: Path | None, settings: tuple[str, ...]
) -> BrokerConfig:
    from odradek.broker.process.options import read_config, warn_of

    overrides = _settings(settings)
    if data is not None:
        overrides["log.dirs"] = str(data)
    config = read_config(config_file, overrides, host=host, port=port)
    if data is None and not (config.is_given("log.dirs") or config.is_given("log.dir")):
        raise click.UsageError("where to keep the data: give --data DIR, or log.dirs in --config or --set")
    warn_of(config)
    return config


def _settings(settings: tuple[str, ...]) -> dict[str, str]:
    values: dict[str, str] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f"--set {setting}: expected KEY=VALUE")
        values[name.strip()] = value.strip()
    return values


def _say_ready(address: str) -> None:
    try:
        print(f"ready {address}", flush=True)
    except OSError:
        # Whoever was to read the line has gone, or the disk behind it is full: no reason to stop, nor to fail
        # when Python flushes what is left at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _with_console(
    consoles: ExitStack, port: int, config_file: Path | None, config: BrokerConfig, workers: int
) -> Callable[[str], None]:
    """Return what the ready broker calls: it says so, and starts the console, which `consoles` ends."""
    from odradek.cli.console_process import ConsoleProcess

    host = config.odradek_metrics_host
    shown = "127.0.0.1" if host in ("", "0.0.0.0") else f"[{host}]" if ":" in host else host
    first = config.odradek_metrics_port
    # A port of 0 is known only to the broker's log.
    urls = [f"http://{shown}:{first + n}" for n in range(workers)] if first > 0 else []

    def on_ready(address: str) -> None:
        _say_ready(address)
        consoles.callback(ConsoleProcess(address, port, urls, config_file).close)

    return on_ready


def _refuse(message: str) -> NoReturn:
    print(f"odradek server: {message}", file=sys.stderr)
    sys.exit(1)
