"""Message types in the files of a registry's schema."""

from __future__ import annotations

import pytest

pytest.importorskip("grpc_tools.protoc")

from odradek.serdes.errors import SchemaError
from odradek.serdes.protobuf_files import Messages, file_of_registry, message_path

MAPS = """
syntax = "proto3";
message M { map<string, int32> a = 1; message N {} map<string, int32> b = 2; message O {} }
"""


def names(path: list[int]) -> list[str]:
    return [message.name for message in Messages(file_of_registry(MAPS, "m.proto")).at(path)]


def test_a_path_may_count_the_entries_of_maps_or_not() -> None:
    """As protobuf's own descriptors have it, the messages in M are AEntry, N, BEntry and O."""
    assert names([0]) == ["M"]
    assert names([0, 0]) == ["N"]
    assert names([0, 1]) == ["O", "N"]
    assert names([0, 3]) == ["O"]


@pytest.mark.parametrize("path", [[1], [-1], [0, 2], [0, 4], [0, 0, 0], []])
def test_a_path_that_leads_nowhere(path: list[int]) -> None:
    with pytest.raises(SchemaError, match="no message at the indexes"):
        names(path)


def test_the_path_to_a_message() -> None:
    messages = Messages(file_of_registry(MAPS, "m.proto"))
    assert message_path(messages.named("M")) == [0]
    assert message_path(messages.named("O")) == [0, 3]
