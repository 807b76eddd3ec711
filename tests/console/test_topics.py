"""The pages of topics, on a broker."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

import pytest

from odradek import Admin, NewTopic, Producer
from odradek.client.types import (
    LogDirDescription,
    PartitionInfo,
    ReplicaInfo,
    TopicDescription,
    TopicPartition,
)
from odradek.console.views.command_lines import CommandLines
from odradek.console.views.paging import page_number, page_of
from odradek.console.views.texts import count_text, size_text
from odradek.console.views.topics import chosen_rows, partition_rows, replica_sizes, topic_rows
from odradek.testing import Broker
from ports import free_port
from waiting import WITHIN_S

from .conftest import TOKEN, Visitor

CELLS = re.compile(r"<t[dh][^>]*>(.*?)</t[dh]>", re.DOTALL)
TAG = re.compile(r"<[^>]+>")


def row(page: str, head: str) -> list[str]:
    """The cells of a row of a page's tables, as text; the row by the text of its head."""
    for line in page.split("<tr")[1:]:
        cells = [" ".join(html.unescape(TAG.sub("", cell)).split()) for cell in CELLS.findall(line)]
        if cells and cells[0] == head:
            return cells
    raise AssertionError(f"no row {head!r} in {page}")


def test_a_topic_with_sizes_offsets_and_configs(broker: Broker, visitor: Visitor) -> None:
    broker.create_topic("orders", 2, {"retention.ms": "1234567", "cleanup.policy": "delete"})
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for _ in range(3):
            producer.send("orders", value=b"x" * 100, partition=1).result(WITHIN_S)
    cells = row(visitor.get("/topics"), "orders")
    assert cells[:5] == ["orders", "2", "1", "0", "0"]
    assert cells[5] not in ("0 B", "not known")
    page = visitor.get("/topics/orders")
    # A real zero is told as such.
    assert row(page, "0")[1:] == ["ok", "0", "0 0 B", "0", "0", "0"]
    assert row(page, "1")[4:] == ["0", "3", "3"]
    assert row(page, "retention.ms")[1:3] == ["1234567", "DYNAMIC_TOPIC_CONFIG"]
    assert row(page, "cleanup.policy")[1:] == ["delete", "DYNAMIC_TOPIC_CONFIG", "DEFAULT_CONFIG: delete"]
    assert "odradek topics --bootstrap-server" in page
    all_configs = visitor.get("/topics/orders?configs=all")
    assert row(all_configs, "flush.ms")[2] == "DEFAULT_CONFIG"


def test_create_change_and_delete(broker: Broker, visitor: Visitor) -> None:
    fields = {"name": "made", "partitions": "3", "configs": "retention.ms=99"}
    checked = visitor.post("/create-topic", "/create-topic", **fields, **{"try": "1"})
    assert "--topic made --partitions 3 --config retention.ms=99" in html.unescape(checked)
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert "made" not in admin.list_topics()
        page = visitor.post("/create-topic", "/create-topic", **fields)
        assert "Topic made has been created." in page
        assert "has been created" not in visitor.get("/topics/made")
        visitor.post("/topics/made", "/topics/made/partitions", partitions="5")
        assert len(admin.describe_topics(["made"])["made"].partitions) == 5
        visitor.post("/topics/made", "/topics/made/configs", key="retention.ms", value="77")
        assert admin.describe_configs([("topic", "made")])[("topic", "made")]["retention.ms"].value == "77"
        visitor.post("/topics/made", "/topics/made/configs", key="retention.ms", remove="1")
        assert admin.describe_configs([("topic", "made")])[("topic", "made")]["retention.ms"].source == 5
        assert "type the topic" in visitor.post("/topics/made", "/topics/made/delete", 400, typed="mad")
        assert "made" in admin.list_topics()
        assert "has been deleted" in visitor.post("/topics/made", "/topics/made/delete", typed="made")
        assert "made" not in admin.list_topics()


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"name": "bad", "partitions": "many"}, "Partitions: 'many' is not a whole number."),
        ({"name": "bad", "replicas": "7"}, "eplication factor"),
        ({"name": "bad", "configs": "retention"}, "'retention' is not name=value."),
        ({"name": "<script>alert(1)</script>"}, "&lt;script&gt;"),
    ],
)
def test_what_is_wrong_is_told_and_kept(visitor: Visitor, fields: dict[str, str], told: str) -> None:
    page = visitor.post("/create-topic", "/create-topic", 400, **fields)
    assert told in html.unescape(page) or told in page
    assert html.escape(fields["name"]) in page
    assert "<script>alert" not in page


def test_read_only_changes_nothing(broker: Broker, visit: Callable[..., Visitor]) -> None:
    broker.create_topic("kept")
    visitor = visit(broker.bootstrap_servers, read_only=True)
    visitor.log_in()
    assert '<h2 id="change">' not in visitor.get("/topics/kept")
    visitor.post("/topics", "/topics/kept/delete", 403, typed="kept")
    visitor.post("/topics", "/create-topic", 403, name="new")
    assert "new" not in visitor.get("/topics")
    visitor.get("/topics/kept")


def test_a_topic_that_is_not_there(visitor: Visitor) -> None:
    assert "There is no such topic" in visitor.get("/topics/nothing-here", 404)


def test_a_cluster_that_does_not_answer_is_told(visit: Callable[..., Visitor]) -> None:
    servers = f"127.0.0.1:{free_port()}"
    visitor = visit(servers, client_configs={"default_api_timeout_ms": 300})
    page = visitor.post("/login", "/login", 502, token=TOKEN)
    assert "The cluster does not answer" in page
    assert servers in page


def test_a_thousand_partitions_come_in_parts(broker: Broker, visitor: Visitor) -> None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("wide", 1000)])
        page = visitor.get("/topics/wide?page=10")
        assert row(page, "999")[1] == "ok"
        assert "901–1\u202f000 of 1\u202f000" in page
        assert 'rel="next"' not in page
        assert "page=9" in page
        admin.delete_topics(["wide"])


def description(*partitions: PartitionInfo) -> TopicDescription:
    return TopicDescription("t", bytes(16), False, partitions)


def test_what_is_not_known_is_no_zero() -> None:
    well = PartitionInfo("t", 0, 1, (1, 2), (1, 2), ())
    behind = PartitionInfo("t", 1, 1, (1, 2), (1,), ())
    offline = PartitionInfo("t", 2, 2, (2,), (2,), (2,))
    empty, moving = ReplicaInfo(0, 0, False), ReplicaInfo(9, 0, True)
    folder = LogDirDescription(None, {TopicPartition("t", n): empty for n in (0, 1)})
    future = LogDirDescription(None, {TopicPartition("t", 0): moving})
    sizes = replica_sizes({1: {"/a": folder, "/b": future}})
    # Broker 2 has gone, and has not told its sizes.
    rows = partition_rows(description(offline, behind, well), sizes, {1})
    assert [r.state for r in rows] == ["ok", "under-replicated", "offline"]
    assert [replica.size for replica in rows[0].replicas] == [0, None]
    assert rows[2].leader is None and rows[2].offsets is None
    (summary,) = topic_rows([description(offline, behind, well)], sizes, {1})
    assert (summary.size, summary.under_replicated, summary.offline) == (None, 1, 1)
    assert [
        r.partition for r in partition_rows(description(well, behind), sizes, {1}, problems_only=True)
    ] == [1]
    assert (size_text(None), size_text(0), size_text(1536), count_text(None)) == (
        "not known",
        "0 B",
        "1.5 KiB",
        "not known",
    )


def test_rows_are_filtered_and_ordered() -> None:
    def topic(name: str, partitions: int, internal: bool = False) -> TopicDescription:
        parts = tuple(PartitionInfo(name, n, 1, (1,), (1,), ()) for n in range(partitions))
        return TopicDescription(name, bytes(16), internal, parts)

    rows = topic_rows([topic("b", 1), topic("A", 3), topic("__in", 50, True)], {}, {1})

    def names(**options: object) -> list[str]:
        chosen = {"text": "", "internal": False, "order": "name", **options}
        return [row.name for row in chosen_rows(rows, **chosen)]  # type: ignore[arg-type]

    assert names() == ["A", "b"]
    assert names(text="a") == ["A"]
    assert names(internal=True, order="partitions") == ["__in", "A", "b"]


@pytest.mark.parametrize(
    ("number", "rows", "pages"), [(1, "abc", 3), (3, "g", 3), (9, "g", 3), (-1, "abc", 3)]
)
def test_pages_of_a_table(number: int, rows: str, pages: int) -> None:
    page = page_of("abcdefg", number, 3)
    assert (page.rows, page.pages, page.total) == (rows, pages, 7)
    assert page_of("", 1).last == 0
    assert [page_number(text) for text in ("", "7", "-1", "²", "9" * 20)] == [1, 7, 1, 1, 1]


def test_command_lines_are_quoted_for_a_shell() -> None:
    lines = CommandLines("h:1,h:2", "my file")
    begin = "odradek topics --bootstrap-server h:1,h:2 --command-config 'my file'"
    assert lines.delete_topic("a.b") == rf"{begin} --delete --topic 'a\.b'"
    assert "'x=$(reboot)'" in lines.create_topic("t", None, None, {"x": "$(reboot)"})
    named = lines.produce("--command-config")
    assert "--producer.config 'my file' --topic --command-config " in named
    assert lines.set_topic_config("t", "a", "b,c").endswith("--add-config 'a=[b,c]'")
