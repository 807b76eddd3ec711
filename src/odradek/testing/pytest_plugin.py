"""pytest fixtures; the broker is imported only by tests that ask for one.

    def test_it(odradek_broker): ...                       # a broker with all that there is

    @pytest.mark.odradek(num_partitions=3)                 # keywords of `odradek.testing.Broker`
    def test_it(odradek_broker): ...

    @pytest.mark.parametrize("odradek_broker", ["0.10.2", "2.2", "4.0"], indirect=True)
    def test_it(odradek_broker): ...                       # once per release of Kafka

    @pytest.mark.odradek(brokers=2)                        # those of `odradek.testing.Cluster`
    def test_it(odradek_cluster): ...

    def test_it(odradek_broker, odradek_schema_registry): ...

`pytest --kafka-versions 2.2,3.9` (or `all`) runs every test that uses `odradek_broker` or `odradek_cluster`,
and says nothing of releases itself, against those; their brokers are as unready as real ones (`unready`),
unless there is `--no-odradek-unready`. `--odradek-unready` makes the brokers of all tests so. A keyword that
is no config fails the test, and says what may have been meant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from odradek.testing.broker import Broker
    from odradek.testing.cluster import Cluster
    from odradek.testing.schema_registry import SchemaRegistry

T = TypeVar("T")

BROKER, CLUSTER = "odradek_broker", "odradek_cluster"


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--kafka-versions`, `--odradek-unready`."""
    group = parser.getgroup("odradek")
    group.addoption(
        "--kafka-versions",
        "--kafka-version",
        metavar="X,Y",
        help=f"run tests with {BROKER} or {CLUSTER} against these releases of Kafka; or `all`",
    )
    group.addoption(
        "--odradek-unready",
        action="store_true",
        default=None,
        help="make brokers as unready as real ones, where a test does not say `unready`; so they are with "
        "--kafka-versions",
    )
    group.addoption(
        "--no-odradek-unready",
        dest="odradek_unready",
        action="store_false",
        help="make brokers ready at once, with --kafka-versions too",
    )


def pytest_configure(config: pytest.Config) -> None:
    """The marker `odradek`; releases that there are not are refused at once."""
    config.addinivalue_line("markers", f"odradek(**keywords): what {BROKER} or {CLUSTER} is made with")
    if (text := config.getoption("--kafka-versions", None)) is not None:
        _releases(text)


def pytest_report_header(config: pytest.Config) -> str | None:
    """The seed of brokers that are not ready at once."""
    if not _is_unready(config):
        return None
    from odradek.testing.unready.seed import SEED, default_seed

    return f"odradek: brokers as unready as real ones, seed {default_seed()} ({SEED})"


def _is_unready(config: pytest.Config) -> bool:
    said: bool | None = config.getoption("odradek_unready", None)
    return config.getoption("--kafka-versions", None) is not None if said is None else said


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Once per release, when `--kafka-versions` asks for it."""
    text = metafunc.config.getoption("--kafka-versions")
    if text is None:
        return
    for fixture in (BROKER, CLUSTER):
        if fixture in metafunc.fixturenames and not _says_release(metafunc, fixture):
            metafunc.parametrize(fixture, _releases(text), indirect=True)


def _says_release(metafunc: pytest.Metafunc, fixture: str) -> bool:
    for mark in metafunc.definition.iter_markers():
        names = str(mark.args[0]) if mark.name == "parametrize" else ""
        if fixture in names or (mark.name == "odradek" and "kafka_version" in mark.kwargs):
            return True
    return False


def _releases(text: str) -> list[str]:
    from odradek.broker.kafka_versions.release import UnknownReleaseError, find, names

    if text == "all":
        return names()
    try:
        return [str(find(name)) for name in text.split(",")]
    except UnknownReleaseError as error:
        raise pytest.UsageError(f"--kafka-versions: {error}") from None


@pytest.fixture
def odradek_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker of its own for one test, on a free port of 127.0.0.1, with nothing left behind.

    Its keywords come from the marker `odradek`, and from an indirect parameter: a dict of them, or the
    release of Kafka that it is to be.
    """
    from odradek.testing.broker import Broker

    with _made(Broker, BROKER, request) as broker:
        yield broker


@pytest.fixture
def odradek_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster of its own for one test, of three brokers unless the marker says otherwise; see above."""
    from odradek.testing.cluster import Cluster

    with _made(Cluster, CLUSTER, request) as cluster:
        yield cluster


@pytest.fixture
def odradek_schema_registry() -> Iterator[SchemaRegistry]:
    """A schema registry of its own for one test, which keeps its schemas in memory."""
    from odradek.testing.schema_registry import SchemaRegistry

    with SchemaRegistry() as registry:
        yield registry


def _made(kind: Callable[..., T], fixture: str, request: pytest.FixtureRequest) -> T:
    keywords: dict[str, Any] = {}
    for mark in reversed(list(request.node.iter_markers("odradek"))):
        if mark.args:
            pytest.fail(
                f"the marker odradek takes keywords, as {kind.__name__} does, not {mark.args!r}",
                pytrace=False,
            )
        keywords.update(mark.kwargs)
    given = getattr(request, "param", None)
    keywords.update(
        given if isinstance(given, Mapping) else {} if given is None else {"kafka_version": given}
    )
    if _is_unready(request.config):
        keywords.setdefault("unready", True)
    try:
        return kind(**keywords)
    except TypeError as error:
        pytest.fail(f"{fixture}: {error}", pytrace=False)
