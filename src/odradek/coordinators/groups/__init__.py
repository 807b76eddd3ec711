"""Classic consumer groups and their committed offsets.

states          the five states and the legal moves between them
member          one member as the coordinator sees it
classic_group   membership, leader, protocol voting, generations
rebalance       how a rebalance starts, waits and ends; who is thrown out when
join, sync, heartbeat, leave      one request each
offset_store    committed and pending offsets, changed by replay only
offsets         commit, fetch, expiry, deletion
records         the records of `__consumer_offsets`, out and in
shard           one partition: its groups and offsets, replay, loading, unloading
coordinator     the entry: validation, the way to the shard, the error in each response
"""
