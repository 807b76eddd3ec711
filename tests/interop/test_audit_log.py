"""The audit log beside a live Kafka's: the matrix of `broker/authorizer/acl_matrix.py` is asked of both,
and each case's lines of `kafka.authorizer.logger` are compared, with their levels.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.authorizer.acl_matrix import Case, cases, cases_of_kraft
from broker.authorizer.acl_matrix_side import Side
from broker.authorizer.test_acl_matrix import asked_of_ours
from interop import kafka_peer
from interop.test_acl_matrix import asked_of_kafka
from odradek.broker.authorizer.audit import LOGGER_NAME, TRACE
from odradek.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

pytestmark = pytest.mark.interop

Line = tuple[str, str]
"""Level and words."""

_LINE = re.compile(r"^\[[^\]]*\] (\w+) (Principal = .*) \(kafka\.authorizer\.logger\)$")
_OF_BROKERS = "Principal = User:ANONYMOUS "
"""By which Kafka's brokers, and its controller, talk to each other."""

_ASKED_ELSEWHERE = {
    # KRaft's controller asks first whether all topics may be deleted; and whether configs of topics that are
    # not created could be seen.
    "CreateTopics",
    "DeleteTopics",
}
_ANY_TOPIC = "on resource = Topic:LITERAL:hardcode for request = InitProducerId"
"""Whether a user may write to any topic at all, KRaft's authorizer tells of a topic that it makes up."""


def of_kafka(folder: Path, side: Side, wanted: Iterable[Case]) -> Iterator[tuple[Case, set[Line]]]:
    """Each case's lines, out of the broker's log: a line is there before the answer is."""
    logger = AlterConfigsResource(
        resource_type=8,
        resource_name="1",
        configs=[AlterableConfig(name=LOGGER_NAME, config_operation=0, value="TRACE")],
    )
    answer = side.admin.call(IncrementalAlterConfigsRequest(resources=[logger]), 1)
    assert answer.responses[0].error_code == 0
    with (folder / "broker.log").open() as log:
        log.read()
        for case in wanted:
            side.ask(case)
            found = map(_LINE.match, log.read().splitlines())
            yield case, {one.group(1, 2) for one in found if one and not one[2].startswith(_OF_BROKERS)}


class _Lines(logging.Handler):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[Line] = []

    def emit(self, record: logging.LogRecord) -> None:
        level = "TRACE" if record.levelno == TRACE else record.levelname
        self.lines.append((level, record.getMessage()))

    def taken(self) -> set[Line]:
        lines, self.lines = self.lines, []
        return set(lines)


@contextmanager
def lines_of_ours() -> Iterator[_Lines]:
    logger, kept = logging.getLogger(LOGGER_NAME), _Lines()
    level, propagate = logger.level, logger.propagate
    logger.setLevel(TRACE)
    logger.propagate = False
    logger.addHandler(kept)
    try:
        yield kept
    finally:
        logger.removeHandler(kept)
        logger.setLevel(level)
        logger.propagate = propagate


def kind_of_rule(lines: set[Line]) -> set[Line]:
    """Where several ACLs allow the same, Kafka names the one that is first in an order of its own."""
    return {(level, re.sub(r"MatchingAcl\(.*\)", "MatchingAcl", words)) for level, words in lines}


def test_each_line_is_the_newest_kafkas(tmp_path: Path) -> None:
    standard = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    with asked_of_kafka(kafka_peer.NEWEST, standard, tmp_path) as side:
        theirs = {case.label: (case, lines) for case, lines in of_kafka(tmp_path, side, cases_of_kraft())}
    wrong, to_the_letter = [], 0
    with asked_of_ours() as (side, _), lines_of_ours() as kept:
        for label, (case, expected) in theirs.items():
            kept.taken()
            side.ask(case)
            ours = kept.taken()
            expected = {one for one in expected if _ANY_TOPIC not in one[1]}
            if case.asked.api.api_name == "InitProducerId":
                ours = {one for one in ours if "resource = Topic:" not in one[1]}
            if case.asked.api.api_name in _ASKED_ELSEWHERE:
                continue
            to_the_letter += ours == expected
            if kind_of_rule(ours) != kind_of_rule(expected):
                wrong.append(f"{label}\n   kafka {sorted(expected)}\n   ours  {sorted(ours)}")
    assert not wrong, f"{len(wrong)} of {len(theirs)}:\n" + "\n".join(wrong)
    assert to_the_letter > 1_700


_OPERATION = re.compile(r"Operation = (\w+)")
_CONFIGS_OF = "operation = DESCRIBE_CONFIGS from host"
"""A Kafka with ZooKeeper asks whether these could be seen, of topics that could not be created, too."""


def in_words_of_today(lines: set[Line]) -> set[Line]:
    """What `AclAuthorizer` writes, as `StandardAuthorizer` would, but for the rule."""
    return {
        (level, _OPERATION.sub(lambda one: f"operation = {_upper(one[1])}", words)) for level, words in lines
    }


def _upper(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()


def test_each_line_says_what_that_of_3_9_with_zookeeper_says(tmp_path: Path) -> None:
    """Which has older words, and names no rule."""
    authorizer = "kafka.security.authorizer.AclAuthorizer"
    with asked_of_kafka("3.9.1", authorizer, tmp_path) as side:
        theirs = {case.label: (case, lines) for case, lines in of_kafka(tmp_path, side, cases())}
    wrong = []
    with asked_of_ours(kafka_version="3.9") as (side, _), lines_of_ours() as kept:
        for label, (case, lines) in theirs.items():
            kept.taken()
            side.ask(case)
            ours = {(level, words.partition(" based on rule ")[0]) for level, words in kept.taken()}
            expected = in_words_of_today(lines)
            if case.asked.api.api_name == "CreateTopics":
                ours, expected = without_configs(ours), without_configs(expected)
            if ours != expected:
                wrong.append(f"{label}\n   kafka {sorted(expected)}\n   ours  {sorted(ours)}")
    assert not wrong, f"{len(wrong)} of {len(theirs)}:\n" + "\n".join(wrong)


def without_configs(lines: set[Line]) -> set[Line]:
    return {one for one in lines if _CONFIGS_OF not in one[1]}
