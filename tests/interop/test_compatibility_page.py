"""The page of what clients did, and the tap that sees what they asked."""

from __future__ import annotations

import struct
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest

from interop import compatibility, programs
from interop.tap import OURS, Requests

pytestmark = pytest.mark.interop


def _request(key: int, version: int, client: str | None = "c", rest: bytes = b"") -> bytes:
    name = b"" if client is None else client.encode()
    body = struct.pack(">hhih", key, version, 7, -1 if client is None else len(name)) + name + rest
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize("step", [1, 3, 8, 1000])
def test_requests_are_noted_however_they_arrive(step: int) -> None:
    stream = _request(18, 3, "client", b"x" * 30) + _request(0, 7, None, b"y" * 100) + _request(3, 1)
    stream += _request(1, 17, OURS, b"z" * 50) + _request(10, 6, OURS) + _request(0, 2, OURS + "s")
    seen: list[tuple[int, int]] = []
    requests = Requests(lambda key, version: seen.append((key, version)))
    for at in range(0, len(stream), step):
        requests.feed(stream[at : at + step])
    assert seen == [(18, 3), (0, 7), (3, 1), (0, 2)]


def test_tests_of_one_release_share_a_row() -> None:
    one = compatibility.Row("Go", "sarama", "1.26.4", "Go", result="passed")
    one.does("produce", what="none gzip")
    one.asked({0: 3, 1: 4})
    two = compatibility.Row("Go", "sarama", "1.26.4", "Go", result="known to fail: a|b")
    two.does("produce", "admin")
    two.asked({1: 10, 77: 0})
    two.notes.append("Set this.")
    newer = compatibility.Row("Go", "sarama", "1.60.0", "Go", result="passed")
    old = compatibility.Row("Go", "sarama", "1.9.0", "Go", result="passed")
    rows = [compatibility.as_property(row)[1] for row in (newer, one, old, two)]
    merged = compatibility.merged(rows)
    assert [row.version for row in merged] == ["1.9.0", "1.26.4", "1.60.0"]
    assert merged[1].did == {"produce": "none gzip", "admin": "yes"}
    assert merged[1].requests == {"Produce": 3, "Fetch": 10, "ShareGroupDescribe": 0}
    page = compatibility.document([*rows, rows[-1]])
    assert page.count("- sarama 1.26.4: Set this.\n") == 1
    assert "| sarama | 1.26.4 | Go | none gzip |" in page
    assert "known to fail: a\\|b |" in page
    assert "| sarama | 1.26.4 | Produce 3, Fetch 10, ShareGroupDescribe 0 |" in page


def test_what_was_done_stands_once() -> None:
    row = compatibility.Row("Go", "sarama", "1.26.4", "Go")
    for what in ("yes", "commit, abort; fencing", "fencing", "yes", "with offsets; commit, abort"):
        row.does("transactions", what=what)
    assert row.did == {"transactions": "commit, abort; fencing; with offsets"}


def test_a_source_for_each_release() -> None:
    source = "a\n//#if < 2.0\nb\n//#if >= 1.1\nc\n//#end\n//#end\n  //#if >= 2.0\nd\n//#end\ne\n"

    def kept(version: str) -> str:
        return "".join(programs.for_release(source, version).split())

    assert [kept(version) for version in ("0.9.0.1", "1.1.0", "2.0.0", "4.4.0")] == [
        "abe", "abce", "ade", "ade",
    ]  # fmt: skip


def test_logins_stand_in_one_order() -> None:
    row = compatibility.Row("Go", "franz-go", "1.22.2", "Go modules", result="passed")
    for how in ("GSSAPI", "PLAIN", "OAUTHBEARER", "TLS", "PLAIN"):
        row.does("login", what=how)
    assert "| TLS; PLAIN; OAUTHBEARER; GSSAPI | – | passed |" in compatibility.document([asdict(row)])


def test_a_test_that_is_run_again_has_the_last_word(tmp_path: Path) -> None:
    path = tmp_path / "page.md"

    def run(**results: str) -> str:
        collector = compatibility.Collector(path)
        for name, result in results.items():
            row = compatibility.Row("Go", name, "1.0", "Go modules", result=result)
            report = SimpleNamespace(
                when="teardown", nodeid=f"t.py::{name}", user_properties=[compatibility.as_property(row)]
            )
            collector.pytest_runtest_logreport(report)
        collector.pytest_sessionfinish()
        return path.read_text(encoding="utf-8")

    assert run(one="failed", two="passed").count("| failed |") == 1
    again = run(one="passed")
    assert "| failed |" not in again and "| two | 1.0 |" in again
    run()  # tests that have told nothing
    assert path.read_text(encoding="utf-8") == again
