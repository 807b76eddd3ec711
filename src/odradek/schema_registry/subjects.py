"""The state that the topic `_schemas` says: subjects with their versions, configs and modes. Pure.

`replay` alone changes it, record by record in the order of the topic; whoever has replayed the same records
has the same subjects.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from odradek.schema_registry.guids import guid_of
from odradek.schema_registry.schema import Schema
from odradek.schema_registry.topic_records import (
    CLEAR_SUBJECT,
    CONFIG,
    DELETE_SUBJECT,
    MODE,
    SCHEMA,
    Key,
    UnreadableRecordError,
    Version,
    version_of,
)

READ_WRITE, READ_ONLY, IMPORT = "READWRITE", "READONLY", "IMPORT"
#: READONLY_OVERRIDE is an old word of Confluent's registry.
READ_ONLY_MODES = (READ_ONLY, "READONLY_OVERRIDE")


class Subjects:
    """The state of a registry.

    Attributes:
        configs: by subject; under None what holds for those without. `compatibilityLevel` and `normalize`.
        modes: by subject, and under None.
        highest_id: that a schema ever had here; ids are not given twice.
        removals: how often something was removed for good.
    """

    def __init__(self) -> None:
        self.configs: dict[str | None, dict[str, Any]] = {}
        self.modes: dict[str | None, str] = {}
        self.highest_id = 0
        self.removals = 0
        self._subjects: dict[str, dict[int, Version]] = {}
        self._uses: dict[int, dict[tuple[str, int], Schema]] = {}
        """Where each id stands. All have the same schema."""
        self._ids: dict[Schema, int] = {}
        self._by_guid: dict[str, dict[tuple[str, int], Version]] = {}
        self._referrers: dict[tuple[str, int], set[tuple[str, int]]] = defaultdict(set)
        """By what is referred to, the versions that do."""

    def replay(self, key: Key, value: Mapping[str, Any] | None) -> None:
        """Take up the next record of the topic.

        Raises:
            UnreadableRecordError: a record that no registry writes; nothing has changed.
        """
        if key.keytype == SCHEMA:
            self._replay_schema(key, value)
        elif key.keytype in (CONFIG, MODE):
            self._replay_setting(key, value)
        elif key.keytype == DELETE_SUBJECT and value is not None:
            self._delete_up_to(key.subject or "", value.get("version"))
        elif key.keytype == CLEAR_SUBJECT and value is not None:
            self._clear(key.subject)

    def _replay_schema(self, key: Key, value: Mapping[str, Any] | None) -> None:
        assert key.subject is not None
        new = None if value is None else version_of(key, value)
        old = self._subjects.get(key.subject, {}).get(key.version)
        if old is not None:
            self._forget(old)
        if new is None:
            self.removals += 1
        else:
            self._keep(new)

    def _replay_setting(self, key: Key, value: Mapping[str, Any] | None) -> None:
        settings: dict[str | None, Any] = self.configs if key.keytype == CONFIG else self.modes
        if value is None:
            settings.pop(key.subject, None)
        elif key.keytype == CONFIG:
            known = ("compatibilityLevel", "normalize")
            settings[key.subject] = {name: value[name] for name in known if value.get(name) is not None}
        elif isinstance(value.get("mode"), str):
            settings[key.subject] = value["mode"]
        else:
            raise UnreadableRecordError(f"not a mode: {dict(value)}")

    def _keep(self, new: Version) -> None:
        place = (new.subject, new.version)
        self._subjects.setdefault(new.subject, {})[new.version] = new
        self._uses.setdefault(new.schema_id, {})[place] = new.schema
        self._ids.setdefault(new.schema, new.schema_id)
        self._by_guid.setdefault(guid_of(new.schema), {})[place] = new
        self.highest_id = max(self.highest_id, new.schema_id)
        for reference in new.schema.references:
            self._referrers[reference.subject, reference.version].add(place)

    def _forget(self, old: Version) -> None:
        place = (old.subject, old.version)
        versions = self._subjects[old.subject]
        del versions[old.version]
        if not versions:
            del self._subjects[old.subject]
        uses = self._uses[old.schema_id]
        del uses[place]
        if not uses:
            del self._uses[old.schema_id]
            if self._ids.get(old.schema) == old.schema_id:
                del self._ids[old.schema]
        guid = guid_of(old.schema)
        del self._by_guid[guid][place]
        if not self._by_guid[guid]:
            del self._by_guid[guid]
        for reference in old.schema.references:
            referred = (reference.subject, reference.version)
            self._referrers[referred].discard(place)
            if not self._referrers[referred]:
                del self._referrers[referred]

    def _delete_up_to(self, subject: str, last: Any) -> None:
        if not isinstance(last, int):
            raise UnreadableRecordError(f"not a version: {last!r}")
        versions = self._subjects.get(subject, {})
        for number, version in versions.items():
            if number <= last:
                versions[number] = version._replace(is_deleted=True)

    def _clear(self, subject: str | None) -> None:
        self.removals += 1
        for name in [subject] if subject is not None else list(self._subjects):
            for version in self.versions(name, deleted=True):
                if version.is_deleted:
                    self._forget(version)

    def names(self, *, deleted: bool = False) -> list[str]:
        """The subjects, sorted; `deleted`: also those that have nothing but deleted versions."""
        return sorted(name for name in self._subjects if self.has(name, deleted=deleted))

    def has(self, subject: str, *, deleted: bool = False) -> bool:
        """Return whether there is such a subject; `deleted`: deleted versions count."""
        return any(deleted or not v.is_deleted for v in self._subjects.get(subject, {}).values())

    def versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        """The versions of a subject, the newest last; `deleted`: with those that were deleted."""
        versions = self._subjects.get(subject, {})
        return [versions[n] for n in sorted(versions) if deleted or not versions[n].is_deleted]

    def version(self, subject: str, number: int) -> Version | None:
        """Return a version, deleted or not."""
        return self._subjects.get(subject, {}).get(number)

    def schema(self, schema_id: int) -> Schema | None:
        """Return the schema of an id."""
        return next(iter(self._uses.get(schema_id, {}).values()), None)

    def of_guid(self, guid: str) -> list[Version]:
        """Return the versions, deleted or not, whose schema has a GUID."""
        return list(self._by_guid.get(guid, {}).values())

    def id_of(self, schema: Schema) -> int | None:
        """Return the id that a schema has, in whatever subject."""
        return self._ids.get(schema)

    def uses(self, schema_id: int, *, deleted: bool = False) -> list[Version]:
        """The versions that have an id, sorted by subject and version."""
        return list(self._at(sorted(self._uses.get(schema_id, ())), deleted))

    def referrers(self, subject: str, number: int, *, deleted: bool = False) -> list[Version]:
        """The versions that refer to one."""
        return list(self._at(sorted(self._referrers.get((subject, number), ())), deleted))

    def _at(self, places: Iterable[tuple[str, int]], deleted: bool) -> Iterator[Version]:
        for subject, number in places:
            version = self._subjects[subject][number]
            if deleted or not version.is_deleted:
                yield version

    def level(self, subject: str, default: str) -> str:
        """Return the compatibility level that holds for a subject."""
        return str(self._setting("compatibilityLevel", subject, default))

    def normalizes(self, subject: str) -> bool:
        """Return whether schemas of a subject are normalized unasked."""
        return bool(self._setting("normalize", subject, False))

    def _setting(self, name: str, subject: str, default: Any) -> Any:
        for scope in (subject, None):
            if name in self.configs.get(scope, {}):
                return self.configs[scope][name]
        return default

    def mode(self, subject: str | None) -> str:
        """Return the mode that holds for a subject."""
        return self.modes.get(subject) or self.modes.get(None) or READ_WRITE
