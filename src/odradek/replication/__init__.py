"""A partition's replication: who leads, who is in sync, what is committed, and how a follower copies.

- `partition`: one replica with its log (`Partition`), on top of its leadership (`leadership`), its ISR
  (`in_sync`) and the leader's knowledge of its followers (`followers`);
- `reading`, `lookups`: who may read how far, and offsets by time;
- `delayed`: the purgatory, where requests wait for a high watermark or for records;
- `replica_fetcher`: the follower's side of one leader, with its `fetch_session_handler`; `following` cuts
  what the leader does not have, and appends what it sends (`fetched_replica`);
- `replication_quota`, `sampled_rate`: throttles of copies;
- `replica_selector`: the replica nearest to a consumer.

Imports `log` and what is below it; knows no sockets, no event loop and no clock.
"""
