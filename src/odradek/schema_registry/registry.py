"""The answers of a schema registry, and the records that it wants written. Pure.

A request that changes something gives records for the topic and an answer. The answer counts when the records
are in the topic and were replayed; `Subjects.replay` alone changes what there is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from odradek.schema_registry import errors
from odradek.schema_registry.compatibility import DEFAULT_LEVEL, Earlier, problems
from odradek.schema_registry.guids import guid_of
from odradek.schema_registry.languages import Languages
from odradek.schema_registry.parsed_schema import ParsedSchema
from odradek.schema_registry.requests import LATEST, SchemaRequest
from odradek.schema_registry.schema import AVRO, Schema
from odradek.schema_registry.subjects import IMPORT, READ_ONLY_MODES, READ_WRITE, Subjects
from odradek.schema_registry.topic_records import (
    CLEAR_SUBJECT,
    CONFIG,
    DELETE_SUBJECT,
    MODE,
    Key,
    Record,
    Version,
)


class Outcome(NamedTuple):
    """An answer, and the records that have to be in the topic before it is given."""

    answer: Any
    records: tuple[Record, ...] = ()


class Registry:
    """The registry.

    Args:
        default_level: the compatibility level where no config says one.
        are_modes_mutable: whether modes may be changed (`mode.mutability`).

    Attributes:
        subjects: what there is.
    """

    def __init__(self, default_level: str = DEFAULT_LEVEL, *, are_modes_mutable: bool = True) -> None:
        self.subjects = Subjects()
        self._languages = Languages(self.subjects)
        self._default_level = default_level
        self._are_modes_mutable = are_modes_mutable

    # Schemas by id

    def by_id(self, schema_id: int, format_name: str = "", *, with_highest: bool = False) -> dict[str, Any]:
        """Return the schema of an id.

        Raises:
            RestException: there is none.
        """
        schema = self.subjects.schema(schema_id)
        if schema is None:
            raise errors.schema_not_found(schema_id)
        highest = {"maxId": self.subjects.highest_id} if with_highest else {}
        return self._shown(schema, format_name) | highest

    def by_guid(self, guid: str, format_name: str = "") -> dict[str, Any]:
        """Return the schema of a GUID.

        Raises:
            RestException: there is none.
        """
        versions = self.subjects.of_guid(guid)
        if not versions:
            raise errors.schema_not_found(guid)
        return self._shown(versions[0].schema, format_name)

    def ids_of_guid(self, guid: str) -> list[int]:
        """Return the ids of a GUID, sorted: one, unless a registry was filled with more (IMPORT).

        Raises:
            RestException: there is none.
        """
        versions = self.subjects.of_guid(guid)
        if not versions:
            raise errors.schema_not_found(guid)
        return sorted({version.schema_id for version in versions})

    def uses_of_id(self, schema_id: int, *, deleted: bool) -> list[Version]:
        """Return where an id stands.

        Raises:
            RestException: there is no such id.
        """
        if self.subjects.schema(schema_id) is None:
            raise errors.schema_not_found()
        return self.subjects.uses(schema_id, deleted=deleted)

    # Versions

    def version(
        self, subject: str, number: int, format_name: str = "", *, deleted: bool = False
    ) -> dict[str, Any]:
        """Return a version of a subject.

        Raises:
            RestException: there is no such subject or version.
        """
        return self.show(self._version(subject, number, deleted=deleted), format_name)

    def latest_with_metadata(
        self, subject: str, properties: Mapping[str, str], format_name: str = "", *, deleted: bool = False
    ) -> dict[str, Any]:
        """Return a subject's newest version whose metadata have these properties.

        Raises:
            RestException: there is no such subject or version.
        """
        versions = self.subjects.versions(subject, deleted=deleted)
        if not versions:
            raise errors.subject_not_found(subject)
        for version in reversed(versions):
            there = json.loads(version.schema.metadata or "{}").get("properties")
            if isinstance(there, dict) and all(there.get(key) == value for key, value in properties.items()):
                return self.show(version, format_name)
        raise errors.schema_not_found()

    def show(self, version: Version, format_name: str = "") -> dict[str, Any]:
        """Return a version as answers have it."""
        place = {"subject": version.subject, "version": version.version, "id": version.schema_id}
        return place | self._shown(version.schema, format_name)

    def _version(self, subject: str, number: int, *, deleted: bool) -> Version:
        versions = self.subjects.versions(subject, deleted=deleted)
        if not versions:
            raise errors.subject_not_found(subject)
        if number == LATEST:
            return versions[-1]
        version = next((v for v in versions if v.version == number), None)
        if version is None:
            raise errors.version_not_found(number)
        return version

    def _shown(self, schema: Schema, format_name: str) -> dict[str, Any]:
        shown: dict[str, Any] = {"guid": guid_of(schema), "schema": schema.text}
        if format_name:
            try:
                shown["schema"] = self._languages.parse(schema).formatted(format_name)
            except errors.InvalidSchemaError as problem:
                raise errors.invalid_schema(str(problem)) from None
        if schema.schema_type != AVRO:
            shown["schemaType"] = schema.schema_type
        if schema.references:
            shown["references"] = [reference.as_json() for reference in schema.references]
        for name, text in (("metadata", schema.metadata), ("ruleSet", schema.rule_set)):
            if text:
                shown[name] = json.loads(text)
        return shown

    def referenced_by(self, subject: str, number: int) -> list[int]:
        """Return the ids of the schemas that refer to a version, sorted.

        Raises:
            RestException: there is no such subject or version.
        """
        version = self._version(subject, number, deleted=True)
        referrers = self.subjects.referrers(version.subject, version.version)
        return sorted({referrer.schema_id for referrer in referrers})

    # Registering

    def register(self, subject: str, request: SchemaRequest, *, normalize: bool = False) -> Outcome:
        """Register a schema as a subject's next version, unless it is there already.

        Raises:
            RestException: the mode, the schema, or an earlier version forbids it.
        """
        self._check_register_mode(subject, request)
        is_import = request.schema_id > 0
        schema, parsed = self._understood(subject, request.schema, normalize=normalize and not is_import)
        versions = self.subjects.versions(subject, deleted=True)
        present = [v for v in versions if not v.is_deleted]
        if not is_import and not request.version:
            known = self._same(schema, parsed, present)
            if known is not None:
                return Outcome(self._registered(known))
        if not is_import:
            self._check_compatible(subject, schema, parsed, present)
        following = max((v.version for v in versions), default=0) + 1
        if request.version and not is_import and request.version != following:
            raise errors.invalid_schema("Version is not one more than previous version")
        schema_id = self._id_for(request.schema_id, schema)
        taken = self.subjects.version(subject, request.version)
        if taken is not None and not taken.is_deleted:
            if (taken.schema_id, taken.schema) != (schema_id, schema):
                raise errors.not_permitted(f"Version {request.version} of {subject} is another schema")
            return Outcome(self._registered(taken))
        new = Version(subject, request.version or following, schema_id, schema)
        # What was deleted and is there again does not stay deleted beside itself.
        again = (
            v.tombstone()
            for v in versions
            if v.is_deleted
            and v.schema_id == schema_id
            and v.version < new.version
            and not self.subjects.referrers(subject, v.version, deleted=True)
        )
        return Outcome(self._registered(new), (new.record(), *again))

    def _registered(self, version: Version) -> dict[str, Any]:
        # Without the schema: clients go on with the one that they have sent, in its form.
        return {"version": version.version, "id": version.schema_id, "guid": guid_of(version.schema)}

    def _check_register_mode(self, subject: str, request: SchemaRequest) -> None:
        mode = self.subjects.mode(subject)
        if mode in READ_ONLY_MODES:
            raise errors.wrong_mode(subject, errors.READ_ONLY)
        if request.schema_id and mode != IMPORT:
            raise errors.wrong_mode(subject, errors.NOT_IMPORT)
        if not request.schema_id and mode != READ_WRITE:
            raise errors.wrong_mode(subject, errors.NOT_READ_WRITE)

    def _understood(self, subject: str, schema: Schema, *, normalize: bool) -> tuple[Schema, ParsedSchema]:
        """Return a schema as it is kept, and what it says."""
        try:
            parsed = self._languages.parse(schema)
            text = parsed.text
            if normalize or self.subjects.normalizes(subject):
                text = parsed.normalized()
                references = tuple(sorted(set(schema.references)))
                schema = Schema(schema.schema_type, text, references, schema.metadata, schema.rule_set)
                parsed = self._languages.parse(schema)
        except errors.InvalidSchemaError as problem:
            raise errors.invalid_schema(
                f"Invalid schema of type {schema.schema_type} for subject {subject}, details: {problem}"
            ) from None
        return Schema(schema.schema_type, text, schema.references, schema.metadata, schema.rule_set), parsed

    def _same(self, schema: Schema, parsed: ParsedSchema, versions: Iterable[Version]) -> Version | None:
        """Return the version that has a schema already, the newest of several."""
        for version in reversed(list(versions)):
            if version.schema == schema:
                return version
            other = version.schema
            if (other.schema_type, other.references, other.metadata, other.rule_set) == (
                schema.schema_type,
                schema.references,
                schema.metadata,
                schema.rule_set,
            ):
                try:
                    if self._languages.parse(other).identity == parsed.identity:
                        return version
                except errors.InvalidSchemaError:
                    continue
        return None

    def _check_compatible(
        self, subject: str, schema: Schema, parsed: ParsedSchema, versions: Iterable[Version]
    ) -> None:
        messages = self._problems(subject, schema, parsed, versions)
        if messages:
            raise errors.incompatible_schema(subject, messages)

    def _problems(
        self, subject: str, schema: Schema, parsed: ParsedSchema, versions: Iterable[Version]
    ) -> list[str]:
        level = self.subjects.level(subject, self._default_level)
        if level == "NONE":
            return []
        try:
            earlier = [
                Earlier(v.version, v.schema.schema_type, self._languages.parse(v.schema)) for v in versions
            ]
        except errors.InvalidSchemaError as problem:
            raise errors.invalid_schema(f"An earlier version of {subject} is not valid: {problem}") from None
        return problems(level, schema.schema_type, parsed, earlier)

    def _id_for(self, asked_for: int, schema: Schema) -> int:
        if not asked_for:
            return self.subjects.id_of(schema) or self.subjects.highest_id + 1
        other = self.subjects.schema(asked_for)
        if other is not None and other != schema:
            raise errors.not_permitted(
                f"Overwrite new schema with id {asked_for} in context  is not permitted."
            )
        return asked_for

    def look_up(
        self, subject: str, request: SchemaRequest, format_name: str = "", *, normalize: bool, deleted: bool
    ) -> dict[str, Any]:
        """Return the version that has a schema.

        Raises:
            RestException: there is no such subject, or it does not have the schema.
        """
        schema, parsed = self._understood(subject, request.schema, normalize=normalize)
        version = self._same(schema, parsed, self.subjects.versions(subject, deleted=deleted))
        if version is not None:
            return self.show(version, format_name)
        if not self.subjects.has(subject, deleted=deleted):
            raise errors.subject_not_found(subject)
        raise errors.schema_not_found()

    def compatibility(
        self,
        subject: str,
        request: SchemaRequest,
        number: int | None = None,
        *,
        normalize: bool,
        verbose: bool,
    ) -> dict[str, Any]:
        """Return whether a schema could be registered.

        Args:
            number: compare with this version, or `LATEST`; None: with those that the level asks for.

        Raises:
            RestException: there is no such version, or the schema is not valid and the answer is not verbose.
        """
        versions = self.subjects.versions(subject)
        if number == LATEST:
            versions = versions[-1:]
        elif number is not None:
            versions = [v for v in versions if v.version == number]
            if not versions:
                raise errors.version_not_found(number)
        try:
            schema, parsed = self._understood(subject, request.schema, normalize=normalize)
            messages = self._problems(subject, schema, parsed, versions)
        except errors.RestException as problem:
            if not verbose:
                raise
            messages = [str(problem)]
        return {"is_compatible": not messages, **({"messages": messages} if verbose else {})}

    # Deleting

    def delete_version(self, subject: str, number: int, *, permanent: bool) -> Outcome:
        """Delete a version: hide it, or (`permanent`) remove one that is hidden.

        Raises:
            RestException: there is none, it is referred to, or it is not hidden, or hidden, already.
        """
        self._check_writable(subject)
        version = self._version(subject, number, deleted=True)
        if number == LATEST and not permanent:
            version = self._version(subject, number, deleted=False)
        if not permanent and version.is_deleted:
            raise errors.version_soft_deleted(subject, version.version)
        if self.subjects.referrers(subject, version.version, deleted=permanent):
            raise errors.reference_exists(subject, version.version)
        if not permanent:
            return Outcome(version.version, (version._replace(is_deleted=True).record(),))
        if not version.is_deleted:
            raise errors.version_not_soft_deleted(subject, version.version)
        is_last = len(self.subjects.versions(subject, deleted=True)) == 1
        return Outcome(
            version.version, (version.tombstone(), *(self._settings_of(subject) if is_last else ()))
        )

    def delete_subject(self, subject: str, *, permanent: bool) -> Outcome:
        """Delete all versions of a subject: hide them, or (`permanent`) remove those that are hidden.

        Raises:
            RestException: there are none, one is referred to, or they are not hidden, or hidden, already.
        """
        self._check_writable(subject)
        if not self.subjects.has(subject, deleted=True):
            raise errors.subject_not_found(subject)
        if not permanent and not self.subjects.has(subject):
            raise errors.subject_soft_deleted(subject)
        versions = self.subjects.versions(subject, deleted=permanent)
        for version in versions:
            referrers = self.subjects.referrers(subject, version.version, deleted=permanent)
            if any(referrer.subject != subject for referrer in referrers):
                raise errors.reference_exists(subject, version.version)
        if permanent and self.subjects.has(subject):
            raise errors.subject_not_soft_deleted(subject)
        numbers = [version.version for version in versions]
        if not permanent:
            value = {"subject": subject, "version": numbers[-1]}
            return Outcome(numbers, (Record(Key(DELETE_SUBJECT, subject), value),))
        # The newest first: they may refer to older ones.
        tombstones = (version.tombstone() for version in reversed(versions))
        return Outcome(numbers, (*tombstones, *self._settings_of(subject)))

    def _settings_of(self, subject: str) -> list[Record]:
        """Return the tombstones of a subject's own config and mode."""
        settings = ((CONFIG, self.subjects.configs), (MODE, self.subjects.modes))
        return [Record(Key(keytype, subject), None) for keytype, kept in settings if subject in kept]

    # Configs and modes

    def config(self, subject: str | None, *, or_global: bool = False) -> dict[str, Any]:
        """Return a subject's config, or (None) that of all.

        Raises:
            RestException: the subject has none, and that of all does not count (`or_global`).
        """
        of_all = {"compatibilityLevel": self._default_level, **self.subjects.configs.get(None, {})}
        if subject is None:
            return of_all
        own = self.subjects.configs.get(subject)
        if own is None and not or_global:
            raise errors.compatibility_not_configured(subject)
        return {**of_all, **(own or {})} if or_global else own or {}

    def set_config(self, subject: str | None, config: dict[str, Any]) -> Outcome:
        """Set a config; what it does not say stays.

        Raises:
            RestException: the subject is read-only.
        """
        self._check_writable(subject)
        merged = {**self.subjects.configs.get(subject, {}), **config}
        value = {**({} if subject is None else {"subject": subject}), **merged}
        shown = {"compatibility" if name == "compatibilityLevel" else name: v for name, v in config.items()}
        return Outcome(shown, (Record(Key(CONFIG, subject), value),))

    def delete_config(self, subject: str | None) -> Outcome:
        """Make a config the default again.

        Raises:
            RestException: the subject has none, or is read-only.
        """
        if subject is not None and subject not in self.subjects.configs:
            raise errors.subject_not_found(subject)
        self._check_writable(subject)
        return Outcome(self.config(subject), (Record(Key(CONFIG, subject), None),))

    def mode(self, subject: str | None, *, or_global: bool = False) -> dict[str, str]:
        """Return a subject's mode, or (None) that of all.

        Raises:
            RestException: the subject has none, and that of all does not count (`or_global`).
        """
        if subject is not None and subject not in self.subjects.modes and not or_global:
            raise errors.mode_not_configured(subject)
        return {"mode": self.subjects.mode(subject)}

    def set_mode(self, subject: str | None, mode: str, *, force: bool = False) -> Outcome:
        """Set a mode. IMPORT is for what is empty: what was deleted there is removed.

        Raises:
            RestException: modes are not changed here, or there are schemas (`force`: never mind).
        """
        self._check_mutable()
        setting = Record(
            Key(MODE, subject), {**({} if subject is None else {"subject": subject}), "mode": mode}
        )
        if mode != IMPORT or self.subjects.mode(subject) == IMPORT or force:
            return Outcome({"mode": mode}, (setting,))
        names = self.subjects.names(deleted=True) if subject is None else [subject]
        if any(self.subjects.has(name) for name in names):
            raise errors.not_permitted("Cannot import since found existing subjects")
        versions = [version for name in names for version in self.subjects.versions(name, deleted=True)]
        for version in versions:
            if self.subjects.referrers(version.subject, version.version, deleted=True):
                raise errors.reference_exists(version.subject, version.version)
        value = {} if subject is None else {"subject": subject}
        clearing = Record(Key(CLEAR_SUBJECT, subject), value)
        return Outcome({"mode": mode}, (*(v.tombstone() for v in versions), clearing, setting))

    def delete_mode(self, subject: str | None) -> Outcome:
        """Make a mode the default again.

        Raises:
            RestException: there is none, or modes are not changed here.
        """
        if subject not in self.subjects.modes:
            raise errors.subject_not_found(str(subject))
        self._check_mutable()
        return Outcome({"mode": self.subjects.modes[subject]}, (Record(Key(MODE, subject), None),))

    def _check_mutable(self) -> None:
        if not self._are_modes_mutable:
            raise errors.not_permitted("Mode changes are not allowed")

    def _check_writable(self, subject: str | None) -> None:
        if self.subjects.mode(subject) in READ_ONLY_MODES:
            raise errors.wrong_mode(str(subject), errors.READ_ONLY)
