"""pytest fixtures; the broker is imported only by tests that ask for one.

    def test_it(odradek_broker): ...                       # a broker with all that there is

    @pytest.mark.odradek(num_partitions=3)                 # keywords of `odradek.testing.Broker`
    def test_it(odradek_broker): ...

    @pytest.mark.parametrize("odradek_broker", ["0.10.2", "2.2", "4.0"], indirect=True)
    def test_it(odradek_broker): ...                       # once per release of Kafka

    @pytest.mark.odradek(brokers=2)                        # those of `odradek.testing.Cluster`
    def test_it(odradek_cluster): ...

    def test_it(odradek_broker, odradek_schema_registry): ...

    def test_it(odradek_session_broker): ...               # one for all tests, clean for each: `clean_up`
    def test_it(odradek_module_broker): ...

`pytest --kafka-versions 2.2,3.9` (or `all`) runs every test that uses a broker or a cluster, and says nothing
of releases itself, against those; their brokers are as unready as real ones (`unready`), unless there is
`--no-odradek-unready`. `--odradek-unready` makes the brokers of all tests so. A keyword that is no config
fails the test, and says what may have been meant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import pytest

if TYPE_CHECKING:
    from odradek.testing.broker import Broker
    from odradek.testing.cluster import Cluster
    from odradek.testing.schema_registry import SchemaRegistry

T = TypeVar("T")
S = TypeVar("S", "Broker", "Cluster")

_NONE: Mapping[str, Any] = {}

BROKER, CLUSTER = "odradek_broker", "odradek_cluster"
SESSION_BROKER, SESSION_CLUSTER = "odradek_session_broker", "odradek_session_cluster"
MODULE_BROKER, MODULE_CLUSTER = "odradek_module_broker", "odradek_module_cluster"

SCOPES: dict[str, Literal["function", "module", "session"]] = {
    BROKER: "function",
    CLUSTER: "function",
    MODULE_BROKER: "module",
    MODULE_CLUSTER: "module",
    SESSION_BROKER: "session",
    SESSION_CLUSTER: "session",
}

_shared = pytest.StashKey["dict[str, Broker | Cluster]"]()
"""Of the session: the brokers and clusters that several tests have, by their fixture."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--kafka-versions`, `--odradek-unready`."""
    group = parser.getgroup("odradek")
    group.addoption(
        "--kafka-versions",
        "--kafka-version",
        metavar="X,Y",
        help=f"run tests with {BROKER}, {CLUSTER} … against these releases of Kafka; or `all`",
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
    for fixture, scope in SCOPES.items():
        if fixture in metafunc.fixturenames and not _says_release(metafunc, fixture):
            metafunc.parametrize(fixture, _releases(text), indirect=True, scope=scope)


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


@pytest.fixture(scope="session")
def odradek_session_config() -> dict[str, Any]:
    """The keywords of `odradek_session_broker` and `odradek_session_cluster`, for a conftest.py to say."""
    return {}


@pytest.fixture(scope="session")
def odradek_session_broker(
    request: pytest.FixtureRequest, odradek_session_config: dict[str, Any]
) -> Iterator[Broker]:
    """A broker for all tests of the session (of each process of pytest-xdist), clean for each.

    After a test all that it has made is taken away, but for what there was at the last `keep`, and the broker
    listens on another port; see `Broker.clean_up`.
    """
    from odradek.testing.broker import Broker

    yield from _for_several(Broker, SESSION_BROKER, request, odradek_session_config)


@pytest.fixture(scope="module")
def odradek_module_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker for all tests of a module, clean for each, as `odradek_session_broker`.

    Its keywords come from a marker `odradek` of the module.
    """
    from odradek.testing.broker import Broker

    yield from _for_several(Broker, MODULE_BROKER, request)


@pytest.fixture(scope="session")
def odradek_session_cluster(
    request: pytest.FixtureRequest, odradek_session_config: dict[str, Any]
) -> Iterator[Cluster]:
    """A cluster for all tests of the session, clean for each; see `Cluster.clean_up`."""
    from odradek.testing.cluster import Cluster

    yield from _for_several(Cluster, SESSION_CLUSTER, request, odradek_session_config)


@pytest.fixture(scope="module")
def odradek_module_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster for all tests of a module, clean for each, as `odradek_module_broker`."""
    from odradek.testing.cluster import Cluster

    yield from _for_several(Cluster, MODULE_CLUSTER, request)


def _for_several(
    kind: Callable[..., S], fixture: str, request: pytest.FixtureRequest, config: Mapping[str, Any] = _NONE
) -> Iterator[S]:
    shared = request.session.stash.setdefault(_shared, {})
    with _made(kind, fixture, request, config) as server:
        shared[fixture] = server
        try:
            yield server
        finally:
            del shared[fixture]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Clean up what other tests will have, too, when all fixtures of this one have ended."""
    problem: BaseException | None = None
    try:
        return (yield)
    finally:
        shared = item.session.stash.get(_shared, {})
        for fixture in _asked_for(item) & shared.keys():
            try:
                shared[fixture].clean_up()
            except BaseException as error:
                problem = error
        if problem is not None:
            raise problem


def _asked_for(item: pytest.Item) -> set[str]:
    """Return the fixtures that a test has, those by `getfixturevalue` among them."""
    request: Any = getattr(item, "_request", None) or item
    return set(getattr(request, "fixturenames", ()))


@pytest.fixture
def odradek_schema_registry() -> Iterator[SchemaRegistry]:
    """A schema registry of its own for one test, which keeps its schemas in memory."""
    from odradek.testing.schema_registry import SchemaRegistry

    with SchemaRegistry() as registry:
        yield registry


def _made(
    kind: Callable[..., T], fixture: str, request: pytest.FixtureRequest, config: Mapping[str, Any] = _NONE
) -> T:
    keywords: dict[str, Any] = dict(config)
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
