"""pytest fixtures; the broker is imported only by tests that ask for one.

    def test_it(odradek_broker): ...                       # a broker with all that there is

    @pytest.mark.odradek(num_partitions=3)                 # keywords of `odradek.testing.Broker`
    def test_it(odradek_broker): ...

    @pytest.mark.parametrize("odradek_broker", ["0.10.2", "2.2", "4.0"], indirect=True)
    def test_it(odradek_broker): ...                       # once per release of Kafka

`pytest --kafka-version 2.2,3.9` (or `all`) runs every test that uses `odradek_broker`, and says nothing of
releases itself, against those. A keyword that is no config fails the test, and says what may have been meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from odradek.testing.broker import Broker

FIXTURE = "odradek_broker"


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--kafka-version`."""
    parser.getgroup("odradek").addoption(
        "--kafka-version",
        metavar="X,Y",
        help=f"run tests with {FIXTURE} against brokers that are these releases of Kafka; or `all`",
    )


def pytest_configure(config: pytest.Config) -> None:
    """The marker `odradek`; releases that there are not are refused at once."""
    config.addinivalue_line("markers", f"odradek(**keywords): what {FIXTURE} is made with")
    if (text := config.getoption("--kafka-version", None)) is not None:
        _releases(text)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Once per release, when `--kafka-version` asks for it."""
    text = metafunc.config.getoption("--kafka-version")
    if text is None or FIXTURE not in metafunc.fixturenames:
        return
    for mark in metafunc.definition.iter_markers():
        names = str(mark.args[0]) if mark.name == "parametrize" else ""
        if FIXTURE in names or (mark.name == "odradek" and "kafka_version" in mark.kwargs):
            return
    metafunc.parametrize(FIXTURE, _releases(text), indirect=True)


def _releases(text: str) -> list[str]:
    from odradek.broker.kafka_versions.release import UnknownReleaseError, find, names

    if text == "all":
        return names()
    try:
        return [str(find(name)) for name in text.split(",")]
    except UnknownReleaseError as error:
        raise pytest.UsageError(f"--kafka-version: {error}") from None


@pytest.fixture
def odradek_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker of its own for one test, on a free port of 127.0.0.1, with nothing left behind.

    Its keywords come from the marker `odradek`, and from an indirect parameter: a dict of them, or the
    release of Kafka that it is to be.
    """
    from odradek.testing.broker import Broker

    keywords: dict[str, Any] = {}
    for mark in reversed(list(request.node.iter_markers("odradek"))):
        if mark.args:
            pytest.fail(
                f"the marker odradek takes keywords, as Broker does, not {mark.args!r}", pytrace=False
            )
        keywords.update(mark.kwargs)
    given = getattr(request, "param", None)
    keywords.update(
        given if isinstance(given, Mapping) else {} if given is None else {"kafka_version": given}
    )
    try:
        broker = Broker(**keywords)
    except TypeError as error:
        pytest.fail(f"{FIXTURE}: {error}", pytrace=False)
    with broker:
        yield broker
