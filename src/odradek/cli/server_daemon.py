"""`odradek server -daemon`, as Kafka's start script has it: the broker goes on when its shell has gone."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from odradek.util.own_python import module_command, module_environment

FLAGS = ("-daemon", "--daemon")
#: The name that Kafka's script gives to what the process prints.
OUTPUT = "kafkaServer.out"
_FOLDER_VARIABLE = "LOG_DIR"
_FOLDER = "logs"


def output_path(environment: Mapping[str, str]) -> Path:
    """Return the file that a detached broker prints to: in $LOG_DIR, or in `logs` of the working folder."""
    return Path(environment.get(_FOLDER_VARIABLE) or _FOLDER) / OUTPUT


def start(words: Iterable[str]) -> int:
    """Start `odradek server` in a session of its own and return its process id at once.

    As under `nohup`, the hang-up of a terminal does not reach it. What it prints is appended to
    `output_path`: Kafka's script begins that file anew, but its log proper is elsewhere.

    Args:
        words: those of the command line behind `server`.

    Raises:
        OSError: the file cannot be written.
    """
    path = output_path(os.environ)
    path.parent.mkdir(parents=True, exist_ok=True)
    command = module_command("odradek", "server", *(word for word in words if word not in FLAGS))
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the child inherits it
    try:
        with path.open("ab") as output:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=module_environment(),
                start_new_session=True,
            )
    finally:
        signal.signal(signal.SIGHUP, before)
    # It is to outlive this process: Python is not to warn that nobody waits for it.
    child.returncode = 0
    return child.pid
