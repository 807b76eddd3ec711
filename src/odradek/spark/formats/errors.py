"""Errors of formats, beside wrong options (`ValueError`) and those of schemas (`odradek.serdes.errors`)."""

from odradek.errors import OdradekError
from odradek.serdes.errors import SchemaError


class ResolutionError(SchemaError):
    """The reader's schema cannot read what was written by the writer's."""


class MalformedRecordError(OdradekError):
    """A record does not have the format, and the mode is FAILFAST; the message says which record."""


class UnwritableRowError(OdradekError):
    """A row cannot be written in the format; the message says which column and why."""
