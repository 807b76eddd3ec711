"""`odradek dump-log`: what is in a log's files, in the text of Kafka's own `kafka-dump-log`.

Works on files, with no broker. `--json` prints one object per line instead, with keys and values as text
and, under `keyBase64` and `payloadBase64`, as the bytes that they are. What is wrong with an index goes to
standard error at the end, as Kafka's tool does it; a file that is not there, or cannot be read to its end,
makes the exit code 1, and the others are printed all the same.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from odradek.cli.dump_decoders import (
    RecordDecoder,
    decode_group_record,
    decode_share_state_record,
    decode_transaction_record,
    header_keys,
    plain_decoder,
)
from odradek.cli.tool import Tool
from odradek.errors import KafkaError
from odradek.log.dump import (
    BatchView,
    RecordView,
    UnreadableError,
    base_offset,
    check_offset_index,
    check_time_index,
    iter_batch_views,
)
from odradek.log.producers.producer_snapshots import CorruptSnapshotError, decode_snapshot
from odradek.log.segments.index_file import CorruptIndexError
from odradek.log.segments.txn_index import decode_entries
from odradek.records.batch import Record
from odradek.records.control import ControlType, parse_control_type, parse_end_marker

STRING_DECODER = "org.apache.kafka.tools.api.StringDecoder"
#: Kafka's default of `--max-bytes`, `Integer.MAX_VALUE`: larger than any segment.
UNLIMITED = 2**31 - 1
SUFFIXES = (".log", ".index", ".timeindex", ".snapshot", ".txnindex")


class Dump:
    """One run of the tool: its options, and what is wrong with the files so far."""

    def __init__(
        self, *, deep: bool, decoder: RecordDecoder | None, skip_metadata: bool, as_json: bool
    ) -> None:
        self.deep = deep
        self.decoder = decoder
        self.skip_metadata = skip_metadata
        self.as_json = as_json
        self.complaints: list[str] = []
        """What is wrong with indexes and offsets. It is said at the end, and is no failure, as in Kafka."""
        self.failed = False
        """Whether a file could not be read to its end; never taken back."""

    def say(self, text: str, **data: Any) -> None:
        """Print a line, or the object that says the same."""
        if not self.as_json:
            click.echo(text)
        elif data:
            click.echo(json.dumps(data, ensure_ascii=False))

    def fail(self, text: str) -> None:
        """Tell that a file could not be read to its end."""
        click.echo(text, err=True)
        self.failed = True

    # The log itself.

    def log(self, path: Path, max_bytes: int) -> None:
        """Print a segment's batches, and their records if asked to."""
        self.say(f"Log starting offset: {base_offset(path)}")
        end = 0
        # Through all batches, not within each. The gaps of a compacted log are told all the same.
        last_offset = -1
        gaps = []
        try:
            for view in iter_batch_views(path, max_bytes):
                self.say(_batch_line(view), type="batch", **view.as_dict())
                end = view.position + view.size
                if self.deep:
                    for record_view in view.records():
                        offset = record_view.record.offset
                        if last_offset not in (-1, offset - 1):
                            gaps.append((last_offset, offset))
                        last_offset = offset
                        self.record(view, record_view)
        except (KafkaError, UnreadableError) as error:
            self.fail(f"{path}: {error}")
            return
        size = min(path.stat().st_size, max_bytes)
        # With a limit the last batch is cut by the limit, not by a crash.
        if size > end and max_bytes == UNLIMITED:
            self.say(
                f"Found {size - end} invalid bytes at the end of {path.name}",
                type="invalid",
                position=end,
                size=size - end,
            )
        if gaps:
            self.complaints.append(f"Non-consecutive offsets in {path.absolute()}")
            # Kafka's tool puts each pair in front of those before it.
            self.complaints += [f"  {first} is followed by {second}" for first, second in reversed(gaps)]

    def record(self, view: BatchView, record_view: RecordView) -> None:
        """Print one record."""
        record, sequence, crc, valid = record_view
        data: dict[str, Any] = {
            "type": "record",
            "offset": record.offset,
            "timestamp": record.timestamp,
            "timestampType": view.timestamp_type,
            "keySize": -1 if record.key is None else len(record.key),
            "valueSize": -1 if record.value is None else len(record.value),
        }
        words = [
            f"offset: {record.offset}",
            f"{view.timestamp_type}: {record.timestamp}",
            f"keySize: {data['keySize']}",
            f"valueSize: {data['valueSize']}",
        ]
        # Only messages of magic 0 and 1 have a CRC each.
        if crc is None:
            headers = [[name, None if value is None else value.hex()] for name, value in record.headers]
            data |= {"sequence": sequence, "headers": headers}
            words += [
                f"sequence: {sequence}",
                f"headerKeys: {header_keys(name for name, _ in record.headers)}",
            ]
        else:
            data |= {"isValid": valid, "crc": crc}
            # Kafka's tool prints the needless brace, too; scripts that read the line know it.
            words.append(f"isValid: {_lower(valid)} crc: {crc}}}")
        if view.control:
            marker = _marker(record)
            data |= marker
            words += [f"{name}: {value}" for name, value in marker.items()]
        # The line alone: an object has everything, and who reads it takes what he wants.
        if self.skip_metadata:
            words = []
        if self.decoder is not None and not view.control:
            key, payload = self.decoder(record)
            data |= {
                "key": key,
                "keyBase64": _base64(record.key),
                "payload": payload,
                "payloadBase64": _base64(record.value),
            }
            words += [] if key is None else [f"key: {key}"]
            words += [] if payload is None else [f"payload: {payload}"]
        # With nothing to be said of a record, the line is empty.
        self.say("| " + " ".join(words) if words else "", **data)

    # What stands beside it.

    def offset_index(self, path: Path, *, sanity: bool, verify_only: bool, max_message_size: int) -> None:
        """Print an offset index and compare it with the log."""
        try:
            index_check = check_offset_index(path, sanity, max_message_size)
        except (CorruptIndexError, UnreadableError) as error:
            self.fail(f"{path}: {error}")
            return
        if index_check is None:
            self.say(f"{path} is empty.")
            return
        if sanity:
            self.say(f"{path} passed sanity check.", type="sane", file=str(path))
            return
        if not verify_only:
            for offset, position in index_check.entries:
                self.say(
                    f"offset: {offset} position: {position}", type="index", offset=offset, position=position
                )
        if index_check.mismatches:
            self.complaints.append(f"Mismatches in :{path.absolute()}")
            self.complaints += [
                f"  Index offset: {index}, log offset: {log}"
                # As above; the entries of a time index are in order in Kafka's tool.
                for index, log in reversed(index_check.mismatches)
            ]

    def time_index(self, path: Path, *, sanity: bool, verify_only: bool) -> None:
        """Print a time index and compare it with the log."""
        try:
            index_check = check_time_index(path, sanity)
        except (CorruptIndexError, UnreadableError, KafkaError) as error:
            self.fail(f"{path}: {error}")
            return
        if sanity:
            self.say(f"{path} passed sanity check.", type="sane", file=str(path))
            return
        if not verify_only:
            for timestamp, offset in index_check.entries:
                self.say(
                    f"timestamp: {timestamp} offset: {offset}",
                    type="timeindex",
                    timestamp=timestamp,
                    offset=offset,
                )
        if index_check.mismatches:
            self.complaints.append(f"Found timestamp mismatch in :{path.absolute()}")
            self.complaints += [
                f"  Index timestamp: {index}, log timestamp: {log}" for index, log in index_check.mismatches
            ]
        if index_check.disorder:
            self.complaints.append(f"Found out of order timestamp in :{path.absolute()}")
            self.complaints += [
                f"  Index timestamp: {later}, Previously indexed timestamp: {before}"
                for later, before in index_check.disorder
            ]
        if index_check.missing:
            self.complaints.append("The following indexed offsets are not found in the log.")
            self.complaints += [
                f"Indexed offset: {index}, found log offset: {log}" for index, log in index_check.missing
            ]

    def txn_index(self, path: Path) -> None:
        """Print the aborted transactions."""
        try:
            entries = decode_entries(path.read_bytes())
        except CorruptIndexError as error:
            self.fail(f"{path}: {error}")
            return
        for entry in entries:
            self.say(
                f"version: 0 producerId: {entry.producer_id} firstOffset: {entry.first_offset} "
                f"lastOffset: {entry.last_offset} lastStableOffset: {entry.last_stable_offset}",
                type="abortedTransaction",
                producerId=entry.producer_id,
                firstOffset=entry.first_offset,
                lastOffset=entry.last_offset,
                lastStableOffset=entry.last_stable_offset,
            )

    def snapshot(self, path: Path) -> None:
        """Print the producers of a snapshot."""
        try:
            entries = decode_snapshot(path.read_bytes())
        except CorruptSnapshotError as error:
            self.fail(f"{path}: {error}")
            return
        for entry in entries:
            txn = _optional_long(entry.txn_first_offset if entry.txn_first_offset >= 0 else None)
            text = (
                f"producerId: {entry.producer_id} producerEpoch: {entry.epoch} "
                f"coordinatorEpoch: {entry.coordinator_epoch} currentTxnFirstOffset: {txn} "
                f"lastTimestamp: {entry.last_timestamp} "
            )
            data: dict[str, Any] = {
                "type": "producer",
                "producerId": entry.producer_id,
                "producerEpoch": entry.epoch,
                "coordinatorEpoch": entry.coordinator_epoch,
                "currentTxnFirstOffset": entry.txn_first_offset,
                "lastTimestamp": entry.last_timestamp,
            }
            last = entry.last_batch
            if last is not None:
                batch = {
                    "firstSequence": last.first_sequence,
                    "lastSequence": last.last_sequence,
                    "lastOffset": last.last_offset,
                    "offsetDelta": last.offset_delta,
                    "timestamp": last.timestamp,
                }
                data |= batch
                text += " ".join(f"{name}: {value}" for name, value in batch.items())
            self.say(text, **data)


def _batch_line(view: BatchView) -> str:
    """Kafka's line for a batch."""
    # The header of an older message has one offset, and nothing of producers.
    if view.magic < 2:
        head = f"offset: {view.last_offset}"
    else:
        head = (
            f"baseOffset: {view.base_offset} lastOffset: {view.last_offset} count: {view.count} "
            f"baseSequence: {view.base_sequence} lastSequence: {view.last_sequence} "
            f"producerId: {view.producer_id} producerEpoch: {view.producer_epoch} "
            f"partitionLeaderEpoch: {view.leader_epoch} isTransactional: {_lower(view.transactional)} "
            f"isControl: {_lower(view.control)} deleteHorizonMs: {_optional_long(view.delete_horizon_ms)}"
        )
    return (
        f"{head} position: {view.position} {view.timestamp_type}: {view.max_timestamp} size: {view.size} "
        f"magic: {view.magic} compresscodec: {view.codec} crc: {view.crc} isvalid: {_lower(view.valid)}"
    )


def _marker(record: Record) -> dict[str, object]:
    """Return the fields that are printed of a control record."""
    kind = parse_control_type(record.key)
    if kind in (ControlType.ABORT, ControlType.COMMIT):
        marker = parse_end_marker(record.key, record.value)
        return {"endTxnMarker": marker.control_type.name, "coordinatorEpoch": marker.coordinator_epoch}
    # The type stands behind the key's version, two bytes each (`ControlRecordType`).
    number = int.from_bytes((record.key or b"")[2:4], "big", signed=True)
    return {"controlType": f"{kind.name}({number})"}


def _optional_long(value: int | None) -> str:
    # As Java prints it: scripts look for the words.
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _lower(value: bool) -> str:
    return "true" if value else "false"


@click.command(cls=Tool)
@click.option("--files", required=True, metavar="FILE[,…]", help="The log and index files to print.")
@click.option("--print-data-log", is_flag=True, help="Print keys and values too.")
@click.option("--deep-iteration", is_flag=True, help="Print the records, not only the batches.")
@click.option("--offsets-decoder", is_flag=True, help="Read the records as those of __consumer_offsets.")
@click.option(
    "--transaction-log-decoder", is_flag=True, help="Read the records as those of __transaction_state."
)
@click.option(
    "--share-group-state-decoder", is_flag=True, help="Read the records as those of __share_group_state."
)
@click.option("--index-sanity-check", is_flag=True, help="Only check that indexes make sense.")
@click.option("--verify-index-only", is_flag=True, help="Only compare indexes with the log.")
@click.option("--value-decoder-class", metavar="CLASS", help="A decoder of Kafka's, such as StringDecoder.")
@click.option("--key-decoder-class", metavar="CLASS", help="A decoder of Kafka's, such as StringDecoder.")
@click.option("--max-message-size", default=5 * 1024 * 1024, show_default=True, help="Of the largest batch.")
@click.option("--max-bytes", default=UNLIMITED, help="How much of a log to read.")
@click.option("--skip-record-metadata", is_flag=True, help="Print only keys and values of records.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def command(
    files: str,
    print_data_log: bool,
    deep_iteration: bool,
    offsets_decoder: bool,
    transaction_log_decoder: bool,
    share_group_state_decoder: bool,
    index_sanity_check: bool,
    verify_index_only: bool,
    value_decoder_class: str | None,
    key_decoder_class: str | None,
    max_message_size: int,
    max_bytes: int,
    skip_record_metadata: bool,
    as_json: bool,
) -> None:
    """Print what is in log and index files."""
    decoder: RecordDecoder | None = None
    if offsets_decoder:
        decoder = decode_group_record
    elif transaction_log_decoder:
        decoder = decode_transaction_record
    elif share_group_state_decoder:
        decoder = decode_share_state_record
    elif print_data_log or value_decoder_class or key_decoder_class:
        decoder = plain_decoder(key_decoder_class or STRING_DECODER, value_decoder_class or STRING_DECODER)
    names = [name for part in files.split(",") if (name := part.strip())]
    if not names:
        raise click.BadParameter("it names no file", param_hint="--files")
    dump = Dump(
        # Who decodes records wants to see them: Kafka's `DumpLogSegmentsOptions.isDeepIteration`.
        deep=deep_iteration or decoder is not None,
        decoder=decoder,
        skip_metadata=skip_record_metadata,
        as_json=as_json,
    )
    for name in names:
        dump.say(f"Dumping {Path(name)}", type="file", file=name)
        with _failures_told(dump, Path(name)):
            _dump_file(dump, Path(name), index_sanity_check, verify_index_only, max_message_size, max_bytes)
    # Behind all files, where they are seen: a dump may have millions of lines.
    for line in dump.complaints:
        click.echo(line, err=True)
    if dump.failed:
        sys.exit(1)


@contextmanager
def _failures_told(dump: Dump, path: Path) -> Iterator[None]:
    """Tell of a file that cannot be read in the dump, which goes on with the next one."""
    try:
        yield
    except OSError as error:
        beside = f" ({error.filename})" if error.filename not in (None, str(path)) else ""
        dump.fail(f"{path}: {error.strerror or error}{beside}")
    except UnreadableError as error:
        dump.fail(f"{path}: {error}")


def _dump_file(
    dump: Dump, path: Path, sanity: bool, verify_only: bool, max_message_size: int, max_bytes: int
) -> None:
    if path.suffix in SUFFIXES:
        # First of all, so that a missing index is told: opening it for a look would make an empty one.
        path.open("rb").close()
    match path.suffix:
        case ".log":
            dump.log(path, max_bytes)
        case ".index":
            dump.offset_index(path, sanity=sanity, verify_only=verify_only, max_message_size=max_message_size)
        case ".timeindex":
            dump.time_index(path, sanity=sanity, verify_only=verify_only)
        case ".snapshot":
            dump.snapshot(path)
        case ".txnindex":
            dump.txn_index(path)
        case _:
            click.echo(f"Ignoring unknown file {path}", err=True)
