"""`odradek` started by the hundred: forked from a process that has imported it already.

A broker's imports take ten times as long as its start on a small folder. What the fork does is what
`python -m odradek` does, in a process of its own, with its own arguments and standard output.

    python forking.py SOCKET      the process that is forked, which takes starts from that socket
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from typing import IO

_ARGUMENTS_BYTES = 1 << 16
_NUMBER = struct.Struct("=i")


class Forked:
    """A process that was forked, with the parts of `subprocess.Popen` that tests need.

    Attributes:
        pid: its number.
        stdout: what it prints.
        returncode: as `Popen`'s; None while it runs.
    """

    def __init__(self, pid: int, stdout: IO[str], ends: socket.socket) -> None:
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None
        self._ends = ends

    def poll(self) -> int | None:
        """The return code, or None while it runs."""
        return self._ended(0)

    def wait(self, timeout: float) -> int:
        """Wait for the end, for so many seconds; raises `subprocess.TimeoutExpired`."""
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("odradek", timeout)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def _ended(self, timeout: float) -> int | None:
        if self.returncode is None:
            self._ends.settimeout(timeout)
            try:
                told = self._ends.recv(_NUMBER.size)
            except (TimeoutError, BlockingIOError):
                return None
            self.returncode = os.waitstatus_to_exitcode(_NUMBER.unpack(told)[0])
            self._ends.close()
        return self.returncode


class _ForkServer:
    """The process that has imported `odradek`; started when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    def start(self, arguments: list[str], errors: IO[bytes]) -> Forked:
        with self._lock:
            if self._socket is None:
                self._socket = self._launch()
            ours, theirs = socket.socketpair()
            reading, writing = os.pipe()
            files = [theirs.fileno(), writing, errors.fileno()]
            # One at a time: a stream does not keep two messages with their files apart.
            socket.send_fds(self._socket, [json.dumps(arguments).encode()], files)
            (pid,) = _NUMBER.unpack(ours.recv(_NUMBER.size))
        theirs.close()
        os.close(writing)
        return Forked(pid, os.fdopen(reading, encoding="utf-8"), ours)

    def _launch(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        command = [sys.executable, __file__, str(theirs.fileno())]
        child = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        theirs.close()

        def end() -> None:
            ours.close()
            child.wait(30)

        atexit.register(end)
        return ours


_server = _ForkServer()


def start(arguments: list[str], errors: IO[bytes]) -> Forked:
    """Do what `python -m odradek` with these arguments does; standard error goes to a file."""
    return _server.start(arguments, errors)


def _preload() -> None:
    from odradek.broker.apis import registry
    from odradek.broker.process import main, warm_up

    handlers = [f"odradek.broker.handlers.{one.module}" for one in registry.SERVED.values()]
    for name in ("odradek.cli.main", "odradek.cli.server", *handlers, *warm_up.BESIDES_HANDLERS):
        importlib.import_module(name)
    main.loop_factory()
    gc.collect()
    gc.freeze()


def _serve(starts: socket.socket) -> list[str]:
    """Fork for each start that is asked for. Returns its arguments in the new process; ends in this one."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        words, files, _, _ = socket.recv_fds(starts, _ARGUMENTS_BYTES, 3)
        if not words:
            sys.exit(0)
        if os.fork() == 0:
            starts.close()
            return _keep(json.loads(words), *files)
        for file in files:
            os.close(file)


def _keep(arguments: list[str], ends: int, stdout: int, stderr: int) -> list[str]:
    """Fork once more: the one process tells how the other, which this returns in, has ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid:
        os.close(stdout)
        os.close(stderr)
        os.write(ends, _NUMBER.pack(pid))
        _, status = os.waitpid(pid, 0)
        os.write(ends, _NUMBER.pack(status))
        os._exit(0)
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    for file in (ends, stdout, stderr):
        os.close(file)
    return arguments


if __name__ == "__main__":
    _preload()
    sys.argv = ["odradek", *_serve(socket.socket(fileno=int(sys.argv[1])))]
    from odradek.cli.main import main

    main()
