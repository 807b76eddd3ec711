"""librdkafka's own tests, as its authors run them, on three workers; some of them while workers are killed.

They have an authorizer that lets everybody in, and Kafka's tools of that name, which are ours.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.process.test_workers_live import Workers
from interop import compatibility, programs
from interop.worker_kills import WorkerKills, alarms

# The first of them builds librdkafka.
pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

SETTINGS = (
    "default.replication.factor=3",
    "min.insync.replicas=2",
    "num.partitions=4",
    "offsets.topic.replication.factor=3",
    "transaction.state.log.replication.factor=3",
    "group.initial.rebalance.delay.ms=0",
    "authorizer.class.name=kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found=true",
)
SEED = int(os.environ.get("ODRADEK_FAULT_SEED", "1"))
AS_KAFKA = "3.9.0"
TOOLS = ("topics", "acls")
OPTIONS = ("-Q", "-L", "-K", "-E", "-p4")
"""Quick; without those that need no broker, that are known to fail, or that stand between the client and its
sockets: beside others these crash now and then. Four at a time."""

LEFT_OUT = (
    "0091",  # waits for a minute for members to miss their time
    "0139",  # talks to librdkafka's own mock of a broker alone, for a minute
)


ENDURING = (
    *("0005", "0011", "0012", "0017", "0022", "0026", "0030", "0036", "0038", "0050", "0051", "0056"),
    *("0090", "0092", "0103", "0112", "0113", "0129", "0130", "0132", "0137"),
)
"""Tests of order, batches, groups, offsets, idempotence and transactions, which hold whoever leads. Of the
others some expect one rebalance or one leader, as 0114 and 0118 do; most ask a broker what it is."""

INDIFFERENT = "TEST_BROKERS_DIE"
"""In the environment of the tests: a client that tells of a lost connection has not failed."""

CHANGES = (
    programs.Change(
        "test.c",
        "test_error_cb(rd_kafka_t *rk, int err, const char *reason, void *opaque) {\n",
        f"""test_error_cb(rd_kafka_t *rk, int err, const char *reason, void *opaque) {{
        if (test_getenv("{INDIFFERENT}", NULL) &&
            (err == RD_KAFKA_RESP_ERR__TRANSPORT || err == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN))
                return;
""",
    ),
    programs.Change(
        "test.c",
        '        TEST_ASSERT(rkev, "Timed out waiting for CreateTopics result");\n',
        f"""        while (rkev && test_getenv("{INDIFFERENT}", NULL)) {{
                size_t topics;
                const rd_kafka_topic_result_t **told;
                err = rd_kafka_event_error(rkev);
                if (!err && (res = rd_kafka_event_CreateTopics_result(rkev)) &&
                    (told = rd_kafka_CreateTopics_result_topics(res, &topics)) && topics)
                        err = rd_kafka_topic_result_error(told[0]);
                if (err != RD_KAFKA_RESP_ERR__TRANSPORT && err != RD_KAFKA_RESP_ERR_NOT_CONTROLLER)
                        break;
                rd_kafka_event_destroy(rkev);
                rd_usleep(100 * 1000, NULL);
                rd_kafka_CreateTopics(rk, newt, newt_cnt, options, rkqu);
                rkev = rd_kafka_queue_poll(rkqu, timeout_ms + 2000);
        }}
        TEST_ASSERT(rkev, "Timed out waiting for CreateTopics result");
""",
    ),
    programs.Change(
        "test.c",
        """        if (err)
                TEST_FAIL("Failed to delete topics: %s",""",
        f"""        if (err && !test_getenv("{INDIFFERENT}", NULL))
                TEST_FAIL("Failed to delete topics: %s",""",
    ),
    programs.Change(
        "test.h",
        "#endif /* _TEST_H_ */\n",
        f"""static RD_INLINE RD_UNUSED rd_kafka_resp_err_t
committed_wherever(rd_kafka_t *rk, rd_kafka_topic_partition_list_t *partitions, int timeout_ms) {{
        int tries = 100;
        rd_kafka_resp_err_t err;
        while ((err = rd_kafka_committed(rk, partitions, timeout_ms)) == RD_KAFKA_RESP_ERR_NOT_COORDINATOR &&
               getenv("{INDIFFERENT}") && --tries)
                usleep(100 * 1000);
        return err;
}}
#define rd_kafka_committed committed_wherever

#endif /* _TEST_H_ */
""",
    ),
)
"""Otherwise whatever test a broker's death meets fails at once, whoever the broker is. A request of its
administrator fails with the broker that has it, or that is not the controller any more, and is not sent
again: whether it was done, the caller has to find out. And after a lost connection alone does
`rd_kafka_committed` try again: of a coordinator that has moved it tells its caller."""


def passed(told: str, status: int) -> list[str]:
    """The tests that have passed; those that are not among them were skipped.

    Args:
        told: the log of a run. The table at its end is missing where a test has failed.
        status: how it ended.

    Raises:
        AssertionError: one has failed, with why.
    """
    plain = re.sub(r"\x1b\[[0-9]*m", "", told)
    failed = re.findall(r"^### Test .*\n.*", plain, re.MULTILINE)
    assert not failed and status == 0, "\n".join([*failed, plain[-2000:]])
    return re.findall(r"=== Test (\w+) PASSED ===", plain)


def run(binary: Path, workers: Workers, folder: Path, **chosen: str) -> list[str]:
    """Run the tests, `TESTS` or all but `TESTS_SKIP`; returns those that have `passed`."""
    tools = folder / "kafka" / "bin"
    tools.mkdir(parents=True)
    for tool in TOOLS:
        script = tools / f"kafka-{tool}.sh"
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m odradek {tool} "$@"\n', encoding="utf-8")
        script.chmod(0o755)
    conf = folder / "test.conf"
    conf.write_text(f"bootstrap.servers={workers.bootstrap_servers}\n", encoding="utf-8")
    environment = {
        "RDKAFKA_TEST_CONF": str(conf),
        "TEST_KAFKA_VERSION": AS_KAFKA,
        "KAFKA_PATH": str(tools.parent),
        "BROKERS": workers.bootstrap_servers,
        "LD_LIBRARY_PATH": "../src:../src-cpp",
        # It waits longer, and durations are no failures.
        "CI": "1",
        **chosen,
    }
    log = folder / "tests.log"
    with log.open("w", encoding="utf-8") as told:
        done = subprocess.run(
            [f"./{binary.name}", *OPTIONS],
            cwd=binary.parent,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=told,
            stderr=told,
            timeout=1500,
        )
    return passed(log.read_text(encoding="utf-8", errors="replace"), done.returncode)


@pytest.fixture(scope="module")
def suite() -> tuple[str, Path]:
    """Its release, and its tests."""
    for tool in ("cargo", "make", "gcc", "g++"):
        if shutil.which(tool) is None:
            pytest.skip(f"not on this machine: {tool}")
    return programs.librdkafka_suite(CHANGES)


def started(data: Path, number: int) -> Workers:
    words = [word for setting in SETTINGS for word in ("--set", setting)]
    return Workers(data, *words, number=number)


# Not in every `make interop`: it takes some minutes.
@pytest.mark.faults
def test_its_own_tests_on_three_workers(
    suite: tuple[str, Path], tmp_path: Path, compatibility_row: Callable[..., compatibility.Row]
) -> None:
    version, binary = suite
    row = compatibility_row("C", "librdkafka, its own tests on three workers", version, "crates.io")
    with started(tmp_path / "data", 3) as workers:
        tests = run(binary, workers, tmp_path, TESTS_SKIP=",".join(LEFT_OUT))
        workers.stop()
    assert not alarms(workers)
    assert len(tests) > 60
    row.does("produce", "consume", "group", "rebalance", "transactions", "admin", what=f"{len(tests)} tests")


@pytest.mark.faults
def test_those_that_endure_it_while_workers_are_killed(
    suite: tuple[str, Path], tmp_path: Path, compatibility_row: Callable[..., compatibility.Row]
) -> None:
    """Four workers, so that topics with three replicas can be created while one is away."""
    version, binary = suite
    row = compatibility_row("C", "librdkafka, its own tests on three workers", version, "crates.io")
    with started(tmp_path / "data", 4) as workers:
        with WorkerKills(workers, SEED) as kills:
            tests = run(binary, workers, tmp_path, TESTS=",".join(ENDURING), **{INDIFFERENT: "1"})
        assert kills.killed
        workers.stop()
    assert not alarms(workers)
    assert len(tests) >= len(ENDURING)
    row.does("broker restart", what=f"{len(tests)} tests, workers killed")
