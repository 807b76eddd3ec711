"""The cluster's metadata: where it is kept, what it says, and who decides.

Rooms, each of which knows only those below it, and the files beside them:

- `controller`: who decides. Pure decisions, and the parts that write them and tell the brokers;
- `access`: ACLs, credentials, delegation tokens and quotas, as they are kept;
- `configs`: typed configs, and the table of topic configs;
- `image`: what the nodes say, as immutable objects with fast lookups; `loading` reads it out of them;
- `nodes`: their JSON (docs/metadata.md);
- `store`: the tree of nodes, behind one interface with ZooKeeper's semantics; `paths`: the nodes' names.

Imports `wire` at most; knows nothing of logs, sockets or the broker.
"""
