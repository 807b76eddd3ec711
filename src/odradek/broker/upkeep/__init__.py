"""Work on the logs beside requests: flushes, retention, compaction, moves between folders."""
