"""Recorded conversations of real programs decode whole, headers included, and encode to the same frames."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.errors import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.check import read_golden
from odradek.wire.headers import (
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from odradek.wire.messages import request_class

from .golden import TRANSCRIPTS


def answer_version(key: int, version: int, frame: bytes) -> int:
    """The version of a response: its request's, but ApiVersions is refused in version 0 (KIP-511)."""
    refused = key == ApiKey.API_VERSIONS and frame[4:6] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")
    return 0 if refused else version


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.name.removesuffix(".jsonl.gz"))
def test_a_transcript_decodes_and_encodes(path: Path) -> None:
    seen = 0
    for line in read_golden(path):
        frame, key, version = bytes.fromhex(line["hex"]), line["key"], line["version"]
        if line["dir"] == "request":
            header, start = decode_request_header(memoryview(frame))
            assert (header.api_key, header.api_version, header.correlation_id) == (
                key,
                version,
                line["correlation"],
            )
            message, end = request_class(key).decode_from(memoryview(frame), version, start)
            assert end == len(frame)
            again = encode_request(key, version, header.correlation_id, header.client_id, message)
        else:
            version = answer_version(key, version, frame)
            correlation, message = decode_response(memoryview(frame), key, version)
            assert correlation == line["correlation"]
            again = encode_response(key, version, correlation, message)
        assert b"".join(again) == len(frame).to_bytes(4, "big") + frame
        seen += 1
    assert seen


def test_all_transcripts_are_there() -> None:
    assert len(TRANSCRIPTS) == 13
