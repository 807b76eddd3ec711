"""The table of error codes is Kafka's, and every code has its exception."""

from __future__ import annotations

import json

import pytest

import odradek.errors
from odradek.errors import ErrorCode, KafkaError, UnknownServerError, UnknownTopicOrPartitionError, error_for

from .golden import GOLDEN

ROWS = json.loads((GOLDEN / "errors.json").read_text(encoding="utf-8"))


def test_codes_names_and_flags_are_kafkas() -> None:
    assert [(code.value, code.name, code.retriable, code.refreshes_metadata) for code in ErrorCode] == [
        (row["code"], row["name"], row["retriable"], row["refreshes_metadata"]) for row in ROWS
    ]
    assert len(ErrorCode) == 138


@pytest.mark.parametrize("row", [row for row in ROWS if row["code"]], ids=lambda row: row["name"])
def test_every_code_has_an_exception_named_after_kafkas(row: dict[str, object]) -> None:
    error = error_for(int(str(row["code"])))
    expected = str(row["exception"]).removesuffix("Exception")
    if expected == "Timeout":  # Python has a TimeoutError
        expected = "RequestTimedOut"
    assert type(error).__name__ == expected + "Error"
    assert getattr(odradek.errors, expected + "Error") is type(error)
    assert error.code == row["code"]
    assert (error.retriable, error.refreshes_metadata) == (row["retriable"], row["refreshes_metadata"])
    assert error.message == error.code.message
    assert error.message.endswith(".")


def test_a_message_of_the_peer_is_kept() -> None:
    error = error_for(3, "no topic 'x'")
    assert isinstance(error, UnknownTopicOrPartitionError)
    assert str(error) == error.message == "no topic 'x'"


def test_an_unknown_code_is_named() -> None:
    error = error_for(3000)
    assert isinstance(error, UnknownServerError)
    assert isinstance(error, KafkaError)
    assert "3000" in str(error)


def test_code_zero_is_no_error() -> None:
    with pytest.raises(ValueError, match="not an error"):
        error_for(0)


def test_other_names_are_not_there() -> None:
    with pytest.raises(AttributeError):
        odradek.errors.NoSuchThing  # type: ignore[attr-defined] # noqa: B018
