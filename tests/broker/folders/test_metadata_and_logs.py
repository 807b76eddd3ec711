"""Where the metadata and the logs on disk meet: deletions cut short, dynamic configs, damaged stores."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from odradek.broker.app import StartError
from odradek.broker.folders.store_file import STORE_FILE
from odradek.cluster.store.embedded import EmbeddedStore
from odradek.cluster.store.store import Delete

from ..live import append, batch, connect, create_topic, create_topic_with_record, running
from ..net import run


def _folders(data: Path) -> set[str]:
    return {path.name for path in data.iterdir() if path.is_dir() and not path.name.endswith("-delete")}


def test_a_deletion_cut_short_takes_the_logs_with_it_at_the_next_start(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "doomed", 2)
            await create_topic(broker, "kept", 1)
            client = await connect(broker)
            await append(client, "doomed", batch())
            client.close()
        assert _folders(tmp_path) == {"doomed-0", "doomed-1", "kept-0"}
        # As if the broker had been killed right after the mark was written.
        store = EmbeddedStore(tmp_path / STORE_FILE)
        store.create("/admin/delete_topics/doomed")
        store.close()
        async with running(tmp_path) as broker:
            assert set(broker.image.topics) == {"kept"}
            assert _folders(tmp_path) == {"kept-0"}
            await create_topic(broker, "doomed", 1)
            assert broker.replicas.get("doomed", 0).log.log_end_offset == 0

    run(main)


def test_dynamic_configs_reach_the_logs_and_survive_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t", configs={"segment.bytes": "5000"})
            log = broker.replicas.get("t", 0).log
            broker.controller.alter_config("brokers/<default>", {"log.retention.ms": "77"})
            broker.controller.alter_config("brokers/0", {"log.segment.bytes": "6000"})
            assert (log.config.retention_ms, log.config.segment_bytes) == (77, 5000)
            broker.controller.alter_config("topics/t", {"retention.ms": "88"})
            assert (log.config.retention_ms, log.config.segment_bytes) == (88, 6000)
        async with running(tmp_path) as broker:
            log = broker.replicas.get("t", 0).log
            assert (log.config.retention_ms, log.config.segment_bytes) == (88, 6000)
            assert broker.config.topic_defaults()["retention.ms"] == 77

    run(main)


@pytest.mark.parametrize("content", [b"garbage " * 1000, b"SQLite format 3\0" + b"\xee" * 5000])
def test_a_damaged_store_stops_the_start_with_its_name_and_is_left_alone(
    tmp_path: Path, content: bytes
) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t")
        (tmp_path / STORE_FILE).write_bytes(content)
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        with pytest.raises(StartError, match=STORE_FILE):
            async with running(tmp_path):
                pass
        assert (tmp_path / STORE_FILE).read_bytes() == content
        after = {path: path.read_bytes() for path in before if path.exists()}
        gone = {path.name for path in before if path not in after}
        assert gone <= {".kafka_cleanshutdown", "segments-checkpoint", ".lock"}

    run(main)


@pytest.mark.parametrize("node", ["/brokers/topics/t", "/brokers/topics/t/partitions/0/state"])
def test_a_node_that_cannot_be_read_stops_the_start_and_its_log_is_left_alone(
    tmp_path: Path, node: str
) -> None:
    """A lone broker has written all of its nodes; to go on without one would make its log a stray."""

    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic_with_record(broker, "t")
        before = (tmp_path / "t-0" / f"{0:020}.log").read_bytes()
        with closing(EmbeddedStore(tmp_path / STORE_FILE)) as store:
            good = store.get(node)
            store.set(node, b"no JSON")
        with pytest.raises(StartError, match=node):
            async with running(tmp_path):
                pass
        assert _folders(tmp_path) == {"t-0"}
        assert (tmp_path / "t-0" / f"{0:020}.log").read_bytes() == before
        with closing(EmbeddedStore(tmp_path / STORE_FILE)) as store:
            assert store.get(node).data == b"no JSON", "it is for its owner to mend"
            store.set(node, good.data)
        async with running(tmp_path) as broker:
            assert broker.replicas.get("t", 0).log.log_end_offset == 1

    run(main)


def test_a_topic_whose_node_is_gone_leaves_its_log_and_a_new_one_is_not_mixed_into_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic_with_record(broker, "t")
        before = (tmp_path / "t-0" / f"{0:020}.log").read_bytes()
        store = EmbeddedStore(tmp_path / STORE_FILE)
        base = "/brokers/topics/t"
        store.multi(
            [
                Delete(f"{base}/partitions/0/state"),
                Delete(f"{base}/partitions/0"),
                Delete(f"{base}/partitions"),
                Delete(base),
            ]
        )
        store.close()
        async with running(tmp_path) as broker:
            assert broker.image.topic("t") is None
            assert "t-0" in _folders(tmp_path), "what nobody has deleted stays"
            await create_topic(broker, "t")
            partition = broker.replicas.find("t", 0)
            assert partition is not None
            assert partition.log.log_end_offset == 0, "another topic id: not the same topic"
            (stray,) = [name for name in _folders(tmp_path) if name.endswith("-stray")]
            assert (tmp_path / stray / f"{0:020}.log").read_bytes() == before, "nobody deletes it"

    run(main)
