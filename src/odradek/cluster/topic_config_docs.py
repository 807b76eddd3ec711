"""What each topic config is for: shown by DescribeConfigs and in docs/configuration.md."""

from __future__ import annotations

from collections.abc import Mapping

TOPIC_DOCS: Mapping[str, str] = {
    "segment.bytes": "Size in bytes at which a log starts a new segment file.",
    "segment.ms": "Age in ms at which a log starts a new segment even though it is not full.",
    "segment.jitter.ms": "Up to how many ms earlier, at random, a segment is closed, so that not all "
    "close at once.",
    "segment.index.bytes": "Size in bytes that an index file may reach; a full index starts a new segment.",
    "flush.messages": "After how many records a log is synced to disk; usually left to the operating system.",
    "flush.ms": "After how many ms a log is synced to disk; usually left to the operating system.",
    "retention.bytes": "Size in bytes above which a partition's oldest segments are deleted; -1 for no "
    "limit.",
    "retention.ms": "Age in ms above which a partition's segments are deleted; -1 for no limit.",
    "max.message.bytes": "Largest record batch in bytes, as it comes in, that the topic takes.",
    "index.interval.bytes": "After how many bytes of records the offset index gets another entry.",
    "delete.retention.ms": "How long a compacted topic keeps the markers of deleted keys, in ms.",
    "min.compaction.lag.ms": "How long a record stays out of compaction at least, in ms.",
    "max.compaction.lag.ms": "How long a record may stay out of compaction at most, in ms.",
    "file.delete.delay.ms": "How long a deleted segment's files stay on disk before they are removed, in ms.",
    "min.cleanable.dirty.ratio": "Share of a log that must be uncompacted before the cleaner takes it up.",
    "cleanup.policy": "What happens to old segments: delete them, compact them by key, or both.",
    "unclean.leader.election.enable": "Whether a replica that is not in sync may lead, at the price of "
    "lost records.",
    "min.insync.replicas": "How many replicas must be in sync for a write with acks=all to be taken.",
    "compression.type": "Codec in which the log is kept; `producer` keeps what the producer sent.",
    "compression.gzip.level": "Level used where the broker compresses with gzip; -1 for the codec's own "
    "default.",
    "compression.lz4.level": "Level used where the broker compresses with lz4.",
    "compression.zstd.level": "Level used where the broker compresses with zstd.",
    "preallocate": "Whether a new segment's file gets its full size at once.",
    "message.format.version": "Record format of old releases; without effect since 3.0.",
    "message.timestamp.type": "Whether records keep the producer's time or get the time of the append.",
    "message.timestamp.difference.max.ms": "How far a record's time may be from the broker's, in ms; "
    "replaced by the two configs for before and after.",
    "message.timestamp.before.max.ms": "How far in the past a record's time may be, in ms, with CreateTime.",
    "message.timestamp.after.max.ms": "How far in the future a record's time may be, in ms, with CreateTime.",
    "leader.replication.throttled.replicas": "Replicas whose outgoing replication is limited: "
    "partition:broker pairs, or * for all.",
    "follower.replication.throttled.replicas": "Replicas whose incoming replication is limited: "
    "partition:broker pairs, or * for all.",
    "message.downconversion.enable": "Whether records are converted for consumers that know only older "
    "formats.",
    "remote.storage.enable": "Whether old segments move to remote storage.",
    "local.retention.ms": "How long segments stay local that are in remote storage, in ms; -2 follows "
    "retention.ms.",
    "local.retention.bytes": "How much stays local of what is in remote storage, in bytes; "
    "-2 follows retention.bytes.",
    "remote.log.copy.disable": "Whether copying to remote storage stops while what is there stays readable.",
    "remote.log.delete.on.disable": "Whether switching remote storage off deletes what is there.",
}
"""Per topic config a sentence or two."""
