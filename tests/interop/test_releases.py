"""The requests of every release of Kafka since 0.9, as franz-go makes them."""

from __future__ import annotations

import pytest

from interop import members, programs
from interop.conftest import OdradekServer
from interop.test_program_clients import CODECS, OLD_CODECS, _deletable, _franz
from odradek import Admin, NewTopic

pytestmark = pytest.mark.interop

# Those that know message sets alone; there were no groups before 0.9, no lz4 for all before 0.10.
MESSAGE_SETS = ["0.9.0", "0.10.0", "0.10.1", "0.10.2"]
# From the first release with record batches; zstd is known from 2.1.
VERSIONS = ["0.11.0", "1.0.0", "1.1.0", *(f"2.{i}.0" for i in range(9)), *(f"3.{i}.0" for i in range(10)),
            "4.0.0", "4.1.0", "4.2.0", "4.3.0"]  # fmt: skip


def _through(client: programs.ProgramClient, topic: str, group: str, version: str) -> None:
    """Records of every codec go into the topic, and a member of the group reads all of them."""
    values = [b"%d" % i for i in range(40)]
    client.produce(topic, values)
    member = client.join(topic, group)
    members.until(f"all is read as by {version}", lambda: len(member.records) >= len(values))
    member.close()
    assert sorted(r["value"].encode() for r in member.records) == sorted(values), version


def test_requests_of_every_release(server: OdradekServer) -> None:
    """franz-go with the requests of each release of Kafka since 0.11: admin, produce, a group."""
    program = _franz()
    for version in VERSIONS:
        old = VERSIONS.index(version) < VERSIONS.index("2.1.0")
        codecs = OLD_CODECS if old else CODECS
        client = programs.ProgramClient(program, server.bootstrap_servers, version, codecs)
        topic, group = f"as-{version}", f"group-{version}"
        try:
            client.run("create", topic)
            _through(client, topic, group, version)
            seen = client.run("describe", topic, group)
            assert (seen["partitions"], seen["retention"]) == (4, "86400000"), version
            assert group in seen["groups"], version
            # The next member goes on where the first one has committed.
            client.run("produce", topic, "none", stdin="last\n")
            second = client.join(topic, group)
            members.until("the last is read", lambda member=second: bool(member.records))  # type: ignore[misc]
            second.close()
            assert [r["value"] for r in second.records] == ["last"], version
            client.run("delete", topic, _deletable(group, version))
        finally:
            client.close()


def test_requests_of_releases_without_record_batches(server: OdradekServer) -> None:
    """As above for the older ones, which have no requests for what is asked there of topics and groups."""
    program = _franz()
    with Admin(bootstrap_servers=server.bootstrap_servers) as admin:
        for version in MESSAGE_SETS:
            codecs = OLD_CODECS[: 3 if version == "0.9.0" else 4]
            client = programs.ProgramClient(program, server.bootstrap_servers, version, codecs)
            topic, group = f"as-{version}", f"group-{version}"
            admin.create_topics([NewTopic(topic, num_partitions=4)])
            try:
                _through(client, topic, group, version)
            finally:
                client.close()
