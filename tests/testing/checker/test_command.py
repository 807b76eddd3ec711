"""The form on disk, its errors, and the command."""

from __future__ import annotations

import json
import threading

import pytest

from odradek.testing.checker import Event, HistoryError, Recorder, check, dump, load
from odradek.testing.checker.__main__ import main
from waiting import joined

from .histories import poll, send, work

SOUND = [*work("p", "send", send("a", 0)), *work("c", "poll", poll((0, "a")))]
UNSOUND = [*work("p", "send", send("a", 0)), *work("c", "poll", poll((0, "a"), (1, "a")))]


def write(path, events):
    with path.open("w", encoding="utf-8") as stream:
        dump(events, stream)
    return str(path)


def test_the_exit_code_tells_sound_from_unsound_from_unreadable(tmp_path, capsys):
    assert main([write(tmp_path / "sound", SOUND)]) == 0
    assert capsys.readouterr().out.endswith("The history is sound.\n")
    assert main([write(tmp_path / "unsound", UNSOUND)]) == 1
    out = capsys.readouterr().out
    assert "duplicate: 1: one sent record at several offsets" in out
    assert "'a' lies in t-0 at the offsets 0, 1, and was sent once" in out
    assert "#1 p ok send send 'a' to t-0 → offset 0" in out
    assert main([str(tmp_path / "absent")]) == 2
    (tmp_path / "broken").write_text('{"process": "p"\n', encoding="utf-8")
    assert main([str(tmp_path / "broken")]) == 2
    assert "line 1" in capsys.readouterr().err


def test_an_anomaly_can_be_allowed_and_the_report_be_json(tmp_path, capsys):
    assert main([write(tmp_path / "h", UNSOUND), "--allow", "duplicate", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["counts"] == {"duplicate": 1}
    assert report["anomalies"][0]["events"] == [1, 3]


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        "7",
        '{"process":"p","type":"ok","f":"fly","value":[]}',
        '{"process":"p","type":"ok","f":"crash","value":[]}',
        '{"process":"p","type":"info","f":"seek","value":[1]}',
        '{"process":"p","type":"ok","f":"send","value":[["send","t-0","a"]]}',
        '{"process":"p","type":"ok","f":"send","value":[["send","t-0",null,1]]}',
        '{"process":"p","type":"ok","f":"send","value":[["send","t-0","a",-1]]}',
        '{"process":"p","type":"ok","f":"poll","value":[["poll",[["t-0","a"]]]]}',
        '{"process":"p","type":"ok","f":"poll","value":[["look",[]]]}',
        '{"process":"p","type":"ok","f":"poll","value":[[]]}',
        '{"process":[],"type":"ok","f":"poll","value":[]}',
        '{"process":"p","type":[],"f":"poll","value":[]}',
    ],
)
def test_a_line_that_is_no_event_is_refused_with_its_number(line):
    with pytest.raises(HistoryError, match="line 2"):
        list(load(["", line]))


def test_events_that_cannot_follow_each_other_are_refused():
    begun = Event("p", "invoke", "send", (send("a"),))
    with pytest.raises(HistoryError, match="within another"):
        check([begun, begun])
    with pytest.raises(HistoryError, match="not begun"):
        check([Event("p", "ok", "send")])
    with pytest.raises(ValueError, match="no such anomaly"):
        check([], allowed=["rain"])


def test_a_recorder_takes_events_of_many_threads_and_writes_them_at_once(tmp_path):
    path = tmp_path / "history.jsonl"
    with path.open("w", encoding="utf-8") as stream:
        recorder = Recorder(stream)

        def record(name: str) -> None:
            for number in range(100):
                recorder.invoke(name, "send", [send(f"{name}-{number}")])
                recorder.complete(name, "info", "send", [send(f"{name}-{number}")])

        threads = [threading.Thread(target=record, args=(f"p{n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            joined(thread)
    with path.open(encoding="utf-8") as stream:
        assert list(load(stream)) == recorder.events
    assert check(recorder.events).undecided == 400
