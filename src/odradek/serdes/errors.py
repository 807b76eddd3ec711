"""Errors of schemas and of the registries that have them."""

from __future__ import annotations

from odradek.errors import OdradekError


class SchemaError(ValueError):
    """A schema that cannot be read, or cannot be used here; the message says which and why."""


class RegistryError(OdradekError):
    """The schema registry could not be asked, or refused; the message names its address and the subject.

    Attributes:
        http_status_code: the answer's; None where there was no answer.
        error_code: the registry's own (`docs/schema_registry.md`); None where it gave none.
    """

    def __init__(
        self, message: str, http_status_code: int | None = None, error_code: int | None = None
    ) -> None:
        super().__init__(message)
        self.http_status_code = http_status_code
        self.error_code = error_code


class UnknownSchemaError(RegistryError):
    """The registry has no such schema, subject or version."""
