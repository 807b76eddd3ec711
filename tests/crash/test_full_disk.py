"""A disk that takes no more, under a real broker: writes fail, reads go on, writes too once there is room.

The kernel's limit on file sizes, set on the running process, stands in for the full disk: the write that
crosses it is cut short and then fails, as on a full disk.
"""

from __future__ import annotations

import resource
import signal
import sys

import pytest

from odradek import Admin, Consumer, NewTopic, Producer
from odradek.errors import KafkaStorageError
from ports import free_port
from waiting import gathered

from .server import Server

TOPIC = "events"


def consume(port: int, count: int) -> list[tuple[int, bytes]]:
    with Consumer(bootstrap_servers=f"127.0.0.1:{port}", auto_offset_reset="earliest") as consumer:
        consumer.assign([(TOPIC, 0)])
        consumer.seek_to_beginning()
        records = gathered(lambda: consumer.poll(1_000), count, f"{count} records")
    return [(record.offset, record.value) for record in records]


@pytest.mark.skipif(sys.platform != "linux", reason="sets the limit of another process")
def test_writes_fail_reads_go_on_and_writes_go_on_when_there_is_room(tmp_path):
    port = free_port()
    server = Server(tmp_path / "data", port)
    try:
        server.wait_ready()
        with Admin(bootstrap_servers=f"127.0.0.1:{port}") as admin:
            admin.create_topics([NewTopic(TOPIC, 1, 1)])
        path = tmp_path / "data" / f"{TOPIC}-0" / "00000000000000000000.log"
        acknowledged: list[tuple[int, bytes]] = []
        with Producer(
            bootstrap_servers=f"127.0.0.1:{port}", acks="all", enable_idempotence=False, retries=0
        ) as producer:

            def send(value: bytes) -> None:
                metadata = producer.send(TOPIC, value, partition=0).result(timeout=30)
                acknowledged.append((metadata.offset, value))

            unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            for room in (0, 50, 150):
                for number in range(5):
                    send(b"%d-%d" % (room, number))
                size = path.stat().st_size
                resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (size + room, unlimited[1]))
                for _ in range(3):
                    with pytest.raises(KafkaStorageError):
                        send(b"too much" * 100)
                assert path.stat().st_size == size
                assert consume(port, len(acknowledged)) == acknowledged
                resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, unlimited)
                send(b"there is room again")
        assert consume(port, len(acknowledged)) == acknowledged
        server.end(signal.SIGKILL)
        server = Server(tmp_path / "data", port)
        server.wait_ready()
        assert consume(port, len(acknowledged)) == acknowledged
    finally:
        assert server.end(signal.SIGTERM) == 0
