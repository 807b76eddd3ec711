"""Sources and sinks over mutual TLS, by the options of Spark's own connector."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.testing import Broker, Security

pytestmark = pytest.mark.spark


def test_a_topic_is_written_and_read_over_mutual_tls(spark: Any) -> None:
    with Broker(security=Security(client_auth="required")) as broker:
        broker.create_topic("t", 2)
        options = {f"kafka.{name}": text for name, text in broker.client_configs("alice").items()}
        frame = spark.range(1000).selectExpr("CAST(id AS STRING) AS value")
        frame.write.format("odradek").mode("append").options(**options).option("topic", "t").save()
        read = spark.read.format("odradek").options(**options).option("subscribe", "t").load()
        assert read.count() == 1000
        options.pop("kafka.ssl.keystore.key")
        options.pop("kafka.ssl.keystore.certificate.chain")
        with pytest.raises(Exception, match=r"SSL handshake failed|certificate"):
            spark.read.format("odradek").options(**options).option("subscribe", "t").load().count()
