"""The cluster's metadata: where it is kept, what it says, and who decides.

- `store`: the interface, with ZooKeeper's semantics; `tree` the node tree behind the two stores of this
  package, `memory` (tests, simulations) and `embedded` (SQLite in the data folder, one broker).
- `paths`, `nodes`: Kafka's node names and their JSON.
- `image`: what the nodes say, as immutable objects with fast lookups.
- `assignment`, `elections`, `topics`: pure decisions: which broker holds what, who leads, which topics
  may be.
- `decisions`: (image, event) -> (delta, node writes); `controller`: the thin shell that writes and tells;
  `admin`: what clients ask of it; `loading`: the image out of the nodes.
- `config_def`, `topic_config`: typed configs and the table of topic configs.

Imports `wire` at most; knows nothing of logs, sockets or the broker. docs/metadata.md describes the nodes.
"""
