"""The fixture in tests of others: releases by marker, by parameter, by option."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

TESTS = """
    import pytest

    def release(odradek_broker):
        return odradek_broker.call(lambda broker: str(broker.handlers.release))

    def test_plain(odradek_broker, request):
        print("PLAIN", release(odradek_broker))

    @pytest.mark.odradek(kafka_version="1.0", num_partitions=3)
    def test_marked(odradek_broker):
        assert release(odradek_broker) == "1.0"
        assert odradek_broker.call(lambda broker: broker.config.num_partitions) == 3

    @pytest.mark.odradek(num_partitions=3)
    @pytest.mark.parametrize(
        "odradek_broker", ["0.9", {"kafka_version": "2.2", "num_partitions": 2}], indirect=True
    )
    def test_parameter(odradek_broker):
        partitions = odradek_broker.call(lambda broker: broker.config.num_partitions)
        assert (release(odradek_broker), partitions) in [("0.9", 3), ("2.2", 2)]

    def test_without_a_broker():
        pass
"""


def test_what_a_test_says_itself(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    result = pytester.runpytest("-s", "--strict-markers")
    result.assert_outcomes(passed=5)
    result.stdout.fnmatch_lines(["*PLAIN None*"])


def test_releases_by_option(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    result = pytester.runpytest("-s", "--kafka-version", "2.2.1,3.9-kraft")
    result.assert_outcomes(passed=6)
    result.stdout.fnmatch_lines(["*PLAIN 2.2*", "*PLAIN 3.9-kraft*"])


def test_no_such_release(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    result = pytester.runpytest("--kafka-version", "2.9")
    result.stderr.fnmatch_lines(["*--kafka-versions: '2.9' is none of Kafka's releases*"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR


UNREADY = """
    import pytest

    def test_plain(odradek_broker):
        print("PLAIN", odradek_broker)

    @pytest.mark.odradek(unready=False)
    def test_ready(odradek_broker):
        assert "unready" not in repr(odradek_broker)

    @pytest.mark.odradek(unready=True, seed=5)
    def test_unready(odradek_broker):
        assert "unready=True, seed=5" in repr(odradek_broker)

    @pytest.mark.odradek(brokers=1)
    def test_cluster(odradek_cluster):
        print("CLUSTER", odradek_cluster)
"""


@pytest.mark.parametrize(
    ("options", "unready"),
    [
        ([], ""),
        (["--odradek-unready"], ", unready=True, seed=9"),
        (["--kafka-versions", "2.2"], ", unready=True, seed=9"),
        (["--kafka-versions", "2.2", "--no-odradek-unready"], ""),
    ],
)
def test_unready_by_option(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, options: list[str], unready: str
) -> None:
    monkeypatch.setenv("ODRADEK_UNREADY_SEED", "9")
    pytester.makepyfile(UNREADY)
    result = pytester.runpytest("-s", *options)
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(
        [f"*PLAIN <Broker 127.0.0.1:*{unready}>*", f"*CLUSTER <Cluster of 1{unready}>*"]
    )
    header = "odradek: brokers as unready as real ones, seed 9 (ODRADEK_UNREADY_SEED)"
    assert (header in result.stdout.str()) == bool(unready)


MISTAKEN = """
    import pytest

    @pytest.mark.odradek(num_partition=3)
    def test_keyword(odradek_broker):
        pass

    @pytest.mark.odradek("2.2")
    def test_position(odradek_broker):
        pass

    @pytest.mark.parametrize("odradek_broker", [{"kafka_versions": "2.2"}, 4.0], indirect=True)
    def test_parameter(odradek_broker):
        pass
"""


def test_names_that_nobody_knows_fail_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(MISTAKEN)
    result = pytester.runpytest()
    result.assert_outcomes(errors=4)
    result.stdout.fnmatch_lines_random(
        [
            "*no config num_partition (Kafka: num.partition); did you mean num_partitions?*",
            "*the marker odradek takes keywords*'2.2'*",
            "*no config kafka_versions*; did you mean kafka_version?*",
            "*kafka_version=4.0: a release is text*",
        ]
    )
    result.stdout.no_fnmatch_line("*testing/broker.py*")


OTHERS = """
    import pytest
    from odradek import Producer

    def test_three(odradek_cluster):
        odradek_cluster.create_topic("orders")
        with Producer(bootstrap_servers=odradek_cluster.bootstrap_servers) as producer:
            assert producer.send("orders", b"tea").result().offset == 0
        assert len(odradek_cluster.live) == 3

    @pytest.mark.odradek(brokers=2, num_partitions=4)
    def test_two(odradek_cluster):
        partitions = odradek_cluster.broker(1).call(lambda broker: broker.config.num_partitions)
        print("TWO", len(odradek_cluster.live), partitions)

    @pytest.mark.odradek(broker=2)
    def test_mistaken(odradek_cluster):
        pass

    def test_registry(odradek_schema_registry):
        assert odradek_schema_registry.register("orders-value", '"string"') == 1
"""


def test_a_cluster_and_a_registry(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(OTHERS)
    result = pytester.runpytest("-s", "--strict-markers")
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["*TWO 2 4*", "*odradek_cluster: *broker*"])


def test_a_cluster_of_each_release(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_release(odradek_cluster):
            releases = {odradek_cluster.broker(member).call(lambda broker: str(broker.handlers.release))
                        for member in odradek_cluster.live}
            print("RELEASES", releases)
        """
    )
    result = pytester.runpytest("-s", "--kafka-versions", "1.0,3.9")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*RELEASES {'1.0'}*", "*RELEASES {'3.9'}*"])


SEVERAL = """
    import pytest
    from odradek import Producer

    ports = set()

    @pytest.fixture
    def orders(odradek_session_broker):
        odradek_session_broker.seed("orders", ["tea"])

    @pytest.fixture(scope="module")
    def kept(odradek_session_broker):
        odradek_session_broker.create_topic("kept")
        odradek_session_broker.keep()

    @pytest.mark.parametrize("number", range(3))
    def test_session(kept, odradek_session_broker, orders, number):
        broker = odradek_session_broker
        assert sorted(broker.topics()) == ["kept", "orders"]
        broker.assert_records("orders", ["tea"])
        ports.add(broker.port)
        assert len(ports) == number + 1
        assert broker.call(lambda app: app.config.num_partitions) == 4

    def test_asked_for_while_it_runs(request):
        broker = request.getfixturevalue("odradek_session_broker")
        assert sorted(broker.topics()) == ["kept"]
        broker.create_topic("other")

    def test_nothing_of_it_is_there(odradek_session_broker):
        assert sorted(odradek_session_broker.topics()) == ["kept"]

    def test_unmet(odradek_session_broker):
        odradek_session_broker.fail("Produce", "NOT_LEADER_OR_FOLLOWER")

    def test_behind_it(odradek_session_broker):
        with Producer(bootstrap_servers=odradek_session_broker.bootstrap_servers) as producer:
            assert producer.send("orders", b"milk").result().offset == 0
"""

SESSION_CONFIG = """
    import pytest

    @pytest.fixture(scope="session")
    def odradek_session_config():
        return {"num_partitions": 4}
"""

MODULE = """
    import pytest

    pytestmark = pytest.mark.odradek(num_partitions=5)

    @pytest.mark.parametrize("number", range(2))
    def test_module(odradek_module_broker, number):
        assert odradek_module_broker.topics() == {}
        odradek_module_broker.create_topic("orders")
        assert odradek_module_broker.call(lambda app: app.config.num_partitions) == 5

    @pytest.mark.parametrize("number", range(2))
    def test_cluster(odradek_module_cluster, number):
        assert odradek_module_cluster.topics() == {}
        odradek_module_cluster.create_topic("orders")
        odradek_module_cluster.kill(1)
"""


def test_a_broker_for_a_session_is_clean_for_each_test(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(SESSION_CONFIG)
    pytester.makepyfile(test_session=SEVERAL, test_module=MODULE)
    result = pytester.runpytest("-p", "no:randomly")
    result.assert_outcomes(passed=11, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_unmet*", "*UnmetFaultError: no request met*"])


def test_each_process_has_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("number", range(6))
        def test_it(odradek_session_broker, number):
            assert odradek_session_broker.topics() == {}
            odradek_session_broker.create_topic("orders")
        """
    )
    pytester.runpytest_subprocess("-n", "2").assert_outcomes(passed=6)


def test_a_session_of_each_release(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def release(broker):
            return broker.call(lambda app: str(app.handlers.release))

        def test_one(odradek_session_broker):
            print("ONE", release(odradek_session_broker), id(odradek_session_broker))

        def test_other(odradek_session_broker):
            print("OTHER", release(odradek_session_broker), id(odradek_session_broker))
        """
    )
    result = pytester.runpytest("-s", "--kafka-versions", "1.0,3.9")
    result.assert_outcomes(passed=4)
    words = [line.removeprefix(".").split() for line in result.outlines]
    brokers = {(each[1], each[2]) for each in words if each and each[0].endswith(("ONE", "OTHER"))}
    assert sorted(release for release, _ in brokers) == ["1.0", "3.9"]


def test_a_session_that_is_made_wrongly(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(SESSION_CONFIG.replace("num_partitions", "num_partition"))
    pytester.makepyfile("def test_it(odradek_session_broker): pass")
    result = pytester.runpytest()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*odradek_session_broker: *did you mean num_partitions?*"])


def test_coroutines_have_one_too(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.anyio
        @pytest.mark.parametrize("number", range(2))
        async def test_it(odradek_session_broker, number, anyio_backend):
            assert await odradek_session_broker.aio.topics() == {}
            await odradek_session_broker.aio.seed("orders", ["tea"])
            await odradek_session_broker.aio.assert_records("orders", ["tea"])

        @pytest.fixture
        def anyio_backend():
            return "asyncio"
        """
    )
    pytest.importorskip("anyio")
    pytester.runpytest().assert_outcomes(passed=2)
