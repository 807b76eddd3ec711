"""The refusals of a schema registry: HTTP's status, a code of its own, and a sentence.

Codes and sentences are those of Confluent's registry (its class Errors): clients tell refusals apart by them.
"""

from __future__ import annotations

from odradek.errors import OdradekError

READ_ONLY = "is in read-only mode"
NOT_IMPORT = "is not in import mode"
NOT_READ_WRITE = "is not in read-write mode"


class RestException(OdradekError):
    """An answer that is a refusal.

    Attributes:
        status: HTTP's.
        error_code: the registry's; of the status and two digits, or the status itself.
    """

    def __init__(self, status: int, error_code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.error_code = error_code


class InvalidSchemaError(ValueError):
    """A schema that is none of its language, or uses what cannot be found; the message says why."""


def subject_not_found(subject: str) -> RestException:
    """Return code 40401."""
    return RestException(404, 40401, f"Subject '{subject}' not found.")


def version_not_found(version: int) -> RestException:
    """Return code 40402."""
    return RestException(404, 40402, f"Version {version} not found.")


def schema_not_found(schema_id: int | str | None = None) -> RestException:
    """Return code 40403; `schema_id` is an id or a GUID."""
    return RestException(
        404, 40403, "Schema not found" if schema_id is None else f"Schema {schema_id} not found"
    )


def subject_soft_deleted(subject: str) -> RestException:
    """Return code 40404."""
    return RestException(
        404, 40404, f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently"
    )


def subject_not_soft_deleted(subject: str) -> RestException:
    """Return code 40405."""
    return RestException(
        404, 40405, f"Subject '{subject}' was not deleted first before being permanently deleted"
    )


def version_soft_deleted(subject: str, version: int) -> RestException:
    """Return code 40406."""
    message = (
        f"Subject '{subject}' Version {version} was soft deleted.Set permanent=true to delete permanently"
    )
    return RestException(404, 40406, message)


def version_not_soft_deleted(subject: str, version: int) -> RestException:
    """Return code 40407."""
    message = f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    return RestException(404, 40407, message)


def compatibility_not_configured(subject: str) -> RestException:
    """Return code 40408."""
    message = f"Subject '{subject}' does not have subject-level compatibility configured"
    return RestException(404, 40408, message)


def mode_not_configured(subject: str) -> RestException:
    """Return code 40409."""
    return RestException(404, 40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible_schema(subject: str, messages: list[str]) -> RestException:
    """Return code 409."""
    message = (
        "Schema being registered is incompatible with an earlier schema for subject "
        f'"{subject}", details: [{", ".join(messages)}]'
    )
    return RestException(409, 409, message)


def invalid_schema(reason: str) -> RestException:
    """Return code 42201."""
    return RestException(422, 42201, reason)


def invalid_version(version: str) -> RestException:
    """Return code 42202."""
    message = (
        f"The specified version '{version}' is not a valid version id. Allowed values are between "
        '[1, 2^31-1] and the string "latest"'
    )
    return RestException(422, 42202, message)


def invalid_compatibility() -> RestException:
    """Return code 42203."""
    message = (
        "Invalid compatibility level. Valid values are none, backward, forward, full, backward_transitive, "
        "forward_transitive, and full_transitive"
    )
    return RestException(422, 42203, message)


def invalid_mode() -> RestException:
    """Return code 42204; of the modes that there are, FORWARD is not built."""
    return RestException(422, 42204, "Invalid mode. Valid values are READWRITE, READONLY and IMPORT.")


def not_permitted(reason: str) -> RestException:
    """Return code 42205."""
    return RestException(422, 42205, reason)


def wrong_mode(subject: str, why: str) -> RestException:
    """Return code 42205 for a subject; the name of its context, which is empty, stands before `why`."""
    return not_permitted(f"Subject {subject} in context  {why}")


def reference_exists(subject: str, version: int) -> RestException:
    """Return code 42206."""
    key = f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}"
    return RestException(422, 42206, f"One or more references exist to the schema {key}.")


def invalid_subject(subject: str, reason: str = "") -> RestException:
    """Return code 42208."""
    return RestException(422, 42208, f"The specified subject '{subject}' is not a valid.{reason}")


def schema_too_large() -> RestException:
    """Return code 42209."""
    return RestException(422, 42209, "Register operation failed because schema is too large")


def store_failed(reason: str) -> RestException:
    """Return code 50001: the topic could not be written, and nothing of it counts."""
    return RestException(500, 50001, reason)


def timed_out(reason: str) -> RestException:
    """Return code 50002: nobody knows whether it was written."""
    return RestException(500, 50002, reason)


def not_the_writer(reason: str) -> RestException:
    """Return code 50004: another registry writes the topic."""
    return RestException(500, 50004, reason)
