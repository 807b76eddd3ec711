"""The demo's broker: `odradek server` in a process of its own, on a free port."""

import contextlib
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

_SECONDS_TO_START = 60
_SECONDS_TO_STOP = 30


class ServerError(RuntimeError):
    """The broker did not start, or ended; the message has the end of its log."""


class Server:
    """A broker with its data in `folder`, ready when the constructor returns.

    It is in a session of its own: Ctrl-C in the terminal reaches the demo alone, which stops it properly.

    Attributes:
        address: `host:port`.
        request_log: the file to which the broker adds a JSON line for each request.

    Raises:
        ServerError: the broker does not get ready.
    """

    def __init__(self, folder: Path) -> None:
        self.request_log = folder / "requests.jsonl"
        self._log_path = folder / "broker.log"
        command = [sys.executable, "-m", "odradek", "server", "--data", str(folder / "broker"), "--port", "0"]
        command += ["--request-log", str(self.request_log), "--set", "num.partitions=2"]
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self.address = self._wait_until_ready()

    def check(self) -> None:
        """Check that the broker is still there.

        Raises:
            ServerError: it has ended.
        """
        if self._process.poll() is not None:
            raise ServerError(
                f"the broker ended (exit code {self._process.returncode}); {self._last_words()}"
            )

    def stop(self) -> None:
        """Stop in good order; after half a minute, less so."""
        self._process.terminate()
        try:
            self._process.wait(_SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _wait_until_ready(self) -> str:
        assert self._process.stdout is not None
        timer = threading.Timer(_SECONDS_TO_START, self._process.kill)
        timer.start()
        try:
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        word, _, address = line.strip().partition(" ")
        if word != "ready":
            self.stop()
            raise ServerError(f"the broker did not start; {self._last_words()}")
        self._drain(self._process.stdout)
        return address

    def _drain(self, output: IO[str]) -> None:
        """Read on, so that the broker never waits for a full pipe."""

        def read() -> None:
            with contextlib.suppress(ValueError):
                for _ in output:
                    pass

        threading.Thread(target=read, name="broker output", daemon=True).start()

    def _last_words(self) -> str:
        lines = self._log_path.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
        return "\n".join([f"the end of {self._log_path}:", *lines])
