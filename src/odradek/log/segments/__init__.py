"""One segment of a log: its file, its indexes, and the ways through them."""
