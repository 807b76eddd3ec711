"""The codec against Kafka's own bytes: every API, version, header and schema, in both directions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from odradek.wire.api import ApiKey, request_header_version, response_header_version
from odradek.wire.check import check_line, message_class, read_golden
from odradek.wire.messages import request_class, response_class

from .golden import GOLDEN, WIRE_FILES


@pytest.mark.parametrize("path", WIRE_FILES, ids=lambda path: path.name.split(".")[0])
def test_every_line_decodes_to_its_json_and_encodes_to_its_bytes(path: Path) -> None:
    lines = list(read_golden(path))
    differences = {
        f"{line['name']} {line['kind']} v{line['version']} {line['case']}": found
        for line in lines
        if (found := check_line(line))
    }
    assert lines
    assert not differences


def test_nothing_of_the_golden_data_is_missing() -> None:
    names = [path.relative_to(GOLDEN / "wire").as_posix() for path in WIRE_FILES]
    assert sum(name[0].isdigit() for name in names) == 80
    assert sum(name.startswith("schemas/") for name in names) == 59
    assert "headers.jsonl.gz" in names
    assert "also/067_AllocateProducerIds.jsonl.gz" in names


def test_versions_and_header_versions_are_those_of_the_golden_lines() -> None:
    versions: dict[type, set[int]] = {}
    for path in WIRE_FILES:
        for line in read_golden(path):
            cls = message_class(line["key"], line["name"], line["kind"])
            versions.setdefault(cls, set()).add(line["version"])
            assert line["kind"] == cls.KIND
            if line["kind"] == "request":
                assert request_header_version(line["key"], line["version"]) == line["header_version"]
            elif line["kind"] == "response":
                assert response_header_version(line["key"], line["version"]) == line["header_version"]
    assert {cls.__name__: set(cls.VERSIONS) for cls in versions} == {
        cls.__name__: found for cls, found in versions.items()
    }


def test_api_keys_are_those_of_kafkas_releases() -> None:
    rows = {row["key"]: row for row in json.loads((GOLDEN / "api_keys.json").read_text(encoding="utf-8"))}
    assert len(ApiKey) == 81
    for key in ApiKey:
        row = rows[key]
        assert (key.api_name, key.name, key.flexible_from) == (
            row["name"],
            row["constant"],
            row["flexible_from"],
        )
        newest = max(release["max"] for release in row["releases"].values() if release)
        for cls, suffix in ((request_class(key), "Request"), (response_class(key), "Response")):
            assert cls.__name__ == key.api_name + suffix
            assert cls.API_KEY is key
            assert range(newest + 1) == cls.VERSIONS
            assert key.flexible_from == cls.FLEXIBLE_FROM
