"""The demo's parts that need neither Spark nor a broker."""

from pathlib import Path

from odradek.demo.checks import Books, committed_offsets
from odradek.demo.counters import read_cpu, read_disk, read_memory, read_network, sample
from odradek.demo.feed import FollowedFile

PROC = {
    "stat": "cpu  100 0 50 800 50 0 0 0 7 0\ncpu0 100 0 50 800 50 0 0 0 7 0\n",
    "meminfo": "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    400 kB\n",
    "diskstats": (
        "   7       0 loop0 9 9 9 9 9 9 9 9 0 0 0\n"
        " 259       0 nvme0n1 1 0 10 0 1 0 20 0 0 0 0\n"
        " 259       1 nvme0n1p1 1 0 9 0 1 0 19 0 0 0 0\n"
    ),
    "net/dev": (
        "Inter-|   Receive                                                |  Transmit\n"
        " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs\n"
        "    lo:     100       1    0    0    0     0          0         0      200       1    0\n"
        "  eth0:1000       1    0    0    0     0          0         0 2000       1    0\n"
    ),
}


def test_counters(tmp_path: Path) -> None:
    for name, text in PROC.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    cpu = read_cpu(tmp_path)
    assert cpu["busy_s"] / cpu["total_s"] == 0.15
    assert read_memory(tmp_path) == {"used_bytes": 600 * 1024, "total_bytes": 1000 * 1024}
    assert read_disk(tmp_path) == {"read_bytes": 10 * 512, "written_bytes": 20 * 512}
    assert read_network(tmp_path) == {"received_bytes": 1100, "sent_bytes": 2200}
    assert [event["kind"] for event in sample(tmp_path)] == ["cpu", "memory", "disk", "network"]


def test_a_machine_without_proc_has_counters_too(tmp_path: Path) -> None:
    assert {event["kind"] for event in sample(tmp_path)} == {"cpu", "disk"}


def test_a_file_is_followed_by_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("before\n", encoding="utf-8")
    log = FollowedFile(path)
    assert list(log.new_lines()) == []
    with path.open("a", encoding="utf-8") as file:
        file.write("one\ntw")
        file.flush()
        assert list(log.new_lines()) == ["one"]
        file.write("o\n")
        file.flush()
        assert list(log.new_lines()) == ["two"]


def test_a_file_may_come_later(tmp_path: Path) -> None:
    log = FollowedFile(tmp_path / "log")
    assert list(log.new_lines()) == []
    (tmp_path / "log").write_text("one\n", encoding="utf-8")
    assert list(log.new_lines()) == ["one"]


def test_books_that_do_not_balance_say_so() -> None:
    assert Books("t", carried_over=1, produced=5, in_log=5, read=6).problem is None
    assert (
        Books("t", produced=5, in_log=4, read=4).problem == "t: 5 events were acknowledged, 4 are in the log"
    )
    assert "6 events were to be read (1 of them from the last run), Spark read 7" in str(
        Books("t", carried_over=1, produced=5, in_log=5, read=7).problem
    )


def test_what_a_checkpoint_has_finished(tmp_path: Path) -> None:
    assert committed_offsets(tmp_path) == {}
    for name in ("commits", "offsets"):
        (tmp_path / name).mkdir()
    for batch, ends in enumerate([(1, 2), (30, 40), (500, 600)]):
        source = f'{{"a": {{"0": {ends[0]}, "1": {ends[1]}}}}}'
        (tmp_path / "offsets" / str(batch)).write_text(
            f'v1\n{{"conf":{{}}}}\n{source}\n{{"b":{{"0":7}}}}', encoding="utf-8"
        )
        if batch < 2:
            (tmp_path / "commits" / str(batch)).write_text("v1\n{}", encoding="utf-8")
    (tmp_path / "commits" / ".1.crc").write_text("", encoding="utf-8")
    assert committed_offsets(tmp_path) == {"a": 70, "b": 7}
