"""The order of the site's pages: those for users first, those for developers after them.

The first page has the sections. A page that is a key here has pages of its own below it.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]

NAVIGATION: dict[str, dict[str, list[str]]] = {
    "README": {
        "Begin": ["docs/tutorial", "docs/concepts", "docs/howto/README", "docs/troubleshooting"],
        "Clients": [
            "docs/client",
            "docs/serdes",
            "docs/schema_registry",
            "docs/faults_and_clients",
            "docs/compatibility",
        ],
        "Spark": [
            "docs/pipeline",
            "docs/typed_columns",
            "docs/exactly_once",
            "docs/spark_cluster",
            "docs/watching",
        ],
        "Tests": ["docs/testing", "docs/kafka_versions", "docs/checker"],
        "Brokers": [
            "docs/deploying",
            "docs/configuration",
            "docs/security",
            "docs/quotas",
            "docs/metrics",
            "docs/console",
            "docs/tools",
            "docs/performance",
        ],
        "Reference": [
            "docs/reference/README",
            "docs/reference/clients",
            "docs/reference/testing",
            "docs/reference/spark",
            "docs/reference/errors",
        ],
        "Examples": [
            "examples/orders",
            "examples/exactly_once",
            "examples/simple_consumer",
            "examples/test_any_kafka",
            "examples/shop",
            "examples/streaming_job",
            "examples/batch_job",
            "examples/change_data",
            "examples/change_data_delta",
            "examples/sessions",
            "examples/dead_letters",
            "examples/backfill",
            "examples/copy_cluster",
            "examples/enrichment",
            "examples/two_clusters",
            "examples/typed_orders",
        ],
        "For developers": [
            "CONTRIBUTING",
            "docs/developing",
            "docs/ARCHITECTURE",
            "docs/glossary",
            "docs/wire",
            "docs/client_design",
            "docs/record_format",
            "docs/log_format",
            "docs/cluster",
            "docs/controller",
            "docs/metadata",
            "docs/coordinators",
            "docs/transactions",
            "docs/produce_answers",
            "docs/test_kit",
            "docs/simulation",
            "docs/fault_tests",
            "docs/releasing",
            "CHANGELOG",
            "SECURITY",
            "docs/decisions/README",
            "benchmarks/README",
        ],
    },
    "docs/client": {
        "": [
            "docs/client/producer",
            "docs/client/consumer",
            "docs/client/transactions",
            "docs/client/admin",
            "docs/client/configs",
            "docs/client/calling",
            "docs/client/errors",
            "docs/client/outages",
            "docs/client/observing",
            "docs/client/speed",
            "docs/client/low_level",
            "docs/client/old_brokers",
        ]
    },
    "docs/howto/README": {
        "": [
            "docs/howto/run",
            "docs/howto/secure",
            "docs/howto/monitor",
            "docs/howto/backup",
            "docs/howto/upgrade",
            "docs/howto/take_over",
            "docs/howto/spark",
            "docs/coming_from/confluent_kafka",
            "docs/coming_from/kafka_python",
            "docs/coming_from/aiokafka",
            "docs/coming_from/faust",
        ]
    },
    "docs/testing": {
        "": [
            "docs/testing/confluent_kafka",
            "docs/testing/kafka_python",
            "docs/testing/aiokafka",
            "docs/testing/java",
            "docs/testing/go",
        ]
    },
    "benchmarks/README": {
        "": [
            "benchmarks/RESULTS",
            "benchmarks/BROKER",
            "benchmarks/CLIENT",
            "benchmarks/CLUSTER",
            "benchmarks/SPARK",
            "benchmarks/STRANGERS",
            "benchmarks/instructions/INSTRUCTIONS",
            "benchmarks/load/README",
            "benchmarks/floor/README",
        ]
    },
}

#: Pages whose children are all pages of their folder.
WHOLE_FOLDERS = ("docs/decisions/README",)
PARENTS = (*NAVIGATION, *WHOLE_FOLDERS)


def sections(page: str) -> dict[str, list[str]]:
    """Return the pages below a page, by the caption of their section.

    Args:
        page: its path from the root of the checkout, without the ending.
    """
    if page in WHOLE_FOLDERS:
        folder = ROOT / page.rpartition("/")[0]
        return {"": [f"{folder.relative_to(ROOT)}/{file.stem}" for file in sorted(folder.glob("[a-z]*.md"))]}
    return NAVIGATION.get(page, {})
