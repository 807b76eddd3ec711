"""A fault as data: its form, what it matches, how often, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from odradek.broker.apis.registry import SERVED, Handlers
from odradek.errors import ErrorCode, NotLeaderOrFollowerError, error_for
from odradek.testing.faults.calls import Calls
from odradek.testing.faults.checks import FaultRefusedError, api_names, error_name, versions_met
from odradek.testing.faults.errors import _ERRORS, errors_of
from odradek.testing.faults.fault import Asked, Fault
from odradek.testing.faults.names import Names
from odradek.testing.faults.sentences import FaultSentences
from odradek.wire.api import ApiKey
from odradek.wire.messages import request_class


class Said(FaultSentences):
    """Sentences as data."""

    def set_fault(self, fault: Fault, *, broker: int | None = None) -> Any:
        self.broker = broker
        return fault

    def cut_client(self, client_id: str) -> Any:
        raise AssertionError(client_id)


SAID: Any = Said()
HANDLERS = Handlers()


def met(fault: Fault, handlers: Handlers = HANDLERS) -> dict[str, tuple[int, int]]:
    """The first and last version of each API that a fault may meet."""
    versions = versions_met(fault, handlers)
    return {ApiKey(key).api_name: (met[0], met[-1]) for key, met in versions.items()}


# ---------------------------------------------------------------------- forms


@pytest.mark.parametrize(
    ("fault", "document"),
    [
        (
            SAID.fail("Produce", NotLeaderOrFollowerError, times=2, topic="orders"),
            {
                "effect": "fail",
                "apis": ["Produce"],
                "error": "NOT_LEADER_OR_FOLLOWER",
                "times": 2,
                "topic": "orders",
            },
        ),
        (SAID.delay("Fetch", 200, partition=0), {"apis": ["Fetch"], "delay_ms": 200, "partition": 0}),
        (
            SAID.drop([0, ApiKey.FETCH], after=True, versions=range(3, 9)),
            {"effect": "drop", "apis": ["Produce", "Fetch"], "after": True, "versions": [3, 8]},
        ),
        (SAID.hang("*", versions=2), {"effect": "hang", "apis": ["*"], "versions": [2, 2]}),
        (SAID.truncate("Fetch", 7), {"effect": "truncate", "bytes_sent": 7}),
        (SAID.throttle("Fetch", 7, seed=3, probability=0.5), {"throttle_ms": 7, "probability": 0.5}),
    ],
)
def test_a_fault_has_one_form_in_json(fault: Fault, document: dict[str, Any]) -> None:
    shown = fault.to_json()
    assert document.items() <= shown.items()
    assert set(shown) <= set(document) | {"effect", "apis", "seed"}
    assert Fault.from_json(json.loads(json.dumps(shown))) == fault


def test_a_key_that_there_is_not_is_refused_with_what_was_meant() -> None:
    with pytest.raises(TypeError, match="no 'topik', did you mean topic"):
        Fault.from_json({"effect": "hang", "apis": ["Fetch"], "topik": "t"})
    with pytest.raises(TypeError, match="no 'partitions', did you mean partition"):
        SAID.hang("Fetch", partitions=0)


@pytest.mark.parametrize(
    ("kwargs", "what"),
    [
        ({"nth": 0}, "nth=0: it is counted from 1"),
        ({"times": 0}, "times=0"),
        ({"probability": 0}, "probability=0"),
        ({"probability": 1.5}, "probability=1.5"),
        ({"versions": range(3, 3)}, "there are none"),
    ],
)
def test_numbers_out_of_their_range_are_refused(kwargs: dict[str, Any], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        SAID.hang("Fetch", **kwargs)


def test_numbers_of_effects_are_checked() -> None:
    for say in (lambda: SAID.delay("Fetch", 0), lambda: SAID.throttle("Fetch", 0)):
        with pytest.raises(ValueError, match="above 0"):
            say()
    with pytest.raises(ValueError, match="effect='explode'"):
        Fault(effect="explode", apis=("Fetch",))


def test_a_fault_says_what_it_is() -> None:
    said = SAID.fail(["Produce", "Fetch"], 6, topic="orders", partition=0, nth=3)
    assert str(said) == "fail with NOT_LEADER_OR_FOLLOWER: Produce, Fetch topic='orders' partition=0 nth=3"
    assert str(SAID.drop("Fetch", after=True, versions=4)) == "drop after the work: Fetch versions 4 to 4"


def test_apis_and_errors_by_any_name() -> None:
    assert api_names("Produce") == api_names(0) == api_names(ApiKey.PRODUCE) == ("Produce",)
    names = {error_name(error) for error in (NotLeaderOrFollowerError, NotLeaderOrFollowerError(), 6)}
    assert names | {error_name(ErrorCode.NOT_LEADER_OR_FOLLOWER)} == {error_name("NOT_LEADER_OR_FOLLOWER")}
    for wrong, meant in (("produce", "Produce"), ("JOIN_GROUP", "JoinGroup"), ("FetchRequest", "Fetch")):
        with pytest.raises(FaultRefusedError, match=f"did you mean '{meant}'"):
            api_names(wrong)
    with pytest.raises(FaultRefusedError, match="did you mean NOT_LEADER_OR_FOLLOWER"):
        error_name("not_leader_of_follower")
    for nonsense in ("NONE", 0, 4711, ValueError):
        with pytest.raises(FaultRefusedError):
            error_name(nonsense)  # type: ignore[arg-type]
    with pytest.raises(FaultRefusedError, match="4711"):
        api_names(4711)
    with pytest.raises(FaultRefusedError, match="no API"):
        api_names([])


# ---------------------------------------------------------------------- matching


def asked(*parts: Names, **changes: Any) -> Asked:
    return Asked(5, "me", "PLAINTEXT", parts or ({},))._replace(**changes)


@pytest.mark.parametrize(
    ("fault", "request_", "reason"),
    [
        (SAID.hang("Fetch"), asked(), None),
        (SAID.hang("Fetch", topic="a"), asked({"topic": "b"}, {"topic": "a"}), None),
        (SAID.hang("Fetch", topic="a"), asked({"topic": "b"}), "names topic 'b'"),
        (SAID.hang("Fetch", topic="a"), asked(), "names nothing"),
        (
            SAID.hang("Fetch", topic="a", partition=1),
            asked({"topic": "a", "partition": 0}, {"topic": "b", "partition": 1}),
            "names topic 'a', partition 0; topic 'b', partition 1",
        ),
        (SAID.hang("Fetch", partition=0), asked({"topic": "a", "partition": 0}), None),
        (SAID.hang("Heartbeat", group="g"), asked({"group": "h"}), "names group 'h'"),
        (SAID.hang("Fetch", client_id="you"), asked(), "client 'me', not 'you'"),
        (SAID.hang("Fetch", listener="SSL"), asked(), "listener PLAINTEXT, not SSL"),
        (SAID.hang("Fetch"), asked(version=9), "version 9, not 5 to 7"),
        (SAID.truncate("Produce"), asked(is_answered=False), "acks=0, which has no answer"),
    ],
)
def test_a_request_is_met_or_why_not(fault: Fault, request_: Asked, reason: str | None) -> None:
    assert fault.miss(request_, (5, 6, 7)) == reason


@pytest.mark.parametrize(
    ("which", "of_ten"),
    [
        ({}, range(1, 11)),
        ({"times": 3}, [1, 2, 3]),
        ({"nth": 4}, [4]),
        ({"nth": 4, "times": 2}, [4, 5]),
        ({"probability": 1.0, "times": 2}, [1, 2]),
    ],
)
def test_which_of_the_requests_that_match_are_met(which: dict[str, Any], of_ten: Any) -> None:
    calls = Calls(SAID.hang("Fetch", **which))
    assert [number for number in range(1, 11) if calls.next()] == list(of_ten)
    assert (calls.matched, calls.met) == (10, len(of_ten))


def test_a_probability_is_drawn_by_its_seed() -> None:
    def drawn(seed: int) -> list[bool]:
        calls = Calls(SAID.hang("Fetch", probability=0.3, seed=seed))
        return [calls.next() for _ in range(1000)]

    assert drawn(1) == drawn(1) != drawn(2)
    assert 200 < sum(drawn(1)) < 400


# ---------------------------------------------------------------------- what a broker may be asked to do


@pytest.mark.parametrize(
    ("fault", "versions"),
    [
        (SAID.hang("Fetch"), {"Fetch": (0, 18)}),
        (SAID.hang("Fetch", versions=range(4, 9)), {"Fetch": (4, 8)}),
        (SAID.fail("Fetch", "FETCH_SESSION_ID_NOT_FOUND"), {"Fetch": (7, 18)}),
        (SAID.fail("EndTxn", "PRODUCER_FENCED"), {"EndTxn": (2, 5)}),
        (SAID.fail("EndTxn", "INVALID_PRODUCER_EPOCH"), {"EndTxn": (0, 1)}),
        (SAID.fail("EndTxn", "INVALID_PRODUCER_EPOCH", anyway=True), {"EndTxn": (0, 5)}),
        (SAID.fail("ListGroups", "NOT_CONTROLLER"), {"ListGroups": (0, 5)}),
        (SAID.hang("FindCoordinator", transactional_id="t"), {"FindCoordinator": (0, 6)}),
        (SAID.fail(["Produce", "Metadata"], 3, topic="t"), {"Produce": (0, 13), "Metadata": (0, 13)}),
        (SAID.hang("LeaderAndIsr", between_brokers=True), {"LeaderAndIsr": (0, 7)}),
    ],
)
def test_the_versions_that_a_fault_may_meet(fault: Fault, versions: dict[str, tuple[int, int]]) -> None:
    assert met(fault) == versions


def test_all_apis_are_those_in_which_the_fault_may_be() -> None:
    served = {ApiKey(key).api_name for key, entry in SERVED.items() if entry.listed}
    assert set(met(SAID.hang("*"))) == served - {"SaslHandshake", "SaslAuthenticate"}
    assert set(met(SAID.hang("*", transactional_id="t"))) == {
        "Produce",
        "FindCoordinator",
        "InitProducerId",
        "AddPartitionsToTxn",
        "AddOffsetsToTxn",
        "EndTxn",
        "TxnOffsetCommit",
        "DescribeTransactions",
        "CreateAcls",
        "DescribeConfigs",
        "AlterConfigs",
        "IncrementalAlterConfigs",
    }
    with pytest.raises(FaultRefusedError, match="no API may have this fault"):
        met(SAID.hang("*", versions=100))


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (SAID.hang("ListGroups", topic="t"), "ListGroups: its requests name no topic"),
        (SAID.hang("Metadata", partition=1), "Metadata: its requests name no partition"),
        (SAID.hang("Produce", transactional_id="t", versions=2), "name no transactional_id"),
        (SAID.hang("Fetch", versions=99), "versions 99 to 99 are not answered .0 to 18 are"),
        (SAID.hang("ShareFetch"), "ShareFetch: this broker does not answer it"),
        (SAID.hang("SaslHandshake"), "logins are answered before"),
        (SAID.throttle("SaslHandshake", 1), "logins are answered before"),
        (SAID.throttle("WriteTxnMarkers", 1), "no quota throttles it"),
        (SAID.fail("DescribeLogDirs", -1, topic="t"), "no place for the error of a part of a request"),
        (SAID.fail("Fetch", "FETCH_SESSION_ID_NOT_FOUND", versions=6), "no place for the error of a request"),
        (SAID.fail("Heartbeat", "MESSAGE_TOO_LARGE"), "does not answer it with MESSAGE_TOO_LARGE; it does"),
        (SAID.fail("EndTxn", "PRODUCER_FENCED", versions=1), "in versions 2[+], not in 1 to 1"),
    ],
)
def test_what_can_never_match_is_refused_with_the_reason(fault: Fault, reason: str) -> None:
    with pytest.raises(FaultRefusedError, match=reason):
        met(fault)


def test_a_release_answers_what_it_knows() -> None:
    old = Handlers.of_release("0.10.2")
    with pytest.raises(FaultRefusedError, match=r"Kafka 0\.10\.2 does not answer it"):
        met(SAID.hang("InitProducerId"), old)
    with pytest.raises(FaultRefusedError, match=r"Kafka 0\.10\.2 knows those up to 44"):
        met(SAID.fail("Produce", "KAFKA_STORAGE_ERROR"), old)
    assert met(SAID.fail("Produce", "NOT_ENOUGH_REPLICAS"), old) == {"Produce": (0, 2)}


def test_every_error_of_the_table_can_be_said() -> None:
    for key in _ERRORS:
        for error in errors_of(key) or ():
            fault = SAID.fail(key, error)
            first, last = met(fault)[key.api_name]
            assert first <= last in request_class(key).VERSIONS
            assert error_for(error).code == error
