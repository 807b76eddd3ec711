"""`odradek mock`: a broker or a cluster for the tests of programs in any language, with a control port.

Standard output carries two lines, `control URL` and `ready HOST:PORT[,…]`, when it accepts connections;
everything else is logged on standard error. SIGTERM and Ctrl-C stop it; the exit code is 0, or 1 where a
fault was set that no request has met. The data is in a temporary folder and goes with it.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from contextlib import closing
from inspect import signature
from typing import TYPE_CHECKING, Any

import click

from odradek.cli.tool import Tool, key_values
from odradek.util.stack_dumps import dumps_on_sigquit

if TYPE_CHECKING:
    from odradek.testing import Broker, Cluster

_ALL_HOSTS = ("0.0.0.0", "::")


@click.command(cls=Tool, name="mock")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Where to listen; the brokers of a cluster have the next ports. [default: free ones]",
)
@click.option(
    "--control",
    "control_port",
    type=click.IntRange(0, 65535),
    default=0,
    help="The control port (HTTP with JSON). [default: a free one]",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on, with both. Whoever reaches the control port may do everything.",
)
@click.option(
    "--advertised-host",
    help="The host by which clients come (advertised.listeners). [default: --host; localhost where that is "
    "0.0.0.0]",
)
@click.option(
    "--brokers", type=click.IntRange(1, 100), default=1, show_default=True, help="So many, as one cluster."
)
@click.option("--kafka-version", metavar="X", help="Be that release of Kafka, as of `odradek server`.")
@click.option(
    "--set", "settings", metavar="KEY=VALUE", multiple=True, help="A config by Kafka's name; repeatable."
)
@click.option("--clock", is_flag=True, help="Its time stands until POST /clock/advance lets it pass.")
@click.option(
    "--unready", is_flag=True, help="Be as unready as a real Kafka: who asks early has to ask again."
)
@click.option(
    "--seed",
    type=int,
    help="Of how many answers, with --unready. [default: ODRADEK_UNREADY_SEED, or 0]",
)
@click.option(
    "--until-eof", is_flag=True, help="Stop when standard input ends, as with the program that started it."
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False),
    default="warning",
    show_default=True,
)
@dumps_on_sigquit()
def command(
    port: int,
    control_port: int,
    host: str,
    advertised_host: str | None,
    brokers: int,
    kafka_version: str | None,
    settings: tuple[str, ...],
    clock: bool,
    unready: bool,
    seed: int | None,
    until_eof: bool,
    log_level: str,
) -> None:
    """Run a broker for tests of other languages, told by HTTP to fail."""
    # Imported here, so that `odradek --help` does not pay for a broker.
    from odradek.testing import ManualClock
    from odradek.testing.control.control_server import ControlServer
    from odradek.testing.faults.set_fault import UnmetFaultError
    from odradek.testing.ports import lasting_port

    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if seed is not None and not unready:
        raise click.UsageError("--seed: it is for --unready")
    config: dict[str, Any] = {
        "host": host,
        # One that is given stays, also when POST /clean_up has been there.
        "port": port or (lasting_port() if brokers == 1 else 0),
        "kafka_version": kafka_version,
        "clock": ManualClock() if clock else None,
        "unready": unready,
        "seed": seed,
    }
    if advertised_host is None and host in _ALL_HOSTS:
        advertised_host = "localhost"
    if advertised_host is not None:
        config["advertised_listeners"] = f"PLAINTEXT://{advertised_host}:0"
    kit = _kit(brokers, config, key_values(settings, "--set"))
    try:
        with kit, closing(ControlServer(kit, host=host, port=control_port)) as control:
            click.echo(f"control {control.url}\nready {kit.bootstrap_servers}")
            _wait(until_eof)
    except UnmetFaultError as error:
        raise click.ClickException(str(error)) from None


def _kit(brokers: int, config: dict[str, Any], settings: dict[str, str]) -> Broker | Cluster:
    from odradek.testing import Broker, Cluster

    own = {*signature(Broker).parameters, *signature(Cluster).parameters}
    for name, value in settings.items():
        keyword = name.replace(".", "_")
        if keyword in own:
            raise click.UsageError(f"--set {name}: it is no config of a mock")
        config[keyword] = value
    try:
        return Broker(**config) if brokers == 1 else Cluster(brokers, **config)
    except TypeError as error:
        raise click.UsageError(f"--set: {error}") from None
    except ValueError as error:
        raise click.UsageError(f"{error}") from None


def _wait(until_eof: bool) -> None:
    finished = threading.Event()
    if until_eof:

        def read() -> None:
            while os.read(sys.stdin.fileno(), 4096):
                pass
            finished.set()

        threading.Thread(target=read, name="until-eof", daemon=True).start()
    try:
        finished.wait()
    except KeyboardInterrupt:
        # SIGTERM too comes as one (`ends_by_sigterm`).
        logging.getLogger(__name__).info("stopping")
