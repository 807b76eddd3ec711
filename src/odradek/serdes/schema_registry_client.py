"""`SchemaRegistryClient`: schemas, subjects and compatibility levels of a registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from odradek.serdes.errors import RegistryError
from odradek.serdes.given_configs import registry_config
from odradek.serdes.recent import Recent
from odradek.serdes.registry_config import RegistryConfig
from odradek.serdes.rest_service import RestService
from odradek.serdes.schemas import RegisteredSchema, Schema

T = TypeVar("T")


class SchemaRegistryClient:
    """A client of a schema registry that speaks the REST interface of Confluent's.

        client = SchemaRegistryClient(url="http://127.0.0.1:8081")
        client.register_schema("orders-value", Schema('"long"'))

    Methods and their arguments are called as in confluent-kafka. They block; in a coroutine call them by
    `asyncio.to_thread`. Several threads may share a client. What never changes is asked for once: the schema
    of an id, and a version by its number.

    Args:
        config: Kafka's names of configs, as in `{"basic.auth.user.info": "me:secret"}`, or a
            `RegistryConfig`.
        configs: the same under Python's names (`basic_auth_user_info`). `docs/serdes.md` has the table.

    Raises:
        ConfigError: a config cannot be used.
        UnknownSchemaError: by every method, for what the registry does not have.
        RegistryError: by every method, when the registry cannot be asked, or refuses.
    """

    def __init__(self, config: Mapping[str, Any] | RegistryConfig | None = None, /, **configs: Any) -> None:
        if not isinstance(config, RegistryConfig):
            config = registry_config({**(config or {}), **configs})
        self.config = config
        self._service = RestService(config)
        self._by_id: Recent[tuple[int, str | None], Schema] = Recent(config.cache_capacity)
        self._versions: Recent[tuple[str, int, str | None], RegisteredSchema] = Recent(config.cache_capacity)

    @property
    def where(self) -> str:
        """The registry's name in messages, with its addresses."""
        return self._service.where

    # Schemas

    def register_schema(self, subject_name: str, schema: Schema, normalize_schemas: bool = False) -> int:
        """Register a schema as the subject's newest version, unless it has the schema; return its id."""
        answer = self._service.ask(
            "POST",
            _path("subjects", subject_name, "versions", normalize=normalize_schemas),
            f"a new schema for the subject '{subject_name}'",
            schema.as_json(),
        )
        return self._read(lambda: int(answer["id"]))

    def lookup_schema(
        self, subject_name: str, schema: Schema, normalize_schemas: bool = False, deleted: bool = False
    ) -> RegisteredSchema:
        """Return the version of a subject that has a schema.

        Args:
            deleted: whether hidden versions count.
        """
        answer = self._service.ask(
            "POST",
            _path("subjects", subject_name, normalize=normalize_schemas, deleted=deleted),
            f"this schema in the subject '{subject_name}'",
            schema.as_json(),
        )
        return self._version(answer, subject_name)

    def get_schema(self, schema_id: int, subject_name: str | None = None, fmt: str | None = None) -> Schema:
        """Return the schema of an id.

        Args:
            subject_name: one of its subjects, for registries whose ids depend on it.
            fmt: `serialized` for protobuf's descriptor in base64; None: as it was registered.
        """
        schema = self._by_id.get((schema_id, fmt))
        if schema is None:
            answer = self._service.ask(
                "GET",
                _path("schemas", "ids", int(schema_id), subject=subject_name, format=fmt),
                f"the schema with id {schema_id}",
            )
            schema = self._by_id.put((schema_id, fmt), self._read(lambda: Schema.from_json(answer)))
        return schema

    # Subjects and versions

    def get_subjects(
        self, subject_prefix: str | None = None, deleted: bool = False, deleted_only: bool = False
    ) -> list[str]:
        """Return the names of the subjects.

        Args:
            deleted: whether those are among them that are hidden.
            deleted_only: these alone.
        """
        path = _path("subjects", subjectPrefix=subject_prefix, deleted=deleted, deletedOnly=deleted_only)
        answer = self._service.ask("GET", path, "the subjects")
        return self._read(lambda: [str(subject) for subject in answer])

    def get_versions(self, subject_name: str, deleted: bool = False) -> list[int]:
        """Return the numbers of a subject's versions.

        Args:
            deleted: whether those are among them that are hidden.
        """
        path = _path("subjects", subject_name, "versions", deleted=deleted)
        answer = self._service.ask("GET", path, f"the subject '{subject_name}'")
        return self._read(lambda: [int(version) for version in answer])

    def get_version(
        self, subject_name: str, version: int | str = "latest", deleted: bool = False, fmt: str | None = None
    ) -> RegisteredSchema:
        """Return a version of a subject.

        Args:
            version: its number, or `latest`.
            deleted: whether it may be hidden.
            fmt: as in `get_schema`.
        """
        number = -1 if version == "latest" else int(version)
        registered = self._versions.get((subject_name, number, fmt))
        if registered is None:
            answer = self._service.ask(
                "GET",
                _path("subjects", subject_name, "versions", version, deleted=deleted, format=fmt),
                f"version {version} of the subject '{subject_name}'",
            )
            registered = self._version(answer, subject_name)
            if number != -1 and not deleted:
                self._versions.put((subject_name, number, fmt), registered)
        return registered

    def get_latest_version(self, subject_name: str, fmt: str | None = None) -> RegisteredSchema:
        """Return the newest version of a subject.

        Args:
            fmt: as in `get_schema`.
        """
        return self.get_version(subject_name, "latest", fmt=fmt)

    def get_latest_with_metadata(
        self, subject_name: str, metadata: Mapping[str, str], deleted: bool = False, fmt: str | None = None
    ) -> RegisteredSchema:
        """Return the newest version whose metadata have these properties.

        Args:
            deleted: whether it may be hidden.
            fmt: as in `get_schema`.
        """
        path = _path("subjects", subject_name, "metadata", deleted=deleted, format=fmt)
        words = urlencode({"key": list(metadata), "value": list(metadata.values())}, doseq=True)
        path += ("&" if "?" in path else "?") + words
        resource = f"a version of the subject '{subject_name}' with the metadata {dict(metadata)}"
        return self._version(self._service.ask("GET", path, resource), subject_name)

    def get_referenced_by(self, subject_name: str, version: int | str = "latest") -> list[int]:
        """Return the ids of the schemas that refer to a version."""
        path = _path("subjects", subject_name, "versions", version, "referencedby")
        answer = self._service.ask("GET", path, f"version {version} of the subject '{subject_name}'")
        return self._read(lambda: [int(schema_id) for schema_id in answer])

    def delete_subject(self, subject_name: str, permanent: bool = False) -> list[int]:
        """Hide all versions of a subject, or remove those for good that are hidden; return their numbers."""
        path = _path("subjects", subject_name, permanent=permanent)
        answer = self._service.ask("DELETE", path, f"the subject '{subject_name}'")
        self._forget(subject_name)
        return self._read(lambda: [int(version) for version in answer])

    def delete_version(self, subject_name: str, version: int | str, permanent: bool = False) -> int:
        """Hide a version, or remove it for good when it is hidden; return its number."""
        path = _path("subjects", subject_name, "versions", version, permanent=permanent)
        resource = f"version {version} of the subject '{subject_name}'"
        answer = self._service.ask("DELETE", path, resource)
        self._forget(subject_name)
        return self._read(lambda: int(answer))

    # Compatibility

    def set_compatibility(self, subject_name: str | None = None, level: str | None = None) -> str:
        """Set the level of a subject, or where none is named of all that have none; return it.

        Args:
            level: `BACKWARD`, `FULL_TRANSITIVE`, ….

        Raises:
            ValueError: there is no level.
        """
        if level is None:
            raise ValueError("set_compatibility needs a level, such as level='BACKWARD'")
        body = {"compatibility": level.upper()}
        answer = self._service.ask("PUT", _config_path(subject_name), _level_of(subject_name), body)
        return self._read(lambda: str(answer["compatibility"]))

    def get_compatibility(self, subject_name: str | None = None) -> str:
        """Return the level that a subject has, or where none is named that of all that have none."""
        path = _config_path(subject_name, defaultToGlobal=subject_name is not None)
        answer = self._service.ask("GET", path, _level_of(subject_name))
        return self._read(lambda: str(answer["compatibilityLevel"]))

    def test_compatibility(self, subject_name: str, schema: Schema, version: int | str = "latest") -> bool:
        """Return whether a schema could follow a version, by the subject's level."""
        path = _path("compatibility", "subjects", subject_name, "versions", version)
        resource = f"version {version} of the subject '{subject_name}'"
        answer = self._service.ask("POST", path, resource, schema.as_json())
        return self._read(lambda: bool(answer["is_compatible"]))

    # Answers

    def _forget(self, subject_name: str) -> None:
        self._versions.drop(lambda key: key[0] == subject_name)

    def _version(self, answer: Any, subject_name: str) -> RegisteredSchema:
        return self._read(
            lambda: RegisteredSchema(
                str(answer.get("subject", subject_name)),
                int(answer.get("version", 0)),
                int(answer["id"]),
                Schema.from_json(answer),
            )
        )

    def _read(self, read: Callable[[], T]) -> T:
        try:
            return read()
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise RegistryError(
                f"{self.where} did not answer as a schema registry does: {problem!r}"
            ) from None


def _path(*words: object, **query: object) -> str:
    """Return a path; of the query those that are neither None nor False."""
    path = "".join("/" + quote(str(word), safe="") for word in words)
    asked = {
        name: "true" if value is True else str(value)
        for name, value in query.items()
        if value is not None and value is not False
    }
    return f"{path}?{urlencode(asked)}" if asked else path


def _config_path(subject_name: str | None, **query: object) -> str:
    return _path("config", *([] if subject_name is None else [subject_name]), **query)


def _level_of(subject_name: str | None) -> str:
    of = "" if subject_name is None else f" of the subject '{subject_name}'"
    return f"the compatibility level{of}"
