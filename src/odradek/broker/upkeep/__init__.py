"""What happens to the logs by and by: flushes, retention, compaction, moves between folders."""
