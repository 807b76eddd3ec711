"""`odradek dump-log` says what Kafka's own tool says of the same files."""

from __future__ import annotations

import json
import re
from base64 import b64decode

import pytest
from click.testing import CliRunner

from odradek.cli.dump_log import SUFFIXES, command
from odradek.records.builder import build_batch
from odradek.wire.schemas.share_group_state import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
)
from odradek.wire.schemas.share_groups import ShareGroupMetadataKey, ShareGroupMetadataValue
from odradek.wire.schemas.streams_groups import StreamsGroupMetadataKey

from .batches import batch
from .golden_folders import GoldenFolder, has_old_format

ARCHIVES = [
    "kafka-0.8.2.2-clean",
    "kafka-0.10.2.2-clean",
    "kafka-2.2.2-clean",
    "kafka-3.9.1-clean",
    "kafka-3.9.1-killed",
    "kafka-3.9.1-torn",
    "kafka-2.2.2-torn",
]


def dump(*args: str, code: int | None = 0) -> tuple[list[str], list[str]]:
    """Run the tool; the lines on standard output and on standard error."""
    result = CliRunner().invoke(command, args)
    if code is not None:
        assert result.exit_code == code, result.output
    return result.stdout.splitlines(), result.stderr.splitlines()


def sections(text: str) -> dict[str, list[str]]:
    """What Kafka's tool printed, by file."""
    found: dict[str, list[str]] = {}
    for part in re.split(r"^Dumping ", text, flags=re.MULTILINE)[1:]:
        name, *lines = part.splitlines()
        found[name] = lines
    return found


@pytest.mark.parametrize("archive", ARCHIVES)
def test_logs_are_printed_as_kafka_prints_them(archive, tmp_path):
    golden = GoldenFolder(archive, tmp_path)
    checked = 0
    for name, expected in sections(golden.text("expected/dump-log-segments.txt")).items():
        path = golden.data / name
        failed = any("DUMP FAILED" in line for line in expected)
        found, _ = dump("--files", str(path), "--deep-iteration", code=1 if failed else 0)
        assert found[0] == f"Dumping {path}"
        expected = [line for line in expected if "DUMP FAILED" not in line and line]
        assert found[1 : len(expected) + 1] == expected, name
        assert len(found) == len(expected) + 1 or failed
        checked += 1
    assert checked >= 8


@pytest.mark.parametrize("archive", ["kafka-2.2.2-clean", "kafka-3.9.1-clean"])
def test_indexes_and_snapshots(archive, tmp_path):
    golden = GoldenFolder(archive, tmp_path)
    for partition in golden.expected_partitions():
        expected = golden.expected(partition)
        if has_old_format(expected):
            continue
        folder = golden.data / partition
        for base, parts in expected["segments"].items():
            if (folder / f"{base}.index").exists():
                found, complaints = dump("--files", str(folder / f"{base}.index"))
                entries = [f"offset: {o} position: {p}" for o, p in parts["index"]["entries"]]
                assert found[1:] == (entries or [f"{folder / base}.index is empty."])
                # The cleaner leaves entries that point at what was there before.
                assert complaints == [] or "compact" in partition
                found, _ = dump("--files", str(folder / f"{base}.timeindex"))
                assert found[1:] == [f"timestamp: {t} offset: {o}" for t, o in parts["timeindex"]["entries"]]
                found, _ = dump("--index-sanity-check", "--files", str(folder / f"{base}.timeindex"))
                assert found[1:] == [f"{folder / base}.timeindex passed sanity check."]
            if (folder / f"{base}.txnindex").exists() and "txnindex" in parts:
                found, _ = dump("--json", "--files", str(folder / f"{base}.txnindex"))
                assert len(found) - 1 == len(parts["txnindex"]["entries"])
        for offset, snapshot in expected.get("snapshots", {}).items():
            found, _ = dump("--files", str(folder / f"{offset}.snapshot"))
            texts = [
                " ".join(f"{name}: {value}" for name, value in producer.items())
                for producer in snapshot["producers"]
            ]
            assert [line.rstrip() for line in found[1:]] == texts


def test_indexes_of_old_formats(tmp_path):
    """Kafka's check takes the first message at a position: an append of several is a mismatch to it, too."""
    golden = GoldenFolder("kafka-0.10.2.2-clean", tmp_path)
    entries = 0
    for partition in golden.expected_partitions():
        for base, parts in golden.expected(partition)["segments"].items():
            path = golden.data / partition / f"{base}.index"
            found, complaints = dump("--files", str(path))
            expected = parts["index"]["entries"]
            assert found[1:] == ([f"offset: {o} position: {p}" for o, p in expected] or [f"{path} is empty."])
            firsts = {batch["position"]: batch["last_offset"] for batch in parts["log"]["batches"]}
            # Kafka's tool lists what it found last first.
            mismatches = [(o, firsts[p]) for o, p in reversed(expected) if firsts[p] != o]
            wrong = [f"  Index offset: {o}, log offset: {last}" for o, last in mismatches]
            assert [line for line in complaints if line.startswith("  ")] == wrong
            entries += len(expected)
            found, _ = dump("--files", str(path.with_suffix(".timeindex")))
            assert found[1:] == [f"timestamp: {t} offset: {o}" for t, o in parts["timeindex"]["entries"]]
    assert entries > 30


def test_old_messages_as_json(tmp_path):
    golden = GoldenFolder("kafka-0.10.2.2-clean", tmp_path)
    found, _ = dump("--json", "--deep-iteration", "--files", str(golden.data / "m1-gzip-0" / f"{0:020}.log"))
    records = [item for item in map(json.loads, found) if item["type"] == "record"]
    batches = golden.expected("m1-gzip-0")["segments"][f"{0:020}"]["log"]["batches"]
    assert [r["offset"] for r in records] == [r["offset"] for b in batches for r in b["records"]]
    assert all(r["isValid"] and isinstance(r["crc"], int) and "sequence" not in r for r in records)


@pytest.mark.parametrize("archive", ["kafka-2.2.2-clean", "kafka-3.9.1-clean"])
def test_group_and_transaction_records(archive, tmp_path):
    golden = GoldenFolder(archive, tmp_path)
    checked = 0
    for partition in golden.expected_partitions():
        decoded = golden.expected(partition).get("decoded", {})
        flag = "--offsets-decoder" if partition.startswith("__consumer") else "--transaction-log-decoder"
        for base, entries in decoded.items():
            path = golden.data / partition / f"{base}.log"
            found, _ = dump(flag, "--json", "--files", str(path))
            records = [item for item in map(json.loads, found) if item["type"] == "record"]
            assert len(records) == len(entries)
            for record, entry in zip(records, entries, strict=True):
                assert record["offset"] == entry["offset"]
                if "key" not in entry:
                    assert "endTxnMarker" in record
                    continue
                for ours, theirs in ((record["key"], entry["key"]), (record["payload"], entry.get("value"))):
                    if isinstance(theirs, dict):
                        assert json.loads(ours) == theirs
                    elif theirs is None or theirs == "<DELETE>":
                        assert ours == theirs
                    else:
                        assert _before_4_0(json.loads(ours)) == _sorted(theirs)
                checked += 1
            text, _ = dump(flag, "--files", str(path))
            assert len([line for line in text if line.startswith("| ")]) == len(entries)
    assert checked > 30


def _before_4_0(decoded):
    """A key or value of __transaction_state in the words of Kafka's tool before 4.0, partitions sorted."""
    data = decoded["data"]
    if "type" in decoded:
        assert decoded["type"] == "0"
        return f"transaction_metadata::transactionalId={data['transactionalId']}"
    states = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
    topics = data["transactionPartitions"] or []
    partitions = ",".join(f"{t['topic']}-{p}" for t in topics for p in t["partitionIds"])
    return _sorted(
        f"producerId:{data['producerId']},producerEpoch:{data['producerEpoch']},"
        f"state={states[data['transactionStatus']]},"
        f"partitions=[{partitions}],"
        f"txnLastUpdateTimestamp={data['transactionLastUpdateTimestampMs']},"
        f"txnTimeoutMs={data['transactionTimeoutMs']}"
    )


def _sorted(text):
    """Kafka prints the partitions of a transaction in no order."""
    return re.sub(r"\[(.*)\]", lambda found: f"[{','.join(sorted(found[1].split(',')))}]", text)


def test_keys_and_payloads_are_printed(tmp_path):
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(batch([b"one", "zwölf".encode()]))
    found, _ = dump("--print-data-log", "--files", str(path))
    assert found[1] == "Log starting offset: 0"
    assert found[3].endswith("headerKeys: [] key: key payload: one")
    assert found[4].endswith("headerKeys: [] key: key payload: zwölf")
    found, _ = dump("--print-data-log", "--skip-record-metadata", "--files", str(path))
    assert found[3] == "| key: key payload: one"
    found, _ = dump("--value-decoder-class", "kafka.serializer.DefaultDecoder", "--files", str(path))
    assert found[3].endswith("payload: 6f6e65")
    _, complaints = dump("--value-decoder-class", "com.example.Mine", "--files", str(path), code=None)
    assert "com.example.Mine" in complaints[-1]


def test_what_is_wrong_is_said(tmp_path):
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(batch([b"one"]) + batch([b"two"], base_offset=5) + b"garbage")
    (tmp_path / "00000000000000000000.index").write_bytes(bytes.fromhex("0000000100000000"))
    (tmp_path / "00000000000000000000.timeindex").write_bytes(bytes.fromhex("000000000000000100000000"))
    found, complaints = dump("--deep-iteration", "--files", str(path))
    assert found[-1] == "Found 7 invalid bytes at the end of 00000000000000000000.log"
    assert complaints == [f"Non-consecutive offsets in {path}", "  0 is followed by 5"]
    _, complaints = dump("--files", str(path.with_suffix(".index")))
    assert complaints == [f"Mismatches in :{path.with_suffix('.index')}", "  Index offset: 1, log offset: 0"]
    _, complaints = dump("--files", str(path.with_suffix(".timeindex")))
    assert complaints[0] == f"Found timestamp mismatch in :{path.with_suffix('.timeindex')}"
    path.with_suffix(".timeindex").write_bytes(bytes.fromhex("000000000000000100000003"))
    _, complaints = dump("--files", str(path.with_suffix(".timeindex")))
    assert complaints == [
        "The following indexed offsets are not found in the log.",
        "Indexed offset: 3, found log offset: 5",
    ]
    _, complaints = dump("--files", str(tmp_path / "00000000000000000009.log"), code=1)
    assert "No such file" in complaints[-1]
    strange = tmp_path / "00000000000000000000.txt"
    _, complaints = dump("--files", str(strange))
    assert complaints == [f"Ignoring unknown file {strange}"]
    (tmp_path / "00000000000000000003.snapshot").write_bytes(b"\0\1nonsense")
    dump("--files", str(tmp_path / "00000000000000000003.snapshot"), code=1)


def test_files_that_are_not_there_are_named_and_the_others_printed(tmp_path):
    good = tmp_path / "00000000000000000000.log"
    good.write_bytes(batch([b"one"]))
    folder = tmp_path / "00000000000000000001.log"
    folder.mkdir()
    strange = tmp_path / "notes.log"
    strange.write_bytes(b"")
    alone = tmp_path / "00000000000000000009.index"
    alone.write_bytes(bytes(8))
    absent = [tmp_path / f"00000000000000000005{suffix}" for suffix in SUFFIXES]
    before = sorted(tmp_path.iterdir())
    files = [*absent, folder, strange, alone, good]
    found, complaints = dump("--files", ",".join(map(str, files)), code=1)
    assert [line for line in found if line.startswith("Dumping")] == [f"Dumping {path}" for path in files]
    assert found[-1].startswith("baseOffset: 0 ")
    assert complaints == [
        *(f"{path}: No such file or directory" for path in absent),
        f"{folder}: Is a directory",
        f"{strange}: notes.log does not begin with an offset",
        f"{alone}: No such file or directory ({alone.with_suffix('.log')})",
    ]
    assert sorted(tmp_path.iterdir()) == before
    _, complaints = dump("--files", " , ", code=None)
    assert "--files" in complaints[-1]


def test_records_of_share_and_streams_groups_are_decoded(tmp_path):
    """What Kafka's own tool of 4.3 prints of the same bytes."""
    path = tmp_path / "00000000000000000000.log"
    records = [
        (0, _key(ShareSnapshotKey()), _value(ShareSnapshotValue(start_offset=7)), ()),
        (0, _key(ShareUpdateKey(group_id="g")), None, ()),
        (0, b"\0\x63", b"x", ()),
    ]
    path.write_bytes(build_batch(records))
    found, _ = dump("--share-group-state-decoder", "--skip-record-metadata", "--files", str(path))
    key = '"topicId":"AAAAAAAAAAAAAAAAAAAAAA","partition":0}}'
    assert found[3:] == [
        '| key: {"type":"0","data":{"groupId":"",'
        + key
        + ' payload: {"version":"0","data":{"snapshotEpoch":0,'
        '"stateEpoch":0,"leaderEpoch":0,"startOffset":7,"createTimestamp":0,"writeTimestamp":0,"stateBatches":[]}}',
        '| key: {"type":"1","data":{"groupId":"g",' + key + " payload: <DELETE>",
        "| key: Unknown record type 99 at offset 2, skipping.",
    ]
    records = [
        (0, _key(StreamsGroupMetadataKey(group_id="s")), None, ()),
        (0, _key(ShareGroupMetadataKey(group_id="s")), _value(ShareGroupMetadataValue(epoch=3)), ()),
    ]
    path.write_bytes(build_batch(records))
    found, _ = dump("--offsets-decoder", "--skip-record-metadata", "--files", str(path))
    assert found[3] == '| key: {"type":"17","data":{"groupId":"s"}} payload: <DELETE>'
    assert found[4].startswith(
        '| key: {"type":"11","data":{"groupId":"s"}} payload: {"version":"0","data":{"epoch":3'
    )


def _key(message):
    return message.RECORD_TYPE.to_bytes(2, "big") + message.encode(message.VERSIONS[-1])


def _value(message):
    version = message.VERSIONS[-1]
    return version.to_bytes(2, "big") + message.encode(version)


def test_json_has_keys_and_payloads_to_the_byte(tmp_path):
    path = tmp_path / "00000000000000000000.log"
    values = [b"text", bytes(range(256)), None, b""]
    records = [(0, value, value, ()) for value in values]
    path.write_bytes(build_batch(records))
    for words in (
        ["--print-data-log"],
        ["--value-decoder-class", "kafka.serializer.DefaultDecoder"],
        ["--offsets-decoder"],
    ):
        found, _ = dump("--json", *words, "--files", str(path))
        printed = [one for one in map(json.loads, found) if one["type"] == "record"]
        for name in ("keyBase64", "payloadBase64"):
            decoded = [None if one[name] is None else b64decode(one[name]) for one in printed]
            assert decoded == values
    found, _ = dump("--json", "--deep-iteration", "--files", str(path))
    assert not any("Base64" in line for line in found)
    assert json.loads(found[-1])["keySize"] == 0
