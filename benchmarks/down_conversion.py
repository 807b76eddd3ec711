"""Down-conversion beside Kafka's: the same records, fetched by a client of 0.10 from both brokers.

    python benchmarks/down_conversion.py [--megabytes N] [--passes N] [--no-kafka]

One partition of batches as producers send them (16 KiB uncompressed, 64 KiB of records with a codec), the
same bytes for both. The client asks with Fetch 2, 1 MiB at a time, from the first offset to the last; so
everything is converted to magic 1. A figure is what the broker's process uses of the processor (its threads,
the collector and the system's part included) for a megabyte of values, median over the passes after two to
warm up.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from benchmarks.records_convert import NOW_MS, values
from interop import kafka_peer
from odradek import Admin, NewTopic
from odradek.records.builder import BatchBuilder
from odradek.records.compression import Codec
from odradek.records.message_sets.message_set import iter_entries
from odradek.wire.headers import decode_response, encode_request
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

KAFKA = "3.9.1"
CODECS = (Codec.NONE, Codec.LZ4, Codec.SNAPPY, Codec.GZIP)
SIZES = (100, 1000)
FETCH_VERSION, PRODUCE_VERSION = 2, 7
FETCH_BYTES = 1 << 20
WARM_UP = 2


class Connection:
    """Requests of a client, one at a time."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._file = self._socket.makefile("rb")

    def ask(self, message: Any, version: int) -> Any:
        """The response."""
        self._socket.sendall(b"".join(encode_request(message.API_KEY, version, 1, "bench", message)))
        frame = self._file.read(int.from_bytes(self._file.read(4)))
        return decode_response(memoryview(frame), message.API_KEY, version)[1]

    def close(self) -> None:
        """Hang up."""
        self._file.close()
        self._socket.close()


def topic_of(codec: Codec, size: int) -> str:
    """A topic per case."""
    return f"{codec.name.lower()}-{size}"


def fill(connection: Connection, codec: Codec, size: int, total: int) -> int:
    """Produce the records of a case; how many there are."""
    sample = values(size, max(1, (16 if codec is Codec.NONE else 64) * 1024 // size))
    builder = BatchBuilder(codec=codec)
    for number, value in enumerate(sample):
        builder.append(NOW_MS + number, b"key-%06d" % number, value, ())
    batch = builder.build()
    count = 0
    while count * size < total:
        part = PartitionProduceData(index=0, records=batch)
        topic = TopicProduceData(name=topic_of(codec, size), partition_data=[part])
        answer = connection.ask(ProduceRequest(acks=1, timeout_ms=9000, topic_data=[topic]), PRODUCE_VERSION)
        error = answer.responses[0].partition_responses[0].error_code
        if error:
            raise RuntimeError(f"a batch was refused with error {error}")
        count += len(sample)
    return count


def read(connection: Connection, topic: str, end: int) -> None:
    """Fetch everything as a client of 0.10 does."""
    offset = 0
    while offset < end:
        part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=500,
            min_bytes=1,
            topics=[FetchTopic(topic=topic, partitions=[part])],
        )
        answer = connection.ask(request, FETCH_VERSION)
        (found,) = answer.responses[0].partitions
        if found.error_code:
            raise RuntimeError(f"a fetch of {topic} at {offset} was answered with error {found.error_code}")
        magic, offset = found.records[16], last_offset(found.records) + 1
        if magic != 1:
            raise RuntimeError(f"magic {magic} came")


def last_offset(records: Any) -> int:
    """Of the last whole message; the wrapper of a compressed set has that of its last record."""
    last = -1
    for header, _ in iter_entries(records):
        last = header.last_offset
    return last


def cpu_s(pid: int) -> float:
    """What a process has used of the processor, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(port: int, pid: int, total: int, passes: int) -> dict[tuple[Codec, int], float]:
    """Milliseconds of the processor per megabyte, by case."""
    with Admin(bootstrap_servers=f"127.0.0.1:{port}") as admin:
        # The records' times are of long ago.
        kept = {"retention.ms": "-1"}
        admin.create_topics(
            [NewTopic(topic_of(codec, size), 1, 1, configs=kept) for codec in CODECS for size in SIZES]
        )
    connection = Connection(port)
    found = {}
    for codec in CODECS:
        for size in SIZES:
            end, used = fill(connection, codec, size, total), []
            for number in range(WARM_UP + passes):
                before = cpu_s(pid)
                read(connection, topic_of(codec, size), end)
                if number >= WARM_UP:
                    used.append(cpu_s(pid) - before)
            found[codec, size] = statistics.median(used) * 1000 / (end * size / 1e6)
    connection.close()
    return found


def ours(scratch: Path, total: int, passes: int) -> dict[tuple[Codec, int], float]:
    """See `measure`."""
    port = kafka_peer.free_ports(1)[0]
    data = scratch / "data"
    words = [sys.executable, "-m", "odradek", "server", "--data", str(data), "--port", str(port)]
    process = subprocess.Popen([*words, "--log-level", "error"], stdout=subprocess.DEVNULL)
    try:
        while not kafka_peer.answers_api_versions(port):
            time.sleep(0.01)
        return measure(port, process.pid, total, passes)
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(data)


def kafkas(scratch: Path, total: int, passes: int) -> dict[tuple[Codec, int], float]:
    """As `ours`, of Kafka."""
    directory = scratch / "kafka"
    directory.mkdir()
    kafka = kafka_peer.RealKafka(KAFKA, directory, collector=kafka_peer.SERVER_COLLECTOR)
    try:
        kafka.start()
        port = int(kafka.bootstrap_servers.rpartition(":")[2])
        return measure(port, kafka.pid, total, passes)
    finally:
        kafka.stop()
        shutil.rmtree(directory)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--no-kafka", action="store_true")
    arguments = parser.parse_args()
    shared = Path("/dev/shm")
    brokers = {"odradek": ours} if arguments.no_kafka else {"odradek": ours, f"Kafka {KAFKA}": kafkas}
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as made:
        found = {
            name: run(Path(made), arguments.megabytes * 1_000_000, arguments.passes)
            for name, run in brokers.items()
        }
    print("milliseconds of the processor per MB of records, converted down from magic 2 to 1 and fetched")
    print(f"{'':18}" + "".join(f"{name:>14}" for name in found) + (f"{'ratio':>8}" if len(found) > 1 else ""))
    for codec in CODECS:
        for size in SIZES:
            row = [figures[codec, size] for figures in found.values()]
            line = f"{codec.name.lower():8}{size:>8,} B" + "".join(f"{one:14.2f}" for one in row)
            print(line + (f"{row[0] / row[1]:8.2f}" if len(row) > 1 else ""))


if __name__ == "__main__":
    main()
