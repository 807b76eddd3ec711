"""The columns of a topic as a table: those of Spark's Kafka connector, under its names and types. Pure."""

HEADERS = "headers"
BASE_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
ALL_COLUMNS = (*BASE_COLUMNS, HEADERS)


def chosen_columns(option: str | None, include_headers: bool) -> tuple[str, ...]:
    """The columns of a read.

    `option` is the option `columns` ("value,offset"), in the order that it gives; None: all, and headers only
    with `includeHeaders`. A column left out is neither built nor handed to the JVM, which Spark cannot ask of
    a Python source by itself.

    Raises:
        ValueError: a name is no column, or given twice.
    """
    if option is None:
        return ALL_COLUMNS if include_headers else BASE_COLUMNS
    by_lower = {name.lower(): name for name in ALL_COLUMNS}
    names = [name.strip() for name in option.split(",")]
    unknown = [name for name in names if name.lower() not in by_lower]
    if unknown or not names:
        raise ValueError(f"columns: no column '{unknown[0]}'; there are {', '.join(ALL_COLUMNS)}")
    chosen = [by_lower[name.lower()] for name in names]
    if include_headers and HEADERS not in chosen:
        chosen.append(HEADERS)
    if len(set(chosen)) < len(chosen):
        raise ValueError(f"columns: a column is named twice in '{option}'")
    return tuple(chosen)
