"""The store of the cluster's metadata: one interface with ZooKeeper's semantics, and what fulfils it.

`store` is the interface, `tree` the nodes behind the stores of this package: `memory` (tests, simulations)
and `embedded` (SQLite, one broker; by `store_server` and `remote_store` the workers of one machine);
`zookeeper` is a session with ZooKeeper. docs/metadata.md.
"""
