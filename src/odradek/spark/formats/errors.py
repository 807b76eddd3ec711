"""Errors of formats, beside wrong options (`ValueError`)."""

from odradek.errors import OdradekError


class SchemaError(ValueError):
    """A schema that cannot be read, or that has no columns to be; the message says which and why."""


class ResolutionError(SchemaError):
    """The reader's schema cannot read what was written by the writer's."""


class RegistryError(OdradekError):
    """The schema registry could not be asked, or refused; the message names its address."""


class UnknownSchemaError(RegistryError):
    """The registry has no such schema, subject or version."""


class MalformedRecordError(OdradekError):
    """A record does not have the format, and the mode is FAILFAST; the message says which record."""


class UnwritableRowError(OdradekError):
    """A row cannot be written in the format; the message says which column and why."""
