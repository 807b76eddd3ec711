"""`make bench ONLY=…`: sections by name, and groups of them by their first words."""

from __future__ import annotations

import pytest
from benchmarks import sections


def chosen(names: str) -> list[str]:
    return [section.name for section in sections.named(names)]


def test_the_first_word_is_all_whose_names_begin_with_it() -> None:
    parts = {"security-authorizer", "security-storm", "security-tls", "security-small", "security-plain"}
    assert parts <= set(chosen("security"))
    assert all(name.startswith("security-") for name in chosen("security"))


def test_a_section_called_exactly_so_comes_alone() -> None:
    assert chosen("cluster, workers") == ["cluster", "workers"]


def test_a_section_comes_once() -> None:
    assert len(chosen("security-tls,security,security-tls")) == len(set(chosen("security")))


def test_half_a_word_is_no_name() -> None:
    with pytest.raises(ValueError, match="no section 'sec' or sec-…; there are: ready, "):
        sections.named("sec")


def test_no_name_is_no_section() -> None:
    assert chosen("") == []
