"""`odradek wire record` and `odradek wire play`: their event loops, and what they print."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path

import click

from odradek.testing.transcripts.addresses import Address
from odradek.testing.transcripts.frames import open_transcript, read_transcript
from odradek.testing.transcripts.masking import KINDS, Mask
from odradek.testing.transcripts.player import Player
from odradek.testing.transcripts.recorder import Recorder
from odradek.testing.transcripts.script import Departure, Script
from odradek.util.hosts import host_and_port

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def record(port: int, host: str, bootstrap_servers: str, output: Path, kinds: str) -> None:
    """Record until a signal comes.

    Args:
        port, host: where to listen.
        bootstrap_servers: as clients are given them.
        output: the transcript's file.
        kinds: what to hide.

    Raises:
        click.BadParameter: an address or a kind that is none.
        UnreachableError: no broker can be reached.
        OSError: the port is taken, or the file cannot be written.
    """
    brokers, mask = _addresses(bootstrap_servers), Mask(_kinds(kinds))
    logging.basicConfig(level="WARNING", format="%(levelname)s: %(message)s")

    async def run() -> None:
        with open_transcript(output, "w") as file:
            recorder = Recorder(brokers, file, mask, host=host, port=port)
            try:
                _say_ready(await recorder.start())
                await _first(_signalled(), recorder.failure)
            finally:
                await recorder.close()

    asyncio.run(run())


def play(transcript: Path, port: int, host: str, *, loosely: bool) -> bool:
    """Play until all was asked for and the clients have gone, or a signal comes.

    Args:
        transcript: its file.
        port, host: where to listen.
        loosely: requests are told by API and version alone.

    Returns:
        Whether a client has departed from it.

    Raises:
        TranscriptError: the file is no transcript.
        OSError: the port is taken.
    """
    script = Script(read_transcript(transcript), loosely=loosely)
    logging.basicConfig(level="WARNING", format="%(levelname)s: %(message)s")

    async def run() -> None:
        player = Player(script, _say_departure, host=host, port=port)
        try:
            _say_ready(await player.start())
            await _first(_signalled(), player.is_over.wait())
        finally:
            await player.close()

    asyncio.run(run())
    told, departures = len(script.departures), script.end()
    for departure in departures[told:]:
        _say_departure(departure)
    click.echo(f"departures {len(departures)}")
    return bool(departures)


def _say_ready(address: Address) -> None:
    click.echo(f"ready {host_and_port(*address)}")


def _say_departure(departure: Departure) -> None:
    click.echo(f"departure {departure}")


def _addresses(bootstrap_servers: str) -> list[Address]:
    places = []
    for text in bootstrap_servers.split(","):
        host, _, port = text.strip().rpartition(":")
        if not host or not (port.isascii() and port.isdigit() and int(port) < 65536):
            raise click.BadParameter(f"{text!r} is not HOST:PORT", param_hint="--bootstrap-server")
        places.append(Address(host.removeprefix("[").removesuffix("]"), int(port)))
    return places


def _kinds(text: str) -> frozenset[str]:
    words = frozenset(filter(None, (word.strip() for word in text.split(","))))
    kinds = frozenset(KINDS) if "all" in words else words
    if unknown := sorted(kinds - set(KINDS)):
        raise click.BadParameter(f"{unknown[0]!r} is none of {', '.join(KINDS)}, all", param_hint="--mask")
    return kinds


async def _signalled() -> None:
    loop, came = asyncio.get_running_loop(), asyncio.Event()

    def note(*_: object) -> None:
        # Not by the loop, which gives the signals back when it is closed: the end is still to be told then.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(came.set)

    for number in _SIGNALS:
        signal.signal(number, note)
    await came.wait()


async def _first(*waits: Awaitable[object]) -> None:
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    ended, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in others:
        task.cancel()
    for task in ended:
        task.result()
