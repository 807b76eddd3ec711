"""A request in two and its answers in one: nothing is lost, for every API that names something, in every
version."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from random import Random
from typing import Any

import pytest

from odradek.broker.apis.registry import SERVED, Handler, Handlers
from odradek.broker.requests.handler_types import Refused
from odradek.errors import ErrorCode
from odradek.testing.faults.names import Names, kind_of, lists_of_parts, parts
from odradek.testing.faults.parting import failed, merge, order, part, speaks_of
from odradek.wire.api import ApiKey
from odradek.wire.messages import request_class, response_class
from odradek.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from odradek.wire.structs import Struct

_FIRST, _SECOND = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER
_handlers = Handlers()


@cache
def handler(key: int) -> Handler:
    found = _handlers.get(key)
    assert found is not None
    return found


WITH_PARTS = [
    pytest.param(key, version, id=f"{ApiKey(key).api_name}-{version}")
    for key, served in SERVED.items()
    for version in served.versions
    if any(version in field.versions for field in lists_of_parts(request_class(key)))
]


class Maker:
    """Makes requests that name many things, each once."""

    def __init__(self, version: int, random: Random) -> None:
        self.version = version
        self.random = random
        self.count = 0

    def request(self, cls: type[Any], container: str = "") -> Any:
        struct = cls()
        for field in cls.FIELDS:
            if self.version not in field.versions:
                continue
            if field in lists_of_parts(cls):
                setattr(struct, field.name, self.items(field))
            elif kind_of(field, container) is not None or field.name == "resource_name":
                setattr(struct, field.name, self.name(field.kind))
            elif field.name == "resource_type":
                struct.resource_type = 2
        return struct

    def items(self, field: Any) -> list[Any]:
        inner = field.element.struct
        count = self.random.randint(1, 4)
        return [
            self.request(inner, field.name) if inner is not None else self.name(field.element.kind)
            for _ in range(count)
        ]

    def name(self, kind: str) -> Any:
        self.count += 1
        # Not in the order of the numbers: nothing is sorted by accident.
        number = self.count * 7919 % 1009
        return {"string": f"n{number}", "uuid": number.to_bytes(16)}.get(kind, number)


def halving(random: Random) -> Callable[[Names], bool]:
    """Choose parts by chance, each for itself."""
    chosen: dict[str, bool] = {}
    return lambda names: chosen.setdefault(repr(sorted(names.items())), random.random() < 0.5)


def counted(message: Any) -> Counter[str]:
    return Counter(repr(sorted(names.items())) for names in parts(message))


def without_parts(message: Any) -> Any:
    bare = deepcopy(message)
    for field in lists_of_parts(type(message)):
        setattr(bare, field.name, [])
    return bare


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("key", "version"), WITH_PARTS)
def test_each_part_is_in_one_half(key: int, version: int, seed: int) -> None:
    random = Random(seed)
    request = Maker(version, random).request(request_class(key))
    before = deepcopy(request)
    meets = halving(random)
    rest, met = part(request, meets)
    assert request == before
    assert sum(map(counted, filter(None, (rest, met))), Counter()) == counted(request)
    for half, wanted in ((rest, False), (met, True)):
        if half is not None:
            assert all(meets(names) is wanted for names in parts(half))
            assert without_parts(half) == without_parts(request)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("key", "version"), WITH_PARTS)
def test_two_answers_in_one_are_as_one_answer_to_all(key: int, version: int, seed: int) -> None:
    random = Random(seed)
    request = Maker(version, random).request(request_class(key))
    rest, met = part(request, halving(random))
    if rest is None or met is None:
        return
    makers: list[Callable[[Any, ErrorCode], Any]] = [
        lambda asked, error: failed(response_class(key), version, parts(asked), error)
    ]
    make = handler(key).error_response
    if make is not None:
        makers.append(lambda asked, error: make(Refused(asked, version, error, "")))
    for answer in makers:
        whole = answer(request, _FIRST)
        if whole is None or not any(getattr(whole, field.name) for field in lists_of_parts(type(whole))):
            continue
        if speaks_of(answer(met, _FIRST), rest):
            assert answer is not makers[0]
            continue  # of groups, some topics of which are in either half
        merged = answer(rest, _FIRST)
        merge(merged, answer(met, _FIRST))
        order(merged, request)
        assert merged == whole
        mixed = answer(rest, _FIRST)
        merge(mixed, answer(met, _SECOND))
        order(mixed, request)
        assert counted(mixed) == counted(whole)
        codes = {_FIRST: rest, _SECOND: met}
        assert Counter(codes_of(mixed)) >= Counter(
            {int(code): len(codes_of(answer(half, code))) for code, half in codes.items()}
        ) - Counter(codes_on_top(whole))


def codes_of(value: Any) -> list[int]:
    """The error codes that a response has anywhere."""
    if isinstance(value, list):
        return [code for item in value for code in codes_of(item)]
    if not isinstance(value, Struct):
        return []
    codes = []
    for field in value.FIELDS:
        content = getattr(value, field.name)
        if field.name in ("error_code", "partition_error_code") and content:
            codes.append(content)
        codes += codes_of(content)
    return codes


def codes_on_top(response: Any) -> dict[int, int]:
    return dict.fromkeys((int(_FIRST), int(_SECOND)), int(bool(getattr(response, "error_code", 0))))


def test_every_api_whose_requests_name_topics_can_be_parted_or_has_no_place_for_errors() -> None:
    """Which have no place is known, and said to whoever asks for it."""
    without = set()
    for key, served in SERVED.items():
        version = served.versions[-1]
        request = Maker(version, Random(0)).request(request_class(key))
        names = [one for one in parts(request) if one.keys() & {"topic", "topic_id"}]
        if names and failed(response_class(key), version, names, _FIRST) is None:
            without.add(ApiKey(key).api_name)
    assert without == {
        "CreateAcls",
        "DescribeLogDirs",
        "ListPartitionReassignments",
        "UpdateMetadata",
    }


def test_a_topic_may_be_named_by_its_id_in_the_request_and_by_both_in_the_answer() -> None:
    ids = [bytes([number]) * 16 for number in (1, 2, 3)]
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=one) for one in ids])
    response = DeleteTopicsResponse(
        responses=[DeletableTopicResult(name=f"t{one[0]}", topic_id=one) for one in reversed(ids)]
    )
    order(response, request)
    assert [one.topic_id for one in response.responses] == ids
    by_name = DeleteTopicsRequest(topics=[DeleteTopicState(name=f"t{number}") for number in (3, 1, 2)])
    order(response, by_name)
    assert [one.name for one in response.responses] == ["t3", "t1", "t2"]


def test_what_is_named_twice_stays_twice() -> None:
    request = DeleteTopicsRequest(topic_names=["a", "b", "a"])
    rest, met = part(request, lambda names: names["topic"] == "a")
    assert (rest.topic_names, met.topic_names) == (["b"], ["a", "a"])
    response = failed(DeleteTopicsResponse, 5, parts(rest), _FIRST)
    merge(response, failed(DeleteTopicsResponse, 5, parts(met), _SECOND))
    order(response, request)
    assert [one.name for one in response.responses][-1:] == ["b"]
