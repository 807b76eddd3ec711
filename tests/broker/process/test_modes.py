"""The modes of what a broker makes, where nothing but itself keeps others out (umask 000)."""

from __future__ import annotations

import logging
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from odradek import Admin, NewTopic, Producer
from odradek.broker.process.logging import _AuditFile
from odradek.broker.process.workers import SharedStore
from odradek.testing.security import Security
from odradek.util.repeats import forget
from waiting import WITHIN_S

COMMAND = [sys.executable, "-m", "odradek", "server"]
CREDENTIALS = ("metadata.sqlite", "store.sock", "kafka-authorizer.log")
"""What the names begin with of files in which passwords, tokens or who asked what may stand."""


def _modes(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): stat.S_IMODE(path.lstat().st_mode) for path in folder.rglob("*")}


def _check(folder: Path) -> dict[str, int]:
    modes = _modes(folder)
    assert {name: oct(mode) for name, mode in modes.items() if mode & stat.S_IRWXO} == {}
    held = {name: mode for name, mode in modes.items() if Path(name).name.startswith(CREDENTIALS)}
    assert {name: oct(mode) for name, mode in held.items() if mode & stat.S_IRWXG} == {}
    return held


def test_nothing_is_for_others_and_what_holds_credentials_for_the_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "data"
    security = Security(
        users={"alice": "alice-secret"},
        mechanisms=("PLAIN", "SCRAM-SHA-256"),
        super_users=("User:alice",),
        configs={"delegation.token.secret.key": "token-secret", "password.encoder.secret": "encoder-secret"},
    )
    words = ["--data", str(folder), "--authorizer-log", str(tmp_path / "kafka-authorizer.log")]
    words += ["--request-log", str(tmp_path / "requests.log")]
    for name, value in security.broker_configs(0).items():
        words += ["--set", f"{name}={value}"]
    process = subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, text=True, umask=0)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        configs = {**security.client_configs("alice"), "bootstrap.servers": address}
        with Admin(configs) as admin:
            admin.create_topics([NewTopic("clicks", 2, 1)])
            admin.alter_user_scram_credentials({("bob", "SCRAM-SHA-256"): "bob-secret"})
            admin.create_delegation_token()
        with Producer(configs) as producer:
            producer.send("clicks", b"home").result(60)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate(timeout=WITHIN_S)
    held = _check(tmp_path)
    assert {"made/data/metadata.sqlite", "kafka-authorizer.log"} <= set(held)
    assert (tmp_path / "made/data/clicks-0").is_dir()


def test_the_folder_of_workers_and_their_socket(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = SharedStore(tmp_path / "data")
        try:
            assert stat.S_ISSOCK(store.path.stat().st_mode)
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(store.path))
            assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
            assert stat.S_IMODE((tmp_path / "data" / "workers").stat().st_mode) == 0o700
            held = {
                name: mode
                for name, mode in _modes(tmp_path).items()
                if Path(name).name.startswith(CREDENTIALS)
            }
            assert held
            assert {name: oct(mode) for name, mode in held.items() if mode & 0o077} == {}
        finally:
            store.close()
    finally:
        os.umask(before)


def test_the_audit_log_is_the_owners_after_it_was_moved_away_too(tmp_path: Path) -> None:
    path, moved = tmp_path / "kafka-authorizer.log", tmp_path / "kafka-authorizer.log.1"
    before = os.umask(0)
    try:
        handler = _AuditFile(path)
        for number in range(2):
            handler.emit(logging.makeLogRecord({"msg": f"line {number}"}))
            if number == 0:
                path.rename(moved)
        handler.close()
    finally:
        os.umask(before)
    assert (moved.read_text(encoding="utf-8"), path.read_text(encoding="utf-8")) == ("line 0\n", "line 1\n")
    assert {oct(mode) for mode in _modes(tmp_path).values()} == {"0o600"}


def test_an_audit_log_that_cannot_be_made_again_is_told_of_and_fails_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    forget()
    # What other tests have counted is told by that.
    caplog.clear()
    folder, moved = tmp_path / "logs", tmp_path / "moved"
    folder.mkdir()
    handler = _AuditFile(folder / "kafka-authorizer.log")
    lines = [logging.makeLogRecord({"msg": f"line {number}"}) for number in range(4)]
    handler.emit(lines[0])
    folder.rename(moved)
    handler.emit(lines[1])
    handler.emit(lines[2])
    assert [record.getMessage().partition(": ")[0] for record in caplog.records] == [
        f"no line in {folder}/kafka-authorizer.log"
    ]
    folder.mkdir()
    handler.emit(lines[3])
    handler.close()
    assert (moved / "kafka-authorizer.log").read_text(encoding="utf-8") == "line 0\n"
    assert (folder / "kafka-authorizer.log").read_text(encoding="utf-8") == "line 3\n"
