"""Jobs for Flink with its Kafka connector: in a small Flink of their own, in one process."""

from __future__ import annotations

from interop import programs

# The connector of Flink 1 for the last of its line, and of Flink 2.
RELEASES = [("1.20.3", "3.4.0-1.20"), ("2.2.1", "5.0.0-2.2")]
_OPENS = ("java.base/java.util", "java.base/java.lang", "java.base/java.util.concurrent")


def flink_job(name: str, flink: str, connector: str) -> programs.Program:
    """The job of `java/<name>.java`, built against these releases of Flink and of its connector."""
    ours = "org.apache.flink"
    artifacts = [
        (ours, part, flink) for part in ("flink-streaming-java", "flink-clients", "flink-connector-base")
    ]
    artifacts.append((ours, "flink-connector-kafka", connector))
    built = programs.java_program(name, flink, artifacts)
    opens = [f"--add-opens={package}=ALL-UNNAMED" for package in _OPENS]
    return programs.Program((built.words[0], *opens, "-Xmx512m", *built.words[2:]))
