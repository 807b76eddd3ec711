"""Apicurio's schema registry, which has Confluent's REST interface too, from Maven Central."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from interop.kafka_peer import CACHE, building
from ports import free_port
from waiting import WITHIN_S

VERSION = "3.3.3"
_JAVA = 21
_START_S = 120


def java() -> str | None:
    """A Java that is new enough, or None."""
    homes = [Path(os.environ["JAVA_HOME"])] if "JAVA_HOME" in os.environ else []
    found = [str(home / "bin" / "java") for home in [*homes, *Path("/usr/lib/jvm").glob("*")]]
    for program in [shutil.which("java"), *found]:
        if program is None or not Path(program).exists():
            continue
        told = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=500).stderr
        version = re.search(r'version "(\d+)', told)
        if version is not None and int(version[1]) >= _JAVA:
            return program
    return None


def missing() -> str | None:
    """Why it cannot run on this machine, or None when it can."""
    if shutil.which("mvn") is None:
        return "not on this machine: mvn"
    return None if java() else f"not on this machine: Java {_JAVA} or newer, which Apicurio needs"


def _unpacked() -> Path:
    home = CACHE / f"apicurio-{VERSION}"
    with building("apicurio"):
        if (home / "complete").exists():
            return home
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        artifact = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
        words = ["dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={home}"]
        done = subprocess.run(
            ["mvn", "-q", "-B", *words], cwd=home, capture_output=True, text=True, timeout=500
        )
        archives = list(home.glob("*.tar.gz"))
        if done.returncode or not archives:
            raise RuntimeError(f"Maven could not get {artifact}:\n{done.stdout[-2000:]}")
        # Not `tarfile`: its filters came with Python 3.11.4, and later ones warn without.
        subprocess.run(["tar", "-xzf", str(archives[0]), "-C", str(home)], check=True, timeout=120)
        archives[0].unlink()
        (home / "complete").touch()
    return home


@contextlib.contextmanager
def running(folder: Path) -> Iterator[str]:
    """A registry with nothing in it: its address. Its log goes into the folder."""
    program = java()
    assert program is not None
    port = free_port()
    url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
    where = {"QUARKUS_HTTP_HOST": "127.0.0.1", "QUARKUS_HTTP_PORT": str(port)}
    words = [program, "-Xmx512m", "-jar", str(_unpacked() / "quarkus-run.jar")]
    with (folder / "apicurio.log").open("wb") as log:
        child = subprocess.Popen(words, cwd=folder, stdout=log, stderr=log, env={**os.environ, **where})
    try:
        until = time.monotonic() + _START_S
        while not _answers(url):
            if child.poll() is not None or time.monotonic() > until:
                raise RuntimeError(
                    f"Apicurio: {(folder / 'apicurio.log').read_text(encoding='utf-8')[-3000:]}"
                )
            time.sleep(0.2)
        yield url
    finally:
        child.kill()
        child.wait(WITHIN_S)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/subjects", timeout=5) as answer:
            return int(answer.status) == 200
    except OSError:
        return False
