"""Coordinators: event-sourced state machines over the partitions of an internal topic.

A command reads the state of one shard (one partition of `__consumer_offsets`) and says which records are to
be written and what the answer is. The records are appended to the partition's log, `replay` applies them to
the durable state, and the answer leaves once they are committed. Loading a shard after a restart or a move
is the same `replay` over the whole partition.

Nothing here imports asyncio, opens a file or reads a clock: the log, the clock and the timers are handed in
(`runtime.RecordLog`, `odradek.util`). `docs/coordinators.md` walks through it.
"""
