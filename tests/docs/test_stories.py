"""The ten stories of docs/testing.md, told for each client of Python; each page tells the same ten."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path

import pytest

from .stories import PAGE, STORIES, blocks_of, headings, is_story, module_of, pages


def _collect() -> None:
    """Make the tests of the pages tests of this module."""
    for page in pages():
        if not any(map(is_story, blocks_of(page, "python"))):
            continue  # it is of another language: tests/interop/test_stories.py
        try:
            tests = module_of(page)
        except ModuleNotFoundError as why:
            tests = {"test_stories": _skipping(str(why))}
        for name, test in tests.items():
            if page.stem == "kafka_python":
                test = _leaving_sockets(test)
            globals()[name.replace("test_", f"test_{page.stem}_", 1)] = test


def _skipping(why: str) -> Callable[[], None]:
    """Return a test that is skipped, where the page's client is not installed."""

    def skip() -> None:
        pytest.skip(why)

    return skip


def _leaving_sockets(test: Callable[..., object]) -> Callable[..., object]:
    """Return a test of kafka-python, which leaves a socket to the garbage collector when it is refused."""

    @pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
    @wraps(test)
    def run(**fixtures: object) -> None:
        test(**fixtures)
        gc.collect()  # not in another test

    return run


_collect()


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_each_page_tells_the_ten_stories(page: Path) -> None:
    assert [heading for heading in headings(page) if heading in STORIES] == list(STORIES)


def test_the_page_lists_the_stories_and_the_pages_at_its_top() -> None:
    top = PAGE.read_text(encoding="utf-8").partition("\n## ")[0]
    assert re.findall(r"^\d+\. \[(.+?)\]", top, re.MULTILINE) == list(STORIES)
    assert re.findall(r"\(testing/(\w+\.md)\)", top) == [
        "confluent_kafka.md",
        "kafka_python.md",
        "aiokafka.md",
        "java.md",
        "go.md",
    ]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_each_story_has_a_test(page: Path) -> None:
    """One more heading or block would hide that a story is not run."""
    text = page.read_text(encoding="utf-8")
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    for section in sections:
        title, _, body = section.partition("\n")
        if title in STORIES:
            assert re.search(r"def test_\w+\(|@(?:Parameterized)?Test\n|func Test\w+\(", body), (
                f"{page.name}: {title}"
            )
