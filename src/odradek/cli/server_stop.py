"""`odradek server-stop`: kafka-server-stop, SIGTERM for the brokers of this machine."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path

import click

from odradek.cli.storage import folders_of
from odradek.cli.tool import Tool, read_properties
from odradek.errors import OdradekError


@click.command(cls=Tool, name="server-stop")
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Stop the broker that uses this data folder, and no other.",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False),
    help="Stop the broker of this server.properties, and no other.",
)
def command(data: Path | None, config_file: str | None) -> None:
    """Stop brokers in good order: all of this user, as Kafka's script does, or the one of a data folder."""
    if data is not None and config_file is not None:
        raise click.UsageError("--data and --config name the same thing: give one of them")
    folders = folders_of(read_properties(config_file)) if config_file else [] if data is None else [data]
    running = {pid for folder in folders if (pid := user_of(folder)) is not None}
    if not folders:
        running = set(server_processes(_processes(), os.getpid()))
    if not running:
        raise OdradekError("No kafka server to stop")
    for pid in sorted(running):
        os.kill(pid, signal.SIGTERM)


def user_of(folder: Path) -> int | None:
    """Return the id of the process that uses a data folder; None while there is none."""
    from odradek.log.storage.file_names import LOCK
    from odradek.log.storage.files import LockHeldError
    from odradek.log.storage.real_files import RealFileSystem

    if not (folder / LOCK).exists():
        return None
    try:
        RealFileSystem().lock(folder / LOCK).release()
    except LockHeldError as held:
        if held.holder_pid is None:
            raise OdradekError(f"{folder} is in use, and the system does not tell by whom") from held
        return held.holder_pid
    return None


def _processes() -> list[str]:
    """The processes of this user, a line each: process id, and the words of its command."""
    command = ["ps", "-U", str(os.getuid()), "-o", "pid=,args=", "-ww"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.splitlines()


def server_processes(processes: Iterable[str], own_pid: int) -> Iterable[int]:
    """Find the processes that were started as `odradek server`; their workers end with them.

    Args:
        processes: `PID WORDS…` each, as `ps` prints them.
        own_pid: the process that asks.
    """
    for line in processes:
        number, _, text = line.strip().partition(" ")
        try:
            words = shlex.split(text)
        except ValueError:  # an unpaired quotation mark: no command line of ours
            continue
        if number.isdecimal() and int(number) != own_pid and _is_server(words):
            yield int(number)


def _is_server(words: list[str]) -> bool:
    names = [Path(word).name for word in words]
    if names[:1] and names[0].startswith("python"):
        # `python odradek server`, `python -m odradek server`, as `-daemon` starts it with -P.
        names = [name for name in names[1:] if name not in ("-P", "-m")]
    return names[:2] == ["odradek", "server"] and "--worker" not in words
