"""A schema registry that speaks the REST interface of Confluent's, and keeps its schemas as that one does.

The core has no I/O. `languages` reads schemas, by the library of each language; `*_compatibility` says
whether one reads what another has written. `subjects` is what the topic `_schemas` says: `replay` alone
changes it. `registry` answers: what changes something is a list of records for the topic and an answer, and
counts once the records were read back. `rest` is the table of paths. Around it are `kafka_store`, which
writes and reads the topic, and `server`, which puts all together with `odradek.util.http_server`.
`docs/schema_registry.md` is the guide.
"""
