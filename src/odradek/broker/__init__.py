"""One broker: `app` puts it together, `services` is what its rooms know of it.

Rooms, each of which knows only those below it, and those beside it in a line not at all:

- `process`: the process around it; `handlers`: one per API, found by `apis.registry` alone;
- `assembly`: parts of `app`, for it alone;
- `membership`: one broker among several; `upkeep`: work on the logs by the clock;
- `sasl`: logins at listeners;
- `network`: sockets, connections, the dispatcher; `transactions`: the transaction coordinator's shell;
- `quotas`: what clients may take; `groups`: the group coordinator's shell;
- `fetch`: sessions, reading, responses; `coordination`: what the coordinators' shells share; `folders`: data
  folders at a start, and when one fails;
- `metadata`: the cluster as this broker knows it;
- `interbroker`: channels between brokers; `authorizer`: who may do what, by ACLs;
- `apis`: handlers by API and version; `config`: the broker's configs;
- `kafka_versions`: being an older Kafka; `conversion`: records between formats; `replicas`: its partitions;
- `requests`: one request, its peer, its answer;
- `event_loop`: long work in slices, timers; `metrics`: counters.

`services` names the types of all of them, for handlers; at run time it knows none.
"""

from odradek.util.stale import check_walk

check_walk()
