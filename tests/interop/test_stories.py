"""The stories of docs/testing/java.md and go.md: the blocks of a page are one program of tests."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path

import pytest

from docs.stories import FOLDER, STORIES, blocks_of
from interop import kafka_peer, programs

pytestmark = pytest.mark.interop

NEWEST_CLIENTS = "4.4.0"
JAVA = (
    ("org.apache.kafka", "kafka-clients", NEWEST_CLIENTS),
    ("org.junit.platform", "junit-platform-console-standalone", "1.11.4"),
    ("com.fasterxml.jackson.core", "jackson-databind", "2.21.7"),
    *programs.LOGGING,
)
JUNIT = (
    "org.junit.platform.console.ConsoleLauncher",
    "execute",
    "--disable-banner",
    "--details=tree",
    "--select-class=OrdersTest",
)


def run(program: programs.Program) -> str:
    """Run the tests of a page; return what they told. The commands of our environment are in its path."""
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    return programs.Program(program.words, {"PATH": path}).printed()


def _codes(page: Path, language: str) -> list[str]:
    return [block.code for block in blocks_of(page, language)]


def test_the_stories_of_java() -> None:
    if why := kafka_peer.missing_toolchain():
        pytest.skip(f"Java's client: {why}")
    mock, test, *methods = _codes(FOLDER / "java.md", "java")
    head, end, _ = test.rpartition("}")
    sources = {"Mock.java": mock, "OrdersTest.java": "\n".join([head, *methods, end])}
    told = run(programs.java_classes(f"stories-{NEWEST_CLIENTS}", JAVA, sources, *JUNIT))
    assert f"{len(STORIES) + 1} tests successful" in told  # one of them is told twice


def test_the_stories_of_go() -> None:
    if shutil.which("go") is None:
        pytest.skip("not on this machine: go")
    mock, *stories = _codes(FOLDER / "go.md", "go")
    sources = {"mock_test.go": mock, "orders_test.go": "\n".join(stories)}
    told = run(programs.Program((*programs.go_tests("stories", sources).words, "-test.v")))
    assert told.count("\n--- PASS: ") + told.startswith("--- PASS: ") == len(STORIES), told
