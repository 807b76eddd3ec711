"""The paths of a control port that look inside: what `odradek.testing.looking` is in Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from odradek.testing.control.action import Action, Control
from odradek.testing.control.forms import (
    read_record,
    shown_commit,
    shown_group,
    shown_record,
    shown_request,
    shown_topic,
)
from odradek.testing.control.words import (
    FLAG,
    LIST,
    NEEDED,
    NUMBER,
    RANGE,
    TEXT,
    TEXTS,
    WHOLE,
    ControlRefusedError,
    Word,
    check_range,
)
from odradek.testing.looking.waiting import TIMEOUT_S

if TYPE_CHECKING:
    from odradek.testing.looking.inside import LookInside
    from odradek.testing.looking.records import StoredRecord
    from odradek.testing.looking.requests import RecordedRequest

T = TypeVar("T")

MOST_PARTITIONS = 10_000
_MOST_REQUESTS = 10_000
_MOST_SHOWN = 10_000
_LONGEST_S = 600
_ANY = "*"


def _last(name: str, items: Sequence[T], shown: Callable[[T], Any], limit: int) -> dict[str, Any]:
    """Return the last of some items, and how many there are in all."""
    return {"matched": len(items), name: [shown(item) for item in items[-limit:]]}


# ---------------------------------------------------------------------- requests


def _requests(control: Control, limit: int, **which: Any) -> dict[str, Any]:
    check_range("limit", limit, 1, _MOST_SHOWN)
    total = sum((broker.requests_by_api() for broker in control.controlled.brokers), Counter[str]())
    counts = {"counts": dict(sorted(total.items()))}
    said = _said(which)
    if control.controlled.kit.recorder is None and not said:
        return counts
    return counts | _shown_requests(control, _recorded(control).requests(**said), limit)


def _shown_requests(control: Control, requests: list[RecordedRequest], limit: int) -> dict[str, Any]:
    recorder = control.controlled.kit.recorder
    dropped = 0 if recorder is None else recorder.dropped
    return _last("requests", requests, shown_request, limit) | {"dropped": dropped}


def _said(which: dict[str, Any]) -> dict[str, Any]:
    said = {name: value for name, value in which.items() if value is not None}
    if "versions" in said:
        first, last = said["versions"]
        said["versions"] = range(first, last + 1)
    return said


def _recorded(control: Control) -> LookInside:
    if control.controlled.kit.recorder is None:
        raise ControlRefusedError(
            409, "no requests are recorded", "POST /requests records those that come from then on"
        )
    return control.controlled.kit


def _record_requests(control: Control, most: int) -> dict[str, Any]:
    check_range("most", most, 1, _MOST_REQUESTS)
    control.controlled.kit.record_requests(most)
    return {}


def _forget_requests(control: Control) -> dict[str, Any]:
    control.controlled.kit.forget_requests()
    return {}


# ---------------------------------------------------------------------- records, topics, groups


def _records(control: Control, topic: str, partition: int | None, committed: bool, limit: int) -> Any:
    check_range("limit", limit, 1, _MOST_SHOWN)
    records = control.controlled.running_kit().records(topic, partition, committed=committed)
    return _shown_records(records, limit)


def _shown_records(records: list[StoredRecord], limit: int) -> dict[str, Any]:
    return _last("records", records, shown_record, limit)


def _topics(control: Control) -> dict[str, Any]:
    topics = control.controlled.running_kit().topics()
    return {name: shown_topic(topic) for name, topic in topics.items()}


def _groups(control: Control) -> dict[str, Any]:
    groups = control.controlled.running_kit().groups()
    return {name: shown_group(group) for name, group in groups.items()}


def _seed(
    control: Control,
    topic: str,
    records: list[Any],
    partition: int | None,
    partitions: int,
    transaction: str | None,
) -> dict[str, Any]:
    check_range("partitions", partitions, 1, MOST_PARTITIONS)
    if transaction not in (None, "committed", "aborted"):
        raise ControlRefusedError(400, f"transaction is {transaction!r:.80}", "it is committed or aborted")
    sent = control.controlled.running_kit().seed(
        topic,
        [read_record(record) for record in records],
        partition=partition,
        partitions=partitions,
        transaction=transaction,  # type: ignore[arg-type]
    )
    return {"sent": sent}


# ---------------------------------------------------------------------- waits


def _check_timeout(timeout_s: float) -> None:
    check_range("timeout_s", timeout_s, 0, _LONGEST_S, ", in seconds")


def _wait_for_records(control: Control, limit: int, **words: Any) -> dict[str, Any]:
    check_range("limit", limit, 1, _MOST_SHOWN)
    _check_timeout(words["timeout_s"])
    return _shown_records(control.controlled.kit.wait_for_records(**words), limit)


def _wait_for_group(control: Control, state: str, **words: Any) -> dict[str, Any]:
    _check_timeout(words["timeout_s"])
    group = control.controlled.kit.wait_for_group(state=None if state == _ANY else state, **words)
    return shown_group(group)


def _wait_for_commit(control: Control, **words: Any) -> dict[str, Any]:
    _check_timeout(words["timeout_s"])
    return shown_commit(control.controlled.kit.wait_for_commit(**words))


def _wait_for_request(
    control: Control, limit: int, times: int, timeout_s: float, **which: Any
) -> dict[str, Any]:
    check_range("limit", limit, 1, _MOST_SHOWN)
    _check_timeout(timeout_s)
    requests = _recorded(control).wait_for_request(times=times, timeout_s=timeout_s, **_said(which))
    return _shown_requests(control, requests, limit)


_LIMIT = {"limit": Word(WHOLE, 1000)}
_TIMEOUT = {"timeout_s": Word(NUMBER, TIMEOUT_S)}
_WHICH_REQUESTS = {
    "apis": Word(TEXTS),
    "versions": Word(RANGE),
    "topic": Word(TEXT),
    "partition": Word(WHOLE),
    "group": Word(TEXT),
    "transactional_id": Word(TEXT),
    "client_id": Word(TEXT),
    "listener": Word(TEXT),
    "between_brokers": Word(FLAG),
}
_WHICH_RECORDS = {
    "topic": Word(TEXT, NEEDED),
    "partition": Word(WHOLE),
    "committed": Word(FLAG, False),
}
_WAITS = {
    "records": Action(
        _wait_for_records,
        "wait until a topic has so many records: else 409",
        _WHICH_RECORDS | {"count": Word(WHOLE, 1)} | _TIMEOUT | _LIMIT,
        waits=True,
    ),
    "group": Action(
        _wait_for_group,
        "wait until a group is in a state, * for any, and has so many members: else 409",
        {"group": Word(TEXT, NEEDED), "members": Word(WHOLE), "state": Word(TEXT, "Stable")} | _TIMEOUT,
        waits=True,
    ),
    "commit": Action(
        _wait_for_commit,
        "wait until a group has committed an offset, or a later one: else 409",
        {
            "group": Word(TEXT, NEEDED),
            "topic": Word(TEXT, NEEDED),
            "partition": Word(WHOLE, 0),
            "offset": Word(WHOLE, 0),
        }
        | _TIMEOUT,
        waits=True,
    ),
    "request": Action(
        _wait_for_request,
        "wait until so many such requests have been recorded: else 409",
        _WHICH_REQUESTS | {"times": Word(WHOLE, 1)} | _TIMEOUT | _LIMIT,
        waits=True,
    ),
}

REQUESTS = (
    "GET",
    "/requests",
    Action(
        _requests,
        "how many requests of each API have come; those that were recorded, with their bodies",
        _WHICH_REQUESTS | _LIMIT,
    ),
)
LOOKING: tuple[tuple[str, str, Action], ...] = (
    REQUESTS,
    (
        "POST",
        "/requests",
        Action(
            _record_requests,
            "record the requests that come from now on, and forget those before; so many at most",
            {"most": Word(WHOLE, _MOST_REQUESTS)},
        ),
    ),
    ("DELETE", "/requests", Action(_forget_requests, "record no more, and forget what was recorded")),
    ("GET", "/records", Action(_records, "the records of a topic", _WHICH_RECORDS | _LIMIT)),
    ("GET", "/topics", Action(_topics, "the topics, with their offsets and configs")),
    ("GET", "/groups", Action(_groups, "the groups, with members, assignments, offsets and lags")),
    (
        "POST",
        "/seed",
        Action(
            _seed,
            "put records into a topic, which is made if it is not there",
            {
                "topic": Word(TEXT, NEEDED),
                "records": Word(LIST, NEEDED),
                "partition": Word(WHOLE),
                "partitions": Word(WHOLE, 1),
                "transaction": Word(TEXT),
            },
            # A full disk holds it up until somebody makes room.
            waits=True,
        ),
    ),
    *(("POST", f"/wait_for/{name}", action) for name, action in _WAITS.items()),
)
