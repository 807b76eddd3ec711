"""The data source itself: `format("odradek")`.

PySpark imports this to learn its name, in every session that uses any Python data source, and takes an
import that fails for a source that does not exist. So what does the work is imported when it is asked for:
an environment that lacks something then says what.
"""

import logging
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from odradek.spark.option_values import Given
    from odradek.spark.options import SourceOptions
    from odradek.spark.reading.batch_reader import BatchReader
    from odradek.spark.reading.stream_reader import RefusedStreamReader, StreamReader
    from odradek.spark.writing.writer import BatchWriter, StreamWriter

logger = logging.getLogger(__name__)


class OdradekDataSource(DataSource):
    """Kafka's topics as tables, read and written, in batches and as streams.

    Options are checked when the reader or writer is made, with errors that are `ValueError`s naming the
    option.
    """

    @classmethod
    def name(cls) -> str:
        """The word for `format`."""
        return "odradek"

    def schema(self) -> "StructType":
        """Return the columns that the options ask for.

        Raises:
            ValueError: an option that cannot be; it is named.
        """
        from odradek.spark.columns import chosen_columns
        from odradek.spark.formats.options import wants_types
        from odradek.spark.garbage import freeze_what_stays
        from odradek.spark.option_values import Given
        from odradek.spark.schema import spark_schema

        freeze_what_stays()
        given = Given(dict(self.options))
        self._check_what_is_read(given)
        if wants_types(given):
            from odradek.spark.formats.columns import typed_read

            typed = typed_read(given)
            assert typed is not None
            return typed.schema
        return spark_schema(chosen_columns(given.text("columns"), given.boolean("includeHeaders", False)))

    def _check_what_is_read(self, given: "Given") -> None:
        """Check the options for what is wrong in a batch and in a stream alike.

        Spark asks for the schema at `load()`, and does not say which of the two it will be. What is wrong in
        one of them alone is told when the query begins.

        Raises:
            ValueError: one cannot be used; names it.
        """
        from odradek.spark.kafka_configs import BOOTSTRAP_SERVERS
        from odradek.spark.options import parse_source

        # A table of the catalog comes with its properties, "option.…" among them, and may be written to.
        of_table = any(name.lower().startswith("option.") for name in self.options)
        if of_table or f"kafka.{BOOTSTRAP_SERVERS}" not in given or "topic" in given:
            return
        options = dict(self.options)
        try:
            parse_source(options, streaming=True)
        except ValueError as problem:
            try:
                parse_source(options, streaming=False)
            except ValueError:
                raise problem from None

    def reader(self, schema: "StructType") -> "BatchReader":
        """Return what plans and reads a batch.

        Raises:
            ValueError: an option cannot be used; names it.
        """
        from odradek.spark.reading.batch_reader import BatchReader

        return BatchReader(self._source_options(schema, streaming=False))

    def streamReader(self, schema: "StructType") -> "StreamReader | RefusedStreamReader":  # noqa: N802 (Spark's name, as below)
        """Return what plans and reads micro-batches.

        With options that cannot be, what is returned fails with `ValueError` when Spark first asks it
        something: PySpark's runner fails over an error that is raised here, and buries it under its own.
        """
        from odradek.spark.reading.stream_reader import RefusedStreamReader, StreamReader

        try:
            return StreamReader(self._source_options(schema, streaming=True))
        except Exception as problem:
            return RefusedStreamReader(problem)

    def writer(self, schema: "StructType", overwrite: bool) -> "BatchWriter":
        """Return what writes a batch.

        Raises:
            ValueError: an option cannot be used; names it. Or it is to `overwrite`.
        """
        from odradek.spark.garbage import freeze_what_stays
        from odradek.spark.options import parse_sink
        from odradek.spark.writing.writer import BatchWriter

        freeze_what_stays()
        if overwrite:
            raise ValueError(
                "Save mode Overwrite not allowed for Kafka: records are added to topics, never replaced. Say "
                '.mode("append"), which is the only mode that Spark lets a Python source write in.'
            )
        return BatchWriter(parse_sink(self._given()), schema)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "StreamWriter":  # noqa: ARG002, N802
        """`overwrite` (output mode "complete") appends too, as the connector does."""
        from odradek.spark.garbage import freeze_what_stays
        from odradek.spark.options import parse_sink
        from odradek.spark.writing.writer import StreamWriter

        freeze_what_stays()
        return StreamWriter(parse_sink(self._given()), schema)

    def _given(self) -> dict[str, str]:
        """The options.

        Raises:
            ValueError: there are none.
        """
        if not self.options:
            raise ValueError(
                "No options were given. Spark does not pass on those of a table (CREATE TABLE ... USING "
                "odradek OPTIONS ...): use CREATE TEMPORARY VIEW ... USING odradek OPTIONS (...), or "
                "SELECT ... FROM table WITH ('kafka.bootstrap.servers' = ..., 'subscribe' = ...)."
            )
        return dict(self.options)

    def _source_options(self, schema: Any, *, streaming: bool) -> "SourceOptions":
        from dataclasses import replace

        from odradek.spark.formats.options import wants_types
        from odradek.spark.garbage import freeze_what_stays
        from odradek.spark.option_values import Given
        from odradek.spark.options import parse_source
        from odradek.spark.schema import spark_schema

        freeze_what_stays()
        given = self._given()
        options = parse_source(given, streaming=streaming)
        if wants_types(Given(given)):
            from odradek.spark.formats.columns import typed_read

            typed = typed_read(Given(given), schema)
            assert typed is not None
            options = replace(options, typed=typed, columns=typed.raw_columns)
        there = options.typed.schema if options.typed is not None else spark_schema(options.columns)
        if schema != there:
            raise ValueError("Kafka source has a fixed schema and cannot be set with a custom one")
        for note in options.notes:
            logger.warning(note)
        return options
