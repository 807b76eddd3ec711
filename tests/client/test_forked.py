"""Clients in a process that was forked after they were made, as servers with several workers do."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from odradek.testing import Broker

#: What was tried in the child, and what came of it, as the child's line; then what the parent can do.
JOB = """
import json, os, sys
from odradek import Admin, Consumer, NewTopic, Producer, TopicPartition

servers = {"bootstrap_servers": sys.argv[1]}
admin, producer, consumer = Admin(**servers), Producer(**servers), Consumer(**servers)
admin.create_topics([NewTopic("clicks", 1)])
producer.send("clicks", b"before").result(60)
producer.send("clicks", b"fetched already").result(60)
consumer.assign([TopicPartition("clicks", 0)])
consumer.seek_to_beginning()
first = consumer.poll(30_000, max_records=1)
attempts = {
    "send": lambda: producer.send("clicks", b"lost"),
    "flush": producer.flush,
    "poll": lambda: consumer.poll(100),
    "iterate": lambda: next(iter(consumer)),
    "admin": admin.list_topics,
}
reading, writing = os.pipe()
child = os.fork()
if not child:
    said = {}
    for name, attempt in attempts.items():
        try:
            attempt()
        except Exception as problem:
            said[name] = f"{type(problem).__name__}: {problem}"
    for client in (admin, producer, consumer):
        client.close()
    with Producer(**servers) as another:
        another.send("clicks", b"of the child").result(60)
    os.write(writing, json.dumps(said).encode())
    os._exit(0)
os.waitpid(child, 0)
producer.send("clicks", b"after").result(60)
values = [one.value.decode() for one in first]
while len(values) < 4:
    values += [one.value.decode() for one in consumer.poll(30_000)]
topics = admin.list_topics()
for client in (admin, producer, consumer):
    client.close()
print(json.dumps([os.getpid(), json.loads(os.read(reading, 65536)), values, len(topics)]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
def test_a_child_is_told_to_make_clients_of_its_own_and_the_parents_go_on() -> None:
    with Broker() as broker:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", JOB, broker.bootstrap_servers],
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    parent, said, values, topics = json.loads(done.stdout)
    told = (
        f"IllegalStateError: the client is that of process {parent}, of which this one is a fork: its thread "
        "and connections stayed there. Make a client after the fork"
    )
    assert said == dict.fromkeys(("send", "flush", "poll", "iterate", "admin"), told)
    assert values == ["before", "fetched already", "of the child", "after"]
    assert topics == 1
