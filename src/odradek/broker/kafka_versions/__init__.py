"""Be any Kafka: what each release served and how it answered, as data and pure functions.

`release.find("2.2")` is a release; `odradek.broker.apis.registry.Handlers` limits the handlers to it, and
passes their answers through `answers.adapt`. A broker that is told nothing looks at none of this. What the
releases differ in, and the sources, stand in docs/kafka_versions.md.
"""
