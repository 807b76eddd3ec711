"""`odradek wire` on real bytes, good and bad."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from odradek.cli.main import main
from odradek.wire.check import read_golden

from .golden import GOLDEN

PRODUCE = GOLDEN / "wire" / "000_Produce.jsonl.gz"


def run(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(main, ["wire", *arguments], input=stdin)


def golden(name: str, **wanted: object) -> dict[str, object]:
    path = next((GOLDEN / "wire").rglob(f"*{name}.jsonl.gz"))
    return next(line for line in read_golden(path) if wanted.items() <= line.items())


@pytest.mark.parametrize("key", ["0", "Produce", "produce"])
def test_decode_prints_kafkas_json(key: str) -> None:
    line = golden("000_Produce", version=7, kind="request", case="full")
    done = run("decode", "--key", key, "--version", "7", "--kind", "request", stdin=str(line["hex"]))
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == line["json"]


def test_encode_prints_kafkas_bytes() -> None:
    line = golden("001_Fetch", version=17, kind="response", case="full")
    done = run(
        "encode", "--key", "Fetch", "--version", "17", "--kind", "response", stdin=json.dumps(line["json"])
    )
    assert done.stdout.strip() == line["hex"]


def test_hex_may_be_spaced() -> None:
    done = run("decode", "--key", "SaslHandshake", "--version", "1", stdin="0x00:05 50 4c\n 41:49:4e\n")
    assert json.loads(done.stdout) == {"mechanism": "PLAIN"}


def test_headers_go_both_ways() -> None:
    transcript = list(read_golden(GOLDEN / "transcripts" / "4.4.0.jsonl.gz"))
    for direction in ("request", "response"):
        line = next(row for row in transcript if row["dir"] == direction and row["key"] == 3)
        options = ["--key", "3", "--version", str(line["version"]), "--kind", direction, "--with-header"]
        document = run("decode", *options, stdin=line["hex"]).stdout
        assert json.loads(document)["header"]["correlationId"] == line["correlation"]
        assert run("encode", *options, stdin=document).stdout.strip() == line["hex"]


def test_a_request_with_its_header_names_itself() -> None:
    line = next(read_golden(GOLDEN / "transcripts" / "2.2.2.jsonl.gz"))
    done = run("decode", "--with-header", stdin=line["hex"])
    assert json.loads(done.stdout)["header"]["requestApiKey"] == line["key"]


def test_data_with_and_without_its_prefix() -> None:
    line = golden("TransactionLogValue", version=1, case="full")
    bare = ["--kind", "data", "--name", "TransactionLogValue"]
    assert json.loads(run("decode", *bare, "--version", "1", stdin=str(line["hex"])).stdout) == line["json"]
    stored = str(line["prefix"]) + str(line["hex"])
    assert json.loads(run("decode", *bare, "--with-header", stdin=stored).stdout) == line["json"]
    again = run("encode", *bare, "--with-header", "--version", "1", stdin=json.dumps(line["json"]))
    assert again.stdout.strip() == stored


def test_unknown_tags_are_told_beside_the_json() -> None:
    line = golden("000_Produce", version=9, kind="request", case="unknown-tags")
    done = run("decode", "--key", "0", "--version", "9", stdin=str(line["hex"]))
    assert json.loads(done.stdout) == line["json"]
    assert done.stderr.count("unknown tagged field") == len(line["unknown_tags"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "complaint"),
    [
        (["decode", "--key", "0", "--version", "7"], "00", 1, "ProduceRequest v7"),
        (["decode", "--key", "0", "--version", "7"], "xx", 1, "not hex"),
        (["decode", "--key", "0", "--version", "70"], "", 1, "no version 70 (known: 0 to 13)"),
        (["decode", "--key", "52"], "", 1, "no API key '52'"),
        (["decode", "--key", "Vote"], "", 1, "no API key 'Vote'"),
        (["decode"], "", 1, "needs --key"),
        (["decode", "--with-header"], "0034 0000 00000000", 1, "API key 52 is not known"),
        (["decode", "--with-header"], "0000 0070 00000000 ffff 00", 1, "names version 112"),
        (["decode", "--with-header"], "00", 1, "too short"),
        (["decode", "--kind", "data"], "", 1, "needs --name"),
        (["decode", "--kind", "data", "--name", "Nonsense"], "", 1, "no schema is called Nonsense"),
        (["encode", "--key", "17"], "{", 1, "not JSON"),
        (["encode", "--key", "17"], "[]", 1, "an object is expected"),
        (["encode", "--key", "17"], "{}", 1, "mechanism missing"),
        (["encode", "--key", "17"], '{"mechanism": 1}', 1, "not of type string"),
        (["encode", "--key", "17"], '{"mechanism": "", "x": 1}', 1, "has no x"),
        (["encode", "--key", "17"], '{"mechanism": null}', 1, "may not be null"),
    ],
)
def test_bad_input_gets_a_clear_error(arguments: list[str], stdin: str, code: int, complaint: str) -> None:
    done = run(*arguments, stdin=stdin)
    assert done.exit_code == code, done.output
    assert complaint in done.stderr
    assert "Traceback" not in done.output


def test_check_counts() -> None:
    done = run("check", str(PRODUCE), str(GOLDEN / "wire" / "headers.jsonl.gz"))
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "000_Produce.jsonl.gz: 376 messages, 0 differ",
        "headers.jsonl.gz: 62 messages, 0 differ",
        "2 files: 438 messages, 0 differ",
    ]


def test_check_shows_differences_and_fails(tmp_path: Path) -> None:
    lines = list(read_golden(PRODUCE))[:20]
    lines[3]["json"]["acks"] += 1
    lines[9]["hex"] += "00"
    path = tmp_path / "damaged.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    done = run("check", str(path))
    assert done.exit_code == 1
    assert "damaged.jsonl: 20 messages, 2 differ" in done.stdout
    assert "line 4, Produce request" in done.stdout
    assert "line 10, Produce request" in done.stdout
    assert "left over" in done.stdout


@pytest.mark.parametrize(
    "content",
    [
        b"not json",
        b'{"name": "Produce"}',
        b'{"key": 52, "name": "Vote", "kind": "request", "version": 0, "hex": ""}',
    ],
)
def test_check_of_something_else(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_bytes(content)
    done = run("check", str(path))
    assert done.exit_code == 1
    assert "line" in done.stderr
    assert "not a golden file" in done.stderr


def test_check_of_a_cut_off_gzip(tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"a": 1}\n' * 100)[:-12])
    assert "not a golden file" in run("check", str(path)).stderr


def test_list_shows_every_key() -> None:
    assert len(run("list").stdout.splitlines()) == 81
