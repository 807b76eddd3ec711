"""`odradek server --add-scram`: the first user of a broker whose only login is SCRAM."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from odradek import Admin
from odradek.client.errors import SaslAuthenticationError

SERVER = [sys.executable, "-m", "odradek", "server"]
CONFIGS = ["listeners=SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms=SCRAM-SHA-256"]


def log_in(servers: str, password: str) -> Admin:
    return Admin(
        bootstrap_servers=servers,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_plain_username="admin",
        sasl_plain_password=password,
    )


def run(data: Path, password: str) -> subprocess.Popen[str]:
    words = [*SERVER, "--data", str(data), "--add-scram", f"SCRAM-SHA-256=[name=admin,password={password}]"]
    for one in CONFIGS:
        words += ["--set", one]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def servers_of(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    line = child.stdout.readline()
    assert line.startswith("ready "), line
    return line.split()[1]


def test_the_first_user_is_there_from_the_start_and_keeps_a_changed_password(tmp_path: Path) -> None:
    with run(tmp_path, "first") as child:
        try:
            with log_in(servers_of(child), "first") as admin:
                admin.alter_user_scram_credentials({("admin", "SCRAM-SHA-256"): "second"})
        finally:
            child.terminate()
    assert child.returncode == 0
    with run(tmp_path, "first") as child:
        try:
            servers = servers_of(child)
            with log_in(servers, "second") as admin:
                admin.list_topics()
            with pytest.raises(SaslAuthenticationError), log_in(servers, "first") as admin:
                admin.list_topics()
        finally:
            child.terminate()
    assert child.returncode == 0


def test_several_brokers_do_not_take_it(tmp_path: Path) -> None:
    words = [*SERVER, "--data", str(tmp_path), "--workers", "2"]
    words += ["--add-scram", "SCRAM-SHA-256=[name=a,password=b]"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "--add-scram is for a broker that is alone" in done.stderr


def test_a_user_that_cannot_be_refuses_the_start(tmp_path: Path) -> None:
    words = [*SERVER, "--data", str(tmp_path), "--add-scram", "SCRAM-SHA-256=[name=a,pw=top-secret]"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "--add-scram" in done.stderr and "top-secret" not in done.stderr
